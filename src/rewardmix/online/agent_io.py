"""Convert an agent to plain data and back: arrays and metadata, with the controllers that open episodes play.

Closed episodes are counted first, which does not change what the agent does later. Open episodes are stored with their
steps and with all policies that they were drawn from, since their propensities depend on these.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core import storage
from rewardmix._core.checks import as_floats, as_indices, check_shape, raise_input_error
from rewardmix._core.int_dtypes import symbol_dtype
from rewardmix._core.pair_count_kernels import NEW_VISITS_SLOT, STALE_SLOT
from rewardmix._core.storage import Arrays, Packed
from rewardmix.moments import Moments, pack_moments, unpack_moments
from rewardmix.online.agent import OpenEpisode, PosteriorSamplingAgent
from rewardmix.online.drift_detection import DriftAlarm
from rewardmix.online.experience import Experience
from rewardmix.online.mcmc import MarkovChains
from rewardmix.online.prequential import MIN_TYPES
from rewardmix.online.thompson_sampling import PolicySet
from rewardmix.policy import Controller, pack_controller, unpack_controller
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.reward_patterns import RewardPatterns

SIZE_FIELDS = ("num_states", "num_actions", "horizon", "seed")
CHAIN_FIELDS = ("weights", "probs", "logliks")
MIXTURE_FIELDS = ("weights", "probs")
STREAM_FIELDS = ("update_stream", "episode_stream")


def pack_agent(agent: PosteriorSamplingAgent) -> Packed:
    """Convert an agent to arrays and metadata."""
    # ``_learning`` keeps experience and chains unchanged, ``_lock`` the open episodes. They are taken in the order in
    # which ``update`` takes them, which excludes a deadlock.
    with agent._learning:
        agent._flush_finished()
        with agent._lock:
            open_episodes = [(episode, list(episode._steps)) for episode in agent._open.values()]
            decisions = _unique_decisions([agent._decision, *(episode._decision for episode, _ in open_episodes)])
            arrays, meta = _pack_open_episodes(open_episodes, decisions)
            arrays |= {name: getattr(agent, f"_{name}").copy() for name in STREAM_FIELDS}
            meta |= {name: getattr(agent, name) for name in SIZE_FIELDS}
            meta |= {"num_types": agent.settings.num_types, "window": agent.settings.window}
            meta |= {"num_started": agent._num_started, "num_policy_changes": agent._num_policy_changes}
        records = {f"experience.{k}": _pack_experience(record) for k, record in enumerate(agent._experiences())}
        packed_arrays, meta["experiences"] = storage.join_packed(records)
        arrays |= packed_arrays
        chains = agent._decision.chains
        arrays |= {name: getattr(chains, name) for name in CHAIN_FIELDS}
        arrays |= {
            f"forecast.{k}/{name}": getattr(mixture, name)
            for k, mixture in enumerate(agent._forecasts)
            for name in MIXTURE_FIELDS
        }
        # Absent rather than empty: without the array the weights are estimated.
        weight_arrays = {} if agent.weights is None else {"known_weights": agent.weights}
        meta |= {
            "last_restart": chains.last_restart,
            "num_forecasts": len(agent._forecasts),
            "num_dropped": agent._num_dropped,
        }
        meta |= {"alarms": [asdict(alarm) for alarm in agent._alarms]}
    policies = [policy for decision in decisions for policy in decision.policies]
    packed_arrays, policy_meta = storage.join_packed(
        {f"policy.{k}": pack_controller(policy) for k, policy in enumerate(policies)}
    )
    return arrays | weight_arrays | packed_arrays, meta | {"policies": list(policy_meta.values())}


def unpack_agent(arrays: Arrays, meta: dict[str, Any]) -> PosteriorSamplingAgent:
    """Restore an agent from arrays and metadata; raise ``InputError`` if they are inconsistent."""
    policy_meta = storage.get_metadata(meta, "policies", list)
    policies = [
        unpack_controller(storage.select_packed(arrays, f"policy.{k}"), metadata)
        for k, metadata in enumerate(policy_meta)
    ]
    records = storage.get_metadata(meta, "experiences", dict)
    counts = [_unpack_moments(arrays, records, k) for k in range(1 if meta["window"] is None else 2)]
    agent = PosteriorSamplingAgent(
        **{name: storage.get_metadata(meta, name, int) for name in SIZE_FIELDS},
        num_types=meta["num_types"],
        window=meta["window"],
        reward_values=counts[0].reward_values,
        weights=arrays.get("known_weights"),
    )
    for k, (record, moments) in enumerate(zip(agent._experiences(), counts, strict=True)):
        record.counts.add(moments)
        _restore_experience(record, storage.select_packed(arrays, f"experience.{k}"), records[f"experience.{k}"])
    agent._num_dropped = storage.get_metadata(meta, "num_dropped", int)
    agent._alarms = [_unpack_alarm(metadata) for metadata in storage.get_metadata(meta, "alarms", list)]
    agent._forecasts = tuple(
        _unpack_forecast(agent, storage.select_packed(arrays, f"forecast.{k}"), k)
        for k in range(storage.get_metadata(meta, "num_forecasts", int))
    )
    # The constructor has drawn from fresh streams; the stored streams and policies replace what it made.
    decisions = _unpack_decisions(agent, arrays, meta, policies)
    agent._decision = decisions[0]
    for name in STREAM_FIELDS:
        state = getattr(agent, f"_{name}")
        state[:] = _check_like(state, name, arrays[name])
    agent._num_started, agent._num_policy_changes = (
        storage.get_metadata(meta, name, int) for name in ("num_started", "num_policy_changes")
    )
    _restore_open_episodes(agent, arrays, meta, decisions)
    return agent


def _unique_decisions(decisions: list[PolicySet]) -> list[PolicySet]:
    """Return each set of policies once, the current one first."""
    # By identity, as equal sets may have begun at different times and open episodes refer to one of them.
    return list({id(decision): decision for decision in decisions}.values())


def _pack_open_episodes(
    open_episodes: list[tuple[OpenEpisode, list[Any]]], decisions: list[PolicySet]
) -> tuple[Arrays, dict[str, Any]]:
    """Convert open episodes and their sets of policies to arrays and metadata."""
    steps = [step for _, episode_steps in open_episodes for step in episode_steps[1:]]
    # The index of the policy within its set is found by identity: one policy may occur several times.
    set_index = {id(decision): number for number, decision in enumerate(decisions)}
    rows = [
        (
            episode_steps[0],
            len(episode_steps) - 1,
            set_index[id(episode._decision)],
            [policy is episode._policy for policy in episode._decision.policies].index(True),
        )
        for episode, episode_steps in open_episodes
    ]
    arrays = {
        "open_episodes": np.array(rows, np.int64).reshape(-1, 4),
        "open_steps": np.array(steps, np.int64).reshape(-1, 3),
    }
    fields = [
        {
            "num_policies": len(decision.policies),
            "is_exploring": decision.is_exploring,
            "uncertainty": decision.uncertainty,
        }
        for decision in decisions
    ]
    return arrays, {"ids": [episode.id for episode, _ in open_episodes], "decisions": fields}


def _pack_experience(record: Experience) -> Packed:
    """Convert an experience to arrays and metadata."""
    # Unmerged patterns are merged first; merging later gives equal counts, so the agent's behavior does not change.
    record.merge_patterns()
    counts, sizes = pack_moments(record.counts.moments())
    arrays = {f"counts/{name}": array for name, array in counts.items()}
    arrays |= _pack_patterns("", record.patterns) | _pack_patterns("window_", record.window_patterns)
    arrays |= {"pair_limits": record.pair_limits(), "visit_limits": record.counts.visit_limits.copy()}
    arrays |= {
        "progress": record.counts.progress[[STALE_SLOT, NEW_VISITS_SLOT]],
        "transitions_before_window": record.transitions_before_window,
    }
    return arrays, {
        "counts": sizes,
        "last_replan_episode": record.last_replan_episode,
        "window_start_episode": record.window_start_episode,
    }


def _unpack_moments(arrays: Arrays, records: dict[str, Any], index: int) -> Moments:
    """Restore the sufficient counts of one experience by its number."""
    moment_arrays = storage.select_packed(arrays, f"experience.{index}")
    return unpack_moments(
        storage.select_packed(moment_arrays, "counts"),
        storage.get_metadata(storage.get_metadata(records, f"experience.{index}", dict), "counts", dict),
    )


def _unpack_alarm(metadata: Any) -> DriftAlarm:
    """Restore a drift alarm after a check of its fields and types."""
    kinds = {"num_episodes": int, "kind": str, "index": int, "p_value": float}
    if not isinstance(metadata, dict) or {name: type(value) for name, value in metadata.items()} != kinds:
        raise_input_error("alarms", "another value", f"tables of {', '.join(kinds)}")
    return DriftAlarm(**metadata)


def _pack_patterns(prefix: str, patterns: RewardPatterns) -> Arrays:
    """Convert reward patterns to arrays whose names begin with ``prefix``."""
    return {f"{prefix}{name}": getattr(patterns, name) for name in ("symbols", "offsets", "counts")}


def _unpack_patterns(prefix: str, arrays: Arrays, num_points: int, num_values: int) -> RewardPatterns:
    """Restore reward patterns after a check of types, index ranges and offsets."""
    symbols, offsets, counts = (arrays[f"{prefix}{name}"] for name in ("symbols", "offsets", "counts"))
    # Compiled kernels index without bounds checks: each index must be valid before they see it.
    as_indices(f"{prefix}symbols", symbols, num_points * num_values, (None,))
    _check_type(f"{prefix}symbols", symbols, symbol_dtype(num_points * num_values))
    counts = as_floats(f"{prefix}counts", counts, (None,))
    check_shape(f"{prefix}offsets", offsets, (counts.size + 1,))
    _check_type(f"{prefix}offsets", offsets, np.dtype(np.int64))
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != symbols.size:
        raise_input_error(f"{prefix}offsets", "other offsets", "the start of each pattern, in order")
    return RewardPatterns(symbols, offsets, counts, num_points, num_values)


def _check_like(current: NDArray[Any], name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Check that an array has shape and type of the agent's array that it replaces."""
    check_shape(name, array, current.shape)
    _check_type(name, array, current.dtype)
    return array


