"""Other ways to earn, behind the same verb: each is made like an ``Agent`` and played by ``earn``.

blind                    posterior sampling that takes all episodes for one kind
CertaintyEquivalence     plays the best policy of the most likely model, and nothing to learn more
epsilon_greedy           the same, but one episode in so many is played at random
explore_then_commit      Algorithm 2 for so many episodes, then Algorithm 3 and the best policy of that, for ever
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_count, as_reward_values, as_seed, refuse
from rewardmix._core.streams import Role, generator
from rewardmix._core.widths import action_width, node_width
from rewardmix.episodes import Episodes
from rewardmix.exploration.augmented import blank_plan, refresh
from rewardmix.exploration.bonuses import practical
from rewardmix.exploration.exploration_kernels import FIRST, OWN, THIRD, Choices
from rewardmix.model import BINARY
from rewardmix.online.agent import Agent
from rewardmix.online.decision import best_policy, move_counts, world_of
from rewardmix.online.record import Record
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.recovery import likelihood, moment_start, recover
from rewardmix.recovery.likelihood import Mixture

CLIMBS = 3
"""Random starts of the likelihood, beside where it was before."""

GROWTH = 1.1
"""Of exploration, as in ``explore``."""


def blind(*, num_contexts: int = 2, weights: ArrayLike | None = None, **sizes: Any) -> Agent:
    """Posterior sampling with one context, whatever it is told."""
    return Agent(**sizes, num_contexts=1)


class CertaintyEquivalence:
    """The best policy of the most likely model, fitted again when a count has grown by half.

    Args:
        num_states: S.
        num_actions: A.
        horizon: H.
        num_contexts: M.
        reward_values: (Z,).
        weights: (M,) if they are known.
        seed: of the starts.
        at_random: if given, one episode in so many is played at random.
        first: so many episodes are played at random before anything is believed.
    """

    def __init__(
        self,
        *,
        num_states: int,
        num_actions: int,
        horizon: int,
        num_contexts: int = 2,
        reward_values: Any = BINARY,
        weights: ArrayLike | None = None,
        seed: int = 0,
        at_random: int | None = None,
        first: int = 100,
    ) -> None:
        self.sizes = (
            as_count("horizon", horizon),
            as_count("num_states", num_states),
            as_count("num_actions", num_actions),
        )
        self.record = Record.blank(num_states, num_actions, horizon, as_reward_values(reward_values))
        self.weights = None if weights is None else np.asarray(weights, np.float64)
        self.contexts = as_count("num_contexts", num_contexts)
        self.rng = generator(as_seed("seed", seed), Role.RIVAL_STARTS)
        self.at_random = None if at_random is None else as_count("at_random", at_random, least=2)
        self.first = as_count("first", first)
        self.mixture: Mixture | None = None
        self.policies: tuple[Any, ...] = (MarkovPolicy(np.full(self.sizes, 1.0 / num_actions)),)

    def add(self, episodes: Episodes) -> None:
        """Hear of episodes."""
        self.record.add_episodes(episodes)

    def learn(self) -> bool:
        """Fit and plan again if a count has grown by half."""
        if self.record.episodes < self.first or not self.record.due:
            return False
        self._fit()
        greedy = self.policy()
        others = () if self.at_random is None else (MarkovPolicy(np.full(self.sizes, 1.0 / self.sizes[2])),)
        self.policies = (greedy,) * (1 if self.at_random is None else self.at_random - 1) + others
        return True

    def policy(self) -> Controller:
        """The best policy of the most likely model."""
        mixture = self._fit() if self.mixture is None else self.mixture
        counts = move_counts(self.record)
        model = world_of(self.record, mixture, counts / counts.sum(axis=1, keepdims=True))
        return best_policy(model, self.sizes[1])

    def _fit(self) -> Mixture:
        """The most likely weights and laws, from where they were before and from random starts."""
        bags = self.record.evidence().bags
        self.record.look()
        even = np.full(self.contexts, 1.0 / self.contexts) if self.weights is None else self.weights
        free = np.ones(bags.num_points, bool)
        beginnings = [moment_start.random_mixture(bags.average, even, free, self.rng) for _ in range(CLIMBS)]
        beginnings += [] if self.mixture is None else [self.mixture]
        fits = [
            likelihood.ascend(
                lambda mixture: likelihood.e_step(bags, mixture),
                beginning,
                average=bags.average,
                weights=self.weights,
                max_iterations=200,
                tolerance=1e-7,
            )
            for beginning in beginnings
        ]
        self.mixture = max(fits, key=lambda fit: fit.objective).mixture
        return self.mixture


def epsilon_greedy(at_random: int = 20) -> Callable[..., CertaintyEquivalence]:
    """Certainty equivalence with one episode in ``at_random`` played at random."""
    return partial(CertaintyEquivalence, at_random=at_random)


class ExploreThenCommit:
    """Algorithm 2 for ``explored`` episodes, then Algorithm 3, a plan, and nothing more to learn.

    Args:
        num_states: S.
        num_actions: A.
        horizon: H.
        num_contexts: M.
        reward_values: (Z,).
        weights: (M,) if they are known.
        seed: of recovery.
        explored: episodes of exploration.
    """

    def __init__(
        self,
        *,
        num_states: int,
        num_actions: int,
        horizon: int,
        num_contexts: int = 2,
        reward_values: Any = BINARY,
        weights: ArrayLike | None = None,
        seed: int = 0,
        explored: int = 500,
    ) -> None:
        self.explored, self.seed = as_count("explored", explored), as_seed("seed", seed)
        self.contexts, self.weights = as_count("num_contexts", num_contexts), weights
        self.record = Record.blank(num_states, num_actions, horizon, as_reward_values(reward_values))
        self.plan = blank_plan(self.record.tally, practical, 0.05)
        self.kept: Episodes | None = None
        self.committed: Controller | None = None
        self.policies: tuple[Any, ...] = (self._pairs(),)

    def add(self, episodes: Episodes) -> None:
        """Hear of episodes; those after the commitment change nothing."""
        if self.committed is None:
            self.record.add_episodes(episodes)
            self.kept = episodes if self.kept is None else self.kept + episodes

    def learn(self) -> bool:
        """Plan exploration again, or commit when it is over."""
        if self.committed is not None or (self.record.episodes < self.explored and not self.record.due):
            return False
        if self.record.episodes >= self.explored:
            self.committed = self.policy()
        self.policies = (self._pairs() if self.committed is None else self.committed,)
        return True

    def policy(self) -> Controller:
        """The best policy of what was recovered."""
        if self.committed is not None:
            return self.committed
        if self.kept is None:
            refuse("episodes", "none yet", "some to learn from")
        found = recover(self.kept, num_contexts=self.contexts, weights=self.weights, seed=self.seed)
        return best_policy(found.model, self.record.tally.num_states)

    def _pairs(self) -> Controller:
        refresh(self.plan, self.record.tally, practical, GROWTH)
        self.record.look()
        return pair_controller(self.plan.choices, self.record)


def explore_then_commit(explored: int = 500) -> Callable[..., ExploreThenCommit]:
    """Exploration for so many episodes, and then the best policy of what was recovered."""
    return partial(ExploreThenCommit, explored=explored)


def pair_controller(choices: Choices, record: Record) -> Controller:
    """A plan of pair exploration as a controller: its nodes are the rows of the plan, and no reward moves it."""
    tally = record.tally
    rows = np.unique(np.concatenate([[FIRST, THIRD], choices.row_of]))
    place = np.zeros(OWN + tally.num_x, np.int64)
    place[rows] = np.arange(rows.size)
    codes = np.moveaxis(choices.rows[rows].astype(np.int64), 0, -1)  # (H, S, K)
    actions, picks = codes >> 1, codes & 1 == 0
    points = np.arange(tally.num_states)[:, None] * tally.num_actions + actions
    after = np.where(rows == FIRST, place[choices.row_of[points]], place[THIRD])
    after = np.where(picks, after, np.arange(rows.size)).astype(node_width(rows.size))
    successors = np.repeat(after[..., None], tally.reward_values.size, axis=-1)
    first = np.full(tally.num_states, place[FIRST])
    return Controller(
        tuple(actions.astype(action_width(tally.num_actions))), tuple(successors), first, tally.reward_values
    )
