"""Tables of the study of earning: python -m benchmarks.online.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cells import error_of, grid, show
from benchmarks.online import settings
from benchmarks.record import Rows, rows_of


def values(rows: Rows, problem: str, method: str, key: str = "regret") -> np.ndarray:
    """(runs,) of a method on a problem."""
    return np.array([row[key] for row in rows if (row["world"], row["method"]) == (problem, method) and key in row])


def about(array: np.ndarray) -> str:
    """Mean and standard error; nothing where nothing was run."""
    if array.size < 2:
        return f"{array.mean():,.0f}" if array.size else ""
    return f"{array.mean():,.0f} ± {error_of(array):,.0f}"


def runs(rows: Rows) -> list[str]:
    """What every method cost on each problem; without a model, what it collected."""
    lines = []
    for problem, method in dict.fromkeys((row["world"], row["method"]) for row in rows):
        cost, early, total, switches, seconds = (
            values(rows, problem, method, key) for key in ("regret", "early", "total", "switches", "cpu_seconds")
        )
        cells = [f"{np.median(cost):,.0f}", f"{cost.min():,.0f} .. {cost.max():,.0f}"] if cost.size else ["", ""]
        growth = f"{np.median(cost / np.maximum(early, 1e-9)):.2f}" if cost.size else ""
        cells = [about(cost), *cells, growth, about(total)]
        lines.append([problem, method, total.size, *cells, f"{switches.mean():.0f}", f"{seconds.mean():.2f}"])
    names = ["world", "method", "runs", "regret", "median", "range", "growth", "collected", "switches", "CPU s"]
    return [grid(names, lines)]


def regret(*parts: Rows) -> list[str]:
    """The agent beside its rivals, what was asked for, and where it was missed. Every part is a method's."""
    rows = [row for part in parts for row in part]
    methods = [method for method in ("agent", *settings.RIVALS) if any(row["method"] == method for row in rows)]
    lines = []
    for problem in settings.MODELS:
        ours = values(rows, problem, "agent")
        goal = settings.GOALS[problem]
        cells = [about(values(rows, problem, method)) for method in methods]
        lines.append([problem, *cells, f"{goal} {'met' if ours.mean() <= goal else 'MISSED'}", compared(rows, problem)])
    names = ["regret after 20,000", *methods, "goal", "compared with the best other"]
    return [grid(names, lines), spread(rows), numbers_of_runs(rows)]


def compared(rows: Rows, problem: str, key: str = "regret", sign: float = 1.0) -> str:
    """Better, worse, or a tie within two standard errors, beside the best rival on the seeds of both.

    A rival of which there is a single run is named only where that run is ahead.
    """
    ours, gaps = by_seed(rows, problem, "agent", key), dict[str, np.ndarray]()
    for method in settings.RIVALS:
        other = by_seed(rows, problem, method, key)
        gaps[method] = sign * np.array([other[seed] - ours[seed] for seed in other if seed in ours])
    ahead = [f"{method} is ahead in its one run" for method, gap in gaps.items() if gap.size == 1 and gap[0] < 0]
    several = {method: gap for method, gap in gaps.items() if gap.size > 1}
    best = min(several, key=lambda method: float(several[method].mean()))
    gap, error = float(several[best].mean()), error_of(several[best])
    verdict = f"a tie with {best}" if abs(gap) <= 2 * error else "better" if gap > 0 else f"WORSE than {best}"
    return "; ".join([verdict, *ahead])


def by_seed(rows: Rows, problem: str, method: str, key: str) -> dict[int, float]:
    """Seed -> what a method has on a problem."""
    return {row["seed"]: row[key] for row in rows if (row["world"], row["method"]) == (problem, method) and key in row}


def spread(rows: Rows) -> str:
    """How regret grows late, and how often a run goes wrong."""
    growths, bad, all_runs = dict[str, np.ndarray](), [], 0
    for problem in settings.MODELS:
        ours, early = values(rows, problem, "agent"), values(rows, problem, "agent", "early")
        medians = [np.median(regrets) for method in settings.METHODS if (regrets := values(rows, problem, method)).size]
        wrong, all_runs = int((ours > settings.TAIL * min(medians)).sum()), all_runs + ours.size
        bad += [(problem, wrong)] * (wrong > 0)
        growths[problem] = ours / early
    usual = {problem: float(np.median(growth)) for problem, growth in growths.items()}
    grown = [f"{problem} {growth:.2f}" for problem, growth in usual.items() if growth > settings.GROWTH]
    worst = max(usual, key=lambda problem: usual[problem])
    number = sum(wrong for _, wrong in bad)
    allowed = settings.RARE * all_runs
    where = ", ".join(f"{problem} {wrong}" for problem, wrong in bad)
    return (
        f"The agent's regret grows from episode {settings.EARLY:,} to {settings.EPISODES:,} by "
        f"{np.median(np.concatenate(list(growths.values()))):.2f} times in the median of all runs, and by at most "
        f"{usual[worst]:.2f} in the median of a problem ({worst}); goal: {settings.GROWTH:g}"
        + (f", MISSED in {', '.join(grown)}. " if grown else ", met. ")
        + f"Runs above {settings.TAIL:g} times the best median of all methods: {number} of {all_runs}"
        + (f" ({where})" if bad else "")
        + f"; goal: at most 1 in {1 / settings.RARE:g}, "
        + ("met." if number <= allowed else "MISSED.")
    )


