"""Alpha vectors: what each node of a controller earns in each context, and the decisions that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix._check import Floats, Ints, check_shape, refuse
from rewardmix.model import RewardMixingMDP, state_action
from rewardmix.planning.transitions import Expectation
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

    def value(self, step: int, state: int, belief: Floats) -> float:
        """What the best node earns from here on."""
        return float(np.max(self.values[step][state] @ belief))

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return sum(part.nbytes for part in (*self.values, *self.actions))


def alpha_vectors(policy: Controller, model: RewardMixingMDP) -> AlphaVectors:
    """The vectors of every node of ``policy`` in ``model``, backwards from the last step."""
    expect, num_contexts = Expectation(model), model.num_contexts
    laws = np.moveaxis(model.laws, 0, -1).reshape(-1, model.num_values, num_contexts)
    means = np.moveaxis(model.means, 0, -1).reshape(-1, num_contexts)
    everything = np.arange(model.num_states * model.num_actions)
    states = np.arange(model.num_states)[:, None]
    later = np.zeros((model.num_states, 1, num_contexts))
    values: list[Floats] = []
    for actions, successors in zip(reversed(policy.actions), reversed(policy.successors), strict=True):
        rows = state_action(states, actions.astype(np.int64), model.num_actions)
        onward = expect(everything, later.reshape(model.num_states, -1))
        onward = onward.reshape(everything.size, -1, num_contexts)
        now = means[rows]
        for z in range(model.num_values if values else 0):
            now += laws[rows, z] * onward[rows, successors[:, :, z]]
        values.append(now)
        later = now
    return AlphaVectors(tuple(reversed(values)), policy.actions)
