"""Check that a log matches the spec of a model that was learned before, and read it accordingly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rewardmix._core.checks import raise_input_error
from rewardmix.episodes import Episodes
from rewardmix.logs.log import Log
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.minari_io import is_dataset
from rewardmix.model import RewardMixingMDP
from rewardmix.reward_scale import have_equal_cuts


def to_model(argument: str, model: Any) -> RewardMixingMDP:
    """Return a model, or the model of a result."""
    candidate = model if isinstance(model, RewardMixingMDP) else getattr(model, "model", None)
    if not isinstance(candidate, RewardMixingMDP):
        raise_input_error(argument, type(model).__name__, "a RewardMixingMDP, a Plan, or a result of fit or learn")
    return candidate


def check_schema_match(argument: str, model: RewardMixingMDP, schema: LogSchema) -> None:
    """Raise an error if states, actions, rewards or their names differ between a model and a log."""
    advice = "read the log with state_names, action_names and reward_values of the model"
    for role in ("state", "action"):
        size, log_size = getattr(model, f"num_{role}s"), getattr(schema, f"num_{role}s")
        # A model of a log with early ends has one state more than the log: the end state that recovery adds.
        has_extra_state = role == "state" and size == log_size + 1 and has_end_state(model)
        if size != log_size and not has_extra_state:
            raise_input_error(argument, f"{size} {role}s", f"{log_size} {role}s, as in the log")
        model_names, log_names = getattr(model, f"{role}_names"), getattr(schema, f"{role}_names")
        for index, (model_name, log_name) in enumerate(zip(model_names, log_names, strict=False)):
            if model_name != log_name:
                raise_input_error(
                    argument, f"{model_name!r} as the name of {role} {index}", f"{log_name!r}, as in the log; {advice}"
                )
    cuts = schema.reward_scale.cuts
    if cuts is not None and not have_equal_cuts(cuts, model.reward_scale.cuts):
        expected = "the bins of the log; read the log with reward_values=model.reward_scale"
        raise_input_error(argument, "other reward bins", expected)
    is_unknown = ~np.isin(schema.reward_values, model.reward_values)
    if is_unknown.any():
        value = schema.reward_values[is_unknown][0].item()
        raise_input_error(argument, f"reward values without {value!r}", f"all rewards of the log; {advice}")


def has_end_state(model: RewardMixingMDP) -> bool:
    """Return whether the last state is the end state that recovery adds where episodes end early.

    The end state is absorbing and its reward is 0.
    """
    index = int(np.searchsorted(model.reward_values, 0.0))
    if (model.state_names and model.state_names[-1] != "end") or model.initial[-1] > 0 or model.num_states < 2:
        return False
    zero = index < model.num_values and model.reward_values[index] == 0.0
    zero_probs = model.reward_probs[:, -1, :, min(index, model.num_values - 1)]
    transitions = model.transition_rows[-model.num_actions :]
    stays = (transitions.toarray() if model.is_sparse else transitions)[:, -1]
    return bool(zero and (zero_probs == 1.0).all() and (stays == 1.0).all())


def read_options_from_model(model: RewardMixingMDP, log: Any, read_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return read options with the names, sizes and reward values of a model, unless the caller sets them."""
    options = {name: value for name, value in read_options.items() if value is not None}
    if isinstance(log, Log | Episodes) or is_dataset(log):
        return options
    states = model.num_states - has_end_state(model)
    defaults: dict[str, Any] = {"num_actions": model.num_actions, "action_names": model.action_names}
    if "min_state_count" not in options:
        defaults |= {"num_states": states, "state_names": model.state_names[:states]}
    # New bins would define other reward values, and the log would not fit the model. So the bins of the model are kept.
    if model.reward_scale.cuts is not None:
        options = {name: value for name, value in options.items() if name != "num_reward_bins"}
    if "num_reward_bins" not in options:
        defaults["reward_values"] = model.reward_scale
    return {**defaults, **options}
