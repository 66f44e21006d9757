"""The figures of the page, each from plain data of the summary to an SVG drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from rewardmix.report.svg import WIDTH, Shape, box, dot, drawing, line, path, scale, shortened, text, ticks
from rewardmix.report.words import count, fine, number

COLOURS = 8
"""Colours for contexts, and tints for actions; more than that are told apart by their labels only."""

Summary = Mapping[str, Any]


def uncertainty(points: Sequence[Sequence[float]]) -> Markup | None:
    """V_0 over the episodes, on a logarithmic axis of episodes."""
    points = [point for point in points if point[0] >= 1 and point[1] is not None]
    if len(points) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 14.0, 14.0, 176.0
    first, last = math.log10(points[0][0]), math.log10(points[-1][0])
    highest = max(1.0, *(point[1] for point in points))
    along, up = scale(first, last, left, right), scale(0.0, highest, bottom, top)
    shapes = [shape for value in ticks(0.0, highest, 4) for shape in _rule(left, right, up(value), f"{value:g}")]
    for power in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1):
        x = along(power)
        shapes += [line(x, bottom, x, bottom + 4, "axis"), text(x, bottom + 16, count(10**power), "tick", "middle")]
    curve = [(along(math.log10(k)), up(v)) for k, v in points]
    area = [*curve, (curve[-1][0], bottom), (curve[0][0], bottom)]
    shapes += [path(area, "area"), path(curve, "curve"), dot(*curve[-1], 3.5, "solid")]
    end = points[-1]
    low = curve[-1][1] > bottom - 24
    shapes.append(text(right, curve[-1][1] + (-10 if low else 18), fine(end[1]), "value", "end"))
    shapes.append(text((left + right) / 2, bottom + 33, "episodes (logarithmic)", "label", "middle"))
    told = f"The uncertainty falls from {fine(points[0][1])} to {fine(end[1])} after {count(end[0])} episodes"
    return drawing(214, "Uncertainty over episodes", told, shapes)


def comparison(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Policies by what they earn: dots with intervals, the highest first."""
    rows = sorted((row for row in rows if row.get("value") is not None), key=lambda row: -row["value"])
    if not rows:
        return None
    ends = [row[key] for row in rows for key in ("lower", "value", "upper") if row.get(key) is not None]
    low, high = float(min(ends)), float(max(ends))
    margin = 0.08 * (high - low) or 0.5
    left, right, step = 16.0, WIDTH - 50.0, 36.0
    along = scale(low - margin, high + margin, left, right)
    bottom = step * len(rows) + 4
    shapes = []
    for value in ticks(low - margin, high + margin, 4):
        shapes += [line(along(value), 4, along(value), bottom, "rule")]
        shapes += [text(along(value), bottom + 13, f"{value:g}", "tick", "middle")]
    for i, row in enumerate(rows):
        y = step * i + 26
        mine = "mine" if row.get("role") == "adaptive" else "other"
        shapes.append(text(left, y - 10, shortened(row["name"], 44), f"name {mine}"))
        shapes.append(line(left, y, right, y, "thread"))
        if row.get("lower") is not None and row.get("upper") is not None:
            shapes.append(line(along(row["lower"]), y, along(row["upper"]), y, f"interval {mine}"))
        shapes += [dot(along(row["value"]), y, 5, f"mark {mine}")]
        shapes += [text(WIDTH, y + 4, number(row["value"], 3), f"value {mine}", "end")]
    shapes.append(text((left + right) / 2, bottom + 29, "expected rewards of an episode", "label", "middle"))
    told = "; ".join(f"{row['name']} {number(row['value'], 3)}" for row in rows)
    return drawing(bottom + 36, "What each policy earns", told, shapes)


