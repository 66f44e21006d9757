"""``recover``: the front door of the room."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import (
    Floats,
    as_count,
    as_floats,
    as_number,
    as_seed,
    at,
    check_probabilities,
    first,
    quoted,
    refuse,
)
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery.best import best
from rewardmix.recovery.confidence import ConfidenceSet, hoeffding
from rewardmix.recovery.covariances import Radius
from rewardmix.recovery.evidence import afford_data, evidence_of
from rewardmix.recovery.result import Method, Question, Recovery


def recover(
    data: ConfidenceSet | Moments | Episodes,
    *,
    following: Episodes | None = None,
    num_contexts: int = 2,
    weights: ArrayLike | None = None,
    prior: float = 1.0,
    method: Method = best,
    seed: int = 0,
    failure: float = 0.05,
    accuracy: float = 0.1,
    radius: Radius = hoeffding,
) -> Recovery:
    """A model from what was seen.

    Args:
        data: whole episodes say most (weights, orientation and more than two contexts need them); moments and
            confidence sets are enough for the rest.
        following: further episodes, whose actions did follow their rewards. They count in the likelihood and for the
            moves, and are kept out of the confidence set, of triples, and of the averages that the prior pulls to
            wherever an episode of ``data`` went.
        num_contexts: M; ``choose_contexts`` finds it.
        weights: (M,) if known; "uniform" for equal ones; None to estimate them.
        prior: pseudo-count at the average for each state-action and context; 0 is plain maximum likelihood.
        method: ``best``, ``paper``, ``spectral`` or ``sweep(...)`` of ``rewardmix.recovery``, or a function like them.
        seed: of the random starts.
        failure: of the confidence set, if ``data`` is none.
        accuracy: of the confidence set, if ``data`` is none.
        radius: of the confidence set, if ``data`` is none: ``hoeffding`` or ``normal(3.0)``.
    """
    contexts = as_count("num_contexts", num_contexts, least=2)
    if not callable(method):
        refuse("method", quoted(method), "a function: best, paper, spectral or sweep(...) of rewardmix.recovery")
    if not (isinstance(prior, int | float) and prior == 0):
        as_number("prior", prior, above=0.0)
    as_number("failure", failure, above=0.0, below=1.0)
    as_number("accuracy", accuracy, above=0.0)
    if not callable(radius):
        refuse("radius", quoted(radius), "a function: hoeffding or normal(3.0) of rewardmix.recovery")
    afford_data(data, following, contexts)
    question = Question(contexts, as_weights(weights, contexts), float(prior), as_seed("seed", seed))
    return method(evidence_of(data, following, failure=failure, accuracy=accuracy, radius=radius), question)


def as_weights(weights: Any, num_contexts: int) -> Floats | None:
    """Known weights as an array; None if they are not known."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "uniform":
            refuse("weights", repr(weights), '"uniform", an array of probabilities, or None')
        return np.full(num_contexts, 1.0 / num_contexts)
    array = as_floats("weights", weights, (num_contexts,))
    check_probabilities("weights", array, "contexts")
    if (array <= 0).any():
        refuse(at("weights", first(array <= 0)), 0.0, "a positive weight")
    return array
