"""The certificate of a recovered model, and the sentence on what it does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix.model import RewardMixingMDP
from rewardmix.recovery.confidence import ConfidenceSet
from rewardmix.recovery.magnitudes import Magnitudes, magnitudes
from rewardmix.recovery.result import Certificate
from rewardmix.recovery.signs import Parity, components, parity, two_sided


def parities(confidence: ConfidenceSet) -> Parity:
    """Signs of all pairs that the set decides, strongest first."""
    chosen = confidence.excludes_zero & (confidence.first != confidence.second)
    centre = confidence.centre[chosen]
    scale = np.where(confidence.radius[chosen] > 0, confidence.radius[chosen], 1e-12)
    return parity(
        confidence.first[chosen], confidence.second[chosen], centre > 0, np.abs(centre) / scale, confidence.average.size
    )


def certify(
    confidence: ConfidenceSet,
    model: RewardMixingMDP,
    program: Magnitudes | None = None,
    signs: Parity | None = None,
    *,
    weights: str,
) -> Certificate:
    """Check a model against its confidence set, and the set against itself.

    ``weights``: whether those of the model are "known", "estimated" or "assumed equal". The program takes them as
    known.
    """
    outside = sum(int(mask.sum()) for *_, mask in confidence.checks(model))
    if model.num_contexts != 2:
        nothing = np.arange(confidence.average.size)
        return Certificate("not asked", 1.0, weights, None, (), (), (), nothing, outside == 0, outside, float("nan"))
    program = magnitudes(confidence, model.weights) if program is None else program
    signs = parities(confidence) if signs is None else signs
    return Certificate(
        program.status,
        program.kappa,
        weights,
        program.contradiction,
        program.broken,
        signs.conflicts,
        signs.odd_cycle,
        signs.groups,
        outside == 0,
        outside,
        _signs_agree(confidence, model),
    )


def _signs_agree(confidence: ConfidenceSet, model: RewardMixingMDP) -> float:
    decided = confidence.excludes_zero
    if not decided.any():
        return float("nan")
    covariance = next(values for what, _, values, *_ in confidence.checks(model) if what == "covariance")
    return float((np.sign(covariance[decided]) == np.sign(confidence.centre[decided])).mean())


def coverage(confidence: ConfidenceSet) -> dict[str, Any]:
    """What the pairs that were seen cannot tell, whatever the method."""
    size, width = confidence.num_points, confidence.width
    x, y = confidence.first // width, confidence.second // width
    visited = np.isfinite(confidence.average.reshape(size, width)[:, 0])
    apart = np.unique((x * size + y)[x != y]).size
    count = int(visited.sum())
    paired = np.zeros(size, bool)
    paired[x] = paired[y] = True
    component = components(x, y, size)
    groups = tuple(
        tuple(int(i) for i in np.flatnonzero(component == number)) for number in np.unique(component[paired])
    )
    return {
        "never_visited": np.flatnonzero(~visited),
        "never_together": count * (count - 1) // 2 - apart,
        "alone": np.flatnonzero(visited & ~paired),
        "groups": groups,
        "two_sided": np.flatnonzero(two_sided(x, y, size) & paired),
    }


def sentence(
    found: dict[str, Any],
    *,
    weights: str,
    equal: bool,
    undecided: int,
    decided: bool,
    related: bool,
    contexts: int,
    size: int,
) -> str:
    """One plain sentence on what is not identified.

    Args:
        found: what ``coverage`` says.
        weights: "known", "estimated" or "assumed equal".
        equal: whether the weights are equal, so that groups that never meet can be combined either way.
        undecided: groups whose orientation triples did not decide, with weights that are not equal.
        decided: whether the method could use any pair.
        related: whether any pair of rewards is correlated at all.
        contexts: M.
        size: X.
    """
    parts = []
    if found["never_visited"].size:
        parts.append(
            f"{found['never_visited'].size} of {size} state-actions were never visited, so their rewards are set to "
            "the mean law of the others with an infinite interval and their moves to staying"
        )
    if not found["groups"]:
        parts.append("no episode has two rewards, so nothing is known about how contexts differ")
    elif not related:
        parts.append("no pair of rewards is correlated beyond chance, so the contexts may be identical")
    elif not decided:
        parts.append("no covariance interval excludes 0, so the contexts came out as good as equal")
    if found["alone"].size and found["groups"]:
        parts.append(
            f"{found['alone'].size} state-actions were never seen with another reward in one episode, so how contexts "
            "differ there is unknown"
        )
    if len(found["groups"]) > 1 and (equal or undecided):
        which = len(found["groups"]) if equal else undecided
        parts.append(
            f"{which} groups of state-actions never meet in an episode, so which of their contexts belong together is "
            "unknown (values do not depend on it as long as they never meet)"
        )
    elif undecided:
        parts.append("which way round the contexts go at these weights is not decided by the data")
    if found["two_sided"].size:
        parts.append(
            f"at {found['two_sided'].size} state-actions only products of differences across two sides that never meet "
            "within themselves are known, not each (values do not depend on it as long as they never meet)"
        )
    if weights == "assumed equal":
        parts.append("two rewards an episode say nothing about the weights of the contexts, so they are assumed equal")
    if not parts:
        return f"Everything is identified, up to the order of the {contexts} contexts."
    return "Not identified: " + "; ".join(parts) + "."


def groups_of_points(groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """(X,) groups of x from (N,) groups of coordinates: that of its first coordinate."""
    return groups.reshape(-1, width)[:, 0]
