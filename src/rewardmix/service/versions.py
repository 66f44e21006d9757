"""Versions of the policy: their content, the world that they share, and which one new sessions get."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from rewardmix import io
from rewardmix._core.checks import as_instance, refuse
from rewardmix.logs.same_world import has_end
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.service.databases import WHOLE_STORE
from rewardmix.service.records import PROMOTED, Records, StoredPolicy, Totals, VersionRow


def policy_of_plan(plan: Plan) -> StoredPolicy:
    """A plan as a version keeps it."""
    content = plan_bytes(plan)
    return StoredPolicy(hashlib.sha256(content).hexdigest(), content, world_of(plan.model))


def world_of(model: RewardMixingMDP) -> str:
    """What all versions in a store have in common; the end that a fit may add is no state that anybody can be in."""
    states = model.num_states - has_end(model)
    sizes = {"states": states, "actions": model.num_actions, "reward_values": model.reward_values.tolist()}
    names = {"state_names": model.state_names[:states], "action_names": model.action_names}
    cuts = model.reward_scale.cuts
    return json.dumps({**sizes, **names, **({} if cuts is None else {"reward_cuts": cuts.tolist()})})


def plan_bytes(plan: Plan) -> bytes:
    """A plan as the content of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.safetensors"
        io.save(path, plan)
        return path.read_bytes()


def plan_from(content: bytes) -> Plan:
    """The plan in the content of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.safetensors"
        path.write_bytes(content)
        return as_instance("plan", io.load(path), Plan)


def start_with(records: Records, policy: StoredPolicy) -> int:
    """The version that new sessions get in a service that is started with a policy.

    A policy that the service was not started with the last time is what new sessions get from now on. With the same one
    as before the service goes on where it was: with what it has learned since, or what was chosen by hand.
    """
    worlds = records.worlds()
    if not worlds and records.count_sessions():
        refuse("store", "sessions without any version of the policy", WHOLE_STORE)
    for world in worlds:
        if world != policy.world:
            refuse("store", "sessions of other states, actions or reward values", "a store of the same world")
    totals, given = records.totals(), records.version_of(policy.digest)
    if given is not None and given == totals.given:
        return totals.current
    if given is None:
        row = VersionRow(0, policy.digest, time.time(), None, None, PROMOTED, "", "{}")
        given = records.add_version(policy, row)
    records.set_total("given", given)
    records.set_total("held", 0)
    records.promote(given)
    return given


def world_in(records: Records) -> dict[str, Any]:
    """The states, actions and reward values that all versions of a store share."""
    text = next(iter(records.worlds()), "")
    try:
        world = json.loads(text)
        sizes = {"state_names": int(world["states"]), "action_names": int(world["actions"])}
        named = all(len(world[names]) in (0, size) for names, size in sizes.items())
        whole = named and bool([float(value) for value in world["reward_values"]])
    except (ValueError, TypeError, KeyError, RecursionError):
        whole = False
    if not whole:
        what = f"{text[:40]!r} for the states, actions and reward values" if text else "no version of the policy"
        refuse("store", what, WHOLE_STORE)
    return dict(world)


def told_version(row: VersionRow, totals: Totals) -> dict[str, Any]:
    """A version as clients are told of it."""
    state = "former" if row.state == PROMOTED else row.state
    return {
        "version": row.version,
        "state": "current" if row.version == totals.current else state,
        "origin": "given" if row.learned_from is None else "learned",
        "sessions": row.learned_from,
        "parent": row.parent,
        "added": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.added)),
        "digest": row.digest,
        "reason": row.reason,
        "evidence": json.loads(row.evidence),
    }
