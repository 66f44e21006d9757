"""The paper, statement by statement: one test for each that can be computed, in its order, named after its label.

Every O(.) has a constant here, and every sup over policies is exact (``paper_quantities``). What is false as printed is
tested as corrected, beside the witness against the printed form; docs/concepts/paper-and-code.md numbers these
departures.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from oracles import brute_force as oracles
from oracles.paper_quantities import (
    CLOSE,
    algorithm_three,
    axes,
    every_pair,
    exactly,
    expected_steps,
    extreme_magnitudes,
    interval_set,
    levels,
    meets,
    optimistic_values,
    ordered_counts,
    random_tiny_model,
    returns,
    reward_pattern_probs,
    separation,
    sup_distance,
    sup_over_policies,
    sup_probability,
    surrogates,
    times,
    trajectory_probs,
    trajectory_shape,
    two_type_model,
    visited,
    with_rewards,
)
from rewardmix import belief, evaluate, explore, learn, plan, problems, recover, theory, uniform_policy
from rewardmix._core.random_streams import Role
from rewardmix._core.random_streams import kernel_stream as stream_of
from rewardmix.exploration import paper_bonus as paper_levels
from rewardmix.exploration import selected_pairs
from rewardmix.exploration.exploration_kernels import draw_two_uniforms
from rewardmix.exploration.reference import Algorithm2Reference, next_slot_and_picks
from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.recovery import algorithm_3, confidence_set, exact_confidence_set, normal_rule, spectral
from rewardmix.recovery.linear_program import solve_magnitudes
from rewardmix.recovery.signs import solve_signs
from rewardmix.simulation_kernels import SamplingTables

FAILURE = 0.05


# ---------------------------------------------------------------------------------------------------------------------
# 2  Problem setup


def test_definition_rm_lmdp():
    """definition:rm_lmdp. A type is drawn once and kept: trajectories have the law nu T (sum_m w_m prod_t R_m)."""
    model = random_tiny_model(1)
    probs = trajectory_probs(model)
    assert_allclose([sup_over_policies(probs), -sup_over_policies(-probs)], 1.0, rtol=1e-12)
    at_random = (probs * returns(model)).sum() / model.num_actions**model.horizon
    assert_allclose(evaluate(uniform_policy(model), model).value, at_random, rtol=1e-9)
    average = np.tensordot(model.weights, model.reward_probs, axes=1)
    redrawn = np.prod(np.broadcast_arrays(*(average[step] for step in axes(model))), axis=0)
    assert np.abs(reward_pattern_probs(model) - redrawn).max() > 0.01  # a type drawn anew at each step is another model


@pytest.mark.parametrize("seed", range(3))
def test_the_optimal_value_over_history_dependent_policies(seed):
    """V* of section 2: the planner's bracket contains the maximum over all history-dependent policies."""
    model = random_tiny_model(seed)
    best = sup_over_policies(trajectory_probs(model) * returns(model))
    assert_allclose(best, oracles.optimal_value(model), rtol=1e-12)
    result = plan(model, gap=1e-6)
    assert result.lower - 1e-9 <= best <= result.upper + 1e-9
    assert result.upper - result.lower <= 1e-6


def test_definition_pac_optimal_policy():
    """definition: pac optimal policy. V* - V <= epsilon in all of 8 runs; acting at random is further off."""
    model = two_type_model([[0.5, 0.5]], [[0.45, -0.45]], horizon=4)
    best = sup_over_policies(trajectory_probs(model) * returns(model))
    runs = [learn(model, num_episodes=400, num_resamples=0, weights="uniform", seed=seed) for seed in range(8)]
    lost = [best - evaluate(run.policy, model).value for run in runs]
    assert max(lost) <= 0.05
    assert best - evaluate(uniform_policy(model), model).value > 0.5


def test_notation_p_plus_p_minus_and_delta():
    """Section 2.1. p_+ = (p_1 + p_2) / 2, p_- = (p_1 - p_2) / 2; its appendix E has p_1 - p_2 (departure 1)."""
    model = random_tiny_model(2)
    first, second = model.rewards
    assert_allclose(model.marginal_rewards, (first + second) / 2)
    assert_allclose(model.loadings, (first - second) / 2)
    assert_allclose(model.reward_difference, first - second)


# ---------------------------------------------------------------------------------------------------------------------
# 3  Algorithms


def test_algo_two_reward_mixture():
    """algo:two_reward_mixture. Explore, recover, plan; nothing of the true model but its episodes is used."""
    model = random_tiny_model(5, separation=0.2)
    result = learn(model, num_episodes=300_000, num_resamples=0, weights="uniform", method=algorithm_3)
    again = recover(result.exploration.moments, method=algorithm_3, weights="uniform")
    assert_allclose(result.model.rewards, again.model.rewards)
    planned = plan(result.model, gap=1e-6)
    assert_allclose(evaluate(result.policy, result.model).value, planned.lower, atol=1e-5)
    best = sup_over_policies(trajectory_probs(model) * returns(model))
    assert best - evaluate(result.policy, model).value < 0.1


def test_eq_def_mu():
    """eq:def_mu. mu(x, y) = E[r_x r_y | x, y] = (p_1 p_1 + p_2 p_2) / 2, from the law of trajectories of two steps."""
    model = random_tiny_model(3, horizon=2)
    probs, both = trajectory_probs(model), returns(model) == 2
    mu = (probs * both).sum(axis=(2, 5)) / probs.sum(axis=(2, 5))
    p = model.rewards.reshape(2, -1)
    assert_allclose(mu.reshape(4, 4), (np.outer(p[0], p[0]) + np.outer(p[1], p[1])) / 2, rtol=1e-12)
    average = model.marginal_rewards.ravel()
    assert_allclose(model.covariance(), mu.reshape(4, 4) - np.outer(average, average), atol=1e-15)


def test_warm_up_top_eigenvector():
    """Section 3. B = mu - p_+ p_+ = q q^T with q = p_-, so the leading eigenvector gives p_- up to its sign."""
    model = random_tiny_model(4)
    matrix, q = model.covariance(), model.loadings.ravel()
    values, vectors = np.linalg.eigh(matrix)
    assert np.abs(values[:-1]).max() < 1e-15
    assert_allclose(np.abs(vectors[:, -1]) * np.sqrt(values[-1]), np.abs(q), rtol=1e-10)
    result = recover(exact_confidence_set(model), method=spectral, weights="uniform").model
    assert sup_distance(model, result) < 1e-9


def test_eq_recovery_of_reward():
    """eq: recovery of reward. R_1 = p_+ + p_-, R_2 = p_+ - p_-."""
    model = random_tiny_model(6)
    assert_allclose(model.rewards, [model.marginal_rewards + model.loadings, model.marginal_rewards - model.loadings])


def test_eq_augment_rule():
    """eq:augment_rule. The slot grows and the pick is stored if z = 1 and a slot is free; else nothing changes."""
    things = (None, 0, 1)
    for i, first, second, x, z in itertools.product((1, 2, 3), things, things, (0, 1), (0, 1)):
        slot, picks = next_slot_and_picks(i, (first, second), x, z)
        moved = z == 1 and i != 3
        assert slot == (i + 1 if moved else i)
        for j, (before, after) in enumerate(zip((first, second), picks, strict=True), start=1):
            assert after == (x if moved and j == i else before)


