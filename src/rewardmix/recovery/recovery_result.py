"""The answer of recovery: a model, how it came about, and the order of its contexts.

The data do not know an order of contexts, and people need one: at the state-action where expected rewards differ most
between contexts, the context with the higher one comes first. Weights that were given keep their places: only contexts
of equal given weight are ordered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats
from rewardmix.facts import Fact, unidentified_sentence
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import Fit, Mixture
from rewardmix.recovery.linear_program import Cycle, Magnitudes
from rewardmix.recovery.signs import Parity


@dataclass(frozen=True)
class Ascent:
    """How one ascent of the likelihood ended."""

    name: str
    loglik: float
    objective: float
    iterations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a method found, before anything is said about it.

    Attributes:
        method: its name.
        fits: where its ascents ended; the best objective wins.
        source: of the weights: "known", "estimated" or "assumed equal".
        bags: what the likelihood was that of, if there was one.
        gross: (Q,) pairs that the robust fit disbelieves, if there was one.
        undecided: groups whose orientation triples did not decide, with weights that are not equal.
        decided: whether the method could use any pair.
        program: the magnitudes, if the method asked the program for them.
        signs: the parities, if it asked for them.
        like: (M, X, Z) laws whose order the contexts keep, if there are any and weights do not order them.
    """

    method: str
    fits: list[Fit]
    source: str
    bags: Bags | None = None
    gross: NDArray[np.bool_] | None = None
    undecided: int = 0
    decided: bool = True
    program: Magnitudes | None = None
    signs: Parity | None = None
    like: Floats | None = None

    @property
    def best(self) -> Fit:
        """The fit with the best objective."""
        return max(self.fits, key=lambda fit: fit.objective) if len(self.fits) > 1 else self.fits[0]

    @property
    def reproduced(self) -> int:
        """How many ascents ended within ``SAME`` of the best."""
        values = np.asarray([fit.objective for fit in self.fits])
        return int((values >= np.max(values) - SAME).sum()) if np.isfinite(values).all() else 0

    def mixture(self, reward_values: Floats) -> Mixture:
        """The best fit with its contexts in canonical order, or in that of ``like``."""
        best = self.best.mixture
        if self.like is None or self.source == "known":
            order = canonical(best.weights, best.laws, reward_values, self.source == "known")
        else:
            order = alignment(best.laws, self.like)
        return Mixture(best.weights[order], best.laws[order])


@dataclass(frozen=True, eq=False)
class Estimate:
    """A model without standard errors and certificate: quick, and all that refits need.

    Attributes:
        model: the same as that of ``recover``.
        fixed_weights: (M,) the weights where they were known or assumed, so that no refit may move them.
        starts: every ascent of the likelihood.
        reproduced: how many of them ended within ``SAME`` of the best.
    """

    model: RewardMixingMDP
    fixed_weights: Floats | None
    starts: tuple[Ascent, ...]
    reproduced: int


@short
@dataclass(frozen=True, eq=False)
class RecoveryCertificate:
    """What Algorithm 3's program and parities say of the confidence set, and whether the model is in it.

    Attributes:
        program: "feasible", "grown", "elastic"; or "not asked" (more than two contexts).
        kappa: the factor by which all radii must grow for magnitudes to exist at the weights of the model.
        kappa_weights: whether these weights are "known", "estimated" or "assumed equal"; unless they are known, a kappa
            above 1 may only mean that they are off.
        contradiction: the cycle of pairs that cannot all hold, if any.
        broken: pairs of coordinates that the elastic solution breaks.
        conflicts: pairs whose sign contradicts stronger ones.
        odd_cycle: coordinates around the first such contradiction.
        groups: (N,) sign group of each coordinate.
        contained: whether the recovered model is in the confidence set.
        violations: how many intervals it is outside of.
        signs_agree: share of the decided pairs whose sign the model has.
    """

    program: str
    kappa: float
    kappa_weights: str
    contradiction: Cycle | None
    broken: tuple[tuple[int, int], ...]
    conflicts: tuple[tuple[int, int], ...]
    odd_cycle: tuple[int, ...]
    groups: NDArray[np.int64]
    contained: bool
    violations: int
    signs_agree: float


