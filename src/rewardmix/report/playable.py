"""A policy as plain data: everything that a player without Python needs, as one JSON object.

    columns[t][k][s]  node n that memory k is in at step t when the state is s
    nodes[t][n]       [action, memory after reward value 0, after reward value 1, ...]; at the last step [action]
    first[s]          memory of an episode that begins in s

So one step of play is ``n = columns[t][k][s]``, ``action = nodes[t][n][0]``, and after reward value z the memory is
``nodes[t][n][1 + z]``. Memories that no sequence of rewards leads to are left out, and memories that play alike from
here on, whatever happens, are one. Any next state is accepted, also one that the model calls impossible: a front end
may meet it.

The rest is for the belief (weights, rewards) and for people (names, which next states are possible).
"""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import as_instance, refuse
from rewardmix._version import __version__
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller, MarkovPolicy

FORMAT = "rewardmix-policy"
FORMAT_VERSION = 1


def playable(policy: Controller | MarkovPolicy, model: RewardMixingMDP, title: str = "") -> dict[str, Any]:
    """The policy and what ``model`` says of beliefs, as JSON data for ``player.js``.

    Args:
        policy: a controller, or a Markov table that draws no action by chance.
        model: the world as the policy believes it to be.
        title: for people.
    """
    as_instance("model", model, RewardMixingMDP)
    controller = controller_of(policy, model)
    controller.check_fits(model)
    columns, nodes, first = compacted(controller)
    cuts = model.reward_scale.cuts
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "rewardmix": __version__,
        "title": title,
        "horizon": model.horizon,
        "state_names": list(model.state_labels),
        "action_names": list(model.action_labels),
        "context_names": list(model.type_labels),
        "reward_values": model.reward_values.tolist(),
        **({} if cuts is None else {"reward_cuts": cuts.tolist()}),
        "weights": model.weights.tolist(),
        "rewards": model.rewards.tolist(),
        "starts": np.flatnonzero(model.initial > 0).tolist(),
        "next_states": possible_next(model),
        "first": first,
        "columns": columns,
        "nodes": nodes,
    }


def controller_of(policy: Any, model: RewardMixingMDP) -> Controller:
    """A policy as a controller: itself, or a Markov table of sure actions with a single memory."""
    if isinstance(policy, Controller):
        return policy
    if not isinstance(policy, MarkovPolicy):
        refuse("policy", type(policy).__name__, "a Controller, or a MarkovPolicy whose actions are sure")
    policy.check_fits(model)
    sure = policy.table.max(axis=-1) == 1.0
    if not sure.all():
        step, state = (int(i) for i in np.argwhere(~sure)[0])
        refuse("policy", f"a draw between actions at step {step} in state {state}", "actions that are sure")
    actions = tuple(table.argmax(axis=-1)[:, None] for table in policy.table)
    successors = tuple(np.zeros((*part.shape, model.num_values), np.int64) for part in actions)
    return Controller(actions, successors, np.zeros(model.num_states, np.int64), model.reward_values)


def possible_next(model: RewardMixingMDP) -> list[list[int] | None]:
    """For each x = s*A + a the states that may follow; None where every state may."""
    from scipy.sparse import csr_array

    rows = csr_array(model.transition_rows)
    lists: list[list[int] | None] = []
    for x in range(rows.shape[0]):
        entries = slice(rows.indptr[x], rows.indptr[x + 1])
        states = np.sort(rows.indices[entries][rows.data[entries] > 0])
        lists.append(None if states.size == model.num_states else states.tolist())
    return lists


def compacted(policy: Controller) -> tuple[list[Any], list[Any], list[int]]:
    """(columns, nodes, first): the controller without what is never reached and without what is there twice."""
    used = _reached(policy)
    columns: list[Any] = []
    nodes: list[Any] = []
    onward = np.zeros(1, np.int64)
    for t in reversed(range(policy.horizon)):
        keep = np.flatnonzero(used[t])
        actions = np.asarray(policy.actions[t][:, keep], np.int64)
        parts = [actions]
        if t < policy.horizon - 1:
            parts += [onward[policy.successors[t][:, keep, z]] for z in range(policy.reward_values.size)]
        rows = np.stack([part.T for part in parts], axis=-1)
        unique, which = np.unique(rows.reshape(-1, len(parts)), axis=0, return_inverse=True)
        merged, place = np.unique(which.reshape(keep.size, -1), axis=0, return_inverse=True)
        columns.append(merged.tolist())
        nodes.append(unique.tolist())
        onward = np.full(used[t].size, -1, np.int64)
        onward[keep] = place.ravel()
    return columns[::-1], nodes[::-1], onward[np.asarray(policy.first)].tolist()


def _reached(policy: Controller) -> list[NDArray[np.bool_]]:
    """For each step which of its K_t memories some sequence of states and rewards leads to."""
    used = [np.zeros(actions.shape[1], bool) for actions in policy.actions]
    used[0][np.asarray(policy.first)] = True
    for t in range(policy.horizon - 1):
        used[t + 1][np.unique(policy.successors[t][:, used[t]])] = True
    return used


def player_source() -> str:
    """The JavaScript module that plays what ``playable`` gives."""
    return resources.files("rewardmix.report").joinpath("player.js").read_text("utf-8")


def as_json(data: Any) -> str:
    """JSON text that any reader takes: numpy values as numbers, NaN and infinities as null."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()  # half a character, as JSON writes it


def plain(data: Any) -> Any:
    """Data as JSON knows it."""
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, np.ndarray):
        return plain(data.tolist())
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if isinstance(data, np.generic):
        return plain(data.item())
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
