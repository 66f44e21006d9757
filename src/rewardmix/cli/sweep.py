"""``rewardmix sweep``: methods on problems with many seeds, here or on a cluster."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, outputs, tables
from rewardmix.cli.progress import bar

FIELDS = {"problems": list, "methods": list, "episodes": list, "seeds": int}
"""What a study says: names of problems, of methods, budgets, and how many seeds."""


def sweep(
    study: Annotated[Path, typer.Argument(help="TOML: problems, methods, episodes (lists) and seeds (a number).")],
    out: Annotated[Path | None, typer.Option(help="Results. [the study's name with .parquet]")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A Dask scheduler, tcp://host:port.")] = None,
    processes: Annotated[int, typer.Option(help="Processes of this machine, without a scheduler.")] = 1,
) -> None:
    """Run a study; one that was stopped goes on where it was."""
    from rewardmix._core.checks import as_count
    from rewardmix.logs import Cluster, Here, Processes
    from rewardmix.logs.sweeping import METHODS
    from rewardmix.logs.sweeping import sweep as run
    from rewardmix.logs.workers import connected

    as_count("--processes", processes)
    asked = _study(study)
    for name in asked["methods"]:
        if name not in METHODS:
            refuse(f"{study}: methods", repr(name), f"one of {', '.join(METHODS)}")
    target = out or study.with_suffix(".parquet")
    outputs.check_file("--out", target)
    problems = {name: inputs.model_of(name) for name in asked["problems"]}
    with ExitStack() as stack:
        crew: Any = Here()
        if scheduler is not None:
            crew = Cluster(stack.enter_context(connected(scheduler)))
        elif processes > 1:
            crew = stack.enter_context(Processes(processes))
        total = len(problems) * len(asked["methods"]) * len(asked["episodes"]) * asked["seeds"]
        show = stack.enter_context(bar("sweeping", total))
        methods = {name: METHODS[name] for name in asked["methods"]}
        rows = run(
            problems,
            methods,
            asked["episodes"],
            range(asked["seeds"]),
            target,
            crew=crew,
            on_update=lambda done, total: show(done),
        )
    _show(rows)
    typer.echo(f"{len(rows)} results in {target}")


def _study(path: Path) -> dict[str, Any]:
    from rewardmix._core.checks import as_count

    content = inputs.toml_of("STUDY", path)
    for name, kind in FIELDS.items():
        if not isinstance(content.get(name), kind) or isinstance(content.get(name), bool):
            refuse(f"{path}: {name}", repr(content.get(name)), "a list" if kind is list else "a whole number")
    for name in content:
        if name not in FIELDS:
            refuse(f"{path}", repr(name), f"one of {', '.join(FIELDS)}")
    for name, kind in {"problems": str, "methods": str, "episodes": int}.items():
        for i, entry in enumerate(content[name]):
            if not isinstance(entry, kind) or isinstance(entry, bool):
                refuse(f"{path}: {name}[{i}]", repr(entry), "a text" if kind is str else "a whole number")
    for i, budget in enumerate(content["episodes"]):
        as_count(f"{path}: episodes[{i}]", budget)
    as_count(f"{path}: seeds", content["seeds"])
    return content


def _show(rows: Any) -> None:
    import numpy as np

    groups: dict[tuple[str, str, int], list[Any]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.method, row.episodes), []).append(row)
    lines = []
    for (problem, method, episodes), some in groups.items():
        good = [row for row in some if not row.error]
        regret = tables.number(float(np.mean([row.regret for row in good]))) if good else "-"
        share = tables.number(float(np.mean([row.share for row in good])), 3) if good else "-"
        lines.append([problem, method, str(episodes), f"{len(good)}/{len(some)}", regret, share])
    tables.show(
        "Means over seeds", ["problem", "method", "episodes", "runs", "regret", "share of the gain"], lines, texts=2
    )
