"""Learn a policy for the synthetic shop with two hidden user types, and compare it with simpler policies."""

import rewardmix as rm

result = rm.learn("shop", num_episodes=2000, seed=0)
truth = result.certificate.true_model
print(f"best Markov policy: {truth.markov_value:.2f} clicks per session")
print(f"learned policy:     {truth.policy_value:.2f}")
print(f"optimum:            {truth.optimal_lower:.2f} to {truth.optimal_upper:.2f}")
print(f"normalized score:   {truth.normalized_score:.1%} (0 % = best Markov policy, 100 % = optimum)")
