"""Print text, tables and progress bars; plain columns without progress if the output is piped.

With ``--quiet`` nothing is printed, with ``--json`` one JSON object. Text may come from a log of unknown origin, and
terminals obey control characters, so all output of commands goes through this module, which escapes them.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer


class OutputMode(StrEnum):
    """List the output modes of a command: text, JSON, or nothing."""

    TEXT = "text"
    JSON = "json"
    QUIET = "quiet"


OUTPUT_MODE: ContextVar[OutputMode] = ContextVar("output_mode", default=OutputMode.TEXT)
"""Output mode of the running command; ``cli.output_mode`` sets it."""


CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, line separators and changes of text direction, which a terminal obeys instead of printing."""


def escape_control_characters(text: str) -> str:
    """Replace each control character, which a terminal would obey, by a JSON escape."""
    return CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def echo(text: str, *, err: bool = False) -> None:
    """Print one line, with control characters escaped."""
    typer.echo(escape_control_characters(text), err=err)


def write_document(text: str) -> None:
    """Print text of several lines; control characters are escaped if standard output is a terminal."""
    # Into a file or a pipe the text goes unchanged: other programs need the exact content.
    lines = [escape_control_characters(line) for line in text.split("\n")] if sys.stdout.isatty() else [text]
    typer.echo("\n".join(lines), nl=False)


def print_text(text: str) -> None:
    """Print a line in text mode, wrapped at the width of the terminal."""
    if OUTPUT_MODE.get() is OutputMode.TEXT:
        typer.echo(_wrap(escape_control_characters(text)) if sys.stdout.isatty() else escape_control_characters(text))


def print_json(**fields: Any) -> None:
    """Print the result as one JSON object in JSON mode."""
    if OUTPUT_MODE.get() is OutputMode.JSON:
        from rewardmix.report.policy_json import to_json, to_plain

        write_document(to_json(to_plain(fields)) + "\n")


def print_status(text: str) -> None:
    """Print a status line on standard error, if it is a terminal."""
    if _is_interactive():
        typer.echo(_wrap(escape_control_characters(text)), err=True)


def report_compilation() -> None:
    """Print a status line when kernels are compiled, which only the first command of an installation waits for."""
    from rewardmix._core import jit

    jit.set_compile_hook(lambda: print_status("compiling kernels, once per installation"))


def _is_interactive() -> bool:
    """Return whether standard error is a terminal and output is not suppressed."""
    return sys.stderr.isatty() and OUTPUT_MODE.get() is not OutputMode.QUIET


def _wrap(text: str) -> str:
    """Wrap text at the width of the terminal, list items with an indent."""
    indent = "  " if text.startswith("- ") else ""
    # At least 20 columns: some terminals report a width of 0.
    width = max(shutil.get_terminal_size().columns, 20)
    return textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def print_headline(summary: Mapping[str, Any]) -> None:
    """Print warnings, verdict, advice and types of a run."""
    for warning in summary.get("warnings") or ():
        print_text(warning)
    print_text(summary["verdict"]["text"])
    print_text(f"Next: {summary['verdict']['advice']}")
    for profile in summary["types"]:
        print_text(f"- {profile['text']}")
    print_text(summary["identification"]["text"])


def print_run_json(out: Path, summary: Mapping[str, Any]) -> None:
    """Print the headline of a run as JSON; ``result.json`` in its folder has everything."""
    header_keys = ("title", "seed", "command", "warnings", "verdict", "types", "identification")
    keys = (*header_keys, "headline", "comparison", "certificate", "open_questions", "online")
    files = {"folder": str(out), "report": str(out / "report.html")}
    num_episodes = summary["environment"]["num_episodes"]
    print_json(**files, num_episodes=num_episodes, **{name: summary.get(name) for name in keys})


def print_already_complete(out: Path) -> None:
    """Print that a run is complete already."""
    print_text(f"already complete: {out / 'report.html'}")
    if OUTPUT_MODE.get() is OutputMode.JSON:
        from rewardmix.report.run_folder import read_result

        print_run_json(out, read_result(out))


def open_page(path: Path) -> None:
    """Open a page in a browser; without a browser print a message and continue."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        echo(f"rewardmix: --open-report: no browser found; the report is {path}", err=True)


def pluralize(number: int, noun: str) -> str:
    """Format a number with its noun: 1 episode, 2 episodes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> None:
    """Print a table in text mode; the first ``text_columns`` columns are text, the others numbers, right-aligned.

    If the terminal is too narrow for the longest words, each row is printed as a paragraph.
    """
    if OUTPUT_MODE.get() is not OutputMode.TEXT:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    title, columns = escape_control_characters(title), [escape_control_characters(column) for column in columns]
    rows = [[escape_control_characters(cell) for cell in row] for row in rows]
    cells_by_column = list(zip(columns, *rows, strict=True))
    min_widths = [_min_width(column, full_width=i >= text_columns) for i, column in enumerate(cells_by_column)]
    # Without a terminal the table is as wide as its content: rich would assume 80 columns and fold the cells.
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in cells_by_column]
        console.width = max(len(title), sum(widths) + 4 * len(widths))
    elif sum(min_widths) + 2 * len(min_widths) > console.width:
        _print_paragraphs(title, columns, rows)
        return
    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if i < text_columns else "right", overflow="fold", no_wrap=False)
        # Rich would break words and numbers to make columns fit; the minimum width prevents that.
        table.columns[i].min_width = min_widths[i]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Text(_wrap(title) if console.is_terminal else title, style="bold"))
    console.print(table)


