"""Pictures: what is drawn is what the result says, on the axes that were given."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

import rewardmix as rm

mpl.use("Agg")

SHOP = rm.problems.make_model("shop")


@pytest.fixture(scope="module")
def learned():
    return rm.learn(SHOP, num_episodes=400, num_resamples=0, type_names=["walkers", "readers"])


@pytest.fixture
def axes():
    from matplotlib import pyplot

    figure, result = pyplot.subplots()
    yield result
    figure.canvas.draw()  # labels that cannot be drawn would fail here
    pyplot.close(figure)


@pytest.mark.system
@pytest.mark.parametrize(
    "name", ["plot_types", "plot_beliefs", "plot_certainty", "plot_values", "plot_learning_curve", "plot_coverage"]
)
def test_every_picture_takes_axes_and_makes_its_own(learned, axes, name):
    from matplotlib import pyplot

    draw = getattr(rm.plot, name)
    assert draw(learned, ax=axes) is axes
    own = draw(learned)
    assert own is not axes
    pyplot.close(own.figure)


def test_types_are_those_of_the_model(learned, axes):
    rm.plot.plot_types(learned, ax=axes)
    lines = axes.get_lines()
    assert [line.get_label().split(" (")[0] for line in lines] == ["walkers", "readers"]
    assert set(lines[0].get_xdata()) <= set(learned.model.mean_rewards_by_type[0].ravel())
    places = [label.get_text() for label in axes.get_yticklabels()]
    state, action = np.unravel_index(
        np.argmax(np.abs(learned.model.mean_rewards_by_type[0] - learned.model.mean_rewards_by_type[1])), (4, 4)
    )
    assert places[0] == f"{SHOP.action_names[action]} in {SHOP.state_names[state]}"


def test_beliefs_are_posteriors(learned, axes):
    episodes = rm.simulate(rm.uniform_policy(SHOP), SHOP, 3)
    rm.plot.plot_beliefs(learned.model, episodes, episode=2, ax=axes)
    points = np.stack([line.get_ydata() for line in axes.get_lines()], axis=1)
    policy = rm.BeliefPolicy(learned.model, lambda step, state, belief: 0)
    memory = policy.start(int(episodes.states[2, 0]))
    for t in range(SHOP.horizon):
        np.testing.assert_allclose(points[t], policy.posterior(memory), rtol=0, atol=1e-12)
        reward = float(episodes.reward_indices[2, t])
        memory = policy.observe(memory, int(episodes.actions[2, t]), reward, int(episodes.states[2, t + 1]))


def test_certainty_and_values_are_those_of_the_result(learned, axes):
    rm.plot.plot_certainty(learned, ax=axes)
    assert tuple(axes.get_lines()[0].get_ydata()) == learned.identification.certainty
    axes.clear()
    rm.plot.plot_values(learned, ax=axes)
    rows = learned.to_dict()["comparison"]["rows"][::-1]
    assert [bar.get_width() for bar in axes.patches] == [row["value"] for row in rows]


@pytest.mark.system
def test_curves_follow_the_episodes(learned, axes):
    rm.plot.plot_learning_curve(learned, ax=axes)
    assert axes.get_lines()[0].get_ydata()[-1] == learned.exploration.uncertainty
    axes.clear()
    rm.plot.plot_coverage(learned, ax=axes)
    counts, pairs = axes.get_lines()[0].get_data()
    assert pairs[-1] == learned.exploration.info.coverage.num_observed
    assert (np.diff(counts) <= 0).all()
    axes.clear()
    result = rm.learn_online(SHOP, num_episodes=60)
    rm.plot.plot_learning_curve(result, ax=axes)
    assert axes.get_lines()[1].get_ydata()[0] == result.optimal_value


def test_what_cannot_be_drawn_is_refused(axes):
    with pytest.raises(rm.InputError, match="result: got None"):
        rm.plot.plot_types(3, ax=axes)
    with pytest.raises(rm.InputError, match="result: got RewardMixingMDP, expected moments"):
        rm.plot.plot_coverage(SHOP, ax=axes)
    with pytest.raises(rm.InputError, match="a result with a plan, or episodes"):
        rm.plot.plot_beliefs(SHOP, ax=axes)
    with pytest.raises(rm.InputError, match="result: got a Plan without a learning curve"):
        rm.plot.plot_learning_curve(rm.plan(SHOP), ax=axes)


def test_nothing_is_imported_before_it_is_drawn():
    code = "import sys, rewardmix as rm; rm.plot.plot_types; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
