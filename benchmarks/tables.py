"""What pages show of committed results: functions from results to paragraphs and tables of Markdown.

The name of a function in ``TABLES`` is what a page writes into its mark; see ``benchmarks.pages``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import tables_scaling
from benchmarks.cells import grid, many, short, sized
from benchmarks.coupons import settings as coupons
from benchmarks.exploration import settings as exploration
from benchmarks.learning import settings as learning
from benchmarks.logs import settings as log
from benchmarks.pac import settings as pac
from benchmarks.pac.analysis import limits

QUALITIES = ("best", "EM from the truth", "best, from moments", "paper, 3 deviations", "paper, guaranteed radii")
"""Methods of the study of recovery, in the order in which the page shows them."""

Rows = list[dict[str, Any]]


def error_of(values: Sequence[float]) -> float:
    """Standard error of a mean."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def seeds_of(rows: Rows) -> str:
    """How many seeds there are: of most cells, and of the budgets that have another number."""
    counts = {row["episodes"]: len(row["share"]) for row in rows}
    usual = max(counts.values(), key=list(counts.values()).count)
    others = [f"{count} at {episodes:,}" for episodes, count in counts.items() if count != usual]
    return f"{usual} seeds" + (f" ({', '.join(others)})" if others else "")


def share(*parts: dict[str, Any]) -> list[str]:
    """Share of the gain: problems against budgets, and the cells that miss the goal."""
    rows: Rows = [row for part in parts for row in part["rows"]]
    budgets = list(dict.fromkeys(row["episodes"] for row in rows))
    cells = {(row["problem"], row["episodes"]): row["share"] for row in rows}
    names = list(dict.fromkeys(row["problem"] for row in rows))
    lines = [[name, *(short(np.mean(cells[name, n])) if (name, n) in cells else "" for n in budgets)] for name in names]
    return [grid(["problem", *(f"{n:,}" for n in budgets)], lines), f"Means over {seeds_of(rows)}. {goal(rows)}"]


def goal(rows: Rows) -> str:
    """Which cells miss the goal."""
    judged = [row for row in rows if row["episodes"] in learning.TARGETS and not row["problem"].startswith("hard")]
    missed = [row for row in judged if np.mean(row["share"]) < learning.TARGETS[row["episodes"]]]
    goals = " and ".join(f"{short(target, 2)} at {n:,}" for n, target in learning.TARGETS.items())
    cells = ", ".join(
        f"{row['problem']} at {row['episodes']:,} ({short(np.mean(row['share']))} ± {short(error_of(row['share']))})"
        for row in missed
    )
    said = (
        f"{len(missed)} of {len(judged)} cells lie below it: {cells}."
        if missed
        else f"All {len(judged)} cells reach it."
    )
    return f"The goal was {goals} on all but hard. {said}"


def lacks(found: dict[str, Any]) -> list[str]:
    """What telling a part of the truth changes."""
    lines = [[name, short(np.mean(values)), short(error_of(values))] for name, values in found["share"].items()]
    seeds = len(next(iter(found["share"].values())))
    said = f"Problem {found['problem']}, {found['episodes']:,} episodes, means over {seeds} seeds with standard errors."
    return [grid(["told or changed", "share of the gain", "±"], lines), said]


def hard(found: dict[str, Any]) -> list[str]:
    """How many runs found the optimal policy of the hard family."""
    lines = [
        [row["problem"], f"{row['episodes']:,}", len(row["regret"]), sum(regret <= 1e-3 for regret in row["regret"])]
        for row in found["rows"]
    ]
    return [grid(["problem", "episodes", "seeds", "optimal"], lines)]


