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
    from rewardmix.cli.inputs import model_of

    return model_of(text)


def learned(folder: Path, problem: str, seed: int, contexts: int) -> None:
    """One run of ``learn``, with its whole folder of results."""
    from rewardmix import learn
    from rewardmix.report.findings import learned_findings
    from rewardmix.report.folder import write_folder

    model = world(problem)
    found = learn(model, episodes=EPISODES, num_contexts=contexts, seed=seed, resamples=4)
    write_folder(folder, learned_findings(found, title=problem, truth=model))


def planned(path: Path, problem: str) -> None:
    """One plan."""
    from rewardmix import plan, save

    save(path, plan(world(problem), gap=PLANNING_GAP, work_limit=PLANNING_WORK))


def fitted(folder: Path, problem: str) -> None:
    """One fit of a simulated log."""
    from rewardmix import save, simulate, uniform
    from rewardmix.logs import fit

    model = world(problem)
    found = fit(simulate(uniform(model), model, LOG_EPISODES, seed=5), resamples=4)
    folder.mkdir(parents=True)
    save(folder / "model.safetensors", found.model)
    save(folder / "plan.safetensors", found.plan)
    text = "\n".join(f"{name}: {getattr(found.info, name)!r}" for name in ("held_out", "off_policy", "bootstrap"))
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
