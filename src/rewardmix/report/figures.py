"""The figures of the page, each from plain data of the summary to an SVG drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from rewardmix.report.svg import WIDTH, Shape, box, dot, drawing, line, path, scale, shortened, text, ticks
from rewardmix.report.words import count, fine, number, share

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
    high = curve[-1][1] < top + 26
    shapes.append(text(right, curve[-1][1] + (18 if high else -9), fine(end[1]), "value", "end"))
    shapes.append(text((left + right) / 2, bottom + 33, "episodes (logarithmic)", "label", "middle"))
    told = f"The uncertainty falls from {fine(points[0][1])} to {fine(end[1])} after {count(end[0])} episodes"
    return drawing(214, "Uncertainty over episodes", told, shapes)


def comparison(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Policies by what they earn: dots with intervals, the highest first."""
    rows = sorted((row for row in rows if row.get("value") is not None), key=lambda row: -row["value"])
    if not rows:
        return None
    ends = [row.get(key) if row.get(key) is not None else row["value"] for row in rows for key in ("lower", "upper")]
    low, high = min(ends), max(ends)
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
    shapes: list[Shape] = []
    for i, row in enumerate(cells):
        for j, seen in enumerate(row):
            hint = _pair_hint(i, j, seen, world) if labelled else ""
            shapes += _cell(left + j * side, 4 + i * side, side, seen, hint)
    shapes += _pair_labels(len(cells), block, left, side, world, labelled)
    shapes += _coverage_key(left, cells, side)
    height = 4 + side * len(cells) + 30
    told = f"{data['seen']} pairs were seen, {data['never']} could be seen and never were, {data['impossible']} cannot be"
    return drawing(height, "How often two state-actions were met in one episode", told, shapes)


LEVELS = ("1–9", "10–99", "100–999", "1000 and more")


def _level(seen: int) -> int:
    """1 to 4: the number of digits, at most 4."""
    return min(len(str(seen)), len(LEVELS))


def _cell(x: float, y: float, side: float, seen: int, hint: str) -> list[Shape]:
    gap = 1.0 if side > 7 else 0.3
    size = side - gap
    if seen < 0:
        return [box(x, y, size, size, "cell none", hint)]
    if seen == 0:
        slash = path([(x + 1, y + size - 1), (x + size - 1, y + 1)], "slash")
        return [box(x, y, size, size, "cell never", hint), slash]
    return [box(x, y, size, size, f"cell h{_level(seen)}", hint)]


def _pair_hint(i: int, j: int, seen: int, world: Summary) -> str:
    names = " with ".join(f"{_state(world, x)}, {_action(world, x)}" for x in (i, j))
    return f"{names}: " + ("cannot meet" if seen < 0 else "never seen" if seen == 0 else f"{count(seen)} episodes")


def _pair_labels(rows: int, block: int, left: float, side: float, world: Summary, labelled: bool) -> list[Shape]:
    shapes: list[Shape] = []
    if labelled:
        for i in range(rows):
            y = 4 + (i + 0.5) * side + 3.5
            shapes.append(text(left - 6, y, shortened(_action(world, i), 19), "tick", "end"))
    actions = world["actions"]
    per_state = actions / block
    if per_state * side >= 7 or labelled:
        for s in range(world["states"]):
            start = s * per_state * side
            width = per_state * side
            name = world["state_names"][s]
            if labelled:
                shapes.append(line(left + start, 6 + rows * side, left + start + width - 2, 6 + rows * side, "axis"))
                fits = max(3, int(width / 5.4))
                shapes.append(text(left + start + width / 2 - 1, rows * side + 19, shortened(name, fits), "tick", "middle"))
            else:
                shapes.append(text(left - 6, 4 + start + width / 2 + 3.5, shortened(name, 12), "tick", "end"))
    else:
        shapes.append(text(left - 6, 14, _state(world, 0), "tick", "end"))
        last = world["states"] * actions - 1
        shapes.append(text(left - 6, rows * side, shortened(_state(world, last), 12), "tick", "end"))
    return shapes


