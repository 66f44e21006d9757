"""Minari datasets, of this package and of others."""

import numpy as np
import pytest

from logs import oracles_logs as oracles
from rewardmix import InputError, logs

minari = pytest.importorskip("minari")
pytestmark = pytest.mark.filterwarnings("ignore")  # Minari's own


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def test_a_dataset_of_this_package_opens_with_plain_minari():
    episodes = oracles.uniform_log(30)
    logs.write_minari("rewardmix/random-v0", episodes)
    dataset = minari.load_dataset("rewardmix/random-v0")
    assert dataset.total_episodes == 30
    assert dataset.spec.observation_space.n == 4
    first = next(dataset.iterate_episodes())
    assert first.observations.tolist() == episodes.states[0].tolist()
    assert first.rewards.tolist() == episodes.rewards[0].tolist()
    assert oracles.same(logs.read(dataset).episodes(), episodes)
    assert oracles.same(logs.read("minari:rewardmix/random-v0").episodes(), episodes)


def test_a_foreign_dataset_of_a_discrete_environment_is_fitted():
    import gymnasium
    from minari.data_collector import EpisodeBuffer

    env = gymnasium.make("FrozenLake-v1", max_episode_steps=8)
    buffers = []
    for seed in range(60):
        env.action_space.seed(seed)
        seen, steps, over = [env.reset(seed=seed)[0]], [], False
        while not over:
            action = env.action_space.sample()
            state, reward, ended, cut, _ = env.step(action)
            seen.append(state)
            steps.append((action, reward, ended, cut))
            over = ended or cut
        played = dict(
            zip(("actions", "rewards", "terminations", "truncations"), map(list, zip(*steps, strict=True)), strict=True)
        )
        buffers.append(EpisodeBuffer(id=seed, observations=seen, **played))
    dataset = minari.create_dataset_from_buffers(
        "frozen/lake-v0", buffers, env=env, algorithm_name="random", data_format="arrow"
    )
    fitted = logs.fit(dataset, resamples=0)
    assert fitted.model.num_actions == 4
    assert fitted.info.moments.episodes == 60
    assert any("One context explains" in sentence for sentence in fitted.info.sentences)


def test_what_minari_does_not_have_and_what_is_not_discrete():
    with pytest.raises(InputError, match="found no Minari dataset 'no/such-v0'"):
        logs.read("minari:no/such-v0")
    with pytest.raises(InputError, match="an episode whose last state nobody kept"):
        logs.write_minari("a/b-v0", oracles.shortened(oracles.uniform_log(30)))
    from rewardmix.logs.minari import _discrete

    with pytest.raises(InputError, match="expected a Discrete space"):
        _discrete("observations", np.zeros(3))
