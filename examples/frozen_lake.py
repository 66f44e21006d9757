"""Learn in a third-party environment: Gymnasium's FrozenLake, where a hidden type decides which of two goals pays.

Only ``reset`` and ``step`` are used. A hole or the far corner ends an episode, which the learner observes.
"""

import gymnasium

import rewardmix as rm

lake = gymnasium.make("FrozenLake-v1", is_slippery=False, desc=["SFFF", "FFFF", "FFFF", "FFFG"])
near, far = 3, 12  # the two other corners
goals = [lambda s, a, n, r: float(n == near), lambda s, a, n, r: float(n == far)]
env = rm.RewardMixingWrapper(lake, goals, horizon=10)

result = rm.learn(env, num_episodes=1500, seed=0, num_validation_episodes=500)
validation = result.certificate.validation
comparison = rm.compare_planners(result.model)
print(f"planned value in recovered model: {result.plan.lower:.2f} per episode (optimistic)")
print(f"best Markov policy in this model: {comparison.markov_value:.2f}")
print(f"value in 500 validation episodes: {validation.value:.2f} ({validation.lower:.2f} to {validation.upper:.2f})")
print(result.recovery.info.identification_text)
