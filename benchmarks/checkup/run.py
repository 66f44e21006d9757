"""Are the diagnostics calibrated where everything holds, and do they reject where something does not?

python -m benchmarks.checkup.run [--quick] [--parts null,worlds,rare,surplus,power,short,rival,cost]

null, worlds, rare, surplus: p-values of logs in which every assumption holds, against the uniform law (Kolmogorov's
distance), and how many logs are called broken. Resamples are drawn only where some p-value is below .1; so where
rewards are rare or types too many it is the shares below .05 and .01 that should be right, or less.
power: share of logs of a model that violates an assumption in which it is rejected.
short: the same where two types are fitted to models with three.
rival: deviations of the question "more types needed" where the rival is fitted to 5,000 of 20,000 episodes.
cost: CPU time of ``fit`` of a million rows, with a rival fitted to 5,000 episodes and to every other one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cells import show as print_tables
from benchmarks.checkup.analysis import SHOWN, alarms, calibration
from benchmarks.checkup.settings import (
    BROKEN,
    FIRST_SEED,
    LEVEL,
    NULLS,
    POWER_SIZES,
    RARE_TYPES,
    RIVAL_EPISODES,
    RIVAL_LOGS,
    ROWS,
    SHORT_EPISODES,
    random,
)
from benchmarks.checkup.worlds import simulate_broken
from benchmarks.record import Rows, run
from rewardmix import Episodes, diagnose, fit, simulate, uniform_policy
from rewardmix.diagnostics import ASSUMPTIONS, Diagnostics, surplus
from rewardmix.diagnostics.assumption_tests import FORM_ASSUMPTIONS

Row = dict[str, Any]


def null(part: str, quick: bool) -> Iterator[Row]:
    """One row for each model and assumption."""
    for name, correct in NULLS[part].items():
        logs = 3 if quick else correct.logs
        begin = time.process_time()
        checkups = [_checked(*correct.make(seed), seed) for seed in range(FIRST_SEED, FIRST_SEED + logs)]
        about = {
            "world": name,
            "checked": logs,
            "broken": sum(bool(diagnostics.rejected) for diagnostics in checkups),
            "seconds": (time.process_time() - begin) / logs,
        }
        values = np.array([[finding.p_value for finding in diagnostics.tests] for diagnostics in checkups])
        for assumption, column in zip(ASSUMPTIONS, values.T, strict=True):
            if assumption not in FORM_ASSUMPTIONS:  # their p-values are larger than uniform: see benchmarks.forms
                yield {**about, "assumption": assumption, **_distances(column)}


def _checked(episodes: Episodes, num_types: int, seed: int) -> Diagnostics:
    return diagnose(episodes, num_types=num_types, significance_level=LEVEL, seed=seed)


def _distances(values: np.ndarray) -> Row:
    p_values = np.sort(values[~np.isnan(values)])
    count = p_values.size
    if not count:
        return {"logs": 0, "distance": None, "bound": None, "below .05": None, "below .01": None}
    steps = np.arange(count + 1) / count
    return {
        "logs": count,
        "distance": max(float((steps[1:] - p_values).max()), float((p_values - steps[:-1]).max())),
        "bound": math.sqrt(math.log(2 / 0.01) / (2 * count)),
        "below .05": float((p_values < 0.05).mean()),
        "below .01": float((p_values < 0.01).mean()),
    }


def power(quick: bool) -> Iterator[Row]:
    """One row for each broken assumption and number of episodes."""
    for episodes, logs in POWER_SIZES.items():
        for assumption, how in BROKEN.items():
            envs = [random(seed, states=10) for seed in range(2 if quick else logs)]
            checkups = [
                diagnose(simulate_broken(model, episodes, seed, **how), significance_level=LEVEL)
                for seed, model in enumerate(envs)
            ]
            yield _named(f"{assumption}, {episodes:,} episodes", episodes, checkups)


def short(quick: bool) -> Iterator[Row]:
    """One row for each number of episodes."""
    for episodes, logs in SHORT_EPISODES.items():
        envs = [random(seed, num_types=3) for seed in range(2 if quick else logs)]
        checkups = [
            diagnose(simulate(uniform_policy(model), model, episodes, seed=seed), num_types=2, significance_level=LEVEL)
            for seed, model in enumerate(envs)
        ]
        yield _named(f"more types needed, {episodes:,} episodes", episodes, checkups)


def _named(power_parts: str, episodes: int, checkups: list[Diagnostics]) -> Row:
    """How often each assumption was called broken."""
    shares = np.array([[finding.rejected for finding in diagnostics.tests] for diagnostics in checkups]).mean(axis=0)
    named = dict(zip(ASSUMPTIONS, shares.tolist(), strict=True))
    return {"broken": power_parts, "logs": len(checkups), "episodes": episodes, "named": named}


def rival(quick: bool) -> Iterator[Row]:
    """One row for each share of a third type."""
    for name, share in RARE_TYPES.items():
        values = []
        for seed in range(1 if quick else RIVAL_LOGS):
            model = random(seed, num_types=3 if share else 2)
            if share:
                model = replace(model, weights=np.array([(1.0 - share) / 2, (1.0 - share) / 2, share]))
            episodes = simulate(uniform_policy(model), model, RIVAL_EPISODES, seed=seed)
            values.append(diagnose(episodes, num_types=2, seed=seed).tests[0].p_value)
        yield {"case": name, "logs": len(values), "episodes": RIVAL_EPISODES, "p_values": values}


def cost(quick: bool) -> Iterator[Row]:
    """CPU seconds of ``fit``, and of the diagnostics alone, with the limit on the rival and without."""
    model = random(0, states=12, horizon=12)
    rows = ROWS // 10 if quick else ROWS
    episodes = simulate(uniform_policy(model), model, rows // model.horizon, seed=0)
    few = surplus.MAX_FITTED_EPISODES
    fitted = fit(episodes[:5000], num_resamples=0)  # compiles
    row: Row = {"rows": rows, "episodes": len(episodes)}
    for name, most in {"limited": few, "every other": len(episodes)}.items():
        surplus.MAX_FITTED_EPISODES = most
        row[name] = _seconds(partial(fit, episodes))
        row[f"{name}, check-up"] = _seconds(partial(diagnose, episodes, model=fitted.model))
    surplus.MAX_FITTED_EPISODES = few
    yield {**row, "ratio": row["every other"] / row["limited"]}


def _seconds(call: Any) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def show(part: str, rows: Rows, quick: bool) -> None:
    """The tables of a part."""
    for make_table in SHOWN.get(part, (alarms, calibration)):
        print_tables(make_table(rows))


if __name__ == "__main__":
    power_parts = {"power": power, "short": short, "rival": rival, "cost": cost}
    run(__doc__, "checkup", {**{piece: partial(null, piece) for piece in NULLS}, **power_parts}, show)
