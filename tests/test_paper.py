"""The paper, statement by statement: one test for each that can be computed, in its order, named after its label.

Every O(.) has a constant here, and every sup over policies is exact (``paper_oracles``). What is false as printed is
tested as corrected, beside the witness against the printed form; docs/paper.md numbers these departures.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose
from paper_oracles import (
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
    returns,
    rewards_law,
    separation,
    sup_distance,
    sup_over_policies,
    sup_probability,
    surrogates,
    times,
    tiny,
    trajectory_law,
    trajectory_shape,
    two_contexts,
    visited,
    with_rewards,
)
from scipy.optimize import linprog

from rewardmix import belief, draws, evaluate, explore, learn, plan, problems, recover, theory, uniform
from rewardmix.exploration import paper as paper_levels
from rewardmix.exploration import selected
from rewardmix.exploration.compiled import world_of
from rewardmix.exploration.kernels import halves
from rewardmix.exploration.reference import Reference, augmented_rule
from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.recovery import confidence_set, exact, normal, paper, spectral
from rewardmix.recovery.certificate import parities
from rewardmix.recovery.magnitudes import magnitudes

FAILURE = 0.05


# ---------------------------------------------------------------------------------------------------------------------
# 2  Problem setup


def test_definition_rm_lmdp():
    """definition:rm_lmdp. A context is drawn once and kept: trajectories have the law nu T (sum_m w_m prod_t R_m)."""
    model = tiny(1)
    law = trajectory_law(model)
    assert_allclose([sup_over_policies(law), -sup_over_policies(-law)], 1.0, rtol=1e-12)
    at_random = (law * returns(model)).sum() / model.num_actions**model.horizon
    assert_allclose(evaluate(uniform(model), model).value, at_random, rtol=1e-9)
    average = np.tensordot(model.weights, model.laws, axes=1)
    redrawn = np.prod(np.broadcast_arrays(*(average[step] for step in axes(model))), axis=0)
    assert np.abs(rewards_law(model) - redrawn).max() > 0.01  # a context drawn anew at each step is another world


@pytest.mark.parametrize("seed", range(3))
def test_the_optimal_value_over_history_dependent_policies(seed):
    """V* of section 2: the planner's bracket contains the maximum over all history-dependent policies."""
    model = tiny(seed)
    best = sup_over_policies(trajectory_law(model) * returns(model))
    assert_allclose(best, oracles.best_value(model), rtol=1e-12)
    found = plan(model, gap=1e-6)
    assert found.lower - 1e-9 <= best <= found.upper + 1e-9
    assert found.upper - found.lower <= 1e-6


def test_definition_pac_optimal_policy():
    """definition: pac optimal policy. V* - V <= epsilon in all of 8 runs; a policy that is not adaptive is further off."""
    model = two_contexts([[0.5, 0.5]], [[0.45, -0.45]], horizon=4)
    best = sup_over_policies(trajectory_law(model) * returns(model))
    runs = [learn(model, episodes=400, resamples=0, weights="uniform", seed=seed) for seed in range(8)]
    lost = [best - evaluate(run.policy, model).value for run in runs]
    assert max(lost) <= 0.05
    assert best - evaluate(uniform(model), model).value > 0.5


def test_notation_p_plus_p_minus_and_delta():
    """Section 2.1. p_+ = (p_1 + p_2) / 2, p_- = (p_1 - p_2) / 2; the appendix on weights halves nothing (departure 1)."""
    model = tiny(2)
    one, two = model.rewards
    assert_allclose(model.average, (one + two) / 2)
    assert_allclose(model.spread, (one - two) / 2)
    assert_allclose(model.gap, one - two)


# ---------------------------------------------------------------------------------------------------------------------
# 3  Algorithms


def test_algo_two_reward_mixture():
    """algo:two_reward_mixture. Explore, recover, plan; nothing of the true model but its episodes is used."""
    model = tiny(5, separation=0.2)
    found = learn(model, episodes=300_000, resamples=0, weights="uniform", method=paper)
    again = recover(found.exploration.moments, method=paper, weights="uniform")
    assert_allclose(found.model.rewards, again.model.rewards)
    planned = plan(found.model, gap=1e-6)
    assert_allclose(evaluate(found.policy, found.model).value, planned.lower, atol=1e-5)
    best = sup_over_policies(trajectory_law(model) * returns(model))
    assert best - evaluate(found.policy, model).value < 0.1


