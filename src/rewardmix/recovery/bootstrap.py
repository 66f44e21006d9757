"""Resample episodes and refit the model (bootstrap), to estimate its sampling variation.

Each resample draws episodes with replacement, counts its own transitions and initial states, and runs EM from the
recovered model, so the types keep their labels. A bootstrap cannot show errors at states that no episode visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats, as_count
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.recovery.likelihood import Mixture, e_step, run_em
from rewardmix.recovery.moment_init import random_mixture
from rewardmix.recovery.recovery_result import EpisodeSpec, RecoveryOrEstimate, build_model
from rewardmix.recovery.reward_patterns import merge_patterns, patterns_from_episodes


def bootstrap_models(
    episodes: Episodes, recovery: RecoveryOrEstimate, *, num_resamples: int = 8, pseudocount: float = 1.0, seed: int = 0
) -> tuple[RewardMixingMDP, ...]:
    """Refit the model to resampled episodes, types in the order of ``recovery.model``.

    Args:
        episodes: Episodes that the model was recovered from.
        recovery: Result of ``recover``; initial value of every refit.
        num_resamples: Number of resamples.
        pseudocount: Pseudocount, as in ``recover``.
        seed: Seed of the resamples.

    Returns:
        One model per resample.
    """
    return tuple(
        iter_bootstrap_models(episodes, recovery, num_resamples=num_resamples, pseudocount=pseudocount, seed=seed)
    )


def iter_bootstrap_models(
    episodes: Episodes,
    recovery: RecoveryOrEstimate,
    *,
    num_resamples: int = 8,
    pseudocount: float = 1.0,
    seed: int = 0,
    num_restarts: int = 0,
) -> Iterator[RewardMixingMDP]:
    """Yield models of resampled episodes, each computed when it is requested.

    The prior mean is the marginals of the recovered model, because some of the episodes may be adaptive.

    Args:
        episodes: Episodes that ``recovery`` was estimated from.
        recovery: Initial value of EM; weights that were estimated are estimated again.
        num_resamples: Number of resamples, each of ``len(episodes)`` episodes.
        pseudocount: Pseudocount, as in ``recover``.
        seed: Seed of the resamples.
        num_restarts: Random initial values beside the recovered model. Without them every resample stays at its
            local optimum and types keep their labels; with them the best optimum of each resample is found.

    Yields:
        One model per resample.
    """
    start = model_to_mixture(recovery.model, episodes)
    prior_mean = (start.weights[:, None, None] * start.probs).sum(axis=0)
    rng = make_generator(seed, Role.RESAMPLES)
    return iter_refits(
        episodes,
        recovery,
        rng,
        num_resamples,
        pseudocount=pseudocount,
        num_restarts=num_restarts,
        prior_mean=prior_mean,
    )


def iter_refits(
    episodes: Episodes,
    recovery: RecoveryOrEstimate,
    rng: np.random.Generator,
    num_resamples: int,
    *,
    size: int | None = None,
    pseudocount: float = 1.0,
    prior_mean: Floats | None = None,
    num_restarts: int = 0,
) -> Iterator[RewardMixingMDP]:
    """Yield refitted models of resampled episodes.

    Where the model has an end state, so has each resample; if none of the episodes ended early there are no resamples.

    Args:
        episodes: Episodes to draw from.
        recovery: Initial value of EM; only weights that were estimated are estimated again.
        rng: Random generator of the draws.
        num_resamples: Number of resamples.
        size: Episodes of each resample; None means ``len(episodes)``.
        pseudocount: Pseudocount, as in ``recover``.
        prior_mean: (X, Z) prior mean; None means the marginals of each resample.
        num_restarts: Random initial values of each refit, beside the recovered model.

    Yields:
        One model per resample.
    """
    count, size = as_count("num_resamples", num_resamples), len(episodes) if size is None else size
    ended_early = episodes.lengths < episodes.horizon
    has_end_state = recovery.model.num_states > episodes.num_states
    for _ in range(0 if has_end_state and not ended_early.any() else count):
        sample = np.sort(rng.integers(len(episodes), size=size))
        while has_end_state and not ended_early[sample].any():
            # A resample without an early end would have one state less than the model; it is drawn again.
            sample = np.sort(rng.integers(len(episodes), size=size))
        em_options: dict[str, Any] = {"prior_mean": prior_mean, "random_restarts": (rng, num_restarts)}
        yield refit_model(
            episodes[sample], recovery.model, weights=recovery.fixed_weights, pseudocount=pseudocount, **em_options
        )


def refit_model(
    episodes: Episodes,
    model: RewardMixingMDP,
    *,
    weights: Floats | None = None,
    pseudocount: float = 1.0,
    prior_mean: Floats | None = None,
    random_restarts: tuple[np.random.Generator, int] | None = None,
) -> RewardMixingMDP:
    """Refit a model to other episodes of its environment, by EM from ``model``.

    Args:
        episodes: Other episodes.
        model: Initial value of EM.
        weights: (M,) weights if they are known.
        pseudocount: Pseudocount, as in ``recover``.
        prior_mean: (X, Z) prior mean; None means the marginals of these episodes.
        random_restarts: Random generator and number of random initial values beside ``model``.

    Returns:
        Model with the best objective.
    """
    patterns, start = merge_patterns(patterns_from_episodes(episodes)), model_to_mixture(model, episodes)
    transitions = Moments.from_transitions(episodes)
    prior_mean = patterns.marginal_probs if prior_mean is None else prior_mean
    starts = [Mixture(start.weights, 0.99 * start.probs + 0.01 * prior_mean)]  # EM cannot leave the boundary
    if random_restarts is not None:
        rng, count = random_restarts
        all_points = np.ones(prior_mean.shape[0], bool)
        starts += [random_mixture(prior_mean, start.weights, all_points, rng) for _ in range(count)]
    em_options: dict[str, Any] = {
        "prior_mean": prior_mean,
        "pseudocount": pseudocount,
        "weights": weights,
        "tolerance": 1e-8,
    }
    fits = [run_em(partial(e_step, patterns), mixture, **em_options) for mixture in starts]
    fit = max(fits, key=lambda fit: fit.objective)
    return build_model(episodes, fit.mixture, transitions.initial_estimate(), transitions.transition_estimate()[0])


def model_to_mixture(model: RewardMixingMDP, spec: EpisodeSpec) -> Mixture:
    """Convert a model to a mixture on the states and reward values of ``spec``, without an added end state."""
    indices = np.searchsorted(model.reward_values, spec.reward_values)
    probs = model.reward_probs[:, : spec.num_states][..., indices]
    return Mixture(model.weights, np.ascontiguousarray(probs.reshape(model.num_types, -1, indices.size)))
