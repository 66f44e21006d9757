"""The JavaScript player against the Python policy and the Python belief."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rewardmix.report
from helpers.example_summaries import random_sparse_model
from rewardmix import belief, problems
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan
from rewardmix.policy import Controller, markov_policy, uniform_policy
from rewardmix.report.policy_json import compact_tables, policy_to_dict, to_json

PLAYER = Path(rewardmix.report.__file__).with_name("player.js")

COMPARE = """
import { readFileSync } from "node:fs";
import { createSession } from "./player.mjs";
const { policy, sessions } = JSON.parse(readFileSync("sessions.json", "utf8"));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
let wrong = 0, worst = 0, steps = 0, undone = 0;
for (const { start, actions, rewards, states, beliefs } of sessions) {
  const session = createSession(policy, start);
  const check = (t) => {
    beliefs[t].forEach((prob, m) => { worst = Math.max(worst, Math.abs(prob - session.belief[m])); });
    if (session.step !== t || session.done !== (t === actions.length)) wrong += 1;
    if (!session.done && session.action !== actions[t]) wrong += 1;
  };
  rewards.forEach((reward, t) => {
    check(t);
    const before = [session.action, session.belief, session.state, session.step, session.total];
    session.observe(reward, states[t]).undo();
    if (!same(before, [session.action, session.belief, session.state, session.step, session.total])) undone += 1;
    session.observe(reward, states[t]);
    steps += 1;
  });
  check(actions.length);
  if (!session.done || session.history.length !== actions.length) wrong += 1;
  if (Math.abs(session.total - rewards.reduce((a, b) => a + b, 0)) > 1e-9) wrong += 1;
  session.restart();
  if (session.step !== 0 || session.state !== start || session.total !== 0) wrong += 1;
  check(0);
}
console.log(JSON.stringify({ wrong, worst, steps, undone }));
"""


def run(node: str, folder: Path, script: str) -> str:
    shutil.copy(PLAYER, folder / "player.mjs")
    (folder / "run.mjs").write_text(script)
    done = subprocess.run([node, "run.mjs"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def random_controller(model: RewardMixingMDP, seed: int) -> Controller:
    rng = np.random.default_rng(seed)
    sizes = [*rng.integers(2, 9, size=model.horizon), 1]
    shapes = [(model.num_states, k) for k in sizes]
    return Controller(
        tuple(rng.integers(model.num_actions, size=shape) for shape in shapes[:-1]),
        tuple(rng.integers(sizes[t + 1], size=(*shapes[t], model.num_values)) for t in range(model.horizon)),
        rng.integers(sizes[0], size=model.num_states),
        model.reward_values,
    )


def sessions(policy: Controller, model: RewardMixingMDP, count: int, seed: int) -> list[dict]:
    """Play as Python plays; next states are drawn from all states, also from those the model calls impossible."""
    rng = np.random.default_rng(seed)
    played = []
    for _ in range(count):
        state = int(rng.integers(model.num_states))
        memory, share = policy.start(state), model.weights
        record = {"start": state, "actions": [], "rewards": [], "states": [], "beliefs": [share.tolist()]}
        for _ in range(model.horizon):
            action, z = policy.act(memory, rng), int(rng.integers(model.num_values))
            reward, next_state = float(model.reward_values[z]), int(rng.integers(model.num_states))
            share = belief.update(share, model.reward_probs[:, state, action, z])
            memory = policy.observe(memory, action, reward, next_state)
            state = next_state
            for key, value in zip(("actions", "rewards", "states", "beliefs"),
                                  (action, reward, next_state, share.tolist()), strict=True):  # fmt: skip
                record[key].append(value)
        played.append(record)
    return played


CASES = {
    "shop": (problems.make_model("shop"), None),
    "grid": (problems.make_model("grid"), None),
    "probe": (problems.make_model("probe"), None),
    "three types, three values": (random_sparse_model(3, (-1.0, 0.0, 2.5), seed=1), 7),
    "four types, two values": (random_sparse_model(4, (0.1, 0.3), seed=2), 8),
}


@pytest.mark.parametrize("case", CASES)
def test_player_plays_as_python_does(case, node, tmp_path):
    model, seed = CASES[case]
    policy = plan(model).policy if seed is None else random_controller(model, seed)
    played = sessions(policy, model, 2_000, seed=3)
    (tmp_path / "sessions.json").write_text(to_json({"policy": policy_to_dict(policy, model), "sessions": played}))
    result = json.loads(run(node, tmp_path, COMPARE))
    assert result["steps"] == 2_000 * model.horizon
    assert result["wrong"] == 0
    assert result["undone"] == 0
    assert result["worst"] <= 1e-12


def test_compact_plays_alike_and_is_no_larger():
    model = random_sparse_model(2, (0.0, 1.0), seed=4)
    policy = random_controller(model, seed=5)
    columns, nodes, first = compact_tables(policy)
    assert all(len(piece) <= actions.shape[1] for piece, actions in zip(columns, policy.actions, strict=True))
    rng = np.random.default_rng(6)
    for _ in range(500):
        state = int(rng.integers(5))
        memory, own_node = policy.start(state), first[state]
        for t in range(model.horizon):
            node = nodes[t][columns[t][own_node][state]]
            assert node[0] == policy.act(memory, rng)
            z, next_state = int(rng.integers(2)), int(rng.integers(5))
            memory = policy.observe(memory, node[0], float(z), next_state)
            own_node, state = node[1 + z] if t < model.horizon - 1 else 0, next_state


def test_compact_merges_what_plays_alike():
    """Twice the same nodes, and one that nothing leads to, are as small as once."""
    model = problems.make_model("probe")
    policy = plan(model).policy
    doubled = Controller(
        tuple(np.concatenate([piece, piece, piece[:, :1]], axis=1) for piece in policy.actions),
        tuple(
            np.concatenate([piece, piece + step, piece[:, :1]], axis=1)
            for piece, step in zip(policy.next_nodes, [*(a.shape[1] for a in policy.actions[1:]), 0], strict=True)
        ),
        policy.initial_nodes + policy.actions[0].shape[1],
        policy.reward_values,
    )
    assert [len(piece) for piece in compact_tables(doubled)[0]] == [len(piece) for piece in compact_tables(policy)[0]]


def test_markov_table_is_played_and_a_lottery_is_refused():
    model = problems.make_model("shop")
    table = np.arange(40).reshape(10, 4) % 4
    data = policy_to_dict(markov_policy(table, model), model)
    assert [[data["nodes"][t][n][0] for n in data["columns"][t][0]] for t in range(10)] == table.tolist()
    with pytest.raises(ValueError, match="policy: got random actions at step 0 in state 0"):
        policy_to_dict(uniform_policy(model), model)
    with pytest.raises(ValueError, match="policy: got object, expected a Controller"):
        policy_to_dict(object(), model)


def test_player_refuses_what_it_cannot_play(node, tmp_path):
    model = problems.make_model("shop")
    (tmp_path / "policy.json").write_text(to_json(policy_to_dict(plan(model).policy, model, "shop")))
    script = """
    import { readFileSync } from "node:fs";
    import { createSession } from "./player.mjs";
    const policy = JSON.parse(readFileSync("policy.json", "utf8"));
    const said = (call) => { try { call(); return "nothing"; } catch (error) { return error.message; } };
    const session = createSession(policy);
    const over = createSession(policy);
    for (let t = 0; t < policy.horizon - 1; t += 1) over.observe(1, 0);
    over.observe(0);
    console.log(JSON.stringify([
      said(() => createSession({})), said(() => createSession({ ...policy, format_version: 9 })),
      said(() => createSession(policy, 4)), said(() => session.observe(0.5, 0)), said(() => session.observe(1, -1)),
      said(() => session.observe(1)), said(() => over.observe(1, 0)), [over.action, over.done, over.nextStates],
      [session.actionName, session.stateName, session.nextStates, session.step], session.undo().step,
    ]));
    """
    result = json.loads(run(node, tmp_path, script))
    assert result == [
        "policy: got object, expected JSON of rewardmix export --format json, version 2",
        "policy: got version 9, expected JSON of rewardmix export --format json, version 2",
        "state: got 4, expected an integer from 0 to 3",
        "reward: got 0.5, expected one of 0, 1",
        "nextState: got -1, expected an integer from 0 to 3",
        "nextState: got undefined, expected an integer from 0 to 3",
        "the episode is over after 10 steps: undo() or restart()",
        [None, True, []],
        ["show outdoor", "home", [0, 1, 2, 3], 0],
        0,
    ]


def test_possible_next_states_are_listed():
    data = policy_to_dict(plan(problems.make_model("probe")).policy, problems.make_model("probe"))
    assert data["starts"] == [0]
    assert data["next_states"] == [[0], [0], [1], [2], *[[1]] * 4, *[[2]] * 4]


def test_json_has_no_number_that_readers_refuse():
    text = to_json({"a": np.array([1.0, np.nan, np.inf]), 2: (np.float64(0.1), np.int64(3), np.bool_(True))})
    assert json.loads(text) == {"a": [1.0, None, None], "2": [0.1, 3, True]}


LEVELS = """
import { readFileSync } from "node:fs";
import { createSession, isEmpty, rewardIndex } from "./player.mjs";
const { policy, rewards } = JSON.parse(readFileSync("levels.json", "utf8"));
const refused = [NaN, Infinity, "3", null].map((bad) => {
  try { rewardIndex(policy, bad); return "taken"; } catch (error) { return error.message; }
});
const session = createSession(policy, 0).observe(52.71, 1);
console.log(JSON.stringify({
  levels: rewards.map((reward) => rewardIndex(policy, reward)),
  empty: policy.reward_values.map((_, z) => isEmpty(policy, z)),
  refused, total: session.total, belief: session.belief,
}));
"""


def test_the_player_puts_raw_rewards_into_the_bins_of_the_policy(node, tmp_path):
    """The twin of RewardScale.level, on numbers at, near and far from cuts and values, and on printed ones."""
    rng = np.random.default_rng(0)
    cuts = np.array([-np.finfo(float).max, -0.005, 0.005, 21.3, 40.0])
    model = problems.make_model(
        "random",
        states=3,
        actions=2,
        horizon=4,
        seed=1,
        reward_values=(-50.0, -14.24, 0.0, 10.10277, 36.29199562711191, 52.0),
    )
    model = replace(model, reward_cuts=cuts)
    scale = model.reward_scale
    edges = np.concatenate([cuts[1:], scale.values, [float(f"{value:g}") for value in scale.values]])
    near = np.concatenate([edges + step for step in (0, 1e-12, -1e-12, 4e-10, -4e-10, 1e-8, -1e-8, 1e-3, -1e-3)])
    rewards = np.concatenate(
        [near, rng.normal(0, 30, 500), rng.normal(0, 30, 500).round(2), [1e300, -1e300, 1e7 + 0.3]]
    )
    data = policy_to_dict(plan(model).policy, model)
    (tmp_path / "levels.json").write_text(to_json({"policy": data, "rewards": rewards}))
    result = json.loads(run(node, tmp_path, LEVELS))
    assert result["levels"] == scale.levels(rewards).tolist()
    assert result["empty"] == scale.empty.tolist() == [True, *[False] * 5]
    assert all("expected a finite number" in message for message in result["refused"])
    assert result["total"] == 52.71
    action = plan(model).policy.act(plan(model).policy.start(0), np.random.default_rng(0))
    expected = belief.update(model.weights, model.reward_probs[:, 0, action, 5])
    np.testing.assert_allclose(result["belief"], expected, rtol=1e-12)


def test_the_player_is_strict_without_bins_but_takes_printed_values(node, tmp_path):
    values = (-14.24, 0.0, 10.10277, 36.29199562711191)
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=1, reward_values=values)
    rewards = [-14.24, 0, 10.1028, 36.292, 36.2919956, 10.10277 * (1 + 5e-7)]
    data = policy_to_dict(plan(model).policy, model)
    assert "reward_cuts" not in data
    (tmp_path / "levels.json").write_text(to_json({"policy": data, "rewards": rewards}))
    script = LEVELS.replace("observe(52.71, 1)", "observe(36.292, 1)").replace("[NaN,", "[36.3, 0.001, NaN,")
    result = json.loads(run(node, tmp_path, script))
    assert result["levels"] == model.reward_scale.levels(np.array(rewards)).tolist() == [0, 1, 2, 3, 3, 2]
    assert result["total"] == values[3]
    assert all("reward: got" in message for message in result["refused"])
