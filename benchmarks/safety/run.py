"""Is what ``fit`` returns worse than what wrote the log? Models, logging policies and sizes, with exact values.

python -m benchmarks.safety.run [--quick] [--parts 300,given,3000,30000,chain,calibration]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.record import run
from benchmarks.safety import analysis, settings
from benchmarks.safety.loggers import fit_uniform_log, logger_of, of_controller, world_of
from rewardmix import logs
from rewardmix.diagnostics import Diagnostics
from rewardmix.evaluation import controller_value
from rewardmix.planning import plan

QUICK = ("probe", "random (3, 2, 4)")


def cells(size: int, quick: bool) -> Iterator[dict[str, Any]]:
    """Every model and logging policy, seed after seed."""
    names = QUICK if quick else tuple(settings.WORLDS)
    best = {name: plan(world_of(name), gap=1e-3).lower for name in names}
    for seed in range(settings.FIRST_SEED, settings.FIRST_SEED + (2 if quick else settings.SEEDS)):
        for name in names:
            for kind in settings.POLICIES:
                yield cell(name, kind, size, seed, best[name])


def cell(name: str, kind: str, size: int, seed: int, best: float) -> dict[str, Any]:
    """One log, fitted with caution; a uniform one also without."""
    model = world_of(name)
    seed_key = tuple(settings.WORLDS).index(name), settings.POLICIES.index(kind), size, seed
    logger = logger_of(kind, model, np.random.default_rng([*seed_key, 0]))
    episodes = logger.play(model, size, np.random.default_rng([*seed_key, 1]))
    ask = partial(logs.fit, episodes, num_types=model.num_types, num_resamples=0, held_out_fraction=0.0, seed=seed)
    fitted = ask()
    bold = {"bold": controller_value(ask(pessimism=0.0).plan.policy, model)} if kind == "uniform" else {}
    support = fitted.info.support
    return {
        "world": name,
        "log": kind,
        "episodes": size,
        "seed": seed,
        "best": best,
        "logged": logger.value(model),
        "value": controller_value(fitted.plan.policy, model),
        "kept": support.restricted,
        "thin": support.low_count_fraction,
        "left": support.off_support_fraction,
        **bold,
    }


def given(quick: bool) -> Iterator[dict[str, Any]]:
    """Small logs of deployed policies, fitted with the run of that policy as the initial model and without it."""
    size, names = settings.GIVEN_SIZE, QUICK if quick else tuple(settings.WORLDS)
    best = {name: plan(world_of(name), gap=1e-3).lower for name in names}
    for seed in range(settings.FIRST_SEED, settings.FIRST_SEED + (2 if quick else settings.SEEDS)):
        for name in names:
            model = world_of(name)
            seed_key = tuple(settings.WORLDS).index(name), settings.POLICIES.index("deployed"), size, seed
            earlier = fit_uniform_log(model, np.random.default_rng([*seed_key, 0]))
            logger = of_controller(earlier.plan.policy, model)
            episodes = logger.play(model, size, np.random.default_rng([*seed_key, 1]))
            ask = partial(
                logs.fit, episodes, num_types=model.num_types, num_resamples=0, held_out_fraction=0.0, seed=seed
            )
            row = {"world": name, "episodes": size, "seed": seed, "best": best[name], "logged": logger.value(model)}
            for key, init_model in (("value", earlier), ("without", None)):
                row[key] = controller_value(ask(init_model=init_model).plan.policy, model)
            yield row


def chain(quick: bool) -> Iterator[dict[str, Any]]:
    """Week after week, each on the log of the week before alone."""
    model = world_of(settings.CHAIN_WORLD)
    best = plan(model, gap=1e-3).lower
    for seed in range(2 if quick else settings.CHAINS):
        rng = np.random.default_rng([settings.FIRST_SEED + seed, 2])
        logger = logger_of("uniform", model, rng)
        for week in range(1, settings.WEEKS + 1):
            episodes = logger.play(model, settings.WEEKLY, rng)
            policy = logs.fit(episodes, num_resamples=0, held_out_fraction=0.0, seed=seed).plan.policy
            yield {"seed": seed, "week": week, "value": controller_value(policy, model), "best": best}
            logger = of_controller(policy, model)


def calibration(quick: bool) -> Iterator[dict[str, Any]]:
    """Whether the intervals that ``fit`` prints hold what its policy earns."""
    for number in range(5 if quick else settings.CALIBRATION_LOGS):
        for name in settings.CALIBRATED:
            for kind in settings.CALIBRATION_POLICIES:
                model = world_of(name)
                logger = logger_of(kind, model, np.random.default_rng([number, 3]))
                episodes = logger.play(model, settings.CALIBRATION_EPISODES, np.random.default_rng([number, 4]))
                fitted = logs.fit(episodes, num_types=model.num_types, seed=number)
                value, off_policy, bootstrap = (
                    controller_value(fitted.plan.policy, model),
                    fitted.info.off_policy,
                    fitted.info.bootstrap,
                )
                row = {
                    "world": name,
                    "log": kind,
                    "number": number,
                    "value": value,
                    "supported": off_policy.is_supported,
                }
                if off_policy.is_supported:
                    row |= {"lower": off_policy.lower, "upper": off_policy.upper}
                yield {**row, "boot_lower": bootstrap.lower, "boot_upper": bootstrap.upper}


def of_size(size: int) -> Callable[[bool], Iterator[dict[str, Any]]]:
    """A part: all cells of one size."""
    return lambda quick: cells(size, quick)


if __name__ == "__main__":
    sizes = {str(size): of_size(size) for size in settings.SIZES}
    parts = {"300": sizes.pop("300"), "given": given, **sizes}
    empty = Diagnostics((), 0.01, 0)
    with patch("rewardmix.logs.fitting.run_assumption_tests", lambda *_, **__: empty):
        # no policy and no interval depends on the diagnostics, and it takes most of the time of a fit
        run(__doc__, "safety", {**parts, "chain": chain, "calibration": calibration}, analysis.print_rows)
