"""Declare the arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _complete_problem(prefix: str) -> list[str]:
    """List names of problems that begin with a prefix, for shell completion."""
    from rewardmix import problems

    return [name for name in problems.list_problems() if name.startswith(prefix)]


MODEL_HELP = "Problem (shop), problem with options (random:states=10,seed=3) or saved model."

ENV_ARGUMENT = typer.Argument(
    autocompletion=_complete_problem,
    metavar="PROBLEM_OR_ENV_ID",
    help="Problem (shop), problem with options (random:states=10), Gymnasium id or saved model.",
)

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP, autocompletion=_complete_problem)]
LogArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG", help="Parquet or CSV files, a folder, a glob pattern, minari:ID, or a store of 'serve'."
    ),
]

SeedOption = Annotated[int, typer.Option(help="Random seed; equal seeds give equal results.")]
FailureProbOption = Annotated[float, typer.Option(help="Probability that a confidence statement is wrong.")]
WeightsOption = Annotated[
    str | None, typer.Option(help="Probabilities of the types, e.g. 0.3,0.7, or 'uniform'. [default: estimated]")
]
ModulesOption = Annotated[
    str | None,
    typer.Option("--import", metavar="MODULES", help="Import these modules first, which register environments."),
]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler, tcp://host:port.")
]
NumProcessesOption = Annotated[int, typer.Option(help="Number of local processes; ignored with --scheduler.")]
NumTypesOption = Annotated[str, typer.Option(metavar="INTEGER|auto", help="Number of hidden types.")]
HorizonOption = Annotated[
    int | None, typer.Option(help="Maximum number of steps of an episode. [default: the longest episode]")
]
EnvHorizonOption = Annotated[
    int | None, typer.Option(help="Maximum number of steps of an episode. [default: that of the environment]")
]
ColumnsOption = Annotated[
    str, typer.Option(metavar="ROLE=NAME,...", help="Names of the columns, e.g. state=page,action=button.")
]
RewardValuesOption = Annotated[
    str | None, typer.Option(help="Values that a reward can take, e.g. 0,1. [default: those in the log]")
]
DropInvalidOption = Annotated[
    float | None,
    typer.Option(help="Drop invalid episodes, up to this fraction of all; without a number: up to 0.1."),
]
TimeColumnOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of timestamps that order the rows of an episode.")
]
UserColumnOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of users, whose rows are split into sessions at pauses."),
]
SessionGapOption = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Longest pause within a session of a user, e.g. 90s, 30m, 2h."),
]
NumRewardBinsOption = Annotated[
    int | None, typer.Option(help="Discretize rewards with more distinct values into this many bins.")
]
MinStateCountOption = Annotated[int | None, typer.Option(help="Merge states with fewer visits than this into one.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Resume an interrupted run, or start a new one.")]
TypeNamesOption = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Names of the types, in the order of the report: reading,outdoor.")
]
OpenReportOption = Annotated[bool, typer.Option("--open-report", help="Open the report in a browser.")]
OutFolderOption = Annotated[Path, typer.Option(metavar="DIR", help="Run folder to write.")]
