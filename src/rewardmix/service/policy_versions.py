"""Serialize policy versions, check that they fit the store, and select the one that new sessions get."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from rewardmix import io
from rewardmix._core.checks import as_instance, raise_input_error
from rewardmix.logs.schema_match import has_end_state
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.service.databases import EXPECTED_STORE
from rewardmix.service.records import ACTIVATED, PolicyBlob, Records, Totals, VersionRow


def make_policy_blob(plan: Plan) -> PolicyBlob:
    """Serialize a plan with its digest and spec."""
    content = serialize_plan(plan)
    return PolicyBlob(hashlib.sha256(content).hexdigest(), content, make_spec_json(plan.model))


def make_spec_json(model: RewardMixingMDP) -> str:
    """Return the spec that all versions of a store share, as JSON, without the end state of a fit."""
    # The fit adds the end state: clients never send it, and initial policies do not have it.
    num_states = model.num_states - has_end_state(model)
    sizes = {"num_states": num_states, "num_actions": model.num_actions, "reward_values": model.reward_values.tolist()}
    names = {"state_names": model.state_names[:num_states], "action_names": model.action_names}
    cuts = model.reward_scale.cuts
    return json.dumps({**sizes, **names, **({} if cuts is None else {"reward_cuts": cuts.tolist()})})


def serialize_plan(plan: Plan) -> bytes:
    """Serialize a plan to the content of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.safetensors"
        io.save(path, plan)
        return path.read_bytes()


def deserialize_plan(content: bytes) -> Plan:
    """Deserialize a plan from the content of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.safetensors"
        path.write_bytes(content)
        return as_instance("plan", io.load(path), Plan)


def init_active_version(records: Records, policy: PolicyBlob) -> int:
    """Return the active version of a service that starts with a policy.

    A policy other than that of the last start becomes active. With the policy of the last start, the service continues
    where it was: with the last refit or the version activated by hand.
    """
    specs = records.list_specs()
    if not specs and records.count_sessions():
        raise_input_error("store", "sessions but no version of the policy", EXPECTED_STORE)
    # Stored sessions contain indices, which mean something else with other states or actions.
    for spec in specs:
        if spec != policy.spec:
            raise_input_error(
                "store", "sessions of other states, actions or reward values", "those of the policy; use another store"
            )
    totals, version = records.totals(), records.find_version(policy.digest)
    if version is not None and version == totals.initial_version:
        return totals.active_version
    if version is None:
        row = VersionRow(0, policy.digest, time.time(), None, None, ACTIVATED, "", "{}")
        version = records.add_version(policy, row)
    records.set_total("initial_version", version)
    records.set_total("pinned", 0)
    records.activate_version(version)
    return version


def read_spec(records: Records) -> dict[str, Any]:
    """Return the spec (states, actions, reward values) that all versions of a store share."""
    text = next(iter(records.list_specs()), "")
    try:
        spec = json.loads(text)
        sizes = {"state_names": int(spec["num_states"]), "action_names": int(spec["num_actions"])}
        has_sizes = all(len(spec[names]) in (0, size) for names, size in sizes.items())
        is_valid = has_sizes and bool([float(value) for value in spec["reward_values"]])
    except (ValueError, TypeError, KeyError, RecursionError):
        is_valid = False
    if not is_valid:
        actual = f"{text[:40]!r} for the states, actions and reward values" if text else "no version of the policy"
        raise_input_error("store", actual, EXPECTED_STORE)
    return dict(spec)


def describe_version(row: VersionRow, totals: Totals) -> dict[str, Any]:
    """Describe a version for clients."""
    state = "retired" if row.state == ACTIVATED else row.state
    return {
        "version": row.version,
        "state": "active" if row.version == totals.active_version else state,
        "origin": "provided" if row.num_training_sessions is None else "refit",
        "num_training_sessions": row.num_training_sessions,
        "parent": row.parent,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.created_at)),
        "digest": row.digest,
        "reason": row.reason,
        "evidence": json.loads(row.evidence),
    }
