"""Numbers of the theory: confidence levels, radii, thresholds, and how many episodes they ask for.

Scalars and arrays in, numbers out. The paper leaves its constants as O(.); here each one is written out. Two families:

*The paper's forms*, ``paper_*``: iota = c log(K S A / eta), the bonus is min(1, sqrt(iota / n)).

*Explicit radii*, ``*_radius``: valid at once for every count n >= 1 and for every state-action (pair), so they hold at
whatever moment exploration happens to stop. All rest on two inequalities and one union bound:

- Hoeffding: the mean of n independent draws from an interval of length 1 is off by r with probability at most
  2 exp(-2 n r^2).
- Weissman et al. (2003): the empirical law of n draws from k categories is off by r in L1 with probability at most
  (2^k - 2) exp(-n r^2 / 2).
- Over counts: sum over n >= 1 of 1 / (n (n+1)) is 1, so the share failure / (n (n+1)) for count n adds up to failure.

The samples behind a count are the first n that the learner happened to take. Which steps it visits depends on earlier
episodes and on the path, never on the rewards that are being averaged, so those n are independent draws and the
inequalities apply to each n.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_number, refuse
from rewardmix._core.portable import log, log1p, logs

FAMILIES = 4
"""Averages, pairs, moves and starts each get the same share of the failure probability."""


SMALLEST = 1e-140
"""Thresholds below this are as good as 0: the episodes that they ask for are beyond all numbers."""


# ---------------------------------------------------------------------------------------------------------------------
# Thresholds


def tolerance(accuracy: float, horizon: int) -> float:
    """epsilon_0 = epsilon / H^2: differences between contexts below it do not matter."""
    return _positive("accuracy", accuracy) / _positive("horizon", horizon) ** 2


def threshold(accuracy: float, separation: float, horizon: int) -> float:
    """eps_pe = (epsilon / H^3) max(delta, epsilon / H^2), where exploration stops (theorem:upper_bound).

    The theorem's; section 4 also divides by the number of levels (departure 15 of docs/paper.md).
    """
    gap = max(as_number("separation", separation, above=-1e-300, below=1e60), tolerance(accuracy, horizon))
    found = accuracy / float(horizon) ** 3 * gap
    if found < SMALLEST:
        refuse(
            "accuracy", accuracy, f"one whose threshold is at least {SMALLEST:g}; at horizon {horizon} it is {found:g}"
        )
    return found


# ---------------------------------------------------------------------------------------------------------------------
# How many episodes


def episode_bound(
    num_states: int, num_actions: int, horizon: int, threshold: float, failure: float, constant: float = 1.0
) -> float:
    """K = C S^2 A (H + A) / eps_pe^2 log(H S A / (eps_pe eta)): episodes until V_0 <= eps_pe, at most.

    The paper's C is not given; with ``constant`` 1 this is the form of the bound, not a promise.
    """
    s, a, h = _sizes(num_states, num_actions, horizon)
    stop, eta = _threshold(threshold), _failure(failure)
    size = max(float(log(h * s * a / (stop * eta))), 0.0)
    return constant * (s * s) * a * (h + a) / (stop * stop) * size


def upper_bound(
    num_states: int,
    num_actions: int,
    horizon: int,
    accuracy: float,
    separation: float,
    failure: float,
    constant: float = 1.0,
) -> float:
    """Episodes for an epsilon-optimal policy, as theorem:upper_bound prints them.

    K = C H^6 S^2 A (H + A) / epsilon^2 max(delta, epsilon / H^2)^-2 log(H S A / (epsilon eta)) log(H / epsilon)^2.
    """
    s, a, h = _sizes(num_states, num_actions, horizon)
    threshold(accuracy, separation, horizon)
    if accuracy > h:
        refuse("accuracy", accuracy, f"at most the horizon {horizon}: no policy can be further from the best")
    gap = max(separation, tolerance(accuracy, horizon))
    growth: float = log(h * s * a / (accuracy * _failure(failure))) * log(h / accuracy) * log(h / accuracy)
    cube = h * h * h
    return constant * (cube * cube) * (s * s) * a * (h + a) / ((accuracy * gap) * (accuracy * gap)) * growth


def lower_bound(num_states: int, num_actions: int, accuracy: float, constant: float = 1.0) -> float:
    """Episodes that some world needs whatever the method: Omega(S^2 A^2 / epsilon^2) (theorem:lower_bound)."""
    each = _positive("num_states", num_states) * _positive("num_actions", num_actions) / _positive("accuracy", accuracy)
    return constant * (each * each)


def fluid_episodes(
    num_states: int, num_actions: int, horizon: int, threshold: float, failure: float, constant: float = 1.0
) -> float:
    """Episodes after which the paper's own bonuses bring V_0 down to the threshold, if they shrink evenly.

    V_0 is a sum of three parts: start, sqrt(c S L / K); moves, H steps with sqrt(c S L / (K H / (S A))) each; one pair,
    sqrt(c L / (K / (S A)^2)), where L = log(K S A / eta). Solving for K gives the fixed point of

        K = c L / eps_pe^2 (sqrt(S) + S sqrt(H A) + S A)^2.
    """
    s, a, h = _sizes(num_states, num_actions, horizon)
    failure = _failure(failure)
    root = (math.sqrt(s) + s * math.sqrt(h * a) + s * a) / _threshold(threshold)
    parts = constant * root * root
    episodes = max(parts, math.e)
    for _ in range(100):  # the map is a contraction: the logarithm changes far slower than its argument
        episodes = max(parts * log(max(episodes * s * a / failure, math.e)), 1.0)
    return episodes


def practical_episodes(
    num_states: int, num_actions: int, horizon: int, uncertainty: float = 0.5, level: float = 2.0
) -> float:
    """Episodes of the practical setting until V_0 <= ``uncertainty``, if pairs were all equally easy to reach.

    Each pair needs n = level / uncertainty^2 samples. An episode of H steps gives about H (H - 1) / 2 of the
    X (X + 1) / 2 pairs, X = S A. An order of magnitude: worlds that are hard to walk through need more.
    """
    s, a, h = _sizes(num_states, num_actions, horizon)
    x, stop = s * a, _threshold(uncertainty)
    a_time = max(min(h, x) * (min(h, x) - 1) / 2, 1.0)
    return level / (stop * stop) * (x * (x + 1) / 2) / a_time


def _positive(argument: str, value: object) -> float:
    return as_number(argument, value, above=0.0, below=1e60)


def _sizes(num_states: int, num_actions: int, horizon: int) -> tuple[float, float, float]:
    """S, A and H; as numbers that no power of them here exceeds."""
    names = {"num_states": num_states, "num_actions": num_actions, "horizon": horizon}
    s, a, h = (as_number(name, value, above=0.0, below=1e30) for name, value in names.items())
    return s, a, h


def _threshold(value: float) -> float:
    if not as_number("threshold", value, above=0.0, below=1e60) >= SMALLEST:
        refuse("threshold", value, f"a number of at least {SMALLEST:g}")
    return float(value)


def _failure(value: float) -> float:
    return as_number("failure", value, above=0.0, below=1.0)


# ---------------------------------------------------------------------------------------------------------------------
# The paper's levels


def paper_level(episodes: ArrayLike, num_states: int, num_actions: int, failure: float, constant: float = 1.0) -> Any:
    """iota_1 = iota_2 = c log(K S A / eta), K the episodes so far (at least one).

    The paper writes O(log(K / eta)) in one place and O(log(S A / eta)) in another; this is the form that its proof of
    the episode bound ends with (departure 3 of docs/paper.md).
    """
    return constant * logs(np.maximum(episodes, 1) * (num_states * num_actions / failure))


def bonus(level: ArrayLike, counts: ArrayLike) -> Any:
    """min(1, sqrt(iota / n)), 1 where n = 0 (eq:update_q2)."""
    return np.sqrt(level / np.maximum(counts, level))


# ---------------------------------------------------------------------------------------------------------------------
# Explicit radii


def share(failure: float) -> float:
    """What each of the four families (averages, pairs, moves, starts) may fail with, so that all hold together."""
    return failure / FAMILIES


def hoeffding_radius(counts: ArrayLike, failure: float) -> Any:
    """Radius of a mean of n values in an interval of length 1, for all n at once: sqrt(log(2 n (n+1) / failure) / 2n).

    2 exp(-2 n r^2) = failure / (n (n+1)), solved for r; infinite where n = 0.
    """
    n = np.asarray(counts, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.where(n > 0, np.sqrt(logs(2 * np.maximum(n, 1) * (n + 1) / failure) / (2 * n)), np.inf)


def weissman_radius(counts: ArrayLike, categories: int, failure: float) -> Any:
    """L1 radius of an empirical law over k categories, for all n at once; at most 2, which is no information.

    (2^k - 2) exp(-n r^2 / 2) = failure / (n (n+1)), solved for r: sqrt(2 log((2^k - 2) n (n+1) / failure) / n).
    """
    n = np.asarray(counts, dtype=np.float64)
    subsets = categories * log(2) + log1p(-(2.0 ** (1 - categories))) if categories > 1 else -math.inf
    with np.errstate(divide="ignore"):
        exponent = subsets + logs(np.maximum(n, 1) * (n + 1) / failure)
        radius = np.sqrt(2 * np.maximum(exponent, 0.0) / n) if categories > 1 else np.zeros_like(n)
        return np.where(n > 0, np.minimum(radius, 2.0), 2.0)


def average_radius(counts: ArrayLike, num_state_actions: int, failure: float, num_values: int = 2) -> Any:
    """Radius of every average at once: Hoeffding, with ``failure`` shared by X state-actions and their frequencies.

    Two reward values have one frequency to estimate, Z > 2 have Z.
    """
    frequencies = 1 if num_values == 2 else num_values
    return hoeffding_radius(counts, share(failure) / (num_state_actions * frequencies))


def pair_radius(counts: ArrayLike, num_state_actions: int, failure: float, num_values: int = 2) -> Any:
    """Radius of every pair's mean (centred) product at once, shared by the X (X+1) / 2 unordered pairs.

    With u = r_x - average(x) and v = r_y - average(y), the four values of u v lie in an interval of length at most 1:
    a largest plus a smallest corner is one of average(x), average(y), 1 - average(x), 1 - average(y). So the same
    radius serves the plain product r_x r_y and the centred one. Z > 2: one product for each of the Z^2 cells.
    """
    pairs = num_state_actions * (num_state_actions + 1) / 2
    cells = 1 if num_values == 2 else num_values**2
    return hoeffding_radius(counts, share(failure) / (pairs * cells))


def transition_radius(counts: ArrayLike, num_states: int, num_state_actions: int, failure: float) -> Any:
    """L1 radius of every row of T-hat at once, shared by the X rows. ``num_states`` counts the end, if there is one."""
    return weissman_radius(counts, num_states, share(failure) / num_state_actions)


def initial_radius(episodes: ArrayLike, num_states: int, failure: float) -> Any:
    """L1 radius of nu-hat after K episodes."""
    return weissman_radius(episodes, num_states, share(failure))


def optimism(l1_radius: ArrayLike) -> Any:
    """How much an expectation of values in [0, 1] can be off: half of the L1 radius, since both laws sum to one."""
    return np.asarray(l1_radius) / 2
