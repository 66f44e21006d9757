"""Alpha vectors: what each node of a controller earns in each context, and the decisions that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix._core.algebra import product
from rewardmix._core.checks import Floats, Ints, as_floats, as_instance, refuse, shut
from rewardmix.evaluation import node_values
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.policy import Controller, as_tables


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
        actions = as_tables("actions", self.actions)
        given = as_instance("values", self.values, tuple)
        if len(given) != len(actions):
            refuse("values", f"{len(given)} steps", f"{len(actions)} steps, as many as actions")
        values = [as_floats(f"values[{t}]", part, (*actions[t].shape, None)) for t, part in enumerate(given)]
        for t, part in enumerate(values):
            if part.shape[2] != values[0].shape[2] or part.shape[2] < 2:
                refuse(f"values[{t}]", f"{part.shape[2]} contexts", "as many at each step, at least 2")
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "values", tuple(values))

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Refuse a model whose beliefs these vectors do not belong to."""
        mine = len(self.actions), self.values[0].shape[0], self.values[0].shape[2]
        wanted = model.horizon, model.num_states, model.num_contexts
        if mine != wanted:
            refuse("decide", f"vectors of (horizon, states, contexts) = {mine}", f"{wanted} for this model")
        most = max(int(actions.max()) for actions in self.actions)
        if most >= model.num_actions:
            refuse("decide", f"vectors that play action {most}", f"actions below {model.num_actions}")

    def __call__(self, step: int, state: int, belief: Floats) -> int:
        """The action to play."""
        return int(self.actions[step][state, np.argmax(mixed(belief, self.values[step][state].T))])

    def everywhere(self, step: int, beliefs: Floats) -> Ints:
        """(S, K): the action in every state at each of the ``beliefs`` (K, M)."""
        best = np.argmax(product(self.values[step], beliefs.T), axis=1)
        return np.take_along_axis(self.actions[step], best, axis=1)

    def value(self, step: int, state: int, belief: Floats) -> float:
        """What the best node earns from here on."""
        return float(np.max(mixed(belief, self.values[step][state].T)))

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return sum(part.nbytes for part in (*self.values, *self.actions))


def alpha_vectors(policy: Controller, model: RewardMixingMDP) -> AlphaVectors:
    """The vectors of every node of ``policy`` in ``model``."""
    values = [shut(part) for part in node_values(policy, model)]
    return AlphaVectors(tuple(reversed(values)), policy.actions)
