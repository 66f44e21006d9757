"""Alpha vectors: what each node of a controller earns in each context, and the decisions that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix._check import Floats, Ints, check_shape, refuse
from rewardmix.evaluation import node_values
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller


@dataclass(frozen=True, eq=False)
class AlphaVectors:
    """Decides by the best vector at the belief: a function (step, state, belief) -> action.

    Attributes:
        values: H arrays of shape (S, K_t, M), value of a node in each context.
        actions: H arrays of shape (S, K_t), its action.
    """

    values: tuple[Floats, ...]
    actions: tuple[Ints, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.actions) or not self.actions:
            refuse("values", f"{len(self.values)} steps", f"{len(self.actions)} steps, as many as actions")
        for t, (values, actions) in enumerate(zip(self.values, self.actions, strict=True)):
            check_shape(f"values[{t}]", values, (*actions.shape, None))

    def __call__(self, step: int, state: int, belief: Floats) -> int:
        """The action to play."""
        return int(self.actions[step][state, np.argmax(self.values[step][state] @ belief)])

    def everywhere(self, step: int, beliefs: Floats) -> Ints:
        """(S, K): the action in every state at each of the ``beliefs`` (K, M)."""
        best = np.argmax(self.values[step] @ beliefs.T, axis=1)
        return np.take_along_axis(self.actions[step], best, axis=1)

    def value(self, step: int, state: int, belief: Floats) -> float:
        """What the best node earns from here on."""
        return float(np.max(self.values[step][state] @ belief))

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return sum(part.nbytes for part in (*self.values, *self.actions))


def alpha_vectors(policy: Controller, model: RewardMixingMDP) -> AlphaVectors:
    """The vectors of every node of ``policy`` in ``model``."""
    return AlphaVectors(tuple(reversed(list(node_values(policy, model)))), policy.actions)
