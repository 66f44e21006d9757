"""Moments against a plain double loop over steps, and the algebra of counts."""

from __future__ import annotations

import numpy as np
import pytest

from rewardmix._core.checks import InputError
from rewardmix._core.count_tables import MAX_DENSE_KEYS, CountTable, merge_pair_orders
from rewardmix._core.pair_count_kernels import KEY_COLUMN, SAMPLES_COLUMN
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments


def drawn(seed, count=200, horizon=5, num_states=4, num_actions=3, values=(0.0, 1.0), early=False):
    rng = np.random.default_rng(seed)
    return Episodes.from_arrays(
        rng.integers(num_states, size=(count, horizon + 1)),
        rng.integers(num_actions, size=(count, horizon)),
        rng.choice(values, size=(count, horizon)),
        num_states=num_states,
        num_actions=num_actions,
        lengths=rng.integers(1, horizon + 1, size=count) if early else None,
        reward_values=values,
    )


def slow_counts(episodes):
    """The definition, step by step: (starts, moves, outcomes, pairs) as dictionaries."""
    starts, transitions, reward_indices, pairs = {}, {}, {}, {}

    def add(counts, key):
        counts[key] = counts.get(key, 0) + 1

    for k in range(len(episodes)):
        length = int(episodes.lengths[k])
        xs = [int(episodes.states[k, t]) * episodes.num_actions + int(episodes.actions[k, t]) for t in range(length)]
        zs = [int(z) for z in episodes.reward_indices[k, :length]]
        add(starts, int(episodes.states[k, 0]))
        for t in range(length):
            ended = t == length - 1 and length < episodes.horizon
            next_state = episodes.num_states if ended else int(episodes.states[k, t + 1])
            if next_state >= 0:
                add(transitions, (xs[t], next_state))
        when = {}
        for t, x in enumerate(xs):
            when.setdefault(x, []).append(t)
        for x, times in when.items():
            add(reward_indices, (x, zs[times[0]]))
            if len(times) > 1:
                add(pairs, (x, x, zs[times[0]], zs[times[1]]))
            for y in when:
                if x < y:
                    add(pairs, (x, y, zs[times[0]], zs[when[y][0]]))
    return starts, transitions, reward_indices, pairs


def as_dictionaries(moments):
    starts = {int(s): int(n) for s, n in enumerate(moments.initial_counts) if n}
    coo = moments.transition_counts.tocoo()
    transitions = {(int(x), int(s)): int(n) for x, s, n in zip(*coo.coords, coo.data, strict=True)}
    reward_indices = {(int(x), int(z)): int(moments.reward_counts[x, z]) for x, z in np.argwhere(moments.reward_counts)}
    pairs = {
        (int(moments.pairs[0][p]), int(moments.pairs[1][p]), int(i), int(j)): int(moments.pair_tables[p, i, j])
        for p, i, j in np.argwhere(moments.pair_tables)
    }
    return starts, transitions, reward_indices, pairs


TWINS = pytest.mark.parametrize(
    "settings",
    [
        {"early": False},
        {"early": True},
        {"values": (-1.0, 0.0, 2.5), "early": True},
        {"horizon": 1},
        {"horizon": 9, "num_states": 1, "num_actions": 1},
        {"num_states": 1500, "num_actions": 2, "count": 300},  # X^2 far above the dense table
    ],
)


@TWINS
def test_counts_equal_the_slow_twin(settings):
    episodes = drawn(1, **settings)
    assert as_dictionaries(Moments.from_episodes(episodes)) == slow_counts(episodes)


@TWINS
def test_the_table_counts_what_the_slow_twin_counts(settings, monkeypatch):
    monkeypatch.setattr("rewardmix._core.count_tables.MAX_DENSE_SYMBOLS", 0)
    monkeypatch.setattr("rewardmix._core.count_tables.MAX_DENSE_TRANSITIONS", 0)
    episodes = drawn(1, **settings)
    assert as_dictionaries(Moments.from_episodes(episodes)) == slow_counts(episodes)


@pytest.mark.system
def test_the_table_grows_with_the_pairs_and_not_with_their_number():
    episodes = drawn(2, count=8000, horizon=12, num_states=5000, num_actions=1)
    moments = Moments.from_episodes(episodes)
    assert moments.pair_keys.size > MAX_DENSE_KEYS // 2  # so the table had to double
    assert as_dictionaries(moments) == slow_counts(episodes)


@pytest.mark.parametrize("early", [False, True])
def test_moments_add(early):
    episodes = drawn(3, early=early, values=(0.0, 0.5, 1.0))
    parts = [
        Moments.from_episodes(episodes[:70]),
        Moments.from_episodes(episodes[70:71]),
        Moments.from_episodes(episodes[71:]),
    ]
    assert parts[0] + parts[1] + parts[2] == Moments.from_episodes(episodes)
    assert parts[2] + (parts[0] + parts[1]) == Moments.from_episodes(episodes)
    empty = Moments.empty(4, 3, 5, (0.0, 0.5, 1.0))
    assert empty + parts[0] == parts[0]
    assert Moments.from_episodes(episodes[:0]) == empty


def test_moments_of_different_worlds_do_not_add():
    with pytest.raises(InputError, match=r"other: got .states, actions, horizon, reward values. = .4, 3, 5"):
        Moments.empty(4, 3, 4) + Moments.empty(4, 3, 5)


