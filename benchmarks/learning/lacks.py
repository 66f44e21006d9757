"""What exploration alone lacks: the same explorations, with a part of the truth put in; and what refinement gives.

python -m benchmarks.learning.lacks [--quick] [--large]

The normalized score for each part that is told, on one problem at one budget; ``--large``: of all that
``learn`` plays in models of many states.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

from benchmarks.cells import show
from benchmarks.learning import analysis, settings
from benchmarks.record import record
from rewardmix import Episodes, RewardMixingMDP, evaluate, plan, problems, recover, recovery
from rewardmix.learning import LearnResult, learn
from rewardmix.planning import default_max_operations
from rewardmix.recovery.bootstrap import model_to_mixture
from rewardmix.recovery.evidence import RecoverySettings, make_recovery_data
from rewardmix.recovery.likelihood import e_step, m_step

PROBLEM, EPISODES = "random (10,3,8)", 2000
PRIORS = (1.0, 2.0, 3.0)
REFINED = "nothing, but half of the episodes are refinement"

Change = Callable[[LearnResult, RewardMixingMDP], RewardMixingMDP]


def with_moves(learned: LearnResult, env: RewardMixingMDP) -> RewardMixingMDP:
    """The recovered rewards and weights, the true transitions."""
    return replace(learned.model, transition=env.transition, initial=env.initial)


def with_rewards(learned: LearnResult, env: RewardMixingMDP) -> RewardMixingMDP:
    """The recovered transitions, the true rewards and weights."""
    return replace(learned.model, rewards=env.rewards, weights=env.weights)


def with_weights(learned: LearnResult, env: RewardMixingMDP) -> RewardMixingMDP:
    """Recovered anew, told the weights in the order of the estimated types."""
    near = recovery.align_types(env, learned.model)
    return recover(episodes_of(learned), weights=near.weights).model


def with_prior(prior: float) -> Change:
    """Recovered anew with another pseudocount."""
    return lambda learned, env: recover(episodes_of(learned), pseudocount=prior).model


def episodes_of(learned: LearnResult) -> Episodes:
    """All episodes of the exploration."""
    episodes = learned.exploration.episodes
    assert episodes is not None
    return episodes


CHANGES: dict[str, Change] = {
    "nothing": lambda learned, env: learned.model,
    "the moves": with_moves,
    "the rewards and weights": with_rewards,
    "the weights": with_weights,
    **{f"pseudo-count {prior:g}": with_prior(prior) for prior in PRIORS},
}


def with_types(learned: LearnResult, env: RewardMixingMDP) -> RewardMixingMDP:
    """Rewards counted as if it were known which type each episode is of, as far as the true model tells."""
    near = recovery.align_types(env, learned.model)
    explored, adaptive_episodes = episodes_of(learned), learned.refinement_episodes
    evidence = make_recovery_data(explored, adaptive_episodes)
    assert evidence.patterns is not None
    center, prior = evidence.prior_mean(evidence.patterns, RecoverySettings()), evidence.pseudocount(RecoverySettings())
    mixture = m_step(e_step(evidence.patterns, model_to_mixture(near, explored)), center, prior)
    return replace(learned.model, rewards=mixture.probs[..., 1].reshape(near.rewards.shape), weights=mixture.weights)


LARGE_CHANGES: dict[str, Change] = {
    "nothing": lambda learned, env: learned.model,
    "the moves": with_moves,
    "the types of the episodes": with_types,
    "the rewards and weights": with_rewards,
}


def large(quick: bool) -> None:
    """Models of many states."""
    rows = []
    for states in (300,) if quick else (300, 1000):
        shares: dict[str, list[float]] = {name: [] for name in LARGE_CHANGES}
        for seed in range(1 if quick else 3):
            env = problems.make_model("random", states=states, actions=4, horizon=10, next_states=2, seed=seed)
            learned = learn(env, num_episodes=settings.LARGE_BUDGET, seed=seed, num_resamples=0)
            truth = learned.certificate.true_model
            assert truth is not None
            for name, change in LARGE_CHANGES.items():
                model = change(learned, env)
                value = evaluate(plan(model, gap=5e-3, max_operations=default_max_operations(model)).policy, env).value
                shares[name].append(round(replace(truth, policy_value=value).normalized_score, 6))
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
    problem, options = settings.PROBLEMS[PROBLEM]
    env = problems.make_model(problem, **options)
    shares: dict[str, list[float]] = {name: [] for name in (*CHANGES, REFINED)}
    for seed in range(2 if quick else settings.SEEDS):
        learned = learn(env, num_episodes=EPISODES, seed=seed, num_resamples=0, refinement_fraction=0)
        truth = learned.certificate.true_model
        refined = learn(env, num_episodes=EPISODES, seed=seed, num_resamples=0).certificate.true_model
        assert truth is not None
        assert refined is not None
        shares[REFINED].append(round(refined.normalized_score, 6))
        for name, change in CHANGES.items():
            value = evaluate(plan(change(learned, env)).policy, env).value
            shares[name].append(round(replace(truth, policy_value=value).normalized_score, 6))
    rows = [
        {"told": name, "problem": PROBLEM, "episodes": EPISODES, "share": values} for name, values in shares.items()
    ]
    show(analysis.lacks(rows))
    if not quick:
        record("learning", "lacks", rows, program="lacks")


if __name__ == "__main__":
    main()
