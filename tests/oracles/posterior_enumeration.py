"""Compute the posterior of tiny models by enumerating all assignments of types to episodes."""

from __future__ import annotations

from itertools import product
from math import exp, lgamma

import numpy as np


def log_beta(shapes) -> float:
    """Return the logarithm of the normalizing constant of a Dirichlet distribution."""
    return sum(lgamma(shape) for shape in shapes) - lgamma(sum(shapes))


def posterior_means(episodes, num_points, num_values, num_types, prob_prior, weights=None, weight_prior=5.0):
    """Return E[w] (M,), E[p] (M, X, Z) and E[sum_m w_m p_m(x) p_m(y)] (X, X), p that of the last value.

    ``episodes`` are lists of (x, z), ``prob_prior`` (X, Z) the Dirichlet parameters of the reward probabilities of each
    type. Given the assignment everything is conjugate: probabilities and weights are Dirichlet.
    """
    total, mean_weights = 0.0, np.zeros(num_types)
    mean_probs = np.zeros((num_types, num_points, num_values))
    mean_products = np.zeros((num_points, num_points))
    for assignment in product(range(num_types), repeat=len(episodes)):
        sizes = np.bincount(assignment, minlength=num_types).astype(float)
        counts = np.tile(prob_prior, (num_types, 1, 1))
        for m, steps in zip(assignment, episodes, strict=True):
            for x, z in steps:
                counts[m, x, z] += 1
        log_mass = sum(log_beta(row) for row in counts.reshape(-1, num_values))
        if weights is None:
            log_mass += log_beta(sizes + weight_prior)
            expected = (sizes + weight_prior) / (sizes + weight_prior).sum()
        else:
            log_mass += float(sizes @ np.log(weights))
            expected = np.asarray(weights)
        mass = exp(log_mass)
        probs = counts / counts.sum(axis=2, keepdims=True)
        last = probs[:, :, -1]
        products = np.einsum("mx,my->mxy", last, last)
        a, n = counts[:, :, -1], counts.sum(axis=2)
        for x in range(num_points):
            products[:, x, x] = a[:, x] * (a[:, x] + 1) / (n[:, x] * (n[:, x] + 1))
        total += mass
        mean_weights += mass * expected
        mean_probs += mass * probs
        mean_products += mass * np.tensordot(expected, products, axes=1)
    return mean_weights / total, mean_probs / total, mean_products / total
