"""Tables and figures of the study of learning: python -m benchmarks.learning.analysis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.cells import error_of, grid, short, show
from benchmarks.learning import settings
from benchmarks.record import Rows, rows_of


def seeds_of(rows: Rows) -> str:
    """How many seeds there are: of most cells, and of the budgets that have another number."""
    counts = {row["episodes"]: len(row["share"]) for row in rows}
    usual = max(counts.values(), key=list(counts.values()).count)
    others = [f"{count} at {episodes:,}" for episodes, count in counts.items() if count != usual]
    return f"{usual} seeds" + (f" ({', '.join(others)})" if others else "")


def share(*parts: Rows) -> list[str]:
    """Share of the gain: problems against budgets, and the cells that miss the goal."""
    rows = [row for part in parts for row in part]
    budgets = list(dict.fromkeys(row["episodes"] for row in rows))
    cells = {(row["problem"], row["episodes"]): row["share"] for row in rows}
    names = list(dict.fromkeys(row["problem"] for row in rows))
    lines = [[name, *(short(np.mean(cells[name, n])) if (name, n) in cells else "" for n in budgets)] for name in names]
    return [grid(["problem", *(f"{n:,}" for n in budgets)], lines), f"Means over {seeds_of(rows)}. {goal(rows)}"]


def deep(rows: Rows) -> list[str]:
    """Deeper worlds: mean and worst share of each budget."""
    budgets = sorted({row["episodes"] for row in rows})
    cells = {(row["problem"], row["episodes"]): row["share"] for row in rows}
    names = list(dict.fromkeys(row["problem"] for row in rows))
    lines = [[name, *(mean_and_worst(cells.get((name, n), [])) for n in budgets)] for name in names]
    below = sum(share < -1e-9 for row in rows if row["episodes"] == max(budgets) for share in row["share"])
    runs = sum(len(row["share"]) for row in rows if row["episodes"] == max(budgets))
    text = f"Means over {seeds_of(rows)}, with the worst. At {max(budgets):,} episodes {below} of {runs} are below 0."
    return [grid(["problem", *(f"{n:,}" for n in budgets)], lines), text]


def large(rows: Rows) -> list[str]:
    """Large worlds: mean and worst share with refinement, and without on the first seeds."""
    cells = {(row["states"], row["way"]): row["share"] for row in rows}
    lines = []
    for states in dict.fromkeys(row["states"] for row in rows):
        scores, unrefined = cells[states, "learn"], cells[states, "without refinement"]
        goal = settings.LARGE_GOALS.get(states)
        numbers = [
            mean_and_worst(scores),
            short(error_of(scores)) if len(scores) > 1 else "",
            short(np.mean(unrefined)),
        ]
        lines.append([f"{states:,}", *numbers, "" if goal is None else short(goal, 2), len(scores)])
    columns = ["states", "score", "±", "without refinement", "goal", "seeds"]
    text = f"Random models, A = 4, H = 10, two next states, {rows[0]['episodes']:,} episodes, a model for each seed:"
    few = f"means with the worst, and standard errors. Without refinement: the first {settings.FEW} seeds."
    return [grid(columns, lines), f"{text} {few}"]


def many_types(rows: Rows) -> list[str]:
    """Four and five types: shares and CPU seconds, beside those of an older version."""
    lines = []
    for row in rows:
        now, old = row, row.get("before")
        seconds = [f"{np.median(now['cpu_seconds']):.2f}", f"{max(now['cpu_seconds']):.2f}"]
        line = [row["problem"], row["types"], mean_and_worst(now["share"]), *seconds]
        if old is not None:
            apart = np.array(now["share"]) - old["share"]
            ratio = float(np.median(now["cpu_seconds"]) / np.median(old["cpu_seconds"]))
            line += [
                f"{np.median(old['cpu_seconds']):.2f}",
                short(ratio, 2),
                f"{short(apart.mean())} ± {short(error_of(apart))}",
            ]
        lines.append(line)
    columns = ["problem", "types", "normalized score", "CPU s", "max", "before", "ratio", "score gained"]
    max_seconds = max(max(row["cpu_seconds"]) for row in rows)
    over = sum(seconds > settings.MANY_CPU for row in rows for seconds in row["cpu_seconds"])
    runs = sum(len(row["cpu_seconds"]) for row in rows)
    text = (
        f"{rows[0]['episodes']:,} episodes, {len(rows[0]['share'])} seeds: mean and worst score, median and largest "
        f"CPU seconds. The goal was {settings.MANY_CPU:g} CPU s: {runs - over} of {runs} runs keep to it, the longest "
        f"took {max_seconds:.1f}."
    )
    return [grid(columns[: len(lines[0])], lines), text]


def mean_and_worst(shares: list[float]) -> str:
    """.999 (.998); nothing where there is nothing."""
    return f"{short(float(np.mean(shares)))} ({short(min(shares))})" if shares else ""


def goal(rows: Rows) -> str:
    """Which cells miss the goal."""
    goal_rows = [row for row in rows if row["episodes"] in settings.TARGETS and not row["problem"].startswith("hard")]
    missed = [row for row in goal_rows if np.mean(row["share"]) < settings.TARGETS[row["episodes"]]]
    goals = " and ".join(f"{short(target, 2)} at {n:,}" for n, target in settings.TARGETS.items())
    cells = ", ".join(
        f"{row['problem']} at {row['episodes']:,} ({short(np.mean(row['share']))} ± {short(error_of(row['share']))})"
        for row in missed
    )
    text = (
        f"{len(missed)} of {len(goal_rows)} cells lie below it: {cells}."
        if missed
        else f"All {len(goal_rows)} cells reach it."
    )
    return f"The goal was {goals} on all but hard. {text}"


def lacks(rows: Rows) -> list[str]:
    """What telling a part of the truth changes."""
    lines = [[row["told"], short(np.mean(row["share"])), short(error_of(row["share"]))] for row in rows]
    first = rows[0]
    text = f"Problem {first['problem']}, {first['episodes']:,} episodes, means over {len(first['share'])} seeds with"
    return [grid(["given or changed", "normalized score", "±"], lines), f"{text} standard errors."]


def lacks_large(rows: Rows) -> list[str]:
    """The same for models of many states."""
    names, givens = (list(dict.fromkeys(row[key] for row in rows)) for key in ("problem", "told"))
    cells = {(row["problem"], row["told"]): row["share"] for row in rows}
    lines = [[given, *(short(np.mean(cells[name, given])) for name in names)] for given in givens]
    text = f"Normalized score after {rows[0]['episodes']:,} episodes, means over {len(rows[0]['share'])} models."
    return [grid(["given", *names], lines), text]


def visits(rows: Rows) -> list[str]:
    """What more episodes give, where visits go, and what an agent learns that is told the types."""

    def line(name: str, values: list[float]) -> list[str]:
        return [name, *(short(value) for value in values)]

    lines = [
        line(
            f"normalized score after {episodes:,} episodes",
            [float(np.mean([scores[k] for scores in row["share"]])) for row in rows],
        )
        for k, episodes in enumerate(rows[0]["budgets"])
    ]
    first = f"{rows[0]['budgets'][0]:,} episodes"
    for key, name in (("explored", "exploration"), ("refined", "refinement")):
        text = f"visits of {name} to actions that are best for a type or on average, {first}"
        lines.append(line(text, [float(np.mean(row[key])) for row in rows]))
    lines.append(
        line(f"score of an agent that knows types and transitions, {first}", [np.mean(row["told"]) for row in rows])
    )
    head = ["", *(f"S = {row['states']:,}" for row in rows)]
    return [grid(head, lines), f"Means over {len(rows[0]['told'])} models."]


def ceiling(rows: Rows) -> list[str]:
    """What agents that are told types and moves make of as many episodes, beside ``learn``."""
    sizes, agents, budgets = (list(dict.fromkeys(row[key] for row in rows)) for key in ("states", "agent", "episodes"))
    cells = {(row["states"], row["agent"], row["episodes"]): row["share"] for row in rows}
    columns = [(states, episodes) for states in sizes for episodes in budgets]
    lines = [[agent, *(short(np.mean(cells[states, agent, n])) for states, n in columns)] for agent in agents]
    head = ["agent", *(f"S = {states:,}: {episodes:,}" for states, episodes in columns)]
    envs = len(rows[0]["share"])
    text = f"Normalized score by states and episodes, means over {envs} models"
    usual = float(np.median([error_of(row["share"]) for row in rows]))
    return [grid(head, lines), text + (f", median standard error {short(usual)}." if envs > 1 else ".")]


def hard(rows: Rows) -> list[str]:
    """How many runs found the optimal policy of the hard family."""
    lines = [
        [row["problem"], f"{row['episodes']:,}", len(row["regret"]), sum(regret <= 1e-3 for regret in row["regret"])]
        for row in rows
    ]
    return [grid(["problem", "episodes", "seeds", "optimal"], lines)]


def others(rows: Rows) -> list[str]:
    """Ways to learn side by side."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["problem"], row["episodes"], row["method"]): row["share"] for row in rows}
    keys = list(dict.fromkeys((row["problem"], row["episodes"]) for row in rows))
    lines = [
        [name, f"{n:,}", *(short(np.mean(cells[name, n, m])) if (name, n, m) in cells else "" for m in methods)]
        for name, n in keys
    ]
    return [grid(["problem", "episodes", *methods], lines), f"Normalized score, means over {seeds_of(rows)}."]