def _check_type(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Check the number type of an array."""
    if array.dtype != dtype:
        raise_input_error(name, f"numbers of type {array.dtype}", f"numbers of type {dtype}")


def _restore_experience(record: Experience, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Restore patterns, replanning limits and window of an experience."""
    num_state_actions, num_values = record.counts.num_state_actions, record.patterns.num_reward_values
    record.patterns, record.window_patterns = (
        _unpack_patterns(prefix, arrays, num_state_actions, num_values) for prefix in ("", "window_")
    )
    record.counts.visit_limits[:] = _check_like(record.counts.visit_limits, "visit_limits", arrays["visit_limits"])
    record.set_pair_limits(_check_like(record.pair_limits(), "pair_limits", arrays["pair_limits"]))
    # Whether replanning is due is state, too: without it a restored agent would replan at another episode.
    record.counts.progress[[STALE_SLOT, NEW_VISITS_SLOT]] = _check_like(
        np.zeros(2, np.int64), "progress", arrays["progress"]
    )
    record.transitions_before_window = _check_like(
        record.transitions_before_window, "transitions_before_window", arrays["transitions_before_window"]
    )
    as_indices("transitions_before_window", record.transitions_before_window, 1 << 62)
    record.last_replan_episode, record.window_start_episode = (
        storage.get_metadata(meta, name, int) for name in ("last_replan_episode", "window_start_episode")
    )


def _unpack_forecast(agent: PosteriorSamplingAgent, arrays: Arrays, index: int) -> Mixture:
    """Restore one of the mixtures that were fitted when the window of recent episodes began."""
    num_types = MIN_TYPES + index
    probs = as_floats("probs", arrays["probs"], (num_types, agent.settings.num_state_actions, agent.reward_values.size))
    return Mixture(as_floats("weights", arrays["weights"], (num_types,)), probs)


def _unpack_decisions(
    agent: PosteriorSamplingAgent, arrays: Arrays, meta: dict[str, Any], policies: list[Controller]
) -> list[PolicySet]:
    """Restore all sets of policies that are in use, each with the current chains."""
    current_chains = agent._decision.chains
    num_types = None if agent.settings.selects_num_types else current_chains.weights.shape[1]
    weights = as_floats("weights", arrays["weights"], (current_chains.num_chains, num_types))
    num_chains, num_symbols, _ = current_chains.probs.shape
    probs = as_floats("probs", arrays["probs"], (num_chains, num_symbols, weights.shape[1]))
    chain_arrays = {
        "weights": weights,
        "probs": probs,
        "logliks": as_floats("logliks", arrays["logliks"], (current_chains.num_chains,)),
    }
    chains = MarkovChains(
        **chain_arrays, last_restart=storage.number_entry(meta, "last_restart"), weights_known=agent.weights is not None
    )
    # The policies of all sets are stored in one list; each set takes its number from the front, and none may remain.
    remaining, decisions = list(policies), []
    for fields in storage.get_metadata(meta, "decisions", list):
        num_policies = storage.get_metadata(fields, "num_policies", int)
        set_policies, remaining = tuple(remaining[:num_policies]), remaining[num_policies:]
        for policy in set_policies:
            _check_policy(agent, policy)
        decisions.append(
            PolicySet(
                set_policies,
                storage.get_metadata(fields, "is_exploring", bool),
                storage.number_entry(fields, "uncertainty"),
                chains,
            )
        )
    if remaining or not decisions or any(not decision.policies for decision in decisions):
        raise_input_error("decisions", f"{len(policies)} policies", "the policies of at least one decision")
    return decisions


def _check_policy(agent: PosteriorSamplingAgent, policy: Controller) -> None:
    """Check that a policy fits the sizes of an agent."""
    policy_spec = policy.horizon, policy.reward_values.tolist()
    if policy_spec != (agent.horizon, agent.reward_values.tolist()) or policy.initial_nodes.size != agent.num_states:
        raise_input_error("policy", f"(horizon, reward values) = {policy_spec}", "a policy of this agent")
    max_action = max(int(actions.max()) for actions in policy.actions)
    if max_action >= agent.num_actions:
        raise_input_error("policy", f"action {max_action}", f"actions below {agent.num_actions}")


def _restore_open_episodes(
    agent: PosteriorSamplingAgent, arrays: Arrays, meta: dict[str, Any], decisions: list[PolicySet]
) -> None:
    """Restore open episodes by replaying their steps."""
    rows, steps, ids = arrays["open_episodes"], arrays["open_steps"], storage.get_metadata(meta, "ids", list)
    as_indices("open_episodes", rows, 1 << 31, (len(ids), 4))
    as_indices("open_steps", steps, 1 << 31, (int(rows[:, 1].sum()), 3))
    for array_name, array in (("open_episodes", rows), ("open_steps", steps)):
        _check_type(array_name, array, np.dtype(np.int64))
    begin = 0
    for name, (state, length, set_number, policy_number) in zip(ids, rows.tolist(), strict=True):
        if type(name) not in (int, str) or name in agent._open or not 0 <= set_number < len(decisions):
            raise_input_error("open_episodes", repr(name), "a unique episode id and the index of a policy set")
        decision = decisions[set_number]
        as_indices("open_episodes", np.array([policy_number]), len(decision.policies))
        policy = decision.policies[policy_number]
        episode = agent._open[name] = OpenEpisode(agent, name, agent._check_state("state", state), decision, policy)
        for action, reward_index, next_state in steps[begin : begin + length].tolist():
            # Replaying through ``observe`` restores controller memory and checks the steps: each action must be that of
            # the policy.
            if action != episode.action or not 0 <= reward_index < agent.reward_values.size:
                raise_input_error(
                    "open_steps", (action, reward_index), "the action of the policy, and the index of a reward value"
                )
            episode.observe(float(agent.reward_values[reward_index]), next_state)
        begin += length
