from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from recovery.oracles_recovery import every_outcome, random_mixture
from rewardmix import problems, simulate, uniform
from rewardmix.recovery import recover
from rewardmix.recovery.likelihood import Mixture, e_step
from rewardmix.recovery.recovery_result import alignment
from rewardmix.recovery.standard_errors import limits_95, standard_errors


@pytest.mark.parametrize(("contexts", "values"), [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("free", [True, False])
def test_errors_are_those_of_the_inverse_hessian(contexts, values, free):
    points = 3
    truth = random_mixture(np.random.default_rng(2), contexts, points, values)
    bags = every_outcome(truth, [(0, 1, 2, 0, 1, 2) if values == 2 else (0, 1, 2, 2)])
    bags = replace(bags, counts=bags.counts * 1e6)
    found, weight_errors = standard_errors(bags, truth, e_step(bags, truth), bags.average, 0.0, free_weights=free)
    laws = contexts * points * (values - 1)

    def mixture_at(theta):
        free_laws = theta[:laws].reshape(contexts, points, values - 1)
        full = np.concatenate([1 - free_laws.sum(axis=2, keepdims=True), free_laws], axis=2)
        weights = np.concatenate([[1 - theta[laws:].sum()], theta[laws:]]) if free else truth.weights
        return Mixture(weights, full)

    def loglik(theta):
        return e_step(bags, mixture_at(theta)).loglik  # checked against the joint table elsewhere

    theta = truth.laws[..., 1:].ravel()
    theta = np.concatenate([theta, truth.weights[1:]]) if free else theta
    step, size = 1e-4, theta.size
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            moves = [(a, b) for a in (1, -1) for b in (1, -1)]
            values_at = [a * b * loglik(theta + step * (a * np.eye(size)[i] + b * np.eye(size)[j])) for a, b in moves]
            hessian[i, j] = sum(values_at) / (4 * step**2)
    errors = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    np.testing.assert_allclose(found[..., 1:].ravel(), errors[:laws], rtol=2e-3)
    if free:
        np.testing.assert_allclose(weight_errors[1:], errors[laws:], rtol=2e-3)


def test_what_the_data_cannot_tell_has_an_infinite_error():
    truth = random_mixture(np.random.default_rng(3), 2, 3, weights=[0.5, 0.5])
    bags = every_outcome(truth, [(0,), (1, 1, 1)])  # 0 always alone, 2 never
    bags = replace(bags, counts=bags.counts * 1e4)
    errors, _ = standard_errors(bags, truth, e_step(bags, truth), bags.average, 0.0, free_weights=False)
    assert np.isinf(errors[:, 0]).all()
    assert np.isinf(errors[:, 2]).all()
    assert (errors[:, 1] < 0.1).all()
    lower, upper = limits_95(truth.laws, errors)
    np.testing.assert_array_equal(lower[:, [0, 2]], 0.0)
    np.testing.assert_array_equal(upper[:, [0, 2]], 1.0)


def test_many_parameters_use_the_information_of_each_state_action(monkeypatch):
    from rewardmix.recovery import standard_errors as module

    truth = random_mixture(np.random.default_rng(4), 2, 3, weights=[0.5, 0.5])
    bags = every_outcome(truth, [(0, 1, 2, 0, 1, 2)])
    bags = replace(bags, counts=bags.counts * 1e5)
    arguments = bags, truth, e_step(bags, truth), bags.average, 0.0
    joint, _ = standard_errors(*arguments, free_weights=False)
    monkeypatch.setattr(module, "LARGEST", 0)
    own, _ = standard_errors(*arguments, free_weights=False)
    assert (own <= joint * (1 + 1e-9)).all()  # knowing the other state-actions exactly can only help
    assert (own > 0.3 * joint).all()


def test_limits_of_rewards_hold_in_95_percent():
    inside = []
    for seed in range(250):
        model = problems.make("random", states=3, actions=2, horizon=6, separation=0.3, weights=(0.4, 0.6), seed=seed)
        found = recover(simulate(uniform(model), model, 3000, seed=seed), seed=seed)
        order = alignment(found.model.laws, model.laws)
        inside.append((model.rewards >= found.info.lower[order]) & (model.rewards <= found.info.upper[order]))
    assert 0.93 < np.mean(inside) < 0.97  # standard error .004; 90 % limits hold in .91


def test_limits_are_those_of_the_normal_law():
    laws, errors = np.array([0.5, 0.4, 0.01, 0.99]), np.array([0.1, 0.0, 0.1, 0.1])
    half = stats.norm.ppf(0.975) * errors
    lower, upper = limits_95(laws, errors)
    np.testing.assert_allclose(lower, np.maximum(laws - half, 0.0), rtol=1e-12)
    np.testing.assert_allclose(upper, np.minimum(laws + half, 1.0), rtol=1e-12)
