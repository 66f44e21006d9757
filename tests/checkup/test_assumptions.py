"""The check-up: exact where it can be counted out, calibrated where it cannot, and awake."""

import math

import numpy as np
import pytest
from benchmarks.checkup.worlds import simulate_broken

from oracles import trajectories
from rewardmix import InputError, check, plan, problems, recover, simulate, uniform
from rewardmix.checkup import ASSUMPTIONS, assumptions, check_assumptions, score_kernels
from rewardmix.checkup.association import association, trend
from rewardmix.checkup.projection import Gradient
from rewardmix.episodes import Episodes


def world(seed=0, **sizes):
    return problems.make("random", **{"states": 4, "actions": 2, "horizon": 5, "contexts": 2, "seed": seed, **sizes})


def parts_of(model):
    laws = model.laws.reshape(model.num_contexts, -1, model.num_values)
    return model.weights, np.ascontiguousarray(np.moveaxis(laws, 0, 2))


def every_episode(policy, model):
    """(probabilities, Episodes) of all that can happen, whatever the context."""
    found: dict[tuple, float] = {}
    for chance, _, steps in trajectories(policy, model):
        found[tuple(steps)] = found.get(tuple(steps), 0.0) + chance
    steps = np.array(list(found))
    states = np.concatenate([steps[:, :, 0], steps[:, -1:, 3]], axis=1)
    lengths = np.full(len(steps), model.horizon)
    episodes = Episodes(
        states, steps[:, :, 1], steps[:, :, 2], lengths, model.num_states, model.num_actions, model.reward_values
    )
    return np.array(list(found.values())), episodes


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.4, 1.0)])
@pytest.mark.parametrize("follows", [False, True])
def test_every_score_has_mean_zero_at_the_true_model_whatever_the_actions_follow(follows, values):
    model = world(1, states=2, horizon=4 if values == (0.0, 1.0) else 3, reward_values=values)
    policy = plan(model, gap=1e-3).policy if follows else uniform(model)
    chances, episodes = every_episode(policy, model)
    assert chances.sum() == pytest.approx(1.0)
    data = assumptions.CheckedEpisodes.of(episodes)
    rival = parts_of(world(5, states=2, contexts=3, reward_values=values))
    walked = assumptions.walk_over(data, parts_of(model), rival)
    assert np.abs(walked.scores).max() > 0.1  # there is something to cancel
    np.testing.assert_allclose(chances @ walked.scores, 0.0, atol=1e-14)
    np.testing.assert_allclose(chances @ walked.residuals, 0.0, atol=1e-14)
    np.testing.assert_allclose(chances @ walked.residuals**2, chances @ walked.variances, atol=1e-14)


def test_scores_of_one_episode_by_hand():
    weights, table = np.array([0.5, 0.5]), np.array([[[0.8, 0.4], [0.2, 0.6]], [[0.5, 0.5], [0.5, 0.5]]])
    data = np.array([[0, 0]]), np.array([[1, 1]], np.int8), np.array([2], np.int32)
    episodes = Episodes([[0, 0, 0]], [[0, 0]], data[1], data[2], 1, 2, [0.0, 1.0])
    walked = assumptions.walk_over(assumptions.CheckedEpisodes.of(episodes), (weights, table), (weights, table))
    belief = np.array([0.25, 0.75])  # after outcome 1: .5 * (.2, .6) / .4
    again = belief @ table[0, 1]  # .05 + .45 = .5
    switched = (weights - belief) @ table[0, 1] / again  # (.25, -.25) . (.2, .6) / .5 = -.2
    assert walked.scores[0, score_kernels.SWITCHED] == pytest.approx(switched) == pytest.approx(-0.2)
    assert walked.scores[0, score_kernels.COPIED] == pytest.approx(1 - again)
    assert walked.scores[0, score_kernels.REPEATED] == pytest.approx(1 - again)
    assert walked.scores[0, score_kernels.JOINED] == pytest.approx(0.0)
    np.testing.assert_allclose(walked.residuals[0], [1 - 0.4, 1 - 0.5])
    np.testing.assert_allclose(walked.variances[0], [0.24, 0.25])
    np.testing.assert_allclose(walked.posteriors[0], belief * table[0, 1] / again)


