"""A model that was learned before, and a log that should be of the same world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rewardmix._core.checks import refuse
from rewardmix.episodes import Episodes
from rewardmix.logs.log import Log
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.minari import is_dataset
from rewardmix.model import RewardMixingMDP
from rewardmix.reward_scale import same_cuts


def as_model(argument: str, model: Any) -> RewardMixingMDP:
    """A model, or the one of what a run returned."""
    found = model if isinstance(model, RewardMixingMDP) else getattr(model, "model", None)
    if not isinstance(found, RewardMixingMDP):
        refuse(argument, type(model).__name__, "a RewardMixingMDP, a plan, or what fit or learn returned")
    return found


def check_world(argument: str, model: RewardMixingMDP, schema: LogSchema) -> None:
    """Refuse a model of another world: other states, actions, rewards, or other names for them."""
    advice = f"those of the log; state_names, action_names and reward_values of read() can be those of the {argument}"
    for role in ("state", "action"):
        size, own = getattr(model, f"num_{role}s"), getattr(schema, f"num_{role}s")
        ended = role == "state" and size == own + 1 and has_end(model)
        if size != own and not ended:
            refuse(argument, f"another world, of {size} {role}s", f"{own} {role}s, as in the log")
        labels, told = getattr(model, f"{role}_names"), getattr(schema, f"{role}_names")
        for index, (one, two) in enumerate(zip(labels, told, strict=False)):
            if one != two:
                refuse(argument, f"another world, where {role} {index} is {one!r} and not {two!r}", advice)
    cuts = schema.reward_scale.cuts
    if cuts is not None and not same_cuts(cuts, model.reward_scale.cuts):
        expected = f"those of the {argument}: reward_values=model.reward_scale"
        refuse(argument, "a log whose rewards are in other bins than those of the model", expected)
    strange = ~np.isin(schema.reward_values, model.reward_values)
    if strange.any():
        value = schema.reward_values[strange][0].item()
        refuse(argument, f"another world, where no reward is {value!r}", f"reward values {advice}")


def has_end(model: RewardMixingMDP) -> bool:
    """Whether the last state is the end that recovery adds where episodes end early: it stays, and pays nothing."""
    place = int(np.searchsorted(model.reward_values, 0.0))
    if (model.state_names and model.state_names[-1] != "end") or model.initial[-1] > 0 or model.num_states < 2:
        return False
    zero = place < model.num_values and model.reward_values[place] == 0.0
    paid = model.laws[:, -1, :, min(place, model.num_values - 1)]
    moves = model.transition_rows[-model.num_actions :]
    stays = (moves.toarray() if model.is_sparse else moves)[:, -1]
    return bool(zero and (paid == 1.0).all() and (stays == 1.0).all())


def reading_like(model: RewardMixingMDP, log: Any, reading: Mapping[str, Any]) -> dict[str, Any]:
    """How to read a log of the world of a model: with its names, sizes and rewards, where nothing else is said."""
    asked = {name: value for name, value in reading.items() if value is not None}
    if isinstance(log, Log | Episodes) or is_dataset(log):
        return asked
    states = model.num_states - has_end(model)
    known: dict[str, Any] = {"num_actions": model.num_actions, "action_names": model.action_names}
    if "fold" not in asked:
        known |= {"num_states": states, "state_names": model.state_names[:states]}
    if model.reward_scale.cuts is not None:  # bins of its own would make another world of the log
        asked = {name: value for name, value in asked.items() if name != "bins"}
    if "bins" not in asked:
        known["reward_values"] = model.reward_scale
    return {**known, **asked}
