"""Refine a learned model: play good policies of plausible models with the episodes that exploration leaves.

    for every batch:
        draw a model that is plausible given the episodes so far   (EM on resampled episodes)
        play the optimal policy of that model

In a large model (more than 256 state-actions) a budget leaves few visits to each, and the draw is different:

        fit a model to the episodes so far, from the last fit; raise every mean reward above the fit, by about one and
        a half of its standard deviations at first and half of one at the end, times a random factor
        play the optimal policy of that model

The bootstrap does not vary a reward that was observed once or not at all, so a state-action with bad first rewards
would be avoided forever; optimism tries it again. Optimism without randomness plays one policy until all promising
state-actions are known equally well; random factors make batches differ.

Exploration visits every pair that can be reached, whether or not a good policy goes there. Refinement visits what some
plausible model considers good (Thompson sampling, with the bootstrap as posterior). Its actions depend on the rewards
of their own episode, so its episodes must not be averaged: recovery uses them for the likelihood and the transitions
only (``recover(adaptive_episodes=...)``). It cannot discover states that no episode visited; therefore it comes second.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from rewardmix import environments
from rewardmix._core import storage
from rewardmix._core.checks import Floats, InputError, as_count, raise_input_error
from rewardmix._core.random_streams import Role, derive_seed, make_generator
from rewardmix.episodes import Episodes, pack_episodes, unpack_episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import default_max_operations, plan
from rewardmix.policy import Controller
from rewardmix.recovery.bootstrap import iter_bootstrap_models, model_to_mixture
from rewardmix.recovery.hierarchical_prior import uses_hierarchical_prior
from rewardmix.recovery.likelihood import Mixture, e_step, run_em
from rewardmix.recovery.recovery_result import RecoveryOrEstimate, build_model
from rewardmix.recovery.reward_patterns import patterns_from_episodes
from rewardmix.simulation import simulate

NUM_BATCHES = 8
"""Number of models drawn. Two to sixteen gave about equal results; each costs a refit and a plan."""

NUM_BATCHES_LARGE = 60
"""Number of models drawn in a large model, where a refit continues from the one before."""

NUM_RANDOM_RESTARTS = 3
"""Random initial values of each refit.

