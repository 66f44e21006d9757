"""Episodes per CPU-second and thread: compiled kernels against NumPy and against the step-by-step environment.

python -m benchmarks.simulation.run [--quick]
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.record import cpu_seconds, record, table
from rewardmix import make_env, problems, simulate, uniform_policy
from rewardmix.environments import RewardMixingVectorEnv, rollout

TARGET = 3e6
SIZES = [(3, 2, 4), (10, 4, 8), (50, 5, 10)]


def numpy_episodes(model, count: int) -> None:
    """The same episodes with the vectorised environment: one NumPy call a step for all of them."""
    env = RewardMixingVectorEnv(model, count, autoreset_mode="Disabled")
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(model.horizon):
        env.step(rng.integers(model.num_actions, size=count))


def main() -> None:
    quick = "--quick" in sys.argv
    count, few = (200_000, 300) if quick else (1_000_000, 2000)
    rows = []
    for states, actions, horizon in SIZES:
        model = problems.make_model("random", states=states, actions=actions, horizon=horizon)
        policy = uniform_policy(model)
        simulate(policy, model, 10)
        compiled = count / cpu_seconds(lambda m=model, p=policy: simulate(p, m, count), 7)
        vectorised = 20_000 / cpu_seconds(lambda m=model: numpy_episodes(m, 20_000), 3)
        stepwise = few / cpu_seconds(lambda m=model, p=policy: rollout(make_env(m), p, few), 3)
        measured = {"compiled": compiled, "numpy": vectorised, "gymnasium": stepwise}
        rows.append({"size": [states, actions, horizon], **measured, "ratio_to_numpy": compiled / vectorised})
    table(["(S, A, H)", "compiled", "NumPy", "Gymnasium", "compiled / NumPy"], [list(row.values()) for row in rows])
    reached = next(row["compiled"] for row in rows if row["size"] == [10, 4, 8])
    print(f"target S=10 A=4 H=8: {TARGET:.3g} episodes per CPU-second; reached {reached:.3g}: {reached / TARGET:.2f}x")
    if not quick:
        record("simulation", "sizes", rows)


if __name__ == "__main__":
    main()
