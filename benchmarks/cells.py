"""Tables of the pages in Markdown, numbers as their cells show them, and the same on a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.exponents import Estimate
from benchmarks.record import table

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
"""Between the two ends of an interval, so that a narrow table does not part them."""


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def show(texts: Iterable[str]) -> None:
    """Print paragraphs and tables of Markdown, the columns of tables under each other."""
    for text in texts:
        lines = [[cell.strip() for cell in line.strip("|").split(" |")] for line in text.split("\n")]
        table(lines[0], lines[2:]) if text.startswith("|") else print(text)
        print()


def short(value: Any, digits: int = 3) -> str:
    """A share as the pages write it: .988, 1.000, -.002."""
    text = f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: there is no -.000
    return re.sub(r"^(-?)0\.", r"\1.", text)


def bare(value: float) -> str:
    """A setting as the pages write it: .05, 16, 1e-8."""
    return re.sub(r"^0\.", ".", re.sub(r"e([+-])0?", lambda sign: f"e{sign[1].strip('+')}", f"{value:g}"))


def many(value: float) -> str:
    """A large number in two digits: 7.7e6; a small one as it is."""
    return re.sub(r"e\+0?", "e", f"{value:.1e}") if value >= 1000 else f"{value:.2g}"


def within(estimate: Estimate, digits: int = 2) -> str:
    """A number with its interval: .87 [.68, 1.20]; nothing where there is no number."""
    if math.isnan(estimate.value):
        return ""
    value, low, high = (short(number, digits) for number in estimate)
    return f"{value} [{low},{NO_BREAK_SPACE}{high}]"


def counted(estimate: Estimate) -> str:
    """The same for a number of episodes: 822 [606, 1,084]."""
    return "{:,.0f} [{:,.0f},{}{:,.0f}]".format(*estimate[:2], NO_BREAK_SPACE, estimate.high)


def error_of(values: Sequence[float]) -> float:
    """Standard error of a mean."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def sized(size: Sequence[int]) -> str:
    """States, actions and horizon."""
    return ", ".join(map(str, size))
