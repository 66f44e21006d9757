"""Public functions with every argument replaced by what people pass by mistake: a result, or a refusal by name.

One line of ``CALLS`` for each function: how it is called, and which of its arguments are tried. Whatever is let through
has to be quick, because the worlds are small; whatever would not be is refused by its estimate.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rewardmix
from rewardmix import InputError, environments, exploration, interop, planning, problems, recovery, report, theory
from rewardmix.moments import Moments

SMALL = problems.make("random", states=2, actions=2, horizon=2)
PLAN = rewardmix.plan(SMALL, gap=0.1)
EPISODES = rewardmix.simulate(rewardmix.uniform(SMALL), SMALL, 50, 1)
MOMENTS = Moments.of(EPISODES)
WORLD = {"num_states": 3, "num_actions": 2, "horizon": 4}

BAD = {
    "None": None,
    "True": True,
    "empty text": "",
    "text": "abc",
    "surrogate": "\ud800",
    "bytes": b"x",
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "10**400": 10**400,
    "-10**400": -(10**400),
    "2**63": 2**63,
    "10**5000": 10**5000,
    "1e300": 1e300,
    "-1e-300": -1e-300,
    "1j": 1j,
    "list": [1, 2],
    "no list": [],
    "ragged": [[1], [2, 3]],
    "dict": {},
    "object": object(),
    "array": np.array([1.0, 2.0]),
    "no array": np.array([]),
    "text array": np.array(["a"]),
    "object array": np.array([None, {}], dtype=object),
    "int8": np.int8(-3),
    "float16": np.float16("nan"),
    "bool_": np.True_,
    "decimal": decimal.Decimal("NaN"),
    "fraction": fractions.Fraction(1, 3),
    "date": datetime.date(2020, 1, 1),
    "class": int,
    "path": Path("/proc/x/y"),
}


def env():
    """A small environment."""
    return environments.RewardMixingEnv(SMALL)


LEARN = "accuracy failure episodes num_contexts weights seed confidence method refine separation resamples validate"
LEARN += " horizon reward_values on_update checkpoint order"
EXPLORE = "episodes threshold tried least failure confidence counts strategy engine growth seed horizon reward_values"
EXPLORE += " order"
RECOVER = "data following num_contexts weights prior method seed failure accuracy radius"
RANDOM = "states actions horizon seed contexts weights separation successors reward_values"
SIZES = "num_states num_actions horizon"
BATCHES = {"engine": exploration.batched, "counts": exploration.selected}

Call = tuple[Callable[..., Any], dict[str, Any], str]
CALLS: dict[str, Call] = {
    "simulate": (
        rewardmix.simulate,
        {"policy": rewardmix.uniform(SMALL), "model_or_env": SMALL, "episodes": 10},
        "policy model_or_env episodes seed on_update",
    ),
    "simulate an environment": (
        rewardmix.simulate,
        {"policy": PLAN.policy, "model_or_env": env(), "episodes": 3},
        "policy episodes seed",
    ),
    "evaluate": (
        rewardmix.evaluate,
        {"policy": rewardmix.uniform(SMALL), "model_or_env": SMALL},
        "policy model_or_env episodes failure seed on_update",
    ),
    "plan": (rewardmix.plan, {"model": SMALL, "gap": 0.1}, "model gap work_limit time_limit on_update"),
    "plan_exact": (rewardmix.plan_exact, {}, "model"),
    "compare": (rewardmix.compare, {"model": SMALL, "gap": 0.1}, "model gap"),
    "compare_plan": (planning.compare_plan, {}, "found"),
    "plan_markov": (planning.plan_markov, {}, "model"),
    "plan_qmdp": (planning.plan_qmdp, {}, "model"),
    "plan_greedy": (planning.plan_greedy, {}, "model"),
    "plan_told": (planning.plan_told, {}, "model"),
    "plan_uniform": (planning.plan_uniform, {}, "model"),
    "uniform": (rewardmix.uniform, {}, "model"),
    "markov": (rewardmix.markov, {"table": np.array([0, 1]), "model": SMALL}, "table model"),
    "explore": (
        rewardmix.explore,
        {"env_or_model": SMALL, "episodes": 20},
        f"env_or_model {EXPLORE} after on_update checkpoint",
    ),
    "explore an environment": (rewardmix.explore, {"env_or_model": env(), "episodes": 5}, EXPLORE),
    "explore triples": (rewardmix.explore, {"env_or_model": SMALL, "episodes": 20, "order": 3}, EXPLORE),
    "explore in batches": (
        rewardmix.explore,
        {"env_or_model": SMALL, "episodes": 50, **BATCHES},
        "episodes growth seed counts",
    ),
    "recover": (rewardmix.recover, {"data": EPISODES}, RECOVER),
    "recover from moments": (rewardmix.recover, {"data": MOMENTS}, "num_contexts weights prior seed"),
    "confidence_set": (rewardmix.confidence_set, {"moments": MOMENTS}, "moments failure accuracy radius"),
    "choose_contexts": (
        rewardmix.choose_contexts,
        {"episodes": EPISODES, "max_contexts": 2},
        "episodes max_contexts prior seed",
    ),
    "normal": (recovery.normal, {}, "deviations"),
    "paper": (exploration.paper, {}, "c"),
    "learn": (rewardmix.learn, {"env_or_model": SMALL, "episodes": 30, "resamples": 0}, f"env_or_model {LEARN}"),
    "make": (problems.make, {}, "name"),
    "make_env": (problems.make_env, {}, "model_or_name"),
    "random": (problems.make, {"name": "random"}, RANDOM),
    "hard": (problems.make, {"name": "hard"}, "actions accuracy seed"),
    "lock": (problems.make, {"name": "lock"}, "steps actions slip seed"),
    "riverswim": (problems.make, {"name": "riverswim"}, "states horizon"),
    "grid": (problems.make, {"name": "grid"}, "size horizon slip"),
    "shop": (problems.make, {"name": "shop"}, "horizon weights follow"),
    "branches": (problems.make, {"name": "branches"}, "rooms doors"),
    "probe": (problems.make, {"name": "probe"}, "horizon"),
    "parity": (problems.make, {"name": "parity"}, "actions dials strength risk seed"),
    "tolerance": (theory.tolerance, {"accuracy": 0.1, "horizon": 4}, "accuracy horizon"),
    "threshold": (
        theory.threshold,
        {"accuracy": 0.1, "separation": 0.2, "horizon": 4},
        "accuracy separation horizon",
    ),
    "episode_bound": (
        theory.episode_bound,
        {**WORLD, "threshold": 0.01, "failure": 0.05},
        f"{SIZES} threshold failure",
    ),
    "upper_bound": (
        theory.upper_bound,
        {**WORLD, "accuracy": 0.1, "separation": 0.2, "failure": 0.05},
        f"{SIZES} accuracy separation failure",
    ),
    "lower_bound": (
        theory.lower_bound,
        {"num_states": 3, "num_actions": 2, "accuracy": 0.1},
        "num_states num_actions accuracy",
    ),
    "fluid_episodes": (
        theory.fluid_episodes,
        {**WORLD, "threshold": 0.01, "failure": 0.05},
        f"{SIZES} threshold failure",
    ),
    "practical_episodes": (theory.practical_episodes, WORLD, f"{SIZES} uncertainty"),
    "export_pomdp": (interop.export_pomdp, {"model": SMALL, "path": "x.pomdp"}, "model discount"),
    "export_pomdpx": (interop.export_pomdpx, {"model": SMALL, "path": "x.pomdpx"}, "model discount"),
    "page": (report.page, {}, "summary"),
    "playable": (report.playable, {"policy": PLAN.policy, "model": SMALL}, "policy model"),
    "load": (rewardmix.load, {}, "path"),
    "save": (rewardmix.save, {"path": "x.safetensors", "noun": SMALL}, "path noun"),
}
"""Name -> (function, its other arguments, those that are tried)."""

FUNCTIONS = ("on_update", "strategy", "engine", "method", "radius", "confidence")
"""Arguments that are functions: what goes wrong inside of one that can be called is its author's to mend."""


def asked():
    """Every function with every argument."""
    for name, (_, _, arguments) in CALLS.items():
        for argument in arguments.split():
            yield pytest.param(name, argument, id=f"{name}-{argument}")


@pytest.mark.parametrize(("name", "argument"), list(asked()))
def test_a_bad_value_is_refused_by_name_or_taken(name, argument, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REWARDMIX_OPERATIONS", "1e9")
    monkeypatch.setenv("REWARDMIX_MEMORY", "0.25")
    function, others, _ = CALLS[name]
    wrong = []
    for what, value in BAD.items():
        if argument in FUNCTIONS and callable(value):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                function(**{**others, argument: value})
        except InputError as error:
            if ": found " not in str(error):
                wrong.append(f"{name}({argument} = {what}): {error}")
        except Exception as error:
            if isinstance(error, OSError) and what == "path":
                continue  # a path like others; what the file system says to it is said as it is
            wrong.append(f"{name}({argument} = {what}): {type(error).__name__}: {str(error)[:200]}")
    assert not wrong, "; ".join(wrong)