def likelihoods(data, parts):
    weights, table = parts
    joint = np.tile(weights, (data.lengths.size, 1))
    for t in range(data.points.shape[1]):
        joint = joint * table[data.points[:, t], data.outcomes[:, t]]
    return np.log(joint.sum(axis=1))


def test_gradient_is_that_of_the_log_likelihood_and_its_transpose_is_one():
    model = world(2, reward_values=(0.0, 0.5, 1.0))
    data = assumptions.CheckedEpisodes.of(simulate(uniform(model), model, 40, seed=1))
    weights, table = parts_of(model)
    walked = assumptions.walk_over(data, (weights, table), (weights, table))
    gradient = Gradient(data.arrays, (weights, table), walked.posteriors)
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
    np.testing.assert_allclose(gradient.times(direction), slope, atol=1e-4)
    amounts = rng.normal(size=40)
    back = gradient.transposed(amounts)
    assert amounts @ gradient.times(direction) == pytest.approx(
        sum((b * d).sum() for b, d in zip(back, direction, strict=True))
    )


def test_projection_is_least_squares():
    model = world(3)
    data = assumptions.CheckedEpisodes.of(simulate(uniform(model), model, 300, seed=1))
    parts = parts_of(model)
    walked = assumptions.walk_over(data, parts, parts)
    gradient = Gradient(data.arrays, parts, walked.posteriors)
    columns = []
    for i in range(parts[1].size + 2):
        flat = np.zeros(parts[1].size + 2)
        flat[i] = 1.0
        columns.append(gradient.times((flat[:-2].reshape(parts[1].shape), flat[-2:])))
    matrix = np.stack(columns, axis=1)
    score = np.ascontiguousarray(walked.scores[:, score_kernels.COPIED])
    expected = score - matrix @ np.linalg.lstsq(matrix, score, rcond=None)[0]
    np.testing.assert_allclose(gradient.residual(score), expected, atol=1e-5)


def test_association_is_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, size=200)
    covariate = rng.normal(size=(200, 1))
    statistic, freedom = association(np.zeros(200, np.int64), groups, covariate)
    total = ((covariate - covariate.mean()) ** 2).sum()
    between = sum((groups == g).sum() * (covariate[groups == g].mean() - covariate.mean()) ** 2 for g in range(3))
    assert freedom == 2
    assert statistic == pytest.approx(199 * between / total, rel=1e-6)
    strata = np.repeat([0, 1], 100)
    assert association(strata, groups, covariate)[1] == 4
    rare = np.where(np.arange(200) < 3, 7, groups)  # seen three times: left out
    assert association(np.zeros(200, np.int64), rare, covariate)[1] == 2


def test_association_of_two_covariates_does_not_depend_on_their_basis():
    rng = np.random.default_rng(1)
    groups, covariate = rng.integers(0, 4, size=300), rng.normal(size=(300, 2))
    turned = covariate @ np.array([[1.0, 2.0], [0.5, -1.0]])
    one, two = (
        association(np.zeros(300, np.int64), groups, covariate),
        association(np.zeros(300, np.int64), groups, turned),
    )
    assert one[1] == two[1] == 6
    assert one[0] == pytest.approx(two[0], rel=1e-6)


def test_trend_by_hand():
    times = np.array([-1.0, 0.0, 1.0] * 20)
    residuals = np.where(times > 0, 1.0, np.where(times < 0, -1.0, 0.0))
    strata, ones = np.zeros(60, np.int64), np.ones(60)
    assert trend(strata, residuals, ones, times, ones[:, None]) == (pytest.approx(40.0**2 / 40.0), 1)
    types = np.tile([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], 10)  # up for one type, down for the other
    assert trend(strata, types * residuals, ones, times, ones[:, None]) == (pytest.approx(0.0), 1)
    loads = np.stack([ones, types], axis=1)
    assert trend(strata, types * residuals, ones, times, loads) == (pytest.approx(40.0), 2)


