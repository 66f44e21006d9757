"""What once crashed the process, or was silently wrong: each by its name, and refused by name now."""

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
    uniform,
)
from rewardmix._core.checks import MOST, as_indices
from rewardmix._core.sparse_rows import rows_of
from rewardmix.exploration import checkpoints
from rewardmix.learning.refinement import refine
from rewardmix.model import dense_transition
from rewardmix.moments import Moments
from rewardmix.planning import AlphaVectors
from rewardmix.policy import BeliefPolicy

MODEL = problems.make("random", states=3, actions=2, horizon=3)
PLAYED = simulate(uniform(MODEL), MODEL, 30)
PARTS = ("states", "actions", "outcomes", "lengths", "num_states", "num_actions", "reward_values")


def put(array, place, value):
    """A copy with another entry, of a type that holds it."""
    copy = np.asarray(array).astype(np.int64)
    copy[place] = value
    return copy


def made_with(**changes):
    return Episodes(**{**{name: getattr(PLAYED, name) for name in PARTS}, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"states": put(PLAYED.states, (4, 1), 10**6)},
            r"states\[4, 1\]: found 1000000, expected a whole number from 0 to 2",
        ),
        ({"states": put(PLAYED.states, (4, 1), -7)}, r"states\[4, 1\]: found -7"),
        ({"states": put(PLAYED.states, (4, 1), -1)}, r"states\[4, 1\]: found -1"),
        (
            {"states": put(PLAYED.states, (4, 1), 2**40)},
            r"states\[4, 1\]: found 1099511627776, expected a number of 32 bits",
        ),
        ({"actions": put(PLAYED.actions, (2, 0), 30_000)}, r"actions\[2, 0\]: found 30000"),
        ({"outcomes": put(PLAYED.outcomes, (2, 0), 100)}, r"outcomes\[2, 0\]: found 100"),
        ({"lengths": put(PLAYED.lengths, 7, 50)}, r"lengths\[7\]: found 50, expected at least one step and at most 3"),
        ({"lengths": put(PLAYED.lengths, 7, 0)}, r"lengths\[7\]: found 0"),
        (
            {"lengths": put(PLAYED.lengths, 7, 2)},
            r"episode 7: found something at step 2, expected -1 behind its 2 steps",
        ),
        ({"lengths": PLAYED.lengths[:2]}, r"states: found shape \(30, 4\), expected shape \(2, 4\)"),
        ({"num_states": 1}, r"states\[.*expected a whole number from 0 to 0"),
        ({"num_actions": 0}, "num_actions: found 0"),
        ({"reward_values": [1.0, 0.0]}, r"reward_values\[1\]: found 0.0"),
        ({"states": PLAYED.states.astype(float)}, "states: found dtype float64, expected whole numbers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_episodes_that_do_not_hold_together_are_not_made(changes, message):
    with pytest.raises(InputError, match=message):
        made_with(**changes)


def test_episodes_do_not_follow_the_arrays_they_were_made_from():
    states = PLAYED.states.copy()
    episodes = made_with(states=states)
    states[:] = 10**6
    np.testing.assert_array_equal(episodes.states, PLAYED.states)
    for name in PARTS[:4]:
        with pytest.raises(ValueError, match="read-only"):
            getattr(episodes, name)[0] = 0
    assert np.shares_memory(made_with(states=PLAYED.states).states, PLAYED.states)  # nobody can write to those


@pytest.mark.parametrize(
    "chosen", [(slice(None), 0), np.zeros((2, 2), int), 99, np.array([99]), None, "x", np.ones(3, bool)]
)
def test_only_whole_episodes_can_be_chosen(chosen):
    if isinstance(chosen, int):
        assert len(PLAYED[chosen]) == 0  # as slices do
        return
    with pytest.raises(InputError, match="chosen: found .* expected a slice, mask or index array of 30 episodes"):
        PLAYED[chosen]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": -1}, r"actions\[0\]\[0, 0\]: found -1"),
        ({"actions": -9}, r"actions\[0\]\[0, 0\]: found -9"),
        ({"actions": -1e6}, r"actions\[0\]\[0, 0\]: found -1000000"),
        ({"actions": np.nan}, r"actions\[0\]: found dtype float64"),
        ({"actions": "x"}, r"actions\[0\]: found dtype <U"),
        ({"successors": 5}, r"successors\[0\]\[0, 0, 0\]: found 5"),
        ({"successors": 0.5}, r"successors\[0\]: found dtype float64"),
        ({"first": -116}, r"first\[0\]: found -116"),
        ({"first": 0.5}, "first: found dtype float64"),
    ],
)
def test_controllers_that_lead_nowhere_are_not_made(changes, message):
    parts = {
        "actions": tuple(np.zeros((3, 1), int) for _ in range(3)),
        "successors": tuple(np.zeros((3, 1, 2), int) for _ in range(3)),
        "first": np.zeros(3, int),
    }
    (name, value), *_ = changes.items()
    table = parts[name][0] if name != "first" else parts[name]
    odd = np.full(table.shape, value)
    parts[name] = odd if name == "first" else (odd, *parts[name][1:])
    with pytest.raises(InputError, match=message):
        Controller(**parts, reward_values=(0.0, 1.0))


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        ("indices", 0, 1000),
        ("indices", 0, -5),
        ("indptr", 1, 10**6),
        ("indptr", 1, -1),
        ("indptr", 6, 3),
        ("data", 0, 2.0),
    ],
)
def test_sparse_models_whose_parts_do_not_fit_are_not_made(part, place, value):
    rows = csr_array(dense_transition(MODEL).reshape(-1, 3))
    getattr(rows, part)[place] = value
    with pytest.raises(InputError, match=r"transition"):
        RewardMixingMDP(rows, MODEL.initial, MODEL.weights, MODEL.rewards, 3)


