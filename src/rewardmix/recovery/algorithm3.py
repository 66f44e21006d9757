"""Recovery as the paper has it: ``algorithm_3``, ``spectral`` (its warm-up) and ``sweep_weights``.

Algorithm 3: magnitudes by the linear program, signs by parities, clip, p_1 = average + spread, p_2 = average - spread.
Nothing is refined. Weights that are known and not 1/2 move the caps and the last line (appendix on mixing weights),
and groups of signs are then oriented by triples if whole episodes were kept.

Unknown weights as the paper proposes, by trying them all in the world: for every w on a grid of step accuracy / H,
recover with that w as if it were known, plan in the recovered model, play the plan in the world, keep the w whose
policy earned most. It is the baseline to beat: ``closed_form`` needs no play at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import leading_eigenpairs
from rewardmix._core.checks import Floats, as_count, as_number, refuse
from rewardmix._core.portable import exps
from rewardmix._core.streams import Role, seed_for
from rewardmix.policy import Policy
from rewardmix.recovery.assessment import finished
from rewardmix.recovery.confidence_set import ConfidenceSet
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import start_fit
from rewardmix.recovery.linear_program import magnitudes
from rewardmix.recovery.moment_start import mixture_of_spread, orientation, spread_laws
from rewardmix.recovery.recovery_result import Ascent, Candidates, Method, Recovery
from rewardmix.recovery.signs import groups_of_points, parities

_FILLS = 200
"""Rounds in which a diagonal that was never seen is filled from the vector that it helps to find."""


def algorithm_3(evidence: Evidence, question: Question) -> Recovery:
    """Algorithm 3: a model in the confidence set, by linear programming and parities."""
    _two_only("algorithm_3", question)
    confidence = evidence.confidence
    program = magnitudes(confidence, question.weights)
    signs = parities(confidence)
    spread = closed(np.asarray(signs.signs * exps(program.log)), confidence)
    groups = groups_of_points(signs.groups, confidence.width)
    spread, undecided = _oriented(evidence, question, spread, groups)
    mixture = mixture_of_spread(confidence.average_laws, spread, _weights(question))
    candidates = Candidates(
        "paper",
        [start_fit(mixture, "program")],
        _source(question),
        undecided=undecided,
        decided=bool(confidence.excludes_zero.any()),
        program=program,
        signs=signs,
    )
    return finished(evidence, question, candidates)


def spectral(evidence: Evidence, question: Question) -> Recovery:
    """The paper's warm-up: the leading eigenvector of the covariances, when every pair was seen."""
    _two_only("spectral", question)
    confidence = evidence.confidence
    size = confidence.average.size
    matrix = np.full((size, size), np.nan)
    matrix[confidence.first, confidence.second] = matrix[confidence.second, confidence.first] = confidence.centre
    _check_complete(matrix, confidence.width)
    spread = spread_laws(_leading(matrix), confidence.num_points)
    spread, undecided = _oriented(evidence, question, spread, np.zeros(confidence.num_points, np.int64))
    mixture = mixture_of_spread(confidence.average_laws, spread, _weights(question))
    fits = [start_fit(mixture, "eigenvector")]
    return finished(evidence, question, Candidates("spectral", fits, _source(question), undecided=undecided))


def closed(spread: Floats, confidence: ConfidenceSet) -> Floats:
    """(X, Z) spread that sums to zero over the values of each x.

    The program leaves magnitudes as small as their intervals allow, so what is missing for a zero sum is put on the
    other side: on the values of the opposite sign (or of no known sign), in proportion to their averages.
    """
    if confidence.width == 1:
        return spread_laws(spread, confidence.num_points)
    table = spread.reshape(confidence.num_points, -1)
    excess = table.sum(axis=1, keepdims=True)
    small = np.abs(table) <= confidence.tolerance * confidence.tolerance
    share = np.where((table * excess < 0) | small, confidence.average_laws + 1e-12, 0.0)
    share = np.where(share.sum(axis=1, keepdims=True) > 0, share, 1.0)
    return np.asarray(table - excess * share / share.sum(axis=1, keepdims=True))


def _two_only(name: str, question: Question) -> None:
    if question.num_contexts != 2:
        refuse("num_contexts", question.num_contexts, f"2, the only number that {name} is for; use best")


def _weights(question: Question) -> Floats:
    return np.array([0.5, 0.5]) if question.weights is None else question.weights


def _source(question: Question) -> str:
    return "assumed equal" if question.weights is None else "known"


