"""Compute the quantities of the paper's analysis by enumerating all histories of models with a few states.

A trajectory is (s, a, r) H times, so a table over all trajectories has 3 H axes. ``trajectory_probs`` is P^pi(tau) with
the policy left out. A sum over trajectories of pi(tau) times a table is largest for a policy that takes the best action
after each history: sum over r, maximum over a, sum over s, from the last step to the first. So ``sup_over_policies`` is
exact over *all* history-dependent policies, and no policy is ever sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog

from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.recovery import exact_confidence_set
from rewardmix.recovery.linear_program import solve_magnitudes
from rewardmix.recovery.signs import solve_signs

CLOSE = 0.01
"""The constant of the proofs: |u - u-hat| <= CLOSE delta_l epsilon_l for every pair of X_l."""


# ---------------------------------------------------------------------------------------------------------------------
# Models


def two_type_model(average, spread, *, transition=None, initial=None, horizon=3):
    """Make a model with weights 1/2 and one state per row of ``average``; transitions are uniform unless given."""
    average, spread = np.asarray(average, float), np.asarray(spread, float)
    states, actions = average.shape
    transition = np.full((states, actions, states), 1 / states) if transition is None else transition
    initial = np.full(states, 1 / states) if initial is None else initial
    return RewardMixingMDP(transition, initial, [0.5, 0.5], np.stack([average + spread, average - spread]), horizon)


def random_tiny_model(seed, *, states=2, actions=2, horizon=3, separation=0.0, zeros=0.0):
    """Draw a model whose |p_-| is 0 (with probability ``zeros``) or at least ``separation``."""
    rng = np.random.default_rng(seed)
    average = rng.uniform(0.25, 0.75, (states, actions))
    largest = np.minimum(average, 1 - average)
    spread = rng.uniform(np.minimum(separation, largest), largest) * rng.choice([-1, 1], average.shape)
    spread[rng.random(average.shape) < zeros] = 0.0
    return two_type_model(
        average,
        spread,
        transition=rng.dirichlet(np.ones(states), (states, actions)),
        initial=rng.dirichlet(np.ones(states)),
        horizon=horizon,
    )


def separation(model):
    """Return delta = min(1, smallest positive |p_-|) (def:minimum_separation)."""
    delta = np.abs(model.loadings)
    return min(1.0, delta[delta > 0].min(initial=1.0))


def with_rewards(model, average, spread):
    """Replace the rewards of a model, given p_+ and p_- as (X,)."""
    rewards = np.stack([average + spread, average - spread]).reshape(model.rewards.shape)
    return replace(model, rewards=np.clip(rewards, 0.0, 1.0))


# ---------------------------------------------------------------------------------------------------------------------
# Trajectories


def axes(model):
    """Return [(s_t, a_t, r_t), ...], the indices of each step, which broadcast over all trajectories."""
    grid = np.ogrid[tuple(slice(n) for n in (model.num_states, model.num_actions, 2) * model.horizon)]
    return [tuple(grid[3 * t : 3 * t + 3]) for t in range(model.horizon)]


def visited(model):
    """Return [x_1, ..., x_H], each of which broadcasts over all trajectories."""
    return [s * model.num_actions + a for s, a, _ in axes(model)]


def state_probs(model):
    """Return nu(s_1) T(s_2 | x_1) ... T(s_H | x_{H-1}) of every trajectory."""
    steps, transition = axes(model), dense_transition(model)
    probs = model.initial[steps[0][0]]
    for (s, a, _), (after, _, _) in pairwise(steps):
        probs = probs * transition[s, a, after]
    return probs


def reward_pattern_probs(model):
    """Return sum_m w_m R_m(r_1 | x_1) ... R_m(r_H | x_H) of every trajectory: (1/2) 1^T D_{H:1} 1."""
    each = [
        np.prod(np.broadcast_arrays(*(probs[step] for step in axes(model))), axis=0) for probs in model.reward_probs
    ]
    return np.tensordot(model.weights, np.array(each), axes=1)


def trajectory_probs(model):
    """Return P^pi(tau) without pi, of every trajectory."""
    return state_probs(model) * reward_pattern_probs(model)


def returns(model):
    """Return the sum of rewards of every trajectory."""
    return sum(r for _, _, r in axes(model)) + np.zeros(trajectory_shape(model))


def trajectory_shape(model):
    """Return (S, A, 2) H times."""
    return (model.num_states, model.num_actions, 2) * model.horizon


def sup_over_policies(table):
    """Compute the supremum over history-dependent pi of sum_tau pi(tau) table(tau)."""
    while table.ndim:
        table = table.sum(axis=-1).max(axis=-1).sum(axis=-1)
    return float(table)


def sup_probability(model, event):
    """Compute sup_pi P^pi(x_{1:H} in event)."""
    return sup_over_policies(trajectory_probs(model) * event)


def sup_distance(first, second, event=1.0):
    """Compute sup_pi of the sum over trajectories of the event of |P^{1,pi} - P^{2,pi}|."""
    return sup_over_policies(np.abs(trajectory_probs(first) - trajectory_probs(second)) * event)


def expected_steps(model, per_step):
    """Return a table whose sum under pi is E^pi[sum_t f_t(s_t, a_t)], f of shape (H, S, A)."""
    return trajectory_probs(model) * sum(per_step[t][s, a] for t, (s, a, _) in enumerate(axes(model)))


# ---------------------------------------------------------------------------------------------------------------------
# Levels (eq:define_countlevel_sets)


@dataclass(frozen=True)
class Level:
    """Hold epsilon_l, delta_l and n_l."""

    epsilon: float
    delta: float
    count: float


def levels(separation, tolerance, iota=1.0, constant=1.0):
    """Return the levels l = 0, ..., L + 1.

    epsilon_l doubles, delta_l = max(delta, epsilon_l), n_l = C iota_2 / (delta_l epsilon_l)^2. L is the largest with
    n_L >= C iota_2; then n_{L+1} = 0 and epsilon_{L+1} = 1.
    """
    result, epsilon = [], tolerance
    while (delta := max(separation, epsilon)) * epsilon <= 1.0:
        result.append(Level(epsilon, delta, constant * iota / (delta * epsilon) ** 2))
        epsilon *= 2
    return [*result, Level(1.0, max(separation, 1.0), 0.0)]


def exactly(model, counts, all_levels):
    """Return E'_0, ..., E'_{L+1}: every pair of steps t1 < t2 has n >= n_l, and not every one n >= n_{l-1}."""
    within = [every_pair(model, counts >= level.count) for level in all_levels]
    return [now & ~before for now, before in zip(within, [np.zeros_like(within[0]), *within], strict=False)]


def every_pair(model, allowed):
    """Return whether allowed[x_t1, x_t2] for all t1 < t2, of every trajectory."""
    steps, fine = visited(model), np.ones(trajectory_shape(model), bool)
    for t, x in enumerate(steps):
        for y in steps[t + 1 :]:
            fine = fine & allowed[x, y]
    return fine


def times(model, chosen):
    """Count the steps of each trajectory at a chosen x; ``chosen`` is (X,)."""
    return sum(chosen[x].astype(int) for x in visited(model)) + np.zeros(trajectory_shape(model), int)


# ---------------------------------------------------------------------------------------------------------------------
# Estimates that the constraints allow


def interval_set(model, radius, rng, *, corners=False):
    """Make a confidence set with covariance intervals of half-width ``radius`` (X, X) that contain the truth."""
    box = exact_confidence_set(model, epsilon=1e-2 * model.horizon**2)
    half = np.minimum(radius[box.pair_first, box.pair_second], 1e3)
    noise = rng.choice([-0.999, 0.999], half.size) if corners else rng.uniform(-1, 1, half.size)
    return replace(box, center=box.center + noise * half, radius=half)


def algorithm_three(box):
    """Return p_- (X,) by the linear program and the signs, not clipped."""
    return solve_signs(box).signs * np.exp(solve_magnitudes(box).log_magnitudes)


def extreme_magnitudes(delta, slack, objective, *, min_value=1e-18, max_value=1.0):
    """Return magnitudes (N,) whose logarithms maximize the objective, with |d_i d_j - delta_i delta_j| <= slack_ij.

    ``slack`` (N, N) is inf where there is no constraint; ``min_value`` and ``max_value`` bound each magnitude. The
    worst case of every statement about estimates is at such a point, because logarithms turn products into sums. None:
    there is none.
    """
    bottom, top = np.log(np.broadcast_to(min_value, delta.shape)), np.log(np.broadcast_to(max_value, delta.shape))
    rows, bounds = [], []
    for i, j in zip(*np.triu_indices(delta.size), strict=True):
        if np.isfinite(slack[i, j]):
            row = np.zeros(delta.size)
            row[i] += 1.0
            row[j] += 1.0
            product = delta[i] * delta[j]
            rows.append(row)
            bounds.append(np.log(product + slack[i, j]))
            if product > slack[i, j]:
                rows.append(-row)
                bounds.append(-np.log(product - slack[i, j]))
    if not rows:
        return np.exp(np.where(np.asarray(objective) > 0, top, bottom))
    result = linprog(-np.asarray(objective, float), np.array(rows), bounds, bounds=np.stack([bottom, top], axis=1))
    return np.exp(result.x) if result.status == 0 else None


def surrogates(model, estimate, epsilon):
    """Return M^1 and M^2 (eq:define_surrogate_m1, eq:define_surrogate_m2)."""
    average = model.marginal_rewards.ravel()

    def smooth(spread):
        far = np.where(np.abs(spread) < 2 * epsilon, 0.0, spread)
        return with_rewards(model, epsilon + (1 - 2 * epsilon) * average, (1 - 2 * epsilon) * far)

    return smooth(model.loadings.ravel()), smooth(estimate)


# ---------------------------------------------------------------------------------------------------------------------
# Exploration


def optimistic_values(moments, ordered, iota_pair, iota_move, iota_start):
    """Compute Q_1 of slot 1 (S, A, 2) and V_0 by eq:update_q2 and eq:optimistic_value, slot by slot."""
    states, actions = moments.num_states, moments.num_actions
    size = states * actions
    rows, _ = moments.transition_estimate()
    visits = np.asarray(moments.visits, float)
    hat = rows.toarray() * (visits > 0)[:, None]
    move = np.minimum(1.0, np.sqrt(iota_move / np.maximum(visits, 1e-12)))
    pair = np.minimum(1.0, np.sqrt(iota_pair / np.maximum(ordered, 1e-12)))
    third, second, first = np.zeros(states), np.zeros((size, states)), np.zeros(states)

    def best(q):
        return np.minimum(1.0, q).reshape(*q.shape[:-1], states, actions).max(axis=-1)

    for _ in range(moments.horizon):
        rest = hat @ third + move
        wait, pick = second @ hat.T + move, pair + rest
        q = np.stack([hat @ first + move, np.einsum("xs,xs->x", hat, second) + move], axis=-1)
        first = best(q.max(axis=-1))
        second, third = best(np.maximum(wait, pick)), best(rest)
    value = np.sqrt(iota_start / moments.num_episodes) + first @ (moments.initial_counts / moments.num_episodes)
    return np.minimum(1.0, q).reshape(states, actions, 2), float(value)


def ordered_counts(moments):
    """Return n(x1, x2) (X, X) of the pairs that were picked, x1 first."""
    counts = np.zeros(moments.num_state_actions**2, np.int64)
    counts[moments.first_visit_keys] = moments.first_visit_tables.sum(axis=(1, 2))
    return counts.reshape(moments.num_state_actions, -1)


def meets(model, step, chosen):
    """Return whether (x_step, x_t2) is chosen for some t2 > step, of every trajectory."""
    steps, result = visited(model), np.zeros(trajectory_shape(model), bool)
    for y in steps[step + 1 :]:
        result = result | chosen[steps[step], y]
    return result
