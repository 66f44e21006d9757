from dataclasses import replace

import numpy as np
import pytest

from helpers.confidence_sets import moments_from_pair_tables
from oracles.mixtures import draw_episodes, random_mixture
from rewardmix import InputError, RewardMixingMDP, plan, problems, simulate, uniform_policy
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery import (
    algorithm_3,
    align_types,
    bootstrap_models,
    confidence_set,
    exact_confidence_set,
    maximum_likelihood,
    moment_estimate,
    normal_rule,
    recover,
    spectral,
    sweep_weights,
)
from rewardmix.recovery.evidence import RecoverySettings, make_recovery_data
from rewardmix.recovery.likelihood import Mixture, e_step, run_em
from rewardmix.recovery.ml_recovery import check_weights, estimate_model
from rewardmix.recovery.reward_patterns import merge_patterns, patterns_from_episodes


def model_with(values, seed=0, weights=(0.5, 0.5)):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(values), (2, 3, 2))
    return RewardMixingMDP(
        rng.dirichlet(np.ones(3), (3, 2)), rng.dirichlet(np.ones(3)), weights, probs, 5, np.arange(values)
    )


def error(result, model):
    return float(np.sqrt(((align_types(result, model).reward_probs - model.reward_probs) ** 2).mean()))


@pytest.mark.parametrize(
    "method", [maximum_likelihood, algorithm_3, spectral, moment_estimate], ids=lambda method: method.__name__
)
@pytest.mark.parametrize("values", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_exact_set_gives_the_exact_model(method, values, seed):
    model = model_with(values, seed)
    result = recover(exact_confidence_set(model), method=method, weights="uniform")
    np.testing.assert_allclose(align_types(result.model, model).reward_probs, model.reward_probs, atol=1e-7)
    np.testing.assert_allclose(result.model.transition, model.transition, atol=1e-12)
    assert result.info.certificate.contains_model
    assert (result.info.certificate.lp_status, result.info.certificate.radius_inflation) == ("feasible", 1.0)
    assert result.info.certificate.sign_agreement == 1.0
    assert result.info.identification_text.startswith("Everything is identified")


def test_the_exact_set_gives_the_exact_model_to_a_sweep():
    model = model_with(2, 1)
    result = recover(exact_confidence_set(model), method=sweep_weights(model, step=0.25))
    np.testing.assert_allclose(align_types(result.model, model).reward_probs, model.reward_probs, atol=1e-7)
    assert [start.init_name for start in result.info.em_runs] == ["weight 0.2500", "weight 0.5000", "weight 0.7500"]
    assert "has the highest value" in result.info.convergence


@pytest.mark.parametrize("weights", [(0.2, 0.8), (0.7, 0.3)])
@pytest.mark.parametrize("method", [maximum_likelihood, algorithm_3, spectral], ids=lambda method: method.__name__)
def test_known_weights_that_are_not_equal_are_oriented_by_episodes(weights, method):
    model = model_with(2, 2, weights)
    episodes = simulate(uniform_policy(model), model, 60_000, seed=1)
    result = recover(episodes, method=method, weights=weights, radius_rule=normal_rule(4.0))
    np.testing.assert_array_equal(result.model.weights, weights)
    np.testing.assert_allclose(result.model.rewards, model.rewards, atol=0.03 if method is not algorithm_3 else 0.25)
    assert np.corrcoef(result.model.reward_difference.ravel(), model.reward_difference.ravel())[0, 1] > 0.8


@pytest.mark.parametrize("values", [2, 3])
def test_best_is_the_likelihood_climbed_from_the_truth(values):
    model = model_with(values, 3)
    episodes = simulate(uniform_policy(model), model, 5000, seed=2)
    result = recover(episodes, weights="uniform")
    patterns = merge_patterns(patterns_from_episodes(episodes))
    truth = Mixture(model.weights, model.reward_probs.reshape(2, 6, values))
    fit = run_em(
        lambda m: e_step(patterns, m), truth, prior_mean=patterns.marginal_probs, pseudocount=1.0, weights=model.weights
    )
    assert result.info.loglik == pytest.approx(fit.loglik, abs=1e-3)
    assert result.info.num_reproduced >= 2
    assert result.info.certificate.contains_model
    assert error(result.model, model) < 0.03
    np.testing.assert_array_less(result.info.lower, result.model.rewards + 1e-12)
    np.testing.assert_array_less(result.model.rewards, result.info.upper + 1e-12)


def test_moments_do_almost_as_well_as_episodes_and_survive_wrong_pairs():
    rng = np.random.default_rng(5)
    truth = random_mixture(rng, 2, 20, weights=[0.5, 0.5])
    episodes = draw_episodes(rng, truth, rng.integers(0, 20, (20_000, 6)))
    moments = Moments.from_episodes(episodes)
    tables = moments.pair_tables.copy()
    off = np.flatnonzero(moments.pairs[0] != moments.pairs[1])
    bad = rng.choice(off, off.size // 25, replace=False)
    tables[bad] = np.eye(2, dtype=np.int64) * (tables[bad].sum(axis=(1, 2), keepdims=True) // 2)
    clean, dirty = (recover(data, weights="uniform") for data in (moments, replace(moments, pair_tables=tables)))
    from_episodes = recover(episodes, weights="uniform")

    def error_of(result):
        probs = result.model.reward_probs.reshape(2, 20, 2)
        return min(np.sqrt(((probs[order] - truth.probs) ** 2).mean()) for order in ([0, 1], [1, 0]))

    assert error_of(clean) < 1.25 * error_of(from_episodes)
    assert error_of(dirty) < 1.25 * error_of(clean)
    named = set(dirty.info.outlier_pairs)
    assert {(int(moments.pairs[0][k]), int(moments.pairs[1][k])) for k in bad} <= named
    assert clean.info.weights_source == "known"
    assert recover(moments).info.weights_source == "assumed equal"


@pytest.mark.parametrize("weight", [0.2, 0.35])
def test_unknown_weights_are_found(weight):
    model = model_with(2, 4, (weight, 1 - weight))
    result = recover(simulate(uniform_policy(model), model, 40_000, seed=3))
    assert result.info.weights_source == "estimated"
    near = align_types(result.model, model)
    error_bar = result.info.weight_errors[0]
    assert 0 < error_bar < 0.05
    assert abs(near.weights[0] - weight) < 5 * error_bar


def test_labels_do_not_depend_on_the_seed():
    model = model_with(2, 5)
    episodes = simulate(uniform_policy(model), model, 3000, seed=4)
    first, second = recover(episodes, seed=0), recover(episodes, seed=9)
    np.testing.assert_allclose(first.model.rewards, second.model.rewards, atol=1e-3)


def make_episodes(states, rewards, num_states, num_actions=1, **options):
    rewards = np.asarray(rewards)
    return Episodes.from_arrays(
        states, np.zeros(rewards.shape, int), rewards, num_states=num_states, num_actions=num_actions, **options
    )


def degenerate():
    rng = np.random.default_rng(0)
    coin = rng.integers(0, 2, (200, 4))
    walk = rng.integers(0, 2, (200, 5))
    yield "one episode", make_episodes([[0, 1, 0, 1]], [[1, 0, 1]], 2), "types may be identical"
    yield "one step", make_episodes(walk[:, :2], coin[:, :1], 2), "no episode has two rewards"
    yield "always 1", make_episodes(walk, np.ones((200, 4)), 2), "types may be identical"
    yield "always 0", make_episodes(walk, np.zeros((200, 4)), 2), "types may be identical"
    yield "never visited", make_episodes(walk, coin, 3, 2), "4 of 6 state-actions were never visited"
    yield "identical contexts", make_episodes(walk, coin, 2), "types may be identical"
    yield "two steps", make_episodes(walk[:, :3], coin[:, :2], 2), "do not determine the weights"
    yield "ended early", make_episodes(walk, coin, 2, lengths=rng.integers(1, 5, 200)), "types may be identical"


@pytest.mark.system
@pytest.mark.parametrize(
    "method", [maximum_likelihood, algorithm_3, moment_estimate], ids=lambda method: method.__name__
)
@pytest.mark.parametrize(("episodes", "text"), [case[1:] for case in degenerate()], ids=[c[0] for c in degenerate()])
def test_degenerate_data_give_a_model_that_says_what_is_unknown(episodes, text, method):
    for data in (episodes, Moments.from_episodes(episodes)):
        result = recover(data, method=method)
        assert text in result.info.identification_text
        assert np.isfinite(result.model.rewards).all()
        for piece in (result.info.reward_errors, result.info.lower, result.info.upper, result.info.weight_errors):
            assert not np.isnan(piece).any()


def test_a_state_action_never_visited_has_the_mean_law_and_no_interval():
    rng = np.random.default_rng(1)
    episodes = make_episodes(rng.integers(0, 2, (300, 5)), rng.random((300, 4)) < 0.3, 3)
    result = recover(episodes)
    np.testing.assert_array_equal(result.info.unvisited, [2])
    overall = recover(episodes).model.marginal_rewards[:2].mean()
    np.testing.assert_allclose(result.model.rewards[:, 2, 0], overall, atol=0.02)
    assert np.isinf(result.info.reward_errors[:, 2, 0]).all()
    np.testing.assert_array_equal((result.info.lower[:, 2, 0], result.info.upper[:, 2, 0]), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(result.model.transition[2, 0], [0, 0, 1])


def test_episodes_that_end_early_get_an_absorbing_end_without_reward():
    rng = np.random.default_rng(2)
    episodes = make_episodes(
        rng.integers(0, 2, (300, 5)), 1 + (rng.random((300, 4)) < 0.3), 2,
        lengths=rng.integers(1, 5, 300), reward_values=(1.0, 2.0),
    )  # fmt: skip
    model = recover(episodes).model
    assert model.num_states == 3
    np.testing.assert_array_equal(model.reward_values, [0, 1, 2])
    np.testing.assert_array_equal(model.mean_rewards_by_type[:, 2], 0.0)
    np.testing.assert_array_equal(model.transition[2, 0], [0, 0, 1])
    np.testing.assert_array_equal(model.reward_probs[:, :2, :, 0], 0.0)


def test_groups_that_never_meet_are_named():
    rng = np.random.default_rng(3)
    truth = random_mixture(rng, 2, 4, weights=[0.5, 0.5])
    paths = rng.integers(0, 2, (2000, 5)) + 2 * rng.integers(0, 2, (2000, 1))
    result = recover(draw_episodes(rng, truth, paths), weights="uniform")
    assert result.info.unoriented_groups == ((0, 1), (2, 3))
    assert result.info.num_unobserved_pairs == 4
    assert "2 groups of state-actions never occur together" in result.info.identification_text


def test_groups_that_never_meet_are_put_together_by_triples():
    rng = np.random.default_rng(4)
    probs = np.array([[0.9, 0.2, 0.8, 0.3], [0.2, 0.7, 0.3, 0.8]])
    truth = random_mixture(rng, 2, 4, weights=[0.2, 0.8])
    truth = replace(truth, probs=np.stack([1 - probs, probs], axis=-1))
    paths = rng.integers(0, 2, (20_000, 6)) + 2 * rng.integers(0, 2, (20_000, 1))
    result = recover(draw_episodes(rng, truth, paths))
    order = np.argsort(result.model.weights)
    np.testing.assert_allclose(result.model.rewards[order][..., 0], probs, atol=0.05)
    assert result.info.identification_text.startswith("Everything is identified")


def test_two_sides_are_said():
    rng = np.random.default_rng(5)
    truth = random_mixture(rng, 2, 4, weights=[0.5, 0.5])
    paths = np.stack([rng.integers(0, 2, 3000), rng.integers(2, 4, 3000)], axis=1)
    result = recover(draw_episodes(rng, truth, paths), weights="uniform")
    np.testing.assert_array_equal(result.info.bipartite_points, [0, 1, 2, 3])
    assert "two unconnected sides" in result.info.identification_text


def test_refusals_say_what_is_wrong():
    model = model_with(2)
    episodes = simulate(uniform_policy(model), model, 20)
    cases = [
        ({"data": Moments.empty(2, 2, 3)}, r"moments: got no episodes"),
        ({"data": episodes[:0]}, r"moments: got no episodes"),
        ({"data": [1, 2]}, r"data: got list, expected Episodes, Moments or a ConfidenceSet"),
        (
            {"method": "best"},
            r"method: got 'best', expected maximum_likelihood, algorithm_3, spectral or sweep_weights",
        ),
        ({"num_types": 0}, r"num_types: got 0, expected a whole number of at least 1"),
        ({"weights": "equal"}, r"weights: got 'equal', expected \"uniform\""),
        ({"weights": (0.5, 0.6)}, r"weights: got sum 1\.1"),
        ({"weights": (0.0, 1.0)}, r"weights\[0\]: got 0\.0, expected a positive weight"),
        ({"pseudocount": -1.0}, r"pseudocount: got -1\.0, expected a finite number above 0"),
        (
            {"method": algorithm_3, "num_types": 3},
            r"num_types: got 3, expected 2 for algorithm_3; use maximum_likelihood",
        ),
        (
            {"data": Moments.from_episodes(episodes), "num_types": 3},
            r"data: got moments without episodes, expected Episodes",
        ),
        ({"method": spectral}, r"data: got no episode with both x = \d and x = \d"),
        (
            {"method": sweep_weights(model), "weights": "uniform"},
            r"method: got sweep_weights with 2 types and weights known",
        ),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            recover(**({"data": episodes[:2]} | options))


def test_the_paper_model_is_in_its_confidence_set():
    model = problems.make_model("random", states=4, actions=2, horizon=6, seed=2)
    inside = 0
    for seed in range(10):
        moments = Moments.from_episodes(simulate(uniform_policy(model), model, 30_000, seed=seed))
        box = confidence_set(moments, radius_rule=normal_rule(4.0))
        result = recover(box, method=algorithm_3, weights="uniform")
        assert result.info.certificate.lp_status == "feasible"
        assert result.info.certificate.conflicts == ()
        inside += box.contains(result.model)
        assert result.info.certificate.violations == len(box.violations(result.model))
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
    result = recover(moments_from_pair_tables([table]), weights="uniform")
    assert ("no pair of rewards is significantly correlated" not in result.info.identification_text) == related


def test_kappa_says_what_is_known_of_the_weights_it_was_computed_at():
    model = problems.make_model("random", states=3, actions=2, horizon=5, weights=(0.3, 0.7), seed=0)
    episodes = simulate(uniform_policy(model), model, 500, seed=0)
    cases = {
        "known": (episodes, (0.3, 0.7)),
        "estimated": (episodes, None),
        "assumed equal": (Moments.from_episodes(episodes), None),
    }
    for expected, (data, weights) in cases.items():
        assert recover(data, weights=weights).info.certificate.weights_source == expected
    assert recover(episodes, method=sweep_weights(model, step=0.25)).info.certificate.weights_source == "estimated"


@pytest.mark.parametrize("num_types", [2, 3])
def test_the_prior_pulls_to_what_episodes_paid_that_did_not_follow_rewards(num_types):
    rng = np.random.default_rng(0)
    model = RewardMixingMDP(rng.dirichlet(np.ones(3), (3, 2)), np.full(3, 1 / 3), [0.5, 0.5], rng.random((2, 3, 2)), 5)
    nonadaptive = simulate(uniform_policy(model), model, 400, seed=1)
    nonadaptive = nonadaptive[
        (nonadaptive.states[:, :-1] * 2 + nonadaptive.actions != 5).all(axis=1)
    ]  # state-action 5 is left to the others
    adaptive = simulate(plan(model).policy, model, 2000, seed=2)
    adaptive = adaptive[adaptive.returns >= 4]  # what followed rewards and found them, at its worst
    both, alone = (
        patterns_from_episodes(nonadaptive + adaptive).marginal_probs,
        patterns_from_episodes(nonadaptive).marginal_probs,
    )
    assert np.abs(both - alone)[:5].max() > 0.2
    result = recover(nonadaptive, adaptive_episodes=adaptive, num_types=num_types, weights="uniform", pseudocount=1e7)
    probs = result.model.reward_probs.reshape(num_types, 6, 2)
    np.testing.assert_allclose(probs[:, :5], np.broadcast_to(alone[:5], (num_types, 5, 2)), atol=1e-3)
    np.testing.assert_allclose(probs[:, 5], np.broadcast_to(both[5], (num_types, 2)), atol=1e-3)
    errors = np.sqrt(alone[:5, 0] * alone[:5, 1] / 1e7)  # the prior is all that is known, and agrees with the laws
    np.testing.assert_allclose(
        result.info.reward_errors.reshape(num_types, 6)[:, :5], np.tile(errors, (num_types, 1)), rtol=0.02
    )


def test_a_state_action_that_was_never_visited_has_the_mean_law_of_the_others_everywhere():
    model = problems.make_model("random", states=4, actions=2, horizon=5, seed=0)
    episodes = simulate(uniform_policy(model), model, 300, seed=0)
    path = episodes.states[:, :-1] * 2 + episodes.actions
    episodes = episodes[((path != 3) & ((path != 6) | (np.arange(5) == 4))).all(axis=1)]  # not 3, and 6 rarely
    patterns, moments = patterns_from_episodes(episodes), Moments.from_episodes(episodes)
    assert moments.num_samples[3] == 0
    np.testing.assert_allclose(patterns.marginal_probs[3], patterns.marginal_probs[np.arange(8) != 3].mean(axis=0))
    probs = confidence_set(moments).marginal_probs
    np.testing.assert_allclose(probs[3], probs[np.arange(8) != 3].mean(axis=0))
    result = recover(episodes).model.reward_probs.reshape(2, 8, 2)[:, 3]
    np.testing.assert_allclose(result, np.tile(patterns.marginal_probs[3], (2, 1)), atol=1e-3)


def test_resamples_are_pulled_to_the_average_of_the_model_not_of_their_episodes():
    model = problems.make_model("random", states=3, actions=2, horizon=5, weights=(0.3, 0.7), seed=0)
    result = recover(simulate(uniform_policy(model), model, 500, seed=0))
    lucky = simulate(uniform_policy(model), model, 3000, seed=1)
    (other,) = bootstrap_models(lucky[lucky.returns >= 4], result, num_resamples=1, pseudocount=1e7)
    np.testing.assert_allclose(other.marginal_rewards, result.model.marginal_rewards, atol=1e-3)


def test_moments_that_were_counted_already_are_taken_and_those_of_others_refused(monkeypatch):
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=1)
    episodes = simulate(uniform_policy(model), model, 300, seed=2)
    moments, expected = Moments.from_episodes(episodes), recover(episodes)
    with monkeypatch.context() as patch:
        patch.setattr(Moments, "from_episodes", None)  # counting again would fail
        result = recover(episodes, moments=moments)
    np.testing.assert_array_equal(result.model.rewards, expected.model.rewards)
    np.testing.assert_array_equal(result.info.reward_errors, expected.info.reward_errors)
    with pytest.raises(InputError, match=r"moments: got Moments\(299 episodes.*expected the moments of Episodes\(300"):
        recover(episodes, moments=Moments.from_episodes(episodes[1:]))
    with pytest.raises(InputError, match="data: got Moments, expected Episodes with moments"):
        recover(moments, moments=moments)


@pytest.mark.parametrize(("num_types", "weights"), [(2, None), (2, "uniform"), (3, None)])
def test_an_estimate_is_the_model_of_best(num_types, weights):
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=1)
    episodes = simulate(uniform_policy(model), model, 300, seed=2)
    result = recover(episodes, num_types=num_types, weights=weights)
    quick = estimate_model(make_recovery_data(episodes), RecoverySettings(num_types, check_weights(weights, num_types)))
    np.testing.assert_array_equal(quick.model.rewards, result.model.rewards)
    np.testing.assert_array_equal(quick.model.transition, result.model.transition)
    assert (quick.em_runs, quick.num_reproduced) == (result.info.em_runs, result.info.num_reproduced)
    assert (quick.fixed_weights is None) == (result.fixed_weights is None)
