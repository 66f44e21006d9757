"""Plan in a model: a tutor with two types of pupils, who learn best from examples or from exercises.

States are the pupil's levels (new, warm, fluent). A session has six steps, and a solved task is a reward of 1.
"""

import numpy as np

import rewardmix as rm

ADVANCE = [0.3, 0.3, 0.1]  # probability that an action raises the level, equal for both types
transition = np.zeros((3, 3, 3))
for state in range(3):
    for action, prob in enumerate(ADVANCE):
        transition[state, action, min(state + 1, 2)] += prob
        transition[state, action, state] += 1 - prob

solved = np.array(
    [
        [[0.50, 0.10, 0.25], [0.70, 0.20, 0.30], [0.85, 0.35, 0.40]],  # learns from examples
        [[0.10, 0.45, 0.25], [0.15, 0.70, 0.30], [0.30, 0.90, 0.40]],  # learns from exercises
    ]
)
model = rm.RewardMixingMDP(
    transition,
    initial=[1.0, 0.0, 0.0],
    weights=[0.5, 0.5],
    rewards=solved,
    horizon=6,
    state_names=("new", "warm", "fluent"),
    action_names=("example", "exercise", "quiz"),
)

plan = rm.plan(model, gap=1e-4)
print(f"optimum: between {plan.lower:.4f} and {plan.upper:.4f} solved tasks per session")
for row in rm.compare_planners(model).table:
    print(f"  {row.name:24} {row.value:.4f}")

memory = plan.policy.start(0)
rng = np.random.default_rng(0)
print("a session in which the first two tasks are not solved:")
for step, reward in enumerate([0.0, 0.0, 1.0, 1.0, 1.0, 1.0]):
    action = plan.policy.act(memory, rng)
    print(f"  step {step + 1}: {model.action_names[action]:9} -> {'solved' if reward else 'not solved'}")
    memory = plan.policy.observe(memory, action, reward, min(step // 2, 2))
