"""``compare_runs``: what changed between two runs in the same world, beyond what chance explains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, cast

import numpy as np

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats, as_number, refuse
from rewardmix.evaluation import evaluate
from rewardmix.learning import Learned
from rewardmix.logs.fit_result import Fitted
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery.recovery_result import matching

SMALL = 0.01
"""An old policy that loses less than this share in the new model can stay."""


@short
@dataclass(frozen=True, eq=False)
class Run:
    """What is compared of a run.

    Attributes:
        model: the world as it was found.
        policy: that was planned.
        errors: standard errors of ``model.rewards``, inf where unknown.
        weight_errors: (M,) of the weights, 0 where they were given.
    """

    model: RewardMixingMDP
    policy: Any
    errors: Floats
    weight_errors: Floats


@dataclass(frozen=True)
class Shift:
    """A share or a reward in both runs.

    Attributes:
        type: in the new run, from 0.
        state: index; None for the share of the type.
        action: index; None for the share of the type.
        value: the reward value whose chance it is; None for the share of the type.
        before: in the old run.
        after: in the new run.
        deviations: how many standard errors lie between.
    """

    type: int
    state: int | None
    action: int | None
    value: float | None
    before: float
    after: float
    deviations: float


@short
@dataclass(frozen=True, eq=False)
class RunComparison:
    """What changed from an old run to a new one.

    Attributes:
        types: (old, new) numbers of the types that belong together, from 0; the others are gone, or new.
        shares: of all types that belong together, moved or not.
        moved_shares: those that moved beyond their errors.
        moved_rewards: chances of rewards that did, largest first.
        compared: shares and chances that were compared.
        level: chance that any of them is called moved if none was.
        old_in_old: value of the old policy in the old model.
        new_in_old: of the new policy in the old model.
        old_in_new: of the old policy in the new model.
        new_in_new: of the new policy in the new model.
        verdict: the gist.
    """

    types: tuple[tuple[int, int], ...]
    shares: tuple[Shift, ...]
    moved_shares: tuple[Shift, ...]
    moved_rewards: tuple[Shift, ...]
    compared: int
    level: float
    old_in_old: float
    new_in_old: float
    old_in_new: float
    new_in_new: float
    verdict: str


def compare_runs(old: Any, new: Any, *, level: float = 0.05) -> RunComparison:
    """Set two runs in the same world beside each other.

    Args:
        old: what ``fit`` or ``learn`` returned, or what ``load`` reads from the folder of such a run.
        new: likewise.
        level: chance that any share or reward is called moved if none was; each has its part of it (Bonferroni).

    Returns:
        types that belong together, shares and rewards that moved beyond their errors, the value of each policy in each
        model (exact there: neither was played), and a verdict.
    """
    as_number("level", level, above=0.0, below=1.0)
    one, two = as_run("old", old), as_run("new", new)
    _check_same(one.model, two.model)
    types = tuple(matching(one.model.laws, two.model.laws))
    shares = tuple(
        _shift((n, None, None, None), one.model.weights[o], two.model.weights[n],
               math.hypot(one.weight_errors[o], two.weight_errors[n]))
        for o, n in types
    )  # fmt: skip
    rewards = _reward_shifts(one, two, types)
    asked = [shift for shift in shares if math.isfinite(shift.deviations)]
    compared = len(asked) + len(rewards)
    limit = NormalDist().inv_cdf(1.0 - level / (2.0 * max(compared, 1)))
    moved_shares = tuple(shift for shift in shares if abs(shift.deviations) > limit)
    moved = sorted((s for s in rewards if abs(s.deviations) > limit), key=lambda s: -abs(s.deviations))
    before, after = ([evaluate(run.policy, world.model).value for run in (one, two)] for world in (one, two))
    other = one.model.num_contexts != two.model.num_contexts
    verdict = _verdict(other, len(moved_shares) + len(moved), compared, *after)
    return RunComparison(
        types, shares, moved_shares, tuple(moved), compared, level, before[0], before[1], after[0], after[1], verdict
    )


def as_run(argument: str, run: Any) -> Run:
    """What is compared of what ``fit`` or ``learn`` returned."""
    if isinstance(run, Run):
        return run
    if isinstance(run, Fitted):
        info = run.info.recovery
    elif isinstance(run, Learned):
        info = run.recovery.info
    elif isinstance(getattr(run, "run", None), Run):  # a run that was loaded from its folder
        return cast("Run", run.run)
    else:
        refuse(argument, type(run).__name__, "what fit or learn returned, a run that was loaded, or a Run")
    return Run(run.model, run.plan.policy, info.errors, info.weight_errors)


def _check_same(old: RewardMixingMDP, new: RewardMixingMDP) -> None:
    """Refuse runs in different worlds."""
    for name in ("num_states", "num_actions", "horizon", "state_names", "action_names"):
        one, two = getattr(old, name), getattr(new, name)
        if one != two:
            refuse("new", f"another world, with {name} {two!r}", f"{one!r}, as in the old run")
    if old.reward_values.tolist() != new.reward_values.tolist():
        found = f"another world, with reward values {new.reward_values.tolist()}"
        refuse("new", found, f"{old.reward_values.tolist()}, as in the old run")


def _shift(place: tuple[int, int | None, int | None, float | None], before: Any, after: Any, error: float) -> Shift:
    change = float(after - before)
    deviations = change / error if 0.0 < error < math.inf else math.nan
    return Shift(*place, float(before), float(after), deviations)


def _reward_shifts(old: Run, new: Run, types: tuple[tuple[int, int], ...]) -> list[Shift]:
    """The chance of each reward value (of the larger one if there are two) where both runs know it."""
    values = new.model.reward_values[1:] if new.model.num_values == 2 else new.model.reward_values
    shape = -1, new.model.num_states, new.model.num_actions, values.size
    chances = [run.model.rewards.reshape(shape) for run in (old, new)]
    errors = [np.asarray(run.errors).reshape(shape) for run in (old, new)]
    out = []
    for o, n in types:
        both = np.hypot(errors[0][o], errors[1][n])
        for s, a, z in np.argwhere(np.isfinite(both) & (both > 0)).tolist():
            place = n, s, a, float(values[z])
            out.append(_shift(place, chances[0][o, s, a, z], chances[1][n, s, a, z], float(both[s, a, z])))
    return out


def _verdict(other: bool, count: int, compared: int, old: float, new: float) -> str:
    """What to make of it, in one sentence."""
    what = (
        "The number of types changed"
        if other
        else f"{count} of {compared} shares and rewards moved beyond their errors"
        if count
        else f"None of {compared} shares and rewards moved beyond its error"
    )
    lost = new - old
    stays = lost <= SMALL * max(abs(new), 1e-12)
    advice = "it can stay" if stays else "play the new one"
    return (
        f"{what}; in the new model the old policy earns {old:.4f} and the new one {new:.4f} (planned there, not "
        f"played): {advice}."
    )
