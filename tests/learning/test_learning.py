import dataclasses

import gymnasium
import numpy as np
import pytest

from asked import settings
from rewardmix import InputError, MixRewards, evaluate, make_env, problems, simulate
from rewardmix._core.streams import Role, seed_for
from rewardmix.bounded_mean import ReturnBounds
from rewardmix.checkup import ASSUMPTIONS
from rewardmix.environments import RewardMixingEnv
from rewardmix.evaluation import interval
from rewardmix.exploration import paper, theory
from rewardmix.learning import Stage, learn, stopping
from rewardmix.learning.certificate import Found, certify
from rewardmix.learning.learn_settings import FIRST_ROUND
from rewardmix.learning.stopping import MOST_EPISODES, MOST_ROUNDS
from rewardmix.policy import Controller
from rewardmix.recovery import algorithm_3
from rewardmix.regret import bootstrap_regret


@pytest.mark.parametrize(("name", "options"), [("shop", {}), ("probe", {}), ("riverswim", {}), ("lock", {"steps": 6})])
def test_two_thousand_episodes_capture_what_adapting_is_worth(name, options):
    """The yardstick: share of (best - Markov). Regret is exact, through the controller."""
    learned = learn(problems.make(name, **options), episodes=2000, seed=1, resamples=2)
    truth = learned.certificate.truth
    assert truth.share >= 0.94
    assert truth.value == pytest.approx(evaluate(learned.policy, problems.make(name, **options)).value, abs=1e-12)
    assert truth.markov < truth.best_lower <= truth.best_upper <= truth.told + 1e-9
    assert isinstance(learned.policy, Controller)
    assert learned.episodes == 2000


def test_the_planned_value_is_never_reported_as_the_return():
    certificate = learn("shop", episodes=500, seed=2, resamples=0).certificate
    assert certificate.planned[0] != certificate.truth.value
    assert any("optimistic" in sentence for sentence in certificate.not_proved)
    assert not any("true world" in sentence for sentence in certificate.proved)  # the practical setting proves nothing
    assert any(
        "practical setting guarantees about the true world: none" in sentence for sentence in certificate.not_proved
    )


def test_grown_radii_are_said_together_with_what_is_known_of_the_weights():
    learned = learn("shop", episodes=300, seed=2, resamples=0)
    assert learned.certificate.kappa_weights == "estimated"
    info = learned.recovery.info
    grown = dataclasses.replace(
        learned.recovery,
        info=dataclasses.replace(info, certificate=dataclasses.replace(info.certificate, kappa=2.0)),
    )
    again = certify(
        settings(failure=0.1), Found(learned.exploration, 0, grown, learned.plan, None, None, "budget", None)
    )
    assert any("grow by 2" in said and "weights estimated, which may be off" in said for said in again.not_proved)


def test_an_environment_and_its_model_give_the_same_kind_of_result():
    learned = learn(make_env("shop"), episodes=1500, seed=3, resamples=0, validate=400)
    certificate = learned.certificate
    assert certificate.truth is None
    assert certificate.validation.episodes == 400
    assert learned.model.state_names == problems.make("shop").state_names
    exact = evaluate(learned.policy, problems.make("shop")).value
    assert exact > 6.0  # the best is 6.40, the best Markov policy earns 4.60
    assert certificate.validation.lower - 0.3 < exact < certificate.validation.upper + 0.3
    assert not any("not tried" in sentence for sentence in certificate.not_proved)


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

    learned = learn(Endless(), horizon=5, episodes=300, validate=100, resamples=0, seed=0)
    assert learned.certificate.validation.value > 4.0  # one step to find out, then always right


def test_episodes_that_end_early_are_learned_from():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, map_name="4x4")
    functions = [lambda s, a, n, r: float(n == 15), lambda s, a, n, r: float(n == 3)]
    learned = learn(MixRewards(lake, functions, horizon=8), episodes=300, seed=0, resamples=2)
    assert learned.model.num_states == 17  # the end is a state of its own
    assert learned.certificate.bootstrap is not None


def test_without_a_budget_the_rule_stops_and_says_beforehand():
    told: list[Stage] = []
    learned = learn("shop", accuracy=0.3, seed=0, on_update=told.append)
    certificate = learned.certificate
    assert told[0].name == "forecast"
    assert told[0].detail >= FIRST_ROUND
    assert certificate.uncertainty <= 0.5
    assert certificate.bootstrap.mean <= 0.3
    assert certificate.target == 0.5
    assert learned.episodes == FIRST_ROUND
    assert certificate.stopped == "rule"
    assert {stage.name for stage in told} == {"forecast", "explore", "refine", "recover", "plan", "bootstrap"}