def test_algo_pure_explore():
    """algo:pure_explore. The loop line by line is what ``explore`` counts; mu-hat is the mean of r_c (departure 2)."""
    model = random_tiny_model(0)
    reference = Algorithm2Reference(model, paper_levels(0.01), selected_pairs, FAILURE)
    env, stream, mean, printed = SamplingTables.from_model(model), stream_of(7, Role.EXPLORATION), {}, {}
    for _ in range(60):
        steps = reference.play(env, lambda: draw_two_uniforms(stream))
        reference.count(steps)
        reference.plan()
        picked = [(s * 2 + a, r) for s, a, r, z in steps if z == 1][:2]
        if len(picked) == 2:
            v, product = (picked[0][0], picked[1][0]), picked[0][1] * picked[1][1]
            n = reference.n[v]
            mean[v] = (1 - 1 / n) * mean.get(v, 0.0) + product / n
            printed[v] = (1 - 1 / n) * printed.get(v, 0.0) + product
    for (x, y), value in mean.items():
        assert_allclose(value, reference.tables.get((x, y, 1, 1), 0) / reference.n[x, y], atol=1e-12)
    assert max(printed.values()) > 1.0  # no probability: the printed update lacks 1/n
    result = explore(
        model, num_episodes=60, bonus=paper_levels(0.01), counting=selected_pairs, replan_growth=1.0, seed=7
    )
    counts = ordered_counts(result.moments)
    assert {(x, y): n for (x, y), n in np.ndenumerate(counts) if n} == reference.n
    assert counts.sum() <= 60  # at most one pair an episode


def explored(seed=0, episodes=300, constant=0.02):
    """(model, exploration, iota_2, counts): Algorithm 2 with the paper's levels, planned after every episode."""
    model = random_tiny_model(seed)
    result = explore(
        model,
        num_episodes=episodes,
        bonus=paper_levels(constant),
        counting=selected_pairs,
        replan_growth=1.0,
        seed=3,
        keep_episodes=False,
    )
    iota = theory.paper_level(result.num_episodes, 2, 2, FAILURE, constant)
    return model, result, iota, ordered_counts(result.moments)


def test_eq_update_q2():
    """eq:update_q2. Q of the augmented MDP from the counts: bonus of the pair in slot 2, of the move, clip at 1."""
    model, result, iota, counts = explored(episodes=150)
    reference = Algorithm2Reference(model, paper_levels(0.02), selected_pairs, FAILURE)
    reference.run(150, stream_of(3, Role.EXPLORATION))
    q, _ = optimistic_values(result.moments, counts, iota, 2 * iota, 2 * iota)
    assert 0 < q.min() < q.max() < 1
    for s, a, z in np.ndindex(2, 2, 2):
        assert_allclose(reference.q(0, 1, (None, None), s, a, z), q[s, a, z], rtol=1e-12)


@pytest.mark.parametrize("episodes", [50, 300, 2000])
def test_eq_optimistic_value(episodes):
    """eq:optimistic_value. V_0 = sqrt(iota_nu / K) + sum_s nu-hat(s) V_1(1, null, s), at most 1 (departure 5)."""
    _, result, iota, counts = explored(1, episodes)
    _, value = optimistic_values(result.moments, counts, iota, 2 * iota, 2 * iota)
    assert_allclose(result.uncertainty, min(1.0, value), rtol=1e-12)
    assert episodes < 300 or result.uncertainty < 1


def test_eq_def_u():
    """eq:def_u. u(x, y) = p_-(x) p_-(y) = mu(x, y) - p_+(x) p_+(y), the same x twice included."""
    model = random_tiny_model(7)
    q = model.loadings.ravel()
    assert_allclose(model.covariance(), np.outer(q, q), atol=1e-15)


def test_eq_lp_variables():
    """eq:lp_variables. |(mu-hat - p_+ p_+) - u-hat| <= b; printed with a plus, which is false (departure 10)."""
    model = random_tiny_model(8)
    box, average = exact_confidence_set(model), model.marginal_rewards.ravel()
    product = average[box.pair_first] * average[box.pair_second]
    mu = box.center + product
    u = np.outer(model.loadings, model.loadings)[box.pair_first, box.pair_second]
    assert_allclose(mu - product, u, atol=1e-15)
    assert np.abs(mu + product - u).min() > 0.1


@pytest.fixture(scope="module")
def runs():
    """(model, [moments of 20 explorations])."""
    model = random_tiny_model(9, separation=0.1)
    return model, [explore(model, num_episodes=3000, seed=seed, keep_episodes=False).moments for seed in range(20)]


def test_lemma_feasible_optimism(runs):
    """lemma:feasible_optimism. The set contains the truth, the program and the signs have a solution, it is within 3 b.

    Printed: within b. But where an interval contains 0, u-hat may have the other sign: at most 3 b (departure 13).
    """
    model, moments = runs
    for each in moments:
        box = confidence_set(each, failure_prob=FAILURE)
        assert (
            box.radius >= np.sqrt(np.log(4 * 5 / FAILURE) / (2 * box.pair_samples))
        ).all()  # Hoeffding, for all 10 pairs
        assert box.contains(model)
        assert solve_magnitudes(box).status == "feasible"
        assert solve_signs(box).conflicts == ()
        u = np.outer(*[algorithm_three(box)] * 2)[box.pair_first, box.pair_second]
        assert (np.abs(u - box.center) <= 3 * box.radius + 1e-9).all()
        decided = box.excludes_zero
        assert (np.abs(u - box.center) <= box.radius + 1e-9)[decided].all()
    narrow = [confidence_set(each, failure_prob=FAILURE, radius_rule=normal_rule(0.5)) for each in moments]
    assert sum(box.contains(model) for box in narrow) < 3


def test_lemma_feasible_optimism_fails_as_printed_for_signs_that_nothing_ties():
    """lemma:feasible_optimism, departure 13. Two groups whose cross pairs contain 0: any relative sign is allowed."""
    model = two_type_model([[0.5] * 6], [[0.3] * 3 + [-0.3] * 3])
    box = exact_confidence_set(model)
    cross = (box.pair_first < 3) != (box.pair_second < 3)
    box = replace(box, radius=np.where(cross, 0.1, 0.0))
    assert box.contains(model)
    u = np.outer(*[algorithm_three(box)] * 2)[box.pair_first, box.pair_second]
    off = np.abs(u - box.center)[cross]
    assert (off > 0.1).all()
    assert (off <= 0.3).all()
    assert not recover(box, method=algorithm_3, weights="uniform").info.certificate.contains_model


def test_lemma_feasible_optimism_fails_as_printed_after_the_clip():
    """lemma:feasible_optimism, departure 14. The clip at min(p_+, 1 - p_+) of the *estimate* can break a bound."""
    model = two_type_model([[0.08, 0.5]], [[0.08, 0.45]])
    box = exact_confidence_set(model)
    pair = box.pair_first != box.pair_second
    box = replace(
        box,
        marginals=np.array([0.05, 0.5]),
        marginal_radius=np.array([0.05, 0.0]),
        center=np.where(pair, 0.04, box.center),
        radius=np.where(pair, 0.01, 1.0),
    )
    assert box.contains(model)
    assert solve_magnitudes(box).status == "feasible"
    clipped = recover(box, method=algorithm_3, weights="uniform").model
    assert clipped.covariance()[0, 1] < 0.03
    assert not box.contains(clipped)