def numbers_of_runs(rows: Rows) -> str:
    """How many runs there are of each method."""
    counts = dict[str, set[int]]()
    for row in rows:
        counts.setdefault(row["method"], set()).add(row["seed"])
    runs_of = ", ".join(f"{method} {len(seeds)}" for method, seeds in counts.items())
    return (
        f"Mean and standard error; instances and seeds: {runs_of}. The whole study has {settings.SEEDS} of the agent "
        f"and {settings.FEWER_SEEDS} of the others; the program resumes where it was stopped."
    )


def households(*parts: Rows) -> list[str]:
    """What was collected from real households."""
    rows = [row for part in parts for row in part if row["world"] == settings.HOUSEHOLDS]
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        first, total = (values(rows, settings.HOUSEHOLDS, method, key) for key in ("first", "total"))
        lines.append([method, first.size, about(first), about(total)])
    names = ["crackers", "runs", f"hits in the first {settings.FIRST:,}", f"hits in {settings.EPISODES:,}"]
    verdict = compared(rows, settings.HOUSEHOLDS, "total", -1.0)
    return [grid(names, lines), f"The agent compared with the best other: {verdict}."]


def numbers(*parts: Rows) -> list[str]:
    """What it costs not to be told how many types there are, or one too many, beside an agent that knows."""
    rows, lines = [row for part in parts for row in part], []
    for problem in settings.NUMBERS:
        known_rows = [row for row in rows if row["world"] == problem and row["method"] in ("agent", "told")]
        knows = {row["seed"]: row["regret"] for row in known_rows}
        cells: list[Any] = [problem]
        for method, limit in (("not told", settings.UNTOLD), ("told one more", settings.TOO_MANY)):
            pairs = [
                (row["regret"], knows[row["seed"]])
                for row in rows
                if (row["world"], row["method"]) == (problem, method) and row["seed"] in knows
            ]
            if not pairs:
                cells += ["", ""]
                continue
            ours, known = np.array(pairs).T
            times = ours.mean() / known.mean()
            verdict = "met" if times <= limit else "MISSED"
            verdict += " in one run" if ours.size == 1 else ""
            cells += [f"{about(ours)} beside {about(known)} ({ours.size})", f"{times:.2f}, {limit:g} {verdict}"]
        lines.append(cells)
    return [grid(["problem", "selected number", "ratio, goal", "one type too many", "ratio, goal"], lines)]


def collected(*parts: Rows) -> list[str]:
    """What was collected by each method, on the problems of methods from other libraries."""
    rows = [row for part in parts for row in part]
    theirs = dict.fromkeys(row["world"] for row in rows if row["method"] not in settings.METHODS)
    lines = []
    for problem in theirs:
        for method in dict.fromkeys(row["method"] for row in rows if row["world"] == problem):
            first, total = (values(rows, problem, method, key) for key in ("first", "total"))
            lines.append([problem, method, first.size, about(first), about(total)])
    return [grid(["problem", "method", "runs", f"in the first {settings.FIRST:,}", f"in {settings.EPISODES:,}"], lines)]


def times(rows: Rows) -> list[str]:
    """CPU time with the number of episodes, and the power that it grows with."""
    lines = []
    for episodes in dict.fromkeys(row["episodes"] for row in rows):
        group = [row for row in rows if row["episodes"] == episodes]
        seconds = np.array([row["cpu_seconds"] for row in group])
        loops = seconds / [row["loop_seconds"] for row in group]
        lines.append([f"{episodes:,}", f"{seconds.mean():.2f}", f"{seconds.max():.2f}", f"{loops.mean():.1f}"])
    lengths, spent = (np.log([row[key] for row in rows]) for key in ("episodes", "cpu_seconds"))
    power = np.polyfit(lengths, spent, 1)[0]
    names = ["episodes of random (5, 3, 6)", "CPU s", "slowest", "loops of 2,000,000 steps in Python"]
    return [grid(names, lines), f"It grows like the number of episodes to the power {power:.2f}."]


def events(rows: Rows) -> list[str]:
    """What an event costs beyond a method that does nothing; the least of the repeats, since noise only adds."""
    event, empty = (min(row[key] for row in rows) for key in ("event_us", "empty_us"))
    return [
        f"An event takes {event:.2f} microseconds, an empty method {empty:.2f}: {event - empty:.2f} beyond it "
        f"(least of {len(rows)} repeats; asked for: 5)."
    ]


def memory(rows: Rows) -> list[str]:
    """A long run."""
    row = rows[0]
    more = row["mb_peak"] - row["mb_before"]
    return [
        f"{row['episodes']:,} episodes take {row['cpu_seconds']:.0f} CPU s and {more:.0f} MB "
        f"beyond those of a short run; {row['distinct']:,} of the episodes are distinct; regret {row['regret']:.0f}."
    ]


TABLES = {
    "runs": runs,
    "regret": regret,
    "households": households,
    "numbers": numbers,
    "collected": collected,
    "time": times,
    "events": events,
    "memory": memory,
}


def main() -> None:
    """Print all that there is."""
    by_method = {method: rows_of("online", method) for method in settings.METHODS}
    everything = [row for rows in by_method.values() for row in rows]
    if everything:
        show([*runs(everything), *regret(everything), *households(everything), *numbers(everything)])
    if others := rows_of("online", "recurrent") + rows_of("online", "bandit"):
        show(collected(by_method["agent"], others))


if __name__ == "__main__":
    main()