def test_eq_def_mu():
    """eq:def_mu. mu(x, y) = E[r_x r_y | x, y] = (p_1 p_1 + p_2 p_2) / 2, from the law of trajectories of two steps."""
    model = tiny(3, horizon=2)
    law, both = trajectory_law(model), returns(model) == 2
    mu = (law * both).sum(axis=(2, 5)) / law.sum(axis=(2, 5))
    p = model.rewards.reshape(2, -1)
    assert_allclose(mu.reshape(4, 4), (np.outer(p[0], p[0]) + np.outer(p[1], p[1])) / 2, rtol=1e-12)
    average = model.average.ravel()
    assert_allclose(model.covariance(), mu.reshape(4, 4) - np.outer(average, average), atol=1e-15)


def test_warm_up_top_eigenvector():
    """Section 3. B = mu - p_+ p_+ = q q^T with q = p_-, so the leading eigenvector gives p_- up to its sign."""
    model = tiny(4)
    matrix, q = model.covariance(), model.spread.ravel()
    values, vectors = np.linalg.eigh(matrix)
    assert np.abs(values[:-1]).max() < 1e-15
    assert_allclose(np.abs(vectors[:, -1]) * np.sqrt(values[-1]), np.abs(q), rtol=1e-10)
    found = recover(exact(model), method=spectral, weights="uniform").model
    assert sup_distance(model, found) < 1e-9


def test_eq_recovery_of_reward():
    """eq: recovery of reward. R_1 = p_+ + p_-, R_2 = p_+ - p_-."""
    model = tiny(6)
    assert_allclose(model.rewards, [model.average + model.spread, model.average - model.spread])


def test_eq_augment_rule():
    """eq:augment_rule. The slot grows and the pick is stored if z = 1 and a slot is free; else nothing changes."""
    things = (None, 0, 1)
    for i, first, second, x, z in itertools.product((1, 2, 3), things, things, (0, 1), (0, 1)):
        slot, picks = augmented_rule(i, (first, second), x, z)
        moved = z == 1 and i != 3
        assert slot == (i + 1 if moved else i)
        for j, (before, after) in enumerate(zip((first, second), picks, strict=True), start=1):
            assert after == (x if moved and j == i else before)


def test_algo_pure_explore():
    """algo:pure_explore. The loop line by line is what ``explore`` counts; mu-hat is the mean of r_c (departure 2)."""
    model = tiny(0)
    reference = Reference(model, paper_levels(0.01), selected, FAILURE)
    world, stream, mean, printed = world_of(model), draws.stream(7, 0), {}, {}
    for _ in range(60):
        steps = reference.play(world, lambda: halves(stream))
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
    found = explore(model, episodes=60, confidence=paper_levels(0.01), counts=selected, growth=1.0, seed=7)
    counts = ordered_counts(found.moments)
    assert {(x, y): n for (x, y), n in np.ndenumerate(counts) if n} == reference.n
    assert counts.sum() <= 60  # at most one pair an episode


def explored(seed=0, episodes=300, constant=0.02):
    """(model, exploration, iota_2, counts): Algorithm 2 with the paper's levels, planned after every episode."""
    model = tiny(seed)
    found = explore(
        model, episodes=episodes, confidence=paper_levels(constant), counts=selected, growth=1.0, seed=3, keep=False
    )
    iota = theory.paper_level(found.episodes, 2, 2, FAILURE, constant)
    return model, found, iota, ordered_counts(found.moments)


def test_eq_update_q2():
    """eq:update_q2. Q of the augmented MDP from the counts: bonus of the pair in slot 2, bonus of the move, clip at 1."""
    model, found, iota, counts = explored(episodes=150)
    reference = Reference(model, paper_levels(0.02), selected, FAILURE)
    reference.run(150, draws.stream(3, 0))
    q, _ = optimistic_values(found.moments, counts, iota, 2 * iota, 2 * iota)
    assert 0 < q.min() < q.max() < 1
    for s, a, z in np.ndindex(2, 2, 2):
        assert_allclose(reference.q(0, 1, (None, None), s, a, z), q[s, a, z], rtol=1e-12)


@pytest.mark.parametrize("episodes", [50, 300, 2000])
def test_eq_optimistic_value(episodes):
    """eq:optimistic_value. V_0 = sqrt(iota_nu / K) + sum_s nu-hat(s) V_1(1, null, s), at most 1 (departure 5)."""
    _, found, iota, counts = explored(1, episodes)
    _, value = optimistic_values(found.moments, counts, iota, 2 * iota, 2 * iota)
    assert_allclose(found.uncertainty, min(1.0, value), rtol=1e-12)
    assert episodes < 300 or found.uncertainty < 1


