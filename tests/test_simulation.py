import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.binomial_bands import assert_follow_model, assert_within
from helpers.strategies import models_and_policies, random_controller
from rewardmix import InputError, evaluate, problems, simulate, uniform_policy
from rewardmix._core import xoshiro
from rewardmix._core.random_streams import Role
from rewardmix._core.random_streams import kernel_stream as stream_of
from rewardmix.policy import MarkovPolicy
from rewardmix.simulation_kernels import SamplingTables, sample_entry, sample_next_state_fast, successor_lists


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"next_states": 2},
        {"num_types": 3, "weights": (0.2, 0.3, 0.5)},
        {"reward_values": (-1.0, 0.0, 3.0)},
    ],
)
def test_compiled_episodes_follow_the_model(options):
    model = problems.make_model("random", states=4, actions=3, horizon=4, seed=7, **options)
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(3), (4, 4))
    table[:, 0] = [0.0, 0.4, 0.6]
    episodes = simulate(MarkovPolicy(table), model, 100_000, seed=2)
    assert_follow_model(episodes, model, table)


def test_pairs_of_rewards_are_correlated_as_the_hidden_context_says():
    """What one episode's rewards say together: the law of (z at the first step, z at the second) of one pair."""
    model = problems.make_model("hard", epsilon=0.04, seed=1)
    episodes = simulate(uniform_policy(model), model, 300_000, seed=3)
    joint = np.zeros((3, 3, 2, 2), int)
    np.add.at(joint, (*episodes.actions.T, *episodes.reward_indices.T), 1)
    expected = np.einsum("m,maz,mby->abzy", model.weights, model.reward_probs[:, 0], model.reward_probs[:, 1])
    assert_within(joint, joint.sum(axis=(2, 3), keepdims=True), expected, "joint")


@settings(max_examples=40)
@given(models_and_policies(num_types=(2, 3), values=(2, 3)), st.integers(0, 100))
def test_simulated_returns_agree_with_the_exact_value(pair, seed):
    """Hoeffding's band at failure 1e-9 a case."""
    model, policy = pair
    returns = simulate(policy, model, 4000, seed).returns
    width = (model.reward_values[-1] - model.reward_values[0]) * model.horizon
    assert abs(returns.mean() - evaluate(policy, model).value) <= width * np.sqrt(np.log(2e9) / (2 * 4000)) + 1e-12


def test_compiled_controllers_play_like_themselves():
    """Every step of every compiled episode is replayed through start, act and observe."""
    model = problems.make_model("random", states=4, actions=3, horizon=5, seed=1, reward_values=(0.0, 0.5, 1.0))
    policy = random_controller(model, np.random.default_rng(4))
    assert min(actions.shape[1] for actions in policy.actions[1:]) > 1  # or there would be nowhere to move
    episodes = simulate(policy, model, 500, seed=0)
    rng = np.random.default_rng(0)
    for k in range(500):
        memory = policy.start(int(episodes.states[k, 0]))
        for t in range(5):
            action = policy.act(memory, rng)
            assert action == episodes.actions[k, t]
            memory = policy.observe(memory, action, episodes.rewards[k, t], int(episodes.states[k, t + 1]))
    still = random_controller(model, np.random.default_rng(3))  # one that follows rewards meets them with a bias
    assert max(actions.shape[1] for actions in still.actions[1:]) == 1
    assert_follow_model(simulate(still, model, 50_000, seed=1), model)


def test_a_seed_repeats_and_a_longer_run_begins_with_the_shorter():
    model = problems.make_model("shop")
    policy = uniform_policy(model)
    long, short = simulate(policy, model, 70_000, 5), simulate(policy, model, 60_000, 5)
    np.testing.assert_array_equal(long.states[:60_000], short.states)
    np.testing.assert_array_equal(long.reward_indices[:60_000], short.reward_indices)
    assert (simulate(policy, model, 100, 6).reward_indices != short.reward_indices[:100]).any()


