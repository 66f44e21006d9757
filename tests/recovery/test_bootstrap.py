import numpy as np

from rewardmix import problems, simulate, uniform
from rewardmix.recovery import bootstrap, recover
from rewardmix.recovery.bootstrap import mixture_of_model


def test_resamples_scatter_as_the_standard_errors_say_and_keep_their_labels():
    model = problems.make("random", states=4, actions=2, horizon=6, seed=5, weights=(0.4, 0.6))
    episodes = simulate(uniform(model), model, 4000, seed=1)
    found = recover(episodes)
    models = bootstrap(episodes, found, resamples=60, seed=3)
    rewards = np.stack([again.rewards for again in models])
    ratio = rewards.std(axis=0) / found.info.errors
    assert 0.6 < np.median(ratio) < 1.6
    weights = np.stack([again.weights for again in models])
    assert 0.5 < weights.std(axis=0)[0] / found.info.weight_errors[0] < 2.0
    assert (np.abs(rewards.mean(axis=0) - found.model.rewards) < 5 * found.info.errors).all()
    assert not np.array_equal(models[0].transition, models[1].transition)
    again = bootstrap(episodes, found, resamples=2, seed=3)
    np.testing.assert_array_equal(again[1].rewards, models[1].rewards)


def test_known_weights_and_an_added_end_survive():
    rng = np.random.default_rng(0)
    from rewardmix.episodes import Episodes

    shape = (300, 4)
    episodes = Episodes.from_arrays(
        rng.integers(0, 2, (300, 5)), np.zeros(shape, int), 1 + (rng.random(shape) < 0.4), num_states=2, num_actions=1,
        lengths=rng.integers(2, 5, 300), reward_values=(1.0, 2.0),
    )  # fmt: skip
    found = recover(episodes, weights=(0.3, 0.7))
    mixture = mixture_of_model(found.model, episodes)
    assert mixture.laws.shape == (2, 2, 2)
    np.testing.assert_allclose(mixture.laws.sum(axis=2), 1.0)
    (model,) = bootstrap(episodes, found, resamples=1)
    np.testing.assert_array_equal(model.weights, [0.3, 0.7])
    assert model.num_states == 3