def _oriented(evidence: Evidence, question: Question, spread: Floats, groups: NDArray[np.int64]) -> tuple[Floats, int]:
    """Groups turned so that their slope has the sign that the weights give it, and how many stay undecided."""
    weights = _weights(question)
    wanted = float(np.sign(weights[1] - weights[0])) if abs(weights[1] - weights[0]) > 1e-9 else 0.0
    if wanted == 0.0:
        return spread, 0
    real = int((np.bincount(groups, weights=np.abs(spread).max(axis=1) > 1e-9) > 0).sum())
    if evidence.blind is None:
        return spread, real
    found = orientation(evidence.blind, evidence.confidence.average_laws, spread, groups)
    turn = np.where(np.nan_to_num(found.slope) * wanted < 0, -1.0, 1.0)
    return spread * turn[groups][:, None], max(real - int(found.decided.sum()), 0)


def _check_complete(matrix: Floats, width: int) -> None:
    missing = np.isnan(matrix) & ~np.eye(matrix.shape[0], dtype=bool)
    if width > 1:  # the block of one x with itself is like the diagonal: it can be filled
        blocks = np.kron(np.eye(matrix.shape[0] // width), np.ones((width, width))).astype(bool)
        missing &= ~blocks
    if missing.any():
        i, j = (int(k) // width for k in np.argwhere(missing)[0])
        refuse("data", f"no episode with both x = {i} and x = {j}", "every pair of state-actions; or use best")


def _leading(matrix: Floats) -> Floats:
    """Leading eigenvector times the root of its eigenvalue, unseen entries filled by what it says they are."""
    unseen = np.isnan(matrix)
    filled = np.where(unseen, 0.0, matrix)
    vector = np.zeros(matrix.shape[0])
    for _ in range(_FILLS if unseen.any() else 1):
        values, vectors = leading_eigenpairs(filled, 1)
        new = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))
        moved = min(np.abs(new - vector).max(), np.abs(new + vector).max())
        vector = new
        filled = np.where(unseen, np.outer(vector, vector), filled)
        if moved < 1e-10:
            break
    return vector


def sweep_weights(
    world: Any, *, step: float | None = None, method: Method = algorithm_3, gap: float = 1e-2, episodes: int = 2000
) -> Method:
    """A method that tries weights in the world.

    Args:
        world: where policies are tried: a function from a policy to what it earned, a model, a problem's name, or a
            Gymnasium environment.
        step: distance of the weights that are tried; accuracy / H if left out, accuracy as in the confidence set.
        method: recovers with each weight as if it were known.
        gap: how well each recovered model is planned in.
        episodes: how many a policy is tried for, where its value is not computed exactly.
    """
    if step is not None:
        as_number("step", step, above=0.0, below=0.5)
    count = as_count("episodes", episodes)

    def swept(evidence: Evidence, question: Question) -> Recovery:
        """The recovery whose plan earned most."""
        if question.num_contexts != 2 or question.weights is not None:
            found = f"{question.num_contexts} contexts, weights {'unknown' if question.weights is None else 'known'}"
            refuse("method", f"sweep with {found}", "2 contexts with unknown weights")
        trial = _trial(world, count, question.seed)
        tried: list[tuple[float, float, Recovery]] = []
        for w in _grid(evidence, step):
            answer = method(evidence, replace(question, weights=np.array([w, 1.0 - w])))
            tried.append((trial(_planned(answer, gap)), w, answer))
        value, w, answer = max(tried, key=lambda entry: entry[0])
        trials = tuple(Ascent(f"weight {w:.4f}", float("nan"), value, 0, True) for value, w, _ in tried)
        reason = f"weight {w:.4f} earned most ({value:.6g}) of {len(tried)} tried in the world"
        certificate = replace(answer.info.certificate, kappa_weights="estimated")
        info = replace(
            answer.info,
            method="sweep",
            starts=trials,
            convergence=reason,
            weights="estimated",
            certificate=certificate,
        )
        return Recovery(answer.model, info)

    return swept


def _grid(evidence: Evidence, step: float | None) -> list[float]:
    confidence = evidence.confidence
    size = confidence.tolerance * confidence.horizon if step is None else step
    size = min(max(size, 1e-4), 0.25)
    return [float(w) for w in np.arange(size, 1.0 - size / 2.0, size)]


def _planned(answer: Recovery, gap: float) -> Policy:
    from rewardmix.planning import plan

    return plan(answer.model, gap=gap).policy


def _trial(world: Any, episodes: int, seed: int) -> Callable[[Policy], float]:
    if callable(world):
        return lambda policy: float(world(policy))
    from rewardmix.evaluation import evaluate

    own = seed_for(seed, Role.TRIALS)
    return lambda policy: evaluate(policy, world, episodes=episodes, seed=own).value