@pytest.mark.parametrize("tolerance", [0.25, 0.1, 0.02])
def test_lemma_feasible_optimism_model_of_the_proof(tolerance):
    """lemma:feasible_optimism, its proof. M^1: averages within eps^3, joint laws within 2 eps^3, Delta >= eps^5."""
    rng, e = np.random.default_rng(0), tolerance
    average = np.concatenate([[0.0, 1.0], rng.uniform(0, 1, 40)])
    small = rng.choice([0.0, 1.0], average.size) * e**5
    spread = np.where(rng.random(average.size) < 0.5, small, rng.uniform(0, 1, average.size))
    spread = np.minimum(spread, np.minimum(average, 1 - average)) * rng.choice([-1, 1], average.size)
    p = np.stack([average + spread, average - spread])
    moved = e**3 + (1 - 2 * e**3) * p + np.array([[1], [-1]]) * e**4
    q = np.where(np.abs(spread) > e**5, p, moved)
    assert ((q >= 0) & (q <= 1)).all()
    assert np.abs(q.mean(axis=0) - average).max() <= e**3 + 1e-15
    probs, new = np.stack([1 - p, p]), np.stack([1 - q, q])
    joint = np.einsum("ima,jmb->ijab", new, new) / 2 - np.einsum("ima,jmb->ijab", probs, probs) / 2
    assert np.abs(joint).max() <= 2 * e**3 + 1e-15
    delta = np.abs(q[0] - q[1]) / 2
    assert delta.min() >= e**5 * (1 - 1e-9)
    u = np.outer(q[0] - q[1], q[0] - q[1]) / 4
    assert np.abs(u - np.outer(spread, spread)).max() <= e**2  # so the extra eps_0^2 of the intervals covers M^1


def test_lemma_feasible_optimism_pairs_are_seen_less_often_than_their_parts(runs):
    """lemma:feasible_optimism, its proof. min(n(x), n(y)) >= n(x, y)."""
    for each in runs[1][:5]:
        x, y = each.pairs
        assert (each.pair_samples <= np.minimum(each.num_samples[x], each.num_samples[y])).all()


def test_algo_LMDP_recovery():
    """algo:LMDP_recovery, algo:LMDP_recovery_detail. Program, signs, clip, p_+ +- p_-: the truth from exact moments."""
    for seed in range(5):
        model = random_tiny_model(seed, zeros=0.3)
        result = recover(exact_confidence_set(model), method=algorithm_3, weights="uniform")
        assert sup_distance(model, result.model) < 1e-7
        assert result.info.certificate.contains_model
    broken = with_rewards(model, model.marginal_rewards.ravel(), np.abs(model.loadings.ravel()))
    assert sup_distance(model, broken) > 0.01  # without the signs it is another model


def test_def_minimum_separation():
    """def:minimum_separation. delta = min(1, least positive Delta); equal types have delta = 1."""
    model = two_type_model([[0.5, 0.5, 0.5]], [[0.0, -0.2, 0.4]])
    assert_allclose(separation(model), 0.2)
    assert separation(two_type_model([[0.5]], [[0.0]])) == 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05, 0.5])
def test_theorem_upper_bound_threshold(delta):
    """theorem:upper_bound, its eps_pe. Lemmas 4.1 and 4.2 add up to epsilon only with the 1/L of section 4.

    H sum_l (H eps_pe / (delta_l eps_l)) (H eps_l) = H^3 eps_pe sum_l 1 / delta_l (departure 15).
    """
    epsilon, horizon = 0.5, 8
    tolerance = theory.covariance_tolerance(epsilon, horizon)
    threshold = theory.uncertainty_threshold(epsilon, delta, horizon)
    assert_allclose(threshold, epsilon / horizon**3 * max(delta, epsilon / horizon**2))
    ladder = levels(delta, tolerance)
    total = horizon**3 * sum(1 / level.delta for level in ladder)
    assert total * threshold / len(ladder) <= epsilon * (1 + 1e-12)
    if delta <= tolerance:
        assert total * threshold <= 2.5 * epsilon  # 1/delta_l is a geometric series: no L is needed
    if delta == 0.5:
        assert total * threshold > 3 * epsilon  # every level counts: as printed it is epsilon log(H / epsilon)


def test_theorem_upper_bound_episodes():
    """theorem:upper_bound, its K: eq:required_episodes at eps_pe / log(H / epsilon), up to the first logarithm."""
    for states, actions, horizon, epsilon, delta in itertools.product((2, 9), (2, 7), (3, 20), (0.5, 0.01), (0, 0.3)):
        threshold = theory.uncertainty_threshold(epsilon, delta, horizon) / np.log(horizon / epsilon)
        printed = theory.upper_bound(states, actions, horizon, epsilon, delta, FAILURE)
        needed = theory.episode_bound(states, actions, horizon, threshold, FAILURE)
        assert printed <= needed <= 6 * printed


def test_theorem_upper_bound_end_to_end():
    """theorem:upper_bound. With its eps_pe the paper's algorithms end within K = 10 times the form, epsilon-optimal."""
    model = two_type_model([[0.5, 0.5]], [[0.45, -0.45]], horizon=2)
    epsilon, delta = 0.2, separation(model)
    threshold = theory.uncertainty_threshold(epsilon, delta, 2)
    result = explore(
        model, uncertainty_threshold=threshold, bonus=paper_levels(), counting=selected_pairs, keep_episodes=False
    )
    assert result.uncertainty <= threshold
    assert result.num_episodes <= 10 * theory.upper_bound(1, 2, 2, epsilon, delta, FAILURE)
    policy = plan(recover(result.moments, method=algorithm_3, weights="uniform").model).policy
    best = sup_over_policies(trajectory_probs(model) * returns(model))
    assert best - evaluate(policy, model).value <= epsilon < best - evaluate(uniform_policy(model), model).value


@pytest.mark.parametrize("e", [0.01, 0.04, 0.2])
def test_theorem_lower_bound(e):
    """theorem:lower_bound. Value 1 + 2 e with the pair, 1 without; kl = -log(1 - 16 e^2) / 2 <= 24 e^2."""
    model = problems.make_model("hard", actions=4, epsilon=e, seed=3)
    probs = trajectory_probs(model)
    assert_allclose(sup_over_policies(probs * returns(model)), 1 + 2 * e, rtol=1e-12)
    x, y = visited(model)
    special = model.loadings.ravel() != 0
    assert special.sum() == 3
    result = special[x] & special[y]
    assert_allclose(sup_over_policies(probs * returns(model) * ~result - 9.0 * probs * result), 1.0, rtol=1e-12)
    joint = reward_pattern_probs(model)[0, :, :, 1].transpose(0, 2, 1, 3).reshape(16, 4)
    right = (special[:4, None] & special[None, 4:]).ravel()
    assert_allclose(joint[~right], 0.25, rtol=1e-12)
    kl = (0.25 * np.log(0.25 / joint[right])).sum(axis=1)
    assert_allclose(kl, -np.log(1 - 16 * e**2) / 2, rtol=1e-9)
    assert (kl <= 24 * e**2).all()
    assert theory.lower_bound(2, 4, e) == (8 / e) ** 2


# ---------------------------------------------------------------------------------------------------------------------
# 4  Analysis


