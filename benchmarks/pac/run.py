"""How often the regret is small, over many random worlds: with a budget, and with the rule that stops by itself.

python -m benchmarks.pac.run [--quick] [--parts budget,rule,strict]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.pac import analysis, settings
from benchmarks.record import Rows, run, table
from rewardmix import problems
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP


def world_of(number: int, sizes: Sequence[tuple[int, int, int]] = settings.SIZES) -> RewardMixingMDP:
    """Model ``number``."""
    states, actions, horizon = sizes[number % len(sizes)]
    return problems.make_model("random", states=states, actions=actions, horizon=horizon, seed=number)


def budget(number: int) -> dict[str, Any]:
    """Regret after a fixed number of episodes, and that of the best Markov policy."""
    truth = learn(world_of(number), num_episodes=settings.EPISODES, seed=number, num_resamples=0).certificate.true_model
    return {"world": number, "regret": truth.regret, "markov": truth.optimal_upper - truth.markov_value}


def rule(number: int) -> dict[str, Any]:
    """Small models and a coarse accuracy."""
    number += settings.FIRST_OF_RULE
    return by_rule(number, world_of(number), settings.ACCURACY)


def strict(number: int) -> dict[str, Any]:
    """Larger models and a finer accuracy: the first round is not enough."""
    number += settings.FIRST_OF_RULE
    return by_rule(number, world_of(number, settings.LARGER), settings.STRICT)


def by_rule(number: int, env: RewardMixingMDP, epsilon: float) -> dict[str, Any]:
    """Regret, and episodes played, when the rule decides when to stop."""
    begin = time.process_time()
    result = learn(env, target_regret=epsilon, failure_prob=settings.FAILURE, seed=number)
    truth, estimate = result.certificate.true_model, result.certificate.bootstrap
    return {
        "world": number,
        "regret": truth.regret,
        "markov": truth.optimal_upper - truth.markov_value,
        "estimated": estimate.mean if estimate else None,
        "episodes": result.num_episodes,
        "cpu_seconds": time.process_time() - begin,
    }


def several(run_one: Callable[[int], dict[str, Any]], count: int) -> Callable[[bool], Iterator[dict[str, Any]]]:
    """A part: so many models."""
    return lambda quick: map(run_one, range(10 if quick else count))


PARTS = {
    "budget": several(budget, settings.MODELS),
    "rule": several(rule, settings.MODELS),
    "strict": several(strict, settings.STRICT_MODELS),
}


def print_rows(part: str, rows: Rows, quick: bool) -> None:
    """Models within the bound."""
    table(["", "bound", "worlds within it", "share", "exact 95 % limits"], analysis.within(part, rows))


if __name__ == "__main__":
    run(__doc__, "pac", PARTS, print_rows)