def test_entries_in_blocks_are_no_rows():
    rows = csr_array(dense_transition(MODEL).reshape(-1, 3))
    with pytest.raises(
        InputError, match=r"moves.data: found shape \(\d+, 1, 1\) of float64, expected a list of numbers"
    ):
        rows_of("moves", rows.data[:, None, None], rows.indices, rows.indptr, rows.shape)
    blocks = rows.tobsr(blocksize=(1, 3))
    assert RewardMixingMDP(blocks, MODEL.initial, MODEL.weights, MODEL.rewards, 3).is_sparse
    blocks.data = blocks.data[:, 0, 0]
    with pytest.raises(InputError, match="transition"):
        RewardMixingMDP(blocks, MODEL.initial, MODEL.weights, MODEL.rewards, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episodes": 29}, "starts: found a sum of 30, expected one start for each of the 29"),
        ({"pair_keys": lambda keys: keys[::-1]}, "pair_keys: found numbers out of order"),
        ({"pair_keys": lambda keys: keys + 10**6}, "pair_keys: found numbers out of order or range"),
        ({"pair_keys": lambda keys: keys - 10**6}, r"pair_keys\[0\]: found -"),
        ({"pair_tables": lambda tables: tables * 1000}, r"pair_tables\[\d+\]: found more samples"),
        ({"outcomes": lambda outcomes: -outcomes}, "outcomes.*a count of at least 0"),
        (
            {"outcomes": lambda outcomes: outcomes // 100},
            "pair_tables: found more samples of a pair than of one of its ends",
        ),
        ({"num_states": 4}, "starts: found shape"),
        ({"moves": lambda moves: 100 * moves}, "moves: found more steps"),
        ({"moves": lambda moves: moves.toarray()}, "moves: found ndarray of shape"),
    ],
)
def test_moments_that_nobody_can_have_counted_are_not_made(changes, message):
    right = Moments.of(PLAYED)
    wrong = {name: change(getattr(right, name)) if callable(change) else change for name, change in changes.items()}
    with pytest.raises(InputError, match=message):
        dataclasses.replace(right, **wrong)
    assert dataclasses.replace(right) == right


