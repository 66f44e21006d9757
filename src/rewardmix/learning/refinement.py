"""Refinement: what is left of a budget once pairs are covered, spent where it decides something.

    batch after batch:
        draw a model that the episodes so far could have come from   (EM on resampled episodes)
        play the best policy of that model

In a large world (more than 256 state-actions) a budget leaves few visits to each, and another draw comes instead:

        fit a model to the episodes so far, from the last fit; let every reward be better than the fit, by about one
        and a half of its standard deviations at first and half of one at the end, and as much at random
        play the best policy of that model

The bootstrap draws nothing else where a reward was seen once or never, so a state-action that began badly is avoided
for good; hope tries it again. Hope alone plays one policy until all that looks good is known equally well; with chance
in it, batches differ, so there are many.

Exploration looks at every pair that can be reached, whether or not a good policy would ever go there. This looks where
some plausible model says that it pays (posterior sampling, with the bootstrap for a posterior). Its actions follow the
rewards of the same episode, so its episodes must not be averaged: recovery counts them in the likelihood and for the
moves alone (``recover(following=...)``). It cannot find rooms that no episode entered; that is why it comes second.
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
from rewardmix._core.checks import Floats, InputError, as_count, refuse
from rewardmix._core.streams import Role, generator, seed_for
from rewardmix.episodes import Episodes, pack_episodes, unpack_episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import plan, usual_work
from rewardmix.policy import Controller
from rewardmix.recovery.bags import bags_of
from rewardmix.recovery.bootstrap import mixture_of_model, resampled
from rewardmix.recovery.likelihood import Mixture, ascend, e_step
from rewardmix.recovery.pooling import is_large
from rewardmix.recovery.recovery_result import Recovered, assembled
from rewardmix.simulation import simulate

BATCHES = 8
"""Models drawn. Two to sixteen do about equally well; each costs a refit and a plan."""

LARGE_BATCHES = 60
"""Models drawn in a large world, where a refit goes on from the one before."""

ELSEWHERE = 3
"""Random starts of each refit. One that begins at the recovered model alone stays on its hill of the likelihood: with
the signs of a rarely seen state wrong, no draw would ever play what shows it."""

LONGEST_REFIT = 300
"""E-steps of such a refit."""

HOPES = 1.5, 0.5
"""Standard deviations of a reward's mean that it is played as better, in a large world: in the first batch and in the
last. Without any, what began badly stays unknown."""


@dataclass(frozen=True, eq=False)
class Refinement:
    """What refinement gathered.

    Attributes:
        episodes: its own, without those of exploration.
        interrupted: whether it was stopped by Ctrl-C; whole batches are kept.
    """

    episodes: Episodes
    interrupted: bool = False


def refine(
    env_or_model: Any,
    gathered: Episodes,
    found: Recovered,
    *,
    episodes: int,
    batches: int | None = None,
    prior: float = 1.0,
    centre: Floats | None = None,
    gap: float = 1e-2,
    seed: int = 0,
    on_update: Callable[[int], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Refinement:
    """Play the best policies of plausible models. Ctrl-C returns the batches that were played.

    Args:
        env_or_model: the world that ``gathered`` came from: a model or a Gymnasium environment.
        gathered: all episodes so far.
        found: a model recovered from them, where the refits begin.
        episodes: how many to play.
        batches: in how many parts; after each, the next model is drawn from all episodes so far. Left out: 8, or 60 in
            a large world.
        prior: pseudo-count of the refits, as for ``recover``.
        centre: (X, Z) where it is in a large world; left out, at the average of each model that a refit begins at.
        gap: of the plans; a plausible model is no better known than that.
        seed: the same seed gives the same episodes of a model; an environment goes on from where it stands.
        on_update: called with the number of episodes played.
        checkpoint: a folder. Batches that are in it are not played again.
    """
    count = as_count("episodes", episodes, least=0)
    large = is_large(gathered.num_states, gathered.num_actions)
    parts = as_count("batches", (LARGE_BATCHES if large else BATCHES) if batches is None else batches)
    shares = np.diff(np.linspace(0, count, parts + 1).astype(int))
    folder = None if checkpoint is None else Path(checkpoint)
    settings: dict[str, Any] = {"seed": seed, "after": len(gathered), "episodes": count, "batches": parts}
    if folder is not None:
        settings["gathered"] = storage.checksum_of(pack_episodes(gathered)[0])
    played, fitted = gathered[:0], mixture_of_model(found.model, gathered)
    try:
        for number, share in enumerate(shares[shares > 0]):
            name = f"batch-{number:03d}.safetensors"
            batch = None if folder is None else _saved(folder / name, settings, gathered, int(share))
            drawing = seed_for(seed, Role.REFINEMENT, len(gathered), number)
            whole = gathered + played
            if large:
                fitted, visits = fitted_again(whole, fitted, found.fixed_weights, prior, centre)
            if batch is None:
                if large:
                    model = hopeful(whole, fitted, visits + prior, number / parts, drawing)
                else:
                    (model,) = resampled(whole, found, resamples=1, prior=prior, seed=drawing, elsewhere=ELSEWHERE)
                limit = usual_work(model) / parts  # all batches together may plan as long as one plan of learn
                policy = plan(model, gap=gap, work_limit=limit).policy
                playing = seed_for(seed, Role.REFINED_EPISODES, len(gathered), number)
                batch = _played(env_or_model, policy, int(share), playing, gathered)
                if folder is not None:
                    _save(folder / name, batch, settings)
            played = played + batch
            if on_update:
                on_update(len(played))
    except KeyboardInterrupt:
        return Refinement(played, interrupted=True)
    return Refinement(played)


def fitted_again(
    episodes: Episodes, start: Mixture, weights: Floats | None, prior: float, centre: Floats | None = None
) -> tuple[Mixture, Floats]:
    """The mixture of these episodes by EM from one of fewer, and how often each context visited each x, (M, X)."""
    bags = bags_of(episodes)
    average = (start.weights[:, None, None] * start.laws).sum(axis=0)
    inside = Mixture(start.weights, 0.99 * start.laws + 0.01 * average)  # off the boundary, where EM would stay
    centre = average if centre is None else centre
    settings: dict[str, Any] = {"average": centre, "prior": prior, "weights": weights, "tolerance": 1e-8}
    mixture = ascend(partial(e_step, bags), inside, max_iterations=LONGEST_REFIT, **settings).mixture
    return mixture, e_step(bags, mixture).outcomes.sum(axis=2)


def hopeful(episodes: Episodes, fitted: Mixture, counts: Floats, spent: float, seed: int) -> RewardMixingMDP:
    """The model of these episodes with rewards better than ``fitted``: each by some of its standard deviations.

    As many as hope says, times one plus a draw from nearly the normal law. The mean reward of x in context m with n
    visits, by the fit, has the variance of the law over n + prior + 1, as if the law were drawn from its pseudo-counts.

    Args:
        episodes: whose moves count.
        fitted: to them.
        counts: (M, X) visits and pseudo-counts.
        spent: share of refinement that is behind.
        seed: of the draw.
    """
    laws = lifted(fitted.laws, counts, episodes.reward_values, hopes(counts.shape, spent, seed))
    moves = Moments.of_moves(episodes)
    return assembled(episodes, Mixture(fitted.weights, laws), moves.initial_estimate(), moves.transition_estimate()[0])


def hopes(shape: tuple[int, ...], spent: float, seed: int, ends: tuple[float, float] = HOPES) -> Floats:
    """By how many standard deviations rewards are played as better when a share of refinement is spent."""
    first, last = ends
    nearly_normal = generator(seed, Role.HOPES).random((12, *shape)).sum(axis=0) - 6.0
    return np.asarray((first + (last - first) * spent) * (1.0 + nearly_normal))


def lifted(laws: Floats, counts: Floats, values: Floats, deviations: Floats) -> Floats:
    """(M, X, Z) laws with their means (M, X) standard deviations higher, each known from (M, X) ``counts``.

    As much chance goes to the largest reward, or to the least, as lifts or lowers the mean so far.
    """
    mean = (laws * values).sum(axis=2)
    spread = np.sqrt(np.maximum((laws * values**2).sum(axis=2) - mean**2, 0.0) / (counts + 1.0))
    end = np.where(deviations > 0, values.size - 1, 0)
    room = np.abs(values[end] - mean)
    share = np.where(room > 0, np.minimum(np.abs(deviations) * spread / np.where(room > 0, room, 1.0), 1.0), 0.0)
    return np.asarray((1.0 - share[..., None]) * laws + share[..., None] * np.eye(values.size)[end])


def _played(world: Any, policy: Controller, count: int, seed: int, like: Episodes) -> Episodes:
    if isinstance(world, RewardMixingMDP):
        return simulate(policy, world, count, seed)
    values: Floats = like.reward_values
    return environments.play(world, policy, count, seed, horizon=like.horizon, reward_values=values, go_on=True)


def stored_batches(folder: Path, total: int) -> Episodes | None:
    """Batches of all rounds that ended before ``total`` episodes, as they were played; None if there are none."""
    paths = sorted(folder.glob("*/batch-*.safetensors"))
    found = [_loaded(path)[0] for path in paths if path.parent.name.isdecimal() and int(path.parent.name) < total]
    return reduce(operator.add, found) if found else None


def _save(path: Path, batch: Episodes, settings: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays, sizes = pack_episodes(batch)
    storage.write_arrays(path, "refinement", arrays, {**settings, **sizes})


def _saved(path: Path, settings: dict[str, Any], like: Episodes, share: int) -> Episodes | None:
    """A batch that an earlier, interrupted call has played."""
    if not path.is_file():
        return None
    batch, meta = _loaded(path)
    for name, value in settings.items():
        if meta.get(name) != value:
            refuse("checkpoint", f"{name} = {meta.get(name)!r} in {path.parent}", f"{value!r}, or another folder")
    if batch.world != like.world or len(batch) != share:
        refuse("checkpoint", f"{batch!r} in {path}", f"{share} episodes of {like!r}, or another folder")
    return batch


def _loaded(path: Path) -> tuple[Episodes, dict[str, Any]]:
    """The batch in a file, and what is said about it; damage is refused."""
    try:
        _, arrays, meta = storage.read_arrays(path, ("refinement",), oldest=storage.SCHEMA)
        return unpack_episodes(arrays, meta), meta
    except (InputError, KeyError) as error:
        refuse(
            "checkpoint",
            f"{path}, which cannot be gone on with ({error})",
            f"what was saved; delete {path.parent} to play it again",
        )