@pytest.mark.parametrize("seed", range(4))
def test_value_difference_is_bounded_by_total_variation(seed):
    """Section 4. |V - V-hat| <= H ||P - P-hat||_1, even H / 2, for every policy; the printed equality drops H."""
    first, second = random_tiny_model(seed), random_tiny_model(seed + 50)
    difference = trajectory_probs(first) - trajectory_probs(second)
    slack = first.horizon / 2 * np.abs(difference)
    for sign in (1, -1):
        assert sup_over_policies(sign * difference * returns(first) - slack) <= 1e-12
    rewarded = two_type_model([[1.0], [0.0]], [[0.0], [0.0]], transition=np.eye(2)[:, None], initial=[0.5, 0.5])
    more = replace(rewarded, initial=[0.6, 0.4])
    difference = np.abs(trajectory_probs(more) - trajectory_probs(rewarded)).sum()
    assert difference + 0.05 < 3 * 0.1  # departure 16: without H it is false


def test_eq_define_countlevel_sets():
    """eq:define_countlevel_sets. E'_l part all trajectories; over t1 < t2, not t1 != t2 (departure 17)."""
    model, ladder = random_tiny_model(0), levels(0.1, 0.02, iota=2.0, constant=5.0)
    assert all(a.count > b.count for a, b in itertools.pairwise(ladder))
    assert ladder[-2].count >= 5.0 * 2.0 > ladder[-1].count == 0
    counts = np.random.default_rng(0).choice([level.count for level in ladder[-4:]], (4, 4))
    masks = exactly(model, counts, ladder)
    assert (sum(mask.astype(int) for mask in masks) == 1).all()
    assert sum(mask.any() for mask in masks) >= 3
    hard = problems.make_model("hard")
    explored = explore(
        hard, num_episodes=3000, counting=selected_pairs, bonus=paper_levels(0.01), keep_episodes=False
    ).moments
    counts = ordered_counts(explored)
    steps_in_order = every_pair(hard, counts >= 1)
    printed = steps_in_order & every_pair(hard, counts.T >= 1)
    assert sup_probability(hard, steps_in_order) == 1.0
    assert not (printed & (trajectory_probs(hard) > 0)).any()  # the second step never comes first