def test_eq_def_u():
    """eq:def_u. u(x, y) = p_-(x) p_-(y) = mu(x, y) - p_+(x) p_+(y), the same x twice included."""
    model = tiny(7)
    q = model.spread.ravel()
    assert_allclose(model.covariance(), np.outer(q, q), atol=1e-15)


def test_eq_lp_variables():
    """eq:lp_variables. |(mu-hat - p_+ p_+) - u-hat| <= b; printed with a plus, which no truth fulfils (departure 10)."""
    model = tiny(8)
    box, average = exact(model), model.average.ravel()
    product = average[box.first] * average[box.second]
    mu = box.centre + product
    u = np.outer(model.spread, model.spread)[box.first, box.second]
    assert_allclose(mu - product, u, atol=1e-15)
    assert np.abs(mu + product - u).min() > 0.1


@pytest.fixture(scope="module")
def runs():
    """(model, [moments of 40 explorations])."""
    model = tiny(9, separation=0.1)
    return model, [explore(model, episodes=3000, seed=seed, keep=False).moments for seed in range(40)]


def test_lemma_feasible_optimism(runs):
    """lemma:feasible_optimism. The set contains the truth, the program and the signs have a solution, it is within 3 b.

    Printed: within b. But where an interval contains 0, u-hat may have the other sign: at most 3 b (departure 13).
    """
    model, moments = runs
    for each in moments:
        box = confidence_set(each, failure=FAILURE)
        assert box.contains(model)
        assert magnitudes(box).status == "feasible"
        assert parities(box).conflicts == ()
        u = np.outer(*[algorithm_three(box)] * 2)[box.first, box.second]
        assert (np.abs(u - box.centre) <= 3 * box.radius + 1e-9).all()
        decided = box.excludes_zero
        assert (np.abs(u - box.centre) <= box.radius + 1e-9)[decided].all()
    narrow = [confidence_set(each, failure=FAILURE, radius=normal(0.5)) for each in moments]
    assert sum(box.contains(model) for box in narrow) < 5


def test_lemma_feasible_optimism_fails_as_printed_for_signs_that_nothing_ties():
    """lemma:feasible_optimism, departure 13. Two groups whose cross pairs all contain 0: any relative sign is allowed."""
    model = two_contexts([[0.5] * 6], [[0.3] * 3 + [-0.3] * 3])
    box = exact(model)
    cross = (box.first < 3) != (box.second < 3)
    box = replace(box, radius=np.where(cross, 0.1, 0.0))
    assert box.contains(model)
    u = np.outer(*[algorithm_three(box)] * 2)[box.first, box.second]
    off = np.abs(u - box.centre)[cross]
    assert (off > 0.1).all()
    assert (off <= 0.3).all()
    assert not recover(box, method=paper, weights="uniform").info.certificate.contained


def test_lemma_feasible_optimism_fails_as_printed_after_the_clip():
    """lemma:feasible_optimism, departure 14. Clipping at min(p_+, 1 - p_+) of the *estimate* can break a lower bound."""
    model = two_contexts([[0.08, 0.5]], [[0.08, 0.45]])
    box = exact(model)
    pair = box.first != box.second
    box = replace(
        box,
        average=np.array([0.05, 0.5]),
        average_radius=np.array([0.05, 0.0]),
        centre=np.where(pair, 0.04, box.centre),
        radius=np.where(pair, 0.01, 1.0),
    )
    assert box.contains(model)
    assert magnitudes(box).status == "feasible"
    clipped = recover(box, method=paper, weights="uniform").model
    assert clipped.covariance()[0, 1] < 0.03
    assert not box.contains(clipped)


@pytest.mark.parametrize("tolerance", [0.25, 0.1, 0.02])
def test_lemma_feasible_optimism_model_of_the_proof(tolerance):
    """lemma:feasible_optimism, its proof. M^1 moves averages by eps^3, joint laws by 2 eps^3, and has Delta >= eps^5."""
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
    laws, new = np.stack([1 - p, p]), np.stack([1 - q, q])
    joint = np.einsum("ima,jmb->ijab", new, new) / 2 - np.einsum("ima,jmb->ijab", laws, laws) / 2
    assert np.abs(joint).max() <= 2 * e**3 + 1e-15
    delta = np.abs(q[0] - q[1]) / 2
    assert delta.min() >= e**5 * (1 - 1e-9)
    u = np.outer(q[0] - q[1], q[0] - q[1]) / 4
    assert np.abs(u - np.outer(spread, spread)).max() <= e**2  # so the extra eps_0^2 of the intervals covers M^1


