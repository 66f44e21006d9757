"""Rewrite what the pages show of committed results: python -m benchmarks.pages.

A page says where a measured table or sentence comes from,

    <!-- from benchmarks/learning/results.json, benchmarks/learning/long.json: learning.share -->

    ... whatever ``benchmarks.tables`` makes of these files, and a line that names them and their commands ...

    <!-- end -->

and this program fills in what is between. The rest of a page holds no measured number.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from benchmarks.record import found_in, results_of, stored
from benchmarks.tables import TABLES

ROOT = Path(__file__).parents[1]
WIDTH = 120
END = "<!-- end -->"
FROM = re.compile(
    rf"(?P<mark><!-- from (?P<files>[^:>]+): (?P<name>[\w.]+) -->)\n(?P<body>.*?){re.escape(END)}", re.DOTALL
)


def pages(root: Path = ROOT) -> list[Path]:
    """README and everything under docs."""
    return [root / "README.md", *sorted(path for path in (root / "docs").rglob("*.md") if "_build" not in path.parts)]


def source(paths: list[Path], root: Path) -> str:
    """The line below a table: the files and their commands, each command once."""
    files: dict[str, list[str]] = {}
    for path in paths:
        files.setdefault(stored(path)["command"], []).append(f"`{path.relative_to(root)}`")
    parts = [f"{' and '.join(names)} by `{command}`" for command, names in files.items()]
    return wrapped("From " + "; ".join(parts) + ".")


def wrapped(text: str) -> str:
    """A paragraph in lines of the usual width that cut no code; tables stay as they are."""
    if text.startswith("|"):
        return text
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))
    return textwrap.fill(whole, WIDTH, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def made(files: str, name: str, root: Path) -> str:
    """What belongs between the two marks."""
    if name not in TABLES:
        raise KeyError(f"{name}: no such table, there are {', '.join(TABLES)}")
    paths = found_in(files, root)
    parts = [wrapped(part) for part in TABLES[name](*map(results_of, paths))]
    return "\n\n".join([*parts, source(paths, root)])


def filled(text: str, root: Path = ROOT) -> str:
    """The text of a page with everything between marks made anew."""

    def fresh(found: re.Match[str]) -> str:
        return f"{found['mark']}\n\n{made(found['files'], found['name'], root)}\n\n{END}"

    return FROM.sub(fresh, text)


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
