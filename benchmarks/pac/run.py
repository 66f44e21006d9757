"""How often the regret is small, over many random worlds: with a budget, and with the rule that stops by itself.

python -m benchmarks.pac.run [--quick] [--parts budget,rule]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks.pac import analysis, settings
from benchmarks.record import record
from rewardmix import problems
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP


def world_of(number: int) -> RewardMixingMDP:
    """World ``number``."""
    states, actions, horizon = settings.SIZES[number % len(settings.SIZES)]
    return problems.make("random", states=states, actions=actions, horizon=horizon, seed=number)


def budget(number: int) -> dict[str, Any]:
    """Regret after a fixed number of episodes, and that of the best Markov policy."""
    truth = learn(world_of(number), episodes=settings.EPISODES, seed=number, resamples=0).certificate.truth
    return {"world": number, "regret": truth.regret, "markov": truth.best_upper - truth.markov}


def rule(number: int) -> dict[str, Any]:
    """Regret, and episodes played, when the rule decides when to stop."""
    begin = time.process_time()
    found = learn(world_of(number), accuracy=settings.ACCURACY, failure=settings.FAILURE, seed=number)
    truth, estimate = found.certificate.truth, found.certificate.bootstrap
    return {
        "world": number,
        "regret": truth.regret,
        "markov": truth.best_upper - truth.markov,
        "estimated": estimate.mean if estimate else None,
        "episodes": found.exploration.episodes,
        "cpu_seconds": time.process_time() - begin,
    }


def main() -> None:
    """The parts asked for; each writes its file every 20 worlds."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--parts", default="budget,rule")
    given = asked.parse_args()
    known = {"budget": (budget, settings.MODELS), "rule": (rule, settings.RULE_MODELS)}
    for part in given.parts.split(","):
        call, count = known[part]
        rows: list[dict[str, Any]] = []
        for number in range(10 if given.quick else count):
            rows.append(call(number))
            if not given.quick and ((number + 1) % 20 == 0 or number + 1 == count):
                record("pac", {"rows": rows}, name=part)
        analysis.show(part, rows)
    if not given.quick:
        analysis.draw()


if __name__ == "__main__":
    main()
