"""``rewardmix export``: a model as a file that general POMDP solvers read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rewardmix.cli import inputs


class Form(StrEnum):
    """The formats, by the ending of their files."""

    POMDPX = "pomdpx"
    POMDP = "pomdp"


def export(
    model: Annotated[str, typer.Argument(help=inputs.MODEL_HELP)],
    form: Annotated[Form, typer.Option("--format", help="pomdpx (factored, for SARSOP) or pomdp (flat).")],
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if none.")] = None,
    discount: Annotated[
        float, typer.Option(help="Discount of the file; rewards are scaled so that it cancels.")
    ] = 0.99,
) -> None:
    """Write a model for a general POMDP solver; the value of the file is that of the model."""
    from rewardmix import interop

    world = inputs.model_of(model)
    write, lines = {
        Form.POMDPX: (interop.export_pomdpx, interop.pomdpx_lines),
        Form.POMDP: (interop.export_pomdp, interop.pomdp_lines),
    }[form]
    if out is not None:
        write(world, out, discount=discount)
        typer.echo(f"saved: {out} ({out.stat().st_size / 1024:.0f} KiB)")
        return
    for line in lines(world, discount=discount):
        typer.echo(line)
