import numpy as np
import pytest

from rewardmix import Episodes, InputError

STATES = np.array([[0, 1, 2], [2, 1, 0]])
ACTIONS = np.array([[0, 1], [1, 0]])
REWARDS = np.array([[0.0, 1.0], [1.0, 1.0]])
SIZES = {"num_states": 3, "num_actions": 2}


def build(**changes):
    return Episodes.from_arrays(**{"states": STATES, "actions": ACTIONS, "rewards": REWARDS, **SIZES, **changes})


def test_plain_arrays_come_back():
    episodes = build()
    assert len(episodes) == 2
    assert episodes.horizon == 2
    np.testing.assert_array_equal(episodes.rewards, REWARDS)
    np.testing.assert_array_equal(episodes.returns, [1.0, 2.0])
    np.testing.assert_array_equal(episodes.reward_values, [0.0, 1.0])


def test_what_lies_behind_the_end_is_absent_and_not_zero():
    episodes = build(lengths=[1, 2], rewards=[[1.0, np.nan], [0.0, 1.0]], actions=[[0, 99], [1, 0]])
    assert np.isnan(episodes.rewards[0, 1])
    np.testing.assert_array_equal(episodes.states[0], [0, 1, -1])
    np.testing.assert_array_equal(episodes.actions[0], [0, -1])
    np.testing.assert_array_equal(episodes.returns, [1.0, 1.0])


def test_the_last_state_may_be_unknown():
    episodes = build(states=STATES[:, :2])
    np.testing.assert_array_equal(episodes.states, [[0, 1, -1], [2, 1, -1]])


def test_reward_values_are_found_or_given():
    np.testing.assert_array_equal(build(rewards=[[5.0, 2.0], [2.0, -1.0]]).reward_values, [-1.0, 2.0, 5.0])
    np.testing.assert_array_equal(build(rewards=np.ones((2, 2))).reward_values, [0.0, 1.0])
    assert build(reward_values=(0, 1, 2)).reward_values.size == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"states": STATES + 1}, r"states\[0, 2\]: got 3, expected a whole number from 0 to 2"),
        ({"actions": ACTIONS - 1}, r"actions\[0, 0\]: got -1, expected a whole number from 0 to 1"),
        ({"actions": ACTIONS + 0.5}, "actions: got dtype float64, expected whole numbers"),
        ({"rewards": [[0, np.nan], [0, 0]]}, r"rewards\[0, 1\]: got nan, expected a finite reward"),
        ({"rewards": [[0, 3], [0, 0]], "reward_values": (0, 1)}, r"rewards\[0, 1\]: got 3.0, expected one of"),
        ({"rewards": np.zeros((2, 3))}, r"rewards: got shape \(2, 3\), expected shape \(2, 2\)"),
        ({"states": STATES[:1]}, r"states: got shape \(1, 3\), expected shape \(2, 3\)"),
        ({"lengths": [0, 2]}, r"lengths\[0\]: got 0, expected at least one step"),
        ({"lengths": [3, 2]}, r"lengths\[0\]: got 3"),
        ({"actions": [0, 1]}, r"actions: got shape \(2,\), expected shape \(episodes, horizon\)"),
        ({"num_states": 0}, "num_states: got 0"),
    ],
)
def test_bad_arrays_are_refused_by_name(changes, message):
    with pytest.raises(InputError, match=message):
        build(**changes)


def test_episodes_add_and_slice():
    both = build() + build(lengths=[1, 1])
    assert len(both) == 4
    np.testing.assert_array_equal(both[2:].lengths, [1, 1])
    assert len(both[3]) == 1
    assert len(both[-1]) == 1
    np.testing.assert_array_equal(both[np.array([3, 0])].states[1], STATES[0])
    with pytest.raises(InputError, match="other: got .* expected .* as on the left"):
        build() + build(num_states=4)


def test_no_episode_is_fine():
    empty = build(states=np.zeros((0, 3), int), actions=np.zeros((0, 2), int), rewards=np.zeros((0, 2)))
    assert len(empty) == 0
    assert empty.returns.shape == (0,)
