"""What a terminal shows: tables, a live line, a bar with the time left; plain columns and no progress when piped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> None:
    """Print a table; the first ``texts`` columns are words, the others numbers and stand to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < texts else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        widths = [max(len(cell) for cell in column) for column in zip(columns, *rows, strict=True)]
        console.width = max(len(title), sum(widths) + 4 * len(widths))
    console.print(Text(title, style="bold"))
    console.print(table)


def show_values(comparison: Mapping[str, Any]) -> None:
    """Print what policies earn, and in which world."""
    from rewardmix.facts import EVIDENCE

    rows = [[row["name"], fixed(row["value"])] for row in comparison["rows"]]
    show_table(f"What policies earn ({EVIDENCE[comparison['measured']]})", ["policy", "value"], rows)


def fixed(value: float, digits: int = 4) -> str:
    """A number with a fixed number of digits behind the point."""
    return f"{value:.{digits}f}"


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
