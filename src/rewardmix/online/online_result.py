"""Hold the result of ``learn_online``: returns, regret and the learner."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rewardmix._core.checks import Floats, Ints, raise_input_error
from rewardmix.model import RewardMixingMDP, set_type_names
from rewardmix.online.agent import PosteriorSamplingAgent
from rewardmix.planning import Plan
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.results import ResultMixin


@dataclass(frozen=True, eq=False)
class OnlineResult(ResultMixin):
    """Hold the result of ``learn_online``.

    Attributes:
        agent: Learner, which can continue.
        policy: Policy to play if nothing more is to be learned.
        episode_returns: (K,) return of each episode.
        cumulative_regret: (K,) expected regret of all episodes up to each, exact in a model; ``None`` in an
            environment.
        policy_start_episodes: (D,) episode at which each set of policies began.
        policy_values: (D,) expected return per episode of each set, exact in a model; ``None`` in an environment.
        optimal_value: Value of an optimal policy; ``None`` in an environment.
        type_weights: (D, M) estimated type weights at these times, the largest first; ``None`` for other learners.
        type_names: Names of the types, that of the most frequent first.

    Examples:
        >>> import rewardmix as rm
        >>> result = rm.learn_online("probe", num_episodes=100, seed=0)
        >>> result.episode_returns.shape, result.total_reward
        ((100,), 382.0)
        >>> round(rm.evaluate(result.policy, rm.make_model("probe")).value, 2)
        4.46
    """

    agent: Any
    policy: Controller | MarkovPolicy
    episode_returns: Floats
    cumulative_regret: Floats | None
    policy_start_episodes: Ints
    policy_values: Floats | None
    optimal_value: float | None
    type_weights: Floats | None = None
    type_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return mean reward, number of episodes and number of policy changes on one line."""
        best = "" if self.optimal_value is None else f" of {self.optimal_value:.4f} possible"
        mean = f"{self.total_reward / max(self.episode_returns.size, 1):.4f}{best}"
        counts = f"{self.episode_returns.size} episodes, {self.num_policy_changes} policy changes"
        return f"OnlineResult({mean} per episode, {counts}, {type(self.agent).__name__})"

    @cached_property
    def plan(self) -> Plan:
        """Plan of the final policy, with its bracket in the agent's current model."""
        if not isinstance(self.agent, PosteriorSamplingAgent):
            raise_input_error(
                "result",
                f"the result of a {type(self.agent).__name__}",
                "the result of a PosteriorSamplingAgent, which has a model and a plan",
            )
        plan = self.agent.plan()
        return plan.with_type_names(self.type_names) if self.type_names else plan

    @property
    def model(self) -> RewardMixingMDP:
        """Model that the agent considers most likely now."""
        return self.plan.model

    def with_type_names(self, names: Sequence[str]) -> OnlineResult:
        """Return a copy with these type names; an empty sequence removes the names."""
        return dataclasses.replace(self, type_names=set_type_names(self.model, names).type_names)

    @property
    def num_policy_changes(self) -> int:
        """Number of policy changes."""
        return int(self.policy_start_episodes.size) - 1

    @property
    def total_reward(self) -> float:
        """Sum of all rewards."""
        return float(self.episode_returns.sum())
