"""Figures over the episodes, on a logarithmic axis, and over the steps of one: how sure the policy is of the type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from rewardmix.report.svg import COLOURS, WIDTH, Shape, circle, drawing, line, path, scale, text, ticks
from rewardmix.report.words import count, decimal, fine, percent

_Data = Mapping[str, Any]


def uncertainty_curve(points: Sequence[Sequence[float]]) -> Markup | None:
    """V_0 over the episodes, on a logarithmic axis of episodes."""
    points = [point for point in points if point[0] >= 1 and point[1] is not None]
    if len(points) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 14.0, 14.0, 176.0
    first, last = math.log10(points[0][0]), math.log10(points[-1][0])
    highest = max(1.0, *(point[1] for point in points))
    along, up = scale(first, last, left, right), scale(0.0, highest, bottom, top)
    shapes = [shape for value in ticks(0.0, highest, 4) for shape in _rule(left, right, up(value), f"{value:g}")]
    shapes += _episode_axis(along, first, last, bottom)
    curve = [(along(math.log10(k)), up(v)) for k, v in points]
    area = [*curve, (curve[-1][0], bottom), (curve[0][0], bottom)]
    shapes += [path(area, "area"), path(curve, "curve"), circle(*curve[-1], 3.5, "solid")]
    end = points[-1]
    low = curve[-1][1] > bottom - 24
    shapes.append(text(right, curve[-1][1] + (-10 if low else 18), fine(end[1]), "value", "end"))
    told = f"The uncertainty falls from {fine(points[0][1])} to {fine(end[1])} after {count(end[0])} episodes"
    return drawing(214, "Uncertainty over episodes", told, shapes)


def _episode_axis(along: Any, first: float, last: float, bottom: float) -> list[Shape]:
    """Powers of ten below a drawing, between two logarithms of episodes."""
    shapes = [text((along(first) + along(last)) / 2, bottom + 33, "episodes (logarithmic)", "label", "middle")]
    for power in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1):
        x = along(power)
        shapes += [line(x, bottom, x, bottom + 4, "axis"), text(x, bottom + 16, count(10**power), "tick", "middle")]
    return shapes


def earned_curve(earned: _Data) -> Markup | None:
    """Reward an episode over the episodes, what the best policy earns, and a mark wherever the policy changed."""
    points, best = earned["points"], earned["best"]
    if len(points) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 14.0, 14.0, 176.0
    last = math.log10(points[-1][0])
    ends = [mean for _, mean in points] + ([] if best is None else [best])
    low, high = min(0.0, *ends), max(*ends, min(ends) + 1e-9)
    along, up = scale(0.0, last, left, right), scale(low, high, bottom, top)
    shapes = [shape for value in ticks(low, high, 4) for shape in _rule(left, right, up(value), f"{value:g}")]
    shapes += _episode_axis(along, 0.0, last, bottom)
    if best is not None:
        shapes += [line(left, up(best), right, up(best), "prior")]
    places = [along(math.log10(k)) for k in earned["switches"] if 1 <= k <= points[-1][0]]
    shapes += [line(x, bottom - 7, x, bottom, "axis") for x in places]
    shapes.append(path([(along(math.log10(k)), up(mean)) for k, mean in points], "curve"))
    told = f"From {decimal(points[0][1])} at first to {decimal(points[-1][1])} in the end"
    return drawing(214, "Reward an episode", told, shapes)


def share_curves(earned: _Data) -> Markup | None:
    """How frequent each type was believed to be, over the episodes."""
    rows = [(k, shares) for k, shares in earned["shares"] if k >= 1 and shares]
    if len(rows) < 2 or not earned["points"]:
        return None
    left, right, top, bottom = 34.0, WIDTH - 14.0, 14.0, 146.0
    last = math.log10(max(earned["points"][-1][0], rows[-1][0], 2))
    along, up = scale(0.0, last, left, right), scale(0.0, 1.0, bottom, top)
    shapes = [shape for value in (0.0, 0.5, 1.0) for shape in _rule(left, right, up(value), f"{value:g}")]
    shapes += _episode_axis(along, 0.0, last, bottom)
    for m in range(max(len(shares) for _, shares in rows)):
        curve = [(along(math.log10(k)), up(shares[m])) for k, shares in rows if m < len(shares)]
        shapes.append(path([*curve, (right, curve[-1][1])], f"ring k{m % COLOURS}"))
    told = "In the end " + ", ".join(percent(share) for share in rows[-1][1])
    return drawing(184, "Belief in the share of each type", told, shapes)


def certainty_curve(certainty: Sequence[float]) -> Markup | None:
    """How sure the policy is of the most probable type, after each step."""
    if len(certainty) < 2:
        return None
    left, right, top, bottom = 40.0, WIDTH - 14.0, 14.0, 146.0
    along, up = scale(0.0, len(certainty) - 1.0, left, right), scale(0.0, 1.0, bottom, top)
    shapes = [shape for value in (0.0, 0.5, 0.9, 1.0) for shape in _rule(left, right, up(value), percent(value))]
    for step in ticks(0.0, len(certainty) - 1.0, 6):
        if step == int(step):
            shapes += [line(along(step), bottom, along(step), bottom + 4, "axis")]
            shapes.append(text(along(step), bottom + 16, f"{step:g}", "tick", "middle"))
    shapes.append(text((left + right) / 2, bottom + 33, "steps of an episode", "label", "middle"))
    curve = [(along(t), up(sure)) for t, sure in enumerate(certainty)]
    shapes += [path(curve, "curve"), circle(*curve[-1], 3.5, "solid")]
    told = f"{percent(certainty[0])} before the first step, {percent(certainty[-1])} after the last"
    return drawing(184, "Certainty of the most probable type", told, shapes)


def _rule(left: float, right: float, y: float, label: str) -> list[Shape]:
    return [line(left, y, right, y, "rule"), text(left - 6, y + 3.5, label, "tick", "end")]