def test_progress_is_told_and_nothing_is_played_for_zero_episodes():
    response = []
    simulate(uniform_policy(problems.make_model("hard")), "hard", 150_000, callback=response.append)
    assert response == [65536, 131072, 150_000]
    assert len(simulate(uniform_policy(problems.make_model("hard")), "hard", 0)) == 0


def test_misfits_are_refused():
    model, other = problems.make_model("shop"), problems.make_model("hard")
    with pytest.raises(InputError, match=r"policy: got a table of shape \(2, 2, 3\), expected \(10, 4, 4\)"):
        simulate(uniform_policy(other), model, 10)
    with pytest.raises(InputError, match="policy: got a controller of .* expected"):
        simulate(random_controller(other, np.random.default_rng(0)), model, 10)
    with pytest.raises(InputError, match="episodes: got -1"):
        simulate(uniform_policy(model), model, -1)
    with pytest.raises(InputError, match=r"model_or_env: got 3 \(int\), expected a model, .* or a Gymnasium"):
        simulate(uniform_policy(model), 3, 10)


@pytest.mark.parametrize("options", [{}, {"next_states": 4}])
def test_alias_tables_hold_the_law_they_were_made_from(options):
    """Each cell keeps its own successor with ``keep`` and gives the rest to its alias: adding up gives T back."""
    model = problems.make_model("random", states=9, actions=2, seed=5, **options)
    tables = SamplingTables.from_model(model)
    row_offsets, next_states, probabilities = successor_lists(model)
    for row in range(18):
        piece = slice(row_offsets[row], row_offsets[row + 1])
        probs = np.zeros(9)
        np.add.at(probs, tables.next_states[piece], tables.accept_probs[piece])
        np.add.at(probs, tables.next_states[tables.aliases[piece]], 1 - tables.accept_probs[piece])
        expected = np.zeros(9)
        expected[next_states[piece]] = probabilities[piece]
        np.testing.assert_allclose(probs / (piece.stop - piece.start), expected, rtol=0, atol=1e-12)


def test_the_stream_is_xoshiro256_plus_plus():
    """First outputs from state 1, 2, 3, 4, as in the reference implementation by Blackman and Vigna."""
    state, words = (1, 2, 3, 4), []
    for _ in range(5):
        word, *state = xoshiro.advance(*(np.uint64(w) for w in state))
        words.append(int(word))
    assert words == xoshiro_in_python([1, 2, 3, 4], 5)
    assert words[:2] == [41943041, 58720359]


def xoshiro_in_python(s, count):
    mask = (1 << 64) - 1

    def rotated(x, k):
        return ((x << k) | (x >> (64 - k))) & mask

    words = []
    for _ in range(count):
        words.append((rotated((s[0] + s[3]) & mask, 23) + s[0]) & mask)
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)
    return words


def test_uniform_numbers_are_the_upper_bits_of_the_words():
    """53 bits, so that all of [0, 1) is reached and 1 never; from where the last number left the stream."""
    state = stream_of(7, Role.SIMULATION)
    words = xoshiro_in_python([int(word) for word in state], 500)
    assert [xoshiro.uniform_draw(state) for _ in range(500)] == [(word >> 11) / 2**53 for word in words]


def test_cumulative_never_offers_the_impossible():
    table = xoshiro.cumulate_probs(np.array([[0.1] * 10 + [0.0], [1.0] + [0.0] * 10, [0.0] * 10 + [1.0]]))
    top = np.nextafter(1.0, 0.0)
    assert [int(xoshiro.sample_cumulative(row, top)) for row in table] == [9, 0, 10]
    assert [int(xoshiro.sample_cumulative(row, 0.0)) for row in table] == [0, 0, 10]


def test_the_next_state_is_that_of_the_next_place():
    tables = SamplingTables.from_model(
        problems.make_model("random", states=7, actions=3, horizon=4, next_states=3, seed=1)
    )
    draws = np.random.default_rng(0).random(2000)
    for x in range(tables.row_offsets.size - 1):
        places = [sample_entry(tables, x, u) for u in draws]
        assert [sample_next_state_fast(tables, x, u) for u in draws] == tables.next_states[places].tolist()
        assert len(set(places)) == 3
