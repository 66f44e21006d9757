"""Constructors called with anything: each call is refused, or what it gives can be used.

    python tests/fuzz/constructors.py --tries 5000 [--seed 0]

A call begins with arguments that are right, some of which are then changed: entries, types, shapes, sizes, or something
else altogether. After the call the caller writes garbage into the arrays that it gave, as it may. What was made is then
counted, played and evaluated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from scipy.sparse import csc_array, csr_array

from fuzz.files import ODD, play_by_hand, use_noun, world
from rewardmix import Episodes, explore, plan, simulate, uniform_policy
from rewardmix.exploration.checkpoints import ExplorationState
from rewardmix.exploration.exploration_result import ExplorationResult
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import AlphaVectors, Plan, PlanInfo, PlanProgress
from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy

THINGS: list[Any] = [
    None,
    True,
    "x",
    "",
    b"x",
    [],
    (),
    {},
    object(),
    1.5,
    -1,
    0,
    3,
    10**400,
    float("nan"),
    float("inf"),
]
THINGS += [
    2**31,
    2**62,
    2**63,
    -(2**63),
    1j,
    [[1], [1, 2]],
    np.float32(1.0),
    np.int8(3),
    lambda *_: 0,
    lambda *_: 10**6,
]
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex128",
    "object",
    "<U4",
    ">i4",
    ">f8",
    "M8[s]",
]


@cache
def right() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Constructors, each with arguments that are right."""
    model = world()
    planned = plan(model, gap=1e-2)
    played = simulate(uniform_policy(model), model, 10)
    counted = Moments.from_episodes(played)
    result = explore(model, num_episodes=10)
    rows = csr_array(np.asarray(model.transition).reshape(-1, model.num_states))

    def fields(instance: Any, *names: str) -> dict[str, Any]:
        return {name: getattr(instance, name) for name in names}

    sizes = ("num_states", "num_actions", "reward_values")
    of_model = fields(model, "initial", "weights", "rewards", "horizon", "reward_values", "state_names", "action_names")
    of_moments = fields(
        counted,
        "horizon",
        "num_episodes",
        "initial_counts",
        "transition_counts",
        "reward_counts",
        "pair_keys",
        "pair_tables",
        *sizes,
    )
    of_plan = fields(planned, "policy", "lower", "upper", "info", "model")
    of_found = fields(result, "moments", "num_episodes", "uncertainty", "episodes", "rng_state", "info")
    saved = {
        "moments": counted,
        "rng_state": result.rng_state,
        "uncertainty_curve": result.info.uncertainty_curve,
        "plan_counters": {"operations": 1},
    }
    return {
        "Episodes": (Episodes, fields(played, "states", "actions", "reward_indices", "lengths", *sizes)),
        "from_arrays": (Episodes.from_arrays, fields(played, "states", "actions", "rewards", "lengths", *sizes)),
        "Moments": (Moments, of_moments),
        "empty": (Moments.empty, fields(counted, "num_states", "num_actions", "horizon", "reward_values")),
        "model": (RewardMixingMDP, {"transition": model.transition, **of_model}),
        "rows": (RewardMixingMDP, {"transition": rows, **of_model}),
        "columns": (RewardMixingMDP, {"transition": csc_array(rows), **of_model}),
        "MarkovPolicy": (MarkovPolicy, {"table": uniform_policy(model).table}),
        "Controller": (Controller, fields(planned.policy, "actions", "next_nodes", "initial_nodes", "reward_values")),
        "AlphaVectors": (AlphaVectors, fields(planned.alpha_vectors, "values", "actions")),
        "BeliefPolicy": (BeliefPolicy, {"model": model, "decision_rule": planned.alpha_vectors}),
        "Plan": (Plan, of_plan),
        "PlanInfo": (PlanInfo, fields(planned.info, "converged", "requested_gap", "stop_reason", "rounds")),
        "PlanProgress": (
            PlanProgress,
            fields(planned.info.rounds[0], "index", "num_points", "lower", "upper", "seconds"),
        ),
        "ExplorationResult": (ExplorationResult, of_found),
        "ExplorationState": (ExplorationState, {**saved, "episodes": played}),
    }


