"""Rewrite the tables that the pages show of committed results: python -m benchmarks.pages.

A page marks where a table belongs,

    <!-- table learning.share of grid, long -->

    ... the table that ``share`` of ``benchmarks.learning.analysis.TABLES`` makes from the rows of these two parts, and
    a line with their file and commands ...

    <!-- end -->

and this program writes what is between the marks. The rest of a page contains no measured number.

``results.jsonl`` keeps the labels that a study had when it was run; ``LABELS`` translates them into the terms of the
glossary when a table is written.
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

LABELS = {
    # tests of assumptions
    "one type short": "more types needed",
    "copying": "reward copying",
    "moves": "transitions",
    "not asked": "skipped",
    "the best policy": "optimal policy",
    "two rooms": "two states",
    "paid on arrival": "reward on arrival",
    "nothing": "none",
    # confidence sets
    "averages": "marginals",
    "starts": "initial states",
    "any laws": "any rewards",
    # recovery
    "best": "maximum likelihood",
    "from moments": "moments only",
    "3 deviations": "3 standard errors",
    "guaranteed radii": "Hoeffding radii",
    # learning
    "the moves": "transitions",
    "the rewards and weights": "rewards and weights",
    "the weights": "weights",
    "the types of the episodes": "types of the episodes",
    "pseudo-count 1": "pseudocount 1",
    "pseudo-count 2": "pseudocount 2",
    "pseudo-count 3": "pseudocount 3",
    "but half of the episodes are refinement": "half of the episodes are refinement",
    "by turns the likeliest world and a draw": "alternately the most likely model and a sample",
    "the best of 3 draws of each reward": "best of 3 samples of each reward",
    "hope of two deviations": "optimism of two standard errors",
    "no chance": "no sampling",
    "hope and chance": "optimism and sampling",
    "from 2 to 1 deviations": "2 to 1 standard errors",
    "from 3 to .5 deviations": "3 to .5 standard errors",
    # planning
    "gap met": "gap",
    "work limit": "operations",
    # behavior policies of logs
    "following": "reward-following",
    # diagnostics
    "its check-up": "its diagnostics",
    # A/B test
    "bound 10": "return clipped at 10",
    # attacks
    "injected text: key": "injected text: idempotency key",
    "injected text: visitor": "injected text: user",
    "injected text: visitor to forget": "injected text: user to delete",
    "reward and hold": "reward and pin",
    "injected text: address": "injected text: path",
    "keys that another visitor has begun with": "idempotency keys of another user",
    "visitors with odd ids": "users with unusual ids",
    "to be forgotten": "to be deleted",
    "forgotten: 14": "deleted: 14",
    "sessions that are begun and abandoned": "sessions that are started and abandoned",
    "told again: unknown states as they were said": "unknown states are returned unchanged",
    "sessions beyond --most-open": "sessions beyond --max-open-sessions",
    "requests beyond --rate": "requests beyond --rate-limit",
}
"""Label of a stored result, or one of its parts between commas -> label on the page."""


def relabel(text: str) -> str:
    """Translate the labels in the cells of a table into the terms of the glossary."""
    if not text.startswith("|"):
        return text

    def relabel_cell(cell: re.Match[str]) -> str:
        parts = cell[0].split(", ")
        return LABELS.get(cell[0]) or ", ".join(LABELS.get(part, part) for part in parts)

    return re.sub(r"[^|\s][^|\n]*[^|\s]|[^|\s]", relabel_cell, text)


def list_pages(root: Path = ROOT) -> list[Path]:
    """List README and all pages under docs."""
    return [root / "README.md", *sorted(path for path in (root / "docs").rglob("*.md") if "_build" not in path.parts)]


def wrap(text: str) -> str:
    """Wrap a paragraph at the line width without breaking code; tables stay unchanged."""
    if text.startswith("|"):
        return text
    unbroken = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))
    return textwrap.fill(unbroken, WIDTH, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def make_table(study: str, name: str, parts: list[str], folder: Path = HERE) -> str:
    """Make a table with its paragraphs and a line with its file and commands."""
    tables, results = import_module(f"benchmarks.{study}.analysis").TABLES, parts_of(study, folder)
    if name not in tables:
        raise KeyError(f"{study}.{name}: no such table, there are {', '.join(tables)}")
    if missing := [part for part in parts if part not in results]:
        raise KeyError(f"{study}: no results of {missing[0]}, there are {', '.join(results)}")
    commands = dict.fromkeys(f"`{results[part][0]['command']}`" for part in parts)
    source = f"From `benchmarks/{study}/results.jsonl` by {', '.join(commands)}."
    texts = [*tables[name](*(results[part][1:] for part in parts)), source]
    return "\n\n".join(wrap(relabel(text)) for text in texts)


def fill_tables(text: str, folder: Path = HERE) -> str:
    """Return the text of a page with new tables between the marks."""

    def fill(mark: re.Match[str]) -> str:
        parts = [part.strip() for part in mark["parts"].split(",")]
        return f"{mark['mark']}\n\n{make_table(mark['study'], mark['name'], parts, folder)}\n\n{END}"

    return TABLE.sub(fill, text)


def main() -> None:
    """Rewrite all pages."""
    for path in list_pages():
        before = path.read_text(encoding="utf-8")
        after = fill_tables(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