def recurrent(ours: Rows, *runs: Rows) -> list[str]:
    """RecurrentPPO: what was tried, its curves, and when it gets to what ``learn`` has."""
    return [text for (run,) in runs for text in recurrent_on(ours, run)]


def recurrent_on(rows: Rows, run: dict[str, Any]) -> list[str]:
    """RecurrentPPO on one problem."""
    chosen, curves = run["sweep"][run["chosen"]], run["curves"]
    text = (
        f"**RecurrentPPO** on {run['problem']}: of {len(run['sweep'])} settings tried at "
        f"{run['sweep_episodes']:,} episodes the best ({chosen['num_envs']} copies, LSTM of {chosen['hidden']}, "
        f"learning rate {chosen['learning_rate']:g}, entropy {chosen['entropy']:g}, {chosen['epochs']} epochs) was "
        f"trained again from {len(curves)} fresh {'seed' if len(curves) == 1 else 'seeds'}. Values with their 95 % "
        "intervals:"
    )
    marks = [point["episodes"] for point in max(curves.values(), key=len)]
    lines = [[f"{mark:,}", *(value_at(curve, i) for curve in curves.values())] for i, mark in enumerate(marks)]
    table = grid(["episodes", *(f"seed {seed}" for seed in curves)], lines)
    budget = min(settings.TARGETS)
    row = next(row for row in rows if row["problem"] == run["problem"] and row["episodes"] == budget)
    reached = float(np.mean(row["value"]))
    ends = " ".join(f"Seed {seed} {arrival(curve, reached, budget)}." for seed, curve in curves.items())
    standing = (
        f"`learn` has {reached:.3f} after {budget:,} episodes, the optimum is {row['best']:.3f}, the best Markov "
        f"policy {row['markov']:.3f}. {ends} Normalized scores: {shares(curves, row)}; `learn` has "
        f"{short(float(np.mean(row['share'])))} after {budget:,}."
    )
    return [text, table, standing]


