"""``rewardmix report``: the page of a run, made again from its ``result.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that rewardmix learn wrote.")],
    out: Annotated[Path | None, typer.Option(help="File to write; DIR/report.html if none.")] = None,
) -> None:
    """Make the page of a run again, from its result.json alone."""
    from rewardmix.cli import outputs
    from rewardmix.report import read_result, write_report

    outputs.check_file("--out", out)
    typer.echo(write_report(folder, read_result(folder), out))
