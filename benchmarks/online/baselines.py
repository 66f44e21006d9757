"""Other ways to earn, behind the same verb: each is made like an ``Agent`` and played by ``earn``.

blind                    posterior sampling that takes all episodes for one kind
CertaintyEquivalence     plays the best policy of the most likely model, and nothing to learn more
explore_then_commit      ``learn`` and play: Algorithm 2 for so many episodes, then Algorithm 3 and its plan for ever
epsilon_greedy           ``learn`` again and again: Algorithm 3 goes on, and one episode in so many is played at random
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_count, refuse
from rewardmix._core.streams import Role, generator
from rewardmix._core.widths import action_width, node_width
from rewardmix.episodes import Episodes
from rewardmix.exploration.augmented import blank_plan, refresh
from rewardmix.exploration.bonuses import practical
from rewardmix.exploration.exploration_kernels import FIRST, SHARED, THIRD, Choices
from rewardmix.online.agent import Agent
from rewardmix.online.agent_settings import AgentSettings
from rewardmix.online.decision import best_policy, expected_model, move_counts
from rewardmix.online.prequential import fit_mixture
from rewardmix.online.record import Record
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.recovery import recover
from rewardmix.recovery.likelihood import Mixture

EXPLORED_GROWTH = 1.1
"""Of exploration, as in ``explore``."""


RECOVERED_GROWTH = 1.5
"""Growth of the number of episodes after which epsilon-greedy recovers the world again."""


def blind(*, num_contexts: int | str = 2, weights: ArrayLike | str | None = None, **sizes: Any) -> Agent:
    """Posterior sampling with one context, whatever it is told."""
    return Agent(**sizes, num_contexts=1)


class CertaintyEquivalence:
    """The best policy of the most likely model, fitted again whenever an agent would look again.

    Args:
        first: so many episodes are played at random before anything is believed.
        options: those of ``Agent``.
    """

    def __init__(self, *, first: int = 100, **options: Any) -> None:
        self.settings = known = AgentSettings(**options)
        self.record = Record.blank(known)
        self.rng = generator(known.seed, Role.RIVAL_STARTS)
        self.first = as_count("first", first)
        self.mixture: Mixture | None = None
        self.policies: tuple[Any, ...] = (any_action(known),)

    def add(self, episodes: Episodes) -> None:
        """Hear of episodes."""
        self.record.add_episodes(episodes)

    def learn(self) -> bool:
        """Fit and plan again if a count has grown enough."""
        if self.record.episodes < self.first or not self.record.due:
            return False
        self._fit()
        self.policies = (self.policy(),)
        return True

    def policy(self) -> Controller:
        """The best policy of the most likely model."""
        mixture = self._fit() if self.mixture is None else self.mixture
        model = expected_model(self.record, mixture, move_counts(self.record))
        return best_policy(model, self.settings.num_states)

    def _fit(self) -> Mixture:
        """The most likely weights and laws, from where they were before and from random starts."""
        bags = self.record.evidence().bags
        self.record.look()
        contexts, weights = self.settings.told_contexts, self.settings.weights
        even = np.full(contexts, 1.0 / contexts) if weights is None else weights
        self.mixture = fit_mixture(bags, even, self.mixture, self.rng, known=weights is not None)
        return self.mixture


def any_action(known: AgentSettings) -> MarkovPolicy:
    """Every action as likely as the others."""
    return MarkovPolicy(np.full((known.horizon, known.num_states, known.num_actions), 1.0 / known.num_actions))


class ExploreThenCommit:
    """Algorithm 2 for ``explored`` episodes, then Algorithm 3, a plan, and nothing more to learn.

    Args:
        explored: episodes of exploration.
        options: those of ``Agent``.
    """

    def __init__(self, *, explored: int = 500, **options: Any) -> None:
        self.settings, self.explored = AgentSettings(**options), as_count("explored", explored)
        self.record = Record.blank(self.settings)
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
        known = self.settings
        found = recover(self.kept, num_contexts=known.told_contexts, weights=known.weights, seed=known.seed)
        return best_policy(found.model, known.num_states)

    def _pairs(self) -> Controller:
        refresh(self.plan, self.record.tally, practical, EXPLORED_GROWTH)
        self.record.look()
        return pair_controller(self.plan.choices, self.record)


def explore_then_commit(explored: int = 500) -> Callable[..., ExploreThenCommit]:
    """Exploration for so many episodes, and then the best policy of what was recovered."""
    return partial(ExploreThenCommit, explored=explored)


class EpsilonGreedy(ExploreThenCommit):
    """Algorithm 2 for ``explored`` episodes, then Algorithm 3 and its plan, again whenever there is half as much more.

    Args:
        at_random: one episode in so many is played at random from then on.
        explored: episodes of exploration.
        options: those of ``Agent``.
    """

    def __init__(self, *, at_random: int = 20, explored: int = 100, **options: Any) -> None:
        super().__init__(explored=explored, **options)
        self.at_random, self.recovered = as_count("at_random", at_random, least=2), 0

    def learn(self) -> bool:
        """Plan exploration again, or recover and plan when there is half as much more."""
        if self.record.episodes < self.explored:
            return super().learn()
        if self.record.episodes < RECOVERED_GROWTH * self.recovered:
            return False
        self.recovered = self.record.episodes
        self.policies = (self.policy(),) * (self.at_random - 1) + (any_action(self.settings),)
        return True


def epsilon_greedy(at_random: int = 20, explored: int = 100) -> Callable[..., EpsilonGreedy]:
    """What ``learn`` gives, learnt again and again, with one episode in ``at_random`` played at random."""
    return partial(EpsilonGreedy, at_random=at_random, explored=explored)


def pair_controller(choices: Choices, record: Record) -> Controller:
    """A plan of pair exploration as a controller: its nodes are the rows of the plan, and no reward moves it."""
    tally = record.tally
    own = np.flatnonzero(choices.numbers)
    row_of = np.full(tally.num_x, SHARED)
    row_of[own] = THIRD + 1 + np.arange(own.size)
    rows = np.stack([*choices.rows, *(_own_row(choices, int(first)) for first in own)])
    codes = np.moveaxis(rows.astype(np.int64), 0, -1)  # (H, S, K)
    actions, picks = codes >> 1, codes & 1 == 0
    points = np.arange(tally.num_states)[:, None] * tally.num_actions + actions
    nodes = np.arange(len(rows))
    after = np.where(nodes == FIRST, row_of[points], THIRD)
    after = np.where(picks, after, nodes).astype(node_width(nodes.size))
    successors = np.repeat(after[..., None], tally.reward_values.size, axis=-1)
    first = np.full(tally.num_states, FIRST)
    return Controller(
        tuple(actions.astype(action_width(tally.num_actions))), tuple(successors), first, tally.reward_values
    )


def _own_row(choices: Choices, first: int) -> Any:
    """(H, S) choices after this first pick."""
    row, listed = (
        choices.rows[SHARED].copy(),
        slice(choices.places[first], choices.places[first] + choices.numbers[first]),
    )
    row[:, choices.states[listed]] = choices.own[listed].T
    return row
