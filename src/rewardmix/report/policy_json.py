"""Export a policy as plain data: one JSON object with everything that a player without Python needs.

    columns[t][k][s]  node n of controller memory k at step t in state s
    nodes[t][n]       [action, memory after reward value 0, after reward value 1, ...]; at the last step [action]
    first[s]          initial memory of an episode that begins in s

One step of play is ``n = columns[t][k][s]``, ``action = nodes[t][n][0]``, and after reward value z the memory is
``nodes[t][n][1 + z]``. Memories that no sequence of rewards reaches are left out. Memories with equal behavior in all
futures are merged. Any next state is accepted, also one that the model calls impossible, because a front end may
observe it.

The remaining fields serve the belief (weights, rewards) and display (names, possible next states).
"""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import as_instance, raise_input_error
from rewardmix._version import __version__
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller, MarkovPolicy

FORMAT = "rewardmix-policy"
FORMAT_VERSION = 2


def policy_to_dict(policy: Controller | MarkovPolicy, model: RewardMixingMDP, title: str = "") -> dict[str, Any]:
    """Convert a policy to JSON data for ``player.js``.

    Args:
        policy: Controller, or a Markov policy with deterministic actions.
        model: Model for which the policy was made; the player computes beliefs from it.
        title: Title for display.

    Returns:
        Dictionary of JSON types with the controller tables, the model's weights and rewards, and names.

    Raises:
        InputError: If the policy is stochastic or does not fit the model.
    """
    as_instance("model", model, RewardMixingMDP)
    controller = to_controller(policy, model)
    controller.check_fits(model)
    columns, nodes, first = compact_tables(controller)
    cuts = model.reward_scale.cuts
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "rewardmix": __version__,
        "title": title,
        "horizon": model.horizon,
        "state_names": list(model.state_labels),
        "action_names": list(model.action_labels),
        "type_names": list(model.type_labels),
        "reward_values": model.reward_values.tolist(),
        **({} if cuts is None else {"reward_cuts": cuts.tolist()}),
        "weights": model.weights.tolist(),
        "rewards": model.rewards.tolist(),
        "starts": np.flatnonzero(model.initial > 0).tolist(),
        "next_states": list_possible_next_states(model),
        "first": first,
        "columns": columns,
        "nodes": nodes,
    }


def to_controller(policy: Any, model: RewardMixingMDP) -> Controller:
    """Convert a policy to a controller; a deterministic Markov policy needs a single memory."""
    if isinstance(policy, Controller):
        return policy
    if not isinstance(policy, MarkovPolicy):
        raise_input_error("policy", type(policy).__name__, "a Controller, or a deterministic MarkovPolicy")
    policy.check_fits(model)
    # Exactly 1: a probability of 0.999 is a stochastic policy, and rounding it would change its value.
    is_deterministic = policy.table.max(axis=-1) == 1.0
    if not is_deterministic.all():
        step, state = (int(i) for i in np.argwhere(~is_deterministic)[0])
        raise_input_error("policy", f"random actions at step {step} in state {state}", "a deterministic policy")
    actions = tuple(table.argmax(axis=-1)[:, None] for table in policy.table)
    next_nodes = tuple(np.zeros((*step_actions.shape, model.num_values), np.int64) for step_actions in actions)
    return Controller(actions, next_nodes, np.zeros(model.num_states, np.int64), model.reward_values)


def list_possible_next_states(model: RewardMixingMDP) -> list[list[int] | None]:
    """List the possible next states of each state-action index x = s*A + a; ``None`` if every state is possible."""
    from scipy.sparse import csr_array

    transition_rows = csr_array(model.transition_rows)
    next_states: list[list[int] | None] = []
    for x in range(transition_rows.shape[0]):
        entries = slice(transition_rows.indptr[x], transition_rows.indptr[x + 1])
        states = np.sort(transition_rows.indices[entries][transition_rows.data[entries] > 0])
        next_states.append(None if states.size == model.num_states else states.tolist())
    return next_states


def compact_tables(policy: Controller) -> tuple[list[Any], list[Any], list[int]]:
    """Return (columns, nodes, first) of a controller without unreachable memories and without duplicates."""
    is_reachable = _reachable_nodes(policy)
    columns: list[Any] = []
    nodes: list[Any] = []
    # Backwards in time, as in minimization of automata: after the memories of step t + 1 are merged, two memories of
    # step t are equal if their actions and their merged successors are equal.
    next_memory = np.zeros(1, np.int64)
    for t in reversed(range(policy.horizon)):
        memories = np.flatnonzero(is_reachable[t])
        actions = np.asarray(policy.actions[t][:, memories], np.int64)
        row_columns = [actions]
        if t < policy.horizon - 1:
            row_columns += [next_memory[policy.next_nodes[t][:, memories, z]] for z in range(policy.reward_values.size)]
        rows = np.stack([array.T for array in row_columns], axis=-1)
        unique_nodes, node_index = np.unique(rows.reshape(-1, len(row_columns)), axis=0, return_inverse=True)
        unique_columns, memory_index = np.unique(node_index.reshape(memories.size, -1), axis=0, return_inverse=True)
        columns.append(unique_columns.tolist())
        nodes.append(unique_nodes.tolist())
        # Unreachable memories get -1. No reachable memory leads to one, so -1 is never written.
        next_memory = np.full(is_reachable[t].size, -1, np.int64)
        next_memory[memories] = memory_index.ravel()
    return columns[::-1], nodes[::-1], next_memory[np.asarray(policy.initial_nodes)].tolist()


def _reachable_nodes(policy: Controller) -> list[NDArray[np.bool_]]:
    """Mark at each step the memories (K_t,) that some sequence of states and rewards reaches."""
    is_reachable = [np.zeros(actions.shape[1], bool) for actions in policy.actions]
    is_reachable[0][np.asarray(policy.initial_nodes)] = True
    for t in range(policy.horizon - 1):
        is_reachable[t + 1][np.unique(policy.next_nodes[t][:, is_reachable[t]])] = True
    return is_reachable


def load_player_js() -> str:
    """Load the JavaScript module that plays the data of ``policy_to_dict``."""
    return resources.files("rewardmix.report").joinpath("player.js").read_text("utf-8")


def to_json(data: Any) -> str:
    """Convert data to JSON text: NumPy values become numbers, NaN and infinity become null."""
    text = json.dumps(to_plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate cannot be encoded in UTF-8; it is written as a JSON escape.
    return text.encode("utf-8", "backslashreplace").decode()


def to_plain(data: Any) -> Any:
    """Convert NumPy arrays, tuples and non-finite numbers to JSON types."""
    if isinstance(data, dict):
        return {str(key): to_plain(value) for key, value in data.items()}
    if isinstance(data, np.ndarray):
        return to_plain(data.tolist())
    if isinstance(data, list | tuple):
        return [to_plain(value) for value in data]
    if isinstance(data, np.generic):
        return to_plain(data.item())
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
