"""The commands, and how they end: 0 well, 1 failed, 2 wrong input, 130 interrupted, as Unix tools do."""

from __future__ import annotations

import os
import sys

import typer

from rewardmix._errors import InputError
from rewardmix._version import __version__
from rewardmix.cli import describe, evaluate, explore, export, fit, learn, plan, recover, report, simulate, sweep

app = typer.Typer(
    name="rewardmix",
    help="Learn to act when every episode secretly has one of several reward functions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("learn")(learn.learn)
app.command("evaluate")(evaluate.evaluate)
app.command("fit")(fit.fit)
app.command("simulate")(simulate.simulate)
app.command("sweep")(sweep.sweep)
app.command("envs")(describe.envs)
app.command("describe")(describe.describe)
app.command("plan")(plan.plan)
app.command("explore")(explore.explore)
app.command("theory")(explore.theory)
app.command("recover")(recover.recover)
app.command("export")(export.export)
app.command("report")(report.report)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Learn to act when every episode secretly has one of several reward functions."""


def main() -> None:
    """Run the command line."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: waiting threads cost more than they help here
    try:
        app(prog_name="rewardmix")
    except (InputError, ImportError) as error:
        _end(f"rewardmix: {error}", 2)
    except MemoryError as error:
        _end(f"rewardmix: out of memory: {error}", 1)
    except KeyboardInterrupt:
        _end("rewardmix: interrupted", 130)
    except BrokenPipeError:  # the reader of a pipe went away: nothing is left to be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _end(message: str, code: int) -> None:
    typer.echo(message, err=True)
    sys.exit(code)
