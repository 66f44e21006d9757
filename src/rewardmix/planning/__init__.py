"""Planning in a known model: the best policy that may use the whole history, with a certified gap."""

from rewardmix.planning.alpha import AlphaVectors
from rewardmix.planning.planner import plan
from rewardmix.planning.result import Plan, PlanInfo, Round

__all__ = ["AlphaVectors", "Plan", "PlanInfo", "Round", "plan"]
