"""CPU time and peak memory of each stage of learning, in a process of its own.

python benchmarks/scaling/stages.py SPEC

SPEC is JSON: the sizes of a random model with two next states, the episodes, and which stages. Imports nothing of the
benchmarks, so that it can be run with the source of another checkout before this one on the path.
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import rewardmix as rm
from rewardmix.evaluation import markov_value
from rewardmix.planning import default_max_operations, plan_markov

SMALL = {"states": 12, "actions": 3, "horizon": 6, "episodes": 3000}
"""What is run first, so that kernels are compiled."""


def memory(key: str) -> float:
    """MiB: VmRSS, what the process has now, or VmHWM, the most since the mark was reset."""
    result = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert result is not None
    return int(result[1]) / 1024


def measured(call: Callable[[], Any], idle: float) -> tuple[Any, dict[str, float]]:
    """The result of a call, its CPU seconds, and the most memory beyond that of the idle process, in MiB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    begin = time.process_time()
    result = call()
    return result, {"cpu": round(time.process_time() - begin, 4), "memory": round(memory("VmHWM") - idle, 2)}


def run(spec: dict[str, Any], stages: list[str]) -> dict[str, dict[str, float]]:
    """Every stage on what those before it made."""
    sizes = {name: spec[name] for name in ("states", "actions", "horizon")}
    num_types, episodes, seed = spec.get("contexts", 2), spec["episodes"], spec.get("seed", 0)
    env: Any = rm.problems.make_model("random", **sizes, num_types=num_types, next_states=2, seed=seed)
    idle, out = memory("VmRSS"), dict[str, dict[str, float]]()
    if "explore" in stages:
        explored, out["explore"] = measured(lambda: rm.explore(env, num_episodes=episodes, seed=seed), idle)
    if "recover" in stages:
        explored_episodes, counts = explored.episodes, explored.moments
        ask: dict[str, Any] = {"moments": counts, "num_types": num_types, "seed": seed}
        result, out["recover"] = measured(lambda: rm.recover(explored_episodes, **ask), idle)
    if "refine" in stages:
        from rewardmix.learning.refinement import refine

        _, out["refine"] = measured(
            lambda: refine(env, explored_episodes, result, num_episodes=episodes, seed=seed), idle
        )
    if "plan" in stages:
        limit = default_max_operations(result.model)
        _, out["plan"] = measured(lambda: rm.plan(result.model, gap=1e-3, max_operations=limit), idle)
    if "learn" in stages:
        ask = {"num_episodes": episodes, "num_types": num_types, "seed": seed, "num_resamples": 0}
        learned, out["learn"] = measured(lambda: rm.learn(env, **ask), idle)
        truth, markov = learned.certificate.true_model, plan_markov(learned.model)
        out["learn"]["share"] = truth.normalized_score
        out["learn"]["floor"] = replace(truth, policy_value=markov_value(markov.policy, env)).normalized_score
    return out


def main() -> None:
    """A small model first, then the one that was asked for."""
    spec = json.loads(sys.argv[1])
    stages = spec.pop("stages")
    run({**SMALL, "contexts": spec.get("contexts", 2)}, stages)
    print(json.dumps(run(spec, stages)))


if __name__ == "__main__":
    main()
