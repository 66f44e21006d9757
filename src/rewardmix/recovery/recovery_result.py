"""Define the result of recovery: a model, how it was estimated, and the order of its types.

Data do not determine an order of the types (label switching), so a canonical one is used: at the state-action where
expected rewards differ most between types, types are sorted by decreasing expected reward. Weights that were given keep
their positions: only types of equal given weight are sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.short_repr import use_short_repr
from rewardmix.model import RewardMixingMDP, weighted_sum
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.likelihood import EMFit, Mixture
from rewardmix.recovery.linear_program import MagnitudeSolution, NegativeCycle
from rewardmix.recovery.reward_patterns import RewardPatterns
from rewardmix.recovery.signs import ParitySolution
from rewardmix.statements import Statement, describe_unidentified


@dataclass(frozen=True)
class EMRun:
    """Summary of one EM run.

    Attributes:
        init_name: Name of the initial value.
        loglik: Log-likelihood at the end.
        objective: Log-likelihood plus log-prior at the end.
        iterations: Number of E-steps.
        converged: Whether the objective stopped growing.
    """

    init_name: str
    loglik: float
    objective: float
    iterations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Candidates:
    """Output of a recovery method, before it is assessed.

    Attributes:
        method: Name of the method.
        fits: Its EM runs; the best objective wins.
        weights_source: "known", "estimated" or "assumed equal".
        patterns: Reward patterns of the likelihood, if there was one.
        is_outlier: (Q,) mask of the pairs that the robust fit rejects, if there was one.
        num_undecided_groups: Groups whose orientation triples leave open, with weights that are not equal.
        has_usable_pairs: Whether the method could use any pair.
        magnitude_solution: Magnitudes, if the method solved the linear program.
        sign_solution: Signs, if the method solved the parities.
        reference_probs: (M, X, Z) reward probabilities whose order the types keep, unless known weights order them.
    """

    method: str
    fits: list[EMFit]
    weights_source: str
    patterns: RewardPatterns | None = None
    is_outlier: NDArray[np.bool_] | None = None
    num_undecided_groups: int = 0
    has_usable_pairs: bool = True
    magnitude_solution: MagnitudeSolution | None = None
    sign_solution: ParitySolution | None = None
    reference_probs: Floats | None = None

    @property
    def best(self) -> EMFit:
        """Fit with the best objective."""
        return max(self.fits, key=lambda fit: fit.objective) if len(self.fits) > 1 else self.fits[0]

    @property
    def num_reproduced(self) -> int:
        """Number of EM runs that ended within ``SAME_OPTIMUM_TOLERANCE`` of the best."""
        values = np.asarray([fit.objective for fit in self.fits])
        return int((values >= np.max(values) - SAME_OPTIMUM_TOLERANCE).sum()) if np.isfinite(values).all() else 0

    def mixture(self, reward_values: Floats) -> Mixture:
        """Return the best fit with its types in canonical order, or in the order of ``reference_probs``."""
        best = self.best.mixture
        if self.reference_probs is None or self.weights_source == "known":
            order = canonical_order(best.weights, best.probs, reward_values, self.weights_source == "known")
        else:
            order = match_order(best.probs, self.reference_probs)
        return Mixture(best.weights[order], best.probs[order])


@dataclass(frozen=True, eq=False)
class Estimate:
    """Model without standard errors and certificate: fast, and sufficient for refits.

    Attributes:
        model: Estimated model, equal to that of ``recover``.
        fixed_weights: (M,) weights where they were known or assumed, so that no refit changes them.
        em_runs: Summary of every EM run.
        num_reproduced: Number of EM runs within ``SAME_OPTIMUM_TOLERANCE`` of the best.
    """

    model: RewardMixingMDP
    fixed_weights: Floats | None
    em_runs: tuple[EMRun, ...]
    num_reproduced: int


@use_short_repr
@dataclass(frozen=True, eq=False)
class RecoveryCertificate:
    """Check of the confidence set by Algorithm 3's linear program and parities, and of the model against the set.

    Attributes:
        lp_status: "feasible", "inflated", "elastic"; or "not run" (more than two types).
        radius_inflation: Factor by which all radii must grow for magnitudes to exist at the weights of the model
            (kappa).
        weights_source: Whether these weights are "known", "estimated" or "assumed equal"; unless they are known, a
            factor above 1 may only mean that the weights are wrong.
        contradiction: Cycle of pairs that cannot all hold, if any.
        violated_pairs: Pairs of coordinates that the elastic solution violates.
        conflicts: Pairs whose sign contradicts stronger ones.
        odd_cycle: Coordinates around the first such contradiction.
        groups: (N,) sign group of each coordinate.
        contains_model: Whether the recovered model is in the confidence set.
        violations: Number of intervals that exclude the model.
        sign_agreement: Fraction of the pairs with known sign whose sign the model reproduces.
    """

    lp_status: str
    radius_inflation: float
    weights_source: str
    contradiction: NegativeCycle | None
    violated_pairs: tuple[tuple[int, int], ...]
    conflicts: tuple[tuple[int, int], ...]
    odd_cycle: tuple[int, ...]
    groups: NDArray[np.int64]
    contains_model: bool
    violations: int
    sign_agreement: float


@use_short_repr
@dataclass(frozen=True, eq=False)
class RecoveryInfo:
    """How the model was estimated, and what is not identified.

    Attributes:
        method: Name of the method.
        loglik: Log-likelihood of the episodes (of the pair tables, if only moments were kept); NaN without either.
        em_runs: Summary of every EM run.
        num_reproduced: Number of EM runs within ``SAME_OPTIMUM_TOLERANCE`` of the best.
        convergence: Why the best EM run stopped.
        weights_source: "known", "estimated" or "assumed equal".
        certificate: Check against the confidence set.
        unvisited: State-actions whose rewards are a guess (the marginals) and whose transitions are a convention
            (stay).
        num_unobserved_pairs: Number of pairs of visited x, x < y, that no episode contained together.
        unoriented_groups: Groups of x whose signs are known relative to each other, but not to those of other groups.
        bipartite_points: State-actions of which only products with the other side are known.
        outlier_pairs: Pairs of coordinates that the robust fit rejects.
        reward_errors: (M, S', A) or (M, S', A, Z) standard errors of ``model.rewards``, inf where unknown.
        lower: Lower 95 % limits of ``model.rewards``.
        upper: Upper 95 % limits of ``model.rewards``.
        weight_errors: (M,) standard errors of the weights, 0 where they were given.
        unidentified: Statements about what is not identified.
    """

    method: str
    loglik: float
    em_runs: tuple[EMRun, ...]
    num_reproduced: int
    convergence: str
    weights_source: str
    certificate: RecoveryCertificate
    unvisited: NDArray[np.int64]
    num_unobserved_pairs: int
    unoriented_groups: tuple[tuple[int, ...], ...]
    bipartite_points: NDArray[np.int64]
    outlier_pairs: tuple[tuple[int, int], ...]
    reward_errors: Floats
    lower: Floats
    upper: Floats
    weight_errors: Floats
    unidentified: tuple[Statement, ...]

    @property
    def identification_text(self) -> str:
        """What is not identified, in one sentence."""
        return describe_unidentified(self.unidentified, self.weight_errors.size)


@dataclass(frozen=True, eq=False)
class RecoveryResult:
    """Recovered model with the details of its estimation.

    Attributes:
        model: Recovered model, types in canonical order.
        info: Method, standard errors, certificate and what is not identified (``RecoveryInfo``).

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 2000, seed=0)
        >>> result = rm.recover(episodes)
        >>> result.model.weights.round(1).tolist(), result.info.certificate.contains_model
        ([0.5, 0.5], True)
    """

    model: RewardMixingMDP
    info: RecoveryInfo

    @property
    def fixed_weights(self) -> Floats | None:
        """(M,) weights where they were known or assumed, so that no refit changes them; None if estimated."""
        return None if self.info.weights_source == "estimated" else self.model.weights

    def __repr__(self) -> str:
        return f"RecoveryResult({self.model!r}, method={self.info.method!r}, loglik={self.info.loglik:.6g})"


class EpisodeSpec(Protocol):
    """Sizes and reward values of episodes, of a log, or of a confidence set."""

    @property
    def num_states(self) -> int:
        """S, the number of states."""

    @property
    def num_actions(self) -> int:
        """A, the number of actions."""

    @property
    def horizon(self) -> int:
        """H, the largest number of steps of an episode."""

    @property
    def reward_values(self) -> Floats:
        """(Z,) reward values."""


RecoveryOrEstimate = RecoveryResult | Estimate
"""What a refit can start from."""

RecoveryMethod = Callable[[RecoveryData, RecoverySettings], RecoveryResult]
"""(data, settings) -> result: ``maximum_likelihood``, ``algorithm_3``, ``spectral`` or the result of ``sweep_weights``.
"""

SAME_OPTIMUM_TOLERANCE = 1e-3
"""Two log-likelihoods within this difference count as one optimum."""


def summarize_runs(fits: list[EMFit]) -> tuple[EMRun, ...]:
    """Summarize EM runs."""
    return tuple(EMRun(fit.init_name, fit.loglik, fit.objective, fit.iterations, fit.converged) for fit in fits)


def build_model(spec: EpisodeSpec, mixture: Mixture, initial: Floats, rows: Any) -> RewardMixingMDP:
    """Build a model from a mixture, an initial distribution and transition rows.

    If episodes ended early there is one more state, the end state, where every reward is 0 (a value that is added if
    the rewards do not contain it).
    """
    states, actions = spec.num_states, spec.num_actions
    probs = mixture.probs.reshape(mixture.num_types, states, actions, -1)
    values, size = spec.reward_values, int(initial.size)
    if size > states:
        values, probs = _add_end_state(values, probs)
    # EM and extrapolation leave probabilities within rounding of the simplex; the model checks its input exactly.
    probs = np.clip(probs, 0.0, 1.0)
    probs = probs / probs.sum(axis=-1, keepdims=True)
    # Up to 4 million entries (32 MB) the dense array is affordable; larger models keep sparse rows.
    dense = size * size * actions <= 1 << 22
    transition = rows.toarray().reshape(size, actions, size) if dense else rows
    return RewardMixingMDP(
        transition,
        initial,
        mixture.weights / mixture.weights.sum(),
        probs[..., 1] if values.size == 2 else probs,
        spec.horizon,
        values,
    )


def _add_end_state(values: Floats, probs: Floats) -> tuple[Floats, Floats]:
    """Add reward 0 and the end state, where it has probability 1."""
    if 0.0 not in values:
        index = int(np.searchsorted(values, 0.0))
        values, probs = np.insert(values, index, 0.0), np.insert(probs, index, 0.0, axis=-1)
    end = np.zeros((probs.shape[0], 1, *probs.shape[2:]))
    end[..., int(np.searchsorted(values, 0.0))] = 1.0
    return values, np.concatenate([probs, end], axis=1)


def to_model_shape(values: Floats, spec: EpisodeSpec, model: RewardMixingMDP, at_end: float) -> Floats:
    """Reshape (M, X, Z) numbers to the shape of ``model.rewards``; entries of an added end state are ``at_end``."""
    states, actions = spec.num_states, spec.num_actions
    shaped = values.reshape(values.shape[0], states, actions, -1)
    out = np.full((*model.rewards.shape[:3], model.num_values), at_end)
    indices = np.searchsorted(model.reward_values, spec.reward_values)
    out[:, :states][..., indices] = shaped
    return out[..., 1] if model.num_values == 2 else out


def canonical_order(weights: Floats, probs: Floats, reward_values: Floats, weights_known: bool) -> NDArray[np.int64]:
    """Compute the (M,) canonical order of the types: new type m is old type order[m].

    Args:
        weights: (M,) weights.
        probs: (M, X, Z) reward probabilities.
        reward_values: (Z,) reward values.
        weights_known: Whether the weights were given, so that their order has a meaning.

    Returns:
        Indices of the types, in canonical order.
    """
    means = weighted_sum(reward_values, np.moveaxis(probs, -1, 0))
    centered = means - weighted_sum(weights, means)
    # The state-action with the largest between-type variance separates the types most reliably from resample to
    # resample.
    anchor = int(np.argmax(weighted_sum(weights, centered**2)))
    order = np.argsort(-means[:, anchor], kind="stable")
    if not weights_known:
        return order.astype(np.int64)
    out = np.empty(order.size, np.int64)
    # Within each set of equal given weights the positions stay theirs and only the types are permuted.
    for weight in np.unique(np.round(weights, 12)):
        positions = np.flatnonzero(np.isclose(weights, weight, rtol=0, atol=1e-12))
        out[positions] = [m for m in order if m in positions]
    return out


def match_order(probs: Floats, reference: Floats) -> NDArray[np.int64]:
    """Compute the (M,) order of the types of ``probs`` that is nearest to ``reference`` in squared distance."""
    return np.asarray([index for index, _ in match_types(probs, reference)], np.int64)


def match_types(probs: Floats, reference: Floats) -> list[tuple[int, int]]:
    """Match types of ``probs`` to types of ``reference`` with the smallest total squared distance.

    Returns pairs (type, reference type), sorted by reference type. If the numbers of types differ, the types that fit
    worst stay unmatched.
    """
    distance = ((probs[:, None] - reference[None]) ** 2).reshape(probs.shape[0], reference.shape[0], -1).sum(axis=2)
    if distance.shape == (2, 2):  # avoids importing scipy.optimize, which takes longer than the matching
        swap = distance[1, 0] + distance[0, 1] < distance[0, 0] + distance[1, 1]
        return [(1, 0), (0, 1)] if swap else [(0, 0), (1, 1)]
    from scipy.optimize import linear_sum_assignment

    columns, rows = linear_sum_assignment(distance.T)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def align_types(model: RewardMixingMDP, reference: RewardMixingMDP) -> RewardMixingMDP:
    """Return the model with its types in the order nearest to those of a reference model.

    Args:
        model: Model whose types are reordered.
        reference: Model with equal sizes, whose order is kept.

    Returns:
        Model with weights and rewards permuted; the distance is that of the reward probabilities.
    """
    order = match_order(model.reward_probs, reference.reward_probs)
    return replace(model, weights=model.weights[order], rewards=model.rewards[order])
