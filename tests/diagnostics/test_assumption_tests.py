"""The check-up: exact where it can be counted out, calibrated where it cannot, and awake."""

import math

import numpy as np
import pytest
from benchmarks.checkup.worlds import simulate_broken

from oracles.brute_force import enumerate_trajectories
from rewardmix import InputError, diagnose, plan, problems, recover, simulate, uniform_policy
from rewardmix.diagnostics import ASSUMPTIONS, assumption_tests, run_assumption_tests, score_kernels
from rewardmix.diagnostics.independence_tests import manova_statistic, trend_statistic
from rewardmix.diagnostics.score_projection import LikelihoodJacobian
from rewardmix.episodes import Episodes


def world(seed=0, **sizes):
    return problems.make_model(
        "random", **{"states": 4, "actions": 2, "horizon": 5, "num_types": 2, "seed": seed, **sizes}
    )


def parts_of(model):
    probs = model.reward_probs.reshape(model.num_types, -1, model.num_values)
    return model.weights, np.ascontiguousarray(np.moveaxis(probs, 0, 2))


def every_episode(policy, model):
    """(probabilities, Episodes) of all that can happen, whatever the context."""
    result: dict[tuple, float] = {}
    for prob, _, steps in enumerate_trajectories(policy, model):
        result[tuple(steps)] = result.get(tuple(steps), 0.0) + prob
    steps = np.array(list(result))
    states = np.concatenate([steps[:, :, 0], steps[:, -1:, 3]], axis=1)
    lengths = np.full(len(steps), model.horizon)
    episodes = Episodes(
        states, steps[:, :, 1], steps[:, :, 2], lengths, model.num_states, model.num_actions, model.reward_values
    )
    return np.array(list(result.values())), episodes


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.4, 1.0)])
@pytest.mark.parametrize("follows", [False, True])
def test_every_score_has_mean_zero_at_the_true_model_whatever_the_actions_follow(follows, values):
    model = world(1, states=2, horizon=4 if values == (0.0, 1.0) else 3, reward_values=values)
    policy = plan(model, gap=1e-3).policy if follows else uniform_policy(model)
    probs, episodes = every_episode(policy, model)
    assert probs.sum() == pytest.approx(1.0)
    data = assumption_tests.CheckedEpisodes.of(episodes)
    rival = parts_of(world(5, states=2, num_types=3, reward_values=values))
    scored = assumption_tests.compute_scores(data, parts_of(model), rival)
    assert np.abs(scored.scores).max() > 0.1  # there is something to cancel
    np.testing.assert_allclose(probs @ scored.scores, 0.0, atol=1e-14)
    np.testing.assert_allclose(probs @ scored.residuals, 0.0, atol=1e-14)
    np.testing.assert_allclose(probs @ scored.residuals**2, probs @ scored.variances, atol=1e-14)


