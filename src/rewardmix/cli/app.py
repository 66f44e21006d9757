"""The commands, and how they end: 0 well, 1 failed, 2 wrong input, 70 a defect, 130 interrupted, as Unix tools do.

Whatever happens ends in one line. REWARDMIX_DEBUG=1 shows the trace before it.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import typer

from rewardmix._core.errors import InputError
from rewardmix._core.import_hook import when_imported
from rewardmix._version import __version__
from rewardmix.cli import inspection_commands, log_commands, model_commands, stage_commands
from rewardmix.cli.earn_command import earn_command
from rewardmix.cli.learn_command import learn_command
from rewardmix.cli.serve_command import serve_command
from rewardmix.cli.terminal import echo, visible
from rewardmix.cli.voices import with_voice

app = typer.Typer(
    name="rewardmix",
    help="Learn to act when every episode secretly has one of several reward functions.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would take [defaults] for markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, Callable[..., None]] = {
    "learn": learn_command,
    "earn": earn_command,
    "serve": serve_command,
    "evaluate": model_commands.evaluate_command,
    "check": inspection_commands.check_command,
    "fit": log_commands.fit_command,
    "posterior": inspection_commands.posterior_command,
    "compare": inspection_commands.compare_command,
    "simulate": log_commands.simulate_command,
    "envs": model_commands.envs_command,
    "describe": model_commands.describe_command,
    "plan": model_commands.plan_command,
    "explore": stage_commands.explore_command,
    "theory": stage_commands.theory_command,
    "recover": stage_commands.recover_command,
    "export": model_commands.export_command,
    "report": model_commands.report_command,
}
"""Every command, in the order of the help."""

_WITHOUT_RESULT = ("serve", "export")
"""Commands that write no result for people: one listens, one prints a file."""

for _name, _command in COMMANDS.items():
    app.command(_name)(_command if _name in _WITHOUT_RESULT else with_voice(_command))


def _version(asked: bool) -> None:
    if asked:
        echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Learn to act when every episode secretly has one of several reward functions."""


ALLOCATIONS = 20_000
"""Objects between two searches for garbage; Python's 700 are a tenth of all that a short command does."""


SKIPPED = 0.1
"""Share of the episodes that ``--skip-bad`` may leave out where no number is typed, as ``skip_bad=True`` does."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with what became of it."""
    if arguments is None:  # the process is ours alone
        gc.set_threshold(ALLOCATIONS)
        atexit.register(gc.freeze)  # memory goes back as a whole at the end, nobody needs to look what in it is garbage
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: waiting threads cost more than they help here
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names that this terminal cannot show are no reason to fail
            stream.reconfigure(errors="backslashreplace")
    when_imported("rewardmix._core.jit", "rewardmix.cli.terminal", "announce_compiling")
    try:
        typed = sys.argv[1:] if arguments is None else arguments
        code = app(with_shares(typed), prog_name="rewardmix", standalone_mode=False)
    except BrokenPipeError:  # the reader of a pipe went away: nothing is left to be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        _end(error)
    sys.exit(code or 0)


def with_shares(arguments: Sequence[str]) -> list[str]:
    """What was typed, ``--skip-bad`` without a number behind it with the share that it stands for."""
    out: list[str] = []
    for word, following in zip(arguments, [*arguments, ""][1:], strict=True):
        number = re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|nan|inf", following)
        alone = word == "--skip-bad" and "--" not in out and not number
        out.append(f"--skip-bad={SKIPPED}" if alone else word)
    return out


def _end(error: BaseException) -> NoReturn:
    """Say in one line what went wrong, and exit."""
    if os.environ.get("REWARDMIX_DEBUG", "0") not in ("", "0"):
        for line in traceback.format_exc().splitlines():
            echo(line, err=True)
    if hasattr(error, "show") and hasattr(error, "exit_code"):  # of how a command is typed: typer has words for that
        text = visible(getattr(error, "message", ""))
        if getattr(error, "ctx", None) is None:  # without a command there is no usage to show with it
            echo(f"rewardmix: {text}", err=True)
        else:
            error.message = text  # type: ignore[attr-defined]
            error.show()
        sys.exit(error.exit_code)
    message, code = outcome(error)
    echo(f"rewardmix: {' '.join(message.split())}", err=True)
    sys.exit(code)


def outcome(error: BaseException) -> tuple[str, int]:
    """(what to say, exit code)."""
    if isinstance(error, InputError | ImportError):
        return str(error), 2
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, MemoryError):
        return f"out of memory{': ' if str(error) else ''}{error}", 1
    if isinstance(error, OSError):
        paths = [repr(os.fsdecode(path)) for path in (error.filename, error.filename2) if isinstance(path, str | bytes)]
        return f"{error.strerror or error}{': ' if paths else ''}{' -> '.join(paths)}", 1
    return (
        f"a defect, please report it to the project's issue tracker: {type(error).__name__}: {error} "
        f"(version {__version__}; tell the command, and what it prints with REWARDMIX_DEBUG=1)"
    ), 70
