"""The exact optimum for two contexts, by polygons: a second method that shares nothing with the grids.

From step t and state s on, the pairs (value in context 0, value in context 1) that policies can earn fill a convex
region. Only its upper right boundary matters: a chain of vertices. Backwards:

    after outcome z of (s, a), the next state may be answered by any policy, so the chain is the Minkowski sum of
    q_z * T(s'|s,a) * chain(t+1, s') over z and s', shifted by the expected reward;
    the chain of s is the hull of the chains of its actions.

A Minkowski sum of convex chains is the merging of their edges by slope. Chains grow with every step: this is for
small or sparse models and short horizons, and an oracle for the planner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewardmix._core.algebra import dot
from rewardmix._core.checks import Floats, as_instance, refuse
from rewardmix._core.limits import PLAIN, afford, afford_model
from rewardmix.model import RewardMixingMDP, dense_transition, mixed

LARGEST_CHAIN = 2_000_000
"""Most edges that are merged at once."""
TOLERANCE = 1e-15
"""Vertices closer than this to a line are dropped, relative to the range of values."""


@dataclass(frozen=True, eq=False)
class ExactPlan:
    """The optimal value function of a two-context model.

    Attributes:
        value: optimal expected sum of rewards.
        chains: for each step and state, (n, 2) values in the two contexts of the policies that are best somewhere.
    """

    value: float
    chains: tuple[tuple[Floats, ...], ...]

    def value_at(self, step: int, state: int, belief: Floats) -> float:
        """The best that can be earned from here on."""
        return float(np.max(mixed(belief, self.chains[step][state].T)))


def plan_exact(model: RewardMixingMDP) -> ExactPlan:
    """The optimal value of a two-context model, exact up to rounding."""
    as_instance("model", model, RewardMixingMDP)
    if model.num_contexts != 2:
        refuse("model", f"{model.num_contexts} contexts", "2 contexts, for plan_exact; plan() takes any number")
    cells = model.horizon * model.num_states * model.num_actions
    afford(
        "model", operations=1e5 * cells + PLAIN * cells * model.num_states, change="a smaller model: plan() takes it"
    )
    afford_model(model.num_states, model.num_actions)
    transition = dense_transition(model)
    tolerance = TOLERANCE * model.horizon * float(np.abs(model.reward_values).max())
    chains = [np.zeros((1, 2))] * model.num_states
    steps = []
    for _ in range(model.horizon):
        chains = [_best_chain(model, transition[s], s, chains, tolerance) for s in range(model.num_states)]
        steps.append(tuple(chains))
    best = np.array([np.max(mixed(model.weights, chain.T)) for chain in chains])
    return ExactPlan(float(dot(model.initial, best)), tuple(reversed(steps)))


def _best_chain(model: RewardMixingMDP, moves: Floats, s: int, chains: list[Floats], tolerance: float) -> Floats:
    """Hull of the chains of the actions of state s."""
    candidates = []
    for a in range(model.num_actions):
        successors = np.flatnonzero(moves[a])
        parts = [moves[a, following] * chains[following] for following in successors]
        onward = minkowski(parts)
        scaled = [outer(onward * model.laws[:, s, a, z], tolerance) for z in range(model.num_values)]
        candidates.append(minkowski(scaled) + model.means[:, s, a])
    return outer(np.concatenate(candidates), tolerance)


def minkowski(chains: list[Floats]) -> Floats:
    """The sum of convex chains: their first vertices added, then all edges in order of slope."""
    total = sum(chain.shape[0] for chain in chains)
    if total > LARGEST_CHAIN:
        refuse(
            "model", f"value functions of {total} pieces", f"at most {LARGEST_CHAIN}: use plan(), which needs no pieces"
        )
    start = sum((chain[0] for chain in chains), np.zeros(2))
    edges = np.concatenate([np.diff(chain, axis=0) for chain in chains])
    size = edges[:, 1] - edges[:, 0]  # edges go left and up
    slopes = np.where(size > 0, -edges[:, 0] / np.where(size > 0, size, 1.0), 0.0)
    edges = edges[np.argsort(slopes, kind="stable")]
    return np.concatenate([start[None], start + np.cumsum(edges, axis=0)])


def outer(points: Floats, tolerance: float) -> Floats:
    """The upper right chain of a set of points."""
    from rewardmix.planning.backups import outer_chain

    ordered = points[np.lexsort((-points[:, 1], -points[:, 0]))]
    out = np.empty_like(ordered)
    return out[: outer_chain(ordered, tolerance, out)].copy()
