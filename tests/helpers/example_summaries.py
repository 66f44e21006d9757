"""A whole summary without a learner: a noisy copy of a true model, and counts of uniform play."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rewardmix.evaluation import evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import plan
from rewardmix.policy import uniform_policy
from rewardmix.report import ReportData, build_summary
from rewardmix.simulation import simulate

CERTIFICATE = {
    "bonus": "practical",
    "proved": ["Every possible pair of state-actions occurs in at least 25 episodes."],
    "unproved": [
        "A regret of at most 0.1: the practical bonus scales its confidence levels.",
        "The rewards of state-actions that were never visited.",
    ],
    "uncertainty": 0.31,
    "radius_inflation": 0.62,
    "statement_checks": {"program": True, "parities": 0.998, "likelihood": True},
    "bootstrap_regret": {"mean": 0.021, "upper": 0.048},
}


def random_sparse_model(num_types: int, values: tuple[float, ...], seed: int) -> RewardMixingMDP:
    """Random, sparse transitions, several types and reward values, some rewards impossible for some types."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(len(values), 0.7), size=(num_types, 5, 3))
    probs[0, :, 0] = np.eye(len(values))[0]
    transition = np.where(rng.random((5, 3, 5)) < 0.5, rng.random((5, 3, 5)), 0.0)
    transition[:, :, 0] += 0.05
    transition /= transition.sum(axis=-1, keepdims=True)
    return RewardMixingMDP(
        transition, rng.dirichlet(np.ones(5)), rng.dirichlet(np.full(num_types, 3.0)), probs, 6, values
    )


def perturb_model(model: RewardMixingMDP, seed: int = 1, size: float = 0.02) -> RewardMixingMDP:
    """A model as if it had been recovered."""
    noise = np.random.default_rng(seed).normal(0.0, size, model.reward_probs.shape)
    probs = np.clip(model.reward_probs + noise, 1e-3, None)
    probs /= probs.sum(axis=-1, keepdims=True)
    return replace(model, rewards=probs[..., 1] if model.num_values == 2 else probs)


def make_summary(truth: RewardMixingMDP, title: str = "shop", *, is_true_model_known: bool = True, **more) -> dict:
    """Build the summary of a run without learning."""
    model = perturb_model(truth)
    answer, best = plan(model), plan(truth)
    moments = Moments.from_episodes(simulate(uniform_policy(truth), truth, 3_000, seed=2))
    radius = 0.04 + 0.02 * np.random.default_rng(3).random(model.rewards.shape)
    intervals = np.clip(model.rewards - radius, 0, 1), np.clip(model.rewards + radius, 0, 1)
    curve = [(k, 1.0 if k < 60 else (60 / k) ** 0.3) for k in np.unique(np.geomspace(1, 3_000, 300).astype(int))]
    value = evaluate(answer.policy, truth).value
    uniform = evaluate(uniform_policy(truth), truth).value
    rows = [
        {"name": "this policy", "role": "adaptive", "value": value, "lower": None, "upper": None},
        {"name": "best Markov policy", "role": "markov", "value": (value + uniform) / 2, "lower": None, "upper": None},
        {"name": "oracle (knows the type)", "role": "oracle", "value": best.upper * 1.05, "lower": None, "upper": None},
        {"name": "uniform", "role": "", "value": uniform, "lower": None, "upper": None},
    ]
    regret = max(best.upper - value, 0.0)
    known = {"model": truth, "value": value, "regret": regret, "normalized_score": 0.98}
    options = {
        "reward_intervals": intervals,
        "certificate": CERTIFICATE,
        "comparison": {"evidence_key": "exact" if is_true_model_known else "planned", "rows": rows},
        "open_questions": ["The order of the types is arbitrary."],
        "command": f"rewardmix learn {title} --num-episodes 3000 --seed 0 --out runs/{title}",
        "seed": 0,
    }
    return build_summary(ReportData(
        title=title, model=model, plan=answer, moments=moments, uncertainty=curve,
        true_model=known if is_true_model_known else {},
        **{**options, **more},
    ))  # fmt: skip
