"""``--json`` and ``--quiet``, for every command whose result people read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli.terminal import VOICE, Voice

_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
_QUIET = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def with_voice(command: Callable[..., None]) -> Callable[..., None]:
    """The command with two more options, which say whom it speaks to."""
    signature = inspect.signature(command, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("as_json", _JSON), ("quiet", _QUIET))
    ]

    @wraps(command)
    def spoken(*args: Any, as_json: bool, quiet: bool, **options: Any) -> None:
        if as_json and quiet:
            refuse("--quiet", "--json beside it", "one of the two")
        token = VOICE.set(Voice.PROGRAMS if as_json else Voice.NOBODY if quiet else Voice.PEOPLE)
        try:
            command(*args, **options)
        finally:
            VOICE.reset(token)

    del spoken.__wrapped__  # its own signature counts
    parameters = [*signature.parameters.values(), *more]
    spoken.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    spoken.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spoken
