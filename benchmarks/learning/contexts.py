"""Six types: whether ``learn`` ends in time, and makes the same plan again.

python -m benchmarks.learning.contexts [--contexts 6] [--episodes 2000]

Prints the CPU seconds of each of two runs with one seed, and whether the stored plans are equal to the last bit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from benchmarks.record import table
from rewardmix import learn, problems
from rewardmix.io import save

MOST_SECONDS = 60.0


def run(num_types: int, episodes: int, path: Path) -> list[object]:
    """CPU seconds, what ended planning, the brackets, and a digest of the stored plan."""
    env = problems.make_model("random", states=10, actions=4, horizon=10, num_types=num_types)
    began = time.process_time()
    learned = learn(env, num_episodes=episodes, num_types=num_types, seed=0)
    seconds = time.process_time() - began
    save(path, learned.plan)
    regret = learned.certificate.bootstrap
    assert regret is not None
    reason = learned.plan.info.stop_reason
    digest = sha256(path.read_bytes()).hexdigest()[:16]
    return [round(seconds, 1), reason, learned.plan.gap, regret.mean, regret.gap, digest]


def main() -> None:
    """Two runs of one seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", type=int, default=6)
    parser.add_argument("--episodes", type=int, default=2000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [run(args.contexts, args.episodes, Path(folder) / str(number)) for number in (1, 2)]
    table(["CPU s", "planning ended by", "gap", "bootstrap regret", "left open", "stored plan"], rows)
    print("equal plans:", rows[0][-1] == rows[1][-1], " in time:", all(float(str(r[0])) < MOST_SECONDS for r in rows))


if __name__ == "__main__":
    main()
