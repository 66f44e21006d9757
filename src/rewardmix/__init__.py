"""Learn to act when every episode secretly has one of several reward functions.

    RewardMixingMDP -> environment -> Episodes -> Moments -> ConfidenceSet -> RewardMixingMDP -> Plan(policy) -> value

Names are imported when they are first used, so that ``import rewardmix`` is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rewardmix._core.import_hook import when_imported
from rewardmix._version import __version__

if TYPE_CHECKING:
    from rewardmix import (
        belief,
        checkup,
        environments,
        exploration,
        interop,
        logs,
        online,
        planning,
        plot,
        problems,
        recovery,
        report,
        theory,
    )
    from rewardmix._core.errors import InputError
    from rewardmix.checkup import Checkup
    from rewardmix.environments import MixRewards, PreviousActionReward
    from rewardmix.episodes import Episodes
    from rewardmix.evaluation import Evaluation, evaluate
    from rewardmix.exploration import Exploration, explore
    from rewardmix.io import load, save
    from rewardmix.learning import Learned, learn
    from rewardmix.logs import Fitted, check, compare_runs, fit, posterior_types
    from rewardmix.model import RewardMixingMDP
    from rewardmix.moments import Moments
    from rewardmix.online import Agent, Earned, earn
    from rewardmix.planning import Comparison, Plan, compare, plan, plan_exact
    from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy, Policy, markov, uniform
    from rewardmix.problems import make_env
    from rewardmix.recovery import ConfidenceSet, Recovery, choose_contexts
    from rewardmix.recovery.confidence_set import confidence_set
    from rewardmix.recovery.recover import recover
    from rewardmix.simulation import simulate

_NAMES = {
    "_core.errors": ("InputError",),
    "model": ("RewardMixingMDP",),
    "policy": ("Policy", "MarkovPolicy", "Controller", "BeliefPolicy", "uniform", "markov"),
    "episodes": ("Episodes",),
    "environments": ("MixRewards", "PreviousActionReward"),
    "problems": ("make_env",),
    "simulation": ("simulate",),
    "evaluation": ("Evaluation", "evaluate"),
    "planning": ("Plan", "plan", "plan_exact", "Comparison", "compare"),
    "moments": ("Moments",),
    "exploration": ("Exploration", "explore"),
    "recovery": ("ConfidenceSet", "confidence_set", "Recovery", "recover", "choose_contexts"),
    "checkup": ("Checkup",),
    "learning": ("Learned", "learn"),
    "online": ("Agent", "Earned", "earn"),
    "logs": ("Fitted", "fit", "check", "posterior_types", "compare_runs"),
    "io": ("save", "load"),
}
_MODULES = (
    "theory", "belief", "environments", "problems", "planning", "exploration", "recovery", "checkup", "online", "logs",
    "interop", "report", "plot",
)  # fmt: skip

HOME = {name: home for home, names in _NAMES.items() for name in names} | dict.fromkeys(_MODULES, "")
"""Public name -> the module that has it ("": it is a module)."""

__all__ = [
    "Agent",
    "BeliefPolicy",
    "Checkup",
    "Comparison",
    "ConfidenceSet",
    "Controller",
    "Earned",
    "Episodes",
    "Evaluation",
    "Exploration",
    "Fitted",
    "InputError",
    "Learned",
    "MarkovPolicy",
    "MixRewards",
    "Moments",
    "Plan",
    "Policy",
    "PreviousActionReward",
    "Recovery",
    "RewardMixingMDP",
    "__version__",
    "belief",
    "check",
    "checkup",
    "choose_contexts",
    "compare",
    "compare_runs",
    "confidence_set",
    "earn",
    "environments",
    "evaluate",
    "exploration",
    "explore",
    "fit",
    "interop",
    "learn",
    "load",
    "logs",
    "make_env",
    "markov",
    "online",
    "plan",
    "plan_exact",
    "planning",
    "plot",
    "posterior_types",
    "problems",
    "recover",
    "recovery",
    "report",
    "save",
    "simulate",
    "theory",
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
