"""What one machine does: learn, plan, fit, and store everything in a folder.

python -m benchmarks.machines.work FOLDER [--quick]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.machines.settings import (
    EPISODES,
    LOG_EPISODES,
    LOGS,
    PLANNED,
    PLANNING_GAP,
    PLANNING_WORK,
    PROBLEMS,
    SEEDS,
    THREE,
    THREE_SEEDS,
)


def world(text: str) -> Any:
    """A problem by its name and options."""
    from rewardmix.cli.inputs import parse_model

    return parse_model(text)


def learned(folder: Path, problem: str, seed: int, num_types: int) -> None:
    """One run of ``learn``, with its whole folder of results."""
    from rewardmix import learn
    from rewardmix.report.report_data import report_data_from_learn
    from rewardmix.report.run_folder import write_run

    model = world(problem)
    result = learn(model, num_episodes=EPISODES, num_types=num_types, seed=seed, num_resamples=4)
    write_run(folder, report_data_from_learn(result, title=problem, true_model=model))


def planned(path: Path, problem: str) -> None:
    """One plan."""
    from rewardmix import plan, save

    save(path, plan(world(problem), gap=PLANNING_GAP, max_operations=PLANNING_WORK))


def fitted(folder: Path, problem: str) -> None:
    """One fit of a simulated log."""
    from rewardmix import save, simulate, uniform_policy
    from rewardmix.logs import fit

    model = world(problem)
    result = fit(simulate(uniform_policy(model), model, LOG_EPISODES, seed=5), num_resamples=4)
    folder.mkdir(parents=True)
    save(folder / "model.safetensors", result.model)
    save(folder / "plan.safetensors", result.plan)
    text = "\n".join(f"{name}: {getattr(result.info, name)!r}" for name in ("held_out", "off_policy", "bootstrap"))
    (folder / "judged.txt").write_text(text, encoding="utf-8")


def work(folder: Path, quick: bool) -> None:
    """Everything."""
    for problem in PROBLEMS[:3] if quick else PROBLEMS:
        for seed in range(1 if quick else SEEDS):
            learned(folder / "learn" / f"{named(problem)}-{seed}", problem, seed, 2)
    for problem in THREE[:1] if quick else THREE:
        for seed in range(1 if quick else THREE_SEEDS):
            learned(folder / "three" / f"{named(problem)}-{seed}", problem, seed, 3)
    (folder / "plan").mkdir()
    for problem in PLANNED:
        planned(folder / "plan" / f"{named(problem)}.safetensors", problem)
    for problem in LOGS[:1] if quick else LOGS:
        fitted(folder / "fit" / named(problem), problem)


def named(problem: str) -> str:
    """A name for files."""
    return problem.replace(":", "-").replace(",", "-").replace("=", "")


if __name__ == "__main__":
    work(Path(sys.argv[1]), "--quick" in sys.argv)
