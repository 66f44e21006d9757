"""``plan``: the best history-dependent policy of a known model, with a certified gap."""

from __future__ import annotations

from collections.abc import Callable

from rewardmix._core.checks import as_instance
from rewardmix._core.limits import afford_planning
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
    work_limit: float | None = None,
    time_limit: float | None = None,
    on_update: Callable[[Round], None] | None = None,
) -> Plan:
    """Plan in a known model until the certified gap ``upper - lower`` is at most ``gap``.

    Args:
        model: what is known.
        gap: largest difference between the bounds; ``plan.info.converged`` says whether it was reached.
        work_limit: simple steps (``_core.limits``) within which the best bracket is returned; the first sweep is
            always made. The same limit gives the same plan on every machine.
        time_limit: the same in seconds. What is returned then depends on the machine and on what else it is doing.
        on_update: called after every sweep with a ``Round``.
    """
    wanted = request(gap, work_limit, time_limit, on_update)
    afford_plan(as_instance("model", model, RewardMixingMDP))
    policy, lower, upper, info = refine(_sweeper(model), wanted)
    return Plan(policy, lower, upper, info, model)


def afford_plan(model: RewardMixingMDP) -> None:
    """Refuse a model in which no plan can be made."""
    sizes = model.num_states, model.num_actions, model.horizon, model.num_values, model.num_contexts
    afford_planning(*sizes, _moves(model))


def _moves(model: RewardMixingMDP) -> int:
    """Entries of the transition."""
    rows = model.transition_rows
    return int(rows.nnz if model.is_sparse else rows.size)


def _sweeper(model: RewardMixingMDP) -> Sweeper:
    """Grids for two and three contexts, points too for more; points alone where they are all that can be reached."""
    if model.num_contexts == 2:
        return GridSweeper(model, Segment(model))
    points = point_sweeper(model)
    if points.complete:
        return points
    return GridSweeper(model, Box(model)) if model.num_contexts == 3 else Both(model, points)


PLANNING_WORK = 2e10
"""Simple steps for one plan of learning or fitting; with two or three contexts the gap is met long before."""
WORK_PER_CELL = 1e5
"""In large models as many for each outcome of a state-action, and for each of its moves, at every step."""


def usual_work(model: RewardMixingMDP) -> float:
    """What a plan may take where nobody set a limit: a constant, or what the size of the model asks for."""
    cells = model.horizon * (model.num_states * model.num_actions * model.num_values + _moves(model))
    return max(PLANNING_WORK, WORK_PER_CELL * cells)
