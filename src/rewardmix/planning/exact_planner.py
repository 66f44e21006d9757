"""Compute the exact optimum for two types by convex polygons: an independent check of the grid planner.

From step t and state s on, the pairs (value for type 0, value for type 1) that policies can attain form a convex
region. Only its upper right boundary matters: a chain of vertices, called hull. Backwards in time:

    after reward z of (s, a), any policy may follow in each next state, so the hull is the Minkowski sum of
    q_z * T(s'|s,a) * hull(t+1, s') over z and s', shifted by the expected reward;
    the hull of s is the hull of the union over its actions.

A Minkowski sum of convex chains merges their edges by slope. Hulls grow with every step, so this planner is for small
or sparse models and short horizons; use ``plan`` for others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix._core.budget import PYTHON_LINE_COST, check_budget, check_budget_model
from rewardmix._core.checks import Floats, as_instance, raise_input_error
from rewardmix._core.linear_algebra import dot
from rewardmix.model import RewardMixingMDP, dense_transition, weighted_sum

MAX_HULL_EDGES = 2_000_000
"""Largest number of edges that are merged at once."""
HULL_TOLERANCE = 1e-15
"""Vertices closer than this to a line are dropped, relative to the range of values."""


@dataclass(frozen=True, eq=False)
class ExactPlan:
    """Optimal value function of a model with two types.

    Attributes:
        value: Optimal expected return.
        hulls: For each step and state, (n, 2) values for the two types of the policies that are optimal at some belief.

    Examples:
        >>> import numpy as np
        >>> import rewardmix as rm
        >>> exact = rm.plan_exact(rm.make_model("probe"))
        >>> round(exact.value_at(0, 0, np.array([1.0, 0.0])), 2)  # the type is known
        6.6
    """

    value: float
    hulls: tuple[tuple[Floats, ...], ...]

    def value_at(self, step: int, state: int, belief: Floats) -> float:
        """Compute the optimal expected return from ``step`` on, in ``state`` with ``belief`` (2,)."""
        return float(np.max(weighted_sum(belief, self.hulls[step][state].T)))


def plan_exact(model: RewardMixingMDP) -> ExactPlan:
    """Compute the optimal value of a model with two types, exact up to rounding.

    Args:
        model: Model with two types, small or with sparse transitions.

    Returns:
        Optimal value and value function.

    Raises:
        InputError: If the model does not have two types, or its value function has too many pieces.

    Examples:
        >>> import rewardmix as rm
        >>> round(rm.plan_exact(rm.make_model("probe")).value, 2)
        4.58
    """
    as_instance("model", model, RewardMixingMDP)
    if model.num_types != 2:
        raise_input_error("model", f"{model.num_types} types", "2 types; use plan() for other numbers")
    cells = model.horizon * model.num_states * model.num_actions
    check_budget(
        "model",
        operations=1e5 * cells + PYTHON_LINE_COST * cells * model.num_states,
        remedy="a smaller model, or plan()",
    )
    check_budget_model(model.num_states, model.num_actions)
    transition = dense_transition(model)
    tolerance = HULL_TOLERANCE * model.horizon * float(np.abs(model.reward_values).max())
    chains = [np.zeros((1, 2))] * model.num_states
    steps = []
    for _ in range(model.horizon):
        chains = [_state_hull(model, transition[s], s, chains, tolerance) for s in range(model.num_states)]
        steps.append(tuple(chains))
    best = np.array([np.max(weighted_sum(model.weights, chain.T)) for chain in chains])
    return ExactPlan(float(dot(model.initial, best)), tuple(reversed(steps)))


def _state_hull(model: RewardMixingMDP, transition: Floats, s: int, chains: list[Floats], tolerance: float) -> Floats:
    """Compute the hull of state s from the hulls of its actions."""
    candidates = []
    for a in range(model.num_actions):
        next_states = np.flatnonzero(transition[a])
        scaled = [transition[a, next_state] * chains[next_state] for next_state in next_states]
        next_hull = minkowski_sum(scaled)
        # Hulls are pruned before they are summed: sums multiply the cost of every needless vertex.
        hulls = [upper_hull(next_hull * model.reward_probs[:, s, a, z], tolerance) for z in range(model.num_values)]
        candidates.append(minkowski_sum(hulls) + model.mean_rewards_by_type[:, s, a])
    return upper_hull(np.concatenate(candidates), tolerance)


def minkowski_sum(chains: list[Floats]) -> Floats:
    """Compute the Minkowski sum of convex chains: the sum of their first vertices, then all edges sorted by slope."""
    total = sum(chain.shape[0] for chain in chains)
    if total > MAX_HULL_EDGES:
        raise_input_error("model", f"value functions of {total} pieces", f"at most {MAX_HULL_EDGES}; use plan()")
    start = sum((chain[0] for chain in chains), np.zeros(2))
    edges = np.concatenate([np.diff(chain, axis=0) for chain in chains])
    size = edges[:, 1] - edges[:, 0]  # edges go left and up
    # A stable sort keeps parallel edges in the order of their chains, so results do not depend on the sorting
    # algorithm.
    slopes = np.where(size > 0, -edges[:, 0] / np.where(size > 0, size, 1.0), 0.0)
    edges = edges[np.argsort(slopes, kind="stable")]
    return np.concatenate([start[None], start + np.cumsum(edges, axis=0)])


def upper_hull(points: Floats, tolerance: float) -> Floats:
    """Compute the upper right hull of a set of points."""
    from rewardmix.planning.backup_kernels import upper_right_hull

    ordered = points[np.lexsort((-points[:, 1], -points[:, 0]))]
    out = np.empty_like(ordered)
    return out[: upper_right_hull(ordered, tolerance, out)].copy()
