"""Recover as in the paper: ``algorithm_3``, ``spectral`` (its warm-up) and ``sweep_weights``.

Algorithm 3: magnitudes by the linear program, signs by parities, clipping, p_1 = marginals + loadings,
p_2 = marginals - loadings. Nothing is refined by likelihood. Known weights other than 1/2 change the caps and the last
line (appendix on mixing weights), and groups of signs are then oriented by triples if whole episodes were kept.

Unknown weights, as the paper proposes, by trying a grid in the environment: for every w with step epsilon / H, recover
with that w as if it were known, plan in the recovered model, play the plan, and keep the w with the highest value.
``estimate_weights`` computes weights without playing; the sweep is a baseline for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, as_count, as_number, raise_input_error
from rewardmix._core.linear_algebra import top_eigenpairs
from rewardmix._core.portable_math import exp_array
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.policy import Policy
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.identification import make_recovery_result
from rewardmix.recovery.likelihood import make_unfitted
from rewardmix.recovery.linear_program import solve_magnitudes
from rewardmix.recovery.moment_init import estimate_orientation, loadings_to_probs, mixture_from_loadings
from rewardmix.recovery.recovery_result import Candidates, EMRun, RecoveryMethod, RecoveryResult
from rewardmix.recovery.signs import groups_of_points, solve_signs

_MAX_FILL_ROUNDS = 200
"""Largest number of rounds that fill unobserved diagonal entries from the eigenvector that they influence."""


def algorithm_3(evidence: RecoveryData, settings: RecoverySettings) -> RecoveryResult:
    """Recover by Algorithm 3: a model in the confidence set, by linear programming and parities (two types)."""
    _require_two_types("algorithm_3", settings)
    confidence_set = evidence.confidence_set
    program = solve_magnitudes(confidence_set, settings.weights)
    signs = solve_signs(confidence_set)
    loadings = shift_to_zero_sum(np.asarray(signs.signs * exp_array(program.log_magnitudes)), confidence_set)
    groups = groups_of_points(signs.groups, confidence_set.width)
    loadings, undecided = _orient_groups(evidence, settings, loadings, groups)
    mixture = mixture_from_loadings(confidence_set.marginal_probs, loadings, _weights_or_equal(settings))
    candidates = Candidates(
        "algorithm_3",
        [make_unfitted(mixture, "linear program")],
        _weights_source(settings),
        num_undecided_groups=undecided,
        has_usable_pairs=bool(confidence_set.excludes_zero.any()),
        magnitude_solution=program,
        sign_solution=signs,
    )
    return make_recovery_result(evidence, settings, candidates)


def spectral(evidence: RecoveryData, settings: RecoverySettings) -> RecoveryResult:
    """Recover by the paper's warm-up: the leading eigenvector of the covariances; needs every pair to be observed."""
    _require_two_types("spectral", settings)
    confidence_set = evidence.confidence_set
    size = confidence_set.marginals.size
    matrix = np.full((size, size), np.nan)
    matrix[confidence_set.pair_first, confidence_set.pair_second] = matrix[
        confidence_set.pair_second, confidence_set.pair_first
    ] = confidence_set.center
    _check_all_pairs_observed(matrix, confidence_set.width)
    loadings = loadings_to_probs(_leading_factor(matrix), confidence_set.num_points)
    loadings, undecided = _orient_groups(evidence, settings, loadings, np.zeros(confidence_set.num_points, np.int64))
    mixture = mixture_from_loadings(confidence_set.marginal_probs, loadings, _weights_or_equal(settings))
    fits = [make_unfitted(mixture, "eigenvector")]
    return make_recovery_result(
        evidence, settings, Candidates("spectral", fits, _weights_source(settings), num_undecided_groups=undecided)
    )


def shift_to_zero_sum(loadings: Floats, confidence_set: ConfidenceSet) -> Floats:
    """Shift loadings (X, Z) so that they sum to zero over the values of each x.

    The program leaves magnitudes as small as their intervals allow. What is missing for a zero sum is therefore put on
    the values of the opposite sign (or of unknown sign), in proportion to their marginals.
    """
    if confidence_set.width == 1:
        return loadings_to_probs(loadings, confidence_set.num_points)
    table = loadings.reshape(confidence_set.num_points, -1)
    excess = table.sum(axis=1, keepdims=True)
    is_small = np.abs(table) <= confidence_set.tolerance * confidence_set.tolerance
    share = np.where((table * excess < 0) | is_small, confidence_set.marginal_probs + 1e-12, 0.0)
    # If no value has the opposite sign, all of them share the excess equally.
    share = np.where(share.sum(axis=1, keepdims=True) > 0, share, 1.0)
    return np.asarray(table - excess * share / share.sum(axis=1, keepdims=True))


def _require_two_types(name: str, settings: RecoverySettings) -> None:
    """Raise ``InputError`` unless the number of types is two."""
    if settings.num_types != 2:
        raise_input_error("num_types", settings.num_types, f"2 for {name}; use maximum_likelihood")


def _weights_or_equal(settings: RecoverySettings) -> Floats:
    """Return the known weights, or equal ones."""
    return np.array([0.5, 0.5]) if settings.weights is None else settings.weights


def _weights_source(settings: RecoverySettings) -> str:
    """Return "known" or "assumed equal"."""
    return "assumed equal" if settings.weights is None else "known"