def test_the_theory_setting_asks_for_its_threshold():
    """Nobody waits for that many episodes: a budget cuts it off, and then nothing is claimed."""
    certificate = learn("hard", episodes=200, confidence=theory, resamples=0).certificate
    assert certificate.setting == "theory"
    assert any("within every interval of the confidence set" in sentence for sentence in certificate.proved)
    assert not any("threshold" in sentence for sentence in certificate.proved)


@pytest.mark.parametrize("setting", [theory, paper(0.5)], ids=["theory", "paper"])
def test_the_papers_settings_stop_at_the_threshold_of_the_theorem(setting):
    """Algorithm 1 as printed: eps_pe = (epsilon / H^3) max(delta, epsilon / H^2), and nothing is refined."""
    told: list[Stage] = []
    learned = learn(
        "hard", accuracy=2.0, separation=0.6, confidence=setting, method=algorithm_3, weights="uniform",
        on_update=told.append, resamples=0,
    )  # fmt: skip
    certificate, horizon = learned.certificate, learned.model.horizon
    assert certificate.target == pytest.approx(2.0 / horizon**3 * max(0.6, 2.0 / horizon**2))
    assert certificate.uncertainty <= certificate.target < 0.5
    assert certificate.stopped == learned.exploration.info.stopped == "threshold"
    assert learned.refinement is None
    assert learned.recovery.info.method == "paper"
    assert told[0].name == "forecast"
    assert 0.1 < told[0].detail / learned.episodes < 10
    assert not {stage.name for stage in told} & {"refine", "bootstrap"}


@pytest.mark.parametrize("setting", [theory, paper(1.0)], ids=["theory", "paper"])
def test_a_model_is_played_at_once_where_the_threshold_needs_billions(setting):
    world = problems.make("random", states=3, actions=2, horizon=4, seed=1)
    learned = learn(world, accuracy=0.3, separation=0.3, confidence=setting, method=algorithm_3, weights="uniform")
    certificate = learned.certificate
    assert learned.episodes > 1e9
    assert certificate.uncertainty <= certificate.target == pytest.approx(0.09 / 64)
    assert certificate.stopped == "threshold"
    assert learned.exploration.info.counts == "selected"  # the paper's own
    assert certificate.truth.share > 0.9
    assert any("were not kept" in sentence for sentence in certificate.not_proved)


def test_a_run_to_the_threshold_that_was_stopped_goes_on_to_the_same_result(tmp_path):
    def stop(stage):
        if stage.name == "explore" and stage.detail.episodes > 1e6:
            raise KeyboardInterrupt

    asked = {"accuracy": 1.0, "separation": 0.5, "confidence": theory, "method": algorithm_3, "weights": "uniform"}
    world = problems.make("random", states=3, actions=2, horizon=4, seed=1)
    whole = learn(world, **asked)
    assert learn(world, **asked, checkpoint=tmp_path, on_update=stop).certificate.stopped == "interrupted"
    again = learn(world, **asked, checkpoint=tmp_path)
    assert again.episodes == whole.episodes > 20_000_000
    np.testing.assert_array_equal(again.model.rewards, whole.model.rewards)


@pytest.mark.parametrize(
    ("world", "options", "message"),
    [
        (
            "env",
            {},
            r"^accuracy: found 0.1, for which V_0 has to fall to 1e-07 .*: about 9e\+18 episodes, expected what",
        ),
        (
            "model",
            {"accuracy": 0.01},
            r"^accuracy: found 0.01, for which .* 5e\+15 episodes are enough for: a larger acc",
        ),
        (
            "model",
            {"accuracy": 1e-200},
            "^accuracy: found 1e-200, expected one whose threshold",
        ),
        (
            "model",
            {"num_contexts": 3, "accuracy": 1.0},
            r"^num_contexts: found 3, expected 2, where \de\+\d+ episodes leave",
        ),
    ],
)
def test_more_episodes_than_can_be_played_are_refused_with_a_forecast(world, options, message):
    place = make_env("shop") if world == "env" else problems.make("shop")
    with pytest.raises(InputError, match=message):
        learn(place, confidence=theory, **options)