def coverage(data: Mapping[str, Any], world: Summary) -> Markup:
    """The lower triangle of pairs: the more often seen together, the darker."""
    cells, block = data["cells"], data["block"]
    labelled = block == 1 and len(cells) <= 24
    left = 118.0 if labelled else 74.0
    side = min((WIDTH - left - 2) / len(cells), 26.0)
    edges = _edges(cells)
    shapes: list[Shape] = []
    for i, row in enumerate(cells):
        for j, seen in enumerate(row):
            hint = _pair_hint(i, j, seen, world) if labelled else ""
            shapes += _cell(left + j * side, 4 + i * side, side, seen, edges, hint)
    shapes += _pair_labels(len(cells), block, left, side, world, labelled)
    shapes += _coverage_key(cells, edges, side)
    height = 4 + side * len(cells) + 30
    told = f"{data['seen']} pairs seen, {data['never']} that can meet but never did, {data['impossible']} that cannot"
    return drawing(height, "How often two state-actions were met in one episode", told, shapes)


LEVELS = 5
"""Shades of the heat map."""


def _edges(cells: Sequence[Sequence[int]]) -> list[int]:
    """Least count of each shade: equal steps of the logarithm from the least to the greatest count that was seen."""
    seen = [value for row in cells for value in row if value > 0]
    if not seen:
        return []
    low, high = min(seen), max(seen)
    steps = [round(low * (high / low) ** (i / LEVELS)) for i in range(LEVELS)]
    return sorted(set(steps))


def _level(seen: int, edges: Sequence[int]) -> int:
    """The shade of a count, up to ``LEVELS``; the darkest is always used."""
    return LEVELS - len(edges) + sum(seen >= edge for edge in edges)


def _cell(x: float, y: float, side: float, seen: int, edges: Sequence[int], hint: str) -> list[Shape]:
    gap = 1.0 if side > 7 else 0.3
    size = side - gap
    if seen < 0:
        return [box(x, y, size, size, "cell none", hint)]
    if seen == 0:
        slash = path([(x + 1, y + size - 1), (x + size - 1, y + 1)], "slash")
        return [box(x, y, size, size, "cell never", hint), slash]
    return [box(x, y, size, size, f"cell h{_level(seen, edges)}", hint)]


def _pair_hint(i: int, j: int, seen: int, world: Summary) -> str:
    names = " with ".join(f"{_state(world, x)}, {_action(world, x)}" for x in (i, j))
    return f"{names}: " + ("cannot meet" if seen < 0 else "never seen" if seen == 0 else f"{count(seen)} episodes")


def _pair_labels(rows: int, block: int, left: float, side: float, world: Summary, labelled: bool) -> list[Shape]:
    """Actions beside the rows and states below; in large maps states beside the rows, as many as fit."""
    shapes: list[Shape] = []
    width = world["actions"] / block * side
    below = 6 + rows * side
    for s, name in enumerate(world["state_names"] if labelled else ()):
        start = left + s * width
        shapes.append(line(start, below, start + width - 2, below, "axis"))
        fitting = shortened(name, max(3, int(width / 6.4)))
        shapes.append(text(start + width / 2 - 1, below + 13, fitting, "tick", "middle"))
    for i in range(rows if labelled else 0):
        shapes.append(text(left - 6, 7.5 + (i + 0.5) * side, shortened(_action(world, i), 17), "tick", "end"))
    every = max(1, math.ceil(13 / width))
    for s in range(0, 0 if labelled else world["states"], every):
        name = shortened(world["state_names"][s], 12)
        shapes.append(text(left - 6, 7.5 + (s + 0.5) * width, name, "tick", "end"))
    return shapes


