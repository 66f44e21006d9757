"""An agent as plain data, and back: arrays and metadata, with the controllers that its visits play.

Visits that ended are counted first, which changes nothing that the agent will do. Open visits are kept with what they
showed so far and with the policies that were shared out when they began.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core import storage
from rewardmix._core.checks import as_floats, as_indices, check_shape, refuse
from rewardmix._core.pair_counting import DIRTY, NEWS
from rewardmix._core.storage import Arrays, Packed
from rewardmix._core.widths import symbol_width
from rewardmix.moments import Moments, packed, unpacked
from rewardmix.online.agent import Agent, Visit
from rewardmix.online.decision import Decision
from rewardmix.online.drift import Alarm
from rewardmix.online.posterior import Chains
from rewardmix.online.prequential import FEWEST_CONTEXTS
from rewardmix.online.record import Record
from rewardmix.policy import Controller, pack_controller, unpack_controller
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import Mixture

SIZES = ("num_states", "num_actions", "horizon", "seed")
DRAWN = ("weights", "tables", "logliks")
MIXED = ("weights", "laws")


def packed_agent(agent: Agent) -> Packed:
    """Arrays and metadata of an agent."""
    with agent._learning:
        agent._count()
        with agent._lock:
            visits = [(visit, list(visit._steps)) for visit in agent._open.values()]
            decisions = _distinct([agent._decision, *(visit._decision for visit, _ in visits)])
            arrays, meta = _visits(visits, decisions)
            arrays |= {"stream": agent._stream.copy(), "shares": agent._shares.copy()}
            meta |= {name: getattr(agent, name) for name in SIZES}
            meta |= {"num_contexts": agent.settings.num_contexts, "memory": agent.settings.memory}
            meta |= {"begun": agent._begun, "switches": agent._switches}
        records = {f"record.{k}": _packed_record(record) for k, record in enumerate(agent._records())}
        held, meta["records"] = storage.joined(records)
        arrays |= held
        chains = agent._decision.chains
        arrays |= {name: getattr(chains, name) for name in DRAWN}
        arrays |= {
            f"forecast.{k}/{name}": getattr(mixture, name)
            for k, mixture in enumerate(agent._forecasts)
            for name in MIXED
        }
        known = {} if agent.weights is None else {"known_weights": agent.weights}
        meta |= {"seeded": chains.seeded, "forecasts": len(agent._forecasts), "forgotten": agent._forgotten}
        meta |= {"alarms": [asdict(alarm) for alarm in agent._alarms]}
    policies = [policy for decision in decisions for policy in decision.policies]
    held, said = storage.joined({f"policy.{k}": pack_controller(policy) for k, policy in enumerate(policies)})
    return arrays | known | held, meta | {"policies": list(said.values())}


def unpacked_agent(arrays: Arrays, meta: dict[str, Any]) -> Agent:
    """The way back from ``packed_agent``."""
    said = storage.entry(meta, "policies", list)
    policies = [unpack_controller(storage.part(arrays, f"policy.{k}"), told) for k, told in enumerate(said)]
    records = storage.entry(meta, "records", dict)
    seen = [_moments(arrays, records, k) for k in range(1 if meta["memory"] is None else 2)]
    agent = Agent(
        **{name: storage.entry(meta, name, int) for name in SIZES},
        num_contexts=meta["num_contexts"],
        memory=meta["memory"],
        reward_values=seen[0].reward_values,
        weights=arrays.get("known_weights"),
    )
    for k, (record, moments) in enumerate(zip(agent._records(), seen, strict=True)):
        record.tally.add(moments)
        _restore_record(record, storage.part(arrays, f"record.{k}"), records[f"record.{k}"])
    agent._forgotten = storage.entry(meta, "forgotten", int)
    agent._alarms = [_alarm(told) for told in storage.entry(meta, "alarms", list)]
    agent._forecasts = tuple(
        _forecast(agent, storage.part(arrays, f"forecast.{k}"), k) for k in range(storage.entry(meta, "forecasts", int))
    )
    decisions = _decisions(agent, arrays, meta, policies)
    agent._decision = decisions[0]
    for name in ("stream", "shares"):
        state = getattr(agent, f"_{name}")
        state[:] = _like(state, name, arrays[name])
    agent._begun, agent._switches = (storage.entry(meta, name, int) for name in ("begun", "switches"))
    _restore_visits(agent, arrays, meta, decisions)
    return agent


def _distinct(decisions: list[Decision]) -> list[Decision]:
    """Each decision once, the first one first."""
    return list({id(decision): decision for decision in decisions}.values())


def _visits(visits: list[tuple[Visit, list[Any]]], decisions: list[Decision]) -> tuple[Arrays, dict[str, Any]]:
    steps = [step for _, shown in visits for step in shown[1:]]
    place = {id(decision): number for number, decision in enumerate(decisions)}
    rows = [
        (shown[0], len(shown) - 1, place[id(v._decision)], [p is v._policy for p in v._decision.policies].index(True))
        for v, shown in visits
    ]
    arrays = {
        "open_visits": np.array(rows, np.int64).reshape(-1, 4),
        "open_steps": np.array(steps, np.int64).reshape(-1, 3),
    }
    facts = [
        {"policies": len(decision.policies), "explores": decision.explores, "uncertainty": decision.uncertainty}
        for decision in decisions
    ]
    return arrays, {"ids": [visit.id for visit, _ in visits], "decisions": facts}


def _packed_record(record: Record) -> Packed:
    record.merge()
    seen, sizes = packed(record.tally.moments())
    arrays = {f"seen/{name}": array for name, array in seen.items()}
    arrays |= _packed_bags("", record.bags) | _packed_bags("recent_", record.recent)
    arrays |= {"pair_limits": record.limits(), "visit_limits": record.tally.visit_limits.copy()}
    arrays |= {"due": record.tally.progress[[DIRTY, NEWS]], "moves_before": record.moves_before}
    return arrays, {"seen": sizes, "looked": record.looked, "turned": record.turned}


def _moments(arrays: Arrays, records: dict[str, Any], place: int) -> Moments:
    part = storage.part(arrays, f"record.{place}")
    return unpacked(
        storage.part(part, "seen"), storage.entry(storage.entry(records, f"record.{place}", dict), "seen", dict)
    )


def _alarm(told: Any) -> Alarm:
    kinds = {"episodes": int, "what": str, "place": int, "p_value": float}
    if not isinstance(told, dict) or {name: type(value) for name, value in told.items()} != kinds:
        refuse("alarms", "something else", f"tables of {', '.join(kinds)}")
    return Alarm(**told)


def _packed_bags(prefix: str, bags: Bags) -> Arrays:
    return {f"{prefix}{name}": getattr(bags, name) for name in ("symbols", "offsets", "counts")}


def _unpacked_bags(prefix: str, arrays: Arrays, num_points: int, num_values: int) -> Bags:
    symbols, offsets, counts = (arrays[f"{prefix}{name}"] for name in ("symbols", "offsets", "counts"))
    as_indices(f"{prefix}symbols", symbols, num_points * num_values, (None,))
    _check_type(f"{prefix}symbols", symbols, symbol_width(num_points * num_values))
    counts = as_floats(f"{prefix}counts", counts, (None,))
    check_shape(f"{prefix}offsets", offsets, (counts.size + 1,))
    _check_type(f"{prefix}offsets", offsets, np.dtype(np.int64))
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != symbols.size:
        refuse(f"{prefix}offsets", "something else", "where each bag begins")
    return Bags(symbols, offsets, counts, num_points, num_values)


def _like(own: NDArray[Any], name: str, array: NDArray[Any]) -> NDArray[Any]:
    """An array that comes in the place of one of the agent's, of the same shape and type."""
    check_shape(name, array, own.shape)
    _check_type(name, array, own.dtype)
    return array