def test_scores_of_one_episode_by_hand():
    weights, table = np.array([0.5, 0.5]), np.array([[[0.8, 0.4], [0.2, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
    data = np.array([[0, 0]]), np.array([[1, 1]], np.int8), np.array([2], np.int32)
    episodes = Episodes([[0, 0, 0]], [[0, 0]], data[1], data[2], 1, 2, [0.0, 1.0])
    scored = assumption_tests.compute_scores(
        assumption_tests.CheckedEpisodes.of(episodes), (weights, table), (weights, table)
    )
    belief = np.array([0.25, 0.75])  # after outcome 1: .5 * (.2, .6) / .4
    again = belief @ table[0, 1]  # .05 + .45 = .5
    switched = (weights - belief) @ table[0, 1] / again  # (.25, -.25) . (.2, .6) / .5 = -.2
    assert scored.scores[0, score_kernels.SWITCHING_COLUMN] == pytest.approx(switched) == pytest.approx(-0.2)
    assert scored.scores[0, score_kernels.COPYING_COLUMN] == pytest.approx(1 - again)
    assert scored.scores[0, score_kernels.REPETITION_COLUMN] == pytest.approx(1 - again)
    assert scored.scores[0, score_kernels.EXTRA_TYPE_COLUMN] == pytest.approx(0.0)
    np.testing.assert_allclose(scored.residuals[0], [1 - 0.4, 1 - 0.5])
    np.testing.assert_allclose(scored.variances[0], [0.24, 0.25])
    np.testing.assert_allclose(scored.posteriors[0], belief * table[0, 1] / again)


def likelihoods(data, params):
    weights, table = params
    joint = np.tile(weights, (data.lengths.size, 1))
    for t in range(data.state_actions.shape[1]):
        joint = joint * table[data.state_actions[:, t], data.reward_indices[:, t]]
    return np.log(joint.sum(axis=1))


def test_gradient_is_that_of_the_log_likelihood_and_its_transpose_is_one():
    model = world(2, reward_values=(0.0, 0.5, 1.0))
    data = assumption_tests.CheckedEpisodes.of(simulate(uniform_policy(model), model, 40, seed=1))
    weights, table = parts_of(model)
    scored = assumption_tests.compute_scores(data, (weights, table), (weights, table))
    gradient = LikelihoodJacobian(data.arrays, (weights, table), scored.posteriors)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=table.shape), rng.normal(size=weights.shape)
    step = 1e-6
    logits = (
        np.log(table) + step * direction[0] * gradient.scale[0],
        np.log(weights) + step * direction[1] * gradient.scale[1],
    )
    moved = (
        np.exp(logits[1]) / np.exp(logits[1]).sum(),
        np.exp(logits[0]) / np.exp(logits[0]).sum(axis=1, keepdims=True),
    )
    slope = (likelihoods(data, moved) - likelihoods(data, (weights, table))) / step
    np.testing.assert_allclose(gradient.matvec(direction), slope, atol=1e-4)
    amounts = rng.normal(size=40)
    back = gradient.rmatvec(amounts)
    assert amounts @ gradient.matvec(direction) == pytest.approx(
        sum((b * d).sum() for b, d in zip(back, direction, strict=True))
    )


def test_projection_is_least_squares():
    model = world(3)
    data = assumption_tests.CheckedEpisodes.of(simulate(uniform_policy(model), model, 300, seed=1))
    params = parts_of(model)
    scored = assumption_tests.compute_scores(data, params, params)
    gradient = LikelihoodJacobian(data.arrays, params, scored.posteriors)
    columns = []
    for i in range(params[1].size + 2):
        flat = np.zeros(params[1].size + 2)
        flat[i] = 1.0
        columns.append(gradient.matvec((flat[:-2].reshape(params[1].shape), flat[-2:])))
    matrix = np.stack(columns, axis=1)
    score = np.ascontiguousarray(scored.scores[:, score_kernels.COPYING_COLUMN])
    expected = score - matrix @ np.linalg.lstsq(matrix, score, rcond=None)[0]
    np.testing.assert_allclose(gradient.residual(score), expected, atol=1e-5)


def test_association_is_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, size=200)
    covariate = rng.normal(size=(200, 1))
    statistic, freedom = manova_statistic(np.zeros(200, np.int64), groups, covariate)
    total = ((covariate - covariate.mean()) ** 2).sum()
    between = sum((groups == g).sum() * (covariate[groups == g].mean() - covariate.mean()) ** 2 for g in range(3))
    assert freedom == 2
    assert statistic == pytest.approx(199 * between / total, rel=1e-6)
    strata = np.repeat([0, 1], 100)
    assert manova_statistic(strata, groups, covariate)[1] == 4
    rare = np.where(np.arange(200) < 3, 7, groups)  # seen three times: left out
    assert manova_statistic(np.zeros(200, np.int64), rare, covariate)[1] == 2


def test_association_of_two_covariates_does_not_depend_on_their_basis():
    rng = np.random.default_rng(1)
    groups, covariate = rng.integers(0, 4, size=300), rng.normal(size=(300, 2))
    turned = covariate @ np.array([[1.0, 2.0], [0.5, -1.0]])
    item, two = (
        manova_statistic(np.zeros(300, np.int64), groups, covariate),
        manova_statistic(np.zeros(300, np.int64), groups, turned),
    )
    assert item[1] == two[1] == 6
    assert item[0] == pytest.approx(two[0], rel=1e-6)


def test_trend_by_hand():
    times = np.array([-1.0, 0.0, 1.0] * 20)
    residuals = np.where(times > 0, 1.0, np.where(times < 0, -1.0, 0.0))
    strata, ones = np.zeros(60, np.int64), np.ones(60)
    assert trend_statistic(strata, residuals, ones, times, ones[:, None]) == (pytest.approx(40.0**2 / 40.0), 1)
    types = np.tile([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], 10)  # up for one type, down for the other
    assert trend_statistic(strata, types * residuals, ones, times, ones[:, None]) == (pytest.approx(0.0), 1)
    loads = np.stack([ones, types], axis=1)
    assert trend_statistic(strata, types * residuals, ones, times, loads) == (pytest.approx(40.0), 2)


@pytest.mark.statistical
def test_p_values_are_uniform_when_everything_holds():
    runs = 80
    result = []
    for run in range(runs):
        model = world(run % 8)
        policy = plan(model, gap=0.05).policy if run % 2 else uniform_policy(model)
        episodes = simulate(policy, model, 600, seed=run)
        result.append([finding.p_value for finding in diagnose(episodes, seed=run).tests])
    for name, values in zip(ASSUMPTIONS, np.array(result).T, strict=True):
        requested = np.sort(values[~np.isnan(values)])
        assert requested.size > runs // 2, name
        above = (np.arange(requested.size) + 0.5) / requested.size - requested
        distance = (above if name in assumption_tests.FORM_ASSUMPTIONS else np.abs(above)).max()  # these are careful
        assert distance < math.sqrt(math.log(2e5) / (2 * requested.size)), name  # Massart: one in 1e5, eight times


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("broken", "options"),
    [
        ("switching", {"switch": 0.25}),
        ("reward copying", {"copy": 0.3}),
        ("transitions", {"transitions": 0.2}),
        ("drift", {"drift": 0.3}),
        ("drift", {"moved": 0.3}),
        ("repetition", {"repeat": 0.4}),
    ],
)
def test_a_broken_assumption_is_found(broken, options):
    model = world(4, states=5, actions=2, horizon=8)
    findings = diagnose(simulate_broken(model, 5000, seed=1, **options)).tests
    by_name = {finding.assumption: finding for finding in findings}
    assert by_name[broken].rejected, by_name[broken]
    assert by_name[broken].p_value < 1e-6
    assert by_name[broken].text.endswith("adjusted for all tests).")


@pytest.mark.system
def test_a_missing_type_is_found():
    model = world(6, num_types=3, states=5, horizon=8)
    episodes = simulate(uniform_policy(model), model, 6000, seed=2)
    by_name = {finding.assumption: finding for finding in diagnose(episodes, num_types=2).tests}
    assert by_name["more types needed"].rejected
    enough = {finding.assumption: finding for finding in diagnose(episodes, num_types=3).tests}
    assert not enough["more types needed"].rejected


def test_holm_by_hand():
    answers = dict.fromkeys(ASSUMPTIONS, (math.nan, "why")) | {
        "reward copying": (0.004, ""), "transitions": (0.03, ""), "drift": (0.02, "")
    }  # fmt: skip
    result = {finding.assumption: finding for finding in assumption_tests._holm_correction(answers, 0.05)}
    assert result["reward copying"].adjusted_p_value == pytest.approx(0.012)
    assert result["drift"].adjusted_p_value == pytest.approx(0.04)
    assert result["transitions"].adjusted_p_value == pytest.approx(0.04)  # never below a smaller one's
    assert result["drift"].rejected
    assert not result["switching"].rejected
    assert result["switching"].text == "Not tested whether the type is constant within an episode: why."


def test_what_cannot_be_asked_says_why():
    model = world(0, horizon=1)
    findings = diagnose(simulate(uniform_policy(model), model, 400, seed=1)).tests
    reasons = {finding.assumption: finding.skip_reason for finding in findings}
    assert reasons["reward copying"] == reasons["switching"]
    assert reasons["reward copying"].startswith("0 episodes have two rewards other than the most frequent one")
    few = diagnose(simulate(uniform_policy(world()), world(), 20, seed=1)).tests
    assert "parameters need" in {finding.assumption: finding.skip_reason for finding in few}["reward copying"]


def test_bad_input_is_refused_by_name():
    model = world()
    episodes = simulate(uniform_policy(model), model, 50, seed=1)
    with pytest.raises(InputError, match=r"^episodes: got .*, expected"):
        run_assumption_tests(model)
    with pytest.raises(InputError, match=r"^significance_level: got 2, expected"):
        diagnose(episodes, significance_level=2)
    with pytest.raises(InputError, match=r"^model: got 9 states and 2 actions, expected 4 states and 2 actions"):
        diagnose(episodes, model=world(states=9))
    with pytest.raises(InputError, match=r"^model: got reward values \[0.0, 0.5\]"):
        diagnose(episodes, model=world(reward_values=(0.0, 0.5)))


def test_the_given_model_is_used():
    model = world(1)
    episodes = simulate(uniform_policy(model), model, 800, seed=3)
    assert diagnose(episodes).tests == diagnose(episodes, model=recover(episodes, num_types=2).model).tests


def test_too_many_episodes_are_thinned(monkeypatch):
    model = world(1)
    episodes = simulate(uniform_policy(model), model, 999, seed=3)
    monkeypatch.setattr(assumption_tests, "MAX_BELIEF_ENTRIES", 5000)
    assert diagnose(episodes).num_episodes == 333
