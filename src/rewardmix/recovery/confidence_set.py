"""The models that the moments do not exclude: intervals for averages and covariances, balls for moves and starts.

Covariances. For two value indicators i = (x, z) and j = (y, z') at two steps of one episode, from the n samples of the
pair (x, y):

    centre     mean of (1[r_x = z] - average_i) (1[r_y = z'] - average_j)       averages from all episodes
    deviation  sqrt(v(centre) / n),   v(c) = a_i (1 - a_i) a_j (1 - a_j) + (1 - 2 a_i) (1 - 2 a_j) c - c^2
    radius     rho(n) + delta_i |m_j| + delta_j |m_i| + delta_i delta_j + epsilon_0^2

with delta the radius of an average and m_i the mean of 1[r_x = z] - average_i over the samples of the pair: because
mean (r_x - a_x)(r_y - a_y) falls by exactly (a_x - â_x) m_y + (a_y - â_y) m_x - (a_x - â_x)(a_y - â_y) when the true
averages a are put for the estimates â, the radius covers the error of the averages without any further assumption.
The range of a centred product is at most 1, so Hoeffding's rho(n) is that of a coin. The paper centres at mu-hat - â â
(printed with a plus in eq:lp_variables: departures 10 and 11 of docs/paper.md).

v(c) is the variance of the centred product u w in a world where its mean is c: an indicator with average a has
u^2 = a (1 - a) + (1 - 2a) u, so the mean of u^2 w^2 follows from c, and with it all that the table of the pair says of
the variance. Where rewards rarely pay and contexts differ much it is many times that of independent rewards, v(0). The
error of the averages enters ``centre`` only as a product with m, of the order 1/n, so it adds nothing here. Rare events
make the plain estimate of v too small just where ``centre`` is: averages are pulled half a count towards the middle,
c one count towards 0, and a radius that depends on the deviation is that of the largest v within the interval itself
(for a share this is Wilson's interval).
``null_deviation`` = sqrt(v(0) / n) is for the question whether a pair is correlated at all, and for weights of a fit: a
weight that followed ``centre`` would favour the pairs that err towards a small v.

With two reward values one indicator says it all, so a *coordinate* is i = x; otherwise i = x*Z + z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix import theory
from rewardmix._core.checks import Floats, as_instance, as_number, quoted, refuse
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.moments import Moments
from rewardmix.recovery.bags import with_guesses

GROWTHS = 30
"""How often a radius that depends on the deviation may grow; each step all but closes what is left."""

Radius = Callable[[Any, Any, int, float], Any]
"""(counts, deviations of one sample, number of events, failure) -> half-width."""


def product_variance(one: Floats, other: Floats, covariance: Floats | float) -> Floats:
    """v: variance of (1[r_x = z] - one)(1[r_y = z'] - other) where its mean is ``covariance``."""
    slope = (1.0 - 2.0 * one) * (1.0 - 2.0 * other)
    return np.asarray(one * (1.0 - one) * other * (1.0 - other) + covariance * (slope - covariance))


def covariances(
    moments: Moments, average: Floats, delta: Any, smooth: Floats, radius: Radius, share: float, tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats, Floats, Floats, Floats]:
    """(first, second, centre, radius, deviation, null deviation, counts) of every pair of coordinates that was seen."""
    points, values = average.shape
    x, y = moments.pairs
    tables = moments.pair_tables.astype(np.float64)
    tables[x == y] = (tables[x == y] + tables[x == y].transpose(0, 2, 1)) / 2.0
    n = moments.pair_samples.astype(np.float64)
    tables /= n[:, None, None]
    mine, theirs = tables.sum(axis=2), tables.sum(axis=1)
    kept = np.arange(1, 2) if values == 2 else np.arange(values)
    delta = np.broadcast_to(delta, average.shape)
    events = points * (points + 1) // 2 * kept.size**2
    parts = []
    for place, z in enumerate(kept.tolist()):
        chosen = (x < y)[:, None] | (z <= kept)  # the two orders of a diagonal block are the same coordinates
        pair, column = np.nonzero(chosen)
        other, i, j, count = kept[column], x[pair], y[pair], n[pair]
        off_i = mine[pair, z] - average[i, z]
        off_j = theirs[pair, other] - average[j, other]
        centre = (
            tables[pair, z, other]
            - average[i, z] * average[j, other]
            - average[i, z] * off_j
            - average[j, other] * off_i
        )
        one, two = smooth[i, z], smooth[j, other]
        variance, null = _variances(one, two, centre, count)
        own = (i == j) & (other != z)
        if own.any():
            joint = _joint(tables, mine, pair[own], z, other[own], one[own], two[own])
            variance[own] = (variance[own] + np.maximum(joint - centre[own] ** 2, 0.0)) / 2.0
            null[own] = (null[own] + (one[own] * two[own]) ** 2) / 2.0
        half = _consistent(radius, count, events, share, centre, variance, one, two) + tolerance * tolerance
        half = half + delta[i, z] * np.abs(off_j) + delta[j, other] * np.abs(off_i) + delta[i, z] * delta[j, other]
        errors = np.sqrt(variance / count), np.sqrt(null / count)
        parts.append((i * kept.size + place, j * kept.size + column, centre, half, *errors, count))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    first, second, centre, half, deviation, null, counts = (column[order] for column in columns)
    return first, second, centre, half, deviation, null, counts


def smoothed(average: Floats, visits: NDArray[Any]) -> Floats:
    """(X, Z) averages pulled half a count towards the middle."""
    n = visits[:, None]
    return np.asarray((np.nan_to_num(average, nan=0.5) * n + 0.5) / (n + 1.0))


def _variances(one: Floats, two: Floats, centre: Floats, count: Floats) -> tuple[Floats, Floats]:
    """v at the centre, pulled one count towards 0 and into what two such rewards can have, and v(0)."""
    least = -np.minimum(one * two, (1.0 - one) * (1.0 - two))
    most = np.minimum(one * (1.0 - two), two * (1.0 - one))
    pulled = np.clip(centre, least, most) * count / (count + 1.0)
    return product_variance(one, two, pulled), product_variance(one, two, 0.0)


def _joint(
    tables: Floats, margins: Floats, pair: NDArray[Any], z: int, other: NDArray[Any], one: Floats, two: Floats
) -> Floats:
    """Mean of h(r) h(r') over the two rewards of a pair of x with itself, h = u_z u_z'.

    Both u_z w_z' and u_z' w_z are counted there, and v of their mean is half of v plus half of their covariance, which
    this gives. h is one * two, less ``two`` at r = z and less ``one`` at r = z', so few cells of the table say it all.
    """
    base = one * two
    square = two * two * tables[pair, z, z] + one * one * tables[pair, other, other]
    square = square + 2.0 * base * tables[pair, z, other]
    return np.asarray(square + base * (base - 2.0 * (two * margins[pair, z] + one * margins[pair, other])))


def _consistent(
    radius: Radius, count: Floats, events: int, share: float, centre: Floats, variance: Floats, one: Floats, two: Floats
) -> Floats:
    """The radius for the largest v of any covariance within it: grown from that of ``variance`` until it holds."""
    peak = (1.0 - 2.0 * one) * (1.0 - 2.0 * two) / 2.0
    half = np.asarray(radius(count, np.sqrt(variance), events, share), dtype=np.float64)
    for _ in range(GROWTHS):
        largest = product_variance(one, two, np.clip(peak, centre - half, centre + half))
        wider = radius(count, np.sqrt(np.maximum(largest, variance)), events, share)
        if not (wider > half).any():
            break
        half = np.maximum(half, wider)
    return half


ROUNDING = 1e-9
"""How far outside an interval counts as rounding."""


@dataclass(frozen=True)
class Violation:
    """One interval that a model is outside of.

    Attributes:
        what: "average", "covariance", "transition" or "initial".
        where: coordinates of the average or of the pair, x of the transition row, nothing for the initial law.
        found: the model's value (for laws: its L1 distance from the estimate).
        lower: end of the interval.
        upper: end of the interval.
    """

    what: str
    where: tuple[int, ...]
    found: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class ConfidenceSet:
    """Intervals for averages and covariances, balls around the laws of moves and starts.

    Attributes:
        num_states: S.
        num_actions: A.
        horizon: H.
        reward_values: (Z,).
        average: (N,) average of each coordinate, NaN where x was never visited.
        average_radius: (N,), inf where never visited.
        first: (Q,) coordinate i of each observed pair, i <= j; a pair not listed has the interval (-inf, inf).
        second: (Q,) coordinate j.
        centre: (Q,) centred covariance.
        radius: (Q,) half-width of its interval.
        deviation: (Q,) standard error of ``centre``, 0 in an exact set.
        null_deviation: (Q,) what it would be if the two rewards were independent.
        counts: (Q,) samples of the pair.
        initial: (S',) estimated law of the first state; S' is S + 1 if episodes ended early, the end being the last.
        initial_radius: L1 radius.
        transition: ``(S'*A, S')`` CSR, estimated law of moves.
        transition_radius: ``(S'*A,)`` L1 radius of each row, 2 or more where nothing is known.
        tolerance: epsilon_0 = accuracy / H^2.
        failure: probability that the true model is outside, as far as ``radius`` guarantees it.
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    average: Floats
    average_radius: Floats
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    centre: Floats
    radius: Floats
    deviation: Floats
    null_deviation: Floats
    counts: Floats
    initial: Floats
    initial_radius: float
    transition: Any
    transition_radius: Floats
    tolerance: float
    failure: float

    def __repr__(self) -> str:
        return (
            f"ConfidenceSet(states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}, "
            f"pairs={self.first.size}, failure={self.failure:g})"
        )

    @property
    def num_points(self) -> int:
        """X = S*A."""
        return self.num_states * self.num_actions

    @property
    def width(self) -> int:
        """Coordinates of one x, which are 1 with two reward values, else Z."""
        return 1 if self.reward_values.size == 2 else int(self.reward_values.size)

    @property
    def lower(self) -> Floats:
        """(Q,) lower end of each covariance interval."""
        return self.centre - self.radius

    @property
    def upper(self) -> Floats:
        """(Q,) upper end of each covariance interval."""
        return self.centre + self.radius

    @cached_property
    def excludes_zero(self) -> NDArray[np.bool_]:
        """(Q,): pairs whose sign the set decides."""
        return (self.lower > 0) | (self.upper < 0)

    @cached_property
    def visited(self) -> NDArray[np.bool_]:
        """(X,): whether any episode was there."""
        return np.isfinite(self.average.reshape(self.num_points, self.width)[:, 0])

    @cached_property
    def average_laws(self) -> Floats:
        """(X, Z): law of the reward over contexts; see ``with_guesses`` where x was never visited."""
        laws = self.average.reshape(self.num_points, self.width)
        return with_guesses(np.concatenate([1.0 - laws, laws], axis=1) if self.width == 1 else laws, self.visited)

    def grown(self, factor: float) -> ConfidenceSet:
        """The same set with every radius of averages and covariances multiplied."""
        return replace(self, average_radius=self.average_radius * factor, radius=self.radius * factor)

    def moved(self, moments: Moments) -> ConfidenceSet:
        """The same rewards with moves and starts from other counts: these may come from episodes of any policy."""
        initial, initial_radius, transition, transition_radius = _dynamics(moments, theory.share(self.failure))
        return replace(
            self,
            initial=initial,
            initial_radius=initial_radius,
            transition=transition,
            transition_radius=transition_radius,
        )

    def contains(self, model: RewardMixingMDP) -> bool:
        """Whether no interval excludes the model."""
        return not any(mask.any() for *_, mask in self.checks(model))

    def violations(self, model: RewardMixingMDP) -> tuple[Violation, ...]:
        """Every interval that the model is outside of."""
        return tuple(
            Violation(what, tuple(int(part[k]) for part in where), float(value[k]), float(lower[k]), float(upper[k]))
            for what, where, value, lower, upper, mask in self.checks(model)
            for k in np.flatnonzero(mask)
        )

    def checks(self, model: RewardMixingMDP) -> Any:
        """(what, where, values, lower, upper, outside) for each family of intervals."""
        laws = self._laws_of(model)
        points = np.arange(self.average.size)
        coordinates = (laws[..., 1:] if self.width == 1 else laws).reshape(model.num_contexts, -1)
        average = mixed(model.weights, coordinates)
        known = np.isfinite(self.average)
        low, high = self.average - self.average_radius, self.average + self.average_radius
        yield "average", (points,), average, low, high, known & _outside(average, low, high)
        centred = coordinates - average
        covariance = mixed(model.weights, centred[:, self.first] * centred[:, self.second])
        yield (
            "covariance",
            (self.first, self.second),
            covariance,
            self.lower,
            self.upper,
            _outside(covariance, self.lower, self.upper),
        )
        size = int(self.initial.size)
        off = np.asarray(abs(_padded_rows(model, size) - self.transition).sum(axis=1)).ravel()
        rows = np.arange(self.num_points)
        off, radius = off[rows], self.transition_radius[rows]
        yield "transition", (rows,), off, np.zeros(rows.size), radius, off > radius + ROUNDING
        off = np.atleast_1d(np.abs(np.pad(model.initial, (0, size - model.num_states)) - self.initial).sum())
        radius = np.atleast_1d(self.initial_radius)
        yield "initial", (), off, np.zeros(1), radius, off > radius + ROUNDING

    def _laws_of(self, model: RewardMixingMDP) -> Floats:
        """(M, X, Z) laws of the model on the states and reward values of this set."""
        states = {self.num_states, int(self.initial.size)}
        world = model.num_actions, model.horizon
        if model.num_states not in states or world != (self.num_actions, self.horizon):
            refuse(
                "model",
                f"{model.num_states} states, {world[0]} actions, horizon {world[1]}",
                f"{sorted(states)} states, {self.num_actions} actions, horizon {self.horizon}, as in the set",
            )
        places = np.searchsorted(model.reward_values, self.reward_values)
        places = np.minimum(places, model.num_values - 1)
        if not np.allclose(model.reward_values[places], self.reward_values):
            refuse("model", f"reward values {model.reward_values.tolist()}", f"{self.reward_values.tolist()}")
        return model.laws[:, : self.num_states][..., places].reshape(model.num_contexts, self.num_points, -1)


def hoeffding(counts: Any, deviation: Any, events: int, failure: float) -> Any:
    """Half-width that holds for all ``events`` and all counts at once (``theory.hoeffding_radius``)."""
    return theory.hoeffding_radius(counts, failure / events)


def normal(deviations: float = 3.0) -> Radius:
    """A radius of so many standard errors: much narrower, each interval right only by itself."""
    as_number("deviations", deviations, above=0.0, below=1e9)

    def radius(counts: Any, deviation: Any, events: int, failure: float) -> Any:
        n = np.maximum(counts, 1.0)
        return np.where(counts > 0, deviations * deviation / np.sqrt(n), np.inf)

    return radius


def confidence_set(
    moments: Moments, *, failure: float = 0.05, accuracy: float = 0.1, radius: Radius = hoeffding
) -> ConfidenceSet:
    """The set of models that the moments do not exclude.

    Args:
        moments: counts of episodes whose actions did not depend on the rewards of the same episode.
        failure: probability (at most) that the true model is outside, if ``radius`` is ``hoeffding``. A quarter each
            goes to the averages, the pairs, the moves and the starts.
        accuracy: epsilon; the tolerance epsilon_0 = accuracy / H^2 is added, squared, to every covariance interval.
        radius: ``hoeffding``, ``normal(3.0)`` or a function of the same form.
    """
    as_instance("moments", moments, Moments)
    if not callable(radius):
        refuse("radius", quoted(radius), "a function: hoeffding or normal(3.0) of rewardmix.recovery")
    if moments.episodes == 0:
        refuse("moments", "no episodes", "at least one: nothing can be recovered from nothing")
    share = theory.share(as_number("failure", failure, above=0.0, below=1.0))
    tolerance = theory.tolerance(as_number("accuracy", accuracy, above=0.0), moments.horizon)
    visits, average = moments.samples, moments.frequencies
    smooth = smoothed(average, visits)
    sd = np.sqrt(smooth * (1.0 - smooth))
    events = average.shape[0] * (1 if moments.num_values == 2 else moments.num_values)
    spread_of_average = radius(visits[:, None], sd, events, share)
    pairs = covariances(moments, average, spread_of_average, smooth, radius, share, tolerance)
    keep = slice(1, None) if moments.reward_values.size == 2 else slice(None)
    return ConfidenceSet(
        moments.num_states,
        moments.num_actions,
        moments.horizon,
        moments.reward_values,
        average[:, keep].ravel(),
        np.broadcast_to(spread_of_average, average.shape)[:, keep].ravel(),
        *pairs,
        *_dynamics(moments, share),
        tolerance,
        failure,
    )


def exact(model: RewardMixingMDP, *, accuracy: float = 0.1) -> ConfidenceSet:
    """The true moments of a model with no width at all: what endless exploration would leave."""
    from scipy.sparse import csr_array

    laws = model.laws[..., 1:] if model.num_values == 2 else model.laws
    coordinates = laws.reshape(model.num_contexts, -1)
    average = mixed(model.weights, coordinates)
    size = average.size
    first, second = np.triu_indices(size)
    centred = coordinates - average
    covariance = mixed(model.weights, centred[:, first] * centred[:, second])
    none = np.zeros(first.size)
    return ConfidenceSet(
        model.num_states,
        model.num_actions,
        model.horizon,
        model.reward_values,
        average,
        np.zeros(size),
        first,
        second,
        covariance,
        none,
        none,
        none,
        np.full(first.size, np.inf),
        model.initial,
        0.0,
        csr_array(model.transition_rows),
        np.zeros(model.num_states * model.num_actions),
        accuracy / model.horizon**2,
        0.0,
    )


def _dynamics(moments: Moments, share: float) -> tuple[Floats, float, Any, Floats]:
    """(initial, its radius, transition, its radii): L1 balls, 2^S events for the S coordinates."""
    rows, _ = moments.transition_estimate()
    size = rows.shape[1]
    visits = np.zeros(rows.shape[0])
    visits[: moments.visits.size] = moments.visits
    radius = theory.weissman_radius(visits, size, share / moments.num_state_actions)
    radius[moments.visits.size :] = 0.0  # the end stays the end, by definition
    return moments.initial_estimate(), float(theory.weissman_radius(moments.episodes, size, share)), rows, radius


def _outside(values: Floats, lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    return (values < lower - ROUNDING) | (values > upper + ROUNDING)


def _padded_rows(model: RewardMixingMDP, size: int) -> Any:
    """(size*A, size) rows of the model, with an absorbing end state added if the estimate has one and it has not."""
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