def worst_estimates(seed, delta, tolerance=0.01):
    """(model, levels, counts, estimate): a model, how well each pair is known, and what Algorithm 3 may then return."""
    rng = np.random.default_rng(seed)
    model = random_tiny_model(seed, separation=delta, zeros=0.3)
    if delta == 0:  # one x is hardly distinguishable, so that delta_l = epsilon_l on every level
        average, spread = model.marginal_rewards.ravel(), model.loadings.ravel().copy()
        spread[seed % 4] = 0.7 * tolerance
        model = with_rewards(model, average, spread)
    size, ladder = model.loadings.size, levels(separation(model), tolerance)
    fitted_log = rng.integers(0, len(ladder), (size, size)) if seed % 2 else np.full((size, size), seed // 2 % 3)
    fitted_log = np.maximum(fitted_log, fitted_log.T)
    close = np.array([CLOSE * level.delta * level.epsilon for level in ladder])
    average = np.clip(model.marginal_rewards.ravel() + close[fitted_log.min(axis=1)] * rng.choice([-1, 1], size), 0, 1)
    cap = np.minimum(average, 1 - average)
    slack = np.append(close[:-1], np.inf)[fitted_log]
    if separation(model) > tolerance:  # then the lemmas need the least solution (lemma:eps2_count_distinguishable)
        box = interval_set(model, slack / 4, rng, corners=True)
        spread = algorithm_three(replace(box, marginals=average))
        spread = np.clip(spread, -cap, cap)
    else:
        truth = model.loadings.ravel()
        far = extreme_magnitudes(np.abs(truth), slack, rng.normal(size=size), max_value=np.maximum(cap, np.abs(truth)))
        spread = np.clip(np.where(truth < 0, -far, far), -cap, cap)
    counts = np.array([level.count for level in ladder])[fitted_log]
    return model, ladder, counts, with_rewards(model, average, spread)


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_lemma_eventwise_total_bound(delta):
    """lemma:eventwise_total_bound. sum over E'_l of |P - P-hat| <= H eps_l sup P(E'_l): O(.) is 1/10, 1 if l = L + 1.

    Events by enumeration, sup by dynamic programming, estimates at corners of what the constraints allow.
    """
    reached, wrong = 0, 0
    for seed in range(30):
        model, ladder, counts, estimate = worst_estimates(seed, delta)
        flipped = with_rewards(model, estimate.marginal_rewards.ravel(), np.abs(estimate.loadings.ravel()) + 0.1)
        for level, event in zip(ladder, exactly(model, counts, ladder), strict=True):
            bound = (0.1 if level.count else 1.0) * model.horizon * level.epsilon * sup_probability(model, event)
            assert sup_distance(model, estimate, event) <= bound + 1e-12
            reached += bool(event.any()) and level.count > 0
            wrong += sup_distance(model, flipped, event) > bound
    assert reached >= 30
    assert wrong >= 10  # a wrong estimate is seen


def test_lemma_eventwise_total_bound_with_parameters_that_are_far_off():
    """lemma:eventwise_total_bound, its point. Two state-actions, one a step: only their product is known."""
    transitions = np.zeros((2, 1, 2))
    transitions[:, :, 1] = 1.0
    model = two_type_model([[0.5], [0.5]], [[0.4], [0.1]], transition=transitions, initial=[1.0, 0.0], horizon=2)
    other = with_rewards(model, model.marginal_rewards.ravel(), np.array([0.1, 0.4]))
    assert np.abs(model.rewards - other.rewards).max() > 0.29
    assert sup_distance(model, other) < 1e-15


def test_eq_bound_total_variation_distance_overall():
    """eq:bound_total_variation_distance_overall. The distance is at most the sum over l of H eps_l sup P(E'_l)."""
    for seed in range(10):
        model, ladder, counts, estimate = worst_estimates(seed, 0.1)
        masks = exactly(model, counts, ladder)
        split = [sup_distance(model, estimate, event) for event in masks]
        bounds = [3 * a.epsilon * sup_probability(model, event) for a, event in zip(ladder, masks, strict=True)]
        assert sup_distance(model, estimate) <= sum(split) + 1e-12 <= sum(bounds) + 1e-11


def rare_world():
    """Three states, one of them entered by one action alone, once in a hundred times."""
    transitions = np.array([[[0.9, 0.1, 0], [0.5, 0.49, 0.01]], [[0.5, 0.5, 0], [1, 0, 0]], [[0, 1, 0], [0.5, 0, 0.5]]])
    return two_type_model(np.full((3, 2), 0.5), np.full((3, 2), 0.3), transition=transitions, initial=[1, 0, 0])


@pytest.fixture(scope="module")
def ended():
    """(model, exploration to V_0 <= 0.1, ordered counts, iota_2), the paper's levels with c = 1/4."""
    model = rare_world()
    result = explore(
        model,
        uncertainty_threshold=0.1,
        bonus=paper_levels(0.25),
        counting=selected_pairs,
        replan_growth=1.05,
        keep_episodes=False,
    )
    iota = theory.paper_level(result.num_episodes, 3, 2, FAILURE, 0.25)
    return model, result, ordered_counts(result.moments), iota


def test_lemma_reward_free_guarantee_episodes(ended):
    """lemma:reward_free_guarantee, eq:required_episodes. V_0 <= eps_pe within 10 c S^2 A (H + A) / eps_pe^2 log(.)."""
    _, result, _, _ = ended
    assert result.info.stop_reason == "threshold"
    assert result.num_episodes <= theory.episode_bound(3, 2, 3, 0.1, FAILURE, scale=10 * 0.25)


def test_lemma_reward_free_guarantee_event_probability(ended):
    """lemma:reward_free_guarantee, eq:max_event_probability. sup P(E'_l) <= (H - 1) V_0 max(1, sqrt(n_{l-1} / iota_2)).

    n_{l-1} and not n_l, because a pair of E'_l was seen *less* than n_{l-1} times (departure 18). Events by dynamic
    programming over all policies; also the inner step, one t_1 at a time.
    """
    model, result, counts, iota = ended
    hat, _ = result.moments.transition_estimate()
    visits = np.asarray(result.moments.visits, float)
    off = np.abs(hat.toarray() - dense_transition(model).reshape(6, 3)).sum(axis=1)
    assert (off <= np.sqrt(3 * iota / np.maximum(visits, 1))).all()  # the event that the lemma conditions on
    early = explore(model, num_episodes=60, bonus=paper_levels(0.25), counting=selected_pairs, keep_episodes=False)
    biting, broken = 0, 0
    for bonus in (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2):
        limit = iota / bonus**2
        rare = counts < limit
        for step in range(2):
            assert result.uncertainty >= bonus * sup_probability(model, meets(model, step, rare)) - 1e-12
        bound = 2 * result.uncertainty / bonus
        event = ~every_pair(model, counts >= limit)
        assert sup_probability(model, event) <= bound + 1e-12
        biting += bound < 1
        broken += sup_probability(model, ~every_pair(model, ordered_counts(early.moments) >= limit)) > bound
    assert biting >= 1
    assert broken >= 1  # counts of a run that was stopped too early do not have it


def triples(delta, count=12):
    """Magnitudes of three state-actions, at least delta each, up to 1/2, some at the ends."""
    rng = np.random.default_rng(1)
    ends = [np.array(each) for each in itertools.product((delta, 0.5), repeat=3)]
    return [*ends, *np.exp(rng.uniform(np.log(delta), np.log(0.5), (count, 3)))]


def worst_errors(delta, slack):
    """(N,) the largest |estimate - truth| of each magnitude that the constraints allow."""
    size = delta.size
    result = [
        [np.abs(extreme_magnitudes(delta, slack, sign * np.eye(size)[i])[i] - delta[i]) for sign in (1, -1)]
        for i in range(size)
    ]
    return np.max(result, axis=1)


def parameter_bound(delta, epsilon):
    """eps / 2 for all but the largest, (largest / second) eps / 2 for that one."""
    order = np.argsort(-delta)
    bound = np.full(delta.size, epsilon / 2)
    bound[order[0]] *= delta[order[0]] / delta[order[1]]
    return bound


@pytest.mark.parametrize(("epsilon", "level"), [(0.05, 0.05), (0.05, 0.2), (0.001, 0.01)])
def test_lemma_eps3_parameter_error(epsilon, level):
    """lemma:eps3_parameter_error. Three distinguishable state-actions: each magnitude is off by eps_l / 2 at most.

    The worst case over all estimates with |u - u-hat| <= 0.01 delta_l eps_l, by linear programming, off the diagonal
    alone; with 0.6 for 0.01 it is false.
    """
    far = np.where(np.eye(3, dtype=bool), np.inf, level * epsilon)
    broken = 0
    for delta in triples(level):
        u = np.log(np.outer(delta, delta))
        assert_allclose((u[0, 1] + u[1, 2] + u[2, 0]) / 2 - u[1, 2], np.log(delta[0]), atol=1e-12)
        bound = parameter_bound(delta, epsilon)
        assert (worst_errors(delta, CLOSE * far) <= bound).all()
        broken += (worst_errors(delta, 0.6 * far) > bound).any()
    assert broken >= 1


def test_eq_u_diff_concentration():
    """eq:u_diff_concentration. 3 sqrt(iota_2 / n_l) + eps_0^2 <= 0.01 delta_l eps_l if eps_0^2 <= half of that.

    With C = 600^2 it then holds. At l = 0 and delta <= eps_0 it is false as printed, whatever C (departure 19).
    """
    for delta in (0.0, 0.1):
        for level in levels(delta, 0.01, constant=600.0**2)[:-1]:
            for share, fine in ((0.07, True), (1.0, 0.005 * level.delta * level.epsilon >= 0.01**2)):
                error = 3 / np.sqrt(level.count) + (share * 0.01) ** 2
                assert (error <= CLOSE * level.delta * level.epsilon * (1 + 1e-12)) == fine
    assert CLOSE * max(0.0, 0.01) * 0.01 < 0.01**2


# ---------------------------------------------------------------------------------------------------------------------
# A  Proof of lemma:eventwise_total_bound


def test_eq_def_eps_star():
    """eq:def_eps_*, lemma:bellman_for_max_event_probability1-3. The recursion gives the sup over all policies."""
    model = replace(random_tiny_model(3, horizon=2), initial=[1.0, 0.0])
    dist, ((_, a, r), (t, b, _)) = trajectory_probs(model), axes(model)
    event = (t == a) & (b == t)
    values = []
    for first, *second in itertools.product((0, 1), repeat=9):
        table = np.array(second).reshape(2, 2, 2)  # a_1, r_1, s_2 -> a_2
        values.append((dist * event * ((a == first) & (table[a, r, t] == b))).sum())
    assert_allclose(sup_probability(model, event), max(values), rtol=1e-12)
    assert min(values) < max(values) < 1
    probs = np.random.default_rng(0).dirichlet(np.ones(2), (2, 2, 2))
    for first in (0, 1):  # a policy that draws its actions does no better, after any history
        after = dist * event * (a == first)
        drawn = (after * probs[a, r, t, b]).sum(axis=(4, 5))
        assert (drawn <= after.sum(axis=5).max(axis=4) + 1e-15).all()


def test_probability_of_a_trajectory_as_a_matrix_product():
    """A.1. (1/2) 1^T D_H ... D_1 1 is the product of the predictions of Bayes' rule, one reward after the other."""
    model, rng = random_tiny_model(4), np.random.default_rng(0)
    joint = np.broadcast_to(reward_pattern_probs(model), trajectory_shape(model))
    for _ in range(50):
        path = [tuple(rng.integers(2, size=3)) for _ in range(3)]
        likelihoods = np.array([model.reward_probs[:, s, a, r] for s, a, r in path])
        beliefs = belief.filter_beliefs(model.weights, likelihoods)
        predicted = np.einsum("tm,tm->t", beliefs[:-1], likelihoods).prod()
        assert_allclose(joint[tuple(np.concatenate(path))], predicted, rtol=1e-12)
        matrices = [np.diag(each) for each in likelihoods]
        assert_allclose(np.ones(2) @ np.linalg.multi_dot(matrices[::-1]) @ np.ones(2) / 2, predicted, rtol=1e-12)


@pytest.mark.parametrize("error", [0.02, 0.2])
def test_lemma_basic_tot_bound(error):
    """lemma:basic_tot_bound. Rewards eps_r apart in L1: sup_pi sum over E of |P^1 - P^2| <= H eps_r sup P(E)."""
    largest = 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        first = two_type_model(rng.uniform(0.3, 0.7, (2, 2)), rng.uniform(-0.1, 0.1, (2, 2)), horizon=seed % 3 + 1)
        second = replace(first, rewards=first.rewards + error / 2 * rng.choice([-1, 1], first.rewards.shape))
        assert_allclose(np.abs(first.reward_probs - second.reward_probs).sum(axis=-1), error, rtol=1e-9)
        event = every_pair(first, rng.random((4, 4)) < 0.7)
        bound = first.horizon * error * sup_probability(first, event)
        result = sup_distance(first, second, event)
        assert result <= bound + 1e-12
        largest = max(largest, result / bound if bound else 0.0)
    assert largest > 0.99  # it is tight for one step: no smaller constant will do


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.4])
def test_eq_define_surrogates(epsilon):
    """eq:define_surrogate_m1, eq:define_surrogate_m2. Same averages, small differences dropped, every outcome possible.

    And |Delta^1 - Delta^2| <= |Delta - Delta-hat| + 4 eps_l (A.4).
    """
    rng = np.random.default_rng(0)
    model = two_type_model(np.full((4, 10), 0.5), rng.uniform(-0.5, 0.5, (4, 10)), horizon=1)
    estimate = rng.uniform(-0.5, 0.5, 40)
    first, second = surrogates(model, estimate, epsilon)
    assert_allclose(first.marginal_rewards, second.marginal_rewards)
    both = np.stack([first.rewards, second.rewards])
    assert both.min() >= epsilon - 1e-12
    assert both.max() <= 1 - epsilon + 1e-12
    gone = np.maximum(np.abs(model.loadings.ravel()), np.abs(estimate)) < 2 * epsilon
    assert_allclose(first.rewards.reshape(2, -1)[:, gone], second.rewards.reshape(2, -1)[:, gone])
    apart = np.abs(np.abs(first.loadings) - np.abs(second.loadings)).ravel()
    assert (apart <= np.abs(np.abs(model.loadings.ravel()) - np.abs(estimate)) + 4 * epsilon + 1e-12).all()


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_lemma_surrogate_models_proximity(epsilon):
    """lemma:surrogate_models_proximity. Each outcome moves by at most 4 eps_l; in L1 that is 8, and 4 is false.

    For M^1 it is 3 eps_l an outcome, 6 in L1, and both are reached (departure 20).
    """
    rng = np.random.default_rng(0)
    average = np.concatenate([np.full(20, 2 * epsilon), rng.uniform(0, 1, 180)])
    cap = np.minimum(average, 1 - average)
    spread = np.clip(rng.uniform(-1, 1, 200) * rng.choice([2 * epsilon, 1], 200), -cap, cap)
    spread[:20] = 2 * epsilon * (1 - 1e-9)
    shift = CLOSE * epsilon * rng.choice([-1, 1], 200)
    hat = np.clip(average + shift, 0, 1)
    estimate = np.clip(spread, -np.minimum(hat, 1 - hat), np.minimum(hat, 1 - hat))
    model = two_type_model(average[None], spread[None], horizon=1)
    empirical = two_type_model(hat[None], estimate[None], horizon=1)
    first, second = surrogates(model, estimate, epsilon)
    near, near_hat = (
        np.abs(model.reward_probs - first.reward_probs),
        np.abs(empirical.reward_probs - second.reward_probs),
    )
    assert near.max() <= 3 * epsilon + 1e-12
    assert near_hat.max() <= 4 * epsilon
    assert near.sum(axis=-1).max() <= 6 * epsilon + 1e-12
    assert near_hat.sum(axis=-1).max() <= 8 * epsilon
    assert near.sum(axis=-1).max() > 5 * epsilon  # the printed 4 eps_l


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_eq_define_eps_23(delta):
    """eq:define_eps_23, eq:eps_3_bound, eq:eps_2_bound. E'_l parts into at most 2 and at least 3 distinguishable steps.

    On each part the surrogates satisfy the bound with 8 H eps_l sup P, the 8 of A.4 for one step.
    """
    num_events = np.zeros(2, int)
    for seed in range(20):
        model, ladder, counts, estimate = worst_estimates(seed, delta)
        for level, event in zip(ladder[:-1], exactly(model, counts, ladder), strict=False):
            first, second = surrogates(model, estimate.loadings.ravel(), level.epsilon)
            is_often_far = times(model, np.abs(model.loadings.ravel()) >= level.delta) >= 3
            for k, piece in enumerate((event & ~is_often_far, event & is_often_far)):
                bound = 8 * model.horizon * level.epsilon * sup_probability(model, piece)
                assert sup_distance(first, second, piece) <= bound + 1e-12
                num_events[k] += piece.any()
    assert (num_events >= 10).all()
    epsilon = 0.01  # the surrogates differ most where an estimate falls below 2 eps_l and the truth does not
    model = two_type_model([[0.5] * 4], [[0.4, 0.4, 0.4, 2 * epsilon]], horizon=4)
    below = model.loadings.ravel() * np.array([1, 1, 1, 1 - 1e-9])
    assert 0.5 < sup_distance(*surrogates(model, below, epsilon)) / (4 * epsilon) < 8
    wrong = below * np.array([1, 1, -1, 1])
    assert sup_distance(*surrogates(model, wrong, epsilon)) / (4 * epsilon) > 8


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.0), (0.02, 0.1)])
def test_corollary_big_delta_bound(epsilon, delta):
    """corollary:big_delta_bound. With three distinguishable steps every other magnitude is off by at most 3 eps_l."""
    level, rng = max(delta, epsilon), np.random.default_rng(0)
    largest = 0.0
    for big in triples(level, 10):
        small = np.zeros(2) if delta > epsilon else rng.uniform(0, epsilon, 2)
        magnitudes_of = np.concatenate([big, small])
        slack = np.where(np.eye(5, dtype=bool), np.inf, CLOSE * level * epsilon)
        bound = np.append(parameter_bound(big, epsilon), [3 * epsilon] * 2)
        errors = worst_errors(magnitudes_of, slack)
        assert (errors <= bound).all()
        largest = max(largest, errors[3:].max() / epsilon)
    assert 0.01 < largest < 1.1  # so "less than 2 eps_l", as A.4 has it, is right too
    alone = np.array([level, 0.0, 0.0])
    free = worst_errors(alone, np.where(np.eye(3, dtype=bool), np.inf, CLOSE * level * epsilon))
    assert free.max() > 3 * epsilon  # one distinguishable step is not enough


