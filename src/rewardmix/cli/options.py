"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _problems(begun: str) -> list[str]:
    """Names of problems, for the shell that completes one."""
    from rewardmix import problems

    return [name for name in problems.names() if name.startswith(begun)]


WORLD = typer.Argument(
    autocompletion=_problems,
    metavar="PROBLEM_OR_ENV_ID",
    help="A problem (shop, random:states=10), any Gymnasium id, or a saved model.",
)
MODEL = "A problem (shop), a problem with options (random:states=10,seed=3), or a saved model."

Model = Annotated[str, typer.Argument(help=MODEL, autocompletion=_problems)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
Failure = Annotated[float, typer.Option(help="What confidence levels may fail with.")]
Weights = Annotated[str | None, typer.Option(help="Their shares, 0.3,0.7 or uniform. [estimated]")]
Modules = Annotated[str | None, typer.Option("--import", help="Modules that register environments.")]
Scheduler = Annotated[str | None, typer.Option(help="A Dask scheduler, tcp://host:port.")]
Processes = Annotated[int, typer.Option(help="Processes of this machine, without a scheduler.")]
LogArgument = Annotated[
    list[str], typer.Argument(help="Parquet or CSV files, a folder, a pattern, minari:ID, or a store of serve.")
]
ContextsOption = Annotated[str, typer.Option(help="Number of hidden types, or auto.")]
HorizonOption = Annotated[int | None, typer.Option(help="Most steps of an episode. [the longest]")]
ColumnsOption = Annotated[str, typer.Option(help="How columns are called: state=page,action=button")]
RewardsOption = Annotated[str | None, typer.Option(help="Values that a reward can take: 0,1. [those that occur]")]
SkipBadOption = Annotated[
    float | None, typer.Option("--skip-bad", help="Leave out episodes with problems, up to this share of all. [0.1]")
]
TimeOption = Annotated[str | None, typer.Option(help="A column of times that orders the rows instead of steps.")]
VisitorOption = Annotated[
    str | None, typer.Option(help="A column of visitors, to be cut into sessions by --time and --gap.")
]
GapOption = Annotated[str | None, typer.Option(help="Longest pause in a session of a visitor: 90s, 30m, 2h.")]
BinsOption = Annotated[int | None, typer.Option(help="Put rewards of more values into so many bins.")]
FoldOption = Annotated[int | None, typer.Option(help="Make one of the states that were seen fewer times.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped, or begin.")]
TypeNames = Annotated[
    str | None, typer.Option(help="Names for the types, in the order of the report: reading,outdoor.")
]
Open = Annotated[bool, typer.Option("--open", help="Show the report in a browser.")]
OutFolder = Annotated[Path, typer.Option(help="Folder for the results.")]
