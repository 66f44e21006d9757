from dataclasses import replace

import numpy as np
import pytest

from helpers.confidence_sets import moments_from_pair_tables
from oracles.mixtures import random_mixture
from rewardmix import InputError, RewardMixingMDP, problems, simulate, uniform_policy
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery import confidence_set, exact_confidence_set, normal_rule


def model_with(values, seed=0, num_types=2):
    rng = np.random.default_rng(seed)
    mixture = random_mixture(rng, num_types, 6, values)
    probs = mixture.probs.reshape(num_types, 3, 2, values)
    return RewardMixingMDP(
        rng.dirichlet(np.ones(3), (3, 2)), rng.dirichlet(np.ones(3)), mixture.weights, probs, 4, np.arange(values)
    )


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("num_types", [2, 3])
def test_an_exact_set_holds_its_model_and_no_other(values, num_types):
    model = model_with(values, num_types=num_types)
    box = exact_confidence_set(model)
    assert box.contains(model)
    assert box.violations(model) == ()
    moved = replace(model, rewards=model.rewards[::-1] if num_types == 2 else model.rewards[[1, 0, 2]])
    assert not box.contains(moved)
    result = {violation.family for violation in box.violations(moved)}
    assert result == (
        {"marginals"} if num_types == 2 else {"marginals", "covariance"}
    )  # w (1-w) gap^2 has no direction
    other = replace(model, initial=np.roll(model.initial, 1))
    assert [violation.family for violation in box.violations(other)] == ["initial"]
    stay = replace(model, transition=np.eye(3)[:, None].repeat(2, axis=1))
    assert {violation.family for violation in box.violations(stay)} == {"transition"}


