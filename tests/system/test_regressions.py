"""Test that inconsistent arrays and damaged files are errors that name the argument."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

from rewardmix import (
    Controller,
    Episodes,
    InputError,
    RewardMixingMDP,
    explore,
    plan,
    problems,
    recover,
    simulate,
    uniform_policy,
)
from rewardmix._core.checks import MAX_COUNT, as_indices
from rewardmix._core.csr_checks import make_csr
from rewardmix.exploration import checkpoints
from rewardmix.learning.refinement import refine
from rewardmix.model import dense_transition
from rewardmix.moments import Moments
from rewardmix.planning import AlphaVectors
from rewardmix.policy import BeliefPolicy

MODEL = problems.make_model("random", states=3, actions=2, horizon=3)
EPISODES = simulate(uniform_policy(MODEL), MODEL, 30)
FIELDS = ("states", "actions", "reward_indices", "lengths", "num_states", "num_actions", "reward_values")


def replace_entry(array, index, value):
    """Return a copy with another entry, of a type that holds it."""
    copy = np.asarray(array).astype(np.int64)
    copy[index] = value
    return copy


def make_episodes(**changes):
    return Episodes(**{**{name: getattr(EPISODES, name) for name in FIELDS}, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"states": replace_entry(EPISODES.states, (4, 1), 10**6)},
            r"states\[4, 1\]: got 1000000, expected a whole number from 0 to 2",
        ),
        ({"states": replace_entry(EPISODES.states, (4, 1), -7)}, r"states\[4, 1\]: got -7"),
        ({"states": replace_entry(EPISODES.states, (4, 1), -1)}, r"states\[4, 1\]: got -1"),
        (
            {"states": replace_entry(EPISODES.states, (4, 1), 2**40)},
            r"states\[4, 1\]: got 1099511627776, expected a number of 32 bits",
        ),
        ({"actions": replace_entry(EPISODES.actions, (2, 0), 30_000)}, r"actions\[2, 0\]: got 30000"),
        ({"reward_indices": replace_entry(EPISODES.reward_indices, (2, 0), 100)}, r"reward_indices\[2, 0\]: got 100"),
        (
            {"lengths": replace_entry(EPISODES.lengths, 7, 50)},
            r"lengths\[7\]: got 50, expected at least one step and at most 3",
        ),
        ({"lengths": replace_entry(EPISODES.lengths, 7, 0)}, r"lengths\[7\]: got 0"),
        (
            {"lengths": replace_entry(EPISODES.lengths, 7, 2)},
            r"episode 7: got a value at step 2, expected the padding -1 after its 2 steps",
        ),
        ({"lengths": EPISODES.lengths[:2]}, r"states: got shape \(30, 4\), expected shape \(2, 4\)"),
        ({"num_states": 1}, r"states\[.*expected a whole number from 0 to 0"),
        ({"num_actions": 0}, "num_actions: got 0"),
        ({"reward_values": [1.0, 0.0]}, r"reward_values\[1\]: got 0.0"),
        ({"states": EPISODES.states.astype(float)}, "states: got dtype float64, expected whole numbers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_inconsistent_episodes_are_errors(changes, message):
    with pytest.raises(InputError, match=message):
        make_episodes(**changes)


def test_episodes_do_not_change_with_their_arrays():
    states = EPISODES.states.copy()
    episodes = make_episodes(states=states)
    states[:] = 10**6
    np.testing.assert_array_equal(episodes.states, EPISODES.states)
    for name in FIELDS[:4]:
        with pytest.raises(ValueError, match="read-only"):
            getattr(episodes, name)[0] = 0
    assert np.shares_memory(
        make_episodes(states=EPISODES.states).states, EPISODES.states
    )  # read-only arrays are not copied


@pytest.mark.parametrize(
    "index", [(slice(None), 0), np.zeros((2, 2), int), 99, np.array([99]), None, "x", np.ones(3, bool)]
)
def test_only_whole_episodes_can_be_selected(index):
    if isinstance(index, int):
        assert len(EPISODES[index]) == 0  # as slices do
        return
    with pytest.raises(InputError, match="index: got .* expected a slice, mask or index array of 30 episodes"):
        EPISODES[index]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": -1}, r"actions\[0\]\[0, 0\]: got -1"),
        ({"actions": -9}, r"actions\[0\]\[0, 0\]: got -9"),
        ({"actions": -1e6}, r"actions\[0\]\[0, 0\]: got -1000000"),
        ({"actions": np.nan}, r"actions\[0\]: got dtype float64"),
        ({"actions": "x"}, r"actions\[0\]: got dtype <U"),
        ({"next_nodes": 5}, r"next_nodes\[0\]\[0, 0, 0\]: got 5"),
        ({"next_nodes": 0.5}, r"next_nodes\[0\]: got dtype float64"),
        ({"initial_nodes": -116}, r"initial_nodes\[0\]: got -116"),
        ({"initial_nodes": 0.5}, "initial_nodes: got dtype float64"),
    ],
)
def test_inconsistent_controllers_are_errors(changes, message):
    fields = {
        "actions": tuple(np.zeros((3, 1), int) for _ in range(3)),
        "next_nodes": tuple(np.zeros((3, 1, 2), int) for _ in range(3)),
        "initial_nodes": np.zeros(3, int),
    }
    (name, value), *_ = changes.items()
    table = fields[name][0] if name != "initial_nodes" else fields[name]
    wrong = np.full(table.shape, value)
    fields[name] = wrong if name == "initial_nodes" else (wrong, *fields[name][1:])
    with pytest.raises(InputError, match=message):
        Controller(**fields, reward_values=(0.0, 1.0))


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("indices", 0, 1000),
        ("indices", 0, -5),
        ("indptr", 1, 10**6),
        ("indptr", 1, -1),
        ("indptr", 6, 3),
        ("data", 0, 2.0),
    ],
)
def test_inconsistent_sparse_transitions_are_errors(name, index, value):
    rows = csr_array(dense_transition(MODEL).reshape(-1, 3))
    getattr(rows, name)[index] = value
    with pytest.raises(InputError, match=r"transition"):
        RewardMixingMDP(rows, MODEL.initial, MODEL.weights, MODEL.rewards, 3)


def test_block_sparse_rows_are_errors():
    rows = csr_array(dense_transition(MODEL).reshape(-1, 3))
    message = r"transition_counts.data: got shape \(\d+, 1, 1\) of float64, expected a list of numbers"
    with pytest.raises(InputError, match=message):
        make_csr("transition_counts", rows.data[:, None, None], rows.indices, rows.indptr, rows.shape)
    blocks = rows.tobsr(blocksize=(1, 3))
    assert RewardMixingMDP(blocks, MODEL.initial, MODEL.weights, MODEL.rewards, 3).is_sparse
    blocks.data = blocks.data[:, 0, 0]
    with pytest.raises(InputError, match="transition"):
        RewardMixingMDP(blocks, MODEL.initial, MODEL.weights, MODEL.rewards, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_episodes": 29}, "initial_counts: got a sum of 30, expected one initial state for each of the 29"),
        ({"pair_keys": lambda keys: keys[::-1]}, "pair_keys: got numbers out of order"),
        ({"pair_keys": lambda keys: keys + 10**6}, "pair_keys: got numbers out of order or range"),
        ({"pair_keys": lambda keys: keys - 10**6}, r"pair_keys\[0\]: got -"),
        ({"pair_tables": lambda tables: tables * 1000}, r"pair_tables\[\d+\]: got more samples"),
        ({"reward_counts": lambda counts: -counts}, "reward_counts.*a count of at least 0"),
        (
            {"reward_counts": lambda counts: counts // 100},
            "pair_tables: got more samples of a pair than of one of its state-actions",
        ),
        ({"num_states": 4}, "initial_counts: got shape"),
        ({"transition_counts": lambda transitions: 100 * transitions}, "transition_counts: got more transitions"),
        ({"transition_counts": lambda transitions: transitions.toarray()}, "transition_counts: got ndarray of shape"),
    ],
)
def test_impossible_moments_are_errors(changes, message):
    right = Moments.from_episodes(EPISODES)
    wrong = {name: change(getattr(right, name)) if callable(change) else change for name, change in changes.items()}
    with pytest.raises(InputError, match=message):
        dataclasses.replace(right, **wrong)
    assert dataclasses.replace(right) == right


def test_plans_and_vectors_must_fit_their_model():
    plan_result = plan(MODEL, gap=1e-2)
    with pytest.raises(InputError, match="lower: got .* expected at most upper"):
        dataclasses.replace(plan_result, lower=plan_result.upper + 1)
    with pytest.raises(InputError, match="upper: got nan"):
        dataclasses.replace(plan_result, upper=float("nan"))
    other = problems.make_model("random", states=2, actions=2, horizon=3)
    with pytest.raises(InputError, match="policy: got a controller of"):
        dataclasses.replace(plan_result, model=other)
    with pytest.raises(InputError, match="decision_rule: got vectors of"):
        BeliefPolicy(other, plan_result.alpha_vectors)
    with pytest.raises(InputError, match="decision_rule: got int"):
        BeliefPolicy(MODEL, 3)
    vectors = plan_result.alpha_vectors
    with pytest.raises(InputError, match=r"values\[0\]: got shape"):
        AlphaVectors(vectors.values[::-1], vectors.actions)


def test_damaged_exploration_checkpoints_are_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_SECONDS_BETWEEN", 0.0)
    folder = tmp_path / "exploration"
    whole = explore(MODEL, num_episodes=40, checkpoint_dir=folder)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 16]) + content[-2:])
        damaged = r"checkpoint: cannot resume from .*exploration .*checksum.* delete the folder to start over"
        with pytest.raises(InputError, match=damaged):
            explore(MODEL, num_episodes=40, checkpoint_dir=folder)
        path.unlink()
        if path.name != checkpoints.STATE_FILE:
            missing = r"checkpoint: cannot resume from .*exploration .*no file at .* delete the folder to start over"
            with pytest.raises(InputError, match=missing):
                explore(MODEL, num_episodes=40, checkpoint_dir=folder)
        path.write_bytes(content)
    assert explore(MODEL, num_episodes=40, checkpoint_dir=folder).moments == whole.moments


def test_damaged_or_foreign_refinement_checkpoints_are_errors(tmp_path):
    result = recover(EPISODES)
    refine(MODEL, EPISODES, result, num_episodes=4, batches=2, checkpoint_dir=tmp_path)
    first = tmp_path / "batch-000.safetensors"
    content = first.read_bytes()
    first.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(
        InputError, match="checkpoint: cannot resume from .*checksum.* delete the folder to play it again"
    ):
        refine(MODEL, EPISODES, result, num_episodes=4, batches=2, checkpoint_dir=tmp_path)
    first.write_bytes(content)
    with pytest.raises(InputError, match="checkpoint: got gathered = 'crc32"):
        refine(MODEL, EPISODES[::-1], result, num_episodes=4, batches=2, checkpoint_dir=tmp_path)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64])
def test_whole_numbers_in_strided_arrays_are_checked_within_their_type(dtype):
    """NumPy before 2.3 left the memory of such arrays when they were compared with what their type cannot hold."""
    for states, steps in ((41, 50), (59, 22), (1, 7), (33, 1)):
        large = np.moveaxis(np.zeros((17, steps, states), dtype), 0, -1)[steps - 1]
        assert as_indices("a", large, MAX_COUNT, (states, 17)) is large
    array = np.moveaxis(np.arange(3 * 5 * 7).reshape(3, 5, 7).astype(dtype), 0, -1)[2]
    assert as_indices("a", array, MAX_COUNT, (None, None), absent=True) is array
    with pytest.raises(InputError, match=r"a\[2, 0\]: got 16, expected a whole number from 0 to 15"):
        as_indices("a", array[:, :1], 16)
    if np.issubdtype(dtype, np.signedinteger):
        worse = array - dtype(15)
        with pytest.raises(InputError, match=r"a\[0, 0\]: got -1, expected a whole number from 0 to"):
            as_indices("a", worse, MAX_COUNT)
        assert as_indices("a", worse, MAX_COUNT, absent=True) is worse
        with pytest.raises(InputError, match=r"a\[0, 1\]: got 34"):
            as_indices("a", worse, 34, absent=True)
