import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from helpers.binomial_bands import assert_follow_model
from rewardmix import InputError, make_env, problems, simulate
from rewardmix.policy import uniform_policy

IDS = problems.list_env_ids()


@pytest.mark.parametrize("identifier", IDS)
def test_gymnasium_finds_nothing_to_complain_about(identifier):
    """Warnings are errors in these tests, so this passes only without any."""
    check_env(gymnasium.make(identifier).unwrapped)
    check_env(gymnasium.make(identifier, render_mode="rgb_array").unwrapped)


def test_ids_are_there_whoever_is_imported_first():
    import subprocess
    import sys

    for order in ("import gymnasium, rewardmix", "import rewardmix, gymnasium"):
        code = f"{order}; print(gymnasium.make('rewardmix/Shop-v0').action_space.n)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "4"


@pytest.mark.parametrize("name", problems.list_problems())
def test_the_episode_ends_at_the_horizon(name):
    model = problems.make_model(name)
    env = make_env(model)
    env.reset(seed=3)
    ends = [env.step(0)[2:4] for _ in range(model.horizon)]
    assert ends == [(False, False)] * (model.horizon - 1) + [(True, False)]
    with pytest.raises(InputError, match="action: got no running episode, expected reset"):
        env.step(0)


@pytest.mark.parametrize("name", problems.list_problems())
def test_observations_and_info_say_nothing_about_the_context(name):
    """With the same seed and actions, two types differ in rewards and in nothing else."""
    records = []
    for m in (0, 1):
        env = make_env(name)
        rng = np.random.default_rng(5)
        record = [env.reset(seed=11, options={"type": m})]
        for _ in range(env.horizon):
            state, reward, *rest = env.step(int(rng.integers(env.action_space.n)))
            assert reward in env.reward_values
            record.append((state, *rest))
        assert all(set(step[-1]) == {"step"} for step in record)
        records.append(record)
    assert records[0] == records[1]


@pytest.mark.statistical
def test_the_law_of_many_episodes_is_that_of_the_model():
    model = problems.make_model("random", states=3, actions=2, horizon=2, weights=(0.3, 0.7), seed=4)
    assert_follow_model(simulate(_step_by_step(model), model, 100_000, seed=1), model)


def test_a_fixed_context_has_its_own_rewards():
    model = problems.make_model("probe")
    env = make_env(model)
    for m in (0, 1):
        total = 0.0
        for episode in range(400):
            env.reset(seed=episode, options={"type": m})
            total += env.step(1)[1]
        low, high = (90, 230) if m == 0 else (0, 0)  # p = 0.4 (10 sd around 160) and p = 0
        assert low <= total <= high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": 2}, r'options\["type"\]: got 2, expected a whole number from 0 to 1'),
        ({"type": "a"}, r"options\[\"type\"\]: got 'a'"),
    ],
)
def test_an_unknown_context_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        make_env("shop").reset(options=options)


@pytest.mark.parametrize("action", [4, -1, 0.5, None])
def test_an_action_outside_the_space_is_refused(action):
    env = make_env("shop")
    env.reset(seed=0)
    with pytest.raises(InputError, match="action: got .* expected a whole number from 0 to 3"):
        env.step(action)


def test_rendering_shows_where_the_episode_stands():
    env = make_env("shop", render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "step 0/10  at home  earned 0\n"
    env.step(1)
    assert "played show reading -> " in env.render()
    picture = make_env("grid", render_mode="rgb_array")
    picture.reset(seed=0)
    before = picture.render()
    picture.step(0)
    after = picture.render()
    assert before.shape == after.shape
    assert before.dtype == np.uint8
    assert (before != after).any()


def test_unknown_render_mode_and_model_are_refused():
    with pytest.raises(InputError, match="render_mode: got 'human', expected None or one of"):
        make_env("shop", render_mode="human")
    with pytest.raises(InputError, match="model_or_name: got int"):
        make_env(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="options: got 'states', expected no options with a model"):
        make_env(problems.make_model("shop"), states=3)


def _step_by_step(model):
    """The uniform policy in a form that the compiled kernels do not know, so that the environment is played."""
    inner = uniform_policy(model)

    class Plain:
        start, act, observe = inner.start, inner.act, inner.observe

    return Plain()
