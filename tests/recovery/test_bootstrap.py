import numpy as np

from rewardmix import Episodes, Moments, problems, simulate, uniform_policy
from rewardmix.recovery import bootstrap_models, recover
from rewardmix.recovery.bootstrap import model_to_mixture, refit_model


def test_resamples_scatter_as_the_standard_errors_say_and_keep_their_labels():
    model = problems.make_model("random", states=4, actions=2, horizon=6, seed=5, weights=(0.4, 0.6))
    episodes = simulate(uniform_policy(model), model, 4000, seed=1)
    result = recover(episodes)
    models = bootstrap_models(episodes, result, num_resamples=60, seed=3)
    rewards = np.stack([again.rewards for again in models])
    ratio = rewards.std(axis=0) / result.info.reward_errors
    assert 0.6 < np.median(ratio) < 1.6
    weights = np.stack([again.weights for again in models])
    assert 0.5 < weights.std(axis=0)[0] / result.info.weight_errors[0] < 2.0
    assert (np.abs(rewards.mean(axis=0) - result.model.rewards) < 5 * result.info.reward_errors).all()
    assert not np.array_equal(models[0].transition, models[1].transition)
    again = bootstrap_models(episodes, result, num_resamples=2, seed=3)
    np.testing.assert_array_equal(again[1].rewards, models[1].rewards)


def test_known_weights_and_an_added_end_survive():
    rng = np.random.default_rng(0)
    shape = (300, 4)
    episodes = Episodes.from_arrays(
        rng.integers(0, 2, (300, 5)), np.zeros(shape, int), 1 + (rng.random(shape) < 0.4), num_states=2, num_actions=1,
        lengths=rng.integers(2, 5, 300), reward_values=(1.0, 2.0),
    )  # fmt: skip
    result = recover(episodes, weights=(0.3, 0.7))
    mixture = model_to_mixture(result.model, episodes)
    assert mixture.probs.shape == (2, 2, 2)
    np.testing.assert_allclose(mixture.probs.sum(axis=2), 1.0)
    (model,) = bootstrap_models(episodes, result, num_resamples=1)
    np.testing.assert_array_equal(model.weights, [0.3, 0.7])
    assert model.num_states == 3


def test_moves_of_a_refit_are_those_of_its_episodes_and_pairs_are_not_counted(monkeypatch):
    model = problems.make_model("random", states=4, actions=2, horizon=6, seed=5)
    episodes = simulate(uniform_policy(model), model, 400, seed=1)
    moments = Moments.from_episodes(episodes)
    monkeypatch.setattr(Moments, "from_episodes", None)
    again = refit_model(episodes, model)
    np.testing.assert_array_equal(again.transition_rows, moments.transition_estimate()[0].toarray())
    np.testing.assert_array_equal(again.initial, moments.initial_estimate())


def test_there_is_no_resample_without_the_end_that_the_model_has():
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=5)
    episodes = simulate(uniform_policy(model), model, 50, seed=1)
    ended = Episodes.from_arrays(
        episodes.states, episodes.actions, episodes.rewards, num_states=3, num_actions=2,
        lengths=np.r_[2, np.full(49, 4)], reward_values=episodes.reward_values,
    )  # fmt: skip
    result = recover(ended)
    assert [again.num_states for again in bootstrap_models(ended, result, num_resamples=20)] == [4] * 20
    assert bootstrap_models(ended[1:], result, num_resamples=2) == ()
