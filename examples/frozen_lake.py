"""A third-party environment: Gymnasium's FrozenLake, where one of two goals pays today and nobody says which.

Only reset and step are used. The lake ends an episode at a hole or at the far corner; the learner finds out.
"""

import gymnasium

import rewardmix as rm

lake = gymnasium.make("FrozenLake-v1", is_slippery=False, desc=["SFFF", "FFFF", "FFFF", "FFFG"])
near, far = 3, 12  # the two other corners
goals = [lambda s, a, n, r: float(n == near), lambda s, a, n, r: float(n == far)]
env = rm.MixRewards(lake, goals, horizon=10)

learned = rm.learn(env, episodes=1500, seed=0, validate=500)
played = learned.certificate.validation
planned = rm.compare(learned.model)
print(f"planned in the recovered lake: {learned.plan.lower:.2f} rewards an episode (optimistic)")
print(f"best that does not adapt:      {planned.markov:.2f}")
print(f"tried in 500 fresh episodes:   {played.value:.2f} ({played.lower:.2f} to {played.upper:.2f})")
print(learned.recovery.info.not_identified)
