"""``plan``: the best history-dependent policy of a known model, with a certified gap."""

from __future__ import annotations

from collections.abc import Callable

from rewardmix.model import RewardMixingMDP
from rewardmix.planning.both import Both
from rewardmix.planning.box import Box
from rewardmix.planning.many import point_sweeper
from rewardmix.planning.refinement import Sweeper, refine, request
from rewardmix.planning.result import Plan, Round
from rewardmix.planning.sweeps import GridSweeper
from rewardmix.planning.two import Segment


def plan(
    model: RewardMixingMDP,
    *,
    gap: float = 1e-3,
    time_limit: float | None = None,
    on_update: Callable[[Round], None] | None = None,
) -> Plan:
    """Plan in a known model until the certified gap ``upper - lower`` is at most ``gap``.

    Args:
        model: what is known.
        gap: largest difference between the bounds; ``plan.info.converged`` says whether it was reached.
        time_limit: seconds after which the best bracket so far is returned (the first sweep is always finished).
        on_update: called after every sweep with a ``Round``.
    """
    wanted = request(gap, time_limit, on_update)
    policy, lower, upper, info = refine(_sweeper(model), wanted)
    return Plan(policy, lower, upper, info, model)


def _sweeper(model: RewardMixingMDP) -> Sweeper:
    """Grids for two and three contexts, points too for more; points alone where they are all that can be reached."""
    if model.num_contexts == 2:
        return GridSweeper(model, Segment(model))
    points = point_sweeper(model)
    if points.complete:
        return points
    return GridSweeper(model, Box(model)) if model.num_contexts == 3 else Both(model, points)