A refit from the recovered model alone stays at its local optimum: with wrong signs at a rarely visited state, no draw
would play the actions that show it.
"""

MAX_REFIT_ITERATIONS = 300
"""Largest number of E-steps of a refit in a large model."""

OPTIMISM = 1.5, 0.5
"""Standard deviations by which mean rewards are raised in a large model, in the first and in the last batch. Without
them state-actions with bad first rewards stay unknown.
"""


@dataclass(frozen=True, eq=False)
class Refinement:
    """Episodes of refinement.

    Attributes:
        episodes: Episodes of refinement alone, without those of exploration.
        interrupted: Whether Ctrl-C stopped it; whole batches are kept.
    """

    episodes: Episodes
    interrupted: bool = False


def refine(
    env_or_model: Any,
    episodes: Episodes,
    recovery: RecoveryOrEstimate,
    *,
    num_episodes: int,
    batches: int | None = None,
    pseudocount: float = 1.0,
    prior_mean: Floats | None = None,
    gap: float = 1e-2,
    seed: int = 0,
    callback: Callable[[int], None] | None = None,
    checkpoint_dir: str | Path | None = None,
) -> Refinement:
    """Play optimal policies of plausible models; after Ctrl-C return the batches that were completed.

    Args:
        env_or_model: Model or Gymnasium environment that ``episodes`` came from.
        episodes: All episodes so far.
        recovery: Model recovered from them, initial value of the refits.
        num_episodes: Number of episodes to play.
        batches: Number of batches; after each, the next model is drawn from all episodes so far. None: 8, or 60 in a
            large model.
        pseudocount: Pseudocount of the refits, as in ``recover``.
        prior_mean: (X, Z) prior mean in a large model; None: the marginals of each refit's initial model.
        gap: Gap of the plans; a plausible model is not known more accurately.
        seed: Seed; it determines the episodes of a model. An environment continues from its present state.
        callback: Function that receives the number of episodes played.
        checkpoint_dir: Folder. Batches found in it are not played again.

    Returns:
        Episodes of refinement.
    """
    count = as_count("num_episodes", num_episodes, min_value=0)
    large = uses_hierarchical_prior(episodes.num_states, episodes.num_actions)
    num_batches = as_count("batches", (NUM_BATCHES_LARGE if large else NUM_BATCHES) if batches is None else batches)
    # Rounded cumulative sums: batches differ by at most one episode and add up to the total.
    sizes = np.diff(np.linspace(0, count, num_batches + 1).astype(int))
    folder = None if checkpoint_dir is None else Path(checkpoint_dir)
    run_key: dict[str, Any] = {"seed": seed, "after": len(episodes), "episodes": count, "batches": num_batches}
    if folder is not None:
        # A checkpoint is valid only for the episodes that its policies were computed from.
        run_key["gathered"] = storage.checksum_of(pack_episodes(episodes)[0])
    played, fitted = episodes[:0], model_to_mixture(recovery.model, episodes)
    try:
        for number, size in enumerate(sizes[sizes > 0]):
            name = f"batch-{number:03d}.safetensors"
            batch = None if folder is None else _load_matching_batch(folder / name, run_key, episodes, int(size))
            # Seeds depend on the data so far and the batch, not on a running generator: a resumed run draws equal
            # models.
            model_seed = derive_seed(seed, Role.REFINEMENT, len(episodes), number)
            all_data = episodes + played
            if large:
                # Refitted also for a batch that is loaded, because the next refit starts from this one.
                fitted, visits = refit_mixture(all_data, fitted, recovery.fixed_weights, pseudocount, prior_mean)
            if batch is None:
                if large:
                    spent, counts = number / num_batches, visits + pseudocount
                    model = draw_optimistic_model(all_data, fitted, counts, spent, model_seed)
                else:
                    (model,) = iter_bootstrap_models(
                        all_data,
                        recovery,
                        num_resamples=1,
                        pseudocount=pseudocount,
                        seed=model_seed,
                        num_restarts=NUM_RANDOM_RESTARTS,
                    )
                limit = default_max_operations(model) / num_batches  # all batches together get the budget of one plan
                policy = plan(model, gap=gap, max_operations=limit).policy
                episode_seed = derive_seed(seed, Role.REFINED_EPISODES, len(episodes), number)
                batch = _play_batch(env_or_model, policy, int(size), episode_seed, episodes)
                if folder is not None:
                    _save_batch(folder / name, batch, run_key)
            played = played + batch
            if callback:
                callback(len(played))
    except KeyboardInterrupt:
        return Refinement(played, interrupted=True)
    return Refinement(played)


def refit_mixture(
    episodes: Episodes, start: Mixture, weights: Floats | None, pseudocount: float, prior_mean: Floats | None = None
) -> tuple[Mixture, Floats]:
    """Refit the mixture by EM from an earlier fit; also return (M, X) expected visits of each x by type."""
    patterns = patterns_from_episodes(episodes)
    marginal_probs = (start.weights[:, None, None] * start.probs).sum(axis=0)
    interior = Mixture(start.weights, 0.99 * start.probs + 0.01 * marginal_probs)  # EM cannot leave the boundary
    prior_mean = marginal_probs if prior_mean is None else prior_mean
    em_options: dict[str, Any] = {
        "prior_mean": prior_mean,
        "pseudocount": pseudocount,
        "weights": weights,
        "tolerance": 1e-8,
    }
    mixture = run_em(partial(e_step, patterns), interior, max_iterations=MAX_REFIT_ITERATIONS, **em_options).mixture
    return mixture, e_step(patterns, mixture).reward_counts.sum(axis=2)


def draw_optimistic_model(
    episodes: Episodes, fitted: Mixture, counts: Floats, spent: float, seed: int
) -> RewardMixingMDP:
    """Draw an optimistic model: the fit with every mean reward raised by a random number of its standard deviations.

    The number is the optimism of the batch times (1 + a nearly normal draw). With n visits by the fit, the mean reward
    of x in type m has the variance of its distribution divided by n + pseudocount + 1, as if it were drawn from a
    Dirichlet distribution with these counts.

    Args:
        episodes: Episodes whose transitions count.
        fitted: Mixture fitted to them.
        counts: (M, X) visits plus pseudocounts.
        spent: Fraction of refinement that is completed.
        seed: Seed of the draw.

    Returns:
        Model to plan in.
    """
    probs = shift_means(fitted.probs, counts, episodes.reward_values, draw_optimism(counts.shape, spent, seed))
    transitions = Moments.from_transitions(episodes)
    return build_model(
        episodes, Mixture(fitted.weights, probs), transitions.initial_estimate(), transitions.transition_estimate()[0]
    )


def draw_optimism(shape: tuple[int, ...], spent: float, seed: int, ends: tuple[float, float] = OPTIMISM) -> Floats:
    """Draw the number of standard deviations by which each mean reward is raised, linear in the completed fraction."""
    first, last = ends
    # A sum of twelve uniforms minus 6 has mean 0 and variance 1, and equal bits on all platforms.
    nearly_normal = make_generator(seed, Role.OPTIMISM).random((12, *shape)).sum(axis=0) - 6.0
    return np.asarray((first + (last - first) * spent) * (1.0 + nearly_normal))


def shift_means(probs: Floats, counts: Floats, values: Floats, deviations: Floats) -> Floats:
    """Shift the means of (M, X, Z) reward probabilities by (M, X) standard deviations, for (M, X) counts of
    observations.

    Probability moves to the largest reward, or to the smallest for a negative shift, until the mean has shifted so far.
    """
    mean = (probs * values).sum(axis=2)
    # Rounding can make the variance of a certain reward slightly negative.
    deviation = np.sqrt(np.maximum((probs * values**2).sum(axis=2) - mean**2, 0.0) / (counts + 1.0))
    target = np.where(deviations > 0, values.size - 1, 0)
    limit = np.abs(values[target] - mean)
    # At most all probability moves: the mean cannot leave the range of the rewards.
    share = np.where(limit > 0, np.minimum(np.abs(deviations) * deviation / np.where(limit > 0, limit, 1.0), 1.0), 0.0)
    return np.asarray((1.0 - share[..., None]) * probs + share[..., None] * np.eye(values.size)[target])


def _play_batch(env: Any, policy: Controller, count: int, seed: int, like: Episodes) -> Episodes:
    """Play a batch of episodes in the model or the environment."""
    if isinstance(env, RewardMixingMDP):
        return simulate(policy, env, count, seed)
    values: Floats = like.reward_values
    return environments.rollout(env, policy, count, seed, horizon=like.horizon, reward_values=values, keep_rng=True)


def load_batches(folder: Path, total: int) -> Episodes | None:
    """Load the batches of all rounds that ended before ``total`` episodes, in order; None if there are none."""
    paths = sorted(folder.glob("*/batch-*.safetensors"))
    batches = [_load_batch(path)[0] for path in paths if path.parent.name.isdecimal() and int(path.parent.name) < total]
    return reduce(operator.add, batches) if batches else None


def _save_batch(path: Path, batch: Episodes, run_key: dict[str, Any]) -> None:
    """Save a batch with the settings that it belongs to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays, sizes = pack_episodes(batch)
    storage.write_arrays(path, "refinement", arrays, {**run_key, **sizes})


def _load_matching_batch(path: Path, run_key: dict[str, Any], like: Episodes, size: int) -> Episodes | None:
    """Load a batch that an earlier, interrupted call played; raise ``InputError`` if its settings differ."""
    if not path.is_file():
        return None
    batch, meta = _load_batch(path)
    for name, value in run_key.items():
        if meta.get(name) != value:
            raise_input_error(
                "checkpoint", f"{name} = {meta.get(name)!r} in {path.parent}", f"{value!r}; choose another folder"
            )
    # A file of another run in this folder would silently bias the result.
    if batch.spec != like.spec or len(batch) != size:
        raise_input_error("checkpoint", f"{batch!r} in {path}", f"{size} episodes of {like!r}; choose another folder")
    return batch


def _load_batch(path: Path) -> tuple[Episodes, dict[str, Any]]:
    """Load the batch in a file and its settings; raise ``InputError`` if the file is damaged."""
    try:
        _, arrays, meta = storage.read_arrays(path, ("refinement",))
        return unpack_episodes(arrays, meta), meta
    except (InputError, KeyError) as error:
        raise InputError(
            f"checkpoint: cannot resume from {path.parent} ({error}); delete the folder to play it again"
        ) from error
