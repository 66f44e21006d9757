"""Are types that move differently, and rewards that depend on the next state, found where they are, and only there?

python -m benchmarks.forms.run [--quick] [--parts logs,others,large]

logs: share of the logs of a model in which each of the two is called broken.
others, large: the same in more models in which there is nothing to be found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.forms import analysis, settings
from benchmarks.record import run
from rewardmix.diagnostics.assumption_tests import ASSUMPTIONS, check_form


def logs(quick: bool) -> Iterator[dict[str, Any]]:
    """The models of the first part."""
    return alarms_in(settings.WORLDS, quick)


def others(quick: bool) -> Iterator[dict[str, Any]]:
    """Those of the second."""
    return alarms_in(settings.OTHERS, quick)


def large(quick: bool) -> Iterator[dict[str, Any]]:
    """Those of the third."""
    return alarms_in(settings.LARGE, quick)


def alarms_in(envs: dict[str, Any], quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each model and size."""
    for name, (planted, make) in envs.items():
        for size in settings.SIZES:
            number = 2 if quick else settings.LOGS
            begin, alarms, gains = time.process_time(), dict.fromkeys(("transition types", "next state"), 0), []
            for seed in range(number):
                gain, answers = check_form(make(size, seed), seed)
                gains.append(gain)
                for name, (p_value, _) in answers.items():
                    alarms[name] += p_value * len(ASSUMPTIONS) < settings.LEVEL
            known_gains = [gain for gain in gains if not math.isnan(gain)]
            yield {
                "world": name,
                "planted": planted,
                "episodes": size,
                "logs": number,
                "broken": {name: count / number for name, count in alarms.items()},
                "gain": sum(known_gains) / len(known_gains) if known_gains else None,
                "seconds": (time.process_time() - begin) / number,
            }


if __name__ == "__main__":
    run(__doc__, "forms", {"logs": logs, "others": others, "large": large}, analysis.print_rows)
