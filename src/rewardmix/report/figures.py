"""Figures of the page, each from plain data of the summary to an SVG drawing: of the run, then over beliefs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from rewardmix.report.svg import (
    COLOURS,
    WIDTH,
    Shape,
    box,
    circle,
    drawing,
    line,
    path,
    roomy,
    scale,
    shortened,
    text,
    ticks,
)
from rewardmix.report.words import count, decimal, percent

_Data = Mapping[str, Any]


def policy_values(rows: Sequence[_Data]) -> Markup | None:
    """Policies by what they earn: dots with intervals, the highest first."""
    rows = sorted((row for row in rows if row.get("value") is not None), key=lambda row: -row["value"])
    if not rows:
        return None
    ends = [row[key] for row in rows for key in ("lower", "value", "upper") if row.get(key) is not None]
    low, high = roomy(float(min(ends)), float(max(ends)), 0.08, 0.5)
    left, right, step = 16.0, WIDTH - 50.0, 36.0
    along = scale(low, high, left, right)
    bottom = step * len(rows) + 4
    shapes = []
    for value in ticks(low, high, 4):
        shapes += [line(along(value), 4, along(value), bottom, "rule")]
        shapes += [text(along(value), bottom + 13, f"{value:g}", "tick", "middle")]
    for i, row in enumerate(rows):
        y = step * i + 26
        mine = "mine" if row.get("role") == "adaptive" else "other"
        shapes.append(text(left, y - 10, shortened(row["name"], 44), f"name {mine}"))
        shapes.append(line(left, y, right, y, "thread"))
        if row.get("lower") is not None and row.get("upper") is not None:
            shapes.append(line(along(row["lower"]), y, along(row["upper"]), y, f"interval {mine}"))
        shapes += [circle(along(row["value"]), y, 5, f"mark {mine}")]
        shapes += [text(WIDTH, y + 4, decimal(row["value"], 3), f"value {mine}", "end")]
    shapes.append(text((left + right) / 2, bottom + 29, "expected rewards of an episode", "label", "middle"))
    told = "; ".join(f"{row['name']} {decimal(row['value'], 3)}" for row in rows)
    return drawing(bottom + 36, "What each policy earns", told, shapes)


def pair_map(data: _Data, world: _Data) -> Markup:
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


def _pair_hint(i: int, j: int, seen: int, world: _Data) -> str:
    names = " with ".join(f"{_state(world, x)}, {_action(world, x)}" for x in (i, j))
    return f"{names}: " + ("cannot meet" if seen < 0 else "never seen" if seen == 0 else f"{count(seen)} episodes")


def _pair_labels(rows: int, block: int, left: float, side: float, world: _Data, labelled: bool) -> list[Shape]:
    """Actions beside the rows and states below; in large maps states beside the rows, as many as fit."""
    shapes: list[Shape] = []
    width = world["actions"] / block * side
    below = 6 + rows * side
    for s in range(world["states"] if labelled else 0):
        start = left + s * width
        shapes.append(line(start, below, start + width - 2, below, "axis"))
        shapes.append(text(start + width / 2 - 1, below + 13, world["state_labels"][s], "tick", "middle"))
    for i in range(rows if labelled else 0):
        name = world["action_labels"][i % world["actions"]]
        shapes.append(text(left - 6, 7.5 + (i + 0.5) * side, name, "tick", "end"))
    every = max(1, math.ceil(13 / width))
    for s in range(0, 0 if labelled else world["states"], every):
        label = world["state_labels"][s]
        shapes.append(text(left - 6, 7.5 + (s + 0.5) * width, label, "tick", "end"))
    return shapes


def _coverage_key(cells: Sequence[Sequence[int]], edges: Sequence[int], side: float) -> list[Shape]:
    """The key, in the empty half of the triangle, for what occurs."""
    values = [seen for row in cells for seen in row]
    if len(cells) * side <= 90:
        return []
    tops = [edge - 1 for edge in edges[1:]] + [max(values)] * bool(edges)
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


def _state(world: _Data, x: int) -> str:
    return str(world["state_names"][x // world["actions"]])


def _action(world: _Data, x: int) -> str:
    return str(world["action_names"][x % world["actions"]])


def reward_dots(data: _Data, world: _Data) -> Markup | None:
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
        here, label = world["state_labels"][row["state"]], world["action_labels"][row["action"]]
        if grouped and row["state"] != state:
            state = row["state"]
            y += 12 if shapes else 6
            name = world["state_names"][state]
            shapes.append(text(0, y + 4, shortened(name if here == name else f"{here}: {name}", 40), "tick strong"))
            y += 15
        single = grouped or world["states"] == 1
        label = label if single else f"{here} · {label}"
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
    return drawing(bottom + 36, "Recovered rewards for each type", told, back + shapes)


def _larger(data: _Data) -> str:
    return "a reward" if data["larger"] == 1.0 else f"reward {data['larger']:g}"


def _reward_row(row: _Data, world: _Data, along: Any, left: float, right: float, y: float, name: str) -> list[Shape]:
    shapes = [text(left - 8, y + 3.5, name, "tick", "end"), line(left, y, right, y, "thread")]
    contexts = len(row["values"])
    for m, value in enumerate(row["values"]):
        height = y + (m - (contexts - 1) / 2) * min(5.0, 10.0 / contexts)
        colour = f"k{m % COLOURS}"
        hint = f"{name}, {world['context_names'][m]}: {decimal(value)}"
        if row["lower"] and row["upper"] and row["lower"][m] is not None and row["upper"][m] is not None:
            shapes.append(line(along(row["lower"][m]), height, along(row["upper"][m]), height, f"whisker {colour}"))
            hint += f" ({decimal(row['lower'][m])} to {decimal(row['upper'][m])})"
        if row["truth"]:
            real = row["truth"][m]
            shapes.append(circle(along(real), height, 5.2, f"ring {colour}", f"truth {decimal(real)}"))
        shapes.append(circle(along(value), height, 2.8, f"fill {colour}", hint))
    return shapes


def action_colours(beliefs: _Data) -> dict[int, str]:
    """A tint for each action that occurs, those that take most room first; what is left shares the last one."""
    room: dict[int, float] = {}
    for runs in _all_runs(beliefs):
        for start, end, action in runs:
            room[int(action)] = room.get(int(action), 0.0) + end - start
    order = sorted(room, key=lambda action: (-room[action], action))
    return {action: f"a{min(i, COLOURS - 1)}" for i, action in enumerate(order)}


def _all_runs(beliefs: _Data) -> list[Any]:
    if beliefs["kind"] == "two":
        rows = [row["runs"] for part in beliefs["maps"] for row in part["rows"]]
        return [beliefs["curve"]["runs"], *rows]
    return [ray["runs"] for part in (beliefs, *beliefs.get("more", ())) for ray in part["rays"]]


def action_key(colours: Mapping[int, str], world: _Data) -> Markup:
    """Which tint is which action, as a list."""
    items = Markup("").join(
        Markup('<li><span class="swatch {}"></span>{}</li>').format(colour, world["action_names"][action])
        for action, colour in colours.items()
    )
    return Markup('<ul class="key">{}</ul>').format(items)


def value_curve(beliefs: _Data, world: _Data, colours: Mapping[int, str]) -> Markup | None:
    """Two contexts: expected rewards to come over the belief, with the action regions behind."""
    curve = beliefs["curve"]
    if len(curve["value"]) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 12.0, 26.0, 196.0
    low, high = roomy(min(curve["value"]), max(curve["value"]), 0.12, 0.1)
    along, up = scale(0.0, 1.0, left, right), scale(low, high, bottom, top)
    shapes: list[Shape] = []
    for start, end, action in curve["runs"]:
        width = along(end) - along(start)
        shapes.append(box(along(start), top, width, bottom - top, f"band {colours[int(action)]}"))
        label = world["action_labels"][int(action)]
        if len(label) <= int(width / 6.2):  # the key tells the others by their tints
            shapes.append(text((along(start) + along(end)) / 2, top - 7, label, "tick", "middle"))
    for value in ticks(low, high, 4):
        shapes.append(line(left, up(value), right, up(value), "rule"))
        shapes.append(text(left - 6, up(value) + 3.5, f"{value:g}", "tick", "end"))
    shapes.append(path([(along(b), up(v)) for b, v in zip(curve["belief"], curve["value"], strict=True)], "curve"))
    shapes += _belief_axis(along, top, bottom, world)
    names = world["action_names"]
    told = ", ".join(
        f"{names[int(action)]} from {percent(low)} to {percent(high)}" for low, high, action in curve["runs"]
    )
    told = f"By belief in {world['context_names'][0]}: {told}"
    return drawing(bottom + 36, "Value and action over the belief", told, shapes)


def action_map(part: _Data, world: _Data, colours: Mapping[int, str]) -> Markup:
    """Two contexts, one state: a row for each step, coloured by the action at each belief that can occur."""
    rows = part["rows"]
    left, right = 34.0, WIDTH - 12.0
    height = min(14.0, max(4.0, 170.0 / len(rows)))
    along = scale(0.0, 1.0, left, right)
    bottom = 6 + height * len(rows)
    shapes: list[Shape] = []
    every = max(1, -(-len(rows) // 10))
    for i, row in enumerate(rows):
        y = 6 + i * height
        for start, end, action in row["runs"]:
            width = max(along(end) - along(start), 3.0)
            hint = f"step {row['step'] + 1}: {world['action_names'][int(action)]}"
            x = along(start) - (1.5 if end == start else 0.0)
            shapes.append(box(x, y, width, height - (1 if height > 6 else 0.3), f"band {colours[int(action)]}", hint))
        if i % every == 0:
            shapes.append(text(left - 6, y + height / 2 + 3.5, str(row["step"] + 1), "tick", "end"))
    shapes += _belief_axis(along, 6, bottom, world)
    name = world["state_names"][part["state"]]
    return drawing(bottom + 36, f"Actions in {name}", "One row for each step, over the belief", shapes)


def belief_rays(axis: Sequence[float], beliefs: _Data, world: _Data, colours: Mapping[int, str]) -> Markup:
    """More contexts: from what is believed at the start to being sure of one context, the action and the value."""
    left, right, step = 34.0, WIDTH - 12.0, 74.0
    along = scale(0.0, 1.0, left, right)
    values = [value for ray in beliefs["rays"] for value in ray["value"]]
    low, high = min(values), max(values)
    ends = roomy(low, high, 0.1, 0.1)
    shapes: list[Shape] = []
    for i, ray in enumerate(beliefs["rays"]):
        top = 20 + i * step
        up = scale(*ends, top + step - 26, top)
        towards = f"towards {world['context_names'][ray['context']]}"
        shapes.append(text(left, top - 6, towards, f"tick strong k{i % COLOURS} ink"))
        for start, end, action in ray["runs"]:
            name, width = world["action_names"][int(action)], along(end) - along(start)
            shapes.append(box(along(start), top, width, step - 26, f"band {colours[int(action)]}", name))
        for value in (low, high):
            shapes.append(text(left - 5, up(value) + 3.5, f"{value:.1f}", "tick", "end"))
        shapes.append(path([(along(b), up(v)) for b, v in zip(axis, ray["value"], strict=True)], "curve"))
    bottom = 20 + step * len(beliefs["rays"]) - 20
    shapes += [text(left, bottom + 8, "as at the start", "tick"), text(right, bottom + 8, "sure", "tick", "end")]
    return drawing(bottom + 14, "Value and action from the first belief to certainty", _told(beliefs, world), shapes)


def _told(beliefs: _Data, world: _Data) -> str:
    sure: Sequence[str] = [
        f"sure of {world['context_names'][ray['context']]}: {world['action_names'][int(ray['runs'][-1][2])]}"
        for ray in beliefs["rays"]
    ]
    return "; ".join(sure)


def _belief_axis(along: Any, top: float, bottom: float, world: _Data) -> list[Shape]:
    shapes: list[Shape] = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes += [line(along(value), bottom, along(value), bottom + 4, "axis")]
        anchor = "end" if value == 1.0 else "middle"
        shapes.append(text(along(value) + (6 if value == 1.0 else 0), bottom + 15, percent(value), "tick", anchor))
    prior = along(world["weights"][0])
    shapes += [line(prior, top, prior, bottom, "prior")]
    name = world["context_names"][0]
    shapes.append(text((along(0) + along(1)) / 2, bottom + 31, f"belief in {name}", "label", "middle"))
    return shapes
