"""Planning in a known model: the best policy that may use the whole history, with a certified gap."""

from rewardmix.planning.baselines import (
    Baseline,
    Comparison,
    Standing,
    compare,
    compare_plan,
    plan_greedy,
    plan_markov,
    plan_qmdp,
    plan_told,
    plan_uniform,
)
from rewardmix.planning.exact import ExactPlan, plan_exact
from rewardmix.planning.planner import plan, usual_work
from rewardmix.planning.plans import AlphaVectors, Plan, PlanInfo, Round

__all__ = [
    "AlphaVectors",
    "Baseline",
    "Comparison",
    "ExactPlan",
    "Plan",
    "PlanInfo",
    "Round",
    "Standing",
    "compare",
    "compare_plan",
    "plan",
    "plan_exact",
    "plan_greedy",
    "plan_markov",
    "plan_qmdp",
    "plan_told",
    "plan_uniform",
    "usual_work",
]
