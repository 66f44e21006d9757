"""Baselines for online learning: learners that ``rm.learn_online(agent_factory=...)`` plays like its own agent.

single_type_agent        posterior sampling with one type
CertaintyEquivalence     the optimal policy of the most likely model, without exploration
explore_then_commit      Algorithm 2 for a number of episodes, then the plan in the model that ``recover`` estimates
epsilon_greedy           ``recover`` and plan again as episodes arrive; a fraction of the episodes is played at random
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_count, raise_input_error
from rewardmix._core.int_dtypes import action_dtype, node_dtype
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.episodes import Episodes
from rewardmix.exploration.augmented_mdp import make_pair_plan, replan_pairs
from rewardmix.exploration.bonuses import practical_bonus
from rewardmix.exploration.exploration_kernels import FIRST, SHARED, THIRD, Choices
from rewardmix.online.agent import PosteriorSamplingAgent
from rewardmix.online.agent_settings import AgentSettings
from rewardmix.online.experience import Experience
from rewardmix.online.prequential import fit_mixture
from rewardmix.online.thompson_sampling import make_expected_model, plan_policy, transition_posterior_counts
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.recovery import recover
from rewardmix.recovery.likelihood import Mixture

EXPLORED_GROWTH = 1.1
"""Growth of a count after which exploration is planned again, as in ``explore``."""


RECOVERED_GROWTH = 1.5
"""Growth of the number of episodes after which epsilon-greedy recovers the model again."""


def single_type_agent(
    *, num_types: int | str = 2, weights: ArrayLike | str | None = None, **sizes: Any
) -> PosteriorSamplingAgent:
    """Make a posterior-sampling agent with one type, whatever number is requested."""
    return PosteriorSamplingAgent(**sizes, num_types=1)


class CertaintyEquivalence:
    """Play the optimal policy of the most likely model, fitted again whenever the agent would replan.

    Args:
        first: Number of episodes that are played at random before the first fit.
        options: Arguments of ``PosteriorSamplingAgent``.
    """

    def __init__(self, *, first: int = 100, **options: Any) -> None:
        self.settings = settings = AgentSettings(**options)
        self.record = Experience.empty(settings)
        self.rng = make_generator(settings.seed, Role.BASELINE_INITS)
        self.first = as_count("first", first)
        self.mixture: Mixture | None = None
        self.policies: tuple[Any, ...] = (make_uniform_policy(settings),)

    def add(self, episodes: Episodes) -> None:
        """Count episodes."""
        self.record.add_episodes(episodes)

    def update(self) -> bool:
        """Fit and plan again if a count has grown enough."""
        if self.record.episodes < self.first or not self.record.needs_replan:
            return False
        self._fit()
        self.policies = (self.policy(),)
        return True

    def policy(self) -> Controller:
        """Compute the optimal policy of the most likely model."""
        mixture = self._fit() if self.mixture is None else self.mixture
        model = make_expected_model(self.record, mixture, transition_posterior_counts(self.record))
        return plan_policy(model, self.settings.num_states)

    def _fit(self) -> Mixture:
        """Fit weights and reward probabilities, from the previous ones and from random initial values."""
        patterns = self.record.reward_data().patterns
        self.record.mark_replanned()
        num_types, weights = self.settings.fixed_num_types, self.settings.weights
        even = np.full(num_types, 1.0 / num_types) if weights is None else weights
        self.mixture = fit_mixture(patterns, even, self.mixture, self.rng, weights_known=weights is not None)
        return self.mixture


def make_uniform_policy(settings: AgentSettings) -> MarkovPolicy:
    """Make the policy that draws actions uniformly."""
    return MarkovPolicy(
        np.full((settings.horizon, settings.num_states, settings.num_actions), 1.0 / settings.num_actions)
    )


class ExploreThenCommit:
    """Explore with Algorithm 2 for ``explored`` episodes, then recover a model and play its plan.

    Args:
        explored: Number of episodes of exploration.
        options: Arguments of ``PosteriorSamplingAgent``.
    """

    def __init__(self, *, explored: int = 500, **options: Any) -> None:
        self.settings, self.explored = AgentSettings(**options), as_count("explored", explored)
        self.record = Experience.empty(self.settings)
        self.plan = make_pair_plan(self.record.counts, practical_bonus, 0.05)
        self.episodes: Episodes | None = None
        self.final_policy: Controller | None = None
        self.policies: tuple[Any, ...] = (self._pairs(),)

    def add(self, episodes: Episodes) -> None:
        """Count episodes; those after the end of exploration change nothing."""
        if self.final_policy is None:
            self.record.add_episodes(episodes)
            self.episodes = episodes if self.episodes is None else self.episodes + episodes

    def update(self) -> bool:
        """Plan exploration again, or make the final plan when exploration is over."""
        if self.final_policy is not None or (self.record.episodes < self.explored and not self.record.needs_replan):
            return False
        if self.record.episodes >= self.explored:
            self.final_policy = self.policy()
        self.policies = (self._pairs() if self.final_policy is None else self.final_policy,)
        return True

    def policy(self) -> Controller:
        """Compute the optimal policy of the recovered model."""
        if self.final_policy is not None:
            return self.final_policy
        if self.episodes is None:
            raise_input_error("episodes", "no episodes", "at least one")
        settings = self.settings
        result = recover(
            self.episodes, num_types=settings.fixed_num_types, weights=settings.weights, seed=settings.seed
        )
        return plan_policy(result.model, settings.num_states)

    def _pairs(self) -> Controller:
        replan_pairs(self.plan, self.record.counts, practical_bonus, EXPLORED_GROWTH)
        self.record.mark_replanned()
        return make_exploration_controller(self.plan.choices, self.record)


def explore_then_commit(explored: int = 500) -> Callable[..., ExploreThenCommit]:
    """Return a factory of learners that explore for a number of episodes and then play the plan."""
    return partial(ExploreThenCommit, explored=explored)


class EpsilonGreedy(ExploreThenCommit):
    """Explore with Algorithm 2, then recover and plan again whenever the episodes have grown by half.

    Args:
        at_random: One of this many episodes is played at random after exploration.
        explored: Number of episodes of exploration.
        options: Arguments of ``PosteriorSamplingAgent``.
    """

    def __init__(self, *, at_random: int = 20, explored: int = 100, **options: Any) -> None:
        super().__init__(explored=explored, **options)
        self.at_random, self.recovered = as_count("at_random", at_random, min_value=2), 0

    def update(self) -> bool:
        """Plan exploration again, or recover and plan when the episodes have grown by half."""
        if self.record.episodes < self.explored:
            return super().update()
        if self.record.episodes < RECOVERED_GROWTH * self.recovered:
            return False
        self.recovered = self.record.episodes
        self.policies = (self.policy(),) * (self.at_random - 1) + (make_uniform_policy(self.settings),)
        return True


def epsilon_greedy(at_random: int = 20, explored: int = 100) -> Callable[..., EpsilonGreedy]:
    """Return a factory of learners that recover and plan repeatedly, and play one of ``at_random`` at random."""
    return partial(EpsilonGreedy, at_random=at_random, explored=explored)


def make_exploration_controller(choices: Choices, record: Experience) -> Controller:
    """Convert a plan of pair exploration to a controller: its nodes are the rows of the plan; rewards are ignored."""
    counts = record.counts
    own_firsts = np.flatnonzero(choices.num_choices)
    row_of = np.full(counts.num_state_actions, SHARED)
    row_of[own_firsts] = THIRD + 1 + np.arange(own_firsts.size)
    rows = np.stack([*choices.rows, *(_choices_after_first(choices, int(first)) for first in own_firsts)])
    codes = np.moveaxis(rows.astype(np.int64), 0, -1)  # (H, S, K)
    actions, picks = codes >> 1, codes & 1 == 0
    points = np.arange(counts.num_states)[:, None] * counts.num_actions + actions
    nodes = np.arange(len(rows))
    after = np.where(nodes == FIRST, row_of[points], THIRD)
    after = np.where(picks, after, nodes).astype(node_dtype(nodes.size))
    next_nodes = np.repeat(after[..., None], counts.reward_values.size, axis=-1)
    first = np.full(counts.num_states, FIRST)
    return Controller(
        tuple(actions.astype(action_dtype(counts.num_actions))), tuple(next_nodes), first, counts.reward_values
    )


def _choices_after_first(choices: Choices, first: int) -> Any:
    """Return the (H, S) choices after this first pick."""
    row, listed = (
        choices.rows[SHARED].copy(),
        slice(choices.state_offsets[first], choices.state_offsets[first] + choices.num_choices[first]),
    )
    row[:, choices.states[listed]] = choices.choice_codes[listed].T
    return row
