"""Learn to act when every episode secretly has one of several reward functions.

    RewardMixingMDP -> environment -> Episodes -> Moments -> ConfidenceSet -> RewardMixingMDP -> Plan(policy) -> value

Names are imported when they are first used, so that ``import rewardmix`` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rewardmix._version import __version__
from rewardmix.arrival import when_imported

if TYPE_CHECKING:
    from rewardmix import belief, environments, problems
    from rewardmix._errors import InputError
    from rewardmix.environments import MixRewards, PreviousActionReward
    from rewardmix.episodes import Episodes
    from rewardmix.evaluation import Evaluation, evaluate
    from rewardmix.io import load, save
    from rewardmix.model import RewardMixingMDP
    from rewardmix.planning import Comparison, Plan, compare, plan, plan_exact
    from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy, Policy, markov, uniform
    from rewardmix.problems import make_env
    from rewardmix.simulation import simulate

HOME = {
    "InputError": "_errors",
    "RewardMixingMDP": "model",
    "belief": "",
    "Policy": "policy",
    "MarkovPolicy": "policy",
    "Controller": "policy",
    "BeliefPolicy": "policy",
    "uniform": "policy",
    "markov": "policy",
    "Episodes": "episodes",
    "environments": "",
    "MixRewards": "environments",
    "PreviousActionReward": "environments",
    "problems": "",
    "make_env": "problems",
    "simulate": "simulation",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "Plan": "planning",
    "plan": "planning",
    "plan_exact": "planning",
    "Comparison": "planning",
    "compare": "planning",
    "save": "io",
    "load": "io",
}
"""Public name -> the module that defines it ("": it is a module), in the order of the flow."""

__all__ = [
    "BeliefPolicy",
    "Comparison",
    "Controller",
    "Episodes",
    "Evaluation",
    "InputError",
    "MarkovPolicy",
    "MixRewards",
    "Plan",
    "Policy",
    "PreviousActionReward",
    "RewardMixingMDP",
    "__version__",
    "belief",
    "compare",
    "environments",
    "evaluate",
    "load",
    "make_env",
    "markov",
    "plan",
    "plan_exact",
    "problems",
    "save",
    "simulate",
    "uniform",
]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'rewardmix' has no attribute {name!r}")
    home = HOME[name]
    module = importlib.import_module(f"rewardmix.{home or name}")
    value = globals()[name] = getattr(module, name) if home else module
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


when_imported("gymnasium", "rewardmix.problems", "register")
