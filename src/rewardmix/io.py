"""Save and load every noun: one table says how each becomes arrays and metadata, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from rewardmix._core import storage
from rewardmix._core.checks import InputError, as_path, refuse, shown
from rewardmix._core.sparse_rows import rows_of
from rewardmix._core.storage import Arrays, Packed
from rewardmix.episodes import Episodes, pack_episodes, unpack_episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments, packed, unpacked
from rewardmix.online import Agent
from rewardmix.planning import AlphaVectors, Plan, PlanInfo, Round
from rewardmix.policy import (
    BeliefPolicy,
    Controller,
    MarkovPolicy,
    pack_controller,
    stored_names,
    stored_steps,
    unpack_controller,
)
from rewardmix.telling import Telling, looked_up


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
    if isinstance(noun, Telling):
        refuse("noun", type(noun).__name__, "a noun of one file; a whole run is kept by its own save(folder)")
    refuse("noun", type(noun).__name__, f"one of {', '.join(form.noun.__name__ for form in FORMS.values())}")


def load(path: str | os.PathLike[str]) -> Any:
    """The noun in a file written by ``save``, or the run in a folder, as the command line and ``result.save`` write it.

    Nothing in the file is trusted: its checksum must match, and the noun is made by the constructor that checks
    everybody's. A plan must have the lower end that its policy earns; its upper end is as claimed by the file.
    """
    path = as_path("path", path)
    if path.is_dir():
        return looked_up("report.saved_runs", "load_run")(path)
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
    if model.reward_scale.cuts is not None:  # files without are of any version
        arrays["reward_cuts"] = model.reward_scale.cuts
    if model.is_sparse:
        rows = model.transition
        arrays |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    else:
        arrays["transition"] = model.transition
    names = {"state_names": model.state_names, "action_names": model.action_names}
    types = {"context_names": model.context_names} if model.context_names else {}  # files without are of any version
    return arrays, {"horizon": model.horizon, **names, **types}


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
        stored_names(meta, "state_names"),
        stored_names(meta, "action_names"),
        stored_names(meta, "context_names") if "context_names" in meta else (),
        arrays.get("reward_cuts"),
    )


def _pack_vectors(vectors: AlphaVectors) -> Packed:
    arrays: Arrays = {f"values.{t}": values for t, values in enumerate(vectors.values)}
    arrays |= {f"actions.{t}": actions for t, actions in enumerate(vectors.actions)}
    return arrays, {"horizon": len(vectors.actions)}


def _unpack_vectors(arrays: Arrays, meta: dict[str, Any]) -> AlphaVectors:
    steps = stored_steps(meta, arrays)
    return AlphaVectors(tuple(arrays[f"values.{t}"] for t in steps), tuple(arrays[f"actions.{t}"] for t in steps))


def _pack_belief_policy(policy: BeliefPolicy) -> Packed:
    if not isinstance(policy.decide, AlphaVectors):
        refuse("noun", f"a BeliefPolicy that decides by {type(policy.decide).__name__}", "one that has AlphaVectors")
    return storage.joined({"model": _pack_model(policy.model), "vectors": _pack_vectors(policy.decide)})


def _unpack_belief_policy(arrays: Arrays, meta: dict[str, Any]) -> BeliefPolicy:
    model = _unpack_model(storage.part(arrays, "model"), storage.entry(meta, "model", dict))
    return BeliefPolicy(model, _unpack_vectors(storage.part(arrays, "vectors"), storage.entry(meta, "vectors", dict)))


def _pack_plan(plan: Plan) -> Packed:
    arrays, meta = storage.joined({"model": _pack_model(plan.model), "policy": pack_controller(plan.policy)})
    meta["policy"].pop("state_names", None)  # those of the model
    arrays.pop("policy/reward_cuts", None)
    info = asdict(plan.info)
    for done in info["rounds"]:
        del done["seconds"]  # not part of the answer: the same plan is the same file
    kept = {"kept": True} if plan.kept else {}
    return arrays, {**meta, "lower": plan.lower, "upper": plan.upper, "info": info, **kept}


def _unpack_plan(arrays: Arrays, meta: dict[str, Any]) -> Plan:
    info = storage.entry(meta, "info", dict)
    rounds = [_fields(done, ("number", "points", "lower", "upper")) for done in storage.entry(info, "rounds", list)]
    said = _fields(info, ("converged", "asked", "reason", "rounds"))
    plan = Plan(
        policy=unpack_controller(storage.part(arrays, "policy"), storage.entry(meta, "policy", dict)),
        lower=meta["lower"],
        upper=meta["upper"],
        info=PlanInfo(**{**said, "rounds": tuple(Round(**done, seconds=0.0) for done in rounds)}),
        model=_unpack_model(storage.part(arrays, "model"), storage.entry(meta, "model", dict)),
        kept=meta.get("kept", False),
    )
    plan.check_lower()
    return plan


def _fields(said: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """A table of metadata with exactly these entries."""
    if not isinstance(said, dict) or said.keys() != set(names):
        refuse("info", "something else", f"a table of {', '.join(names)}")
    return said


def _pack_agent(agent: Agent) -> Packed:
    from rewardmix.online.agent_state import packed_agent  # with kernels

    return packed_agent(agent)


def _unpack_agent(arrays: Arrays, meta: dict[str, Any]) -> Agent:
    from rewardmix.online.agent_state import unpacked_agent

    return unpacked_agent(arrays, meta)


FORMS = {
    "model": Form(RewardMixingMDP, _pack_model, _unpack_model),
    "markov policy": Form(
        MarkovPolicy, lambda policy: ({"table": policy.table}, {}), lambda arrays, meta: MarkovPolicy(arrays["table"])
    ),
    "controller": Form(Controller, pack_controller, unpack_controller),
    "alpha vectors": Form(AlphaVectors, _pack_vectors, _unpack_vectors),
    "belief policy": Form(BeliefPolicy, _pack_belief_policy, _unpack_belief_policy),
    "plan": Form(Plan, _pack_plan, _unpack_plan),
    "moments": Form(Moments, packed, unpacked),
    "episodes": Form(Episodes, pack_episodes, unpack_episodes),
    "agent": Form(Agent, _pack_agent, _unpack_agent),
}
"""Kind in the file -> its noun and the two ways."""