def test_lemma_feasible_optimism_pairs_are_seen_less_often_than_their_parts(runs):
    """lemma:feasible_optimism, its proof. min(n(x), n(y)) >= n(x, y)."""
    for each in runs[1][:5]:
        x, y = each.pairs
        assert (each.pair_samples <= np.minimum(each.samples[x], each.samples[y])).all()


def test_algo_LMDP_recovery():  # noqa: N802
    """algo:LMDP_recovery, algo:LMDP_recovery_detail. Program, signs, clip, p_+ +- p_-: the truth from exact moments."""
    for seed in range(5):
        model = tiny(seed, zeros=0.3)
        found = recover(exact(model), method=paper, weights="uniform")
        assert sup_distance(model, found.model) < 1e-7
        assert found.info.certificate.contained
    broken = with_rewards(model, model.average.ravel(), np.abs(model.spread.ravel()))
    assert sup_distance(model, broken) > 0.01  # without the signs it is another world


def test_def_minimum_separation():
    """def:minimum_separation. delta = min(1, least positive Delta); equal contexts have delta = 1."""
    model = two_contexts([[0.5, 0.5, 0.5]], [[0.0, -0.2, 0.4]])
    assert_allclose(separation(model), 0.2)
    assert separation(two_contexts([[0.5]], [[0.0]])) == 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05, 0.5])
def test_theorem_upper_bound_threshold(delta):
    """theorem:upper_bound, its eps_pe. Lemmas 4.1 and 4.2 add up to epsilon only with the 1/L of section 4.

    H sum_l (H eps_pe / (delta_l eps_l)) (H eps_l) = H^3 eps_pe sum_l 1 / delta_l (departure 15).
    """
    accuracy, horizon = 0.5, 8
    tolerance = theory.tolerance(accuracy, horizon)
    threshold = theory.threshold(accuracy, delta, horizon)
    assert_allclose(threshold, accuracy / horizon**3 * max(delta, accuracy / horizon**2))
    ladder = levels(delta, tolerance)
    total = horizon**3 * sum(1 / level.delta for level in ladder)
    assert total * threshold / len(ladder) <= accuracy * (1 + 1e-12)
    if delta <= tolerance:
        assert total * threshold <= 2.5 * accuracy  # 1/delta_l is a geometric series: no L is needed
    if delta == 0.5:
        assert total * threshold > 3 * accuracy  # every level counts: as printed it is epsilon log(H / epsilon)


def test_theorem_upper_bound_episodes():
    """theorem:upper_bound, its K: eq:required_episodes at eps_pe / log(H / epsilon), up to the first logarithm."""
    for states, actions, horizon, accuracy, delta in itertools.product((2, 9), (2, 7), (3, 20), (0.5, 0.01), (0, 0.3)):
        threshold = theory.threshold(accuracy, delta, horizon) / np.log(horizon / accuracy)
        printed = theory.upper_bound(states, actions, horizon, accuracy, delta, FAILURE)
        needed = theory.episode_bound(states, actions, horizon, threshold, FAILURE)
        assert printed <= needed <= 6 * printed


def test_theorem_upper_bound_end_to_end():
    """theorem:upper_bound. With its eps_pe the paper's algorithms end within K = 10 times the form, epsilon-optimal."""
    model = two_contexts([[0.5, 0.5]], [[0.45, -0.45]], horizon=2)
    accuracy, delta = 0.2, separation(model)
    threshold = theory.threshold(accuracy, delta, 2)
    found = explore(model, threshold=threshold, confidence=paper_levels(), counts=selected, keep=False)
    assert found.uncertainty <= threshold
    assert found.episodes <= 10 * theory.upper_bound(1, 2, 2, accuracy, delta, FAILURE)
    policy = plan(recover(found.moments, method=paper, weights="uniform").model).policy
    best = sup_over_policies(trajectory_law(model) * returns(model))
    assert best - sup_over_policies(np.zeros(()) + evaluate(policy, model).value) <= accuracy
    assert best - evaluate(uniform(model), model).value > accuracy


