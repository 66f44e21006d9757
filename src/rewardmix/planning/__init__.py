"""Plan in a known model: near-optimal history-dependent policies with certified bounds, and baselines to compare with.

Use ``plan``: belief-space value iteration, for any number of types. ``plan_exact`` computes the optimum of small models
with two types. ``compare_planners`` lists the plan, the baselines and the oracle side by side.
"""

from rewardmix.planning.baselines import (
    Baseline,
    ComparisonRow,
    PlannerComparison,
    compare_planners,
    compare_with_baselines,
    plan_greedy,
    plan_markov,
    plan_oracle,
    plan_qmdp,
    plan_uniform,
)
from rewardmix.planning.exact_planner import ExactPlan, plan_exact
from rewardmix.planning.plan_result import AlphaVectors, Plan, PlanInfo, PlanProgress
from rewardmix.planning.planner import default_max_operations, plan

__all__ = [
    "AlphaVectors",
    "Baseline",
    "ComparisonRow",
    "ExactPlan",
    "Plan",
    "PlanInfo",
    "PlanProgress",
    "PlannerComparison",
    "compare_planners",
    "compare_with_baselines",
    "default_max_operations",
    "plan",
    "plan_exact",
    "plan_greedy",
    "plan_markov",
    "plan_oracle",
    "plan_qmdp",
    "plan_uniform",
]
