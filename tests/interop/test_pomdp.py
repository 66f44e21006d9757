"""Exported files, read back by small parsers of the formats and solved by brute force as general POMDPs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import product

import numpy as np
import pytest

from helpers.tiny_models import random_model
from oracles.brute_force import optimal_value
from rewardmix._core.checks import InputError
from rewardmix.interop import export_pomdp, export_pomdpx, pomdp_lines

SHAPES = [(2, 2, 2, 2, 2), (3, 2, 2, 2, 3), (2, 2, 3, 3, 2), (1, 3, 3, 2, 2), (2, 1, 1, 2, 2)]


def solve(transition, observation, reward, belief, discount, depth) -> float:
    """Expectimax over observation histories of a flat POMDP: (A,S,S), (A,S,O), (A,S)."""
    if depth == 0 or belief.sum() == 0:
        return 0.0
    best = -np.inf
    for a in range(transition.shape[0]):
        total = belief @ reward[a]
        joint = (belief @ transition[a])[:, None] * observation[a]
        for o in np.flatnonzero(joint.sum(axis=0)):
            total += discount * solve(transition, observation, reward, joint[:, o], discount, depth - 1)
        best = max(best, total)
    return best


def read_pomdp(text: str):
    header = dict(line.split(": ", 1) for line in text.splitlines() if line[:2] not in ("T:", "O:", "R:", "# "))
    places = {
        key: {name: i for i, name in enumerate(header[key].split())} for key in ("states", "actions", "observations")
    }
    states, actions, seen = (places[key] for key in ("states", "actions", "observations"))
    transition = np.zeros((len(actions), len(states), len(states)))
    observation = np.zeros((len(actions), len(states), len(seen)))
    reward = np.zeros((len(actions), len(states)))
    for line in text.splitlines():
        kind, *fields = (piece.strip() for piece in line.split(":"))
        if kind not in ("T", "O", "R"):
            continue
        a = slice(None) if fields[0] == "*" else actions[fields[0]]
        here = states[fields[1]]
        last, value = fields[-1].split()
        if kind == "T":
            transition[a, here, states[last]] = float(value)
        elif kind == "O":
            observation[a, here, seen[last]] = float(value)
        else:
            reward[a, here] = float(value)
    return transition, observation, reward, np.array(header["start"].split(), float), float(header["discount"])


def read_pomdpx(path):
    """Flatten the factored file: all variables multiplied out, the observation is the fully observed part."""
    root = ElementTree.parse(path).getroot()
    enum = {}
    hidden = set()
    for var in root.find("Variable").iter("StateVar"):
        for tag in ("vnamePrev", "vnameCurr"):
            enum[var.get(tag)] = var.find("ValueEnum").text.split()
            if var.get("fullyObs") == "false":
                hidden.add(var.get("vnamePrev"))
    enum["action"] = root.find("Variable/ActionVar/ValueEnum").text.split()
    tables = {}
    for node in [*root.iter("CondProb"), *root.iter("Func")]:
        name, parents = node.find("Var").text, node.find("Parent").text.split()
        axes = ([] if parents == ["null"] else parents) + ([name] if node.tag == "CondProb" else [])
        if name == "nothing":
            continue
        table = np.zeros([len(enum[axis]) for axis in axes])
        for entry in node.iter("Entry"):
            marks = entry.find("Instance").text.split()
            index = tuple(
                slice(None) if mark in "*-" else enum[axis].index(mark) for mark, axis in zip(marks, axes, strict=True)
            )
            leaf = entry.find("ProbTable") if node.tag == "CondProb" else entry.find("ValueTable")
            listed = [len(enum[axis]) for mark, axis in zip(marks, axes, strict=True) if mark == "-"]
            table[index] = np.array(leaf.text.split(), float).reshape(listed)
        tables[name] = (axes, table)
    names = [name for name in enum if name.endswith("_0")]
    flat = list(product(*(range(len(enum[name])) for name in names)))
    return names, flat, enum, tables, hidden, float(root.find("Discount").text)


def flatten(names, flat, enum, tables, hidden, discount):
    def entry(name, where):
        axes, table = tables[name]
        return table[tuple(where[axis] for axis in axes)]

    num_actions = len(enum["action"])
    seen = sorted({tuple(v for n, v in zip(names, values, strict=True) if n not in hidden) for values in flat})
    transition = np.zeros((num_actions, len(flat), len(flat)))
    reward = np.zeros((num_actions, len(flat)))
    start = np.array([np.prod([entry(n, {n: v}) for n, v in zip(names, values, strict=True)]) for values in flat])
    reachable = start > 0
    for _ in range(len(enum["time_0"])):
        for i in np.flatnonzero(reachable):
            for a in range(num_actions):
                where = {"action": a, **dict(zip(names, flat[i], strict=True))}
                reward[a, i] = entry("reward", where)
                if transition[a, i].sum() == 0:
                    for j, values in enumerate(flat):
                        ahead = {n.replace("_0", "_1"): v for n, v in zip(names, values, strict=True)}
                        transition[a, i, j] = np.prod([entry(n, {**where, **ahead}) for n in ahead])
        reachable |= (transition.sum(axis=0) > 0).any(axis=0)
    observation = np.zeros((num_actions, len(flat), len(seen)))
    for i, values in enumerate(flat):
        observation[:, i, seen.index(tuple(v for n, v in zip(names, values, strict=True) if n not in hidden))] = 1.0
    return transition, observation, reward, start, discount


@pytest.mark.parametrize(("states", "actions", "horizon", "num_types", "values"), SHAPES)
def test_pomdp_file_has_the_value_of_the_model(tmp_path, states, actions, horizon, num_types, values):
    model = random_model(np.random.default_rng(7), states, actions, horizon, num_types=num_types, values=values)
    export_pomdp(model, tmp_path / "model.pomdp", discount=0.9)
    pomdp = read_pomdp((tmp_path / "model.pomdp").read_text())
    assert pomdp[0].sum(axis=2) == pytest.approx(np.ones(pomdp[0].shape[:2]))
    assert pomdp[1].sum(axis=2) == pytest.approx(np.ones(pomdp[1].shape[:2]))
    assert solve(*pomdp, horizon + 1) == pytest.approx(optimal_value(model), abs=1e-10)


@pytest.mark.parametrize(("states", "actions", "horizon", "num_types", "values"), SHAPES)
def test_pomdpx_file_has_the_value_of_the_model(tmp_path, states, actions, horizon, num_types, values):
    model = random_model(np.random.default_rng(8), states, actions, horizon, num_types=num_types, values=values)
    export_pomdpx(model, tmp_path / "model.pomdpx", discount=0.9)
    pomdp = flatten(*read_pomdpx(tmp_path / "model.pomdpx"))
    assert solve(*pomdp, horizon + 1) == pytest.approx(optimal_value(model), abs=1e-10)


@pytest.mark.parametrize("discount", [0.0, 1.0, float("nan")])
def test_discount_is_checked(discount):
    model = random_model(np.random.default_rng(0), 2, 2, 2)
    with pytest.raises(InputError, match="discount: got"):
        list(pomdp_lines(model, discount=discount))
