"""Progress on a terminal: a live line, or a bar with an estimate of the time left; nothing at all when piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def live_line() -> Iterator[Callable[[str], None]]:
    """Yields ``show(text)``, which replaces the line under the cursor."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(text)


@contextmanager
def bar(label: str, total: float | None) -> Iterator[Callable[..., None]]:
    """Yields ``show(done, note="")``: a bar of ``done`` out of ``total`` (None: open-ended), speed and time left."""
    if not sys.stderr.isatty():
        yield lambda done, note="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(bar_width=10), TextColumn("{task.fields[note]}")]
    columns += [TextColumn("left"), TimeRemainingColumn(compact=True)]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, note="")
        yield lambda done, note="": progress.update(task, completed=done, note=note)
