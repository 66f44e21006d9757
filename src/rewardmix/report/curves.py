"""Draw curves over episodes, on a logarithmic axis, and over the steps of an episode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from rewardmix.report.formatting import format_count, format_decimal, format_percent, format_small
from rewardmix.report.svg import NUM_COLORS, WIDTH, Shape, circle, line, path, render_svg, scale, text, ticks

_Data = Mapping[str, Any]


def draw_uncertainty(points: Sequence[Sequence[float]]) -> Markup | None:
    """Draw the uncertainty V_0 over the number of episodes; ``None`` with fewer than two points."""
    points = [point for point in points if point[0] >= 1 and point[1] is not None]
    if len(points) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 14.0, 14.0, 176.0
    first, last = math.log10(points[0][0]), math.log10(points[-1][0])
    # The axis reaches at least 1 (no pair observed), so that pages of different runs can be compared.
    highest = max(1.0, *(point[1] for point in points))
    to_x, to_y = scale(first, last, left, right), scale(0.0, highest, bottom, top)
    shapes = [
        shape for value in ticks(0.0, highest, 4) for shape in _draw_gridline(left, right, to_y(value), f"{value:g}")
    ]
    shapes += _draw_episode_axis(to_x, first, last, bottom)
    curve = [(to_x(math.log10(k)), to_y(v)) for k, v in points]
    area = [*curve, (curve[-1][0], bottom), (curve[0][0], bottom)]
    shapes += [path(area, "area"), path(curve, "curve"), circle(*curve[-1], 3.5, "solid")]
    last_point = points[-1]
    # The label of the last point stands below the curve, or above it where the axis would be in the way.
    is_low = curve[-1][1] > bottom - 24
    shapes.append(text(right, curve[-1][1] + (-10 if is_low else 18), format_small(last_point[1]), "value", "end"))
    values = f"{format_small(points[0][1])} to {format_small(last_point[1])}"
    description = f"The uncertainty decreases from {values} after {format_count(last_point[0])} episodes"
    return render_svg(214, "Uncertainty over episodes", description, shapes)


def _draw_episode_axis(to_x: Any, first: float, last: float, bottom: float) -> list[Shape]:
    """Draw ticks at powers of ten below a drawing, between two logarithms of episodes."""
    shapes = [text((to_x(first) + to_x(last)) / 2, bottom + 33, "episodes (logarithmic)", "label", "middle")]
    # The tolerance keeps a power of ten whose logarithm is not exact.
    for power in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1):
        x = to_x(power)
        shapes += [
            line(x, bottom, x, bottom + 4, "axis"),
            text(x, bottom + 16, format_count(10**power), "tick", "middle"),
        ]
    return shapes


def draw_online_rewards(online: _Data) -> Markup | None:
    """Draw the reward per episode over episodes, the optimal value, and a mark at each policy change."""
    points, optimal_value = online["returns"], online["optimal_value"]
    if len(points) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 14.0, 14.0, 176.0
    last = math.log10(points[-1][0])
    ends = [mean for _, mean in points] + ([] if optimal_value is None else [optimal_value])
    # The axis contains 0, so that heights can be compared; 1e-9 avoids an empty range for constant rewards.
    low, high = min(0.0, *ends), max(*ends, min(ends) + 1e-9)
    to_x, to_y = scale(0.0, last, left, right), scale(low, high, bottom, top)
    shapes = [
        shape for value in ticks(low, high, 4) for shape in _draw_gridline(left, right, to_y(value), f"{value:g}")
    ]
    shapes += _draw_episode_axis(to_x, 0.0, last, bottom)
    if optimal_value is not None:
        shapes += [line(left, to_y(optimal_value), right, to_y(optimal_value), "prior")]
    positions = [to_x(math.log10(k)) for k in online["policy_changes"] if 1 <= k <= points[-1][0]]
    shapes += [line(x, bottom - 7, x, bottom, "axis") for x in positions]
    shapes.append(path([(to_x(math.log10(k)), to_y(mean)) for k, mean in points], "curve"))
    description = f"From {format_decimal(points[0][1])} at the start to {format_decimal(points[-1][1])} at the end"
    return render_svg(214, "Reward per episode", description, shapes)


def draw_type_weights(online: _Data) -> Markup | None:
    """Draw the estimated type weights over episodes."""
    rows = [(k, weights) for k, weights in online["type_weights"] if k >= 1 and weights]
    if len(rows) < 2 or not online["returns"]:
        return None
    left, right, top, bottom = 34.0, WIDTH - 14.0, 14.0, 146.0
    last = math.log10(max(online["returns"][-1][0], rows[-1][0], 2))
    to_x, to_y = scale(0.0, last, left, right), scale(0.0, 1.0, bottom, top)
    shapes = [shape for value in (0.0, 0.5, 1.0) for shape in _draw_gridline(left, right, to_y(value), f"{value:g}")]
    shapes += _draw_episode_axis(to_x, 0.0, last, bottom)
    # An agent that selects the number of types has rows of different lengths; a curve has the points that its type has.
    for m in range(max(len(weights) for _, weights in rows)):
        curve = [(to_x(math.log10(k)), to_y(weights[m])) for k, weights in rows if m < len(weights)]
        shapes.append(path([*curve, (right, curve[-1][1])], f"ring k{m % NUM_COLORS}"))
    description = "At the end " + ", ".join(format_percent(weight) for weight in rows[-1][1])
    return render_svg(184, "Estimated weight of each type", description, shapes)


def draw_certainty(certainty: Sequence[float]) -> Markup | None:
    """Draw the expected certainty of the most probable type after each step."""
    if len(certainty) < 2:
        return None
    left, right, top, bottom = 40.0, WIDTH - 14.0, 14.0, 146.0
    to_x, to_y = scale(0.0, len(certainty) - 1.0, left, right), scale(0.0, 1.0, bottom, top)
    shapes = [
        shape
        for value in (0.0, 0.5, 0.9, 1.0)
        for shape in _draw_gridline(left, right, to_y(value), format_percent(value))
    ]
    for step in ticks(0.0, len(certainty) - 1.0, 6):
        if step == int(step):
            shapes += [line(to_x(step), bottom, to_x(step), bottom + 4, "axis")]
            shapes.append(text(to_x(step), bottom + 16, f"{step:g}", "tick", "middle"))
    shapes.append(text((left + right) / 2, bottom + 33, "steps of an episode", "label", "middle"))
    curve = [(to_x(t), to_y(value)) for t, value in enumerate(certainty)]
    shapes += [path(curve, "curve"), circle(*curve[-1], 3.5, "solid")]
    description = (
        f"{format_percent(certainty[0])} before the first step, {format_percent(certainty[-1])} after the last"
    )
    return render_svg(184, "Certainty of the most probable type", description, shapes)


def _draw_gridline(left: float, right: float, y: float, label: str) -> list[Shape]:
    """Draw a horizontal grid line with its label."""
    return [line(left, y, right, y, "rule"), text(left - 6, y + 3.5, label, "tick", "end")]