def test_lemma_eps2_count_distinguishable():
    """lemma:eps2_count_distinguishable. At most two steps with Delta >= eps_l or Delta-hat >= 2 eps_l.

    delta_l = eps_l: no estimate that the constraints allow has more. delta > eps_l: the *least* solution has none, and
    where Delta = 0 it is at its floor; other solutions break the statement, so the objective matters.
    """
    epsilon, rng = 0.05, np.random.default_rng(0)
    slack, loose = np.full((4, 4), CLOSE * epsilon**2), 0
    for count in (0, 1, 2):
        for _ in range(15):
            delta = np.append(rng.uniform(epsilon, 0.5, count), rng.uniform(0, epsilon, 4 - count))
            for extra in itertools.combinations(range(count, 4), 3 - count):
                magnitudes = np.full(4, 1e-18)
                magnitudes[list(extra)] = 2 * epsilon
                assert extreme_magnitudes(delta, slack, np.zeros(4), min_value=magnitudes) is None
                loose += extreme_magnitudes(delta, 500 * slack, np.zeros(4), min_value=magnitudes) is not None
    assert loose > 10
    delta, epsilon = 0.4, 0.0005
    model = two_type_model([[0.5] * 4], [[delta, 0.0, 0.0, 0.0]])
    box = interval_set(model, np.full((4, 4), CLOSE / 4 * delta * epsilon), rng)
    magnitudes = np.exp(solve_magnitudes(box).log_magnitudes)
    assert (magnitudes[1:] <= box.tolerance**2).all()
    assert ((magnitudes >= 2 * epsilon) | (np.abs(model.loadings.ravel()) >= epsilon)).sum() <= 2
    size = np.array([1e-9, 2 * epsilon, 2 * epsilon, 2 * epsilon])
    off_diagonal = np.where(np.eye(4, dtype=bool), np.inf, CLOSE * delta * epsilon)
    off_diagonal[0] = off_diagonal[:, 0] = np.inf
    assert extreme_magnitudes(np.abs(model.loadings.ravel()), off_diagonal, np.zeros(4), min_value=size) is not None


