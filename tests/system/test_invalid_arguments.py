"""Test public functions with wrong values of every argument: a result, or an InputError that names the argument.

Each entry of ``CALLS`` lists a function, valid values of its arguments, and the arguments that are replaced. Accepted
calls are quick, because the models are small; calls that would take long must fail by their estimate.
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

SMALL = problems.make_model("random", states=2, actions=2, horizon=2)
PLAN = rewardmix.plan(SMALL, gap=0.1)
EPISODES = rewardmix.simulate(rewardmix.uniform_policy(SMALL), SMALL, 50, 1)
MOMENTS = Moments.from_episodes(EPISODES)
SIZES_OF_PROBLEM = {"num_states": 3, "num_actions": 2, "horizon": 4}

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
    """Return a small environment."""
    return environments.RewardMixingEnv(SMALL)


LEARN = "target_regret failure_prob num_episodes num_types weights seed bonus method refinement_fraction min_separation"
LEARN += " num_resamples num_validation_episodes horizon reward_values callback checkpoint_dir moment_order"
EXPLORE = "num_episodes uncertainty_threshold min_visits min_episodes failure_prob bonus counting strategy engine"
EXPLORE += " replan_growth seed horizon reward_values moment_order"
RECOVER = "data adaptive_episodes num_types weights pseudocount method seed failure_prob epsilon radius_rule"
RANDOM = "states actions horizon seed num_types weights separation next_states reward_values"
SIZES = "num_states num_actions horizon"
BATCHES = {"engine": exploration.make_batched_engine, "counting": exploration.selected_pairs}

Call = tuple[Callable[..., Any], dict[str, Any], str]
CALLS: dict[str, Call] = {
    "simulate": (
        rewardmix.simulate,
        {"policy": rewardmix.uniform_policy(SMALL), "model_or_env": SMALL, "num_episodes": 10},
        "policy model_or_env num_episodes seed explore_prob callback",
    ),
    "simulate an environment": (
        rewardmix.simulate,
        {"policy": PLAN.policy, "model_or_env": env(), "num_episodes": 3},
        "policy num_episodes seed",
    ),
    "evaluate": (
        rewardmix.evaluate,
        {"policy": rewardmix.uniform_policy(SMALL), "model_or_env": SMALL},
        "policy model_or_env num_episodes failure_prob seed callback",
    ),
    "plan": (rewardmix.plan, {"model": SMALL, "gap": 0.1}, "model gap max_operations max_seconds callback"),
    "plan_exact": (rewardmix.plan_exact, {}, "model"),
    "compare_planners": (rewardmix.compare_planners, {"model": SMALL, "gap": 0.1}, "model gap"),
    "compare_with_baselines": (planning.compare_with_baselines, {}, "result"),
    "plan_markov": (planning.plan_markov, {}, "model"),
    "plan_qmdp": (planning.plan_qmdp, {}, "model"),
    "plan_greedy": (planning.plan_greedy, {}, "model"),
    "plan_oracle": (planning.plan_oracle, {}, "model"),
    "plan_uniform": (planning.plan_uniform, {}, "model"),
    "uniform_policy": (rewardmix.uniform_policy, {}, "model"),
    "markov_policy": (rewardmix.markov_policy, {"table": np.array([0, 1]), "model": SMALL}, "table model"),
    "explore": (
        rewardmix.explore,
        {"env_or_model": SMALL, "num_episodes": 20},
        f"env_or_model {EXPLORE} resume_from callback checkpoint_dir",
    ),
    "explore an environment": (rewardmix.explore, {"env_or_model": env(), "num_episodes": 5}, EXPLORE),
    "explore triples": (rewardmix.explore, {"env_or_model": SMALL, "num_episodes": 20, "moment_order": 3}, EXPLORE),
    "explore in batches": (
        rewardmix.explore,
        {"env_or_model": SMALL, "num_episodes": 50, **BATCHES},
        "num_episodes replan_growth seed counting",
    ),
    "recover": (rewardmix.recover, {"data": EPISODES}, RECOVER),
    "recover from moments": (rewardmix.recover, {"data": MOMENTS}, "num_types weights pseudocount seed"),
    "confidence_set": (rewardmix.confidence_set, {"moments": MOMENTS}, "moments failure_prob epsilon radius_rule"),
    "select_num_types": (
        rewardmix.select_num_types,
        {"episodes": EPISODES, "max_types": 2},
        "episodes max_types pseudocount seed",
    ),
    "normal_rule": (recovery.normal_rule, {}, "num_std"),
    "paper_bonus": (exploration.paper_bonus, {}, "c"),
    "learn": (
        rewardmix.learn,
        {"env_or_model": SMALL, "num_episodes": 30, "num_resamples": 0},
        f"env_or_model {LEARN}",
    ),
    "make_model": (problems.make_model, {}, "name"),
    "make_env": (problems.make_env, {}, "model_or_name"),
    "make_random": (problems.make_model, {"name": "random"}, RANDOM),
    "make_hard": (problems.make_model, {"name": "hard"}, "actions epsilon seed"),
    "make_lock": (problems.make_model, {"name": "lock"}, "steps actions slip seed"),
    "make_riverswim": (problems.make_model, {"name": "riverswim"}, "states horizon"),
    "make_grid": (problems.make_model, {"name": "grid"}, "size horizon slip"),
    "make_shop": (problems.make_model, {"name": "shop"}, "horizon weights follow"),
    "make_branches": (problems.make_model, {"name": "branches"}, "rooms doors"),
    "make_probe": (problems.make_model, {"name": "probe"}, "horizon"),
    "make_parity": (problems.make_model, {"name": "parity"}, "actions dials strength risk seed"),
    "covariance_tolerance": (theory.covariance_tolerance, {"epsilon": 0.1, "horizon": 4}, "epsilon horizon"),
    "uncertainty_threshold": (
        theory.uncertainty_threshold,
        {"epsilon": 0.1, "min_separation": 0.2, "horizon": 4},
        "epsilon min_separation horizon",
    ),
    "episode_bound": (
        theory.episode_bound,
        {**SIZES_OF_PROBLEM, "threshold": 0.01, "failure_prob": 0.05},
        f"{SIZES} threshold failure_prob",
    ),
    "upper_bound": (
        theory.upper_bound,
        {**SIZES_OF_PROBLEM, "epsilon": 0.1, "min_separation": 0.2, "failure_prob": 0.05},
        f"{SIZES} epsilon min_separation failure_prob",
    ),
    "lower_bound": (
        theory.lower_bound,
        {"num_states": 3, "num_actions": 2, "epsilon": 0.1},
        "num_states num_actions epsilon",
    ),
    "estimate_paper_episodes": (
        theory.estimate_paper_episodes,
        {**SIZES_OF_PROBLEM, "threshold": 0.01, "failure_prob": 0.05},
        f"{SIZES} threshold failure_prob",
    ),
    "estimate_practical_episodes": (theory.estimate_practical_episodes, SIZES_OF_PROBLEM, f"{SIZES} uncertainty"),
    "export_pomdp": (interop.export_pomdp, {"model": SMALL, "path": "x.pomdp"}, "model discount"),
    "export_pomdpx": (interop.export_pomdpx, {"model": SMALL, "path": "x.pomdpx"}, "model discount"),
    "render_page": (report.render_page, {}, "summary"),
    "policy_to_dict": (report.policy_to_dict, {"policy": PLAN.policy, "model": SMALL}, "policy model"),
    "load": (rewardmix.load, {}, "path"),
    "save": (rewardmix.save, {"path": "x.safetensors", "result": SMALL}, "path result"),
}
"""Name -> (function, valid arguments, arguments that are replaced)."""

FUNCTIONS = ("callback", "strategy", "engine", "method", "radius_rule", "bonus")
"""Arguments that are functions: errors inside a callable that was passed are not checked."""


def argument_cases():
    """Yield every function with every argument."""
    for name, (_, _, arguments) in CALLS.items():
        for argument in arguments.split():
            yield pytest.param(name, argument, id=f"{name}-{argument}")


@pytest.mark.parametrize(("name", "argument"), list(argument_cases()))
def test_wrong_values_are_accepted_or_named_in_the_error(name, argument, monkeypatch, tmp_path):
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
            if ": got " not in str(error):
                wrong.append(f"{name}({argument} = {what}): {error}")
        except Exception as error:
            if isinstance(error, OSError) and what == "path":
                continue  # errors of the file system are raised unchanged
            wrong.append(f"{name}({argument} = {what}): {type(error).__name__}: {str(error)[:200]}")
    assert not wrong, "; ".join(wrong)
