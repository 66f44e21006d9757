"""Compute the set of models that the moments do not exclude: intervals for marginals and covariances, L1 balls for
transition rows and for the initial distribution.

Covariances. For two value indicators i = (x, z) and j = (y, z') at two steps of one episode, from the n samples of the
pair (x, y):

    center          mean of (1[r_x = z] - marginal_i) (1[r_y = z'] - marginal_j)     marginals from all episodes
    standard error  sqrt(v(center) / n),   v(c) = a_i (1 - a_i) a_j (1 - a_j) + (1 - 2 a_i) (1 - 2 a_j) c - c^2
    radius          rho(n) + delta_i |m_j| + delta_j |m_i| + delta_i delta_j + epsilon_0^2

Here a are the marginals, delta is the radius of a marginal and m_i is the mean of 1[r_x = z] - marginal_i over the
samples of the pair. The mean of (r_x - a_x)(r_y - a_y) changes by exactly (a_x - â_x) m_y + (a_y - â_y) m_x -
(a_x - â_x)(a_y - â_y) when the true marginals a replace the estimates â, so the radius covers the error of the
marginals without any further assumption. The range of a centered product is at most 1, so Hoeffding's rho(n) is that of
a Bernoulli variable. The paper centers at mu-hat - â â (printed with a plus in eq:lp_variables: departures 10 and 11 of
docs/concepts/paper-and-code.md).

v(c) is the variance of the centered product u w in a model where its mean is c: an indicator with marginal a has
u^2 = a (1 - a) + (1 - 2a) u, so the mean of u^2 w^2 follows from c. Where rewards are rare and types differ much, v(c)
is many times the variance v(0) of independent rewards. The error of the marginals enters ``center`` only as a product
with m, of the order 1/n, so it adds nothing here. Rare events make the plain estimate of v too small exactly where
``center`` is too small. Marginals are therefore pulled half a count towards 1/2 and c one count towards 0, and a radius
that depends on the standard error uses the largest v within the interval itself (for a proportion this is Wilson's
interval).
``null_standard_error`` = sqrt(v(0) / n) serves to test whether a pair is correlated at all, and as the weight of a fit:
a weight that followed ``center`` would favor the pairs that err towards a small v.

With two reward values one indicator per state-action is enough, so a *coordinate* is i = x; otherwise i = x*Z + z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix import theory
from rewardmix._core.checks import Floats, as_instance, as_number, quote_value, raise_input_error
from rewardmix.model import RewardMixingMDP, weighted_sum
from rewardmix.moments import Moments
from rewardmix.recovery.reward_patterns import fill_unvisited

MAX_RADIUS_UPDATES = 30
"""Largest number of updates of a radius that depends on the standard error; each update closes most of the remaining
gap.
"""

RadiusRule = Callable[[Any, Any, int, float], Any]
"""(counts, standard deviations of one sample, number of events, failure probability) -> half-width."""


def product_variance(p_x: Floats, p_y: Floats, covariance: Floats | float) -> Floats:
    """Compute v(c), the variance of (1[r_x = z] - p_x)(1[r_y = z'] - p_y) if its mean is the covariance c."""
    slope = (1.0 - 2.0 * p_x) * (1.0 - 2.0 * p_y)
    return np.asarray(p_x * (1.0 - p_x) * p_y * (1.0 - p_y) + covariance * (slope - covariance))


def pair_covariances(
    moments: Moments,
    marginals: Floats,
    delta: Any,
    smooth: Floats,
    radius: RadiusRule,
    failure_prob: float,
    tolerance: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats, Floats, Floats, Floats]:
    """Compute the centered covariance, its interval and its standard errors for every observed pair of coordinates.

    Returns (first, second, center, radius, standard error, null standard error, counts), arrays (Q,), sorted by (first,
    second). ``failure_prob`` is the failure probability of the whole family of intervals, ``tolerance`` epsilon_0.
    """
    points, values = marginals.shape
    x, y = moments.pairs
    tables = moments.pair_tables.astype(np.float64)
    # A state-action paired with itself has no first and second reward: both orders are averaged, so the table is
    # symmetric.
    tables[x == y] = (tables[x == y] + tables[x == y].transpose(0, 2, 1)) / 2.0
    n = moments.pair_samples.astype(np.float64)
    tables /= n[:, None, None]
    counts_i, counts_j = tables.sum(axis=2), tables.sum(axis=1)
    # With two values the indicators of z = 0 and z = 1 differ only in sign, so one of them carries the whole
    # covariance.
    coordinates = np.arange(1, 2) if values == 2 else np.arange(values)
    delta = np.broadcast_to(delta, marginals.shape)
    events = points * (points + 1) // 2 * coordinates.size**2
    blocks = []
    for row, z in enumerate(coordinates.tolist()):
        is_needed = (x < y)[:, None] | (z <= coordinates)  # both orders of a diagonal block are one pair
        pair, column = np.nonzero(is_needed)
        z_j, i, j, count = coordinates[column], x[pair], y[pair], n[pair]
        off_i = counts_i[pair, z] - marginals[i, z]
        off_j = counts_j[pair, z_j] - marginals[j, z_j]
        # The product is expanded around the margins of this pair's own samples. The error of the marginals then enters
        # only through products with ``off_i`` and ``off_j``, which are of order 1/n.
        center = (
            tables[pair, z, z_j]
            - marginals[i, z] * marginals[j, z_j]
            - marginals[i, z] * off_j
            - marginals[j, z_j] * off_i
        )
        p_i, p_j = smooth[i, z], smooth[j, z_j]
        variance, null_variance = _product_variances(p_i, p_j, center, count)
        # Off-diagonal entries of a state-action with itself average two products, u_z w_z' and u_z' w_z, over each
        # sample; their correlation changes the variance of the mean.
        same_x = (i == j) & (z_j != z)
        if same_x.any():
            moment = _diagonal_moment(tables, counts_i, pair[same_x], z, z_j[same_x], p_i[same_x], p_j[same_x])
            variance[same_x] = (variance[same_x] + np.maximum(moment - center[same_x] ** 2, 0.0)) / 2.0
            null_variance[same_x] = (null_variance[same_x] + (p_i[same_x] * p_j[same_x]) ** 2) / 2.0
        half = _inflate_radius(radius, count, events, failure_prob, center, variance, p_i, p_j) + tolerance * tolerance
        # The error of the estimated marginals, added to the sampling error; see the module docstring for the exact
        # expansion.
        half = half + delta[i, z] * np.abs(off_j) + delta[j, z_j] * np.abs(off_i) + delta[i, z] * delta[j, z_j]
        errors = np.sqrt(variance / count), np.sqrt(null_variance / count)
        blocks.append((i * coordinates.size + row, j * coordinates.size + column, center, half, *errors, count))
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    # Pairs were collected value by value; a fixed order makes every later sum over pairs reproducible.
    order = np.lexsort((columns[1], columns[0]))
    first, second, center, half, error, null_error, counts = (column[order] for column in columns)
    return first, second, center, half, error, null_error, counts


def smooth_frequencies(marginals: Floats, visits: NDArray[Any]) -> Floats:
    """Compute (X, Z) marginals pulled half a count towards 1/2 (Krichevsky-Trofimov), so that no variance is 0."""
    n = visits[:, None]
    return np.asarray((np.nan_to_num(marginals, nan=0.5) * n + 0.5) / (n + 1.0))


def _product_variances(p_i: Floats, p_j: Floats, center: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Compute v at the center, pulled one count towards 0 and clipped to attainable covariances, and v(0)."""
    # Bounds of Frechet: no two Bernoulli variables with these means have a smaller or larger covariance.
    min_covariance = -np.minimum(p_i * p_j, (1.0 - p_i) * (1.0 - p_j))
    max_covariance = np.minimum(p_i * (1.0 - p_j), p_j * (1.0 - p_i))
    shrunk = np.clip(center, min_covariance, max_covariance) * count / (count + 1.0)
    return product_variance(p_i, p_j, shrunk), product_variance(p_i, p_j, 0.0)


def _diagonal_moment(
    tables: Floats, margins: Floats, pair: NDArray[Any], z: int, z_j: NDArray[Any], p_i: Floats, p_j: Floats
) -> Floats:
    """Compute the mean of h(r) h(r') over the two rewards of a pair of x with itself, where h = u_z u_z'.

    Both u_z w_z' and u_z' w_z are counted for such a pair. The variance of their mean is half of v plus half of their
    covariance, and the covariance follows from this moment. h equals p_z p_z', less p_z' at r = z and less p_z at r =
    z', so three cells and two margins of the table suffice.
    """
    base = p_i * p_j
    moment = p_j * p_j * tables[pair, z, z] + p_i * p_i * tables[pair, z_j, z_j]
    moment = moment + 2.0 * base * tables[pair, z, z_j]
    return np.asarray(moment + base * (base - 2.0 * (p_j * margins[pair, z] + p_i * margins[pair, z_j])))


def _inflate_radius(
    radius: RadiusRule,
    count: Floats,
    events: int,
    failure_prob: float,
    center: Floats,
    variance: Floats,
    p_i: Floats,
    p_j: Floats,
) -> Floats:
    """Compute the radius for the largest v of any covariance within it, by fixed-point updates that only widen."""
    # v(c) is a parabola in c with its maximum at this point, so its largest value on an interval is at the clipped
    # peak.
    peak = (1.0 - 2.0 * p_i) * (1.0 - 2.0 * p_j) / 2.0
    half = np.asarray(radius(count, np.sqrt(variance), events, failure_prob), dtype=np.float64)
    for _ in range(MAX_RADIUS_UPDATES):
        largest = product_variance(p_i, p_j, np.clip(peak, center - half, center + half))
        wider = radius(count, np.sqrt(np.maximum(largest, variance)), events, failure_prob)
        if not (wider > half).any():
            break
        # Radii never shrink: the iteration is monotone, so stopping early leaves a radius that is at least the plain
        # one.
        half = np.maximum(half, wider)
    return half


ROUNDING_TOLERANCE = 1e-9
"""Values outside an interval by at most this much count as inside: it is rounding error."""


@dataclass(frozen=True)
class Violation:
    """One interval that excludes a model.

    Attributes:
        family: "marginals", "covariance", "transition" or "initial".
        index: Coordinates of the marginal or of the pair, x of the transition row, empty for the initial distribution.
        value: The model's value (for distributions: its L1 distance from the estimate).
        lower: Lower end of the interval.
        upper: Upper end of the interval.
    """

    family: str
    index: tuple[int, ...]
    value: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class ConfidenceSet:
    """Intervals for marginals and covariances, L1 balls around the transition rows and the initial distribution.

    Q is the number of observed pairs of coordinates, N = X with two reward values and N = X*Z otherwise.

    Attributes:
        num_states: S.
        num_actions: A.
        horizon: H.
        reward_values: (Z,) reward values.
        marginals: (N,) marginal reward probability of each coordinate, NaN where x was not visited.
        marginal_radius: (N,) half-widths of the marginals, inf where x was not visited.
        pair_first: (Q,) coordinate i of each observed pair, i <= j; a pair that is not listed has the interval (-inf,
            inf).
        pair_second: (Q,) coordinate j.
        center: (Q,) centered covariance.
        radius: (Q,) half-width of its interval.
        standard_error: (Q,) standard error of ``center``, 0 in an exact set.
        null_standard_error: (Q,) standard error of ``center`` if the two rewards were independent.
        pair_samples: (Q,) number of samples of the pair.
        initial: (S',) estimated initial distribution; S' is S + 1 if episodes ended early, the end state being the
            last.
        initial_radius: L1 radius of the initial distribution.
        transition: ``(S'*A, S')`` CSR, estimated transition rows.
        transition_radius: ``(S'*A,)`` L1 radius of each row, 2 or more where nothing is known.
        tolerance: epsilon_0 = epsilon / H^2.
        failure_prob: Probability that the true model is outside, as far as the radius rule guarantees it.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 2000, seed=0)
        >>> confidence_set = rm.confidence_set(rm.Moments.from_episodes(episodes))
        >>> confidence_set.contains(model), len(confidence_set.violations(model))
        (True, 0)
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    marginals: Floats
    marginal_radius: Floats
    pair_first: NDArray[np.int64]
    pair_second: NDArray[np.int64]
    center: Floats
    radius: Floats
    standard_error: Floats
    null_standard_error: Floats
    pair_samples: Floats
    initial: Floats
    initial_radius: float
    transition: Any
    transition_radius: Floats
    tolerance: float
    failure_prob: float

    def __repr__(self) -> str:
        return (
            f"ConfidenceSet(num_states={self.num_states}, num_actions={self.num_actions}, horizon={self.horizon}, "
            f"pairs={self.pair_first.size}, failure_prob={self.failure_prob:g})"
        )

    @property
    def num_points(self) -> int:
        """X = S*A, the number of state-actions."""
        return self.num_states * self.num_actions

    @property
    def width(self) -> int:
        """Number of coordinates of one x, 1 with two reward values and Z with more."""
        return 1 if self.reward_values.size == 2 else int(self.reward_values.size)

    @property
    def lower(self) -> Floats:
        """(Q,) lower ends of the covariance intervals."""
        return self.center - self.radius

    @property
    def upper(self) -> Floats:
        """(Q,) upper ends of the covariance intervals."""
        return self.center + self.radius

    @cached_property
    def excludes_zero(self) -> NDArray[np.bool_]:
        """(Q,) mask of the pairs whose interval excludes 0, so that the sign of the covariance is known."""
        return (self.lower > 0) | (self.upper < 0)

    @cached_property
    def visited(self) -> NDArray[np.bool_]:
        """(X,) mask of the state-actions that any episode visited."""
        return np.isfinite(self.marginals.reshape(self.num_points, self.width)[:, 0])

    @cached_property
    def marginal_probs(self) -> Floats:
        """(X, Z) marginal reward probabilities; ``fill_unvisited`` fills the rows that were not visited."""
        probs = self.marginals.reshape(self.num_points, self.width)
        return fill_unvisited(np.concatenate([1.0 - probs, probs], axis=1) if self.width == 1 else probs, self.visited)

    def scale_radii(self, factor: float) -> ConfidenceSet:
        """Return the set with all radii of marginals and covariances multiplied by ``factor``."""
        return replace(self, marginal_radius=self.marginal_radius * factor, radius=self.radius * factor)

    def with_transitions(self, moments: Moments) -> ConfidenceSet:
        """Return the set with transitions and initial distribution from other counts.

        These may come from episodes of any policy: next states do not depend on the type.
        """
        initial, initial_radius, transition, transition_radius = _transition_balls(
            moments, theory.failure_prob_per_family(self.failure_prob)
        )
        return replace(
            self,
            initial=initial,
            initial_radius=initial_radius,
            transition=transition,
            transition_radius=transition_radius,
        )

    def contains(self, model: RewardMixingMDP) -> bool:
        """Return whether all intervals and balls contain the model."""
        return not any(mask.any() for *_, mask in self.iter_checks(model))

    def violations(self, model: RewardMixingMDP) -> tuple[Violation, ...]:
        """List the intervals and balls that do not contain the model."""
        return tuple(
            Violation(family, tuple(int(i[k]) for i in index), float(value[k]), float(lower[k]), float(upper[k]))
            for family, index, value, lower, upper, mask in self.iter_checks(model)
            for k in np.flatnonzero(mask)
        )

    def iter_checks(self, model: RewardMixingMDP) -> Any:
        """Yield (family, index, values, lower, upper, is_outside) for each family of intervals."""
        probs = self._reward_probs(model)
        indices = np.arange(self.marginals.size)
        coordinates = (probs[..., 1:] if self.width == 1 else probs).reshape(model.num_types, -1)
        marginals = weighted_sum(model.weights, coordinates)
        is_visited = np.isfinite(self.marginals)
        low, high = self.marginals - self.marginal_radius, self.marginals + self.marginal_radius
        yield "marginals", (indices,), marginals, low, high, is_visited & _is_outside(marginals, low, high)
        centered = coordinates - marginals
        covariance = weighted_sum(model.weights, centered[:, self.pair_first] * centered[:, self.pair_second])
        yield (
            "covariance",
            (self.pair_first, self.pair_second),
            covariance,
            self.lower,
            self.upper,
            _is_outside(covariance, self.lower, self.upper),
        )
        size = int(self.initial.size)
        # Rows of the end state, if there is one, are absorbing by definition and are not compared.
        distance = np.asarray(abs(_pad_rows(model, size) - self.transition).sum(axis=1)).ravel()
        rows = np.arange(self.num_points)
        distance, radius = distance[rows], self.transition_radius[rows]
        yield "transition", (rows,), distance, np.zeros(rows.size), radius, distance > radius + ROUNDING_TOLERANCE
        distance = np.atleast_1d(np.abs(np.pad(model.initial, (0, size - model.num_states)) - self.initial).sum())
        radius = np.atleast_1d(self.initial_radius)
        yield "initial", (), distance, np.zeros(1), radius, distance > radius + ROUNDING_TOLERANCE

    def _reward_probs(self, model: RewardMixingMDP) -> Floats:
        """Return the (M, X, Z) reward probabilities of a model on the states and reward values of this set."""
        states = {self.num_states, int(self.initial.size)}
        sizes = model.num_actions, model.horizon
        if model.num_states not in states or sizes != (self.num_actions, self.horizon):
            raise_input_error(
                "model",
                f"{model.num_states} states, {sizes[0]} actions, horizon {sizes[1]}",
                f"{sorted(states)} states, {self.num_actions} actions, horizon {self.horizon}",
            )
        indices = np.searchsorted(model.reward_values, self.reward_values)
        indices = np.minimum(indices, model.num_values - 1)
        if not np.allclose(model.reward_values[indices], self.reward_values):
            raise_input_error(
                "model", f"reward values {model.reward_values.tolist()}", f"{self.reward_values.tolist()}"
            )
        return model.reward_probs[:, : self.num_states][..., indices].reshape(model.num_types, self.num_points, -1)


def hoeffding_rule(counts: Any, deviation: Any, events: int, failure_prob: float) -> Any:
    """Compute half-widths that hold for all ``events`` and all counts at once (``theory.hoeffding_radius``)."""
    return theory.hoeffding_radius(counts, failure_prob / events)


def normal_rule(num_std: float = 3.0) -> RadiusRule:
    """Make a radius rule of a number of standard errors; narrower than Hoeffding, each interval holds alone."""
    as_number("num_std", num_std, above=0.0, below=1e9)

    def radius(counts: Any, deviation: Any, events: int, failure_prob: float) -> Any:
        """Compute half-widths of ``num_std`` standard errors; inf without samples."""
        n = np.maximum(counts, 1.0)
        return np.where(counts > 0, num_std * deviation / np.sqrt(n), np.inf)

    return radius


def confidence_set(
    moments: Moments, *, failure_prob: float = 0.05, epsilon: float = 0.1, radius_rule: RadiusRule = hoeffding_rule
) -> ConfidenceSet:
    """Build the set of models that agree with the moments.

    Args:
        moments: Counts of nonadaptive episodes: their actions did not depend on the rewards of their own episode.
        failure_prob: Largest probability that the true model is outside, if ``radius_rule`` is ``hoeffding_rule``. A
            quarter each goes to the marginals, the pairs, the transitions and the initial distribution.
        epsilon: PAC accuracy; the tolerance epsilon_0 = epsilon / H^2 is added, squared, to each covariance radius.
        radius_rule: ``hoeffding_rule``, ``normal_rule(3.0)`` or a function with their arguments.

    Returns:
        Confidence set with intervals for the observed pairs only.

    Raises:
        InputError: If an argument is out of range or the moments hold no episodes.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 2000, seed=0)
        >>> confidence_set = rm.confidence_set(rm.Moments.from_episodes(episodes), failure_prob=0.05)
        >>> confidence_set.contains(model)
        True
    """
    as_instance("moments", moments, Moments)
    if not callable(radius_rule):
        raise_input_error(
            "radius_rule",
            quote_value(radius_rule),
            "hoeffding_rule or normal_rule(num_std) of rewardmix.recovery, or a function with their arguments",
        )
    if moments.num_episodes == 0:
        raise_input_error("moments", "no episodes", "at least one episode")
    family_failure_prob = theory.failure_prob_per_family(as_number("failure_prob", failure_prob, above=0.0, below=1.0))
    tolerance = theory.covariance_tolerance(as_number("epsilon", epsilon, above=0.0), moments.horizon)
    visits, marginals = moments.num_samples, moments.reward_frequencies
    smooth = smooth_frequencies(marginals, visits)
    deviation = np.sqrt(smooth * (1.0 - smooth))
    # A union bound over coordinates: the indicators of two values are one event, because they sum to 1.
    events = marginals.shape[0] * (1 if moments.num_values == 2 else moments.num_values)
    marginal_radius = radius_rule(visits[:, None], deviation, events, family_failure_prob)
    pairs = pair_covariances(moments, marginals, marginal_radius, smooth, radius_rule, family_failure_prob, tolerance)
    columns = slice(1, None) if moments.reward_values.size == 2 else slice(None)
    return ConfidenceSet(
        moments.num_states,
        moments.num_actions,
        moments.horizon,
        moments.reward_values,
        marginals[:, columns].ravel(),
        np.broadcast_to(marginal_radius, marginals.shape)[:, columns].ravel(),
        *pairs,
        *_transition_balls(moments, family_failure_prob),
        tolerance,
        failure_prob,
    )


def exact_confidence_set(model: RewardMixingMDP, *, epsilon: float = 0.1) -> ConfidenceSet:
    """Return the confidence set of width zero around the true moments of a model (infinitely many episodes)."""
    from scipy.sparse import csr_array

    probs = model.reward_probs[..., 1:] if model.num_values == 2 else model.reward_probs
    coordinates = probs.reshape(model.num_types, -1)
    marginals = weighted_sum(model.weights, coordinates)
    size = marginals.size
    first, second = np.triu_indices(size)
    centered = coordinates - marginals
    covariance = weighted_sum(model.weights, centered[:, first] * centered[:, second])
    zeros = np.zeros(first.size)
    return ConfidenceSet(
        model.num_states,
        model.num_actions,
        model.horizon,
        model.reward_values,
        marginals,
        np.zeros(size),
        first,
        second,
        covariance,
        zeros,
        zeros,
        zeros,
        np.full(first.size, np.inf),
        model.initial,
        0.0,
        csr_array(model.transition_rows),
        np.zeros(model.num_states * model.num_actions),
        epsilon / model.horizon**2,
        0.0,
    )


def _transition_balls(moments: Moments, failure_prob: float) -> tuple[Floats, float, Any, Floats]:
    """Compute (initial, its radius, transition, its radii) by Weissman's bound on the L1 error."""
    rows, _ = moments.transition_estimate()
    size = rows.shape[1]
    visits = np.zeros(rows.shape[0])
    visits[: moments.visits.size] = moments.visits
    radius = theory.weissman_radius(visits, size, failure_prob / moments.num_state_actions)
    radius[moments.visits.size :] = 0.0  # the end state is absorbing by definition
    return (
        moments.initial_estimate(),
        float(theory.weissman_radius(moments.num_episodes, size, failure_prob)),
        rows,
        radius,
    )


def _is_outside(values: Floats, lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Return the mask of values outside [lower, upper] by more than rounding."""
    return (values < lower - ROUNDING_TOLERANCE) | (values > upper + ROUNDING_TOLERANCE)


def _pad_rows(model: RewardMixingMDP, size: int) -> Any:
    """Return (size*A, size) transition rows of the model, with an end state if only the estimate has one."""
    from scipy.sparse import csr_array, vstack

    rows = csr_array(model.transition_rows)
    if size == model.num_states:
        return rows
    rows = csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], size))
    end = csr_array(
        (np.ones(model.num_actions), (np.arange(model.num_actions), np.full(model.num_actions, size - 1))),
        shape=(model.num_actions, size),
    )
    return csr_array(vstack([rows, end]))
