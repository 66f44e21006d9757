"""Figures over beliefs: what the policy expects, and what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from rewardmix.report.figures import COLOURS
from rewardmix.report.svg import WIDTH, Shape, box, drawing, line, path, scale, shortened, text, ticks
from rewardmix.report.words import share

Summary = Mapping[str, Any]


def action_colours(beliefs: Mapping[str, Any]) -> dict[int, str]:
    """A tint for each action that occurs, those that take most room first; what is left shares the last one."""
    room: dict[int, float] = {}
    for runs in _all_runs(beliefs):
        for start, end, action in runs:
            room[int(action)] = room.get(int(action), 0.0) + end - start
    order = sorted(room, key=lambda action: (-room[action], action))
    return {action: f"a{min(i, COLOURS - 1)}" for i, action in enumerate(order)}


def _all_runs(beliefs: Mapping[str, Any]) -> list[Any]:
    if beliefs["kind"] == "two":
        rows = [row["runs"] for part in beliefs["maps"] for row in part["rows"]]
        return [beliefs["curve"]["runs"], *rows]
    return [ray["runs"] for ray in beliefs["rays"]]


def key(colours: Mapping[int, str], world: Summary) -> Markup:
    """Which tint is which action, as a list."""
    items = Markup("").join(
        Markup('<li><span class="swatch {}"></span>{}</li>').format(colour, world["action_names"][action])
        for action, colour in colours.items()
    )
    return Markup('<ul class="key">{}</ul>').format(items)


def value_curve(beliefs: Mapping[str, Any], world: Summary, colours: Mapping[int, str]) -> Markup | None:
    """Two contexts: expected rewards to come over the belief, with the action regions behind."""
    curve = beliefs["curve"]
    if len(curve["value"]) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 12.0, 26.0, 196.0
    low, high = min(curve["value"]), max(curve["value"])
    margin = 0.12 * (high - low) or 0.1
    low, high = low - margin, high + margin
    along, up = scale(0.0, 1.0, left, right), scale(low, high, bottom, top)
    shapes: list[Shape] = []
    for start, end, action in curve["runs"]:
        width = along(end) - along(start)
        shapes.append(box(along(start), top, width, bottom - top, f"band {colours[int(action)]}"))
        name = world["action_names"][int(action)]
        if width > 30:
            middle = (along(start) + along(end)) / 2
            shapes.append(text(middle, top - 7, shortened(name, max(3, int(width / 6.2))), "tick", "middle"))
    for value in ticks(low, high, 4):
        shapes.append(line(left, up(value), right, up(value), "rule"))
        shapes.append(text(left - 6, up(value) + 3.5, f"{value:g}", "tick", "end"))
    shapes.append(path([(along(b), up(v)) for b, v in zip(curve["belief"], curve["value"], strict=True)], "curve"))
    shapes += _belief_axis(along, top, bottom, world)
    names = world["action_names"]
    told = ", ".join(f"{names[int(action)]} from {share(low)} to {share(high)}" for low, high, action in curve["runs"])
    told = f"By belief in {world['context_names'][0]}: {told}"
    return drawing(bottom + 36, "Value and action over the belief", told, shapes)


def action_map(part: Mapping[str, Any], world: Summary, colours: Mapping[int, str]) -> Markup:
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


def rays(beliefs: Mapping[str, Any], world: Summary, colours: Mapping[int, str]) -> Markup:
    """More contexts: from what is believed at the start to being sure of one context, the action and the value."""
    left, right, step = 34.0, WIDTH - 12.0, 74.0
    along = scale(0.0, 1.0, left, right)
    values = [value for ray in beliefs["rays"] for value in ray["value"]]
    low, high = min(values), max(values)
    margin = 0.1 * (high - low) or 0.1
    shapes: list[Shape] = []
    for i, ray in enumerate(beliefs["rays"]):
        top = 20 + i * step
        up = scale(low - margin, high + margin, top + step - 26, top)
        towards = f"towards {world['context_names'][ray['context']]}"
        shapes.append(text(left, top - 6, towards, f"tick strong k{i % COLOURS} ink"))
        for start, end, action in ray["runs"]:
            name, width = world["action_names"][int(action)], along(end) - along(start)
            shapes.append(box(along(start), top, width, step - 26, f"band {colours[int(action)]}", name))
        for value in (low, high):
            shapes.append(text(left - 5, up(value) + 3.5, f"{value:.1f}", "tick", "end"))
        shapes.append(path([(along(b), up(v)) for b, v in zip(beliefs["belief"], ray["value"], strict=True)], "curve"))
    bottom = 20 + step * len(beliefs["rays"]) - 20
    shapes += [text(left, bottom + 8, "as at the start", "tick"), text(right, bottom + 8, "sure", "tick", "end")]
    return drawing(bottom + 14, "Value and action from the first belief to certainty", _told(beliefs, world), shapes)


def _told(beliefs: Mapping[str, Any], world: Summary) -> str:
    sure: Sequence[str] = [
        f"sure of {world['context_names'][ray['context']]}: {world['action_names'][int(ray['runs'][-1][2])]}"
        for ray in beliefs["rays"]
    ]
    return "; ".join(sure)


def _belief_axis(along: Any, top: float, bottom: float, world: Summary) -> list[Shape]:
    shapes: list[Shape] = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes += [line(along(value), bottom, along(value), bottom + 4, "axis")]
        anchor = "end" if value == 1.0 else "middle"
        shapes.append(text(along(value) + (6 if value == 1.0 else 0), bottom + 15, share(value), "tick", anchor))
    prior = along(world["weights"][0])
    shapes += [line(prior, top, prior, bottom, "prior")]
    name = world["context_names"][0]
    shapes.append(text((along(0) + along(1)) / 2, bottom + 31, f"belief in {name}", "label", "middle"))
    return shapes
