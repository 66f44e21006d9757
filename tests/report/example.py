"""A whole summary without a learner: a noisy copy of a true model, and counts of uniform play."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rewardmix.evaluation import evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import plan
from rewardmix.policy import uniform
from rewardmix.report import Findings, summarise
from rewardmix.simulation import simulate

CERTIFICATE = {
    "setting": "practical",
    "proved": ["Every pair of state-actions that can meet was seen together in at least 25 episodes."],
    "not_proved": [
        "That the policy is within 0.1 of the best one: the practical setting scales its confidence levels.",
        "Anything about rewards of state-actions that were never visited.",
    ],
    "uncertainty": 0.31,
    "kappa": 0.62,
    "agreement": {"lp": True, "parity": 0.998, "likelihood": True},
    "bootstrap_regret": {"mean": 0.021, "upper": 0.048},
}


def mixed(contexts: int, values: tuple[float, ...], seed: int) -> RewardMixingMDP:
    """Random, sparse moves, several contexts and reward values, some outcomes impossible in some contexts."""
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.full(len(values), 0.7), size=(contexts, 5, 3))
    laws[0, :, 0] = np.eye(len(values))[0]
    transition = np.where(rng.random((5, 3, 5)) < 0.5, rng.random((5, 3, 5)), 0.0)
    transition[:, :, 0] += 0.05
    transition /= transition.sum(axis=-1, keepdims=True)
    return RewardMixingMDP(
        transition, rng.dirichlet(np.ones(5)), rng.dirichlet(np.full(contexts, 3.0)), laws, 6, values
    )


def noisy(model: RewardMixingMDP, seed: int = 1, size: float = 0.02) -> RewardMixingMDP:
    """A model as if it had been recovered."""
    noise = np.random.default_rng(seed).normal(0.0, size, model.laws.shape)
    laws = np.clip(model.laws + noise, 1e-3, None)
    laws /= laws.sum(axis=-1, keepdims=True)
    return replace(model, rewards=laws[..., 1] if model.num_values == 2 else laws)


def summary_of(truth: RewardMixingMDP, title: str = "shop", *, known: bool = True, **more) -> dict:
    """The summary of a pretended run."""
    model = noisy(truth)
    answer, best = plan(model), plan(truth)
    moments = Moments.of(simulate(uniform(truth), truth, 3_000, seed=2))
    radius = 0.04 + 0.02 * np.random.default_rng(3).random(model.rewards.shape)
    intervals = np.clip(model.rewards - radius, 0, 1), np.clip(model.rewards + radius, 0, 1)
    curve = [(k, 1.0 if k < 60 else (60 / k) ** 0.3) for k in np.unique(np.geomspace(1, 3_000, 300).astype(int))]
    value = evaluate(answer.policy, truth).value
    fixed = evaluate(uniform(truth), truth).value
    rows = [
        {"name": "adaptive (this policy)", "role": "adaptive", "value": value, "lower": None, "upper": None},
        {"name": "best fixed policy", "role": "fixed", "value": (value + fixed) / 2, "lower": None, "upper": None},
        {"name": "told the type", "role": "told", "value": best.upper * 1.05, "lower": None, "upper": None},
        {"name": "uniform", "role": "", "value": fixed, "lower": None, "upper": None},
    ]
    true = {"model": truth, "value": value, "regret": max(best.upper - value, 0.0), "share": 0.98} if known else {}
    options = {
        "intervals": intervals,
        "certificate": CERTIFICATE,
        "comparison": {"measured": "exact" if known else "planned", "rows": rows},
        "unanswered": ["Which context is which: their names are ours, the data only tell them apart."],
        "command": f"rewardmix learn {title} --episodes 3000 --seed 0 --out runs/{title}",
        "seed": 0,
    }
    return summarise(Findings(
        title=title, model=model, plan=answer, moments=moments, uncertainty=curve, truth=true,
        **{**options, **more},
    ))  # fmt: skip