def attempt(seed: int, number: int, folder: Path) -> str:
    """One call."""
    rng = np.random.default_rng([seed, number])
    names = list(right())
    make, arguments = right()[names[number % len(names)]]
    given = {name: writeable(value) for name, value in arguments.items()}
    for _ in range(int(rng.choice([0, 1, 1, 1, 1, 2, 3]))):
        name = str(rng.choice(list(given)))
        given[name] = changed(given[name], rng)
    instance = make(**given)
    for value in given.values():
        scribble(value, rng)
    try:
        use(instance, int(rng.integers(1 << 30)))
    except AssertionError as error:
        return f"WRONG {error}"
    return "valid"


def use(instance: Any, seed: int) -> None:
    """Whatever it is for."""
    if isinstance(instance, ExplorationResult):
        explore(
            world(), num_episodes=instance.num_episodes + 3 if instance.num_episodes < 100 else 3, resume_from=instance
        )
    elif isinstance(instance, ExplorationState):
        use_noun(instance.moments, seed)
    elif isinstance(instance, BeliefPolicy):
        if isinstance(instance.decision_rule, AlphaVectors):
            play_by_hand(instance, seed)
    elif isinstance(instance, Moments) and instance.num_state_actions > 1000:
        instance.transition_estimate()
    else:
        use_noun(instance, seed)


def writeable(value: Any) -> Any:
    """A copy that its caller can go on writing to."""
    if isinstance(value, np.ndarray | csr_array | csc_array):
        return value.copy()
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return tuple(piece.copy() for piece in value)
    return value


def scribble(value: Any, rng: np.random.Generator) -> None:
    """Garbage in every array that was given."""
    if isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind in "iuf":
        value[...] = np.array(ODD[int(rng.integers(7))]).astype(value.dtype)
    elif isinstance(value, csr_array | csc_array):
        for piece in (value.data, value.indices, value.indptr):
            scribble(piece, rng)
    elif isinstance(value, tuple):
        for piece in value:
            scribble(piece, rng)


def changed(value: Any, rng: np.random.Generator) -> Any:
    """Something near to ``value``, or far from it."""
    if not rng.integers(6):
        return THINGS[int(rng.integers(len(THINGS)))]
    if isinstance(value, csr_array | csc_array):
        piece = str(rng.choice(["data", "indices", "indptr"]))
        setattr(value, piece, changed_array(getattr(value, piece), rng))
        return value
    if isinstance(value, np.ndarray):
        return changed_array(value, rng)
    if isinstance(value, tuple) and value:
        i = int(rng.integers(len(value)))
        start = [value[:i], value[: i + 1]][int(rng.integers(2))] if not rng.integers(4) else value[:i]
        return (*start, changed(value[i], rng), *value[i + 1 :])
    if isinstance(value, dict):
        return {**value, str(rng.choice(["operations", "x"])): THINGS[int(rng.integers(len(THINGS)))]}
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63:
        return [value + 1, value - 1, -value, float(value), ODD[int(rng.integers(len(ODD)))]][int(rng.integers(5))]
    return THINGS[int(rng.integers(len(THINGS)))]


def changed_array(array: Any, rng: np.random.Generator) -> Any:
    """Another entry, type, shape or order."""
    if not isinstance(array, np.ndarray):
        return array
    way = int(rng.integers(6))
    if way <= 1 and array.size and array.dtype.kind in "iuf":
        array = array.copy()
        odd = np.array(ODD[int(rng.integers(len(ODD)))] if rng.integers(4) else array.flat[0] + 1)
        index = tuple(int(rng.integers(n)) for n in array.shape)
        array[index] = odd.astype(array.dtype)
        return array
    if way == 2:
        with np.errstate(all="ignore"):
            try:
                return array.astype(str(rng.choice(DTYPES)))
            except (TypeError, ValueError):
                return array
    if way == 3 and array.ndim:
        axis = int(rng.integers(array.ndim))
        return [array.take(range(array.shape[axis] // 2), axis), np.repeat(array, 2, axis)][int(rng.integers(2))]
    if way == 4:
        return [array[None], array.reshape(-1), array.T, array[..., :0], array[::-1]][int(rng.integers(5))]
    return rng.choice(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan]), array.shape) if rng.integers(2) else array.tolist()


if __name__ == "__main__":
    from fuzz.worker_processes import main

    main(__file__, attempt)