def others(found: dict[str, Any]) -> list[str]:
    """Ways to learn side by side."""
    rows: Rows = found["rows"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {(row["problem"], row["episodes"], row["method"]): row["share"] for row in rows}
    keys = list(dict.fromkeys((row["problem"], row["episodes"]) for row in rows))
    lines = [
        [name, f"{n:,}", *(short(np.mean(cells[name, n, m])) if (name, n, m) in cells else "" for m in methods)]
        for name, n in keys
    ]
    return [grid(["problem", "episodes", *methods], lines), f"Share of the gain, means over {seeds_of(rows)}."]


def recurrent(ours: dict[str, Any], *runs: dict[str, Any]) -> list[str]:
    """RecurrentPPO: what was tried, its curves, and when it gets to what ``learn`` has."""
    return [part for found in runs for part in recurrent_on(ours["rows"], found)]


def recurrent_on(rows: Rows, found: dict[str, Any]) -> list[str]:
    """RecurrentPPO on one problem."""
    chosen, curves = found["sweep"][found["chosen"]], found["curves"]
    tried = (
        f"**RecurrentPPO** on {found['problem']}: of {len(found['sweep'])} settings tried at "
        f"{found['sweep_episodes']:,} episodes the best ({chosen['num_envs']} copies, LSTM of {chosen['hidden']}, "
        f"learning rate {chosen['learning_rate']:g}, entropy {chosen['entropy']:g}, {chosen['epochs']} epochs) was "
        f"trained anew from {len(curves)} fresh {'seed' if len(curves) == 1 else 'seeds'}. Values with their 95 % "
        "intervals:"
    )
    marks = [point["episodes"] for point in max(curves.values(), key=len)]
    lines = [[f"{mark:,}", *(value_at(curve, i) for curve in curves.values())] for i, mark in enumerate(marks)]
    table = grid(["episodes", *(f"seed {seed}" for seed in curves)], lines)
    budget = min(learning.TARGETS)
    row = next(row for row in rows if row["problem"] == found["problem"] and row["episodes"] == budget)
    reached = float(np.mean(row["value"]))
    ends = " ".join(f"Seed {seed} {arrival(curve, reached, budget)}." for seed, curve in curves.items())
    standing = (
        f"`learn` has {reached:.3f} after {budget:,} episodes, the best policy {row['best']:.3f}, the best Markov "
        f"policy {row['markov']:.3f}. {ends} In shares of the gain: {shares(curves, row)}; `learn` has "
        f"{short(float(np.mean(row['share'])))} after {budget:,}."
    )
    return [tried, table, standing]


def shares(curves: dict[str, Rows], row: dict[str, Any]) -> str:
    """How much of the gain the seeds have on average early, in the middle and at the end."""
    marks = [point["episodes"] for point in max(curves.values(), key=len)]
    said = []
    for mark in sorted({marks[min(1, len(marks) - 1)], marks[len(marks) // 2], marks[-1]}):
        values = [point["value"] for curve in curves.values() for point in curve if point["episodes"] == mark]
        share = (np.mean(values) - row["markov"]) / (row["best"] - row["markov"])
        said.append(f"{short(float(share))} after {mark:,} episodes")
    return ", ".join(said)


def value_at(curve: Rows, index: int) -> str:
    """A value of a curve with half the width of its interval; nothing behind its end."""
    if index >= len(curve):
        return ""
    point = curve[index]
    return f"{point['value']:.3f} ± {short((point['upper'] - point['lower']) / 2)}"


def arrival(curve: Rows, reached: float, budget: int) -> str:
    """When a curve gets to a value, as words behind a name."""
    there = [point["episodes"] for point in curve if point["upper"] >= reached]
    last = curve[-1]["episodes"]
    if there:
        return f"gets there, within its interval, at {there[0]:,} episodes: {there[0] / budget:.0f} times as many"
    return f"did not get there in {last:,} episodes, so it needs more than {math.floor(last / budget)} times as many"


def promise(budget: dict[str, Any], rule: dict[str, Any], strict: dict[str, Any]) -> list[str]:
    """How many random worlds are within the bound on the regret."""
    named = (
        (budget["rows"], pac.REGRET, f"`learn`, {pac.EPISODES:,} episodes"),
        (rule["rows"], pac.ACCURACY, f"`learn`, by its rule, failure {short(pac.FAILURE, 1)}"),
        (strict["rows"], pac.STRICT, f"the same in larger worlds, failure {short(pac.FAILURE, 1)}"),
    )
    lines = []
    for rows, bound, name in named:
        for policy, key in ((name, "regret"), ("best Markov policy", "markov")):
            within = sum(row[key] <= bound for row in rows)
            low, high = limits(within, len(rows))
            said = [f"{within} of {len(rows)}", short(within / len(rows)), f"{short(low)} to {short(high)}"]
            lines.append([policy, f"{bound:g}".replace("0.", "."), *said])
    return [grid(["", "bound on the regret", "worlds within it", "share", "exact 95 % limits"], lines)]


def rounds(rule: dict[str, Any], strict: dict[str, Any]) -> list[str]:
    """When the rule stopped, and what the bootstrap said there."""
    both = [(rule["rows"], pac.ACCURACY), (strict["rows"], pac.STRICT)]
    stops = sorted({row["episodes"] for rows, _ in both for row in rows})
    lines = []
    for rows, accuracy in both:
        true, guessed = (np.array([row[key] for row in rows]) for key in ("regret", "estimated"))
        counts = [str(sum(row["episodes"] == stop for row in rows)) for stop in stops]
        means = [f"{true.mean():.4f}", f"{guessed.mean():.4f}", f"{true.max():.3f}", f"{guessed.max():.3f}"]
        lines.append([f"{accuracy:g}".replace("0.", "."), *counts, *means])
    heads = [f"stopped at {stop:,}" for stop in stops]
    return [grid(["accuracy", *heads, "mean regret", "by bootstrap", "largest regret", "largest estimate"], lines)]


def households(found: dict[str, Any]) -> list[str]:
    """Hits in held-out households against a fixed brand."""
    lines = []
    for product, (known_fixed, known_adaptive) in coupons.PRODUCTS.items():
        rows = [row for row in found["rows"] if row["product"] == product]
        lift = [row["learned"] - row["fixed"] for row in rows]
        wanted = known_adaptive - known_fixed
        fixed, learned = (np.mean([row[key] for row in rows]) for key in ("fixed", "learned"))
        cells = [f"{np.mean(lift):.3f} ± {error_of(lift):.3f}", f"{wanted:.2f}", f"{np.mean(lift) / wanted:.3f}"]
        ahead = f"{sum(value > 0 for value in lift)} of {len(lift)}"
        lines.append([product, f"{fixed:.3f}", f"{learned:.3f}", *cells, ahead])
    return [grid(["product", "fixed brand", "learned", "lift", "lift to reach", "ratio", "splits ahead"], lines)]


def logs(found: dict[str, Any]) -> list[str]:
    """Speed on long logs, and beside joins."""
    speeds = ("moments_rows_per_second", "em_rows_per_second")
    lines = [
        [f"{row['rows']:,}", *(many(row[key]) for key in speeds), f"{row['peak_gib']:.2f} GiB"]
        for row in found["scale"]
    ]
    columns = ["rows", "moments, rows a second", "EM pass, rows a second", "peak memory"]
    rivals = [row for row in found["self_join"] if row["by"] != "rewardmix"]
    joins = ", ".join(f"{row['by']} takes {row['ratio']:.0f} times as long" for row in rivals)
    counts = "the counts are equal" if all(row["equal"] for row in rivals) else "the counts DIFFER"
    rows = log.SELF_JOIN["full"] * log.HORIZON
    said = f"The same pair tables by joining a log of {rows:,} rows with itself: {joins}; {counts}."
    return [grid(columns, lines), said]


def planning(found: dict[str, Any]) -> list[str]:
    """CPU time to a certified gap."""
    lines = [
        [row["case"], f"{row['seconds']:.3g}", f"{row['target']:g}" if row["target"] else "", f"{row['gap']:.1e}",
         row["points"]]
        for row in found["to_a_gap"]
    ]  # fmt: skip
    return [grid(["model and gap asked for", "CPU-seconds", "goal", "gap reached", "beliefs"], lines)]


def throughput(found: dict[str, Any]) -> list[str]:
    """Episodes explored in a CPU-second."""
    keys = ["selected 1.5", "all pairs 1.5", "all pairs 1.05", "numpy literal"]
    names = ["selected, growth 1.5", "all pairs, growth 1.5", "all pairs, growth 1.05", "line by line in NumPy"]
    lines = [[sized(row["size"]), *(many(row[key]) for key in keys)]
             for row in found["throughput"]]  # fmt: skip
    return [grid(["states, actions, steps", *names], lines)]


def switching(found: dict[str, Any]) -> list[str]:
    """V_0 with few plans beside V_0 with a plan after every episode."""
    lines = [
        [sized(row["size"]), f"{row['episodes']:,}", short(row["literal"], 4), short(row["default"], 4),
         f"{100 * row['loss']:.2f} %"]
        for row in found["low_switching"]
    ]  # fmt: skip
    return [grid(["states, actions, steps", "episodes", "plan after every episode", "default", "larger by"], lines)]


def to_the_end(found: dict[str, Any]) -> list[str]:
    """The paper's exploration until it stops."""
    lines = [
        [sized(row["size"]), f"{row['growth']:g}", many(row["episodes"]), f"{row['seconds']:.2g}",
         f"{row['ratio']:.2f}"]
        for row in found["to_the_end"]
    ]  # fmt: skip
    asked = (
        f"Accuracy {exploration.ACCURACY:g}, separation {exploration.SEPARATION:g}, failure {exploration.FAILURE:g}."
    )
    columns = ["states, actions, steps", "growth", "episodes", "CPU-seconds", "episodes / fluid estimate"]
    return [grid(columns, lines), asked]


def recovery(found: dict[str, Any]) -> list[str]:
    """The program against all rows at once, the likelihood against EM from the truth and against StepMix."""
    program = [
        [name, f"{row['pairs']:,}", f"{row['seconds']:.2f}", f"{row['linprog_seconds']:.1f}", f"{row['ratio']:.0f}"]
        for name, row in found["program"].items()
    ]
    quality = [
        [world, row["seeds"], *(f"{row['rmse'][name]:.4f}" for name in QUALITIES)]
        for world, row in found["quality"].items()
    ]
    real = [
        [name, f"{row['better_by']:.1e}", f"{row['seconds']:.2f}", f"{row['stepmix_seconds']:.1f}",
         f"{row['ratio']:.0f}"]
        for name, row in found["real"].items()
    ]  # fmt: skip
    return [
        grid(["linear program", "pairs", "CPU-seconds", "all rows at once", "times faster"], program),
        "Root mean square error of the rewards:",
        grid(["coverage", "seeds", *QUALITIES], quality),
        "Real answers of people, M contexts:",
        grid(["answers", "log-likelihood above StepMix's", "CPU-seconds", "StepMix", "times faster"], real),
    ]


TABLES: dict[str, Callable[..., list[str]]] = {
    "learning.share": share,
    "learning.lacks": lacks,
    "learning.hard": hard,
    "learning.others": others,
    "learning.recurrent": recurrent,
    "pac.promise": promise,
    "pac.rounds": rounds,
    "coupons.households": households,
    "logs.speed": logs,
    "planning.speed": planning,
    "exploration.speed": throughput,
    "exploration.switching": switching,
    "exploration.to_the_end": to_the_end,
    "recovery.measured": recovery,
    **tables_scaling.TABLES,
}
