"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WORLD = typer.Argument(
    metavar="PROBLEM_OR_ENV_ID",
    help="A problem (shop, random:states=10), coupons, any Gymnasium id, or a saved model.",
)
MODEL = "A problem (shop), a problem with options (random:states=10,seed=3), or a saved model."

Model = Annotated[str, typer.Argument(help=MODEL)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
Failure = Annotated[float, typer.Option(help="What confidence levels may fail with.")]
Weights = Annotated[str | None, typer.Option(help="Their shares, 0.3,0.7 or uniform. [estimated]")]
Modules = Annotated[str | None, typer.Option("--import", help="Modules that register environments.")]
Scheduler = Annotated[str | None, typer.Option(help="A Dask scheduler, tcp://host:port.")]
Processes = Annotated[int, typer.Option(help="Processes of this machine, without a scheduler.")]
OutFolder = Annotated[Path, typer.Option(help="Folder for the results.")]