def _min_width(column: Sequence[str], full_width: bool) -> int:
    """Return the minimum width of a column: its longest word, or its longest cell if ``full_width``."""
    words = column[0].split()
    words += column[1:] if full_width else [word for cell in column[1:] for word in cell.split()]
    return max(map(len, words), default=1)


def _print_paragraphs(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row of a table as a list of its cells."""
    print_text(title)
    for row in rows:
        print_text("")
        for column, cell in zip(columns, row, strict=True):
            print_text(f"- {column}: {cell}" if column else f"- {cell}")
    print_text("")


def print_values(comparison: Mapping[str, Any]) -> None:
    """Print the values of policies and the evidence for them."""
    from rewardmix.statements import EVIDENCE

    rows = [[row["name"], format_fixed(row["value"])] for row in comparison["rows"]]
    print_table(f"Expected return per episode ({EVIDENCE[comparison['evidence_key']]})", ["policy", "value"], rows)


def format_fixed(value: float, digits: int = 4) -> str:
    """Format a number with fixed decimals, without a minus sign before zero."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


@contextmanager
def status_line() -> Iterator[Callable[[str], None]]:
    """Yield ``show(text)``, which replaces the status line."""
    if not _is_interactive():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(Text(escape_control_characters(text)))


@contextmanager
def progress_bar(label: str, total: float | None) -> Iterator[Callable[..., None]]:
    """Yield ``show(done, note="")``, which updates a progress bar of ``total`` (``None``: unknown)."""
    if not _is_interactive():
        yield lambda done, note="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(bar_width=10)]
    columns += [TimeRemainingColumn(compact=True), TextColumn("left,")]
    columns += [TextColumn("{task.fields[note]}", markup=False)]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape_control_characters(label), total=total, note="")
        yield lambda done, note="": progress.update(task, completed=done, note=escape_control_characters(note))


class StageProgress:
    """Show the stages of a command: a progress bar for the current one, and one line for each that is finished."""

    def __init__(self, progress: Any = None) -> None:
        self.progress, self.task = progress, None
        self.name, self.summary, self.start_time = "", "", time.monotonic()

    def update(self, name: str, summary: str, done: float = 0.0, total: float | None = None) -> None:
        """Update the current stage: its name, a summary so far, and how much is done."""
        if self.progress is None:
            return
        name, summary = escape_control_characters(name), escape_control_characters(summary)
        if name != self.name:
            self.finish_stage()
            self.name, self.start_time = name, time.monotonic()
            self.task = self.progress.add_task(name, total=total, left="", note="")
        self.summary = summary
        # Linear extrapolation within the stage; earlier stages say nothing about the speed of this one.
        seconds_left = (time.monotonic() - self.start_time) * (total - done) / done if total and done else 0.0
        remaining = f"{seconds_left:.0f} s left" if seconds_left >= 1 else ""
        self.progress.update(self.task, completed=done, left=remaining, note=summary)

    def finish_stage(self) -> None:
        """Print the line of the stage that is finished."""
        if self.name and self.progress is not None:
            from rich.text import Text

            self.progress.remove_task(self.task)
            line = f"{self.name}: {self.summary or 'done'} ({time.monotonic() - self.start_time:.1f} s)"
            self.progress.console.print(Text(line, style="dim"))
        self.name = ""


@contextmanager
def stage_progress() -> Iterator[StageProgress]:
    """Yield the stage progress of a command; without a terminal it prints nothing."""
    if not _is_interactive():
        yield StageProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=10)]
    columns += [TextColumn("{task.fields[left]}"), TextColumn("{task.fields[note]}", markup=False)]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        stages = StageProgress(progress)
        yield stages
        stages.finish_stage()


@contextmanager
def handle_first_interrupt(text: str) -> Iterator[None]:
    """Print ``text`` at the first Ctrl-C, which interrupts the current stage; the second one ends the command."""
    old_handler = signal.getsignal(signal.SIGINT)
    # A handler of the calling program, or an ignored signal (as under nohup), is left alone.
    if old_handler is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        """Print the message and interrupt; the next Ctrl-C interrupts without a message."""
        # Restored before anything is printed, so that a second Ctrl-C during the output ends the command.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        echo("", err=True)  # the terminal shows ^C where the cursor is
        echo(f"rewardmix: {text}", err=True)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old_handler)
