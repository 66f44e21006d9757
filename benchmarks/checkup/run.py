"""Is the check-up calibrated where everything holds, and awake where something does not?

python -m benchmarks.checkup.run [--quick] [--parts null power short]

null: p-values of logs in which every assumption holds, against the uniform law (Kolmogorov's distance).
power: share of logs of a broken world in which the broken assumption is named.
short: the same where two types are fitted to worlds with three.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from benchmarks.checkup.settings import BROKEN, LEVEL, LOGS, NULLS, POWER_EPISODES, POWER_LOGS, SHORT_EPISODES, random
from benchmarks.checkup.worlds import simulate_broken
from benchmarks.record import Rows, record, table
from rewardmix import check, simulate, uniform
from rewardmix.checkup import ASSUMPTIONS
from rewardmix.checkup.assumptions import OF_FORM

PARTS = ("null", "power", "short")


def null(logs: int) -> Rows:
    """One row for each world and assumption."""
    rows = []
    for name, make in NULLS.items():
        values, begin = [], time.process_time()
        for seed in range(logs):
            episodes, contexts = make(seed)
            values.append([one.p_value for one in check(episodes, num_contexts=contexts, seed=seed).findings])
        seconds = (time.process_time() - begin) / logs
        rows += [
            _distances(name, one, column, seconds)
            for one, column in zip(ASSUMPTIONS, np.array(values).T, strict=True)
            if one not in OF_FORM  # their p-values are larger than uniform: see benchmarks.forms
        ]
    return rows


def _distances(world: str, assumption: str, values: np.ndarray, seconds: float) -> dict[str, object]:
    asked = np.sort(values[~np.isnan(values)])
    count = asked.size
    steps = np.arange(count + 1) / count
    distance = max(float((steps[1:] - asked).max()), float((asked - steps[:-1]).max()))
    return {
        "world": world,
        "assumption": assumption,
        "logs": count,
        "distance": distance,
        "bound": math.sqrt(math.log(2 / 0.01) / (2 * count)),
        "below .05": float((asked < 0.05).mean()),
        "below .01": float((asked < 0.01).mean()),
        "seconds": seconds,
    }


def power(logs: int, episodes: int) -> Rows:
    """One row for each broken assumption."""
    rows = []
    for assumption, how in BROKEN.items():
        found = []
        for seed in range(logs):
            model = random(seed, states=10)
            findings = check(simulate_broken(model, episodes, seed, **how), level=LEVEL).findings
            found.append([one.broken for one in findings])
        named = dict(zip(ASSUMPTIONS, np.array(found).mean(axis=0).tolist(), strict=True))
        rows.append({"broken": assumption, "logs": logs, "episodes": episodes, "named": named})
    return rows


def short(logs: int | None = None) -> Rows:
    """One row for each number of episodes."""
    rows = []
    for episodes, usual in SHORT_EPISODES.items():
        found = []
        for seed in range(logs or usual):
            model = random(seed, contexts=3)
            findings = check(simulate(uniform(model), model, episodes, seed=seed), num_contexts=2, level=LEVEL).findings
            found.append([one.broken for one in findings])
        named = dict(zip(ASSUMPTIONS, np.array(found).mean(axis=0).tolist(), strict=True))
        broken = f"one type short, {episodes:,} episodes"
        rows.append({"broken": broken, "logs": len(found), "episodes": episodes, "named": named})
    return rows


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    options = asked.parse_args()
    if "null" in options.parts:
        rows = null(10 if options.quick else LOGS)
        table(list(rows[0]), [list(row.values()) for row in rows])
        if not options.quick:
            record("checkup", "null", rows)
    if "power" in options.parts:
        rows = power(2 if options.quick else POWER_LOGS, 3000 if options.quick else POWER_EPISODES)
        table(["broken", *ASSUMPTIONS], [[row["broken"], *row["named"].values()] for row in rows])
        if not options.quick:
            record("checkup", "power", rows)
    if "short" in options.parts:
        rows = short(2 if options.quick else None)
        table(["broken", *ASSUMPTIONS], [[row["broken"], *row["named"].values()] for row in rows])
        if not options.quick:
            record("checkup", "short", rows)


if __name__ == "__main__":
    main()
