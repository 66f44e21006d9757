"""Hits per held-out household: the policy that was learned by printing coupons, against the best fixed brand.

python -m benchmarks.coupons.run [--quick]

Both are chosen on the training households. The adaptive policy sees nothing but states and rewards of its own coupons;
the fixed brand is the one bought most often by the training households, which is more than the environment tells.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from examples.purchases import make_purchase_env

from benchmarks.cells import show
from benchmarks.coupons import analysis, settings
from benchmarks.record import record
from rewardmix.environments import rollout
from rewardmix.learning import learn


class Fixed:
    """Prints the same brand's coupon always."""

    def __init__(self, brand: int) -> None:
        self.brand = brand

    def start(self, state: int) -> None:
        """Nothing to remember."""

    def act(self, memory: None, rng: np.random.Generator) -> int:
        """The brand."""
        return self.brand

    def observe(self, memory: None, action: int, reward: float, next_state: int) -> None:
        """Nothing to remember."""


def hits(policy: Any, env: Any) -> float:
    """Mean hits over every household of ``env`` in turn."""
    return float(rollout(env, policy, env.num_households, seed=0).returns.mean())


def split(product: str, seed: int, episodes: int) -> dict[str, Any]:
    """Learn on the training households of one random split and try on the others."""
    train = make_purchase_env(product, settings.HORIZON, "train", seed=seed)
    test = make_purchase_env(product, settings.HORIZON, "test", seed=seed)
    begin = time.process_time()
    result = learn(train, num_episodes=episodes, seed=seed, num_resamples=0)
    seconds = time.process_time() - begin
    brand = best_brand(train)
    return {
        "product": product,
        "split": seed,
        "households": test.num_households,
        "learned": hits(result.policy, test),
        "fixed": hits(Fixed(brand), test),
        "brand": test.action_names[brand],
        "cpu_seconds": seconds,
    }


def best_brand(train: Any) -> int:
    """The brand bought most often in the episodes of the training households, each household counted once."""
    # the environment hides its households from a learner; the opponent may know them all
    shares = [np.bincount(history, minlength=train.action_space.n) / len(history) for history in train._histories]
    return int(np.mean(shares, axis=0).argmax())


def main() -> None:
    """All products and splits."""
    quick = "--quick" in sys.argv
    rows = []
    for product in settings.PRODUCTS:
        for seed in range(2 if quick else settings.SPLITS):
            rows.append(split(product, seed, 300 if quick else settings.EPISODES))
            print(product, seed, f"learned {rows[-1]['learned']:.3f} fixed {rows[-1]['fixed']:.3f}", flush=True)
        if not quick:
            record("coupons", "splits", rows)
    show(analysis.households(rows))


if __name__ == "__main__":
    main()