def shares(curves: dict[str, Rows], row: dict[str, Any]) -> str:
    """How much of the gain the seeds have on average early, in the middle and at the end."""
    marks = [point["episodes"] for point in max(curves.values(), key=len)]
    text = []
    for mark in sorted({marks[min(1, len(marks) - 1)], marks[len(marks) // 2], marks[-1]}):
        values = [point["value"] for curve in curves.values() for point in curve if point["episodes"] == mark]
        share = (np.mean(values) - row["markov"]) / (row["best"] - row["markov"])
        text.append(f"{short(float(share))} after {mark:,} episodes")
    return ", ".join(text)


def value_at(curve: Rows, index: int) -> str:
    """A value of a curve with half the width of its interval; nothing behind its end."""
    if index >= len(curve):
        return ""
    point = curve[index]
    return f"{point['value']:.3f} ± {short((point['upper'] - point['lower']) / 2)}"


def arrival(curve: Rows, reached: float, budget: int) -> str:
    """When a curve gets to a value, as words behind a name."""
    reaching = [point["episodes"] for point in curve if point["upper"] >= reached]
    last = curve[-1]["episodes"]
    if reaching:
        return f"reaches it, within its interval, at {reaching[0]:,} episodes: {reaching[0] / budget:.0f} times as many"
    return f"did not reach it in {last:,} episodes, so it needs more than {math.floor(last / budget)} times as many"


def draw_share(plt: Any) -> Any:
    """One panel for each problem: the share against the budget, every seed a dot."""
    rows = rows_of("learning", "grid") + rows_of("learning", "long")
    names = list(dict.fromkeys(row["problem"] for row in rows))
    figure, axes = plt.subplots(3, 4, figsize=(9, 7), sharex=True, sharey=True, layout="constrained")
    for name, axis in zip(names, axes.flat, strict=False):
        cells = [row for row in rows if row["problem"] == name]
        for row in cells:
            axis.plot([row["episodes"]] * row["seeds"], np.clip(row["share"], -0.25, None), ".", color="0.65", ms=5)
        means = [np.clip(np.mean(row["share"]), -0.25, None) for row in cells]
        axis.plot([row["episodes"] for row in cells], means, "o-", color="C0")
        axis.axhline(1, color="0.4", lw=0.8)
        axis.axhline(0, color="0.4", lw=0.8, ls=":")
        axis.set(title=name, xscale="log", ylim=(-0.3, 1.08))
    figure.supxlabel("episodes (scores below -.25 are drawn there)")
    figure.supylabel("normalized score (0: best Markov policy, 1: optimum)")
    return figure


def draw_others(plt: Any) -> Any:
    """All ways to learn on ``shop``."""
    figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
    rows = [row for row in rows_of("learning", "others") if row["problem"] == "shop"]
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = [row for row in rows if row["method"] == method]
        values = [np.mean(c["value"]) for c in cells]
        ours = {"lw": 4, "ms": 9, "alpha": 0.6} if method == "learn" else {}  # seen where another lies upon it
        axis.plot([c["episodes"] for c in cells], values, "o-", label=method, **ours)
    for seed, curve in rows_of("learning", "recurrent_shop")[0]["curves"].items():
        episodes, values = ([point[key] for point in curve] for key in ("episodes", "value"))
        axis.plot(episodes, values, "s--", color="k", label=f"RecurrentPPO, seed {seed}")
    for key, name, style in (("best", "best policy", "-"), ("markov", "best Markov policy", ":")):
        axis.axhline(rows[0][key], color="0.4", lw=0.8, ls=style)
        axis.text(500, rows[0][key], name, va="bottom")
    axis.set(xscale="log", xlabel="episodes", ylabel="expected clicks in a session of shop")
    axis.legend(loc="lower right")
    return figure


TABLES = {
    "share": share,
    "deep": deep,
    "large": large,
    "many_types": many_types,
    "lacks": lacks,
    "lacks_large": lacks_large,
    "visits": visits,
    "ceiling": ceiling,
    "hard": hard,
    "others": others,
    "recurrent": recurrent,
}
FIGURES = {"share": draw_share, "others": draw_others}


def main() -> None:
    """Print all that there is."""
    for name, parts in {
        "share": ("grid", "long"),
        "deep": ("deep",),
        "large": ("large",),
        "many_types": ("many_types",),
        "hard": ("hard",),
        "lacks": ("lacks",),
        "others": ("others",),
    }.items():
        show(TABLES[name](*(rows_of("learning", part) for part in parts)))


if __name__ == "__main__":
    main()
