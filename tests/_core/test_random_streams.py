"""Every caller that draws has a stream of its own."""

import ast
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import rewardmix
from rewardmix import evaluate, explore, problems, simulate, uniform_policy
from rewardmix._core import random_streams
from rewardmix._core.random_streams import Role
from rewardmix.environments import RewardMixingEnv
from rewardmix.exploration import make_batched_engine, selected_pairs, uniform_strategy

ROOT = Path(rewardmix.__file__).parent
MAKERS = {"kernel_stream", "make_generator", "derive_seed", "seed_sequence"}


def calls(path):
    """(function that it is in, name, call) of every call in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            around = [f for f in functions if f.lineno <= node.lineno <= f.end_lineno]
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield max(around, key=lambda f: f.lineno).name if around else "", name, node


def callers():
    """Role -> the functions that draw from it."""
    result = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        if path.name == "random_streams.py":
            continue
        for function, name, call in calls(path):
            if name in MAKERS:
                assert len(call.args) >= 2, f"{path.name}:{call.lineno} names no role"
                role = call.args[1]
                assert isinstance(role, ast.Attribute), f"{path.name}:{call.lineno} names no role"
                assert ast.unparse(role.value) == "Role", f"{path.name}:{call.lineno} names no role"
                result[role.attr].add(f"{path.relative_to(ROOT).as_posix()}:{function}")
    return result


@pytest.mark.system
def test_a_role_belongs_to_one_caller():
    result = callers()
    assert set(result) == set(Role.__members__) - {"BASELINE_INITS"}  # of benchmarks.online.baselines
    for role, where in result.items():
        if role == "PROBLEM":  # a problem is what its bare seed makes it, one family or another
            assert all(place.startswith("problems/") for place in where)
        else:
            assert len(where) == 1, f"{role} is shared: {sorted(where)}"


@pytest.mark.system
def test_nothing_draws_without_a_role():
    for path in sorted(ROOT.rglob("*.py")):
        for _, name, call in calls(path):
            if path.name != "random_streams.py" and name in ("default_rng", "SeedSequence", "PCG64", "RandomState"):
                assert name == "default_rng", f"{path.name}:{call.lineno} makes {name}"
                assert not call.args, f"{path.name}:{call.lineno} seeds a generator without a role"


def test_seeds_roles_and_indices_have_streams_of_their_own():
    keys = [(seed, role, *index) for seed in (0, 1, 2**40) for role in Role for index in [(), (0,), (1,), (0, 1)]]
    states = {
        tuple(random_streams.kernel_stream(*key).tolist()): key[:2] if key[1] is Role.PROBLEM else key for key in keys
    }
    assert len(states) == len({key[:2] if key[1] is Role.PROBLEM else key for key in keys})
    assert len({random_streams.derive_seed(*key) for key in keys if key[1] is not Role.PROBLEM}) == 3 * 4 * (
        len(Role) - 1
    )
    assert random_streams.make_generator(3, Role.PROBLEM).random() == np.random.default_rng(3).random()


@pytest.mark.parametrize("chunk", [0, 1])
def test_what_is_explored_is_not_what_is_simulated(chunk):
    model = problems.make_model("random", states=4, actions=2, horizon=5)
    simulated = random_streams.kernel_stream(5, Role.SIMULATION, chunk).tolist()
    for options in ({}, {"engine": make_batched_engine, "counting": selected_pairs}):
        assert explore(model, num_episodes=0, seed=5, **options).rng_state.tolist() != simulated
    log = simulate(uniform_policy(model), model, 50, seed=5)
    explored = explore(model, num_episodes=50, seed=5, strategy=uniform_strategy).episodes
    assert not np.array_equal(log.states[:, 0], explored.states[:, 0])


def test_an_environment_is_played_explored_and_evaluated_with_seeds_of_its_own():
    class Seeds(RewardMixingEnv):
        def reset(self, *, seed=None, options=None):
            if seed is not None:
                seeds.append(seed)
            return super().reset(seed=seed, options=options)

    model = problems.make_model("shop")
    seeds = []
    simulate(uniform_policy(model), Seeds(model), 3, seed=1)
    evaluate(uniform_policy(model), Seeds(model), num_episodes=3, seed=1)
    explore(Seeds(model), num_episodes=3, seed=1)
    assert len(set(seeds)) == 3
    assert 1 not in seeds