@pytest.mark.parametrize("values", [2, 3])
def test_centres_are_means_of_centred_products(values):
    model = model_with(values)
    episodes = simulate(uniform_policy(model), model, 300, seed=1)
    moments = Moments.from_episodes(episodes)
    box = confidence_set(moments)
    width = box.width
    diagonal = np.flatnonzero(box.pair_first // width == box.pair_second // width)  # each x with itself, in both orders
    for k in sorted({*range(0, box.pair_first.size, 7), *diagonal.tolist()}):
        (x, i), (y, j) = divmod(int(box.pair_first[k]), width), divmod(int(box.pair_second[k]), width)
        z, z_j = (1, 1) if width == 1 else (i, j)
        products = []
        for path, reward_index in zip(
            episodes.states[:, :-1] * 2 + episodes.actions, episodes.reward_indices, strict=True
        ):
            visits_x = np.flatnonzero(path == x)
            visits_y = visits_x[1:] if x == y else np.flatnonzero(path == y)
            if visits_x.size and visits_y.size:
                u = (reward_index[visits_x[0]] == z) - moments.reward_frequencies[x, z]
                v = (reward_index[visits_y[0]] == z_j) - moments.reward_frequencies[y, z_j]
                flipped = (reward_index[visits_x[0]] == z_j) - moments.reward_frequencies[x, z_j]
                back = (reward_index[visits_y[0]] == z) - moments.reward_frequencies[y, z]
                products.append((u * v + flipped * back) / 2 if x == y else u * v)
        assert box.pair_samples[k] == len(products)
        assert box.center[k] == pytest.approx(np.mean(products), abs=1e-12)


def test_the_true_model_is_inside_and_a_wrong_one_is_not():
    model = problems.make_model("random", states=3, actions=2, horizon=5, seed=0)
    inside = [
        confidence_set(
            Moments.from_episodes(simulate(uniform_policy(model), model, 400, seed=seed)), failure_prob=0.1
        ).contains(model)
        for seed in range(60)
    ]
    assert all(inside)  # at most 6 misses are to be expected; Hoeffding is far on the safe side
    episodes = simulate(uniform_policy(model), model, 60_000, seed=1)
    wrong = replace(model, rewards=np.repeat(model.marginal_rewards[None], 2, axis=0))
    box = confidence_set(Moments.from_episodes(episodes))
    assert box.contains(model)
    assert {violation.family for violation in box.violations(wrong)} == {"covariance"}


def test_normal_intervals_are_narrower_and_miss_about_as_often_as_they_say():
    model = problems.make_model("random", states=3, actions=2, horizon=5, seed=0)
    misses = total = 0
    for seed in range(20):
        moments = Moments.from_episodes(simulate(uniform_policy(model), model, 3000, seed=seed))
        box, wide = confidence_set(moments, radius_rule=normal_rule(2.0), epsilon=1e-6), confidence_set(moments)
        assert (box.radius < wide.radius).all()
        truth = model.covariance()[box.pair_first, box.pair_second]
        misses += int((np.abs(truth - box.center) > box.radius).sum())
        total += truth.size
    assert 0.005 < misses / total < 0.08  # 4.6 % for two deviations, less the room for the averages


def centred_products(frequencies, first, second, z, other):
    """(Z, Z): the centred product of two indicators for every pair of rewards; both orders where x meets itself."""
    eye = np.eye(frequencies.shape[1])
    left, right = (eye[k][:, None] - frequencies[i, k] for i, k in ((first, z), (second, other)))
    if first != second:
        return left * right.T
    turned = (eye[other][:, None] - frequencies[first, other]) * (eye[z] - frequencies[first, z])[None]
    return (left * right.T + turned) / 2


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("values", [2, 3])
def test_the_standard_error_is_that_of_the_centred_product_in_the_table(values, own):
    rng = np.random.default_rng(values)
    samples = 1_000_000
    first, second = (rng.dirichlet(np.full(values, 0.4), (6, 2)) for _ in range(2))
    tables = [
        rng.multinomial(samples, sum(w * np.outer(p[0], p[0 if own else 1]) for w, p in ((0.1, a), (0.9, b))).ravel())
        for a, b in zip(first, second, strict=True)
    ]
    moments = moments_from_pair_tables([table.reshape(values, values) for table in tables], own=own)
    box = confidence_set(moments)
    for k in range(box.pair_first.size):
        (x, i), (y, j) = divmod(int(box.pair_first[k]), box.width), divmod(int(box.pair_second[k]), box.width)
        z, z_j = (1, 1) if box.width == 1 else (i, j)
        product = centred_products(moments.reward_frequencies, x, y, z, z_j)
        table = moments.pair_tables[x if own else x // 2] / samples
        table = (table + table.T) / 2 if own else table
        variance = (table * product**2).sum() - (table * product).sum() ** 2
        assert box.standard_error[k] == pytest.approx(
            np.sqrt(variance / samples), rel=1e-2
        )  # its margins are the averages
        independent = np.outer(moments.reward_frequencies[x], moments.reward_frequencies[y])
        null = (independent * product**2).sum() - (independent * product).sum() ** 2
        assert box.null_standard_error[k] == pytest.approx(np.sqrt(null / samples), rel=1e-3)
    assert np.abs(box.standard_error / box.null_standard_error - 1).max() > 0.1


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("values", [2, 3])
def test_the_radius_is_the_largest_error_over_all_averages_in_their_intervals(values, own):
    rng = np.random.default_rng(10 * values + own)
    runs = 12
    tables = rng.integers(1, 40, (runs, values, values))
    more = rng.integers(0, 400, ((1 if own else 2) * runs, values))
    moments = moments_from_pair_tables(tables, more, own=own)

    def radius(counts, deviation, events, failure_prob):
        return 0.4 / np.sqrt(counts) + 0.0 * deviation  # depends on the count alone

    box = confidence_set(moments, radius_rule=radius, epsilon=0.8)  # epsilon_0 = .2
    steps = np.linspace(-1.0, 1.0, 41)
    for k in range(box.pair_first.size):
        (x, i), (y, j) = divmod(int(box.pair_first[k]), box.width), divmod(int(box.pair_second[k]), box.width)
        z, z_j = (1, 1) if box.width == 1 else (i, j)
        table = tables[x if own else x // 2]
        table = (table + table.T) / 2 if own else table
        share, n = table / table.sum(), table.sum()
        a = moments.reward_frequencies[x, z] + 0.4 / np.sqrt(moments.num_samples[x]) * steps
        b = moments.reward_frequencies[y, z_j] + 0.4 / np.sqrt(moments.num_samples[y]) * steps
        left, right = np.eye(values)[z][:, None] - a, np.eye(values)[z_j][:, None] - b
        mean = np.einsum("rs,ra,sb->ab", share, left, right)  # the centred product at every pair of averages
        worst = np.abs(mean - box.center[k]).max()
        assert box.radius[k] == pytest.approx(worst + 0.4 / np.sqrt(n) + 0.2**2, rel=1e-9)


@pytest.mark.parametrize(("values", "coordinates"), [(2, 1), (3, 3)])
def test_the_failure_is_shared_by_all_averages_and_all_cells_of_all_pairs(values, coordinates):
    calls = []

    def radius(counts, deviation, events, failure_prob):
        calls.append((np.shape(counts), events, failure_prob))
        return 1.0 / np.sqrt(counts)

    box = confidence_set(
        moments_from_pair_tables(np.ones((3, values, values), int)), radius_rule=radius, failure_prob=0.2
    )
    (_, num_marginals, share), *pairs = calls
    assert (num_marginals, share) == (6 * coordinates, 0.05)
    assert {(events, share) for _, events, share in pairs} == {(21 * coordinates**2, 0.05)}
    assert box.marginals.size == 6 * coordinates


RARE = [(0.5, (0.95, 0.05), (0.05, 0.95)), (0.1, (0.8, 0.05), (0.8, 0.05)), (0.05, (0.92, 0.02), (0.92, 0.02))]


@pytest.mark.parametrize("samples", [30, 1000])
@pytest.mark.parametrize(("w", "item", "two"), RARE)
def test_three_deviations_of_a_pair_hold_where_rewards_are_rare_and_contexts_far_apart(w, item, two, samples):
    runs, rng = 4000, np.random.default_rng(samples)
    p, q, weights = np.array(item), np.array(two), np.array([w, 1 - w])
    joint = (np.stack([1 - p, p])[:, None] * np.stack([1 - q, q]) * weights).sum(axis=2)
    tables = rng.multinomial(samples, joint.ravel(), runs).reshape(runs, 2, 2)
    good = np.stack(
        [rng.binomial(3 * samples, average, runs) for average in (joint[1].sum(), joint[:, 1].sum())], axis=1
    )
    more = np.stack([3 * samples - good.ravel(), good.ravel()], axis=1)
    box = confidence_set(moments_from_pair_tables(tables, more), radius_rule=normal_rule(3.0), epsilon=1e-9)
    off = np.abs(box.center - w * (1 - w) * (p[0] - p[1]) * (q[0] - q[1]))
    assert (off > box.radius).sum() <= 37  # half a percent would be 20: 4 standard deviations above
    if samples == 1000:
        ratio = np.sqrt((box.standard_error**2).mean() / (off**2).mean())
        assert 0.93 < ratio < 1.07
        assert not 0.6 < np.sqrt((box.null_standard_error**2).mean() / (off**2).mean()) < 1.5  # independence is far off


def test_what_was_never_seen_has_no_interval():
    episodes = Episodes.from_arrays([[0, 0, 0]], [[0, 0]], [[1, 0]], num_states=2, num_actions=2)
    box = confidence_set(Moments.from_episodes(episodes))
    assert np.isnan(box.marginals[1:]).all()
    assert np.isinf(box.marginal_radius[1:]).all()
    assert (box.pair_first.tolist(), box.pair_second.tolist()) == ([0], [0])
    np.testing.assert_array_equal(box.visited, [True, False, False, False])
    assert (box.transition_radius[1:] == 2).all()
    np.testing.assert_allclose(box.marginal_probs[3], box.marginal_probs[0])


def test_refusals_say_what_is_wrong():
    model = model_with(2)
    with pytest.raises(InputError, match=r"moments: got no episodes, expected at least one"):
        confidence_set(Moments.empty(2, 2, 3))
    with pytest.raises(InputError, match=r"failure_prob: got 1\.5"):
        confidence_set(Moments.from_episodes(simulate(uniform_policy(model), model, 5)), failure_prob=1.5)
    box = exact_confidence_set(model)
    with pytest.raises(InputError, match=r"model: got 3 states, 2 actions, horizon 7, expected \[3\] states"):
        box.contains(replace(model, horizon=7))
    with pytest.raises(InputError, match=r"model: got reward values \[0\.0, 3\.0\], expected \[0\.0, 1\.0\]"):
        box.contains(replace(model, reward_values=(0.0, 3.0)))


@pytest.mark.parametrize("deviations", [0.0, -1.0, 1e9, 1e300, float("nan"), "3"])
def test_a_radius_of_no_sensible_number_of_deviations_is_refused(deviations):
    with pytest.raises(InputError, match="num_std: got"):
        normal_rule(deviations)
