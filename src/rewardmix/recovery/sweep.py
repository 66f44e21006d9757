"""``sweep``: unknown weights as the paper proposes, by trying them all in the world.

For every w on a grid of step accuracy / H, recover with that w as if it were known, plan in the recovered model, play
the plan in the world, keep the w whose policy earned most. It is the baseline to beat: the closed form of ``weights``
needs no play at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rewardmix._core.checks import as_count, as_number, refuse
from rewardmix._core.streams import Role, seed_for
from rewardmix.policy import Policy
from rewardmix.recovery.evidence import Evidence
from rewardmix.recovery.paper import paper
from rewardmix.recovery.result import Method, Question, Recovery, Start


def sweep(
    world: Any, *, step: float | None = None, method: Method = paper, gap: float = 1e-2, episodes: int = 2000
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
        trials = tuple(Start(f"weight {w:.4f}", float("nan"), value, 0, True) for value, w, _ in tried)
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
