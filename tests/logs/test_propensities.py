"""Exploring policies, the chances they write, and what a log with chances is good for."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bands import assert_within
from logs import oracles_logs as oracles
from rewardmix import InputError, logs, plan, problems, save, simulate, uniform
from rewardmix.evaluation import controller_value
from rewardmix.logs import offpolicy
from rewardmix.policy import BeliefPolicy, Exploring, MarkovPolicy, exploring
from rewardmix.simulation import propensities


def test_an_exploring_controller_plays_any_action_as_often_as_it_says():
    model = oracles.world(states=3, actions=4, horizon=5, seed=2)
    policy = plan(model).policy
    played = exploring(policy, 0.2, 4)
    assert isinstance(played, Exploring)
    for episodes in (
        simulate(policy, model, 4000, seed=3, explore=0.2),
        simulate(BeliefPolicy(model, plan(model).alpha_vectors), model, 300, seed=3, explore=0.2),
    ):
        if len(episodes) == 4000:
            chance = propensities(played, episodes)
            own = chance > 0.5
            assert np.allclose(np.unique(chance), [0.05, 0.85])
            assert_within(own.sum(), own.size, 0.85, "own actions")
        assert episodes.horizon == 5
    same = simulate(policy, model, 200, seed=3, explore=0.0)
    assert np.array_equal(same.actions, simulate(policy, model, 200, seed=3).actions)
    by_hand = np.random.default_rng(1)
    acts = [played.act(played.start(0), by_hand) for _ in range(2000)]
    assert_within(np.sum(np.array(acts) == policy.act(policy.start(0), by_hand)), 2000, 0.85, "by hand")


def test_a_table_that_explores_is_a_table():
    model = oracles.world()
    sharp = MarkovPolicy(np.broadcast_to(np.eye(3)[0], (6, 4, 3)))
    soft = exploring(sharp, 0.3, 3)
    assert isinstance(soft, MarkovPolicy)
    assert soft.table[0, 0] == pytest.approx([0.8, 0.1, 0.1])
    episodes = simulate(soft, model, 50)
    expected = np.where(episodes.actions == 0, 0.8, 0.1)
    assert propensities(soft, episodes) == pytest.approx(expected)


@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan, "often"])
def test_no_share_to_explore(bad):
    model = oracles.world()
    with pytest.raises(InputError, match="explore"):
        simulate(uniform(model), model, 5, explore=bad)


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_chances_are_written_and_read(tmp_path, name):
    model = oracles.world()
    policy = exploring(plan(model).policy, 0.1, 3)
    episodes = simulate(policy, model, 400, seed=1)
    logs.write(tmp_path / name, episodes, policy=policy, rows_per_group=600)
    log = logs.read(tmp_path / name, rows_per_part=600)
    assert log.sample(10_000).chances(log.schema) == pytest.approx(propensities(policy, episodes), rel=1e-12)
    half = log.sample(200, seed=1)
    assert half.chances(log.schema).shape == (len(half), 6)
    without = logs.read(tmp_path / name, columns={"propensity": None})
    assert without.sample(10_000).chances(log.schema) is None
    assert oracles.same(log.episodes(), episodes)


def test_chances_wait_in_files_with_their_episodes(tmp_path, monkeypatch):
    """Parts in a temporary directory, as with processes."""
    from rewardmix.logs.log import Compact, loaded, store

    part = Compact(
        np.arange(3, dtype=np.int32), np.array([2, 1], np.int32), np.array([0, 1], np.int32), np.array([0.5, 1.0, 0.25])
    )
    again = loaded(store(part, str(tmp_path / "part")))
    assert again.propensity.tolist() == [0.5, 1.0, 0.25]
    assert again.chosen(np.array([False, True])).propensity.tolist() == [0.25]


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.01, np.nan, np.inf, None])
def test_no_chance_of_an_action_that_was_taken(bad, tmp_path):
    rows = oracles.rows_of(oracles.uniform_log(20))
    rows["propensity"] = [0.3333] * len(rows["episode"])
    rows["propensity"][7] = bad
    with pytest.raises(InputError, match=r"propensities that are no chance above 0 and at most 1: 1, first in episode"):
        logs.read(pa.table(rows))
    log = logs.read(pa.table(rows), skip_bad=1.0)
    assert len(log) == 19
    assert (log.sample(100).propensity == 0.3333).all()


def test_known_chances_weigh_the_estimate():
    """The estimate of fit is that of its formula with the chances of the log, and the interval has no more in it."""
    model = problems.make("probe")
    policy = exploring(plan(model).policy, 0.1, 4)
    episodes = simulate(policy, model, 2000, seed=5)
    table = {**oracles.rows_of(episodes), "propensity": propensities(policy, episodes).ravel()}
    seen = {}

    def spy(found, fresh, chance, **options):
        seen.update(options, chance=chance, fresh=fresh)
        return offpolicy.off_policy(found, fresh, chance, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rewardmix.logs.validation.off_policy", spy)
        fitted = logs.fit(pa.table(table), resamples=0)
        assert "others" not in seen
        assert np.allclose(seen["chance"], propensities(policy, seen["fresh"]))
        logs.fit(episodes, resamples=0)
        assert seen["others"] > 1500
    found = fitted.info.off_policy
    assert found.supported
    assert "by the propensities that it keeps" in found.sentence
    assert found.lower < controller_value(fitted.plan.policy, model) < found.upper


def test_the_command_writes_chances_of_a_plan_that_explores(tmp_path):
    """From fit to the log of next week, and a log with a bad chance: refused by name, and nothing is written."""
    from logs.test_commands import run

    model = problems.make("probe")
    save(tmp_path / "plan.safetensors", plan(model))
    play = ["simulate", "probe", "--policy", "plan.safetensors", "--episodes", "300", "--out", "log.parquet"]
    done = run(*play, "--explore", "0.2", "--propensity", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    log = logs.read(tmp_path / "log.parquet")
    assert np.allclose(np.unique(log.sample(1000).propensity), [0.05, 0.85])
    bad = run(*play, "--explore", "2", cwd=tmp_path)
    assert bad.returncode == 2
    assert "explore: found 2.0, expected a number from 0 to 1" in bad.stderr
    rows = pd.read_parquet(tmp_path / "log.parquet")
    rows.loc[5, "propensity"] = 0.0
    rows.to_parquet(tmp_path / "bad.parquet")
    done = run("fit", "bad.parquet", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "propensities that are no chance above 0 and at most 1" in done.stderr
    assert not (tmp_path / "out").exists()
