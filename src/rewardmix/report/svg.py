"""Shapes of a drawing as SVG text. Colours come from the page's style sheet, through classes; every text is escaped.

Drawings are made for a width of 360 units, a phone held upright, and are scaled up at most a little on wider screens,
so that their letters stay letters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

WIDTH = 360

COLOURS = 8
"""Colours for contexts, and tints for actions; more than that are told apart by their labels only."""

Shape = Markup
Point = tuple[float, float]


def drawing(height: float, title: str, description: str, shapes: Iterable[Shape]) -> Markup:
    """A whole drawing; ``title`` and ``description`` are what a screen reader says."""
    inner = Markup("").join(shapes)
    label = f"{title}. {description}"
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, _coordinate(height), label, inner
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> Shape:
    """Words with their baseline at y; ``anchor`` start, middle or end."""
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        _coordinate(x), _coordinate(y), kind, anchor, words
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Shape:
    """A straight line."""
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        *map(_coordinate, (x1, y1, x2, y2)), kind
    )


def box(x: float, y: float, width: float, height: float, kind: str, hint: str = "") -> Shape:
    """A filled rectangle; ``hint`` appears under the pointer."""
    inner = Markup("<title>{}</title>").format(hint) if hint else ""
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}">{}</rect>').format(
        *map(_coordinate, (x, y, width, height)), kind, inner
    )


def circle(x: float, y: float, radius: float, kind: str, hint: str = "") -> Shape:
    """A filled circle or a ring; ``hint`` appears under the pointer."""
    inner = Markup("<title>{}</title>").format(hint) if hint else ""
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}">{}</circle>').format(
        *map(_coordinate, (x, y, radius)), kind, inner
    )


def path(points: Sequence[Point], kind: str) -> Shape:
    """Straight lines through the points."""
    steps = "L".join(f"{_coordinate(x)} {_coordinate(y)}" for x, y in points)
    return Markup('<path d="M{}" class="{}"/>').format(steps, kind)


def _coordinate(value: float) -> str:
    """Coordinates with two digits, and no more characters than needed."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """The linear map that takes [low, high] to [start, end]."""
    width = (high - low) or 1.0
    return lambda value: start + (value - low) / width * (end - start)


def roomy(low: float, high: float, share: float, least: float) -> tuple[float, float]:
    """A range with ``share`` of it added on both sides, and not so narrow that labels could not tell its ends apart.

    ``least`` is the margin where all numbers are 0.
    """
    narrow = 0.01 * max(abs(low), abs(high)) or 2 * least
    margin = max(share * (high - low), 0.5 * (narrow - (high - low)))
    return low - margin, high + margin


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from low to high."""
    raw = (high - low) / max(count, 1)
    if not raw > 0 or not math.isfinite(raw):
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def shortened(words: str, length: int) -> str:
    """At most ``length`` characters, with an ellipsis for what is left out."""
    return words if len(words) <= length else words[: max(length - 1, 1)].rstrip() + "…"
