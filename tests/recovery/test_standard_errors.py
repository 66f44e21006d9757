from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from oracles.mixtures import enumerate_patterns, random_mixture
from rewardmix import problems, simulate, uniform_policy
from rewardmix.recovery import recover
from rewardmix.recovery.likelihood import Mixture, e_step
from rewardmix.recovery.recovery_result import match_order
from rewardmix.recovery.standard_errors import limits_95, standard_errors


@pytest.mark.parametrize(("num_types", "values"), [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("free", [True, False])
def test_errors_are_those_of_the_inverse_hessian(num_types, values, free):
    points = 3
    truth = random_mixture(np.random.default_rng(2), num_types, points, values)
    patterns = enumerate_patterns(truth, [(0, 1, 2, 0, 1, 2) if values == 2 else (0, 1, 2, 2)])
    patterns = replace(patterns, counts=patterns.counts * 1e6)
    result, weight_errors = standard_errors(
        patterns, truth, e_step(patterns, truth), patterns.marginal_probs, 0.0, free_weights=free
    )
    probs = num_types * points * (values - 1)

    def mixture_at(theta):
        free_laws = theta[:probs].reshape(num_types, points, values - 1)
        full = np.concatenate([1 - free_laws.sum(axis=2, keepdims=True), free_laws], axis=2)
        weights = np.concatenate([[1 - theta[probs:].sum()], theta[probs:]]) if free else truth.weights
        return Mixture(weights, full)

    def loglik(theta):
        return e_step(patterns, mixture_at(theta)).loglik  # checked against the joint table elsewhere

    theta = truth.probs[..., 1:].ravel()
    theta = np.concatenate([theta, truth.weights[1:]]) if free else theta
    step, size = 1e-4, theta.size
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            transitions = [(a, b) for a in (1, -1) for b in (1, -1)]
            values_at = [
                a * b * loglik(theta + step * (a * np.eye(size)[i] + b * np.eye(size)[j])) for a, b in transitions
            ]
            hessian[i, j] = sum(values_at) / (4 * step**2)
    errors = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    np.testing.assert_allclose(result[..., 1:].ravel(), errors[:probs], rtol=2e-3)
    if free:
        np.testing.assert_allclose(weight_errors[1:], errors[probs:], rtol=2e-3)


def test_what_the_data_cannot_tell_has_an_infinite_error():
    truth = random_mixture(np.random.default_rng(3), 2, 3, weights=[0.5, 0.5])
    patterns = enumerate_patterns(truth, [(0,), (1, 1, 1)])  # 0 always alone, 2 never
    patterns = replace(patterns, counts=patterns.counts * 1e4)
    errors, _ = standard_errors(
        patterns, truth, e_step(patterns, truth), patterns.marginal_probs, 0.0, free_weights=False
    )
    assert np.isinf(errors[:, 0]).all()
    assert np.isinf(errors[:, 2]).all()
    assert (errors[:, 1] < 0.1).all()
    lower, upper = limits_95(truth.probs, errors)
    np.testing.assert_array_equal(lower[:, [0, 2]], 0.0)
    np.testing.assert_array_equal(upper[:, [0, 2]], 1.0)


def test_many_parameters_use_the_information_of_each_state_action(monkeypatch):
    from rewardmix.recovery import standard_errors as module

    truth = random_mixture(np.random.default_rng(4), 2, 3, weights=[0.5, 0.5])
    patterns = enumerate_patterns(truth, [(0, 1, 2, 0, 1, 2)])
    patterns = replace(patterns, counts=patterns.counts * 1e5)
    arguments = patterns, truth, e_step(patterns, truth), patterns.marginal_probs, 0.0
    joint, _ = standard_errors(*arguments, free_weights=False)
    monkeypatch.setattr(module, "MAX_JOINT_PARAMETERS", 0)
    separate, _ = standard_errors(*arguments, free_weights=False)
    assert (separate <= joint * (1 + 1e-9)).all()  # knowing the other state-actions exactly can only help
    assert (separate > 0.3 * joint).all()


@pytest.mark.statistical
def test_limits_of_rewards_hold_in_95_percent():
    inside = []
    for seed in range(250):
        model = problems.make_model(
            "random", states=3, actions=2, horizon=6, separation=0.3, weights=(0.4, 0.6), seed=seed
        )
        result = recover(simulate(uniform_policy(model), model, 3000, seed=seed), seed=seed)
        order = match_order(result.model.reward_probs, model.reward_probs)
        inside.append((model.rewards >= result.info.lower[order]) & (model.rewards <= result.info.upper[order]))
    assert 0.93 < np.mean(inside) < 0.97  # standard error .004; 90 % limits hold in .91


def test_limits_are_those_of_the_normal_law():
    probs, errors = np.array([0.5, 0.4, 0.01, 0.99]), np.array([0.1, 0.0, 0.1, 0.1])
    half = stats.norm.ppf(0.975) * errors
    lower, upper = limits_95(probs, errors)
    np.testing.assert_allclose(lower, np.maximum(probs - half, 0.0), rtol=1e-12)
    np.testing.assert_allclose(upper, np.minimum(probs + half, 1.0), rtol=1e-12)