def test_estimates_say_what_was_never_seen():
    states = [[0, 1, 0], [0, 1, 1]]
    episodes = Episodes.from_arrays(states, [[0, 1], [0, 1]], [[0, 1], [1, 1]], num_states=3, num_actions=2)
    moments = Moments.from_episodes(episodes)
    assert moments.marginal_rewards[0, 0] == 0.5
    assert moments.marginal_rewards[1, 1] == 1.0
    assert np.isnan(moments.marginal_rewards).sum() == 4
    rows, visited = moments.transition_estimate()
    assert rows.shape == (6, 3)
    assert visited.tolist() == [True, False, False, True, False, False]
    expected = [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0.5, 0.5, 0], [0, 0, 1], [0, 0, 1]]
    assert rows.toarray().tolist() == expected
    assert moments.initial_estimate().tolist() == [1, 0, 0]
    assert np.isnan(Moments.empty(2, 1, 1).initial_estimate()).all()


def test_the_transition_counts_every_visit():
    """Rewards of one episode share its type, moves do not: all of them count."""
    episodes = Episodes.from_arrays([[0, 0, 0, 1]], [[0, 0, 0]], [[0, 0, 0]], num_states=2, num_actions=1)
    moments = Moments.from_episodes(episodes)
    assert (moments.visits[0], moments.num_samples[0]) == (3, 1)
    np.testing.assert_allclose(moments.transition_estimate()[0].toarray()[0], [2 / 3, 1 / 3], rtol=1e-15)


def test_the_end_is_an_absorbing_state():
    episodes = Episodes.from_arrays(
        [[0, 1, 0], [0, 1, 1]], [[0, 0], [0, 0]], [[0, 1], [1, 1]], num_states=2, num_actions=1, lengths=[1, 2]
    )
    moments = Moments.from_episodes(episodes)
    rows, visited = moments.transition_estimate()
    assert rows.toarray().tolist() == [[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]]
    assert visited.all()
    assert moments.initial_estimate().tolist() == [1, 0, 0]
    assert moments.visits.tolist() == [2, 1]


def test_dense_pair_counts():
    episodes = drawn(4, num_states=2, num_actions=2)
    moments = Moments.from_episodes(episodes)
    counts = moments.pair_counts()
    pairs = slow_counts(episodes)[3]
    for x in range(4):
        for y in range(x, 4):
            expected = sum(n for (i, j, _, _), n in pairs.items() if (i, j) == (x, y))
            assert counts[x, y] == counts[y, x] == expected


def test_ordered_tables_pool_to_unordered_ones():
    tables = np.array([[[1, 2], [3, 4]], [[10, 20], [30, 40]], [[5, 6], [7, 8]]])
    keys, pooled = merge_pair_orders(np.array([1, 3, 4]), tables, 3)  # (0, 1), (1, 0), (1, 1)
    assert keys.tolist() == [1, 4]
    assert pooled[0].tolist() == [[11, 32], [23, 44]]
    assert pooled[1].tolist() == tables[2].tolist()


def test_counts_are_read_only():
    moments = Moments.from_episodes(drawn(5))
    with pytest.raises(ValueError, match="read-only"):
        moments.initial_counts[0] = 1


def test_tables_that_are_added_count_all_their_samples():
    """Bonuses go by the number of samples, so it has to grow by what the tables hold."""
    table = CountTable.for_pairs(3, 2)
    table.add(np.array([1, 4]), np.array([[[1, 2], [3, 4]], [[5, 0], [0, 0]]]))
    table.add(np.array([4, 5]), np.array([[[0, 1], [1, 0]], [[0, 0], [0, 6]]]))
    used = table.slots[table.slots[:, KEY_COLUMN] >= 0]
    assert dict(zip(used[:, KEY_COLUMN].tolist(), used[:, SAMPLES_COLUMN].tolist(), strict=True)) == {1: 10, 4: 7, 5: 6}
    assert table.num_used == 3


def test_a_state_that_ends_the_episode_is_no_state_to_go_on_in_at_the_horizon():
    """State 2 ends the episode; at the last step nothing is left to end."""
    states, lengths = [[0, 2, -1, -1], [0, 0, 2, -1], [0, 0, 0, 2], [0, 0, 0, 0]], [1, 2, 3, 3]
    episodes = Episodes.from_arrays(
        states, np.zeros((4, 3), int), np.zeros((4, 3)), num_states=4, num_actions=1, lengths=lengths
    )
    rows, visited = Moments.from_episodes(episodes).transition_estimate()
    np.testing.assert_allclose(rows.toarray()[0], [6 / 9, 0, 0, 0, 3 / 9])
    assert visited.tolist() == [True, False, False, False, True]
    endless = Episodes.from_arrays(
        [[0, 0, 0, 2], [0, 0, 0, 0]], np.zeros((2, 3), int), np.zeros((2, 3)), num_states=4, num_actions=1
    )
    rows, _ = Moments.from_episodes(
        endless
    ).transition_estimate()  # no episode ends early: state 2 is one of which nothing is known
    np.testing.assert_allclose(rows.toarray()[0], [5 / 6, 0, 1 / 6, 0])
