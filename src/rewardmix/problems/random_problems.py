"""Make random problems of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.budget import check_budget_model
from rewardmix._core.checks import Floats, as_count, as_floats, as_number, as_seed, raise_input_error
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.model import BERNOULLI_VALUES, RewardMixingMDP


def make_random(
    states: int = 5,
    actions: int = 3,
    horizon: int = 6,
    seed: int = 0,
    *,
    num_types: int = 2,
    weights: ArrayLike | None = None,
    separation: float | None = None,
    next_states: int | None = None,
    reward_values: Sequence[float] = BERNOULLI_VALUES,
) -> RewardMixingMDP:
    """Draw a random model: transitions, initial distribution and reward probabilities are uniform on their simplices.

    Args:
        states: S.
        actions: A.
        horizon: H.
        seed: Seed; equal seeds give equal problems.
        num_types: M, the number of types.
        weights: (M,) probabilities of the types; uniform if None.
        separation: If given, half the distance of two neighboring types at every state-action: for two types
            ``|p_1 - p_2| / 2 = separation`` everywhere (Delta of the paper), with random signs. For more types, or more
            reward values, total variation takes the place of ``|p_1 - p_2|``.
        next_states: If given, each state-action leads to this many states, and the transition is sparse.
        reward_values: (Z,) possible rewards.

    Returns:
        The model.

    Raises:
        InputError: If an argument is invalid, or the model exceeds the memory limit.
    """
    num_states, num_actions = as_count("states", states), as_count("actions", actions)
    type_count = as_count("num_types", num_types, min_value=2)
    values = as_floats("reward_values", reward_values, (None,))
    as_count("horizon", horizon)
    type_weights = np.full(1, 1.0) if weights is None else as_floats("weights", weights, (type_count,))
    num_transitions = None if next_states is None else num_states * num_actions * as_count("next_states", next_states)
    check_budget_model(num_states, num_actions, type_count, values.size, num_transitions)
    rng = make_generator(as_seed("seed", seed), Role.PROBLEM)
    # The order of the draws is part of what a seed means: changing it would change every random problem.
    initial = rng.dirichlet(np.ones(num_states))
    transition = _transition(num_states, num_actions, next_states, rng)
    probs = rng.dirichlet(np.ones(values.size), (type_count, num_states, num_actions))
    if separation is not None:
        probs = _separate_types(probs, separation, rng)
    type_weights = np.full(type_count, 1.0 / type_count) if weights is None else type_weights
    return RewardMixingMDP(transition, initial, type_weights, probs, horizon, values)


def _transition(states: int, actions: int, next_states: int | None, rng: np.random.Generator) -> Any:
    """Draw the transition, dense, or sparse with a fixed number of next states."""
    if next_states is None:
        return rng.dirichlet(np.ones(states), (states, actions))
    from scipy.sparse import csr_array

    count = as_count("next_states", next_states)
    if count > states:
        raise_input_error("next_states", count, f"at most the number of states, {states}")
    rows = states * actions
    # Columns are sorted because CSR rows with sorted indices have one form only, so equal models have equal digests.
    columns = np.stack([np.sort(rng.choice(states, count, replace=False)) for _ in range(rows)])
    data = rng.dirichlet(np.ones(count), rows)
    return csr_array((data.ravel(), columns.ravel(), np.arange(rows + 1) * count), shape=(rows, states))


def _separate_types(probs: Floats, separation: float, rng: np.random.Generator) -> Floats:
    """Shift ``2 * separation`` of probability from one value to another for each rank of the type, at every (s, a)."""
    num_types, states, actions, values = probs.shape
    shifted_mass = 2.0 * as_number("separation", separation, above=0.0) * (num_types - 1)
    if shifted_mass > 1.0:
        raise_input_error("separation", separation, f"at most {0.5 / (num_types - 1):g} for {num_types} types")
    # An independent permutation at every state-action: otherwise one type would have the larger rewards everywhere.
    rank = rng.permuted(np.broadcast_to(np.arange(num_types)[:, None, None], (num_types, states, actions)), axis=0)
    ends = np.argsort(rng.random((states, actions, values)), axis=-1)[..., :2]
    start, end = np.eye(values)[ends[..., 0]], np.eye(values)[ends[..., 1]]
    shift = (rank / (num_types - 1))[..., None]
    # All types share a fraction of the first type's distribution; the rest lies on two values, so distances are exact.
    separated: Floats = (1.0 - shifted_mass) * probs[:1] + shifted_mass * ((1.0 - shift) * start + shift * end)
    return separated
