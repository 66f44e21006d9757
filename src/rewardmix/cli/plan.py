"""``rewardmix plan``: the best policy of a known model, its certified bracket, and what adapting is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rewardmix.cli import inputs, outputs, tables
from rewardmix.cli.progress import live_line


def plan(
    model: Annotated[str, typer.Argument(help=inputs.MODEL_HELP)],
    gap: Annotated[float, typer.Option(help="Largest certified distance from the optimum.")] = 1e-3,
    work_limit: Annotated[float | None, typer.Option(help="Simple steps to take, about 1e9 a second.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds; the plan then depends on the machine.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file.")] = None,
) -> None:
    """Plan in a known model, and compare the plan with simple policies."""
    from rewardmix.planning import compare_plan
    from rewardmix.planning import plan as find

    outputs.check_file("--out", out)
    world = inputs.model_of(model)
    typer.echo(repr(world))
    with live_line() as show:
        found = find(
            world,
            gap=gap,
            work_limit=work_limit,
            time_limit=time_limit,
            on_update=lambda done: show(
                f"{done.points} beliefs: {done.lower:.8g} .. {done.upper:.8g}, gap {done.gap:.1e}, {done.seconds:.1f} s"
            ),
        )
        show("comparing")
        comparison = compare_plan(found)
    rows = [[row.name, tables.number(row.value, 6), _share(row.share)] for row in comparison.table]
    tables.show("What policies earn", ["policy", "value", "share of the gain of adapting"], rows)
    met = "as asked" if found.info.converged else f"NOT the {gap:g} asked for: {found.info.reason}"
    typer.echo(f"optimum between {found.lower:.9g} and {found.upper:.9g}: gap {found.gap:.2g}, {met}")
    typer.echo(f"policy: controller with {found.policy.size} nodes, {found.nbytes / 1024:.0f} KiB")
    if out is not None:
        from rewardmix.io import save

        save(out, found)
        typer.echo(f"saved: {out} ({out.stat().st_size / 1024:.0f} KiB)")


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share == share else "-"
