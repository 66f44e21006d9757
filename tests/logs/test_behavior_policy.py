"""Exploring policies, the chances they write, and what a log with chances is good for."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from helpers.binomial_bands import assert_within
from oracles import log_statistics as oracles
from rewardmix import InputError, logs, plan, problems, save, simulate, uniform_policy
from rewardmix.evaluation import controller_value
from rewardmix.logs import off_policy
from rewardmix.policy import BeliefPolicy, EpsilonGreedyPolicy, MarkovPolicy, make_epsilon_greedy
from rewardmix.simulation import compute_propensities


def test_an_exploring_controller_plays_any_action_as_often_as_it_says():
    model = oracles.make_random_model(states=3, actions=4, horizon=5, seed=2)
    policy = plan(model).policy
    played = make_epsilon_greedy(policy, 0.2, 4)
    assert isinstance(played, EpsilonGreedyPolicy)
    for episodes in (
        simulate(policy, model, 4000, seed=3, explore_prob=0.2),
        simulate(BeliefPolicy(model, plan(model).alpha_vectors), model, 300, seed=3, explore_prob=0.2),
    ):
        if len(episodes) == 4000:
            prob = compute_propensities(played, episodes)
            is_own_action = prob > 0.5
            assert np.allclose(np.unique(prob), [0.05, 0.85])
            assert_within(is_own_action.sum(), is_own_action.size, 0.85, "own actions")
        assert episodes.horizon == 5
    same = simulate(policy, model, 200, seed=3, explore_prob=0.0)
    assert np.array_equal(same.actions, simulate(policy, model, 200, seed=3).actions)
    by_hand = np.random.default_rng(1)
    acts = [played.act(played.start(0), by_hand) for _ in range(2000)]
    assert_within(np.sum(np.array(acts) == policy.act(policy.start(0), by_hand)), 2000, 0.85, "by hand")


def test_a_table_that_explores_is_a_table():
    model = oracles.make_random_model()
    sharp = MarkovPolicy(np.broadcast_to(np.eye(3)[0], (6, 4, 3)))
    soft = make_epsilon_greedy(sharp, 0.3, 3)
    assert isinstance(soft, MarkovPolicy)
    assert soft.table[0, 0] == pytest.approx([0.8, 0.1, 0.1])
    episodes = simulate(soft, model, 50)
    expected = np.where(episodes.actions == 0, 0.8, 0.1)
    assert compute_propensities(soft, episodes) == pytest.approx(expected)


@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan, "often"])
def test_no_share_to_explore(bad):
    model = oracles.make_random_model()
    with pytest.raises(InputError, match="explore"):
        simulate(uniform_policy(model), model, 5, explore_prob=bad)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_chances_are_written_and_read(tmp_path, name):
    model = oracles.make_random_model()
    policy = make_epsilon_greedy(plan(model).policy, 0.1, 3)
    episodes = simulate(policy, model, 400, seed=1)
    logs.write_log(tmp_path / name, episodes, policy=policy, rows_per_group=600)
    log = logs.read_log(tmp_path / name, rows_per_partition=600)
    assert log.sample(10_000).propensities(log.schema) == pytest.approx(
        compute_propensities(policy, episodes), rel=1e-12
    )
    half = log.sample(200, seed=1)
    assert half.propensities(log.schema).shape == (len(half), 6)
    without = logs.read_log(tmp_path / name, columns={"propensity": None})
    assert without.sample(10_000).propensities(log.schema) is None
    assert oracles.same(log.episodes(), episodes)


def test_chances_wait_in_files_with_their_episodes(tmp_path, monkeypatch):
    """Parts in a temporary directory, as with processes."""
    from rewardmix.logs.log import CompactEpisodes, load_partition, spill

    partition = CompactEpisodes(
        np.arange(3, dtype=np.int32), np.array([2, 1], np.int32), np.array([0, 1], np.int32), np.array([0.5, 1.0, 0.25])
    )
    again = load_partition(spill(partition, str(tmp_path / "part")))
    assert again.stored_propensities.tolist() == [0.5, 1.0, 0.25]
    assert again.select(np.array([False, True])).stored_propensities.tolist() == [0.25]


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.01, np.nan, np.inf, None])
def test_no_chance_of_an_action_that_was_taken(bad, tmp_path):
    rows = oracles.rows_of(oracles.uniform_log(20))
    rows["propensity"] = [0.3333] * len(rows["episode"])
    rows["propensity"][7] = bad
    with pytest.raises(InputError, match=r"propensities that are not above 0 and at most 1: 1, first in episode"):
        logs.read_log(pa.table(rows))
    log = logs.read_log(pa.table(rows), drop_invalid=1.0)
    assert len(log) == 19
    assert (log.sample(100).stored_propensities == 0.3333).all()


def test_known_chances_weigh_the_estimate():
    """The estimate of fit is that of its formula with the chances of the log, and the interval has no more in it."""
    model = problems.make_model("probe")
    policy = make_epsilon_greedy(plan(model).policy, 0.1, 4)
    episodes = simulate(policy, model, 2000, seed=5)
    table = {**oracles.rows_of(episodes), "propensity": compute_propensities(policy, episodes).ravel()}
    arguments = {}

    def spy(result, held_out, prob, **options):
        arguments.update(options, propensities=prob, fresh=held_out)
        return off_policy.estimate_off_policy(result, held_out, prob, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rewardmix.logs.fit_validation.estimate_off_policy", spy)
        fitted = logs.fit(pa.table(table), num_resamples=0)
        assert "num_propensity_episodes" not in arguments
        assert np.allclose(arguments["propensities"], compute_propensities(policy, arguments["fresh"]))
        logs.fit(episodes, num_resamples=0)
        assert arguments["num_propensity_episodes"] > 1500
    result = fitted.info.off_policy
    assert result.is_supported
    assert "with logged propensities" in result.text
    assert result.lower < controller_value(fitted.plan.policy, model) < result.upper


@pytest.mark.system
def test_the_command_writes_propensities_of_a_plan_that_explores(tmp_path):
    """From fit to the log of next week, and a log with a bad chance: refused by name, and nothing is written."""
    from cli.test_log_commands import run

    model = problems.make_model("probe")
    save(tmp_path / "plan.safetensors", plan(model))
    play = ["simulate", "probe", "--policy", "plan.safetensors", "--num-episodes", "300", "--out", "log.parquet"]
    done = run(*play, "--explore-prob", "0.2", "--with-propensities", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    log = logs.read_log(tmp_path / "log.parquet")
    assert np.allclose(np.unique(log.sample(1000).stored_propensities), [0.05, 0.85])
    bad = run(*play, "--explore-prob", "2", cwd=tmp_path)
    assert bad.returncode == 2
    assert "explore" in bad.stderr
    assert "got 2.0, expected a number from 0 to 1" in bad.stderr
    rows = pd.read_parquet(tmp_path / "log.parquet")
    rows.loc[5, "propensity"] = 0.0
    rows.to_parquet(tmp_path / "bad.parquet")
    done = run("fit", "bad.parquet", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "propensities that are not above 0 and at most 1" in done.stderr
    assert not (tmp_path / "out").exists()
