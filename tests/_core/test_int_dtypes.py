"""Nothing overflows: every index is as wide as the number of things it counts asks for, at each border of a type."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from rewardmix import Controller, Episodes, RewardMixingMDP, evaluate, explore, load, markov_policy, save, simulate
from rewardmix._core.int_dtypes import (
    action_dtype,
    choice_dtype,
    length_dtype,
    outcome_dtype,
    smallest_int_dtype,
    state_dtype,
)
from rewardmix.moments import Moments
from rewardmix.policy import MarkovPolicy

BORDERS = [127, 128, 129, 255, 256, 257, 32_767, 32_768, 32_769, 65_536]
FEW = [127, 128, 129, 256, 257, 300]


def test_a_width_holds_minus_one_and_the_last_index():
    for bits in (8, 16, 32):
        limit = 1 << (bits - 1)
        assert smallest_int_dtype(limit) == np.dtype(f"int{bits}")
        assert smallest_int_dtype(limit + 1) == np.dtype(f"int{2 * bits}")
    assert smallest_int_dtype(1 << 63) == np.int64
    with pytest.raises(OverflowError):
        smallest_int_dtype((1 << 63) + 1)


def test_what_is_small_has_the_types_it_always_had():
    assert (state_dtype(2), action_dtype(2)) == (np.int32, np.int16)
    assert (outcome_dtype(2), length_dtype(2), choice_dtype(16_384)) == (np.int8, np.int32, np.int16)
    assert choice_dtype(16_385) == np.int32


def last_of(states=1, actions=1, values=2, horizon=2) -> RewardMixingMDP:
    """A model that always goes to its last state, and pays its last value for the last action, its first otherwise."""
    probs = np.zeros((2, states, actions, values))
    probs[:, :, :-1, 0] = 1.0
    probs[:, :, -1, -1] = 1.0
    rows = np.arange(states * actions)
    transition = csr_array((np.ones(rows.size), (rows, np.full(rows.size, states - 1))), shape=(rows.size, states))
    start = np.zeros(states)
    start[-1] = 1.0
    return RewardMixingMDP(transition, start, [0.5, 0.5], probs, horizon, np.arange(values, dtype=float))


def last_action(model: RewardMixingMDP, nodes=1) -> Controller:
    """Always plays the last action, in the last of its nodes."""
    shape = model.num_states, nodes
    actions = np.full(shape, model.num_actions - 1)
    next_nodes = np.full((*shape, model.num_values), nodes - 1)
    first = np.full(model.num_states, nodes - 1)
    return Controller((actions,) * model.horizon, (next_nodes,) * model.horizon, first, model.reward_values)


def check_everything(model, policy, tmp_path):
    """Simulated, counted, stored and evaluated, the last is the last."""
    last = model.num_states - 1, model.num_actions - 1, model.num_values - 1
    exact = model.horizon * float(model.reward_values[-1])
    assert evaluate(policy, model).value == exact
    episodes = simulate(policy, model, 3)
    for number, array in zip(last, (episodes.states, episodes.actions, episodes.reward_indices), strict=True):
        assert np.unique(array).tolist() == [number]
    np.testing.assert_array_equal(episodes.returns, exact)
    save(tmp_path / "episodes", episodes)
    again = load(tmp_path / "episodes")
    built = Episodes.from_arrays(
        episodes.states,
        episodes.actions,
        episodes.rewards,
        num_states=model.num_states,
        num_actions=model.num_actions,
        reward_values=model.reward_values,
    )
    for other in (again, built, episodes[:1] + episodes[1:]):
        for name in ("states", "actions", "reward_indices", "lengths"):
            assert getattr(other, name).dtype == getattr(episodes, name).dtype
            np.testing.assert_array_equal(getattr(other, name), getattr(episodes, name))
    return episodes


def check_counts(model, episodes, tmp_path):
    moments = Moments.from_episodes(episodes)
    x = model.num_states * model.num_actions - 1
    assert moments.initial_counts[-1] == 3
    assert moments.transition_counts[x, model.num_states - 1] == 3 * model.horizon
    assert moments.reward_counts[x, -1] == 3
    assert moments.pair_keys.tolist() == [x * (x + 1) + x]
    assert moments.pair_tables[0, -1, -1] == 3
    save(tmp_path / "moments", moments)
    assert load(tmp_path / "moments") == moments


@pytest.mark.parametrize("number", BORDERS)
def test_states_at_the_borders(number, tmp_path):
    model = last_of(states=number)
    episodes = check_everything(model, last_action(model), tmp_path)
    check_counts(model, episodes, tmp_path)
    save(tmp_path / "model", model)
    assert load(tmp_path / "model").transition.indices[0] == number - 1


@pytest.mark.parametrize("number", BORDERS)
def test_actions_at_the_borders(number, tmp_path):
    model = last_of(actions=number)
    episodes = check_everything(model, last_action(model), tmp_path)
    check_counts(model, episodes, tmp_path)
    check_everything(model, markov_policy([number - 1], model), tmp_path)


@pytest.mark.system
@pytest.mark.parametrize("number", BORDERS)
def test_reward_values_at_the_borders(number, tmp_path):
    model = last_of(values=number)
    episodes = check_everything(model, last_action(model), tmp_path)
    if number in FEW:  # a pair has a table of number x number
        check_counts(model, episodes, tmp_path)


@pytest.mark.parametrize("number", BORDERS)
def test_nodes_at_the_borders(number, tmp_path):
    model = last_of()
    policy = last_action(model, nodes=number)
    check_everything(model, policy, tmp_path)
    save(tmp_path / "policy", policy)
    again = load(tmp_path / "policy")
    assert again.initial_nodes[0] == again.next_nodes[0][0, 0, 0] == number - 1


@pytest.mark.system
@pytest.mark.parametrize("horizon", [127, 128, 256, 32_767, 32_768, 65_535, 65_536, 65_537])
def test_horizons_at_the_borders(horizon, tmp_path):
    model = last_of(horizon=horizon)
    episodes = check_everything(model, MarkovPolicy(np.ones((horizon, 1, 1))), tmp_path)
    check_counts(model, episodes, tmp_path)


def test_exploration_and_its_checkpoints_take_many_reward_values(tmp_path):
    model = last_of(actions=2, values=129)
    result = explore(model, num_episodes=40, checkpoint_dir=tmp_path)
    assert result.episodes.reward_indices.max() == 128
    assert result.moments == Moments.from_episodes(result.episodes)
    again = explore(model, num_episodes=40, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(again.episodes.reward_indices, result.episodes.reward_indices)


def test_episodes_longer_than_two_bytes_do_not_run_into_the_next_one():
    """Every state of a first long episode is new to the second one, too."""
    horizon = 65_537
    path = np.arange(horizon + 1) % 300
    episodes = Episodes.from_arrays(
        np.stack([path, path]), np.zeros((2, horizon), int), np.ones((2, horizon)), num_states=300, num_actions=1
    )
    moments = Moments.from_episodes(episodes)
    assert moments.reward_counts[:, 1].tolist() == [2] * 300
    assert moments.pair_samples.tolist() == [2] * (300 * 301 // 2)