def test_plans_and_vectors_must_fit_their_model():
    made = plan(MODEL, gap=1e-2)
    with pytest.raises(InputError, match="lower: found .* expected at most upper"):
        dataclasses.replace(made, lower=made.upper + 1)
    with pytest.raises(InputError, match="upper: found nan"):
        dataclasses.replace(made, upper=float("nan"))
    other = problems.make("random", states=2, actions=2, horizon=3)
    with pytest.raises(InputError, match="policy: found a controller of"):
        dataclasses.replace(made, model=other)
    with pytest.raises(InputError, match="decide: found vectors of"):
        BeliefPolicy(other, made.alpha_vectors)
    with pytest.raises(InputError, match="decide: found int"):
        BeliefPolicy(MODEL, 3)
    vectors = made.alpha_vectors
    with pytest.raises(InputError, match=r"values\[0\]: found shape"):
        AlphaVectors(vectors.values[::-1], vectors.actions)


def test_a_damaged_exploration_is_not_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    folder = tmp_path / "exploration"
    whole = explore(MODEL, episodes=40, checkpoint=folder)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 16]) + content[-2:])
        with pytest.raises(InputError, match=r"checkpoint: found .*checksum.* delete .*exploration to begin anew"):
            explore(MODEL, episodes=40, checkpoint=folder)
        path.unlink()
        if path.name != checkpoints.STATE:
            with pytest.raises(
                InputError, match=r"checkpoint: found .*no file at .* delete .*exploration to begin anew"
            ):
                explore(MODEL, episodes=40, checkpoint=folder)
        path.write_bytes(content)
    assert explore(MODEL, episodes=40, checkpoint=folder).moments == whole.moments


def test_a_damaged_or_foreign_batch_of_refinement_is_not_gone_on_with(tmp_path):
    found = recover(PLAYED)
    refine(MODEL, PLAYED, found, episodes=4, batches=2, checkpoint=tmp_path)
    first = tmp_path / "batch-000.safetensors"
    content = first.read_bytes()
    first.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="checkpoint: found .*checksum.* delete .* to play it again"):
        refine(MODEL, PLAYED, found, episodes=4, batches=2, checkpoint=tmp_path)
    first.write_bytes(content)
    with pytest.raises(InputError, match="checkpoint: found gathered = 'crc32"):
        refine(MODEL, PLAYED[::-1], found, episodes=4, batches=2, checkpoint=tmp_path)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64])
def test_whole_numbers_in_strided_arrays_are_checked_within_their_type(dtype):
    """NumPy before 2.3 left the memory of such arrays when they were compared with what their type cannot hold."""
    for states, steps in ((41, 50), (59, 22), (1, 7), (33, 1)):
        large = np.moveaxis(np.zeros((17, steps, states), dtype), 0, -1)[steps - 1]
        assert as_indices("a", large, MOST, (states, 17)) is large
    array = np.moveaxis(np.arange(3 * 5 * 7).reshape(3, 5, 7).astype(dtype), 0, -1)[2]
    assert as_indices("a", array, MOST, (None, None), absent=True) is array
    with pytest.raises(InputError, match=r"a\[2, 0\]: found 16, expected a whole number from 0 to 15"):
        as_indices("a", array[:, :1], 16)
    if np.issubdtype(dtype, np.signedinteger):
        worse = array - dtype(15)
        with pytest.raises(InputError, match=r"a\[0, 0\]: found -1, expected a whole number from 0 to"):
            as_indices("a", worse, MOST)
        assert as_indices("a", worse, MOST, absent=True) is worse
        with pytest.raises(InputError, match=r"a\[0, 1\]: found 34"):
            as_indices("a", worse, 34, absent=True)
