"""The models that the moments do not exclude: intervals for averages and covariances, balls for moves and starts.

Centres, standard errors and radii of the covariances come from ``covariances``; coordinates are numbered as there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix import theory
from rewardmix._core.checks import Floats, as_instance, as_number, quoted, refuse
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.moments import Moments
from rewardmix.recovery.covariances import Radius, covariances, smoothed

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
        never_moved: x that were never visited; their rows are a convention.
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
    never_moved: NDArray[np.int64]

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
    def average_laws(self) -> Floats:
        """(X, Z): law of the reward over contexts; where x was never visited, the mean law of the others."""
        laws = self.average.reshape(self.num_points, self.width)
        laws = np.concatenate([1.0 - laws, laws], axis=1) if self.width == 1 else laws
        seen = np.isfinite(laws[:, 0])
        size = self.reward_values.size
        overall = laws[seen].mean(axis=0) if seen.any() else np.full(size, 1.0 / size)
        return np.where(seen[:, None], laws, overall)

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
        found = []
        for what, where, value, lower, upper, mask in self.checks(model):
            for k in np.flatnonzero(mask):
                found.append(
                    Violation(
                        what, tuple(int(part[k]) for part in where), float(value[k]), float(lower[k]), float(upper[k])
                    )
                )
        return tuple(found)

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
        np.flatnonzero(visits == 0),
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
        np.zeros(0, np.int64),
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