@pytest.mark.parametrize("e", [0.01, 0.04, 0.2])
def test_theorem_lower_bound(e):
    """theorem:lower_bound. The family: value 1 + 2 e with the pair, 1 without, and kl = -log(1 - 16 e^2) / 2 <= 24 e^2."""
    model = problems.make("hard", actions=4, accuracy=e, seed=3)
    law = trajectory_law(model)
    assert_allclose(sup_over_policies(law * returns(model)), 1 + 2 * e, rtol=1e-12)
    x, y = visited(model)
    special = model.spread.ravel() != 0
    assert special.sum() == 3
    found = special[x] & special[y]
    assert_allclose(sup_over_policies(law * returns(model) * ~found - 9.0 * law * found), 1.0, rtol=1e-12)
    joint = rewards_law(model)[0, :, :, 1].transpose(0, 2, 1, 3).reshape(16, 4)
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
    one, two = tiny(seed), tiny(seed + 50)
    difference = trajectory_law(one) - trajectory_law(two)
    slack = one.horizon / 2 * np.abs(difference)
    for sign in (1, -1):
        assert sup_over_policies(sign * difference * returns(one) - slack) <= 1e-12
    paid = two_contexts([[1.0], [0.0]], [[0.0], [0.0]], transition=np.eye(2)[:, None], initial=[0.5, 0.5])
    more = replace(paid, initial=[0.6, 0.4])
    difference = np.abs(trajectory_law(more) - trajectory_law(paid)).sum()
    assert 3 * 0.1 > difference + 0.05  # departure 16: without H it is false


def test_eq_define_countlevel_sets():
    """eq:define_countlevel_sets. E_l grows with l, E'_l part all trajectories; over t1 < t2, not t1 != t2 (departure 17)."""
    model, found, iota, counts = explored()
    ladder = levels(0.1, 0.02, iota, 0.01)
    assert all(a.count > b.count for a, b in itertools.pairwise(ladder))
    assert ladder[-2].count >= 0.01 * iota > ladder[-1].count == 0
    parts = exactly(model, counts, ladder)
    assert (sum(part.astype(int) for part in parts) == 1).all()
    assert sum(part.any() for part in parts) >= 3
    hard = problems.make("hard")
    seen = explore(hard, episodes=3000, counts=selected, confidence=paper_levels(0.01), keep=False).moments
    counts = ordered_counts(seen)
    steps_in_order = every_pair(hard, counts >= 1)
    printed = steps_in_order & every_pair(hard, counts.T >= 1)
    assert sup_probability(hard, steps_in_order) == 1.0
    assert not (printed & (trajectory_law(hard) > 0)).any()  # the second step never comes first