def test_lemma_eps2_count_distinguishable_interval_contains_zero(runs):
    """lemma:eps2_count_distinguishable, case II. Where Delta = 0 the interval has c_l < 0 < c_u (departure 28)."""
    model = replace(runs[0], rewards=np.full_like(runs[0].rewards, 0.4))
    box = confidence_set(explore(model, num_episodes=2000, keep_episodes=False).moments)
    assert (box.lower < 0).all()
    assert (box.upper > 0).all()


def test_equivalence_in_signs():
    """A.4. At w = 1/2 flipping all signs of p_- changes no trajectory's probability; at other weights it does."""
    model = random_tiny_model(2)
    flipped = with_rewards(model, model.marginal_rewards.ravel(), -model.loadings.ravel())
    assert sup_distance(model, flipped) < 1e-15
    uneven = replace(model, weights=[0.3, 0.7])
    centred = uneven.rewards - uneven.marginal_rewards
    turned = uneven.marginal_rewards - centred * 0.5
    assert sup_distance(uneven, replace(uneven, rewards=turned)) > 0.01


def test_eq_eps3_three_decomposition():
    """eq:eps3_three_decomposition. D_+^M is *half* the sum; then D^1 - D^2 = D^{1,0} - D^{2,0} + D^{1,1} + D^{2,1}.

    With the printed matrix, which lacks the 1/2, it fails (departure 21). 1^T D^3 1 = 0.
    """
    rng = np.random.default_rng(0)
    average = rng.uniform(0.3, 0.7, 4)
    spread = rng.uniform(-0.3, 0.3, (2, 4))
    first, second = (np.stack([average + q, average - q]) for q in spread)  # (m, t); t = 0 is the one in X_{l,3}
    half, minus, plus = (first + second)[:, 0] / 2, (first - second)[:, 0] / 2, average[1:].prod()
    assert_allclose(minus, np.diff(spread[::-1], axis=0)[0, 0] / 2 * np.array([1, -1]), atol=1e-15)
    rest, rest_hat = first[:, 1:].prod(axis=1), second[:, 1:].prod(axis=1)
    target = (first.prod(axis=1) - second.prod(axis=1)).sum()
    assert_allclose((minus * plus).sum(), 0.0, atol=1e-15)
    terms = half * (rest - rest_hat), minus * (rest - plus), minus * (rest_hat - plus)
    assert_allclose(sum(term.sum() for term in terms), target, rtol=1e-9)
    assert abs(target) <= sum(abs(term.sum()) for term in terms)
    assert abs((2 * half * (rest - rest_hat) + minus * (rest + rest_hat)).sum() - target) > 1e-4


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_eq_eps2_conditional_tv_distance(delta):
    """eq:eps2_conditional_tv_distance. ||P^1(. | x_j, r_i, x_i) - P^2(...)||_1 <= 2.02 eps_l / R_+(r_i | x_i) on X_l.

    The two sum to 2 |u^1 - u^2|. Either both are close, or one was dropped: below 2 eps_l times 1/2, and 0.01 eps_l for
    the other. P^c is the joint law over R_+, not mu^1 over R_+ (departure 22).
    """

    def conditionals(pair):
        joints = [np.einsum("mxi,myj->xyij", *[m.reward_probs.reshape(2, -1, 2)] * 2) / 2 for m in pair]
        plus = pair[0].reward_probs.mean(axis=0).reshape(-1, 2)
        result = [joint / plus[:, None, :, None] for joint in joints]
        assert_allclose(result[1].sum(axis=-1), 1.0, rtol=1e-12)
        return np.abs(result[0] - result[1]).sum(axis=-1) * plus[:, None]

    for seed in range(20):
        model, ladder, counts, estimate = worst_estimates(seed, delta)
        for level in ladder[:-1]:
            pair = surrogates(model, estimate.loadings.ravel(), level.epsilon)
            assert (conditionals(pair) <= 2.02 * level.epsilon)[counts >= level.count].all()
    model = two_type_model([[0.5, 0.5]], [[0.5, 0.02]])
    off = conditionals(surrogates(model, np.array([0.5, 0.02 - 1e-9]), 0.01))
    assert 1.9 * 0.01 < off[0, 1].max() <= 2.02 * 0.01


# ---------------------------------------------------------------------------------------------------------------------
# B  Deferred analysis


@pytest.mark.parametrize("seed", range(6))
def test_eq_LP_formulation(seed):
    """eq:LP_formulation with eq:constrinats_upper_bound, eq:constrinats_lower_bound, eq:constraints_regularity.

    All rows, written out and given to another solver.
    """
    model, rng = random_tiny_model(seed, zeros=0.3), np.random.default_rng(seed)
    box = interval_set(model, rng.choice([0.001, 0.02, 1e3], (4, 4), p=[0.5, 0.3, 0.2]), rng)
    rows, limits = [], []
    for i, j, low, high in zip(box.pair_first, box.pair_second, box.lower, box.upper, strict=True):
        row = np.bincount([i, j], minlength=4).astype(float)
        rows.append(row)
        limits.append(np.log(max(abs(low), abs(high))))
        if low * high > 0:
            rows.append(-row)
            limits.append(-np.log(min(abs(low), abs(high))))
    average = model.marginal_rewards.ravel()
    cap = np.minimum(average, 1 - average) + box.tolerance**2
    bounds = [(10 * np.log(box.tolerance), np.log(max_value)) for max_value in cap]
    result = linprog(np.ones(4), np.array(rows), limits, bounds=bounds)
    solution = solve_magnitudes(box)
    assert solution.status == "feasible"
    assert_allclose(solution.objective, result.fun, rtol=1e-7)
    assert (np.array(rows) @ solution.log_magnitudes <= np.array(limits) + 1e-7).all()


@pytest.mark.parametrize("seed", range(6))
def test_eq_constraints_sign(seed):
    """eq:constraints_sign, eq:sign_equality. The signs found satisfy every decided pair; so do the true ones."""
    rng = np.random.default_rng(seed)
    model = random_tiny_model(seed, states=3, zeros=0.2)
    radius = rng.choice([0.002, 0.05, 1e3], (6, 6))
    box = interval_set(model, np.maximum(radius, radius.T), rng, corners=True)
    decided = box.excludes_zero
    expected = np.sign(box.center[decided])
    i, j = box.pair_first[decided], box.pair_second[decided]

    def satisfied(signs):
        return (signs[i] * signs[j] == expected).all()

    assert satisfied(np.where(model.loadings.ravel() < 0, -1, 1))
    result = solve_signs(box)
    assert satisfied(result.signs)
    every = [signs for signs in itertools.product((-1, 1), repeat=6) if satisfied(np.array(signs))]
    assert len(every) == 2 ** np.unique(result.groups).size  # G_1, ..., G_q: two assignments each


