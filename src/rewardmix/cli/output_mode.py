"""Add ``--json`` and ``--quiet`` to every command that prints a result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from rewardmix._core.errors import raise_input_error
from rewardmix.cli.terminal import OUTPUT_MODE, OutputMode

_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
_QUIET = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


def add_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with two more options, ``--json`` and ``--quiet``, which set the output mode."""
    signature = inspect.signature(command, eval_str=True)
    output_options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("as_json", _JSON), ("quiet", _QUIET))
    ]

    @wraps(command)
    def run_with_output_mode(*args: Any, as_json: bool, quiet: bool, **options: Any) -> None:
        """Run the command in the output mode that its options select."""
        if as_json and quiet:
            raise_input_error("--quiet", "both --quiet and --json", "at most one of the two")
        # A context variable, reset afterwards, so that commands called from one process do not affect each other.
        token = OUTPUT_MODE.set(OutputMode.JSON if as_json else OutputMode.QUIET if quiet else OutputMode.TEXT)
        try:
            command(*args, **options)
        finally:
            OUTPUT_MODE.reset(token)

    # ``inspect`` follows ``__wrapped__`` to the original command, which lacks the two options.
    del run_with_output_mode.__wrapped__
    parameters = [*signature.parameters.values(), *output_options]
    run_with_output_mode.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run_with_output_mode.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_with_output_mode
