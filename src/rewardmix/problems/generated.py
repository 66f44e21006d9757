"""Random problems of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import Floats, as_count, as_floats, as_number, as_seed, refuse
from rewardmix._core.limits import afford_model
from rewardmix._core.streams import Role, generator
from rewardmix.model import BINARY, RewardMixingMDP


def random(
    states: int = 5,
    actions: int = 3,
    horizon: int = 6,
    seed: int = 0,
    *,
    contexts: int = 2,
    weights: ArrayLike | None = None,
    separation: float | None = None,
    successors: int | None = None,
    reward_values: Sequence[float] = BINARY,
) -> RewardMixingMDP:
    """Laws drawn uniformly from their simplices.

    Args:
        states: S.
        actions: A.
        horizon: H.
        seed: the same seed gives the same problem.
        contexts: M.
        weights: (M,), uniform if left out.
        separation: if given, half the distance of two neighbouring contexts at every state-action: with two
            contexts ``|p_1 - p_2| / 2 = separation`` everywhere (Delta of the paper), with random signs. With more
            contexts, or more reward values, total variation takes the place of ``|p_1 - p_2|``.
        successors: if given, each state-action leads to this many states, and the transition is sparse.
        reward_values: (Z,).
    """
    num_states, num_actions = as_count("states", states), as_count("actions", actions)
    num_contexts = as_count("contexts", contexts, least=2)
    values = as_floats("reward_values", reward_values, (None,))
    as_count("horizon", horizon)
    shares = np.full(1, 1.0) if weights is None else as_floats("weights", weights, (num_contexts,))
    moves = None if successors is None else num_states * num_actions * as_count("successors", successors)
    afford_model(num_states, num_actions, num_contexts, values.size, moves)
    rng = generator(as_seed("seed", seed), Role.PROBLEM)
    initial = rng.dirichlet(np.ones(num_states))
    transition = _transition(num_states, num_actions, successors, rng)
    laws = rng.dirichlet(np.ones(values.size), (num_contexts, num_states, num_actions))
    if separation is not None:
        laws = _separated(laws, separation, rng)
    shares = np.full(num_contexts, 1.0 / num_contexts) if weights is None else shares
    return RewardMixingMDP(transition, initial, shares, laws, horizon, values)


def _transition(states: int, actions: int, successors: int | None, rng: np.random.Generator) -> Any:
    if successors is None:
        return rng.dirichlet(np.ones(states), (states, actions))
    from scipy.sparse import csr_array

    count = as_count("successors", successors)
    if count > states:
        refuse("successors", count, f"at most the number of states, {states}")
    rows = states * actions
    columns = np.stack([np.sort(rng.choice(states, count, replace=False)) for _ in range(rows)])
    data = rng.dirichlet(np.ones(count), rows)
    return csr_array((data.ravel(), columns.ravel(), np.arange(rows + 1) * count), shape=(rows, states))


def _separated(laws: Floats, separation: float, rng: np.random.Generator) -> Floats:
    """Shift ``2 * separation`` of mass from one value to another for each rank of the context, at every (s, a)."""
    contexts, states, actions, values = laws.shape
    moved = 2.0 * as_number("separation", separation, above=0.0) * (contexts - 1)
    if moved > 1.0:
        refuse("separation", separation, f"at most {0.5 / (contexts - 1):g} for {contexts} contexts")
    rank = rng.permuted(np.broadcast_to(np.arange(contexts)[:, None, None], (contexts, states, actions)), axis=0)
    ends = np.argsort(rng.random((states, actions, values)), axis=-1)[..., :2]
    start, end = np.eye(values)[ends[..., 0]], np.eye(values)[ends[..., 1]]
    shift = (rank / (contexts - 1))[..., None]
    separated: Floats = (1.0 - moved) * laws[:1] + moved * ((1.0 - shift) * start + shift * end)
    return separated
