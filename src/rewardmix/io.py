"""Save and load objects: a table lists how each type is converted to arrays and metadata, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from rewardmix._core import storage
from rewardmix._core.checks import InputError, as_path, format_value, raise_input_error
from rewardmix._core.csr_checks import make_csr
from rewardmix._core.storage import Arrays, Packed
from rewardmix.episodes import Episodes, pack_episodes, unpack_episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments, pack_moments, unpack_moments
from rewardmix.online import PosteriorSamplingAgent
from rewardmix.planning import AlphaVectors, Plan, PlanInfo, PlanProgress
from rewardmix.policy import (
    BeliefPolicy,
    Controller,
    MarkovPolicy,
    get_names,
    get_steps,
    pack_controller,
    unpack_controller,
)
from rewardmix.results import ResultMixin, import_attribute


class FileFormat(NamedTuple):
    """File format of one type.

    Attributes:
        stored_type: Type that is stored.
        pack: Function from the object to (arrays, metadata).
        unpack: Function from (arrays, metadata) to the object.
    """

    stored_type: type
    pack: Callable[[Any], Packed]
    unpack: Callable[[Arrays, dict[str, Any]], Any]


def save(path: str | os.PathLike[str], result: Any) -> None:
    """Save an object to a file. The file is replaced atomically.

    Args:
        path: File to write, usually ``*.safetensors``.
        result: Model, policy, plan, moments, episodes or agent: an instance of a type in ``FILE_FORMATS``.

    Returns:
        None.

    Raises:
        InputError: If objects of this type have no file format. Results of whole runs have their own ``save(folder)``.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import rewardmix as rm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "probe.safetensors"
        ...     rm.save(path, rm.make_model("probe"))
        ...     rm.load(path).num_states
        3
    """
    path = as_path("path", path)
    for kind, file_format in FILE_FORMATS.items():
        # Exact types only: a subclass may have fields that the file would lose.
        if type(result) is file_format.stored_type:
            storage.write_arrays(path, kind, *file_format.pack(result))
            return
    if isinstance(result, ResultMixin):
        raise_input_error(
            "result", type(result).__name__, "an object of one file; save a run with its method save(folder)"
        )
    raise_input_error(
        "result",
        type(result).__name__,
        f"one of {', '.join(file_format.stored_type.__name__ for file_format in FILE_FORMATS.values())}",
    )


def load(path: str | os.PathLike[str]) -> Any:
    """Load an object from a file of ``save``, or a run from its folder.

    The content is checked like user input: the checksum must match and the constructor checks all arrays. The lower
    bound of a plan must equal the value of its policy; its upper bound is taken from the file.

    Args:
        path: File of ``save``, or run folder as the command line and ``result.save`` write it.

    Returns:
        The object, or the result of the run.

    Raises:
        InputError: If the file is damaged, incomplete, or contains anything else.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import rewardmix as rm
        >>> plan = rm.plan(rm.make_model("probe"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "plan.safetensors"
        ...     rm.save(path, plan)
        ...     round(rm.load(path).lower, 2)
        4.58
    """
    path = as_path("path", path)
    if path.is_dir():
        return import_attribute("report.saved_runs", "load_run")(path)
    kind, arrays, meta = storage.read_arrays(path, tuple(FILE_FORMATS))
    name = os.fspath(path)
    try:
        loaded = FILE_FORMATS[kind].unpack(arrays, meta)
    except KeyError as error:
        raise InputError(f"path: got {name!r} without {error}, expected a complete file of kind {kind}") from error
    except InputError as error:
        raise InputError(f"path: got {name!r} with invalid content ({error}), expected a valid {kind}") from error
    _check_no_extra_entries(name, kind, FILE_FORMATS[kind].pack(loaded), (arrays, meta))
    return loaded


def _check_no_extra_entries(name: str, kind: str, expected: Packed, actual: Packed) -> None:
    """Raise an ``InputError`` for entries of a file that its object does not have."""
    extra = [key for required, value in zip(expected, actual, strict=True) for key in value if key not in required]
    if extra:
        raise_input_error(
            "path", f"{name!r} with {format_value(repr(extra[0]))}", f"no other entries than those of a {kind}"
        )


def _pack_model(model: RewardMixingMDP) -> Packed:
    """Convert a model to arrays and metadata."""
    arrays: Arrays = {name: getattr(model, name) for name in ("initial", "weights", "rewards", "reward_values")}
    # Optional entries are written only if they are present.
    if model.reward_scale.cuts is not None:
        arrays["reward_cuts"] = model.reward_scale.cuts
    if model.is_sparse:
        rows = model.transition
        arrays |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    else:
        arrays["transition"] = model.transition
    names = {"state_names": model.state_names, "action_names": model.action_names}
    types = {"type_names": model.type_names} if model.type_names else {}
    return arrays, {"horizon": model.horizon, **names, **types}


def _unpack_model(arrays: Arrays, meta: dict[str, Any]) -> RewardMixingMDP:
    """Build a model from arrays and metadata."""
    transition: Any = arrays.get("transition")
    if transition is None:
        shape = arrays["indptr"].size - 1, arrays["initial"].size
        transition = make_csr("transition", arrays["data"], arrays["indices"], arrays["indptr"], shape)
    return RewardMixingMDP(
        transition,
        arrays["initial"],
        arrays["weights"],
        arrays["rewards"],
        storage.get_metadata(meta, "horizon", int),
        arrays["reward_values"],
        get_names(meta, "state_names"),
        get_names(meta, "action_names"),
        get_names(meta, "type_names") if "type_names" in meta else (),
        arrays.get("reward_cuts"),
    )


def _pack_vectors(vectors: AlphaVectors) -> Packed:
    """Convert alpha vectors to arrays and metadata."""
    arrays: Arrays = {f"values.{t}": values for t, values in enumerate(vectors.values)}
    arrays |= {f"actions.{t}": actions for t, actions in enumerate(vectors.actions)}
    return arrays, {"horizon": len(vectors.actions)}


def _unpack_vectors(arrays: Arrays, meta: dict[str, Any]) -> AlphaVectors:
    """Build alpha vectors from arrays and metadata."""
    steps = get_steps(meta, arrays)
    return AlphaVectors(tuple(arrays[f"values.{t}"] for t in steps), tuple(arrays[f"actions.{t}"] for t in steps))


def _pack_belief_policy(policy: BeliefPolicy) -> Packed:
    """Convert a belief policy to arrays and metadata; its decision rule has to be alpha vectors."""
    if not isinstance(policy.decision_rule, AlphaVectors):
        raise_input_error(
            "result", f"a BeliefPolicy with a {type(policy.decision_rule).__name__}", "a BeliefPolicy with AlphaVectors"
        )
    return storage.join_packed({"model": _pack_model(policy.model), "vectors": _pack_vectors(policy.decision_rule)})


def _unpack_belief_policy(arrays: Arrays, meta: dict[str, Any]) -> BeliefPolicy:
    """Build a belief policy from arrays and metadata."""
    model = _unpack_model(storage.select_packed(arrays, "model"), storage.get_metadata(meta, "model", dict))
    return BeliefPolicy(
        model, _unpack_vectors(storage.select_packed(arrays, "vectors"), storage.get_metadata(meta, "vectors", dict))
    )


def _pack_plan(plan: Plan) -> Packed:
    """Convert a plan to arrays and metadata."""
    arrays, meta = storage.join_packed({"model": _pack_model(plan.model), "policy": pack_controller(plan.policy)})
    # State names and bin edges are stored with the model.
    meta["policy"].pop("state_names", None)
    arrays.pop("policy/reward_cuts", None)
    info = asdict(plan.info)
    for entry in info["rounds"]:
        # Run times are not part of the result: equal plans give equal files.
        del entry["seconds"]
    flags = {"restricted_to_support": True} if plan.restricted_to_support else {}
    return arrays, {**meta, "lower": plan.lower, "upper": plan.upper, "info": info, **flags}


def _unpack_plan(arrays: Arrays, meta: dict[str, Any]) -> Plan:
    """Build a plan from arrays and metadata, and check its lower bound."""
    info = storage.get_metadata(meta, "info", dict)
    rounds = [
        _require_keys(entry, ("index", "num_points", "lower", "upper"))
        for entry in storage.get_metadata(info, "rounds", list)
    ]
    fields = _require_keys(info, ("converged", "requested_gap", "stop_reason", "rounds"))
    plan = Plan(
        policy=unpack_controller(storage.select_packed(arrays, "policy"), storage.get_metadata(meta, "policy", dict)),
        lower=meta["lower"],
        upper=meta["upper"],
        info=PlanInfo(**{**fields, "rounds": tuple(PlanProgress(**entry, seconds=0.0) for entry in rounds)}),
        model=_unpack_model(storage.select_packed(arrays, "model"), storage.get_metadata(meta, "model", dict)),
        restricted_to_support=meta.get("restricted_to_support", False),
    )
    # A wrong lower bound in a file would otherwise be reported as certified.
    plan.check_lower()
    return plan


def _require_keys(metadata: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Check that a table of metadata has exactly these entries."""
    if not isinstance(metadata, dict) or metadata.keys() != set(names):
        raise_input_error("info", "other keys", f"a table with the keys {', '.join(names)}")
    return metadata


def _pack_agent(agent: PosteriorSamplingAgent) -> Packed:
    """Convert an agent to arrays and metadata."""
    # Imported here, because the module compiles kernels.
    from rewardmix.online.agent_io import pack_agent

    return pack_agent(agent)


def _unpack_agent(arrays: Arrays, meta: dict[str, Any]) -> PosteriorSamplingAgent:
    """Build an agent from arrays and metadata."""
    from rewardmix.online.agent_io import unpack_agent

    return unpack_agent(arrays, meta)


FILE_FORMATS = {
    "model": FileFormat(RewardMixingMDP, _pack_model, _unpack_model),
    "markov policy": FileFormat(
        MarkovPolicy, lambda policy: ({"table": policy.table}, {}), lambda arrays, meta: MarkovPolicy(arrays["table"])
    ),
    "controller": FileFormat(Controller, pack_controller, unpack_controller),
    "alpha vectors": FileFormat(AlphaVectors, _pack_vectors, _unpack_vectors),
    "belief policy": FileFormat(BeliefPolicy, _pack_belief_policy, _unpack_belief_policy),
    "plan": FileFormat(Plan, _pack_plan, _unpack_plan),
    "moments": FileFormat(Moments, pack_moments, unpack_moments),
    "episodes": FileFormat(Episodes, pack_episodes, unpack_episodes),
    "agent": FileFormat(PosteriorSamplingAgent, _pack_agent, _unpack_agent),
}
"""Name of the format in the file -> its type and conversions."""