def _coverage_key(left: float, cells: Sequence[Sequence[int]], side: float) -> list[Shape]:
    """The key, in the empty half of the triangle, for what occurs."""
    values = [seen for row in cells for seen in row]
    entries = [(f"cell h{level}", LEVELS[level - 1]) for level in range(len(LEVELS), 0, -1)
               if any(seen > 0 and _level(seen) == level for seen in values)]  # fmt: skip
    if any(seen == 0 for seen in values):
        entries.append(("cell never", "never, but possible"))
    if any(seen < 0 for seen in values):
        entries.append(("cell none", "cannot meet"))
    x = WIDTH - 104.0
    shapes = [text(x, 14, "episodes with both", "tick strong")]
    for i, (kind, words) in enumerate(entries):
        y = 22 + 16 * i
        shapes += [box(x, y, 11, 11, kind), text(x + 17, y + 9, words, "tick")]
        if "never" in kind:
            shapes.append(path([(x + 1, y + 10), (x + 10, y + 1)], "slash"))
    return shapes if len(cells) * side > 90 else shapes[:0]


def _state(world: Summary, x: int) -> str:
    return str(world["state_names"][x // world["actions"]])


def _action(world: Summary, x: int) -> str:
    return str(world["action_names"][x % world["actions"]])


def rewards(data: Mapping[str, Any], world: Summary) -> Markup | None:
    """Recovered rewards: a dot for each context with its interval, and the truth as a ring where it is known."""
    if not data["rows"]:
        return None
    left, right, row_height = 118.0, WIDTH - 12.0, 16.0
    along = scale(*data["range"], left, right)
    shapes: list[Shape] = []
    y, state = 6.0, None
    for row in data["rows"]:
        if row["state"] != state:
            state = row["state"]
            y += 12 if shapes else 6
            shapes.append(text(0, y + 4, shortened(world["state_names"][state], 30), "tick strong"))
            y += 15
        shapes += _reward_row(row, world, along, left, right, y)
        y += row_height
    bottom = y - 4
    back = []
    for value in ticks(*data["range"], 5):
        back += [line(along(value), 10, along(value), bottom, "rule")]
        back += [text(along(value), bottom + 13, f"{value:g}", "tick", "middle")]
    label = f"probability of {_larger(data)}" if data["kind"] == "probability" else "expected reward"
    shapes.append(text((left + right) / 2, bottom + 29, label, "label", "middle"))
    return drawing(bottom + 36, "Recovered rewards in each context", "The table below has the numbers", back + shapes)


def _larger(data: Mapping[str, Any]) -> str:
    return "a reward" if data["larger"] == 1.0 else f"reward {data['larger']:g}"


def _reward_row(row: Mapping[str, Any], world: Summary, along: Any, left: float, right: float, y: float) -> list[Shape]:
    name = world["action_names"][row["action"]]
    shapes = [text(left - 8, y + 3.5, shortened(name, 19), "tick", "end"), line(left, y, right, y, "thread")]
    contexts = len(row["values"])
    for m, value in enumerate(row["values"]):
        height = y + (m - (contexts - 1) / 2) * min(5.0, 10.0 / contexts)
        colour = f"k{m % COLOURS}"
        hint = f"{name}, {world['context_names'][m]}: {number(value)}"
        if row["lower"] and row["upper"] and row["lower"][m] is not None and row["upper"][m] is not None:
            shapes.append(line(along(row["lower"][m]), height, along(row["upper"][m]), height, f"whisker {colour}"))
            hint += f" ({number(row['lower'][m])} to {number(row['upper'][m])})"
        if row["truth"]:
            shapes.append(dot(along(row["truth"][m]), height, 5.2, f"ring {colour}", f"truth {number(row['truth'][m])}"))
        shapes.append(dot(along(value), height, 2.8, f"fill {colour}", hint))
    return shapes


def belief_bar(weights: Sequence[float], names: Sequence[str]) -> str:
    """A belief in words, for those who do not see the bar."""
    return ", ".join(f"{name} {share(part)}" for name, part in zip(names, weights, strict=True))


def _rule(left: float, right: float, y: float, label: str) -> list[Shape]:
    return [line(left, y, right, y, "rule"), text(left - 6, y + 3.5, label, "tick", "end")]
