"""What a terminal shows: lines, tables, a bar with the time left; plain columns and no progress when piped.

Nothing of that is shown where ``--quiet`` was typed, and one JSON object in its place where ``--json`` was.

Text may come from a log that a stranger wrote, and a terminal obeys what it is sent: so all that commands write goes
through this file, which shows control characters instead of sending them.
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


class Voice(StrEnum):
    """Whom a command speaks to."""

    PEOPLE = "people"
    PROGRAMS = "programs"
    NOBODY = "nobody"


VOICE: ContextVar[Voice] = ContextVar("voice", default=Voice.PEOPLE)
"""Whom this command speaks to; ``cli.voices`` sets it."""


UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them: control characters, ends of lines, turns of direction."""


def visible(text: str) -> str:
    """``text`` with an escape, as JSON writes it, for each character that a terminal would obey."""
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def echo(text: str, *, err: bool = False) -> None:
    """Write one line."""
    typer.echo(visible(text), err=err)


def write_document(text: str) -> None:
    """Write a text of several lines as it is, or as it can be shown where a terminal shows it."""
    lines = [visible(line) for line in text.split("\n")] if sys.stdout.isatty() else [text]
    typer.echo("\n".join(lines), nl=False)


def say(text: str) -> None:
    """Print a line for people, broken between words where it is longer than the terminal is wide."""
    if VOICE.get() is Voice.PEOPLE:
        typer.echo(_wrapped(visible(text)) if sys.stdout.isatty() else visible(text))


def answer(**parts: Any) -> None:
    """Print the result as one JSON object, if that was asked for."""
    if VOICE.get() is Voice.PROGRAMS:
        from rewardmix.report.playable import as_json, plain

        write_document(as_json(plain(parts)) + "\n")


def remark(text: str) -> None:
    """Say on the side how it is going; where nobody watches, nothing."""
    if _watched():
        typer.echo(_wrapped(visible(text)), err=True)


def announce_compiling() -> None:
    """Say what the first command of an installation waits for."""
    from rewardmix._core import jit

    jit.when_compiling(lambda: remark("compiling for this machine, once"))


def _watched() -> bool:
    """Whether somebody looks at the terminal while the command works."""
    return sys.stderr.isatty() and VOICE.get() is not Voice.NOBODY


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    width = max(shutil.get_terminal_size().columns, 20)
    return textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def show_headline(summary: Mapping[str, Any]) -> None:
    """What was left out, what to make of a run, what to do next, and what the types are."""
    for warning in summary.get("warnings") or ():
        say(warning)
    say(summary["verdict"]["sentence"])
    say(f"Next: {summary['verdict']['advice']}")
    for told in summary["types"]:
        say(f"- {told['sentence']}")
    say(summary["recognition"]["sentence"])


def answer_run(out: Path, summary: Mapping[str, Any]) -> None:
    """The headline of a run as JSON; ``result.json`` of its folder holds everything."""
    told = ("title", "seed", "command", "warnings", "verdict", "types", "recognition")
    kept = (*told, "answer", "comparison", "certificate", "unanswered", "earned")
    files = {"folder": str(out), "report": str(out / "report.html")}
    answer(**files, episodes=summary["world"]["episodes"], **{name: summary.get(name) for name in kept})


def say_finished(out: Path) -> None:
    """Say that there is nothing left to do for a run."""
    say(f"finished already: {out / 'report.html'}")
    if VOICE.get() is Voice.PROGRAMS:
        from rewardmix.report.folder import read_result

        answer_run(out, read_result(out))