def test_a_run_that_ends_at_its_limit_does_not_say_that_its_rule_was_met(monkeypatch):
    monkeypatch.setattr(stopping, "MOST_EPISODES", 1000)
    certificate = learn("random", accuracy=1e-4, seed=5, resamples=2).certificate
    assert certificate.stopped == "limit"
    assert any("limit of 1000 episodes, before its rule was met" in sentence for sentence in certificate.not_proved)


def test_validation_in_a_model_plays_the_controller_that_is_returned():
    """Episode by episode the same as playing it: its belief policy earns at least as much, and may play otherwise."""
    learned = learn("shop", episodes=300, seed=2, resamples=0, validate=400)
    returns = simulate(learned.policy, problems.make("shop"), 400, seed_for(2, Role.VALIDATION)).returns
    expected = interval(returns, 0.05, ReturnBounds(0.0, 10.0))
    assert learned.certificate.validation == expected
    assert expected.episodes == 400


@pytest.mark.parametrize(
    "text",
    [
        '{"passed": 40}',
        '{"passed": -1}',
        '{"passed": true}',
        '{"passed": 1.5}',
        '{"rounds": 1}',
        "[3]",
        "{",
        "\xff",
        "",
    ],
)
def test_a_damaged_count_of_rounds_is_refused_by_name(tmp_path, text):
    (tmp_path / "rounds.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(
        InputError, match=r"^checkpoint: found .* in .*rounds\.json, expected {\"passed\": a whole number"
    ):
        learn("shop", accuracy=0.3, checkpoint=tmp_path)


def test_the_last_round_is_the_first_that_is_long_enough():
    assert FIRST_ROUND << MOST_ROUNDS >= MOST_EPISODES > FIRST_ROUND << (MOST_ROUNDS - 1)


@pytest.mark.parametrize("refine", [0.0, 0.5])
def test_rounds_change_nothing(tmp_path, refine):
    """In one go, in rounds, with and without a checkpoint: the same counts, the same policy."""
    rounds = learn("random", accuracy=0.004, seed=5, refine=refine)
    again = learn("random", accuracy=0.004, seed=5, refine=refine, checkpoint=tmp_path)
    straight = learn("random", accuracy=0.004, episodes=rounds.episodes, seed=5, refine=refine, resamples=0)
    assert rounds.episodes > FIRST_ROUND
    for other in (again, straight):
        np.testing.assert_array_equal(other.model.rewards, rounds.model.rewards)
        np.testing.assert_array_equal(other.exploration.moments.pair_tables, rounds.exploration.moments.pair_tables)
        assert other.certificate.truth.value == rounds.certificate.truth.value


def test_more_contexts_and_known_weights():
    model = problems.make("random", states=4, actions=3, horizon=8, contexts=3, seed=3)
    learned = learn(model, episodes=6000, num_contexts=3, weights="uniform", seed=1, resamples=0)
    np.testing.assert_allclose(learned.model.weights, 1 / 3)
    assert learned.certificate.truth.share > 0.5


