import dataclasses

import gymnasium
import numpy as np
import pytest

from helpers.learn_settings import make_learn_settings as settings
from rewardmix import InputError, RewardMixingWrapper, evaluate, make_env, problems, simulate
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.bootstrap_regret import estimate_regret
from rewardmix.bounded_mean import ReturnBounds
from rewardmix.diagnostics import ASSUMPTIONS
from rewardmix.environments import RewardMixingEnv
from rewardmix.evaluation import confidence_interval
from rewardmix.exploration import paper_bonus, theory_bonus
from rewardmix.learning import LearnProgress, learn, stopping_rules
from rewardmix.learning.certificate import LearnStages, make_certificate
from rewardmix.learning.learn_settings import FIRST_ROUND_EPISODES
from rewardmix.learning.stopping_rules import MAX_EPISODES, MAX_ROUND
from rewardmix.policy import Controller
from rewardmix.recovery import algorithm_3


@pytest.mark.parametrize(("name", "options"), [("shop", {}), ("probe", {}), ("riverswim", {}), ("lock", {"steps": 6})])
def test_two_thousand_episodes_capture_what_adapting_is_worth(name, options):
    """The yardstick: share of (best - Markov). Regret is exact, through the controller."""
    learned = learn(problems.make_model(name, **options), num_episodes=2000, seed=1, num_resamples=2)
    truth = learned.certificate.true_model
    assert truth.normalized_score >= 0.94
    assert truth.policy_value == pytest.approx(
        evaluate(learned.policy, problems.make_model(name, **options)).value, abs=1e-12
    )
    assert truth.markov_value < truth.optimal_lower <= truth.optimal_upper <= truth.oracle + 1e-9
    assert isinstance(learned.policy, Controller)
    assert learned.num_episodes == 2000


def test_the_planned_value_is_never_reported_as_the_return():
    certificate = learn("shop", num_episodes=500, seed=2, num_resamples=0).certificate
    assert certificate.planned_value_bounds[0] != certificate.true_model.policy_value
    assert any("optimistic" in sentence for sentence in certificate.unproved_statements)
    assert not any(
        "true model" in sentence for sentence in certificate.proved_statements
    )  # the practical setting proves nothing
    assert any(
        "Guarantee of the practical bonus for the true model: none" in sentence
        for sentence in certificate.unproved_statements
    )


def test_grown_radii_are_said_together_with_what_is_known_of_the_weights():
    learned = learn("shop", num_episodes=300, seed=2, num_resamples=0)
    assert learned.certificate.weights_source == "estimated"
    info = learned.recovery.info
    grown = dataclasses.replace(
        learned.recovery,
        info=dataclasses.replace(info, certificate=dataclasses.replace(info.certificate, radius_inflation=2.0)),
    )
    again = make_certificate(
        settings(failure_prob=0.1), LearnStages(learned.exploration, 0, grown, learned.plan, None, None, "budget", None)
    )
    assert any(
        "grow by a factor of 2" in text and "weights estimated, which may be wrong" in text
        for text in again.unproved_statements
    )


def test_an_environment_and_its_model_give_the_same_kind_of_result():
    learned = learn(make_env("shop"), num_episodes=1500, seed=3, num_resamples=0, num_validation_episodes=400)
    certificate = learned.certificate
    assert certificate.true_model is None
    assert certificate.validation.num_episodes == 400
    assert learned.model.state_names == problems.make_model("shop").state_names
    exact = evaluate(learned.policy, problems.make_model("shop")).value
    assert exact > 6.0  # the best is 6.40, the best Markov policy earns 4.60
    assert certificate.validation.lower - 0.3 < exact < certificate.validation.upper + 0.3
    assert not any("not tested" in sentence for sentence in certificate.unproved_statements)


def test_an_environment_without_a_horizon_is_tried_for_as_long_as_the_policy_lasts():
    class Endless(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.likes = int(self.np_random.integers(2))
            return 0, {}

        def step(self, action):
            return int(self.np_random.integers(2)), float(action == self.likes), False, False, {}

    learned = learn(Endless(), horizon=5, num_episodes=300, num_validation_episodes=100, num_resamples=0, seed=0)
    assert learned.certificate.validation.value > 4.0  # one step to find out, then always right


def test_episodes_that_end_early_are_learned_from():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, map_name="4x4")
    functions = [lambda s, a, n, r: float(n == 15), lambda s, a, n, r: float(n == 3)]
    learned = learn(RewardMixingWrapper(lake, functions, horizon=8), num_episodes=300, seed=0, num_resamples=2)
    assert learned.model.num_states == 17  # the end is a state of its own
    assert learned.certificate.bootstrap is not None


