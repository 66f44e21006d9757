"""Minari datasets, of this package and of others."""

import numpy as np
import pytest

from oracles import log_statistics as oracles
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
    assert oracles.same(logs.read_log(dataset).episodes(), episodes)
    assert oracles.same(logs.read_log("minari:rewardmix/random-v0").episodes(), episodes)


def test_a_foreign_dataset_of_a_discrete_environment_is_fitted():
    import gymnasium
    from minari.data_collector import EpisodeBuffer

    env = gymnasium.make("FrozenLake-v1", max_episode_steps=8)
    buffers = []
    for seed in range(60):
        env.action_space.seed(seed)
        states, steps, over = [env.reset(seed=seed)[0]], [], False
        while not over:
            action = env.action_space.sample()
            state, reward, ended, cut, _ = env.step(action)
            states.append(state)
            steps.append((action, reward, ended, cut))
            over = ended or cut
        played = dict(
            zip(("actions", "rewards", "terminations", "truncations"), map(list, zip(*steps, strict=True)), strict=True)
        )
        buffers.append(EpisodeBuffer(id=seed, observations=states, **played))
    dataset = minari.create_dataset_from_buffers(
        "frozen/lake-v0", buffers, env=env, algorithm_name="random", data_format="arrow"
    )
    fitted = logs.fit(dataset, num_resamples=0)
    assert fitted.model.num_actions == 4
    assert fitted.info.moments.num_episodes == 60
    assert any("One type explains" in sentence for sentence in fitted.info.report_text)


def test_what_minari_does_not_have_and_what_is_not_discrete():
    with pytest.raises(InputError, match="got no Minari dataset 'no/such-v0'"):
        logs.read_log("minari:no/such-v0")
    with pytest.raises(InputError, match="an episode without its final state"):
        logs.write_minari("a/b-v0", oracles.shortened(oracles.uniform_log(30)))
    from rewardmix.logs.minari_io import _discrete_space

    with pytest.raises(InputError, match="expected a Discrete space"):
        _discrete_space("observations", np.zeros(3))


class Dataset:
    """What ``read_minari`` asks of an open dataset."""

    __module__ = "minari.test"

    def __init__(self, observations, actions, rewards, spaces=((3, 0), (2, 0))):
        from types import SimpleNamespace

        from gymnasium.spaces import Discrete

        observation_space, action_space = (Discrete(n, start=start) for n, start in spaces)
        self.spec = SimpleNamespace(observation_space=observation_space, action_space=action_space)
        self.steps = [SimpleNamespace(observations=observations, actions=actions, rewards=rewards)]

    def iterate_episodes(self):
        return iter(self.steps)


@pytest.mark.parametrize(
    ("observations", "actions", "rewards", "message"),
    [
        (
            [0, 1],
            [0, 1],
            [0.0, 1.0],
            r"got observations of type int64 and shape \(2,\) in episode 0, expected 3 whole",
        ),
        ([0, 1, 2], [0], [0.0, 1.0], r"got actions of type int64 and shape \(1,\) in episode 0"),
        ([0.0, 1.0, 2.0], [0, 1], [0.0, 1.0], "got observations of type float64"),
        ([0, 1, 7], [0, 1], [0.0, 1.0], r"states\[0, 2\]: got 7"),
        ([0, 1, 2], [0, 1], [0.0, np.nan], r"rewards\[0, 1\]: got nan"),
        ([], [], [], "a Minari dataset without steps"),
    ],
)
def test_datasets_that_contradict_themselves_are_refused(observations, actions, rewards, message):
    with pytest.raises(InputError, match=message):
        logs.read_log(Dataset(observations, actions, rewards))


def test_small_numbers_below_the_first_of_a_space_do_not_wrap_around():
    below = np.array([4, 5, 6], np.uint8)
    with pytest.raises(InputError, match=r"states\[0, 0\]: got -1"):
        logs.read_log(Dataset(below, [0, 1], [0.0, 1.0], spaces=((255, 5), (2, 0))))
    assert logs.read_log(
        Dataset(below + 1, [0, 1], [0.0, 1.0], spaces=((255, 5), (2, 0)))
    ).episodes().states.tolist() == [[0, 1, 2]]


def test_a_far_horizon_of_a_dataset_is_refused_with_an_estimate():
    dataset = Dataset([0, 1, 2], [0, 1], [0.0, 1.0])
    with pytest.raises(InputError, match="horizon: got 1099511627776, expected at most 2147483647 steps"):
        logs.read_log(dataset, horizon=2**40)
    with pytest.raises(InputError, match="got a need of about .* GiB of memory"):
        logs.read_log(dataset, horizon=2**30)
    with pytest.raises(InputError, match="horizon: got 1, expected at least 2"):
        logs.read_minari(dataset, horizon=1)
