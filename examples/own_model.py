"""A model of one's own: a tutor with two kinds of pupils, who learn best from examples or from exercises.

States are how far the pupil is (new, warm, fluent); each session has six steps; a reward is a solved task.
"""

import numpy as np

import rewardmix as rm

ADVANCE = [0.3, 0.3, 0.1]  # how likely each action moves a pupil on, whoever he is
transition = np.zeros((3, 3, 3))
for state in range(3):
    for action, chance in enumerate(ADVANCE):
        transition[state, action, min(state + 1, 2)] += chance
        transition[state, action, state] += 1 - chance

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
print(f"best policy: between {plan.lower:.4f} and {plan.upper:.4f} solved tasks a session")
for standing in rm.compare(model).table:
    print(f"  {standing.name:24} {standing.value:.4f}")

memory = plan.policy.start(0)
rng = np.random.default_rng(0)
print("a session with a pupil who solves nothing at first:")
for step, reward in enumerate([0.0, 0.0, 1.0, 1.0, 1.0, 1.0]):
    action = plan.policy.act(memory, rng)
    print(f"  step {step + 1}: {model.action_names[action]:9} -> {'solved' if reward else 'not solved'}")
    memory = plan.policy.observe(memory, action, reward, min(step // 2, 2))