def _orient_groups(
    evidence: RecoveryData, settings: RecoverySettings, loadings: Floats, groups: NDArray[np.int64]
) -> tuple[Floats, int]:
    """Orient groups so that their slope has the sign that the weights imply; return the number of undecided groups."""
    weights = _weights_or_equal(settings)
    # With equal weights both orientations have slope 0, and turning all groups only exchanges the labels.
    target_sign = float(np.sign(weights[1] - weights[0])) if abs(weights[1] - weights[0]) > 1e-9 else 0.0
    if target_sign == 0.0:
        return loadings, 0
    num_informative = int((np.bincount(groups, weights=np.abs(loadings).max(axis=1) > 1e-9) > 0).sum())
    if evidence.nonadaptive_patterns is None:
        return loadings, num_informative
    orientation = estimate_orientation(
        evidence.nonadaptive_patterns, evidence.confidence_set.marginal_probs, loadings, groups
    )
    flip = np.where(np.nan_to_num(orientation.slope) * target_sign < 0, -1.0, 1.0)
    return loadings * flip[groups][:, None], max(num_informative - int(orientation.is_significant.sum()), 0)


def _check_all_pairs_observed(matrix: Floats, width: int) -> None:
    """Raise ``InputError`` unless all pairs of different state-actions were observed."""
    missing = np.isnan(matrix) & ~np.eye(matrix.shape[0], dtype=bool)
    if width > 1:  # the block of one x with itself can be imputed, like a diagonal entry
        blocks = np.kron(np.eye(matrix.shape[0] // width), np.ones((width, width))).astype(bool)
        missing &= ~blocks
    if missing.any():
        i, j = (int(k) // width for k in np.argwhere(missing)[0])
        raise_input_error(
            "data",
            f"no episode with both x = {i} and x = {j}",
            "every pair of state-actions observed; use maximum_likelihood",
        )


def _leading_factor(matrix: Floats) -> Floats:
    """Compute the leading eigenvector times the root of its eigenvalue; unobserved entries are imputed from it."""
    is_unobserved = np.isnan(matrix)
    filled = np.where(is_unobserved, 0.0, matrix)
    vector = np.zeros(matrix.shape[0])
    for _ in range(_MAX_FILL_ROUNDS if is_unobserved.any() else 1):
        values, vectors = top_eigenpairs(filled, 1)
        new = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))
        # An eigenvector is determined up to its sign, so the change is measured for both.
        change = min(np.abs(new - vector).max(), np.abs(new + vector).max())
        vector = new
        filled = np.where(is_unobserved, np.outer(vector, vector), filled)
        if change < 1e-10:
            break
    return vector


def sweep_weights(
    env: Any,
    *,
    step: float | None = None,
    method: RecoveryMethod = algorithm_3,
    gap: float = 1e-2,
    num_episodes: int = 2000,
) -> RecoveryMethod:
    """Make a method that tries weights in the environment and keeps the best.

    Args:
        env: Where policies are played: a function from a policy to its value, a model, a problem's name, or a Gymnasium
            environment.
        step: Distance between the weights of the grid; None means epsilon / H of the confidence set.
        method: Method that recovers with each weight as if it were known.
        gap: Largest gap of the plan in each recovered model.
        num_episodes: Number of episodes per policy where its value is not computed exactly.

    Returns:
        Method for ``recover``, for two types with unknown weights.
    """
    if step is not None:
        as_number("step", step, above=0.0, below=0.5)
    count = as_count("num_episodes", num_episodes)

    def run_sweep(evidence: RecoveryData, settings: RecoverySettings) -> RecoveryResult:
        """Recover with every weight of the grid and return the result whose plan has the highest value."""
        if settings.num_types != 2 or settings.weights is not None:
            actual = f"{settings.num_types} types and weights {'unknown' if settings.weights is None else 'known'}"
            raise_input_error("method", f"sweep_weights with {actual}", "2 types and unknown weights")
        evaluate = _make_evaluator(env, count, settings.seed)
        trials: list[tuple[float, float, RecoveryResult]] = []
        for w in _weight_grid(evidence, step):
            result = method(evidence, replace(settings, weights=np.array([w, 1.0 - w])))
            trials.append((evaluate(_plan(result, gap)), w, result))
        value, w, result = max(trials, key=lambda entry: entry[0])
        em_runs = tuple(EMRun(f"weight {w:.4f}", float("nan"), value, 0, True) for value, w, _ in trials)
        reason = f"weight {w:.4f} has the highest value ({value:.6g}) of {len(trials)} weights evaluated"
        certificate = replace(result.info.certificate, weights_source="estimated")
        info = replace(
            result.info,
            method="sweep_weights",
            em_runs=em_runs,
            convergence=reason,
            weights_source="estimated",
            certificate=certificate,
        )
        return RecoveryResult(result.model, info)

    return run_sweep


def _weight_grid(evidence: RecoveryData, step: float | None) -> list[float]:
    """Make the grid of weights of the first type."""
    confidence_set = evidence.confidence_set
    spacing = confidence_set.tolerance * confidence_set.horizon if step is None else step
    # At most 10,000 and at least three weights, whatever epsilon and H are.
    spacing = min(max(spacing, 1e-4), 0.25)
    return [float(w) for w in np.arange(spacing, 1.0 - spacing / 2.0, spacing)]


def _plan(result: RecoveryResult, gap: float) -> Policy:
    """Plan in the recovered model."""
    from rewardmix.planning import plan

    return plan(result.model, gap=gap).policy


def _make_evaluator(env: Any, num_episodes: int, seed: int) -> Callable[[Policy], float]:
    """Make the function that evaluates a policy in the environment; one seed for all policies makes them comparable."""
    if callable(env):
        return lambda policy: float(env(policy))
    from rewardmix.evaluation import evaluate

    eval_seed = derive_seed(seed, Role.TRIALS)
    return lambda policy: evaluate(policy, env, num_episodes=num_episodes, seed=eval_seed).value