def test_an_interrupted_run_gives_what_was_gathered():
    def stop(stage):
        if stage.name == "explore" and stage.detail.episodes >= 300:
            raise KeyboardInterrupt

    learned = learn("shop", episodes=100_000, seed=0, on_update=stop, resamples=0)
    assert 300 <= learned.exploration.episodes < 100_000
    assert learned.certificate.stopped == "interrupted"
    assert any("interrupted" in sentence for sentence in learned.certificate.not_proved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accuracy": 0}, "accuracy: found 0, expected a finite number above 0"),
        ({"failure": 1.0}, "failure: found 1.0"),
        ({"episodes": 0}, "episodes: found 0"),
        ({"num_contexts": 1}, "num_contexts: found 1, expected a whole number of at least 2"),
        ({"weights": [0.5, 0.6]}, "weights: found sum 1.1"),
        ({"validate": -1}, "validate: found -1"),
        ({"resamples": 0}, "resamples: found 0, expected a whole number of at least 2"),
        ({"method": "best", "episodes": 5}, "method: found 'best', expected a function"),
        ({"confidence": "theory"}, r"^confidence: found 'theory' \(str\), expected a setting of rewardmix.exploration"),
        ({"confidence": 3}, "^confidence: found 3"),
        ({"confidence": paper}, "^confidence: found <function paper"),
        ({"confidence": type(theory)}, "^confidence: found <class"),
        ({"checkpoint": 7}, r"^checkpoint: found 7 \(int\), expected a path"),
        ({"on_update": 7}, r"^on_update: found 7 \(int\), expected a function"),
        ({"episodes": 10**400}, "^episodes: found"),
        ({"separation": -1.0}, "^separation: found -1.0"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    with pytest.raises(InputError, match=message):
        learn("hard", **options)


def test_the_bootstrap_tracks_the_true_regret():
    """Mean over runs, within a factor of about three either way, far from missing it altogether."""
    model = problems.make("random", seed=0)
    pairs = []
    for seed in range(8):
        certificate = learn(model, episodes=1000, seed=seed).certificate
        pairs.append((certificate.truth.regret, certificate.bootstrap.mean))
    true, guessed = np.mean(pairs, axis=0)
    assert true / 3.5 < guessed < 3.5 * true


def test_the_bootstrap_of_a_bad_policy_is_large():
    learned = learn("probe", episodes=1500, seed=0, resamples=2)
    worst = dataclasses.replace(
        learned.policy, actions=tuple(np.zeros_like(part) for part in learned.policy.actions)
    )  # waits in the lobby for ever
    bad = bootstrap_regret(learned.exploration.gathered, learned.recovery, worst, resamples=2)
    assert bad.mean > 1.0
    assert bad.upper >= bad.mean
    with pytest.raises(InputError, match="resamples: found 0"):
        bootstrap_regret(learned.exploration.gathered, learned.recovery, worst, resamples=0)


def test_the_episodes_may_say_how_many_types_there_are():
    model = problems.make("random", states=4, actions=2, horizon=8, contexts=3, seed=1)
    learned = learn(model, episodes=3000, num_contexts="auto", resamples=0, seed=1)
    assert learned.model.num_contexts == 3
    assert learned.certificate.truth.share > 0.8
    (chosen,) = [fact for fact in learned.certificate.facts if fact.what == "types chosen"]
    assert chosen.sentence.startswith("3 types predict episodes that were held out best")
    again = learn(model, episodes=3000, num_contexts=3, resamples=0, seed=1)
    assert again.exploration.episodes == learned.exploration.episodes
    with pytest.raises(InputError, match=r'^weights: found .*, expected None where num_contexts is "auto"'):
        learn(model, episodes=10, num_contexts="auto", weights=[0.5, 0.5])
    with pytest.raises(InputError, match=r"^num_contexts: found 'many' \(str\), expected a whole number"):
        learn(model, episodes=10, num_contexts="many")


class Fickle(gymnasium.Wrapper):
    """A shop whose visitor becomes somebody else at every fourth step."""

    def step(self, action):
        if self.env.unwrapped.np_random.random() < 0.25:
            inner = self.env.unwrapped
            inner._context = int(inner.np_random.integers(inner.model.num_contexts))
        return self.env.step(action)


def test_a_world_that_breaks_an_assumption_is_told_of():
    honest = learn(RewardMixingEnv(problems.make("shop")), episodes=1500, resamples=0, seed=1)
    assert not [fact for fact in honest.certificate.facts if fact.what in ASSUMPTIONS]
    fickle = learn(Fickle(RewardMixingEnv(problems.make("shop"))), episodes=1500, resamples=0, seed=1)
    assert "switching" in [fact.what for fact in fickle.certificate.facts]
    assert any("The type changes during an episode" in sentence for sentence in fickle.certificate.not_proved)


def test_a_world_that_pays_by_the_next_state_is_told_of_and_nothing_is_promised():
    """Two goals end the episode, so nothing can be gained by adapting: at best .2774, whatever the plan says."""
    lake = gymnasium.make("FrozenLake-v1")
    goals = [lambda s, a, n, r: r, lambda s, a, n, r: float(n == 12)]
    learned = learn(MixRewards(lake, goals, horizon=12), episodes=300, resamples=0)
    broken = [fact.what for fact in learned.certificate.facts if fact.what in ASSUMPTIONS]
    assert broken == ["next state"]  # and not that the world has changed
    assert "(not to be expected: rewards depend on the next state)" in repr(learned)
    first, advice, earns = learned.summary().splitlines()[:3]
    assert first == "Rewards depend on the next state: no value of a policy that adapts can be trusted."
    assert advice.startswith("Play the best policy that does not adapt")
    assert "Not to be expected: rewards depend on the next state" in earns