def test_p_values_are_uniform_when_everything_holds():
    runs = 80
    found = []
    for run in range(runs):
        model = world(run % 8)
        policy = plan(model, gap=0.05).policy if run % 2 else uniform(model)
        episodes = simulate(policy, model, 600, seed=run)
        found.append([finding.p_value for finding in check(episodes, seed=run).findings])
    for name, values in zip(ASSUMPTIONS, np.array(found).T, strict=True):
        asked = np.sort(values[~np.isnan(values)])
        assert asked.size > runs // 2, name
        above = (np.arange(asked.size) + 0.5) / asked.size - asked
        distance = (above if name in assumptions.OF_FORM else np.abs(above)).max()  # these are careful
        assert distance < math.sqrt(math.log(2e5) / (2 * asked.size)), name  # Massart: one in 1e5, eight times


@pytest.mark.parametrize(
    ("broken", "options"),
    [
        ("switching", {"switch": 0.25}),
        ("copying", {"copy": 0.3}),
        ("moves", {"moves": 0.2}),
        ("drift", {"drift": 0.3}),
        ("drift", {"moved": 0.3}),
        ("repetition", {"repeat": 0.4}),
    ],
)
def test_a_broken_assumption_is_found(broken, options):
    model = world(4, states=5, actions=2, horizon=8)
    findings = check(simulate_broken(model, 5000, seed=1, **options)).findings
    by_name = {finding.assumption: finding for finding in findings}
    assert by_name[broken].broken, by_name[broken]
    assert by_name[broken].p_value < 1e-6
    assert by_name[broken].sentence.endswith("for all questions together).")


def test_a_missing_type_is_found():
    model = world(6, contexts=3, states=5, horizon=8)
    episodes = simulate(uniform(model), model, 6000, seed=2)
    by_name = {finding.assumption: finding for finding in check(episodes, num_contexts=2).findings}
    assert by_name["one type short"].broken
    enough = {finding.assumption: finding for finding in check(episodes, num_contexts=3).findings}
    assert not enough["one type short"].broken


def test_holm_by_hand():
    answers = dict.fromkeys(ASSUMPTIONS, (math.nan, "why")) | {
        "copying": (0.004, ""), "moves": (0.03, ""), "drift": (0.02, "")
    }  # fmt: skip
    found = {finding.assumption: finding for finding in assumptions._holm(answers, 0.05)}
    assert found["copying"].adjusted == pytest.approx(0.012)
    assert found["drift"].adjusted == pytest.approx(0.04)
    assert found["moves"].adjusted == pytest.approx(0.04)  # never below a smaller one's
    assert found["drift"].broken
    assert not found["switching"].broken
    assert found["switching"].sentence == "Not asked whether the type stays the same during an episode: why."


def test_what_cannot_be_asked_says_why():
    model = world(0, horizon=1)
    findings = check(simulate(uniform(model), model, 400, seed=1)).findings
    reasons = {finding.assumption: finding.reason for finding in findings}
    assert reasons["copying"] == reasons["switching"]
    assert reasons["copying"].startswith("0 episodes have two rewards other than the most frequent one")
    few = check(simulate(uniform(world()), world(), 20, seed=1)).findings
    assert "episodes to correct for" in {finding.assumption: finding.reason for finding in few}["copying"]


def test_bad_input_is_refused_by_name():
    model = world()
    episodes = simulate(uniform(model), model, 50, seed=1)
    with pytest.raises(InputError, match=r"^episodes: found .*, expected"):
        check_assumptions(model)
    with pytest.raises(InputError, match=r"^level: found 2, expected"):
        check(episodes, level=2)
    with pytest.raises(InputError, match=r"^model: found 9 states and 2 actions, expected 4 states and 2 actions"):
        check(episodes, model=world(states=9))
    with pytest.raises(InputError, match=r"^model: found reward values \[0.0, 0.5\]"):
        check(episodes, model=world(reward_values=(0.0, 0.5)))


def test_the_given_model_is_used():
    model = world(1)
    episodes = simulate(uniform(model), model, 800, seed=3)
    assert check(episodes).findings == check(episodes, model=recover(episodes, num_contexts=2).model).findings


def test_too_many_episodes_are_thinned(monkeypatch):
    model = world(1)
    episodes = simulate(uniform(model), model, 999, seed=3)
    monkeypatch.setattr(assumptions, "MOST_NUMBERS", 5000)
    assert check(episodes).episodes == 333