def _coverage_key(cells: Sequence[Sequence[int]], edges: Sequence[int], side: float) -> list[Shape]:
    """The key, in the empty half of the triangle, for what occurs."""
    values = [seen for row in cells for seen in row]
    if len(cells) * side <= 90:
        return []
    tops = [edge - 1 for edge in edges[1:]] + [max(values)]
    names = [
        count(low) if low == high else f"{count(low)}\N{EN DASH}{count(high)}"
        for low, high in zip(edges, tops, strict=True)
    ]
    entries = [(f"cell h{_level(low, edges)}", name) for low, name in zip(edges, names, strict=True)][::-1]
    if any(seen == 0 for seen in values):
        entries.append(("cell never", "never seen"))
    if any(seen < 0 for seen in values):
        entries.append(("cell none", "cannot meet"))
    x = WIDTH - 96.0
    shapes = [text(x, 14, "episodes", "tick strong")]
    for i, (kind, words) in enumerate(entries):
        y = 22 + 16 * i
        shapes += [box(x, y, 11, 11, kind), text(x + 17, y + 9, words, "tick")]
        if "never" in kind:
            shapes.append(path([(x + 1, y + 10), (x + 10, y + 1)], "slash"))
    return shapes


def _state(world: Summary, x: int) -> str:
    return str(world["state_names"][x // world["actions"]])


def _action(world: Summary, x: int) -> str:
    return str(world["action_names"][x % world["actions"]])


def rewards(data: Mapping[str, Any], world: Summary) -> Markup | None:
    """Recovered rewards: a dot for each context with its interval, and the truth as a ring where it is known."""
    rows = data["rows"]
    if not rows:
        return None
    left, right = 118.0, WIDTH - 12.0
    low, high = data["range"]
    along = scale(low, high, left, right)
    grouped = world["states"] > 1 and len(rows) >= 2 * len({row["state"] for row in rows})
    shapes: list[Shape] = []
    y, state = 6.0, None
    for row in rows:
        names = [world["state_names"][row["state"]], world["action_names"][row["action"]]]
        if grouped and row["state"] != state:
            state = row["state"]
            y += 12 if shapes else 6
            shapes.append(text(0, y + 4, shortened(names[0], 30), "tick strong"))
            y += 15
        single = grouped or world["states"] == 1
        label = shortened(names[1], 17) if single else f"{shortened(names[0], 9)} · {shortened(names[1], 8)}"
        y += 0 if single or shapes else 10
        shapes += _reward_row(row, world, along, left, right, y, label)
        y += 16
    bottom = y - 4
    back = []
    for value in ticks(low, high, 5):
        back += [line(along(value), 8, along(value), bottom, "rule")]
        back += [text(along(value), bottom + 13, f"{value:g}", "tick", "middle")]
    what = f"probability of {_larger(data)}" if data["kind"] == "probability" else "expected reward"
    shapes.append(text((left + right) / 2, bottom + 29, what, "label", "middle"))
    told = "The table of this section has the numbers"
    return drawing(bottom + 36, "Recovered rewards in each context", told, back + shapes)


def _larger(data: Mapping[str, Any]) -> str:
    return "a reward" if data["larger"] == 1.0 else f"reward {data['larger']:g}"


def _reward_row(
    row: Mapping[str, Any], world: Summary, along: Any, left: float, right: float, y: float, name: str
) -> list[Shape]:
    shapes = [text(left - 8, y + 3.5, name, "tick", "end"), line(left, y, right, y, "thread")]
    contexts = len(row["values"])
    for m, value in enumerate(row["values"]):
        height = y + (m - (contexts - 1) / 2) * min(5.0, 10.0 / contexts)
        colour = f"k{m % COLOURS}"
        hint = f"{name}, {world['context_names'][m]}: {number(value)}"
        if row["lower"] and row["upper"] and row["lower"][m] is not None and row["upper"][m] is not None:
            shapes.append(line(along(row["lower"][m]), height, along(row["upper"][m]), height, f"whisker {colour}"))
            hint += f" ({number(row['lower'][m])} to {number(row['upper'][m])})"
        if row["truth"]:
            real = row["truth"][m]
            shapes.append(dot(along(real), height, 5.2, f"ring {colour}", f"truth {number(real)}"))
        shapes.append(dot(along(value), height, 2.8, f"fill {colour}", hint))
    return shapes


def _rule(left: float, right: float, y: float, label: str) -> list[Shape]:
    return [line(left, y, right, y, "rule"), text(left - 6, y + 3.5, label, "tick", "end")]
