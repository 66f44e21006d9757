"""Save and load every noun: one table says how each becomes arrays and metadata, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from rewardmix._core import storage
from rewardmix._core.checks import InputError, as_path, refuse, shown
from rewardmix._core.sparse_rows import rows_of
from rewardmix._core.storage import Arrays
from rewardmix.episodes import Episodes, pack_episodes, unpack_episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments, packed, unpacked
from rewardmix.online import Agent
from rewardmix.planning import AlphaVectors, Plan, PlanInfo, Round
from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy

Packed = tuple[Arrays, dict[str, Any]]


class Form(NamedTuple):
    """How one noun is stored."""

    noun: type
    pack: Callable[[Any], Packed]
    unpack: Callable[[Arrays, dict[str, Any]], Any]


def save(path: str | os.PathLike[str], noun: Any) -> None:
    """Write a noun to a file, atomically. Which nouns: the keys of ``FORMS``."""
    path = as_path("path", path)
    for kind, form in FORMS.items():
        if type(noun) is form.noun:
            storage.write_arrays(path, kind, *form.pack(noun))
            return
    refuse("noun", type(noun).__name__, f"one of {', '.join(form.noun.__name__ for form in FORMS.values())}")


def load(path: str | os.PathLike[str]) -> Any:
    """The noun in a file written by ``save``.

    Nothing in the file is trusted: its checksum must match, and the noun is made by the constructor that checks
    everybody's. A plan must have the lower end that its policy earns; its upper end is as claimed by the file.
    """
    path = as_path("path", path)
    kind, arrays, meta = storage.read_arrays(path, tuple(FORMS))
    name = os.fspath(path)
    try:
        noun = FORMS[kind].unpack(arrays, meta)
    except KeyError as error:
        raise InputError(f"path: found {name!r} without {error}, expected a whole {kind}") from error
    except InputError as error:
        raise InputError(f"path: found {name!r} with a wrong part, expected a {kind} ({error})") from error
    _check_nothing_else(name, kind, FORMS[kind].pack(noun), (arrays, meta))
    return noun


def _check_nothing_else(name: str, kind: str, expected: Packed, found: Packed) -> None:
    """Refuse what is in a file and not in its noun."""
    extra = [key for wanted, given in zip(expected, found, strict=True) for key in given if key not in wanted]
    if extra:
        refuse("path", f"{name!r} with {shown(repr(extra[0]))}", f"a {kind} and nothing else")


def _pack_model(model: RewardMixingMDP) -> Packed:
    arrays: Arrays = {name: getattr(model, name) for name in ("initial", "weights", "rewards", "reward_values")}
    if model.is_sparse:
        rows = model.transition
        arrays |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    else:
        arrays["transition"] = model.transition
    names = {"state_names": model.state_names, "action_names": model.action_names}
    return arrays, {"horizon": model.horizon, **names}


def _unpack_model(arrays: Arrays, meta: dict[str, Any]) -> RewardMixingMDP:
    transition: Any = arrays.get("transition")
    if transition is None:
        shape = arrays["indptr"].size - 1, arrays["initial"].size
        transition = rows_of("transition", arrays["data"], arrays["indices"], arrays["indptr"], shape)
    return RewardMixingMDP(
        transition,
        arrays["initial"],
        arrays["weights"],
        arrays["rewards"],
        storage.entry(meta, "horizon", int),
        arrays["reward_values"],
        *(_names(meta, name) for name in ("state_names", "action_names")),
    )


def _names(meta: dict[str, Any], name: str) -> tuple[str, ...]:
    names = storage.entry(meta, name, list)
    if any(type(one) is not str for one in names):
        refuse(name, "something that is no text", "names")
    return tuple(names)


def _steps(meta: dict[str, Any], arrays: Arrays) -> range:
    """The steps of tables that are stored one by one."""
    horizon = storage.entry(meta, "horizon", int)
    if not 1 <= horizon <= len(arrays):
        refuse("horizon", horizon, f"as many steps as there are tables, at most {len(arrays)}")
    return range(horizon)


def _pack_controller(policy: Controller) -> Packed:
    arrays: Arrays = {"first": policy.first, "reward_values": policy.reward_values}
    for t, (actions, successors) in enumerate(zip(policy.actions, policy.successors, strict=True)):
        arrays |= {f"actions.{t}": actions, f"successors.{t}": successors}
    return arrays, {"horizon": policy.horizon}


def _unpack_controller(arrays: Arrays, meta: dict[str, Any]) -> Controller:
    steps = _steps(meta, arrays)
    return Controller(
        tuple(arrays[f"actions.{t}"] for t in steps),
        tuple(arrays[f"successors.{t}"] for t in steps),
        arrays["first"],
        arrays["reward_values"],
    )


def _pack_vectors(vectors: AlphaVectors) -> Packed:
    arrays: Arrays = {f"values.{t}": values for t, values in enumerate(vectors.values)}
    arrays |= {f"actions.{t}": actions for t, actions in enumerate(vectors.actions)}
    return arrays, {"horizon": len(vectors.actions)}


def _unpack_vectors(arrays: Arrays, meta: dict[str, Any]) -> AlphaVectors:
    steps = _steps(meta, arrays)
    return AlphaVectors(tuple(arrays[f"values.{t}"] for t in steps), tuple(arrays[f"actions.{t}"] for t in steps))


def _pack_belief_policy(policy: BeliefPolicy) -> Packed:
    if not isinstance(policy.decide, AlphaVectors):
        refuse("noun", f"a BeliefPolicy that decides by {type(policy.decide).__name__}", "one that has AlphaVectors")
    return _joined({"model": _pack_model(policy.model), "vectors": _pack_vectors(policy.decide)})


def _unpack_belief_policy(arrays: Arrays, meta: dict[str, Any]) -> BeliefPolicy:
    model = _unpack_model(_part(arrays, "model"), storage.entry(meta, "model", dict))
    return BeliefPolicy(model, _unpack_vectors(_part(arrays, "vectors"), storage.entry(meta, "vectors", dict)))


def _pack_plan(plan: Plan) -> Packed:
    arrays, meta = _joined({"model": _pack_model(plan.model), "policy": _pack_controller(plan.policy)})
    info = asdict(plan.info)
    for done in info["rounds"]:
        del done["seconds"]  # not part of the answer: the same plan is the same file
    return arrays, {**meta, "lower": plan.lower, "upper": plan.upper, "info": info}


def _unpack_plan(arrays: Arrays, meta: dict[str, Any]) -> Plan:
    info = storage.entry(meta, "info", dict)
    rounds = [_fields(done, ("number", "points", "lower", "upper")) for done in storage.entry(info, "rounds", list)]
    said = _fields(info, ("converged", "asked", "reason", "rounds"))
    plan = Plan(
        policy=_unpack_controller(_part(arrays, "policy"), storage.entry(meta, "policy", dict)),
        lower=meta["lower"],
        upper=meta["upper"],
        info=PlanInfo(**{**said, "rounds": tuple(Round(**done, seconds=0.0) for done in rounds)}),
        model=_unpack_model(_part(arrays, "model"), storage.entry(meta, "model", dict)),
    )
    plan.check_lower()
    return plan


def _fields(said: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """A table of metadata with exactly these entries."""
    if not isinstance(said, dict) or said.keys() != set(names):
        refuse("info", "something else", f"a table of {', '.join(names)}")
    return said


def _joined(parts: dict[str, Packed]) -> Packed:
    """Several packed nouns as one, the name of each before its arrays."""
    arrays = {f"{name}/{key}": array for name, (held, _) in parts.items() for key, array in held.items()}
    return arrays, {name: meta for name, (_, meta) in parts.items()}


def _part(arrays: Arrays, name: str) -> Arrays:
    """The arrays of one of the nouns of ``_joined``."""
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}


def _pack_agent(agent: Agent) -> Packed:
    from rewardmix.online import agent_state  # with kernels

    arrays, meta, policies = agent_state.packed_agent(agent)
    parts = {f"policy.{number}": _pack_controller(policy) for number, policy in enumerate(policies)}
    held, said = _joined(parts)
    return {**arrays, **held}, {**meta, "policies": list(said.values())}


def _unpack_agent(arrays: Arrays, meta: dict[str, Any]) -> Agent:
    from rewardmix.online import agent_state

    said = storage.entry(meta, "policies", list)
    policies = [_unpack_controller(_part(arrays, f"policy.{number}"), told) for number, told in enumerate(said)]
    return agent_state.unpacked_agent(arrays, meta, policies)


FORMS = {
    "model": Form(RewardMixingMDP, _pack_model, _unpack_model),
    "markov policy": Form(
        MarkovPolicy, lambda policy: ({"table": policy.table}, {}), lambda arrays, meta: MarkovPolicy(arrays["table"])
    ),
    "controller": Form(Controller, _pack_controller, _unpack_controller),
    "alpha vectors": Form(AlphaVectors, _pack_vectors, _unpack_vectors),
    "belief policy": Form(BeliefPolicy, _pack_belief_policy, _unpack_belief_policy),
    "plan": Form(Plan, _pack_plan, _unpack_plan),
    "moments": Form(Moments, packed, unpacked),
    "episodes": Form(Episodes, pack_episodes, unpack_episodes),
    "agent": Form(Agent, _pack_agent, _unpack_agent),
}
"""Kind in the file -> its noun and the two ways."""
