"""Make shapes of drawings as SVG text. The page's style sheet sets colors by class; all text is escaped.

Drawings are 360 units wide, the width of a phone, and are scaled up only a little on wider screens, so that text keeps
its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

WIDTH = 360

NUM_COLORS = 8
"""Number of colors for types and of tints for actions; beyond that only labels distinguish them."""

Shape = Markup
Point = tuple[float, float]


def render_svg(height: float, title: str, description: str, shapes: Iterable[Shape]) -> Markup:
    """Render a drawing; screen readers read ``title`` and ``description``."""
    inner = Markup("").join(shapes)
    label = f"{title}. {description}"
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, _coordinate(height), label, inner
    )


def text(x: float, y: float, label: str, css_class: str = "", anchor: str = "start") -> Shape:
    """Draw text with its baseline at y; ``anchor`` is start, middle or end."""
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        _coordinate(x), _coordinate(y), css_class, anchor, label
    )


def line(x1: float, y1: float, x2: float, y2: float, css_class: str) -> Shape:
    """Draw a straight line."""
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>').format(
        *map(_coordinate, (x1, y1, x2, y2)), css_class
    )


def box(x: float, y: float, width: float, height: float, css_class: str, hint: str = "") -> Shape:
    """Draw a filled rectangle; ``hint`` is its tooltip."""
    inner = Markup("<title>{}</title>").format(hint) if hint else ""
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}">{}</rect>').format(
        *map(_coordinate, (x, y, width, height)), css_class, inner
    )


def circle(x: float, y: float, radius: float, css_class: str, hint: str = "") -> Shape:
    """Draw a circle, filled or as a ring by its class; ``hint`` is its tooltip."""
    inner = Markup("<title>{}</title>").format(hint) if hint else ""
    return Markup('<circle cx="{}" cy="{}" r="{}" class="{}">{}</circle>').format(
        *map(_coordinate, (x, y, radius)), css_class, inner
    )


def path(points: Sequence[Point], css_class: str) -> Shape:
    """Draw a polyline through the points."""
    steps = "L".join(f"{_coordinate(x)} {_coordinate(y)}" for x, y in points)
    return Markup('<path d="M{}" class="{}"/>').format(steps, css_class)


def _coordinate(value: float) -> str:
    """Format a coordinate with at most two decimals, without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return the linear map from [low, high] to [start, end]."""
    # An empty range maps to ``start`` instead of dividing by zero.
    width = (high - low) or 1.0
    return lambda value: start + (value - low) / width * (end - start)


def pad_range(low: float, high: float, fraction: float, zero_margin: float) -> tuple[float, float]:
    """Return a range enlarged by ``fraction`` of its length on both sides, and at least so that tick labels differ.

    The last argument is the margin if all numbers are 0.
    """
    # One percent of the magnitude: tick labels have about three digits, and a narrower range would repeat one label.
    min_length = 0.01 * max(abs(low), abs(high)) or 2 * zero_margin
    margin = max(fraction * (high - low), 0.5 * (min_length - (high - low)))
    return low - margin, high + margin


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about ``count`` round numbers between low and high."""
    raw_step = (high - low) / max(count, 1)
    if not raw_step > 0 or not math.isfinite(raw_step):
        return [low]
    power = 10.0 ** math.floor(math.log10(raw_step))
    # Steps of 1, 2, 2.5, 5 and 10 give labels with few digits; 0.999 and 1e-9 absorb rounding of powers of ten.
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw_step * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def shorten(label: str, length: int) -> str:
    """Shorten text to at most ``length`` characters, with an ellipsis."""
    return label if len(label) <= length else label[: max(length - 1, 1)].rstrip() + "…"
