"""What exploration alone lacks: the same explorations, with a part of the truth put in; and what refinement gives.

python -m benchmarks.learning.lacks [--quick] [--large]

The share of the gain for each part that is told, on one problem at one budget; ``--large``: of all that
``learn`` plays in worlds of many states.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from benchmarks.cells import show
from benchmarks.learning import analysis, settings
from benchmarks.record import record
from rewardmix import Episodes, RewardMixingMDP, evaluate, plan, problems, recover, recovery
from rewardmix.learning import Learned, learn
from rewardmix.planning import usual_work
from rewardmix.recovery.bootstrap import mixture_of_model
from rewardmix.recovery.evidence import Question, evidence_of
from rewardmix.recovery.likelihood import e_step, m_step

PROBLEM, EPISODES = "random (10,3,8)", 2000
PRIORS = (1.0, 2.0, 3.0)
REFINED = "nothing, but half of the episodes are refinement"

Change = Callable[[Learned, RewardMixingMDP], RewardMixingMDP]


def with_moves(found: Learned, world: RewardMixingMDP) -> RewardMixingMDP:
    """The recovered rewards and weights, the true moves."""
    return replace(found.model, transition=world.transition, initial=world.initial)


def with_rewards(found: Learned, world: RewardMixingMDP) -> RewardMixingMDP:
    """The recovered moves, the true rewards and weights."""
    return replace(found.model, rewards=world.rewards, weights=world.weights)


def with_weights(found: Learned, world: RewardMixingMDP) -> RewardMixingMDP:
    """Recovered anew, told the weights in the order of the estimated contexts."""
    near = recovery.aligned(world, found.model)
    return recover(episodes_of(found), weights=near.weights).model


def with_prior(prior: float) -> Change:
    """Recovered anew with another pseudo-count."""
    return lambda found, world: recover(episodes_of(found), prior=prior).model


def episodes_of(found: Learned) -> Episodes:
    """All episodes of the exploration."""
    gathered = found.exploration.gathered
    assert gathered is not None
    return gathered


CHANGES: dict[str, Change] = {
    "nothing": lambda found, world: found.model,
    "the moves": with_moves,
    "the rewards and weights": with_rewards,
    "the weights": with_weights,
    **{f"pseudo-count {prior:g}": with_prior(prior) for prior in PRIORS},
}


def with_types(found: Learned, world: RewardMixingMDP) -> RewardMixingMDP:
    """Rewards counted as if it were known which type each episode is of, as far as the true world tells."""
    near = recovery.aligned(world, found.model)
    explored, following = episodes_of(found), found.refinement
    evidence = evidence_of(explored, following)
    assert evidence.bags is not None
    centre, prior = evidence.centre(evidence.bags, Question()), evidence.strength(Question())
    told = m_step(e_step(evidence.bags, mixture_of_model(near, explored)), centre, prior)
    return replace(found.model, rewards=told.laws[..., 1].reshape(near.rewards.shape), weights=told.weights)


LARGE_CHANGES: dict[str, Change] = {
    "nothing": lambda found, world: found.model,
    "the moves": with_moves,
    "the types of the episodes": with_types,
    "the rewards and weights": with_rewards,
}


def large(quick: bool) -> None:
    """Worlds of many states."""
    rows = []
    for states in (300,) if quick else (300, 1000):
        shares: dict[str, list[float]] = {name: [] for name in LARGE_CHANGES}
        for seed in range(1 if quick else 3):
            world = problems.make("random", states=states, actions=4, horizon=10, successors=2, seed=seed)
            found = learn(world, episodes=settings.LARGE_BUDGET, seed=seed, resamples=0)
            truth = found.certificate.truth
            assert truth is not None
            for name, change in LARGE_CHANGES.items():
                model = change(found, world)
                value = evaluate(plan(model, gap=5e-3, work_limit=usual_work(model)).policy, world).value
                shares[name].append(round(replace(truth, value=value).share, 6))
        rows += [
            {"told": name, "problem": f"S = {states:,}", "episodes": settings.LARGE_BUDGET, "share": values}
            for name, values in shares.items()
        ]
    show(analysis.lacks_large(rows))
    if not quick:
        record("learning", "lacks_large", rows, program="lacks")


def main() -> None:
    """All seeds."""
    if "--large" in sys.argv:
        large("--quick" in sys.argv)
        return
    quick = "--quick" in sys.argv
    known, options = settings.PROBLEMS[PROBLEM]
    world = problems.make(known, **options)
    shares: dict[str, list[float]] = {name: [] for name in (*CHANGES, REFINED)}
    for seed in range(2 if quick else settings.SEEDS):
        found = learn(world, episodes=EPISODES, seed=seed, resamples=0, refine=0)
        truth = found.certificate.truth
        refined = learn(world, episodes=EPISODES, seed=seed, resamples=0).certificate.truth
        assert truth is not None
        assert refined is not None
        shares[REFINED].append(round(refined.share, 6))
        for name, change in CHANGES.items():
            value = evaluate(plan(change(found, world)).policy, world).value
            shares[name].append(round(replace(truth, value=value).share, 6))
    rows = [
        {"told": name, "problem": PROBLEM, "episodes": EPISODES, "share": values} for name, values in shares.items()
    ]
    show(analysis.lacks(rows))
    if not quick:
        record("learning", "lacks", rows, program="lacks")


if __name__ == "__main__":
    main()
