"""Rewrite the tables that the pages show of committed results: python -m benchmarks.pages.

A page says where a table comes from,

    <!-- table learning.share of grid, long -->

    ... what ``share`` of ``benchmarks.learning.analysis.TABLES`` makes of the rows of these two parts, and a line that
    names their file and commands ...

    <!-- end -->

and this program fills in what is between. The rest of a page holds no measured number.
"""

from __future__ import annotations

import re
import textwrap
from importlib import import_module
from pathlib import Path

from benchmarks.record import HERE, parts_of

ROOT = HERE.parent
WIDTH = 120
END = "<!-- end -->"
TABLE = re.compile(
    rf"(?P<mark><!-- table (?P<study>\w+)\.(?P<name>\w+) of (?P<parts>[\w, ]+) -->)\n.*?{re.escape(END)}", re.DOTALL
)


def pages(root: Path = ROOT) -> list[Path]:
    """README and everything under docs."""
    return [root / "README.md", *sorted(path for path in (root / "docs").rglob("*.md") if "_build" not in path.parts)]


def wrapped(text: str) -> str:
    """A paragraph in lines of the usual width that cut no code; tables stay as they are."""
    if text.startswith("|"):
        return text
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))
    return textwrap.fill(whole, WIDTH, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def made(study: str, name: str, parts: list[str], folder: Path = HERE) -> str:
    """A table, the paragraphs that belong to it, and a line that says where it comes from."""
    tables, found = import_module(f"benchmarks.{study}.analysis").TABLES, parts_of(study, folder)
    if name not in tables:
        raise KeyError(f"{study}.{name}: no such table, there are {', '.join(tables)}")
    if missing := [part for part in parts if part not in found]:
        raise KeyError(f"{study}: no results of {missing[0]}, there are {', '.join(found)}")
    commands = dict.fromkeys(f"`{found[part][0]['command']}`" for part in parts)
    source = f"From `benchmarks/{study}/results.jsonl` by {', '.join(commands)}."
    return "\n\n".join(wrapped(text) for text in [*tables[name](*(found[part][1:] for part in parts)), source])


def filled(text: str, folder: Path = HERE) -> str:
    """The text of a page with everything between marks made anew."""

    def fresh(found: re.Match[str]) -> str:
        parts = [part.strip() for part in found["parts"].split(",")]
        return f"{found['mark']}\n\n{made(found['study'], found['name'], parts, folder)}\n\n{END}"

    return TABLE.sub(fresh, text)


def main() -> None:
    """Rewrite all pages."""
    for path in pages():
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