def open_page(path: Path) -> None:
    """Show a page in whatever browser there is; where there is none, say so and go on."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        echo(f"rewardmix: found no browser to open {path} with", err=True)


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 episode, 2 episodes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> None:
    """Print a table; the first ``texts`` columns are words, the others numbers and stand to the right.

    Where the terminal is too narrow even for the words, each row is a paragraph.
    """
    if VOICE.get() is not Voice.PEOPLE:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    title, columns = visible(title), [visible(column) for column in columns]
    rows = [[visible(cell) for cell in row] for row in rows]
    together = list(zip(columns, *rows, strict=True))
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in together]
        console.width = max(len(title), sum(widths) + 4 * len(widths))
    elif sum(_longest_word(column, whole=i >= texts) + 2 for i, column in enumerate(together)) > console.width:
        _show_paragraphs(title, columns, rows)
        return
    table = Table(box=box.SIMPLE_HEAD)
    for i, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if i < texts else "right", overflow="fold", no_wrap=False)
        table.columns[i].min_width = _longest_word(together[i], whole=i >= texts)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Text(_wrapped(title) if console.is_terminal else title, style="bold"))
    console.print(table)


def _longest_word(column: Sequence[str], whole: bool) -> int:
    """Least width of a column: of its longest word, or of its longest cell if numbers are to stay ``whole``."""
    words = column[0].split()
    words += column[1:] if whole else [word for cell in column[1:] for word in cell.split()]
    return max(map(len, words), default=1)


def _show_paragraphs(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    say(title)
    for row in rows:
        say("")
        for column, cell in zip(columns, row, strict=True):
            say(f"- {column}: {cell}" if column else f"- {cell}")
    say("")


def show_values(comparison: Mapping[str, Any]) -> None:
    """Print what policies earn, and in which world."""
    from rewardmix.facts import EVIDENCE

    rows = [[row["name"], fixed(row["value"])] for row in comparison["rows"]]
    show_table(f"What policies earn ({EVIDENCE[comparison['measured']]})", ["policy", "value"], rows)


def fixed(value: float, digits: int = 4) -> str:
    """A number with a fixed number of digits behind the point, and no minus sign before nothing."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


@contextmanager
def live_line() -> Iterator[Callable[[str], None]]:
    """Yields ``show(text)``, which replaces the line under the cursor."""
    if not _watched():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(Text(visible(text)))


@contextmanager
def bar(label: str, total: float | None) -> Iterator[Callable[..., None]]:
    """Yields ``show(done, note="")``: a bar of ``done`` out of ``total`` (None: open-ended), speed and time left."""
    if not _watched():
        yield lambda done, note="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(bar_width=10)]
    columns += [TimeRemainingColumn(compact=True), TextColumn("left,")]
    columns += [TextColumn("{task.fields[note]}", markup=False)]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(visible(label), total=total, note="")
        yield lambda done, note="": progress.update(task, completed=done, note=visible(note))


class Stages:
    """The stages of a command: a bar for the one under way, and one line for each that is over."""

    def __init__(self, progress: Any = None) -> None:
        self.progress, self.task = progress, None
        self.name, self.came_to, self.began = "", "", time.monotonic()

    def tell(self, name: str, came_to: str, done: float = 0.0, total: float | None = None) -> None:
        """That the stage ``name`` is under way, what it has come to so far, and how much of it is done."""
        if self.progress is None:
            return
        name, came_to = visible(name), visible(came_to)
        if name != self.name:
            self.end()
            self.name, self.began = name, time.monotonic()
            self.task = self.progress.add_task(name, total=total, left="", note="")
        self.came_to = came_to
        left = (time.monotonic() - self.began) * (total - done) / done if total and done else 0.0
        told = f"{left:.0f} s left" if left >= 1 else ""
        self.progress.update(self.task, completed=done, left=told, note=came_to)

    def end(self) -> None:
        """Leave the line of the stage that is over."""
        if self.name and self.progress is not None:
            from rich.text import Text

            self.progress.remove_task(self.task)
            done = f"{self.name}: {self.came_to or 'done'} ({time.monotonic() - self.began:.1f} s)"
            self.progress.console.print(Text(done, style="dim"))
        self.name = ""


@contextmanager
def watching() -> Iterator[Stages]:
    """Yields the ``Stages`` of a command."""
    if not _watched():
        yield Stages()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=10)]
    columns += [TextColumn("{task.fields[left]}"), TextColumn("{task.fields[note]}", markup=False)]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        stages = Stages(progress)
        yield stages
        stages.end()


@contextmanager
def answering_interrupts(text: str) -> Iterator[None]:
    """Answer the first Ctrl-C at once with ``text``, which says what is still being done; the next one ends that."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # somebody else listens, or nobody shall
        yield
        return

    def hear(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        echo("", err=True)  # the terminal shows ^C where the cursor is
        echo(f"rewardmix: {text}", err=True)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
