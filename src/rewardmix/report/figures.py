"""Draw the figures of the page, each from plain data of the summary to SVG.

Figures of the run: policy values, pair heat map, rewards by type. Figures over beliefs: value curve, action maps, rays.
All sizes are in units of the drawing, which is ``svg.WIDTH`` units wide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from rewardmix.report.formatting import format_count, format_decimal, format_percent
from rewardmix.report.svg import (
    NUM_COLORS,
    WIDTH,
    Shape,
    box,
    circle,
    line,
    pad_range,
    path,
    render_svg,
    scale,
    shorten,
    text,
    ticks,
)

_Data = Mapping[str, Any]


def draw_policy_values(rows: Sequence[_Data]) -> Markup | None:
    """Draw a dot with an interval for the value of each policy, the highest value first; ``None`` without values."""
    rows = sorted((row for row in rows if row.get("value") is not None), key=lambda row: -row["value"])
    if not rows:
        return None
    ends = [row[key] for row in rows for key in ("lower", "value", "upper") if row.get(key) is not None]
    low, high = pad_range(float(min(ends)), float(max(ends)), 0.08, 0.5)
    left, right, step = 16.0, WIDTH - 50.0, 36.0
    to_x = scale(low, high, left, right)
    bottom = step * len(rows) + 4
    shapes = []
    for value in ticks(low, high, 4):
        shapes += [line(to_x(value), 4, to_x(value), bottom, "rule")]
        shapes += [text(to_x(value), bottom + 13, f"{value:g}", "tick", "middle")]
    for i, row in enumerate(rows):
        y = step * i + 26
        row_class = "adaptive" if row.get("role") == "adaptive" else "other"
        shapes.append(text(left, y - 10, shorten(row["name"], 44), f"name {row_class}"))
        shapes.append(line(left, y, right, y, "thread"))
        if row.get("lower") is not None and row.get("upper") is not None:
            shapes.append(line(to_x(row["lower"]), y, to_x(row["upper"]), y, f"interval {row_class}"))
        shapes += [circle(to_x(row["value"]), y, 5, f"mark {row_class}")]
        shapes += [text(WIDTH, y + 4, format_decimal(row["value"], 3), f"value {row_class}", "end")]
    shapes.append(text((left + right) / 2, bottom + 29, "expected return of an episode", "label", "middle"))
    description = "; ".join(f"{row['name']} {format_decimal(row['value'], 3)}" for row in rows)
    return render_svg(bottom + 36, "Policy values", description, shapes)


def draw_pair_map(data: _Data, env: _Data) -> Markup:
    """Draw the counts of state-action pairs as a lower triangle; darker cells have more episodes."""
    cells, block = data["cells"], data["block"]
    labeled = block == 1 and len(cells) <= 24
    left = 118.0 if labeled else 74.0
    side = min((WIDTH - left - 2) / len(cells), 26.0)
    edges = _shade_edges(cells)
    shapes: list[Shape] = []
    for i, row in enumerate(cells):
        for j, count in enumerate(row):
            hint = _pair_hint(i, j, count, env) if labeled else ""
            shapes += _cell(left + j * side, 4 + i * side, side, count, edges, hint)
    shapes += _pair_labels(len(cells), block, left, side, env, labeled)
    shapes += _draw_coverage_legend(cells, edges, side)
    height = 4 + side * len(cells) + 30
    description = (
        f"{data['num_observed']} pairs observed, {data['num_missing']} possible but not observed, "
        f"{data['num_impossible']} impossible"
    )
    return render_svg(height, "Number of episodes that contain each pair of state-actions", description, shapes)


NUM_SHADES = 5
"""Number of shades of the heat map."""


def _shade_edges(cells: Sequence[Sequence[int]]) -> list[int]:
    """Return the smallest count of each shade.

    The shades are equal steps of the logarithm between the smallest and the largest positive count.
    """
    counts = [count for row in cells for count in row if count > 0]
    if not counts:
        return []
    low, high = min(counts), max(counts)
    # Counts of pairs span several orders of magnitude, so linear steps would leave nearly all cells in the lightest
    # shade. With few distinct counts the rounded edges repeat; ``set`` drops the repeats and fewer shades are used.
    steps = [round(low * (high / low) ** (i / NUM_SHADES)) for i in range(NUM_SHADES)]
    return sorted(set(steps))


def _shade(count: int, edges: Sequence[int]) -> int:
    """Return the shade of a count, at most ``NUM_SHADES``; the darkest shade is always used."""
    # Counted from the dark end: with fewer edges than shades the light shades stay unused.
    return NUM_SHADES - len(edges) + sum(count >= edge for edge in edges)


def _cell(x: float, y: float, side: float, count: int, edges: Sequence[int], hint: str) -> list[Shape]:
    """Draw one cell: empty if the pair is impossible, crossed if it is missing, otherwise shaded by its count."""
    # Small cells get a narrow gap; a full unit would take a large part of their area.
    gap = 1.0 if side > 7 else 0.3
    size = side - gap
    if count < 0:
        return [box(x, y, size, size, "cell none", hint)]
    if count == 0:
        slash = path([(x + 1, y + size - 1), (x + size - 1, y + 1)], "slash")
        return [box(x, y, size, size, "cell never", hint), slash]
    return [box(x, y, size, size, f"cell h{_shade(count, edges)}", hint)]


def _pair_hint(i: int, j: int, count: int, env: _Data) -> str:
    """Return the tooltip of a cell: the names of both state-actions and how many episodes have the pair."""
    names = " and ".join(f"{_state(env, x)}, {_action(env, x)}" for x in (i, j))
    return f"{names}: " + (
        "impossible" if count < 0 else "not observed" if count == 0 else f"{format_count(count)} episodes"
    )


def _pair_labels(rows: int, block: int, left: float, side: float, env: _Data, labeled: bool) -> list[Shape]:
    """Draw actions beside the rows and states below; in large maps as many states beside the rows as fit."""
    shapes: list[Shape] = []
    state_width = env["num_actions"] / block * side
    below = 6 + rows * side
    for s in range(env["num_states"] if labeled else 0):
        start = left + s * state_width
        shapes.append(line(start, below, start + state_width - 2, below, "axis"))
        shapes.append(text(start + state_width / 2 - 1, below + 13, env["state_labels"][s], "tick", "middle"))
    for i in range(rows if labeled else 0):
        name = env["action_labels"][i % env["num_actions"]]
        shapes.append(text(left - 6, 7.5 + (i + 0.5) * side, name, "tick", "end"))
    # A text line needs 13 units, so only every n-th state gets a label.
    label_step = max(1, math.ceil(13 / state_width))
    for s in range(0, 0 if labeled else env["num_states"], label_step):
        label = env["state_labels"][s]
        shapes.append(text(left - 6, 7.5 + (s + 0.5) * state_width, label, "tick", "end"))
    return shapes


def _draw_coverage_legend(cells: Sequence[Sequence[int]], edges: Sequence[int], side: float) -> list[Shape]:
    """Draw the legend of the heat map in the empty half of the triangle, only for shades that occur."""
    counts = [count for row in cells for count in row]
    if len(cells) * side <= 90:
        return []
    # Each shade ends one below the next edge; the last one ends at the largest count.
    tops = [edge - 1 for edge in edges[1:]] + [max(counts)] * bool(edges)
    names = [
        format_count(low) if low == high else f"{format_count(low)}\N{EN DASH}{format_count(high)}"
        for low, high in zip(edges, tops, strict=True)
    ]
    entries = [(f"cell h{_shade(low, edges)}", name) for low, name in zip(edges, names, strict=True)][::-1]
    if any(count == 0 for count in counts):
        entries.append(("cell never", "not observed"))
    if any(count < 0 for count in counts):
        entries.append(("cell none", "impossible"))
    x = WIDTH - 96.0
    shapes = [text(x, 14, "episodes", "tick strong")]
    for i, (css_class, label) in enumerate(entries):
        y = 22 + 16 * i
        shapes += [box(x, y, 11, 11, css_class), text(x + 17, y + 9, label, "tick")]
        if "never" in css_class:
            shapes.append(path([(x + 1, y + 10), (x + 10, y + 1)], "slash"))
    return shapes


def _state(env: _Data, x: int) -> str:
    """Return the name of the state of state-action index x."""
    return str(env["state_names"][x // env["num_actions"]])


def _action(env: _Data, x: int) -> str:
    """Return the name of the action of state-action index x."""
    return str(env["action_names"][x % env["num_actions"]])


def draw_rewards_by_type(data: _Data, env: _Data) -> Markup | None:
    """Draw recovered rewards: a dot and an interval for each type, and a ring at the true value if known."""
    rows = data["rows"]
    if not rows:
        return None
    left, right = 118.0, WIDTH - 12.0
    low, high = data["range"]
    to_x = scale(low, high, left, right)
    # With two or more rows per state a heading for each state is shorter than the state's name in every label.
    is_grouped = env["num_states"] > 1 and len(rows) >= 2 * len({row["state"] for row in rows})
    shapes: list[Shape] = []
    y, state = 6.0, None
    for row in rows:
        state_label, label = env["state_labels"][row["state"]], env["action_labels"][row["action"]]
        if is_grouped and row["state"] != state:
            state = row["state"]
            y += 12 if shapes else 6
            name = env["state_names"][state]
            heading = name if state_label == name else f"{state_label}: {name}"
            shapes.append(text(0, y + 4, shorten(heading, 40), "tick strong"))
            y += 15
        is_single_label = is_grouped or env["num_states"] == 1
        label = label if is_single_label else f"{state_label} · {label}"
        y += 0 if is_single_label or shapes else 10
        shapes += _reward_row(row, env, to_x, left, right, y, label)
        y += 16
    bottom = y - 4
    grid = []
    for value in ticks(low, high, 5):
        grid += [line(to_x(value), 8, to_x(value), bottom, "rule")]
        grid += [text(to_x(value), bottom + 13, f"{value:g}", "tick", "middle")]
    label = f"probability of {_larger_reward_name(data)}" if data["kind"] == "probability" else "expected reward"
    shapes.append(text((left + right) / 2, bottom + 29, label, "label", "middle"))
    description = "The table in this section lists the numbers"
    return render_svg(bottom + 36, "Recovered rewards for each type", description, grid + shapes)


def _larger_reward_name(data: _Data) -> str:
    """Return the name of the larger of two reward values for the axis label."""
    return "a reward" if data["larger_value"] == 1.0 else f"reward {data['larger_value']:g}"


def _reward_row(row: _Data, env: _Data, to_x: Any, left: float, right: float, y: float, name: str) -> list[Shape]:
    """Draw one state-action: label, line, and for each type an interval, the true value and the estimate."""
    shapes = [text(left - 8, y + 3.5, name, "tick", "end"), line(left, y, right, y, "thread")]
    num_types = len(row["values"])
    for m, value in enumerate(row["values"]):
        # Types are spread vertically around the row by at most 10 units, so that equal values do not hide each other.
        type_y = y + (m - (num_types - 1) / 2) * min(5.0, 10.0 / num_types)
        color = f"k{m % NUM_COLORS}"
        hint = f"{name}, {env['type_names'][m]}: {format_decimal(value)}"
        if row["lower"] and row["upper"] and row["lower"][m] is not None and row["upper"][m] is not None:
            shapes.append(line(to_x(row["lower"][m]), type_y, to_x(row["upper"][m]), type_y, f"whisker {color}"))
            hint += f" ({format_decimal(row['lower'][m])} to {format_decimal(row['upper'][m])})"
        # The ring comes before the dot: SVG paints in order of occurrence, and the estimate must stay visible.
        if row["true_values"]:
            true_value = row["true_values"][m]
            true_hint = f"true value {format_decimal(true_value)}"
            shapes.append(circle(to_x(true_value), type_y, 5.2, f"ring {color}", true_hint))
        shapes.append(circle(to_x(value), type_y, 2.8, f"fill {color}", hint))
    return shapes


def assign_action_colors(beliefs: _Data) -> dict[int, str]:
    """Assign tints to actions by their total width in the figures; the remaining actions share the last tint."""
    total_width: dict[int, float] = {}
    for intervals in _all_intervals(beliefs):
        for start, end, action in intervals:
            total_width[int(action)] = total_width.get(int(action), 0.0) + end - start
    # Ties are broken by the action index, so that one summary always gives one page.
    order = sorted(total_width, key=lambda action: (-total_width[action], action))
    return {action: f"a{min(i, NUM_COLORS - 1)}" for i, action in enumerate(order)}


def _all_intervals(beliefs: _Data) -> list[Any]:
    """List the intervals [start, end, action] of all belief figures."""
    if beliefs["kind"] == "two":
        rows = [row["intervals"] for state_map in beliefs["maps"] for row in state_map["rows"]]
        return [beliefs["curve"]["intervals"], *rows]
    return [ray["intervals"] for state_map in (beliefs, *beliefs.get("more", ())) for ray in state_map["rays"]]


def draw_action_legend(colors: Mapping[int, str], env: _Data) -> Markup:
    """Draw the legend of action tints as an HTML list."""
    items = Markup("").join(
        Markup('<li><span class="swatch {}"></span>{}</li>').format(color, env["action_names"][action])
        for action, color in colors.items()
    )
    return Markup('<ul class="key">{}</ul>').format(items)


def draw_value_curve(beliefs: _Data, env: _Data, colors: Mapping[int, str]) -> Markup | None:
    """Draw the expected rewards to come over the belief of two types, with the action intervals in the background."""
    curve = beliefs["curve"]
    if len(curve["value"]) < 2:
        return None
    left, right, top, bottom = 34.0, WIDTH - 12.0, 26.0, 196.0
    low, high = pad_range(min(curve["value"]), max(curve["value"]), 0.12, 0.1)
    to_x, to_y = scale(0.0, 1.0, left, right), scale(low, high, bottom, top)
    shapes: list[Shape] = []
    for start, end, action in curve["intervals"]:
        width = to_x(end) - to_x(start)
        shapes.append(box(to_x(start), top, width, bottom - top, f"band {colors[int(action)]}"))
        label = env["action_labels"][int(action)]
        # A letter is about 6.2 units wide. A label that does not fit is left out; the legend names its tint.
        if len(label) <= int(width / 6.2):
            shapes.append(text((to_x(start) + to_x(end)) / 2, top - 7, label, "tick", "middle"))
    for value in ticks(low, high, 4):
        shapes.append(line(left, to_y(value), right, to_y(value), "rule"))
        shapes.append(text(left - 6, to_y(value) + 3.5, f"{value:g}", "tick", "end"))
    shapes.append(path([(to_x(b), to_y(v)) for b, v in zip(curve["belief"], curve["value"], strict=True)], "curve"))
    shapes += _belief_axis(to_x, top, bottom, env)
    names = env["action_names"]
    description = ", ".join(
        f"{names[int(action)]} from {format_percent(low)} to {format_percent(high)}"
        for low, high, action in curve["intervals"]
    )
    description = f"By the belief in {env['type_names'][0]}: {description}"
    return render_svg(bottom + 36, "Value and action over the belief", description, shapes)


def draw_action_map(state_map: _Data, env: _Data, colors: Mapping[int, str]) -> Markup:
    """Draw the action of one state over steps (rows) and beliefs that can occur, for two types."""
    rows = state_map["rows"]
    left, right = 34.0, WIDTH - 12.0
    height = min(14.0, max(4.0, 170.0 / len(rows)))
    to_x = scale(0.0, 1.0, left, right)
    bottom = 6 + height * len(rows)
    shapes: list[Shape] = []
    label_step = max(1, -(-len(rows) // 10))
    for i, row in enumerate(rows):
        y = 6 + i * height
        for start, end, action in row["intervals"]:
            # An interval can be a single belief, as at step 1, where no reward was observed yet. It is drawn 3 units
            # wide, centered on that belief.
            width = max(to_x(end) - to_x(start), 3.0)
            hint = f"step {row['step'] + 1}: {env['action_names'][int(action)]}"
            x = to_x(start) - (1.5 if end == start else 0.0)
            shapes.append(box(x, y, width, height - (1 if height > 6 else 0.3), f"band {colors[int(action)]}", hint))
        if i % label_step == 0:
            shapes.append(text(left - 6, y + height / 2 + 3.5, str(row["step"] + 1), "tick", "end"))
    shapes += _belief_axis(to_x, 6, bottom, env)
    name = env["state_names"][state_map["state"]]
    return render_svg(bottom + 36, f"Actions in {name}", "One row for each step, over the belief", shapes)


def draw_belief_rays(axis: Sequence[float], beliefs: _Data, env: _Data, colors: Mapping[int, str]) -> Markup:
    """Draw value and action along lines from the initial belief to certainty of each type, for more than two types."""
    left, right, step = 34.0, WIDTH - 12.0, 74.0
    to_x = scale(0.0, 1.0, left, right)
    # All rays have one scale of values, so that heights can be compared between types.
    values = [value for ray in beliefs["rays"] for value in ray["value"]]
    low, high = min(values), max(values)
    ends = pad_range(low, high, 0.1, 0.1)
    shapes: list[Shape] = []
    for i, ray in enumerate(beliefs["rays"]):
        top = 20 + i * step
        to_y = scale(*ends, top + step - 26, top)
        label = f"toward {env['type_names'][ray['type']]}"
        shapes.append(text(left, top - 6, label, f"tick strong k{i % NUM_COLORS} ink"))
        for start, end, action in ray["intervals"]:
            name, width = env["action_names"][int(action)], to_x(end) - to_x(start)
            shapes.append(box(to_x(start), top, width, step - 26, f"band {colors[int(action)]}", name))
        for value in (low, high):
            shapes.append(text(left - 5, to_y(value) + 3.5, f"{value:.1f}", "tick", "end"))
        shapes.append(path([(to_x(b), to_y(v)) for b, v in zip(axis, ray["value"], strict=True)], "curve"))
    bottom = 20 + step * len(beliefs["rays"]) - 20
    shapes += [text(left, bottom + 8, "initial belief", "tick"), text(right, bottom + 8, "certain", "tick", "end")]
    return render_svg(
        bottom + 14, "Value and action from the initial belief to certainty", _describe_rays(beliefs, env), shapes
    )


def _describe_rays(beliefs: _Data, env: _Data) -> str:
    """Describe the rays for screen readers: the action that the policy takes when it is certain of each type."""
    actions: Sequence[str] = [
        f"certain of {env['type_names'][ray['type']]}: {env['action_names'][int(ray['intervals'][-1][2])]}"
        for ray in beliefs["rays"]
    ]
    return "; ".join(actions)


def _belief_axis(to_x: Any, top: float, bottom: float, env: _Data) -> list[Shape]:
    """Draw the axis of beliefs in the first type, with a vertical line at the type's weight."""
    shapes: list[Shape] = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes += [line(to_x(value), bottom, to_x(value), bottom + 4, "axis")]
        # The last label is aligned to the right, as a centered "100 %" would cross the edge of the drawing.
        anchor = "end" if value == 1.0 else "middle"
        shapes.append(
            text(to_x(value) + (6 if value == 1.0 else 0), bottom + 15, format_percent(value), "tick", anchor)
        )
    weight_x = to_x(env["weights"][0])
    shapes += [line(weight_x, top, weight_x, bottom, "prior")]
    name = env["type_names"][0]
    shapes.append(text((to_x(0) + to_x(1)) / 2, bottom + 31, f"belief in {name}", "label", "middle"))
    return shapes