def _check_type(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    if array.dtype != dtype:
        refuse(name, f"numbers of type {array.dtype}", f"of type {dtype}, as they were written")


def _restore_record(record: Record, arrays: Arrays, meta: dict[str, Any]) -> None:
    num_x, num_values = record.tally.num_x, record.bags.num_values
    record.bags, record.recent = (_unpacked_bags(prefix, arrays, num_x, num_values) for prefix in ("", "recent_"))
    record.tally.visit_limits[:] = _like(record.tally.visit_limits, "visit_limits", arrays["visit_limits"])
    record.set_limits(_like(record.limits(), "pair_limits", arrays["pair_limits"]))
    record.tally.progress[[DIRTY, NEWS]] = _like(np.zeros(2, np.int64), "due", arrays["due"])
    record.moves_before = _like(record.moves_before, "moves_before", arrays["moves_before"])
    as_indices("moves_before", record.moves_before, 1 << 62)
    record.looked, record.turned = (storage.entry(meta, name, int) for name in ("looked", "turned"))


def _forecast(agent: Agent, arrays: Arrays, place: int) -> Mixture:
    """What was expected of the episodes since the last turn."""
    contexts = FEWEST_CONTEXTS + place
    laws = as_floats("laws", arrays["laws"], (contexts, agent.settings.num_state_actions, agent.reward_values.size))
    return Mixture(as_floats("weights", arrays["weights"], (contexts,)), laws)


def _decisions(agent: Agent, arrays: Arrays, meta: dict[str, Any], policies: list[Controller]) -> list[Decision]:
    """Every decision that somebody follows; all of them with the chains of now."""
    blank = agent._decision.chains
    contexts = None if agent.settings.auto else blank.weights.shape[1]
    weights = as_floats("weights", arrays["weights"], (blank.number, contexts))
    tables = as_floats("tables", arrays["tables"], (blank.number, blank.tables.shape[1], weights.shape[1]))
    drawn = {"weights": weights, "tables": tables, "logliks": as_floats("logliks", arrays["logliks"], (blank.number,))}
    chains = Chains(**drawn, seeded=storage.number_entry(meta, "seeded"), known=agent.weights is not None)
    left, decisions = list(policies), []
    for facts in storage.entry(meta, "decisions", list):
        number = storage.entry(facts, "policies", int)
        mine, left = tuple(left[:number]), left[number:]
        for policy in mine:
            _check_policy(agent, policy)
        decisions.append(
            Decision(mine, storage.entry(facts, "explores", bool), storage.number_entry(facts, "uncertainty"), chains)
        )
    if left or not decisions or any(not decision.policies for decision in decisions):
        refuse("decisions", f"{len(policies)} policies", "the policies of at least one decision")
    return decisions


def _check_policy(agent: Agent, policy: Controller) -> None:
    mine = policy.horizon, policy.reward_values.tolist()
    if mine != (agent.horizon, agent.reward_values.tolist()) or policy.first.size != agent.num_states:
        refuse("policy", f"(horizon, reward values) = {mine}", "a policy of this agent")
    if max(int(actions.max()) for actions in policy.actions) >= agent.num_actions:
        refuse("policy", "an action that there is not", f"actions below {agent.num_actions}")


def _restore_visits(agent: Agent, arrays: Arrays, meta: dict[str, Any], decisions: list[Decision]) -> None:
    rows, steps, ids = arrays["open_visits"], arrays["open_steps"], storage.entry(meta, "ids", list)
    as_indices("open_visits", rows, 1 << 31, (len(ids), 4))
    as_indices("open_steps", steps, 1 << 31, (int(rows[:, 1].sum()), 3))
    for table, array in (("open_visits", rows), ("open_steps", steps)):
        _check_type(table, array, np.dtype(np.int64))
    begin = 0
    for name, (state, length, place, number) in zip(ids, rows.tolist(), strict=True):
        if type(name) not in (int, str) or name in agent._open or not 0 <= place < len(decisions):
            refuse("open_visits", repr(name), "a visit with an id of its own")
        decision = decisions[place]
        as_indices("open_visits", np.array([number]), len(decision.policies))
        policy = decision.policies[number]
        visit = agent._open[name] = Visit(agent, name, agent._state("state", state), decision, policy)
        for action, outcome, following in steps[begin : begin + length].tolist():
            if action != visit.action or not 0 <= outcome < agent.reward_values.size:
                refuse("open_steps", (action, outcome), "what its policy does, and an outcome that there is")
            visit.observe(float(agent.reward_values[outcome]), following)
        begin += length
