"""Compute the quantities of the theory: failure probabilities, radii, thresholds, sample complexity.

Scalars and arrays in, numbers out. The paper hides its constants in O(.); here each one is explicit. Two families:

*Forms of the paper*, ``paper_*``: iota = c log(K S A / eta), the bonus is min(1, sqrt(iota / n)).

*Explicit radii*, ``*_radius``: valid simultaneously for every count n >= 1 and every state-action (pair), so they hold
at whatever time exploration stops. They rest on two inequalities and a union bound:

- Hoeffding: the mean of n independent draws from an interval of length 1 deviates by r with probability at most
  2 exp(-2 n r^2).
- Weissman et al. (2003): the empirical distribution of n draws from k categories deviates by r in L1 with probability
  at most (2^k - 2) exp(-n r^2 / 2).
- Union over counts: the sum over n >= 1 of 1 / (n (n+1)) is 1, so failure probabilities eta / (n (n+1)) sum to eta.

The samples behind a count are the first n that the learner took. Which steps it visits depends on earlier episodes and
on the path, not on the rewards that are averaged. These n samples are therefore independent and the inequalities apply
for each n.

Use ``*_radius`` for confidence sets, ``*_episodes`` and ``*_bound`` to plan experiments, ``paper_*`` to reproduce the
paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_number, raise_input_error
from rewardmix._core.portable_math import log, log1p, log_array

NUM_FAMILIES = 4
"""Number of families that share the failure probability: marginal rewards, pairs, transitions, initial states."""


MIN_THRESHOLD = 1e-140
"""Smallest threshold: below it, the required number of episodes overflows."""


# ---------------------------------------------------------------------------------------------------------------------
# Thresholds


def covariance_tolerance(epsilon: float, horizon: int) -> float:
    """Compute epsilon_0 = epsilon / H^2, below which covariances do not matter for a regret of epsilon.

    Args:
        epsilon: Accuracy of the value.
        horizon: Number of steps, H.

    Returns:
        Tolerance epsilon_0.

    Examples:
        >>> from rewardmix import theory
        >>> theory.covariance_tolerance(0.1, horizon=4)
        0.00625
    """
    return _check_positive("epsilon", epsilon) / _check_positive("horizon", horizon) ** 2


def uncertainty_threshold(epsilon: float, min_separation: float, horizon: int) -> float:
    """Compute eps_pe = (epsilon / H^3) max(delta, epsilon / H^2), at which exploration stops (theorem:upper_bound).

    Section 4 of the paper also divides by the number of levels (departure 15 of docs/concepts/paper-and-code.md).

    Args:
        epsilon: Accuracy of the value.
        min_separation: Lower bound delta of the separation of types; 0 if unknown.
        horizon: Number of steps, H.

    Returns:
        Threshold of the uncertainty V_0.

    Raises:
        InputError: If the threshold is smaller than ``MIN_THRESHOLD``.

    Examples:
        >>> from rewardmix import theory
        >>> round(theory.uncertainty_threshold(0.1, 0.0, horizon=4), 8)
        9.77e-06
    """
    return threshold_of_target("epsilon", epsilon, min_separation, horizon)


def threshold_of_target(name: str, epsilon: float, min_separation: float, horizon: int) -> float:
    """Compute ``uncertainty_threshold`` for an accuracy that its caller calls ``name``, as errors then do."""
    tolerance = max(
        as_number("min_separation", min_separation, above=-1e-300, below=1e60), covariance_tolerance(epsilon, horizon)
    )
    value = epsilon / float(horizon) ** 3 * tolerance
    if value < MIN_THRESHOLD:
        raise_input_error(
            name,
            epsilon,
            f"a value whose uncertainty threshold is at least {MIN_THRESHOLD:g}; at horizon {horizon} it is {value:g}",
        )
    return value


# ---------------------------------------------------------------------------------------------------------------------
# How many episodes


def episode_bound(
    num_states: int, num_actions: int, horizon: int, threshold: float, failure_prob: float, scale: float = 1.0
) -> float:
    """Bound the episodes until V_0 <= eps_pe: K = C S^2 A (H + A) / eps_pe^2 log(H S A / (eps_pe eta)).

    The paper does not state C. With ``scale`` = C = 1 this is the form of the bound, not a guarantee.
    """
    s, a, h = _check_sizes(num_states, num_actions, horizon)
    stop, eta = _check_threshold(threshold), _check_failure_prob(failure_prob)
    logarithm = max(float(log(h * s * a / (stop * eta))), 0.0)
    return scale * (s * s) * a * (h + a) / (stop * stop) * logarithm


def upper_bound(
    num_states: int,
    num_actions: int,
    horizon: int,
    epsilon: float,
    min_separation: float,
    failure_prob: float,
    scale: float = 1.0,
) -> float:
    """Bound the episodes for an epsilon-optimal policy (theorem:upper_bound).

    K = C H^6 S^2 A (H + A) / epsilon^2 max(delta, epsilon / H^2)^-2 log(H S A / (epsilon eta)) log(H / epsilon)^2.
    """
    s, a, h = _check_sizes(num_states, num_actions, horizon)
    uncertainty_threshold(epsilon, min_separation, horizon)
    if epsilon > h:
        raise_input_error("epsilon", epsilon, f"at most the horizon {horizon}; no policy has a larger regret")
    delta = max(min_separation, covariance_tolerance(epsilon, horizon))
    logs: float = log(h * s * a / (epsilon * _check_failure_prob(failure_prob))) * log(h / epsilon) * log(h / epsilon)
    # Products instead of powers: pow may differ in the last bit between C libraries.
    cube = h * h * h
    return scale * (cube * cube) * (s * s) * a * (h + a) / ((epsilon * delta) * (epsilon * delta)) * logs


def lower_bound(num_states: int, num_actions: int, epsilon: float, scale: float = 1.0) -> float:
    """Compute the episodes that some model requires of any method: C S^2 A^2 / epsilon^2 (theorem:lower_bound)."""
    ratio = (
        _check_positive("num_states", num_states)
        * _check_positive("num_actions", num_actions)
        / _check_positive("epsilon", epsilon)
    )
    return scale * (ratio * ratio)


def estimate_paper_episodes(
    num_states: int, num_actions: int, horizon: int, threshold: float, failure_prob: float, scale: float = 1.0
) -> float:
    """Estimate the episodes until the paper's bonuses reach the threshold, if all counts grow evenly.

    V_0 is the sum of three bonuses, with L = log(K S A / eta): initial state, sqrt(c S L / K); H transitions, sqrt(c S
    L / (K H / (S A))) each; one pair, sqrt(c L / (K / (S A)^2)). Solving for K gives the fixed point of

        K = c L / eps_pe^2 (sqrt(S) + S sqrt(H A) + S A)^2.
    """
    s, a, h = _check_sizes(num_states, num_actions, horizon)
    failure_prob = _check_failure_prob(failure_prob)
    factor = (math.sqrt(s) + s * math.sqrt(h * a) + s * a) / _check_threshold(threshold)
    episodes_per_log = scale * factor * factor
    episodes = max(episodes_per_log, math.e)
    # The map is a contraction, because the logarithm changes much slower than its argument. 100 iterations
    # exceed float precision.
    for _ in range(100):
        episodes = max(episodes_per_log * log(max(episodes * s * a / failure_prob, math.e)), 1.0)
    return episodes


def estimate_practical_episodes(
    num_states: int, num_actions: int, horizon: int, uncertainty: float = 0.5, level: float = 2.0
) -> float:
    """Estimate the episodes with the practical bonus until V_0 <= ``uncertainty``, if all pairs are equally reachable.

    Each pair needs n = level / uncertainty^2 samples. An episode of H steps gives about H (H - 1) / 2 of the X (X + 1)
    / 2 pairs, X = S A. This is an order of magnitude: environments with states that are hard to reach need more.
    """
    s, a, h = _check_sizes(num_states, num_actions, horizon)
    x, stop = s * a, _check_threshold(uncertainty)
    # An episode has at most X distinct state-actions, and so not more than X (X - 1) / 2 pairs of first visits.
    pairs_per_episode = max(min(h, x) * (min(h, x) - 1) / 2, 1.0)
    return level / (stop * stop) * (x * (x + 1) / 2) / pairs_per_episode


def _check_positive(argument: str, value: object) -> float:
    """Check a positive number."""
    return as_number(argument, value, above=0.0, below=1e60)


def _check_sizes(num_states: int, num_actions: int, horizon: int) -> tuple[float, float, float]:
    """Check S, A and H; the upper limit keeps all of their powers finite."""
    names = {"num_states": num_states, "num_actions": num_actions, "horizon": horizon}
    s, a, h = (as_number(name, value, above=0.0, below=1e30) for name, value in names.items())
    return s, a, h


def _check_threshold(value: float) -> float:
    """Check a threshold."""
    if not as_number("threshold", value, above=0.0, below=1e60) >= MIN_THRESHOLD:
        raise_input_error("uncertainty_threshold", value, f"a number of at least {MIN_THRESHOLD:g}")
    return float(value)


def _check_failure_prob(value: float) -> float:
    """Check a failure probability."""
    return as_number("failure_prob", value, above=0.0, below=1.0)


# ---------------------------------------------------------------------------------------------------------------------
# The paper's levels


def paper_level(
    num_episodes: ArrayLike, num_states: int, num_actions: int, failure_prob: float, scale: float = 1.0
) -> Any:
    """Compute iota_1 = iota_2 = c log(K S A / eta) after K episodes (at least one).

    The paper writes O(log(K / eta)) in one place and O(log(S A / eta)) in another. This is the form at the end of its
    proof of the episode bound (departure 3 of docs/concepts/paper-and-code.md).
    """
    return scale * log_array(np.maximum(num_episodes, 1) * (num_states * num_actions / failure_prob))


def bonus_width(level: ArrayLike, num_samples: ArrayLike) -> Any:
    """Compute min(1, sqrt(iota / n)), which is 1 for n = 0 (eq:update_q2)."""
    # The maximum inside of the root makes the result exactly 1 for n <= iota and avoids a division by 0.
    return np.sqrt(level / np.maximum(num_samples, level))


# ---------------------------------------------------------------------------------------------------------------------
# Explicit radii


def failure_prob_per_family(failure_prob: float) -> float:
    """Compute the failure probability of each of the four families, which sum to ``failure_prob``."""
    return failure_prob / NUM_FAMILIES


def hoeffding_radius(num_samples: ArrayLike, failure_prob: float) -> Any:
    """Compute the radius of a mean of n values for all n: sqrt(log(2 n (n+1) / eta) / (2 n)).

    This is 2 exp(-2 n r^2) = eta / (n (n+1)) solved for r, for values in an interval of length 1; infinite for n = 0.

    Args:
        num_samples: Number of samples n, scalar or array.
        failure_prob: Probability eta that the radius fails for any n.

    Returns:
        Radius for each n.

    Examples:
        >>> from rewardmix import theory
        >>> round(float(theory.hoeffding_radius(100, 0.05)), 3)
        0.254
    """
    n = np.asarray(num_samples, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.where(n > 0, np.sqrt(log_array(2 * np.maximum(n, 1) * (n + 1) / failure_prob) / (2 * n)), np.inf)


def weissman_radius(num_samples: ArrayLike, num_categories: int, failure_prob: float) -> Any:
    """Compute the L1 radius of an empirical distribution over k categories for all n, at most 2.

    This is (2^k - 2) exp(-n r^2 / 2) = eta / (n (n+1)) solved for r: sqrt(2 log((2^k - 2) n (n+1) / eta) / n). The
    radius 2 contains all distributions, that is, no information.

    Args:
        num_samples: Number of samples n, scalar or array.
        num_categories: Number of categories k.
        failure_prob: Probability eta that the radius fails for any n.

    Returns:
        Radius for each n.

    Examples:
        >>> from rewardmix import theory
        >>> round(float(theory.weissman_radius(100, 3, 0.05)), 3)
        0.529
    """
    n = np.asarray(num_samples, dtype=np.float64)
    # log(2^k - 2) = k log 2 + log(1 - 2^(1 - k)), without the overflow of 2^k.
    subsets = num_categories * log(2) + log1p(-(2.0 ** (1 - num_categories))) if num_categories > 1 else -math.inf
    with np.errstate(divide="ignore"):
        exponent = subsets + log_array(np.maximum(n, 1) * (n + 1) / failure_prob)
        radius = np.sqrt(2 * np.maximum(exponent, 0.0) / n) if num_categories > 1 else np.zeros_like(n)
        return np.where(n > 0, np.minimum(radius, 2.0), 2.0)


def marginal_radius(
    num_samples: ArrayLike, num_state_actions: int, failure_prob: float, num_reward_values: int = 2
) -> Any:
    """Compute the Hoeffding radius of all marginal rewards, with ``failure_prob`` shared by X state-actions.

    Two reward values have one frequency to estimate, Z > 2 have Z; the probability is also shared by these.
    """
    frequencies = 1 if num_reward_values == 2 else num_reward_values
    return hoeffding_radius(num_samples, failure_prob_per_family(failure_prob) / (num_state_actions * frequencies))


def pair_radius(num_samples: ArrayLike, num_state_actions: int, failure_prob: float, num_reward_values: int = 2) -> Any:
    """Compute the radius of all means of (centered) products, shared by the X (X+1) / 2 unordered pairs.

    With u = r_x - p_+(x) and v = r_y - p_+(y), the four values of u v lie in an interval of length at most 1: a largest
    plus a smallest corner is one of p_+(x), p_+(y), 1 - p_+(x), 1 - p_+(y). One radius therefore serves the plain
    product r_x r_y and the centered one. For Z > 2 there is one product for each of the Z^2 cells.
    """
    pairs = num_state_actions * (num_state_actions + 1) / 2
    cells = 1 if num_reward_values == 2 else num_reward_values**2
    return hoeffding_radius(num_samples, failure_prob_per_family(failure_prob) / (pairs * cells))


def transition_radius(num_samples: ArrayLike, num_states: int, num_state_actions: int, failure_prob: float) -> Any:
    """Compute the L1 radius of all rows of the transition estimate; ``num_states`` includes the end state, if any."""
    return weissman_radius(num_samples, num_states, failure_prob_per_family(failure_prob) / num_state_actions)


def initial_radius(num_episodes: ArrayLike, num_states: int, failure_prob: float) -> Any:
    """Compute the L1 radius of the estimated initial distribution after K episodes."""
    return weissman_radius(num_episodes, num_states, failure_prob_per_family(failure_prob))


def value_error_bound(l1_radius: ArrayLike) -> Any:
    """Compute the largest error of an expectation of values in [0, 1]: half of the L1 radius.

    The factor 1/2 holds because both distributions sum to 1.
    """
    return np.asarray(l1_radius) / 2