@short
@dataclass(frozen=True, eq=False)
class RecoveryInfo:
    """How the model came about and what it does not know.

    Attributes:
        method: name of the method.
        loglik: log-likelihood of the episodes (of the pair tables, if only moments were kept); NaN without either.
        starts: every ascent of the likelihood.
        reproduced: how many of them ended within ``SAME`` of the best.
        convergence: why the best ascent stopped.
        weights: "known", "estimated" or "assumed equal".
        certificate: see there.
        never_visited: x whose rewards are a guess (the average law) and whose moves are a convention (stay).
        never_together: pairs of visited x, x < y, that no episode held both of.
        unoriented: groups of x whose signs hang together but not with those of the others.
        two_sided: x of which only products with the other side are known.
        gross: pairs of coordinates that the robust fit disbelieves.
        errors: (M, S', A) or (M, S', A, Z) standard errors of ``model.rewards``, inf where unknown.
        lower: 95 % limits of ``model.rewards``.
        upper: 95 % limits of ``model.rewards``.
        weight_errors: (M,) standard errors of the weights, 0 where they were given.
        unidentified: what is not identified, as facts.
    """

    method: str
    loglik: float
    starts: tuple[Ascent, ...]
    reproduced: int
    convergence: str
    weights: str
    certificate: RecoveryCertificate
    never_visited: NDArray[np.int64]
    never_together: int
    unoriented: tuple[tuple[int, ...], ...]
    two_sided: NDArray[np.int64]
    gross: tuple[tuple[int, int], ...]
    errors: Floats
    lower: Floats
    upper: Floats
    weight_errors: Floats
    unidentified: tuple[Fact, ...]

    @property
    def not_identified(self) -> str:
        """What is not identified, in one plain sentence."""
        return unidentified_sentence(self.unidentified, self.weight_errors.size)


@dataclass(frozen=True, eq=False)
class Recovery:
    """A model and how it came about."""

    model: RewardMixingMDP
    info: RecoveryInfo

    @property
    def fixed_weights(self) -> Floats | None:
        """(M,) the weights where they were known or assumed, so that no refit may move them; None if estimated."""
        return None if self.info.weights == "estimated" else self.model.weights

    def __repr__(self) -> str:
        return f"Recovery({self.model!r}, method={self.info.method!r}, loglik={self.info.loglik:.6g})"


class Seen(Protocol):
    """The world in which episodes were seen: that of episodes, of a log, or of a confidence set."""

    @property
    def num_states(self) -> int:
        """S."""

    @property
    def num_actions(self) -> int:
        """A."""

    @property
    def horizon(self) -> int:
        """H."""

    @property
    def reward_values(self) -> Floats:
        """(Z,)."""


Recovered = Recovery | Estimate
"""What a refit can begin from."""

Method = Callable[[Evidence, Question], Recovery]
"""Evidence and a question to an answer: ``best``, ``algorithm_3``, ``spectral`` or what ``sweep_weights`` makes."""

SAME = 1e-3
"""Two log-likelihoods this close are the same optimum."""


def summaries(fits: list[Fit]) -> tuple[Ascent, ...]:
    """How the ascents ended."""
    return tuple(Ascent(fit.start, fit.loglik, fit.objective, fit.iterations, fit.converged) for fit in fits)


