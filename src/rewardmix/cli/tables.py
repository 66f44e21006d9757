"""Tables for people: drawn by rich on a terminal, plain columns when piped."""

from __future__ import annotations

from collections.abc import Sequence


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> None:
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


def number(value: float, digits: int = 4) -> str:
    """A number with a fixed number of digits behind the point."""
    return f"{value:.{digits}f}"
