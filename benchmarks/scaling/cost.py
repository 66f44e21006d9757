"""What each stage of learning costs, CPU time and peak memory, against the sizes of the model and the episodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import HERE
from benchmarks.scaling import settings

STAGES = ("explore", "recover", "refine", "plan", "learn")


def staged(spec: dict[str, Any], stages: tuple[str, ...] = STAGES, source: Path = HERE.parent) -> dict[str, Any]:
    """{stage: its CPU seconds and memory} of a source, in a process of its own."""
    program = str(HERE / "scaling" / "stages.py")
    arguments = [sys.executable, program, json.dumps({**spec, "stages": stages})]
    env = {**os.environ, "PYTHONPATH": str((source / "src").resolve())}
    result = subprocess.run(arguments, check=True, capture_output=True, env=env, text=True)
    return dict(json.loads(result.stdout))


def growth(quick: bool) -> Iterator[dict[str, Any]]:
    """One size at a time, the others at the base."""
    result: dict[str, dict[str, Any]] = {}  # the base is a value of every factor
    for factor, values in settings.COST_FACTORS.items():
        for value in values[: 2 if quick else None]:
            for seed in range(1 if quick else settings.COST_WORLDS):
                spec = {**settings.COST_BASE, factor: value, "seed": seed}
                name = json.dumps(spec)
                result[name] = result.get(name) or staged(spec)
                yield {"factor": factor, **spec, "stages": result[name]}


def large(quick: bool) -> Iterator[dict[str, Any]]:
    """The whole of learning in models of very many states."""
    for states in settings.COST_LARGE[: 1 if quick else None]:
        spec = {**settings.COST_BASE, "states": states, "episodes": 1000 if quick else settings.COST_EPISODES}
        yield {**spec, "stages": staged(spec, ("learn",))}


def turns(quick: bool) -> Iterator[dict[str, Any]]:
    """Exploration by this source and by an earlier one, REWARDMIX_BEFORE, in turns."""
    sources = {"after": HERE.parent}
    if "REWARDMIX_BEFORE" in os.environ:
        sources = {"before": Path(os.environ["REWARDMIX_BEFORE"]), **sources}
    for states in settings.TURNS_STATES[: 1 if quick else None]:
        spec = {**settings.COST_BASE, "states": states, "episodes": 1000 if quick else settings.COST_EPISODES}
        result: dict[str, list[float]] = {name: [] for name in sources}
        for _ in range(1 if quick else settings.TURNS):
            for name, source in sources.items():
                result[name].append(staged(spec, ("explore",), source)["explore"]["cpu"])
        yield {**spec, "cpu": result}