def assembled(seen: Seen, mixture: Mixture, initial: Floats, rows: Any) -> RewardMixingMDP:
    """The model with these reward laws, this law of the first state and these rows of moves.

    If episodes ended early there is one more state, the end, where every reward is 0 (a value that is added if the
    rewards never had it).
    """
    states, actions = seen.num_states, seen.num_actions
    laws = mixture.laws.reshape(mixture.num_contexts, states, actions, -1)
    values, size = seen.reward_values, int(initial.size)
    if size > states:
        values, laws = _with_end(values, laws)
    laws = np.clip(laws, 0.0, 1.0)
    laws = laws / laws.sum(axis=-1, keepdims=True)
    dense = size * size * actions <= 1 << 22
    transition = rows.toarray().reshape(size, actions, size) if dense else rows
    return RewardMixingMDP(
        transition,
        initial,
        mixture.weights / mixture.weights.sum(),
        laws[..., 1] if values.size == 2 else laws,
        seen.horizon,
        values,
    )


def _with_end(values: Floats, laws: Floats) -> tuple[Floats, Floats]:
    if 0.0 not in values:
        place = int(np.searchsorted(values, 0.0))
        values, laws = np.insert(values, place, 0.0), np.insert(laws, place, 0.0, axis=-1)
    end = np.zeros((laws.shape[0], 1, *laws.shape[2:]))
    end[..., int(np.searchsorted(values, 0.0))] = 1.0
    return values, np.concatenate([laws, end], axis=1)


def on_model(values: Floats, seen: Seen, model: RewardMixingMDP, at_end: float) -> Floats:
    """(M, X, Z) numbers about laws in the shape of ``model.rewards``; those of an added end are ``at_end``."""
    states, actions = seen.num_states, seen.num_actions
    shaped = values.reshape(values.shape[0], states, actions, -1)
    out = np.full((*model.rewards.shape[:3], model.num_values), at_end)
    places = np.searchsorted(model.reward_values, seen.reward_values)
    out[:, :states][..., places] = shaped
    return out[..., 1] if model.num_values == 2 else out


def canonical(weights: Floats, laws: Floats, reward_values: Floats, given: bool) -> NDArray[np.int64]:
    """(M,) order of the contexts: new context m is old context order[m].

    Args:
        weights: (M,).
        laws: (M, X, Z).
        reward_values: (Z,).
        given: whether the weights were given, so that their order has a meaning.
    """
    means = mixed(reward_values, np.moveaxis(laws, -1, 0))
    centred = means - mixed(weights, means)
    anchor = int(np.argmax(mixed(weights, centred**2)))
    order = np.argsort(-means[:, anchor], kind="stable")
    if not given:
        return order.astype(np.int64)
    out = np.empty(order.size, np.int64)
    for weight in np.unique(np.round(weights, 12)):
        places = np.flatnonzero(np.isclose(weights, weight, rtol=0, atol=1e-12))
        out[places] = [m for m in order if m in places]
    return out


def alignment(laws: Floats, reference: Floats) -> NDArray[np.int64]:
    """(M,) order of the contexts of ``laws`` that brings them nearest to ``reference`` (squared distance)."""
    return np.asarray([mine for mine, _ in matching(laws, reference)], np.int64)


def matching(laws: Floats, reference: Floats) -> list[tuple[int, int]]:
    """(context of ``laws``, context of ``reference``) that are nearest together, by those of ``reference``.

    If there are more of one kind than of the other, the ones that fit least are left out.
    """
    distance = ((laws[:, None] - reference[None]) ** 2).reshape(laws.shape[0], reference.shape[0], -1).sum(axis=2)
    if distance.shape == (2, 2):  # SciPy's optimisers take longer to import than all else here takes
        swap = distance[1, 0] + distance[0, 1] < distance[0, 0] + distance[1, 1]
        return [(1, 0), (0, 1)] if swap else [(0, 0), (1, 1)]
    from scipy.optimize import linear_sum_assignment

    theirs, mine = linear_sum_assignment(distance.T)
    return list(zip(mine.tolist(), theirs.tolist(), strict=True))


def aligned(model: RewardMixingMDP, reference: RewardMixingMDP) -> RewardMixingMDP:
    """The model with its contexts in the order that is nearest to those of another."""
    order = alignment(model.laws, reference.laws)
    return replace(model, weights=model.weights[order], rewards=model.rewards[order])