def worst_estimates(seed, delta, tolerance=0.01):
    """(model, levels, counts, estimate): a world, how well each pair is known, and what Algorithm 3 may then return."""
    rng = np.random.default_rng(seed)
    model = tiny(seed, separation=delta, zeros=0.3)
    size, ladder = model.spread.size, levels(delta, tolerance)
    known = rng.integers(0, len(ladder), (size, size)) if seed % 2 else np.full((size, size), seed // 2 % 3)
    known = np.maximum(known, known.T)
    close = np.array([CLOSE * level.delta * level.epsilon for level in ladder])
    average = np.clip(model.average.ravel() + close[known.min(axis=1)] * rng.choice([-1, 1], size), 0, 1)
    cap = np.minimum(average, 1 - average)
    slack = np.append(close[:-1], np.inf)[known]
    if delta > tolerance:  # then the lemmas need the least solution (lemma:eps2_count_distinguishable)
        box = interval_set(model, slack / 4, rng, corners=True)
        spread = algorithm_three(replace(box, average=average))
        spread = np.clip(spread, -cap, cap)
    else:
        least = extreme_magnitudes(np.abs(model.spread.ravel()), slack, rng.normal(size=size), most=cap + CLOSE)
        spread = np.clip(np.sign(model.spread.ravel()) * least, -cap, cap)
    counts = np.array([level.count for level in ladder])[known]
    return model, ladder, counts, with_rewards(model, average, spread)


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_lemma_eventwise_total_bound(delta):
    """lemma:eventwise_total_bound. sum over E'_l of |P - P-hat| <= H eps_l sup P(E'_l) for all policies: O(.) is 1.

    Events by enumeration, sup by dynamic programming, estimates at corners of what the constraints allow.
    """
    reached, wrong = 0, 0
    for seed in range(30):
        model, ladder, counts, estimate = worst_estimates(seed, delta)
        flipped = with_rewards(model, estimate.average.ravel(), np.abs(estimate.spread.ravel()) + 0.1)
        for level, event in zip(ladder, exactly(model, counts, ladder), strict=True):
            bound = model.horizon * level.epsilon * sup_probability(model, event)
            assert sup_distance(model, estimate, event) <= bound + 1e-12
            reached += bool(event.any()) and level.count > 0
            wrong += sup_distance(model, flipped, event) > bound
    assert reached >= 30
    assert wrong >= 10  # a wrong estimate is seen


def test_lemma_eventwise_total_bound_with_parameters_that_are_far_off():
    """lemma:eventwise_total_bound, its point. Two state-actions, one a step: only their product is known, and needed."""
    moves = np.zeros((2, 1, 2))
    moves[:, :, 1] = 1.0
    model = two_contexts([[0.5], [0.5]], [[0.4], [0.1]], transition=moves, initial=[1.0, 0.0], horizon=2)
    other = with_rewards(model, model.average.ravel(), np.array([0.1, 0.4]))
    assert np.abs(model.rewards - other.rewards).max() > 0.29
    assert sup_distance(model, other) < 1e-15


def test_eq_bound_total_variation_distance_overall():
    """eq:bound_total_variation_distance_overall. The distance is at most the sum over l of H eps_l sup P(E'_l)."""
    for seed in range(10):
        model, ladder, counts, estimate = worst_estimates(seed, 0.1)
        parts = exactly(model, counts, ladder)
        split = [sup_distance(model, estimate, event) for event in parts]
        bounds = [3 * a.epsilon * sup_probability(model, event) for a, event in zip(ladder, parts, strict=True)]
        assert sup_distance(model, estimate) <= sum(split) + 1e-12 <= sum(bounds) + 1e-11


def rare_world():
    """Three states, one of them entered once in twenty steps by one action alone."""
    moves = np.array([[[0.9, 0.1, 0], [0.5, 0.45, 0.05]], [[0.5, 0.5, 0], [1, 0, 0]], [[0, 1, 0], [0.5, 0, 0.5]]])
    return two_contexts(np.full((3, 2), 0.5), np.full((3, 2), 0.3), transition=moves, initial=[1, 0, 0])


@pytest.fixture(scope="module")
def ended():
    """(model, exploration to V_0 <= 0.2, ordered counts, iota_2), the paper's levels with c = 1/4."""
    model = rare_world()
    found = explore(model, threshold=0.2, confidence=paper_levels(0.25), counts=selected, growth=1.02, keep=False)
    iota = theory.paper_level(found.episodes, 3, 2, FAILURE, 0.25)
    return model, found, ordered_counts(found.moments), iota


def test_lemma_reward_free_guarantee_episodes(ended):
    """lemma:reward_free_guarantee, eq:required_episodes. V_0 <= eps_pe after C S^2 A (H + A) / eps_pe^2 log(.): C = 10 c."""
    _, found, _, _ = ended
    assert found.info.stopped == "threshold"
    assert found.episodes <= theory.episode_bound(3, 2, 3, 0.2, FAILURE, constant=10 * 0.25)


def test_lemma_reward_free_guarantee_event_probability(ended):
    """lemma:reward_free_guarantee, eq:max_event_probability. sup P(E'_l) <= (H - 1) V_0 max(1, sqrt(n_{l-1} / iota_2)).

    n_{l-1} and not n_l, because a pair of E'_l was seen *less* than n_{l-1} times (departure 18). Events by dynamic
    programming over all policies; also the inner step, one t_1 at a time.
    """
    model, found, counts, iota = ended
    hat, _ = found.moments.transition_estimate()
    visits = np.asarray(found.moments.visits, float)
    off = np.abs(hat.toarray() - dense_transition(model).reshape(6, 3)).sum(axis=1)
    assert (off <= np.sqrt(3 * iota / np.maximum(visits, 1))).all()  # the event that the lemma conditions on
    early = explore(model, episodes=60, confidence=paper_levels(0.25), counts=selected, keep=False)
    biting, broken = 0, 0
    for limit in np.unique(counts)[1:]:
        bonus = min(1.0, np.sqrt(iota / limit))
        rare = counts < limit
        for step in range(2):
            assert found.uncertainty >= bonus * sup_probability(model, meets(model, step, rare)) - 1e-12
        bound = 2 * found.uncertainty / bonus
        event = ~every_pair(model, counts >= limit)
        assert sup_probability(model, event) <= bound + 1e-12
        biting += bound < 1
        broken += sup_probability(model, ~every_pair(model, ordered_counts(early.moments) >= limit)) > bound
    assert biting >= 1
    assert broken >= 1  # counts of a run that was stopped too early do not have it