def chance_below(prob, episodes, factor, slack):
    """P(n_k < factor k chance - slack for some k <= episodes), n_k a sum of coins, exactly."""
    probs, missed = np.array([1.0]), 0.0
    for k in range(1, episodes + 1):
        probs = np.append(probs * (1 - prob), 0.0) + np.append(0.0, probs * prob)
        out = np.arange(probs.size) < factor * k * prob - slack
        missed += probs[out].sum()
        probs = np.where(out, 0.0, probs)
    return missed


def test_eq_def_martingale_event():
    """eq:def_martingale_event. n_k >= n-bar_k / 2 - log(1 / eta) for all k with probability 1 - eta: c_l = 1 for pairs.

    exp(-n + (1 - 1/e) n-bar) is a supermartingale and 1 - 1/e > 1/2. A state-action may be visited H times an episode,
    all or nothing, so its constant must grow with H; as printed it is absolute (departure 27).
    """
    for prob, failure_prob in itertools.product((0.02, 0.2, 0.7), (0.2, 0.05)):
        assert chance_below(prob, 600, 0.5, np.log(1 / failure_prob)) <= failure_prob
    assert chance_below(0.2, 600, 1.0, np.log(1 / 0.05)) > 0.05  # without the 1/2
    horizon, failure_prob = 50, 0.05
    per_visit = np.log(1 / failure_prob) / horizon  # H visits count as one coin: the slack shrinks by H
    assert chance_below(0.05, 600, 0.5, per_visit) > failure_prob
    assert chance_below(0.05, 600, 0.5, horizon * per_visit) <= failure_prob


@pytest.mark.parametrize("seed", range(5))
def test_lemma_total_variation_occupancy(seed):
    """lemma:total_variation_occupancy. Same rewards, other moves: the distance is at most the sum of L1 errors met.

    For every history-dependent policy at once: the difference of both sides is a sum over trajectories.
    """
    item, other = random_tiny_model(seed), random_tiny_model(seed + 20)
    two = replace(other, rewards=item.rewards)
    apart = np.abs(dense_transition(item) - dense_transition(two)).sum(axis=-1)
    met = expected_steps(item, np.array([apart, apart, np.zeros_like(apart)]))
    distance = np.abs(trajectory_probs(item) - trajectory_probs(two))
    start = np.abs(item.initial - two.initial).sum()
    assert sup_over_policies(distance - met) <= start + 1e-12
    together = np.abs(trajectory_probs(item) - trajectory_probs(replace(two, initial=item.initial)))
    assert sup_over_policies(together - met) <= 1e-12 < sup_over_policies(together - met / 3)


def test_eq_error_transition_values(ended):
    """eq:error_transition_values. sup_pi of the L1 errors of nu-hat and T-hat met on the way is at most 2 H V_0."""
    model, result, _, _ = ended
    hat, _ = result.moments.transition_estimate()
    apart = np.abs(hat.toarray() - dense_transition(model).reshape(6, 3)).sum(axis=1).reshape(3, 2)
    start = np.abs(result.moments.initial_estimate() - model.initial).sum()
    met = sup_over_policies(expected_steps(model, np.array([apart, apart, 0 * apart])))
    assert 0 < start + met <= 2 * model.horizon * result.uncertainty
    visits = np.asarray(result.moments.visits, float).reshape(3, 2)
    iota = 3 * theory.paper_level(result.num_episodes, 3, 2, FAILURE, 0.25)  # iota_T = c S log(K S A / eta)
    bonus = np.minimum(1.0, np.sqrt(iota / np.maximum(visits, 1)))
    met = sup_over_policies(expected_steps(model, np.array([bonus, bonus, 0 * bonus])))
    assert np.sqrt(iota / result.num_episodes) + met <= 2 * model.horizon * result.uncertainty


# ---------------------------------------------------------------------------------------------------------------------
# 5 and E  Other weights, other rewards


@pytest.mark.parametrize("w", [0.5, 0.3, 0.9])
def test_eq_def_mu_non_uniform(w):
    """eq:def_mu_non_uniform. B = w (1-w) q q^T with q = p_1 - p_2; p_1 = p_+ + (1-w) q, p_2 = p_+ - w q."""
    model = replace(random_tiny_model(1), weights=[w, 1 - w])
    q, p = model.reward_difference.ravel(), model.rewards.reshape(2, -1)
    mu = w * np.outer(p[0], p[0]) + (1 - w) * np.outer(p[1], p[1])
    average = model.marginal_rewards.ravel()
    assert_allclose(mu - np.outer(average, average), w * (1 - w) * np.outer(q, q), atol=1e-15)
    assert_allclose(model.covariance(), np.outer(model.loadings, model.loadings), atol=1e-15)
    assert_allclose(p, [average + (1 - w) * q, average - w * q])


@pytest.mark.parametrize("w", [0.5, 0.3, 0.9])
def test_third_order_correlations(w):
    """Appendix E. u(x, y, z) = w (1-w) (1-2w) p_- p_- p_-; flipping the signs moves the joint law by 8 |u| in TV."""
    model = replace(random_tiny_model(5), weights=[w, 1 - w])
    p, q, average = (
        model.rewards.reshape(2, -1)[:, :3],
        model.reward_difference.ravel()[:3],
        model.marginal_rewards.ravel()[:3],
    )
    u = np.outer(model.loadings, model.loadings)
    mu = w * p[0].prod() + (1 - w) * p[1].prod()
    third = mu - average.prod() - (average[0] * u[1, 2] + average[1] * u[0, 2] + average[2] * u[0, 1])
    assert_allclose(third, w * (1 - w) * (1 - 2 * w) * q.prod(), atol=1e-15)
    flipped = 2 * average - p  # the same averages and pairs, whether or not these are probabilities
    probs, other = np.stack([1 - p, p]), np.stack([1 - flipped, flipped])
    joint = [np.einsum("m,am,bm,cm->abc", model.weights, *each.transpose(2, 0, 1)) for each in (probs, other)]
    assert_allclose(joint[0].sum(axis=2), joint[1].sum(axis=2), atol=1e-15)
    apart = np.abs(joint[0] - joint[1]).sum() / 2
    assert_allclose(apart, 8 * abs(third), atol=1e-14)
    assert apart >= abs(w * (1 - w) * (1 - 2 * w)) * np.abs(q).min() ** 3


def test_structured_reward_distributions():
    """Section 5. Rewards on l values: mu is l x l, u = mu - p_+ p_+^T is a product of differences, rank one in all."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), (2, 2, 2))
    model = RewardMixingMDP(random_tiny_model(0).transition, [1, 0], [0.5, 0.5], probs, 3, reward_values=(0, 1, 3))
    p = probs.reshape(2, 4, 3)
    mu = np.einsum("mxi,myj->xiyj", p, p) / 2
    average = p.mean(axis=0)
    u = mu - np.einsum("xi,yj->xiyj", average, average)
    assert_allclose(model.covariance(), u, atol=1e-15)
    assert np.linalg.matrix_rank(u.reshape(12, 12), tol=1e-12) == 1
    result = recover(exact_confidence_set(model), method=algorithm_3, weights="uniform").model
    order = result.rewards if np.abs(result.rewards - probs).max() < 0.1 else result.rewards[::-1]
    assert_allclose(order, probs, atol=1e-4)