def test_without_a_budget_the_rule_stops_and_says_beforehand():
    response: list[LearnProgress] = []
    learned = learn("shop", target_regret=0.3, seed=0, callback=response.append)
    certificate = learned.certificate
    assert response[0].name == "forecast"
    assert response[0].detail >= FIRST_ROUND_EPISODES
    assert certificate.uncertainty <= 0.5
    assert certificate.bootstrap.mean <= 0.3
    assert certificate.uncertainty_target == 0.5
    assert learned.num_episodes == FIRST_ROUND_EPISODES
    assert certificate.stop_reason == "rule"
    assert {stage.name for stage in response} == {"forecast", "explore", "refine", "recover", "plan", "bootstrap"}


def test_the_theory_setting_asks_for_its_threshold():
    """Nobody waits for that many episodes: a budget cuts it off, and then nothing is claimed."""
    certificate = learn("hard", num_episodes=200, bonus=theory_bonus, num_resamples=0).certificate
    assert certificate.bonus == "theory"
    assert any(
        "all intervals of the confidence set contain the true model" in sentence
        for sentence in certificate.proved_statements
    )
    assert not any("threshold" in sentence for sentence in certificate.proved_statements)


@pytest.mark.parametrize("setting", [theory_bonus, paper_bonus(0.5)], ids=["theory", "paper"])
def test_the_papers_settings_stop_at_the_threshold_of_the_theorem(setting):
    """Algorithm 1 as printed: eps_pe = (epsilon / H^3) max(delta, epsilon / H^2), and nothing is refined."""
    response: list[LearnProgress] = []
    learned = learn(
        "hard", target_regret=2.0, min_separation=0.6, bonus=setting, method=algorithm_3, weights="uniform",
        callback=response.append, num_resamples=0,
    )  # fmt: skip
    certificate, horizon = learned.certificate, learned.model.horizon
    assert certificate.uncertainty_target == pytest.approx(2.0 / horizon**3 * max(0.6, 2.0 / horizon**2))
    assert certificate.uncertainty <= certificate.uncertainty_target < 0.5
    assert certificate.stop_reason == learned.exploration.info.stop_reason == "threshold"
    assert learned.refinement_episodes is None
    assert learned.recovery.info.method == "algorithm_3"
    assert response[0].name == "forecast"
    assert 0.1 < response[0].detail / learned.num_episodes < 10
    assert not {stage.name for stage in response} & {"refine", "bootstrap"}


@pytest.mark.parametrize("setting", [theory_bonus, paper_bonus(1.0)], ids=["theory", "paper"])
def test_a_model_is_played_at_once_where_the_threshold_needs_billions(setting):
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=1)
    learned = learn(model, target_regret=0.3, min_separation=0.3, bonus=setting, method=algorithm_3, weights="uniform")
    certificate = learned.certificate
    assert learned.num_episodes > 1e9
    assert certificate.uncertainty <= certificate.uncertainty_target == pytest.approx(0.09 / 64)
    assert certificate.stop_reason == "threshold"
    assert learned.exploration.info.counting == "selected"  # the paper's own
    assert certificate.true_model.normalized_score > 0.9
    assert any("were not stored" in sentence for sentence in certificate.unproved_statements)


@pytest.mark.system
def test_a_run_to_the_threshold_that_was_stopped_goes_on_to_the_same_result(tmp_path):
    def stop(stage):
        if stage.name == "explore" and stage.detail.num_episodes > 1e6:
            raise KeyboardInterrupt

    options = {
        "target_regret": 1.0,
        "min_separation": 0.5,
        "bonus": theory_bonus,
        "method": algorithm_3,
        "weights": "uniform",
    }
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=1)
    uninterrupted = learn(model, **options)
    assert learn(model, **options, checkpoint_dir=tmp_path, callback=stop).certificate.stop_reason == "interrupted"
    again = learn(model, **options, checkpoint_dir=tmp_path)
    assert again.num_episodes == uninterrupted.num_episodes > 20_000_000
    np.testing.assert_array_equal(again.model.rewards, uninterrupted.model.rewards)


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (
            "env",
            {},
            r"^target_regret: got 0.1, which requires V_0 <= 1e-07 and about 9e\+18 episodes, expected one that",
        ),
        (
            "model",
            {"target_regret": 0.01},
            r"^target_regret: got 0.01, which .* at most 5e\+15 episodes reach; raise target_regret",
        ),
        (
            "model",
            {"target_regret": 1e-200},
            "^target_regret: got 1e-200, expected a value whose uncertainty threshold",
        ),
        (
            "model",
            {"num_types": 3, "target_regret": 1.0},
            r"^num_types: got 3, expected 2: \de\+\d+ episodes are stored as pair counts",
        ),
    ],
)
def test_more_episodes_than_can_be_played_are_refused_with_a_forecast(env, options, message):
    env_or_model = make_env("shop") if env == "env" else problems.make_model("shop")
    with pytest.raises(InputError, match=message):
        learn(env_or_model, bonus=theory_bonus, **options)


