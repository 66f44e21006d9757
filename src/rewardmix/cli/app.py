"""Define the commands and their exit codes: 0 success, 1 failure, 2 wrong input, 70 internal error, 130 interrupted.

Every error ends in one line of text. REWARDMIX_DEBUG=1 prints the traceback before it.
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
from rewardmix._core.import_hook import call_after_import
from rewardmix._version import __version__
from rewardmix.cli import inspection_commands, log_commands, model_commands, stage_commands
from rewardmix.cli.learn_command import learn_command
from rewardmix.cli.learn_online_command import learn_online_command
from rewardmix.cli.output_mode import add_output_options
from rewardmix.cli.serve_command import serve_command
from rewardmix.cli.terminal import echo, escape_control_characters

DESCRIPTION = "Reinforcement learning with hidden types: each episode has one of several unknown reward functions."

app = typer.Typer(
    name="rewardmix",
    help=DESCRIPTION,
    no_args_is_help=True,
    rich_markup_mode=None,  # it would interpret [defaults] as markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, Callable[..., None]] = {
    "learn": learn_command,
    "learn-online": learn_online_command,
    "serve": serve_command,
    "evaluate": model_commands.evaluate_command,
    "diagnose": inspection_commands.diagnose_command,
    "fit": log_commands.fit_command,
    "infer-types": inspection_commands.infer_types_command,
    "compare-runs": inspection_commands.compare_runs_command,
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
"""Name and function of every command, in the order of the help."""

_COMMANDS_WITHOUT_JSON = ("serve", "export")
"""Commands without ``--json`` and ``--quiet``: one runs a server, one prints a file."""

for _name, _command in COMMANDS.items():
    app.command(_name)(_command if _name in _COMMANDS_WITHOUT_JSON else add_output_options(_command))


def _version(show: bool) -> None:
    """Print the version and exit, if ``--version`` was given."""
    if show:
        echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Declare the options of the program itself; ``--help`` prints ``DESCRIPTION``."""


GC_THRESHOLD = 20_000
"""Allocations between two garbage collections; Python's default of 700 costs a tenth of the time of a short command."""


DEFAULT_DROP_FRACTION = 0.1
"""Largest fraction of episodes that ``--drop-invalid`` without a number drops, equal to ``drop_invalid=True``."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its exit code."""
    # Only where this is the whole process: a caller that passes arguments keeps its own settings.
    if arguments is None:
        gc.set_threshold(GC_THRESHOLD)
        # The memory is released as a whole at exit, so a last collection of garbage would be wasted time.
        atexit.register(gc.freeze)
    # Set before numpy is imported. Threads that wait for the small matrices of this package cost more than they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        # Names may contain characters that the terminal's encoding lacks; escapes are better than a failure.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    call_after_import("rewardmix._core.jit", "rewardmix.cli.terminal", "report_compilation")
    try:
        words = sys.argv[1:] if arguments is None else arguments
        code = app(add_default_fractions(words), prog_name="rewardmix", standalone_mode=False)
    # The reader of a pipe has closed it. Standard output is replaced: Python would fail again when it flushes at exit.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        _exit_with_message(error)
    sys.exit(code or 0)


def add_default_fractions(arguments: Sequence[str]) -> list[str]:
    """Replace ``--drop-invalid`` without a number by the default fraction; return all arguments."""
    expanded: list[str] = []
    for word, next_word in zip(arguments, [*arguments, ""][1:], strict=True):
        number = re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?|nan|inf", next_word)
        # Typer has no options with an optional value, so this is done before parsing; after ``--`` there are only
        # arguments.
        has_no_value = word == "--drop-invalid" and "--" not in expanded and not number
        expanded.append(f"--drop-invalid={DEFAULT_DROP_FRACTION}" if has_no_value else word)
    return expanded


def _exit_with_message(error: BaseException) -> NoReturn:
    """Print an error in one line and exit."""
    if os.environ.get("REWARDMIX_DEBUG", "0") not in ("", "0"):
        for line in traceback.format_exc().splitlines():
            echo(line, err=True)
    # Errors of usage: typer formats them with the usage of the command, if there is a command.
    if hasattr(error, "show") and hasattr(error, "exit_code"):
        text = escape_control_characters(getattr(error, "message", ""))
        if getattr(error, "ctx", None) is None:  # no command, hence no usage
            echo(f"rewardmix: {text}", err=True)
        else:
            error.message = text  # type: ignore[attr-defined]
            error.show()
        sys.exit(error.exit_code)
    message, code = exit_message(error)
    echo(f"rewardmix: {' '.join(message.split())}", err=True)
    sys.exit(code)


def exit_message(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    # A missing optional package is for the user to install, so it counts as wrong input.
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
        f"internal error: {type(error).__name__}: {error}; please report it to the project's issue tracker with the "
        f"command, the version {__version__} and the output under REWARDMIX_DEBUG=1"
    ), 70
