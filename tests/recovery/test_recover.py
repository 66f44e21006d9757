from dataclasses import replace

import numpy as np
import pytest

from recovery.oracles_recovery import drawn, random_mixture
from recovery.sets import moments_of_pairs
from rewardmix import InputError, RewardMixingMDP, plan, problems, simulate, uniform
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery import (
    algorithm_3,
    aligned,
    best,
    bootstrap,
    confidence_set,
    exact,
    normal,
    recover,
    spectral,
    start_only,
    sweep_weights,
)
from rewardmix.recovery.bags import bags_of, merge_bags
from rewardmix.recovery.evidence import Question, evidence_of
from rewardmix.recovery.likelihood import Mixture, ascend, e_step
from rewardmix.recovery.recover import as_weights, estimate_model


def model_with(values, seed=0, weights=(0.5, 0.5)):
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.ones(values), (2, 3, 2))
    return RewardMixingMDP(
        rng.dirichlet(np.ones(3), (3, 2)), rng.dirichlet(np.ones(3)), weights, laws, 5, np.arange(values)
    )


def error(found, model):
    return float(np.sqrt(((aligned(found, model).laws - model.laws) ** 2).mean()))


@pytest.mark.parametrize("method", [best, algorithm_3, spectral, start_only], ids=lambda method: method.__name__)
@pytest.mark.parametrize("values", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_exact_set_gives_the_exact_model(method, values, seed):
    model = model_with(values, seed)
    found = recover(exact(model), method=method, weights="uniform")
    np.testing.assert_allclose(aligned(found.model, model).laws, model.laws, atol=1e-7)
    np.testing.assert_allclose(found.model.transition, model.transition, atol=1e-12)
    assert found.info.certificate.contained
    assert (found.info.certificate.program, found.info.certificate.kappa) == ("feasible", 1.0)
    assert found.info.certificate.signs_agree == 1.0
    assert found.info.not_identified.startswith("Everything is identified")


def test_the_exact_set_gives_the_exact_model_to_a_sweep():
    model = model_with(2, 1)
    found = recover(exact(model), method=sweep_weights(model, step=0.25))
    np.testing.assert_allclose(aligned(found.model, model).laws, model.laws, atol=1e-7)
    assert [start.name for start in found.info.starts] == ["weight 0.2500", "weight 0.5000", "weight 0.7500"]
    assert "earned most" in found.info.convergence


@pytest.mark.parametrize("weights", [(0.2, 0.8), (0.7, 0.3)])
@pytest.mark.parametrize("method", [best, algorithm_3, spectral], ids=lambda method: method.__name__)
def test_known_weights_that_are_not_equal_are_oriented_by_episodes(weights, method):
    model = model_with(2, 2, weights)
    episodes = simulate(uniform(model), model, 60_000, seed=1)
    found = recover(episodes, method=method, weights=weights, radius=normal(4.0))
    np.testing.assert_array_equal(found.model.weights, weights)
    np.testing.assert_allclose(found.model.rewards, model.rewards, atol=0.03 if method is not algorithm_3 else 0.25)
    assert np.corrcoef(found.model.gap.ravel(), model.gap.ravel())[0, 1] > 0.8


@pytest.mark.parametrize("values", [2, 3])
def test_best_is_the_likelihood_climbed_from_the_truth(values):
    model = model_with(values, 3)
    episodes = simulate(uniform(model), model, 5000, seed=2)
    found = recover(episodes, weights="uniform")
    bags = merge_bags(bags_of(episodes))
    truth = Mixture(model.weights, model.laws.reshape(2, 6, values))
    fit = ascend(lambda m: e_step(bags, m), truth, average=bags.average, prior=1.0, weights=model.weights)
    assert found.info.loglik == pytest.approx(fit.loglik, abs=1e-3)
    assert found.info.reproduced >= 2
    assert found.info.certificate.contained
    assert error(found.model, model) < 0.03
    np.testing.assert_array_less(found.info.lower, found.model.rewards + 1e-12)
    np.testing.assert_array_less(found.model.rewards, found.info.upper + 1e-12)


def test_moments_do_almost_as_well_as_episodes_and_survive_wrong_pairs():
    rng = np.random.default_rng(5)
    truth = random_mixture(rng, 2, 20, weights=[0.5, 0.5])
    episodes = drawn(rng, truth, rng.integers(0, 20, (20_000, 6)))
    moments = Moments.of(episodes)
    tables = moments.pair_tables.copy()
    off = np.flatnonzero(moments.pairs[0] != moments.pairs[1])
    bad = rng.choice(off, off.size // 25, replace=False)
    tables[bad] = np.eye(2, dtype=np.int64) * (tables[bad].sum(axis=(1, 2), keepdims=True) // 2)
    clean, dirty = (recover(data, weights="uniform") for data in (moments, replace(moments, pair_tables=tables)))
    whole = recover(episodes, weights="uniform")

    def off_by(found):
        laws = found.model.laws.reshape(2, 20, 2)
        return min(np.sqrt(((laws[order] - truth.laws) ** 2).mean()) for order in ([0, 1], [1, 0]))

    assert off_by(clean) < 1.25 * off_by(whole)
    assert off_by(dirty) < 1.25 * off_by(clean)
    named = set(dirty.info.gross)
    assert {(int(moments.pairs[0][k]), int(moments.pairs[1][k])) for k in bad} <= named
    assert clean.info.weights == "known"
    assert recover(moments).info.weights == "assumed equal"


@pytest.mark.parametrize("weight", [0.2, 0.35])
def test_unknown_weights_are_found(weight):
    model = model_with(2, 4, (weight, 1 - weight))
    found = recover(simulate(uniform(model), model, 40_000, seed=3))
    assert found.info.weights == "estimated"
    near = aligned(found.model, model)
    error_bar = found.info.weight_errors[0]
    assert 0 < error_bar < 0.05
    assert abs(near.weights[0] - weight) < 5 * error_bar


def test_labels_do_not_depend_on_the_seed():
    model = model_with(2, 5)
    episodes = simulate(uniform(model), model, 3000, seed=4)
    one, two = recover(episodes, seed=0), recover(episodes, seed=9)
    np.testing.assert_allclose(one.model.rewards, two.model.rewards, atol=1e-3)


def made(states, rewards, num_states, num_actions=1, **options):
    rewards = np.asarray(rewards)
    return Episodes.from_arrays(
        states, np.zeros(rewards.shape, int), rewards, num_states=num_states, num_actions=num_actions, **options
    )


def degenerate():
    rng = np.random.default_rng(0)
    coin = rng.integers(0, 2, (200, 4))
    walk = rng.integers(0, 2, (200, 5))
    yield "one episode", made([[0, 1, 0, 1]], [[1, 0, 1]], 2), "types may be identical"
    yield "one step", made(walk[:, :2], coin[:, :1], 2), "no episode has two rewards"
    yield "always 1", made(walk, np.ones((200, 4)), 2), "types may be identical"
    yield "always 0", made(walk, np.zeros((200, 4)), 2), "types may be identical"
    yield "never visited", made(walk, coin, 3, 2), "4 of 6 state-actions were never visited"
    yield "identical contexts", made(walk, coin, 2), "types may be identical"
    yield "two steps", made(walk[:, :3], coin[:, :2], 2), "say nothing about the weights"
    yield "ended early", made(walk, coin, 2, lengths=rng.integers(1, 5, 200)), "types may be identical"


@pytest.mark.parametrize("method", [best, algorithm_3, start_only], ids=lambda method: method.__name__)
@pytest.mark.parametrize(("episodes", "said"), [case[1:] for case in degenerate()], ids=[c[0] for c in degenerate()])
def test_degenerate_data_give_a_model_that_says_what_is_unknown(episodes, said, method):
    for data in (episodes, Moments.of(episodes)):
        found = recover(data, method=method)
        assert said in found.info.not_identified
        assert np.isfinite(found.model.rewards).all()
        for part in (found.info.errors, found.info.lower, found.info.upper, found.info.weight_errors):
            assert not np.isnan(part).any()


def test_a_state_action_never_visited_has_the_mean_law_and_no_interval():
    rng = np.random.default_rng(1)
    episodes = made(rng.integers(0, 2, (300, 5)), rng.random((300, 4)) < 0.3, 3)
    found = recover(episodes)
    np.testing.assert_array_equal(found.info.never_visited, [2])
    overall = recover(episodes).model.average[:2].mean()
    np.testing.assert_allclose(found.model.rewards[:, 2, 0], overall, atol=0.02)
    assert np.isinf(found.info.errors[:, 2, 0]).all()
    np.testing.assert_array_equal((found.info.lower[:, 2, 0], found.info.upper[:, 2, 0]), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(found.model.transition[2, 0], [0, 0, 1])


def test_episodes_that_end_early_get_an_absorbing_end_without_reward():
    rng = np.random.default_rng(2)
    episodes = made(
        rng.integers(0, 2, (300, 5)), 1 + (rng.random((300, 4)) < 0.3), 2,
        lengths=rng.integers(1, 5, 300), reward_values=(1.0, 2.0),
    )  # fmt: skip
    model = recover(episodes).model
    assert model.num_states == 3
    np.testing.assert_array_equal(model.reward_values, [0, 1, 2])
    np.testing.assert_array_equal(model.means[:, 2], 0.0)
    np.testing.assert_array_equal(model.transition[2, 0], [0, 0, 1])
    np.testing.assert_array_equal(model.laws[:, :2, :, 0], 0.0)


def test_groups_that_never_meet_are_named():
    rng = np.random.default_rng(3)
    truth = random_mixture(rng, 2, 4, weights=[0.5, 0.5])
    paths = rng.integers(0, 2, (2000, 5)) + 2 * rng.integers(0, 2, (2000, 1))
    found = recover(drawn(rng, truth, paths), weights="uniform")
    assert found.info.unoriented == ((0, 1), (2, 3))
    assert found.info.never_together == 4
    assert "2 groups of state-actions never meet" in found.info.not_identified


def test_groups_that_never_meet_are_put_together_by_triples():
    rng = np.random.default_rng(4)
    laws = np.array([[0.9, 0.2, 0.8, 0.3], [0.2, 0.7, 0.3, 0.8]])
    truth = random_mixture(rng, 2, 4, weights=[0.2, 0.8])
    truth = replace(truth, laws=np.stack([1 - laws, laws], axis=-1))
    paths = rng.integers(0, 2, (20_000, 6)) + 2 * rng.integers(0, 2, (20_000, 1))
    found = recover(drawn(rng, truth, paths))
    order = np.argsort(found.model.weights)
    np.testing.assert_allclose(found.model.rewards[order][..., 0], laws, atol=0.05)
    assert found.info.not_identified.startswith("Everything is identified")


def test_two_sides_are_said():
    rng = np.random.default_rng(5)
    truth = random_mixture(rng, 2, 4, weights=[0.5, 0.5])
    paths = np.stack([rng.integers(0, 2, 3000), rng.integers(2, 4, 3000)], axis=1)
    found = recover(drawn(rng, truth, paths), weights="uniform")
    np.testing.assert_array_equal(found.info.two_sided, [0, 1, 2, 3])
    assert "two sides" in found.info.not_identified


def test_refusals_say_what_is_wrong():
    model = model_with(2)
    episodes = simulate(uniform(model), model, 20)
    cases = [
        ({"data": Moments.empty(2, 2, 3)}, r"moments: found no episodes"),
        ({"data": episodes[:0]}, r"moments: found no episodes"),
        ({"data": [1, 2]}, r"data: found list, expected Episodes, Moments or a ConfidenceSet"),
        ({"method": "best"}, r"method: found 'best', expected a function: best, algorithm_3, spectral or sweep"),
        ({"num_contexts": 0}, r"num_contexts: found 0, expected a whole number of at least 1"),
        ({"weights": "equal"}, r"weights: found 'equal', expected \"uniform\""),
        ({"weights": (0.5, 0.6)}, r"weights: found sum 1\.1"),
        ({"weights": (0.0, 1.0)}, r"weights\[0\]: found 0\.0, expected a positive weight"),
        ({"prior": -1.0}, r"prior: found -1\.0, expected a finite number above 0"),
        (
            {"method": algorithm_3, "num_contexts": 3},
            r"num_contexts: found 3, expected 2, the only number that algorithm_3 is for",
        ),
        ({"data": Moments.of(episodes), "num_contexts": 3}, r"data: found moments without episodes, expected Episodes"),
        ({"method": spectral}, r"data: found no episode with both x = \d and x = \d"),
        ({"method": sweep_weights(model), "weights": "uniform"}, r"method: found sweep with 2 contexts, weights known"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            recover(**({"data": episodes[:2]} | options))


def test_the_paper_model_is_in_its_confidence_set():
    model = problems.make("random", states=4, actions=2, horizon=6, seed=2)
    inside = 0
    for seed in range(10):
        moments = Moments.of(simulate(uniform(model), model, 30_000, seed=seed))
        box = confidence_set(moments, radius=normal(4.0))
        found = recover(box, method=algorithm_3, weights="uniform")
        assert found.info.certificate.program == "feasible"
        assert found.info.certificate.conflicts == ()
        inside += box.contains(found.model)
        assert found.info.certificate.violations == len(box.violations(found.model))
    assert inside >= 9  # the clip may move a magnitude out of an interval at its very end


@pytest.mark.parametrize(
    ("table", "related"),
    [
        ([[200, 0], [0, 200]], True),
        ([[38, 1], [1, 0]], False),
        ([[398, 0], [0, 1]], False),  # far in deviations of independent rewards, but within two of its own
        ([[1, 9], [9, 1]], False),  # far in its own, but within four of independent rewards
    ],
)
def test_a_pair_shows_that_contexts_differ_only_far_beyond_chance(table, related):
    found = recover(moments_of_pairs([table]), weights="uniform")
    assert ("no pair of rewards is correlated beyond chance" not in found.info.not_identified) == related


def test_kappa_says_what_is_known_of_the_weights_it_was_computed_at():
    model = problems.make("random", states=3, actions=2, horizon=5, weights=(0.3, 0.7), seed=0)
    episodes = simulate(uniform(model), model, 500, seed=0)
    asked = {
        "known": (episodes, (0.3, 0.7)),
        "estimated": (episodes, None),
        "assumed equal": (Moments.of(episodes), None),
    }
    for expected, (data, weights) in asked.items():
        assert recover(data, weights=weights).info.certificate.kappa_weights == expected
    assert recover(episodes, method=sweep_weights(model, step=0.25)).info.certificate.kappa_weights == "estimated"


@pytest.mark.parametrize("contexts", [2, 3])
def test_the_prior_pulls_to_what_episodes_paid_that_did_not_follow_rewards(contexts):
    rng = np.random.default_rng(0)
    model = RewardMixingMDP(rng.dirichlet(np.ones(3), (3, 2)), np.full(3, 1 / 3), [0.5, 0.5], rng.random((2, 3, 2)), 5)
    blind = simulate(uniform(model), model, 400, seed=1)
    blind = blind[(blind.states[:, :-1] * 2 + blind.actions != 5).all(axis=1)]  # state-action 5 is left to the others
    following = simulate(plan(model).policy, model, 2000, seed=2)
    following = following[following.returns >= 4]  # what followed rewards and found them, at its worst
    both, alone = bags_of(blind + following).average, bags_of(blind).average
    assert np.abs(both - alone)[:5].max() > 0.2
    found = recover(blind, following=following, num_contexts=contexts, weights="uniform", prior=1e7)
    laws = found.model.laws.reshape(contexts, 6, 2)
    np.testing.assert_allclose(laws[:, :5], np.broadcast_to(alone[:5], (contexts, 5, 2)), atol=1e-3)
    np.testing.assert_allclose(laws[:, 5], np.broadcast_to(both[5], (contexts, 2)), atol=1e-3)
    errors = np.sqrt(alone[:5, 0] * alone[:5, 1] / 1e7)  # the prior is all that is known, and agrees with the laws
    np.testing.assert_allclose(found.info.errors.reshape(contexts, 6)[:, :5], np.tile(errors, (contexts, 1)), rtol=0.02)


def test_a_state_action_that_was_never_visited_has_the_mean_law_of_the_others_everywhere():
    model = problems.make("random", states=4, actions=2, horizon=5, seed=0)
    episodes = simulate(uniform(model), model, 300, seed=0)
    path = episodes.states[:, :-1] * 2 + episodes.actions
    episodes = episodes[((path != 3) & ((path != 6) | (np.arange(5) == 4))).all(axis=1)]  # not 3, and 6 rarely
    bags, moments = bags_of(episodes), Moments.of(episodes)
    assert moments.samples[3] == 0
    np.testing.assert_allclose(bags.average[3], bags.average[np.arange(8) != 3].mean(axis=0))
    laws = confidence_set(moments).average_laws
    np.testing.assert_allclose(laws[3], laws[np.arange(8) != 3].mean(axis=0))
    found = recover(episodes).model.laws.reshape(2, 8, 2)[:, 3]
    np.testing.assert_allclose(found, np.tile(bags.average[3], (2, 1)), atol=1e-3)


def test_resamples_are_pulled_to_the_average_of_the_model_not_of_their_episodes():
    model = problems.make("random", states=3, actions=2, horizon=5, weights=(0.3, 0.7), seed=0)
    found = recover(simulate(uniform(model), model, 500, seed=0))
    lucky = simulate(uniform(model), model, 3000, seed=1)
    (other,) = bootstrap(lucky[lucky.returns >= 4], found, resamples=1, prior=1e7)
    np.testing.assert_allclose(other.average, found.model.average, atol=1e-3)


def test_moments_that_were_counted_already_are_taken_and_those_of_others_refused(monkeypatch):
    model = problems.make("random", states=3, actions=2, horizon=4, seed=1)
    episodes = simulate(uniform(model), model, 300, seed=2)
    moments, expected = Moments.of(episodes), recover(episodes)
    with monkeypatch.context() as patch:
        patch.setattr(Moments, "of", None)  # counting again would fail
        found = recover(episodes, moments=moments)
    np.testing.assert_array_equal(found.model.rewards, expected.model.rewards)
    np.testing.assert_array_equal(found.info.errors, expected.info.errors)
    with pytest.raises(InputError, match=r"moments: found Moments\(299 episodes.*expected those of Episodes\(300"):
        recover(episodes, moments=Moments.of(episodes[1:]))
    with pytest.raises(InputError, match="data: found Moments, expected Episodes, where there are moments of them"):
        recover(moments, moments=moments)


@pytest.mark.parametrize(("contexts", "weights"), [(2, None), (2, "uniform"), (3, None)])
def test_an_estimate_is_the_model_of_best(contexts, weights):
    model = problems.make("random", states=3, actions=2, horizon=4, seed=1)
    episodes = simulate(uniform(model), model, 300, seed=2)
    whole = recover(episodes, num_contexts=contexts, weights=weights)
    quick = estimate_model(evidence_of(episodes), Question(contexts, as_weights(weights, contexts)))
    np.testing.assert_array_equal(quick.model.rewards, whole.model.rewards)
    np.testing.assert_array_equal(quick.model.transition, whole.model.transition)
    assert (quick.starts, quick.reproduced) == (whole.info.starts, whole.info.reproduced)
    assert (quick.fixed_weights is None) == (whole.fixed_weights is None)