def test_a_run_that_ends_at_its_limit_does_not_say_that_its_rule_was_met(monkeypatch):
    monkeypatch.setattr(stopping_rules, "MAX_EPISODES", 1000)
    certificate = learn("random", target_regret=1e-4, seed=5, num_resamples=2).certificate
    assert certificate.stop_reason == "limit"
    assert any(
        "limit of 1000 episodes before the stopping rule was met" in sentence
        for sentence in certificate.unproved_statements
    )


def test_validation_in_a_model_plays_the_controller_that_is_returned():
    """Episode by episode the same as playing it: its belief policy earns at least as much, and may play otherwise."""
    learned = learn("shop", num_episodes=300, seed=2, num_resamples=0, num_validation_episodes=400)
    returns = simulate(learned.policy, problems.make_model("shop"), 400, derive_seed(2, Role.VALIDATION)).returns
    expected = confidence_interval(returns, 0.05, ReturnBounds(0.0, 10.0))
    assert learned.certificate.validation == expected
    assert expected.num_episodes == 400


@pytest.mark.parametrize(
    "text",
    [
        '{"round": 40}',
        '{"round": -1}',
        '{"round": true}',
        '{"round": 1.5}',
        '{"rounds": 1}',
        "[3]",
        "{",
        "\xff",
        "",
    ],
)
def test_a_damaged_count_of_rounds_is_refused_by_name(tmp_path, text):
    (tmp_path / "rounds.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"^checkpoint: got .* in .*rounds\.json, expected {\"round\": a whole number"):
        learn("shop", target_regret=0.3, checkpoint_dir=tmp_path)


def test_the_last_round_is_the_first_that_is_long_enough():
    assert FIRST_ROUND_EPISODES << MAX_ROUND >= MAX_EPISODES > FIRST_ROUND_EPISODES << (MAX_ROUND - 1)


@pytest.mark.system
@pytest.mark.parametrize("refine", [0.0, 0.5])
def test_rounds_change_nothing(tmp_path, refine):
    """In one go, in rounds, with and without a checkpoint: the same counts, the same policy."""
    rounds = learn("random", target_regret=0.004, seed=5, refinement_fraction=refine)
    again = learn("random", target_regret=0.004, seed=5, refinement_fraction=refine, checkpoint_dir=tmp_path)
    straight = learn(
        "random",
        target_regret=0.004,
        num_episodes=rounds.num_episodes,
        seed=5,
        refinement_fraction=refine,
        num_resamples=0,
    )
    assert rounds.num_episodes > FIRST_ROUND_EPISODES
    for other in (again, straight):
        np.testing.assert_array_equal(other.model.rewards, rounds.model.rewards)
        np.testing.assert_array_equal(other.exploration.moments.pair_tables, rounds.exploration.moments.pair_tables)
        assert other.certificate.true_model.policy_value == rounds.certificate.true_model.policy_value


def test_more_contexts_and_known_weights():
    model = problems.make_model("random", states=4, actions=3, horizon=8, num_types=3, seed=3)
    learned = learn(model, num_episodes=6000, num_types=3, weights="uniform", seed=1, num_resamples=0)
    np.testing.assert_allclose(learned.model.weights, 1 / 3)
    assert learned.certificate.true_model.normalized_score > 0.5


def test_an_interrupted_run_gives_what_was_gathered():
    def stop(stage):
        if stage.name == "explore" and stage.detail.num_episodes >= 300:
            raise KeyboardInterrupt

    learned = learn("shop", num_episodes=100_000, seed=0, callback=stop, num_resamples=0)
    assert 300 <= learned.exploration.num_episodes < 100_000
    assert learned.certificate.stop_reason == "interrupted"
    assert any("interrupted" in sentence for sentence in learned.certificate.unproved_statements)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_regret": 0}, "target_regret: got 0, expected a finite number above 0"),
        ({"failure_prob": 1.0}, "failure_prob: got 1.0"),
        ({"num_episodes": 0}, "num_episodes: got 0"),
        ({"num_types": 1}, "num_types: got 1, expected a whole number of at least 2"),
        ({"weights": [0.5, 0.6]}, "weights: got sum 1.1"),
        ({"num_validation_episodes": -1}, "num_validation_episodes: got -1"),
        ({"num_resamples": 0}, "num_resamples: got 0, expected a whole number of at least 2"),
        ({"method": "best", "num_episodes": 5}, "method: got 'best', expected maximum_likelihood or algorithm_3"),
        ({"bonus": "theory"}, r"^bonus: got 'theory' \(str\), expected a bonus of rewardmix.exploration"),
        ({"bonus": 3}, "^bonus: got 3"),
        ({"bonus": paper_bonus}, "^bonus: got <function paper"),
        ({"bonus": type(theory_bonus)}, "^bonus: got <class"),
        ({"checkpoint_dir": 7}, r"^checkpoint_dir: got 7 \(int\), expected a path"),
        ({"callback": 7}, r"^callback: got 7 \(int\), expected a function"),
        ({"num_episodes": 10**400}, "^num_episodes: got"),
        ({"min_separation": -1.0}, "^min_separation: got -1.0"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    with pytest.raises(InputError, match=message):
        learn("hard", **options)


@pytest.mark.statistical
def test_the_bootstrap_tracks_the_true_regret():
    """Mean over runs, within a factor of about three either way, far from missing it altogether."""
    model = problems.make_model("random", seed=0)
    pairs = []
    for seed in range(8):
        certificate = learn(model, num_episodes=1000, seed=seed).certificate
        pairs.append((certificate.true_model.regret, certificate.bootstrap.mean))
    true, guessed = np.mean(pairs, axis=0)
    assert true / 3.5 < guessed < 3.5 * true


def test_the_bootstrap_of_a_bad_policy_is_large():
    learned = learn("probe", num_episodes=1500, seed=0, num_resamples=2)
    worst = dataclasses.replace(
        learned.policy, actions=tuple(np.zeros_like(piece) for piece in learned.policy.actions)
    )  # waits in the lobby for ever
    bad = estimate_regret(learned.exploration.episodes, learned.recovery, worst, num_resamples=2)
    assert bad.mean > 1.0
    assert bad.upper >= bad.mean
    with pytest.raises(InputError, match="num_resamples: got 0"):
        estimate_regret(learned.exploration.episodes, learned.recovery, worst, num_resamples=0)


@pytest.mark.system
def test_the_episodes_may_say_how_many_types_there_are():
    model = problems.make_model("random", states=4, actions=2, horizon=8, num_types=3, seed=1)
    learned = learn(model, num_episodes=3000, num_types="auto", num_resamples=0, seed=1)
    assert learned.model.num_types == 3
    assert learned.certificate.true_model.normalized_score > 0.8
    (chosen,) = [fact for fact in learned.certificate.statements if fact.key == "types chosen"]
    assert chosen.text.startswith("3 types predict held-out episodes best")
    again = learn(model, num_episodes=3000, num_types=3, num_resamples=0, seed=1)
    assert again.exploration.num_episodes == learned.exploration.num_episodes
    with pytest.raises(InputError, match=r'^weights: got .*, expected None with num_types="auto"'):
        learn(model, num_episodes=10, num_types="auto", weights=[0.5, 0.5])
    with pytest.raises(InputError, match=r"^num_types: got 'many' \(str\), expected a whole number"):
        learn(model, num_episodes=10, num_types="many")


class Fickle(gymnasium.Wrapper):
    """A shop whose visitor becomes somebody else at every fourth step."""

    def step(self, action):
        if self.env.unwrapped.np_random.random() < 0.25:
            inner = self.env.unwrapped
            inner._type_index = int(inner.np_random.integers(inner.model.num_types))
        return self.env.step(action)


@pytest.mark.system
def test_a_world_that_breaks_an_assumption_is_told_of():
    honest = learn(RewardMixingEnv(problems.make_model("shop")), num_episodes=1500, num_resamples=0, seed=1)
    assert not [fact for fact in honest.certificate.statements if fact.key in ASSUMPTIONS]
    fickle = learn(Fickle(RewardMixingEnv(problems.make_model("shop"))), num_episodes=1500, num_resamples=0, seed=1)
    assert "switching" in [fact.key for fact in fickle.certificate.statements]
    assert any("The type changes during an episode" in sentence for sentence in fickle.certificate.unproved_statements)


@pytest.mark.system
def test_a_world_that_pays_by_the_next_state_is_told_of_and_nothing_is_promised():
    """Two goals end the episode, so nothing can be gained by adapting: at best .2774, whatever the plan says."""
    lake = gymnasium.make("FrozenLake-v1")
    goals = [lambda s, a, n, r: r, lambda s, a, n, r: float(n == 12)]
    learned = learn(RewardMixingWrapper(lake, goals, horizon=12), num_episodes=300, num_resamples=0)
    broken = [fact.key for fact in learned.certificate.statements if fact.key in ASSUMPTIONS]
    assert broken == ["next state"]  # and not that the world has changed
    assert "(not valid: rewards depend on the next state)" in repr(learned)
    first, advice, earns = learned.summary().splitlines()[:3]
    assert first == "Rewards depend on the next state; values of adaptive policies are not valid."
    assert advice.startswith("Use the best Markov policy")
    assert "not valid" in earns
    assert "rewards depend on the next state" in earns.lower()
