"""Learning and planning in reward-mixing MDPs: episodic MDPs with one of several hidden reward functions.

In a reward-mixing MDP (a latent MDP with shared transitions, or a POMDP with a static hidden state) every episode draws
a hidden type m with probability w_m, and rewards follow p_m(z | s, a). The package explores without rewards, recovers
the types from pairs of rewards of one episode, and plans with beliefs over types:

    RewardMixingMDP -> environment -> Episodes -> Moments -> ConfidenceSet -> RewardMixingMDP -> Plan -> value

Names are imported on first use, which keeps ``import rewardmix`` fast.

Reference: Kwon, Efroni, Caramanis and Mannor (2021), Reinforcement Learning in Reward-Mixing MDPs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rewardmix._core.import_hook import call_after_import
from rewardmix._version import __version__

if TYPE_CHECKING:
    from rewardmix import (
        belief,
        diagnostics,
        environments,
        exploration,
        interop,
        learning,
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
    from rewardmix.diagnostics import Diagnostics
    from rewardmix.environments import (
        PreviousActionRewardObservation,
        RewardMixingEnv,
        RewardMixingVectorEnv,
        RewardMixingWrapper,
    )
    from rewardmix.episodes import Episodes
    from rewardmix.evaluation import Evaluation, evaluate
    from rewardmix.exploration import ExplorationResult, explore
    from rewardmix.io import load, save
    from rewardmix.learning import Certificate, LearnResult, learn
    from rewardmix.logs import (
        FitResult,
        RunComparison,
        compare_runs,
        diagnose,
        fit,
        infer_types,
        read_log,
        write_log,
    )
    from rewardmix.model import RewardMixingMDP
    from rewardmix.moments import Moments
    from rewardmix.online import OnlineResult, PosteriorSamplingAgent, learn_online
    from rewardmix.planning import (
        ExactPlan,
        Plan,
        PlannerComparison,
        compare_planners,
        plan,
        plan_exact,
        plan_markov,
        plan_oracle,
    )
    from rewardmix.policy import (
        BeliefPolicy,
        Controller,
        EpsilonGreedyPolicy,
        MarkovPolicy,
        Policy,
        markov_policy,
        uniform_policy,
    )
    from rewardmix.problems import make_env, make_model
    from rewardmix.recovery import ConfidenceSet, RecoveryResult, TypeSelection, select_num_types
    from rewardmix.recovery.confidence_set import confidence_set
    from rewardmix.recovery.ml_recovery import recover
    from rewardmix.simulation import simulate
    from rewardmix.statements import Statement
    from rewardmix.type_profiles import TypeIdentification, TypeProfile

_NAMES = {
    "_core.errors": ("InputError",),
    "model": ("RewardMixingMDP",),
    "policy": (
        "Policy",
        "MarkovPolicy",
        "Controller",
        "BeliefPolicy",
        "EpsilonGreedyPolicy",
        "uniform_policy",
        "markov_policy",
    ),
    "episodes": ("Episodes",),
    "environments": (
        "RewardMixingEnv",
        "RewardMixingVectorEnv",
        "RewardMixingWrapper",
        "PreviousActionRewardObservation",
    ),
    "problems": ("make_env", "make_model"),
    "simulation": ("simulate",),
    "evaluation": ("Evaluation", "evaluate"),
    "planning": (
        "Plan",
        "plan",
        "ExactPlan",
        "plan_exact",
        "plan_markov",
        "plan_oracle",
        "PlannerComparison",
        "compare_planners",
    ),
    "moments": ("Moments",),
    "exploration": ("ExplorationResult", "explore"),
    "recovery": ("ConfidenceSet", "confidence_set", "RecoveryResult", "recover", "TypeSelection", "select_num_types"),
    "diagnostics": ("Diagnostics",),
    "learning": ("Certificate", "LearnResult", "learn"),
    "statements": ("Statement",),
    "type_profiles": ("TypeIdentification", "TypeProfile"),
    "online": ("PosteriorSamplingAgent", "OnlineResult", "learn_online"),
    "logs": (
        "read_log",
        "write_log",
        "FitResult",
        "fit",
        "diagnose",
        "infer_types",
        "RunComparison",
        "compare_runs",
    ),
    "io": ("save", "load"),
}
_MODULES = (
    "theory", "belief", "environments", "problems", "planning", "exploration", "recovery", "diagnostics", "learning",
    "online", "logs", "interop", "report", "plot",
)  # fmt: skip

HOME = {name: home for home, names in _NAMES.items() for name in names} | dict.fromkeys(_MODULES, "")
"""Public name -> the module that defines it (empty for a module)."""

__all__ = [
    "BeliefPolicy",
    "Certificate",
    "ConfidenceSet",
    "Controller",
    "Diagnostics",
    "Episodes",
    "EpsilonGreedyPolicy",
    "Evaluation",
    "ExactPlan",
    "ExplorationResult",
    "FitResult",
    "InputError",
    "LearnResult",
    "MarkovPolicy",
    "Moments",
    "OnlineResult",
    "Plan",
    "PlannerComparison",
    "Policy",
    "PosteriorSamplingAgent",
    "PreviousActionRewardObservation",
    "RecoveryResult",
    "RewardMixingEnv",
    "RewardMixingMDP",
    "RewardMixingVectorEnv",
    "RewardMixingWrapper",
    "RunComparison",
    "Statement",
    "TypeIdentification",
    "TypeProfile",
    "TypeSelection",
    "__version__",
    "belief",
    "compare_planners",
    "compare_runs",
    "confidence_set",
    "diagnose",
    "diagnostics",
    "environments",
    "evaluate",
    "exploration",
    "explore",
    "fit",
    "infer_types",
    "interop",
    "learn",
    "learn_online",
    "learning",
    "load",
    "logs",
    "make_env",
    "make_model",
    "markov_policy",
    "online",
    "plan",
    "plan_exact",
    "plan_markov",
    "plan_oracle",
    "planning",
    "plot",
    "problems",
    "read_log",
    "recover",
    "recovery",
    "report",
    "save",
    "select_num_types",
    "simulate",
    "theory",
    "uniform_policy",
    "write_log",
]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'rewardmix' has no attribute {name!r}")
    home = HOME[name]
    module = importlib.import_module(f"rewardmix.{home or name}")
    # Cached in the module's namespace, so that Python calls __getattr__ once per name.
    value = globals()[name] = getattr(module, name) if home else module
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


# Importing Gymnasium is slow and models do not need it. The environments are registered when the user imports it, and
# not before.
call_after_import("gymnasium", "rewardmix.problems", "register")
