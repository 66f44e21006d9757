"""Learn online from single events, with a posterior-sampling agent.

    episode = agent.start_episode(state)
    while episode.action is not None:
        episode.observe(reward, next_state)          of episode.action
    episode.close()                                  at any time; the rest of the episode stays unknown
    agent.update()                                   at any time, in any thread: replans if there is a reason to

Any number of episodes can be open at once, each with the policy that it began with. The observations of an episode
count once it is closed. The state of an agent is plain data: ``rewardmix.save`` and ``rewardmix.load`` keep it with its
open episodes, and a restored agent continues with identical bits.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core import random_streams
from rewardmix._core.budget import check_budget
from rewardmix._core.checks import Floats, quote_value, raise_input_error
from rewardmix._core.random_streams import Role
from rewardmix.episodes import Episodes
from rewardmix.model import BERNOULLI_VALUES, RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.online.agent_settings import AgentSettings
from rewardmix.planning import Plan
from rewardmix.policy import Controller
from rewardmix.reward_scale import RewardScale

if TYPE_CHECKING:  # slow to import, because of their kernels
    from rewardmix.online.drift_detection import DriftAlarm
    from rewardmix.online.experience import Experience
    from rewardmix.online.mcmc import MarkovChains
    from rewardmix.online.thompson_sampling import PolicySet

EpisodeStep = tuple[int, int, int]
"""(action, reward index, next state); next state S means that the environment ended the episode."""


class OpenEpisode:
    """Hold one open episode; ``PosteriorSamplingAgent.start_episode`` creates it.

    Attributes:
        id: Identifier of the episode.
        action: Action to take now; ``None`` once the episode is closed.
        step: Number of actions taken.

    Examples:
        >>> import rewardmix as rm
        >>> agent = rm.PosteriorSamplingAgent(num_states=3, num_actions=4, horizon=8, seed=0)
        >>> episode = agent.start_episode(0)
        >>> episode.observe(1.0, next_state=0)
        >>> episode.step
        1
        >>> episode.close()
        >>> episode.action is None
        True
    """

    __slots__ = ("_agent", "_decision", "_node", "_policy", "_state", "_steps", "action", "id", "step")

    def __init__(
        self, agent: PosteriorSamplingAgent, name: int | str, state: int, decision: PolicySet, policy: Controller
    ) -> None:
        self._agent, self._decision, self._policy = agent, decision, policy
        self.id, self.step = name, 0
        self._steps: list[EpisodeStep | int] = [state]
        self._state, self._node = state, int(policy.initial_nodes[state])
        self.action: int | None = int(policy.actions[0][state, self._node])

    def observe(self, reward: float, next_state: int | None) -> None:
        """Record the reward of ``action`` and the next state, and choose the next action.

        Args:
            reward: Observed reward, one of the reward values.
            next_state: State reached; ``None`` if the environment ended the episode.

        Raises:
            InputError: If the episode is closed or if there is no such reward or state. Nothing is changed then.
        """
        agent, action, step = self._agent, self.action, self.step
        if action is None:
            raise_input_error(
                "episode", f"{self.id!r}, closed after {step} steps", "an open episode; start another one"
            )
        # The dictionary is the fast path. A value that is not in it (unhashable, a bin of raw rewards) is checked in
        # full.
        try:
            reward_index = agent._reward_indices.get(reward)
        except TypeError:
            reward_index = None
        if reward_index is None:
            reward_index = agent._check_reward(reward)
        next_index = agent._end_state() if next_state is None else agent._check_state("next_state", next_state)
        # All checks are done before this line, so a rejected observation leaves the episode unchanged.
        self._steps.append((action, reward_index, next_index))
        self.step = step + 1
        if next_state is None or self.step == agent.horizon:
            self.close()
            return
        policy = self._policy
        self._node = int(policy.next_nodes[step][self._state, self._node, reward_index])
        self._state = next_index
        self.action = int(policy.actions[self.step][next_index, self._node])

    def close(self) -> None:
        """Close the episode, so that its observations count. Closing it again has no effect."""
        self.action = None
        self._agent._finish_episode(self)

    @property
    def propensity(self) -> float | None:
        """Probability of this action, given what the agent knew when the episode began.

        It is the fraction of policies that choose this action among the policies of that time that would have taken all
        earlier actions of the episode. ``None`` once the episode is closed.
        """
        if self.action is None:
            return None
        actions = [_replay_action(policy, self._steps) for policy in self._decision.policies]
        consistent_actions = [action for action in actions if action is not None]
        return sum(action == self.action for action in consistent_actions) / len(consistent_actions)


class PosteriorSamplingAgent:
    """Learn online with posterior sampling (Thompson sampling) over models with hidden types.

    While some state-action that was tried fewer than three times can be reached with probability above 0.1, the agent
    plays the policy that reaches one most likely. Afterwards each episode gets one of nine policies: three of the most
    likely model, three of posterior samples, and three of sharper samples. All are replanned when a count has grown by
    about a third or the number of episodes by about a sixth. ``thompson_sampling`` states the algorithm.

    Args:
        num_states: Number of states S.
        num_actions: Number of actions A.
        horizon: Largest number of steps H of an episode.
        num_types: Number of types M, or "auto" to select it by prequential likelihood.
        reward_values: Increasing reward values (Z,). They must contain 0 if the environment can end an episode early.
        weights: Probabilities of the types, (M,); "uniform" for equal ones. ``None`` estimates them.
        window: Number of episodes after which one is forgotten, at least 64; between half and all of so many are used.
            ``None`` keeps all.
        seed: Seed. Equal events in equal order with equal seeds give identical agents.

    Raises:
        InputError: If an argument is invalid or the tables would exceed the memory limit.

    Attributes:
        settings: Checked arguments.
        policies: Policies among which new episodes are drawn uniformly.
        num_types: Number of types M that the agent assumes now.
        type_weights: (M,) posterior mean of the type weights, the largest first.
        is_exploring: Whether the policies search for state-actions that were hardly ever tried.
        num_policy_changes: How often the policies were replanned.
        alarms: Drift alarms so far.

    Examples:
        >>> import rewardmix as rm
        >>> agent = rm.PosteriorSamplingAgent(num_states=3, num_actions=4, horizon=8, seed=0)
        >>> episode = agent.start_episode(0)
        >>> episode.action, episode.propensity
        (0, 1.0)
        >>> episode.observe(1.0, next_state=0)
        >>> episode.close()
        >>> agent.update()
        True
        >>> agent.num_types, agent.is_exploring
        (2, True)
    """

    def __init__(
        self,
        *,
        num_states: int,
        num_actions: int,
        horizon: int,
        num_types: int | str = 2,
        reward_values: Sequence[float] | Floats = BERNOULLI_VALUES,
        weights: ArrayLike | str | None = None,
        window: int | None = None,
        seed: int = 0,
    ) -> None:
        from rewardmix._core import xoshiro
        from rewardmix.online import mcmc, prequential
        from rewardmix.online.experience import Experience
        from rewardmix.online.thompson_sampling import choose_policies

        self.settings = settings = AgentSettings(
            num_states=num_states, num_actions=num_actions, horizon=horizon, num_types=num_types,
            reward_values=reward_values, weights=weights, window=window, seed=seed,
        )  # fmt: skip
        self.num_states, self.num_actions, self.horizon = settings.num_states, settings.num_actions, settings.horizon
        self.seed = settings.seed
        self.reward_values: Floats = settings.reward_values
        self.weights: Floats | None = settings.weights
        # Checked before anything is allocated: the dense transition tables and the (X, X) pair counts decide.
        num_state_actions = settings.num_state_actions
        table = 8 * num_state_actions * (self.num_states + 1) * (mcmc.NUM_CHAINS + 2)
        check_budget(
            "num_states", memory=table + 16 * num_state_actions * num_state_actions, remedy="fewer states or actions"
        )
        self._scale = RewardScale(self.reward_values)
        self._reward_indices = {float(value): z for z, value in enumerate(self.reward_values)}
        # Two locks. ``_lock`` guards open and finished episodes and is held for short times only. ``_learning`` is held
        # while the agent replans, which may take seconds; episodes can start and end meanwhile.
        self._lock, self._learning = threading.Lock(), threading.Lock()
        # Two random streams: planning and the choice of policies must not shift each other when threads interleave.
        self._update_stream = random_streams.kernel_stream(settings.seed, Role.AGENT_UPDATES)
        self._episode_stream = random_streams.kernel_stream(settings.seed, Role.AGENT_EPISODES)
        self._record = Experience.empty(settings)
        # With a window there are two experiences: the current one, and the one that replaces it once it has half a
        # window.
        self._next_record = None if settings.window is None else Experience.empty(settings)
        self._num_dropped = 0
        self._alarms: list[DriftAlarm] = []
        initial_num_types = prequential.MIN_TYPES if settings.selects_num_types else settings.fixed_num_types
        chains = mcmc.sample_prior_chains(
            num_state_actions, settings.reward_values.size, initial_num_types, settings.weights, self._update_stream
        )
        self._forecasts: prequential.Forecasts = ()
        self._choose_policies, self._uniform = choose_policies, xoshiro.uniform_draw
        self._decision = choose_policies(self._record, chains, self._update_stream)
        self._open: dict[int | str, OpenEpisode] = {}
        self._pending: list[list[EpisodeStep | int]] = []
        self._num_started, self._num_policy_changes = 0, 0

    def __repr__(self) -> str:
        return (
            f"PosteriorSamplingAgent(states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}, "
            f"types={self.num_types}, episodes={self.episodes}, open={len(self._open)})"
        )

    @property
    def num_types(self) -> int:
        """Number of types M; with "auto" the number that is assumed now."""
        return int(self._decision.chains.weights.shape[1])

    @property
    def episodes(self) -> int:
        """Number of closed episodes with at least one step."""
        return self._num_dropped + self._record.episodes + len(self._pending)

    @property
    def alarms(self) -> tuple[DriftAlarm, ...]:
        """Drift alarms so far, one for each time that recent episodes contradicted the earlier ones."""
        return tuple(self._alarms)

    @property
    def num_policy_changes(self) -> int:
        """Number of times that the agent replanned."""
        return self._num_policy_changes

    @property
    def policies(self) -> tuple[Controller, ...]:
        """Policies among which new episodes are drawn uniformly."""
        return self._decision.policies

    @property
    def type_weights(self) -> Floats:
        """Posterior mean of the type weights, (M,), the largest first."""
        # Types have no order within a chain, and chains may differ in it. Sorting makes the chains comparable before
        # averaging.
        sorted_weights = np.sort(self._decision.chains.weights, axis=1)[:, ::-1]
        return np.asarray(sorted_weights.mean(axis=0))

    @property
    def is_exploring(self) -> bool:
        """Whether the current policies search for state-actions that were hardly ever tried."""
        return self._decision.is_exploring

    def start_episode(self, state: int, id: int | str | None = None) -> OpenEpisode:
        """Start an episode in ``state``.

        Args:
            state: Initial state, from 0 to S - 1.
            id: Identifier, text or an integer; ``None`` chooses an unused integer.

        Returns:
            Open episode with the first action.

        Raises:
            InputError: If there is no such state or if an open episode has this identifier.
        """
        start = self._check_state("state", state)
        if id is not None and (isinstance(id, bool) or not isinstance(id, int | str)):
            raise_input_error("id", f"{quote_value(id)} ({type(id).__name__})", "a string or a whole number")
        with self._lock:
            # A caller may have used this integer as an identifier of its own.
            while self._num_started in self._open:
                self._num_started += 1
            name = self._num_started if id is None else id
            if name in self._open:
                raise_input_error("id", quote_value(name), "an id that no open episode has; close that episode first")
            policies = self._decision.policies
            # With a single policy no random number is drawn, so exploration does not advance the stream.
            policy = (
                policies[int(self._uniform(self._episode_stream) * len(policies))] if len(policies) > 1 else policies[0]
            )
            episode = self._open[name] = OpenEpisode(self, name, start, self._decision, policy)
            self._num_started += 1
        return episode

    def get_episode(self, id: int | str) -> OpenEpisode:
        """Return the open episode with this identifier; raise ``InputError`` if there is none."""
        if id not in self._open:
            raise_input_error("id", quote_value(id), "the id of an open episode")
        return self._open[id]

    def add(self, episodes: Episodes) -> None:
        """Count episodes that were played elsewhere, with any policy.

        An episode shorter than the horizon counts as ended by the environment.
        """
        spec = self.num_states, self.num_actions, tuple(self.reward_values.tolist())
        data_spec = episodes.num_states, episodes.num_actions, tuple(episodes.reward_values.tolist())
        if spec != data_spec or episodes.horizon > self.horizon:
            actual = f"(states, actions, reward values) = {data_spec} with horizon {episodes.horizon}"
            raise_input_error("episodes", actual, f"{spec} with horizon {self.horizon} at most")
        if len(episodes) and episodes.lengths.min() < self.horizon:
            self._end_state()
        with self._learning:
            for record in self._experiences():
                record.add_episodes(episodes)

    def update(self) -> bool:
        """Replan if there is a reason to.

        Returns:
            Whether the policies of new episodes changed.
        """
        with self._learning:
            self._flush_finished()
            if not self._record.needs_replan:
                return False
            chains = (
                self._close_window() if self._record.window_is_full(self.settings.window) else self._decision.chains
            )
            # Without ``_lock``: planning is slow, and open episodes must be served meanwhile with their old policies.
            decision = self._choose_policies(self._record, chains, self._update_stream)
            self._record.mark_replanned()
            with self._lock:
                self._decision = decision
                self._num_policy_changes += 1
            return True

    def most_likely_model(self) -> RewardMixingMDP:
        """Return the maximum-a-posteriori model: EM from the best chain, with expected transitions."""
        from rewardmix.online.thompson_sampling import most_likely_model

        with self._learning:
            self._flush_finished()
            return most_likely_model(self._record, self._record.reward_data().patterns, self._decision.chains)

    def moments(self) -> Moments:
        """Return the sufficient counts of all closed episodes that are remembered."""
        with self._learning:
            self._flush_finished()
            return self._record.counts.moments()

    def plan(self) -> Plan:
        """Plan in ``most_likely_model()`` up to a small gap."""
        from rewardmix.online.thompson_sampling import plan_approximately

        return plan_approximately(self.most_likely_model())

    def policy(self) -> Controller:
        """Return the policy to play if nothing more is to be learned: that of ``plan()``."""
        from rewardmix.online.thompson_sampling import plan_policy

        return plan_policy(self.most_likely_model(), self.num_states)

    def _close_window(self) -> MarkovChains:
        """Close the window of recent episodes: test for drift and select the number of types.

        Returns the chains, restarted if the number of types changed.
        """
        from rewardmix.online import drift_detection, mcmc, prequential

        record, chains = self._record, self._decision.chains
        # Drift and forecasts are evaluated before anything is forgotten, because both compare recent episodes with all.
        record.merge_patterns()
        if record.window_start_episode:
            alarm = drift_detection.detect_drift(record, mcmc.find_map_mixture(chains, record.patterns), self.episodes)
            self._alarms += [] if alarm is None else [alarm]
        if self.settings.selects_num_types:
            chains = prequential.select_chains(chains, record.window_patterns, self._forecasts)
        chains = self._drop_old_episodes(chains)
        if self.settings.selects_num_types:
            num_types = int(chains.weights.shape[1])
            self._forecasts = prequential.fit_forecasts(self._record.patterns, num_types, self._forecasts, self.seed)
        self._record.start_window()
        return chains

    def _drop_old_episodes(self, chains: MarkovChains) -> MarkovChains:
        """Continue with the recent episodes alone once they are half of the window."""
        from rewardmix.online.experience import Experience

        successor, window = self._next_record, self.settings.window
        if successor is None or window is None or 2 * successor.episodes < window:
            return chains
        successor.merge_patterns()
        self._num_dropped += self._record.episodes - successor.episodes
        self._record, self._next_record = successor, Experience.empty(self.settings)
        # The chains fit forgotten episodes. Setting ``last_restart`` to 0 restarts the worst chain at the next update.
        return replace(chains, last_restart=0.0)

    def _flush_finished(self) -> None:
        """Count the closed episodes, all episodes of one length together."""
        with self._lock:
            pending, self._pending = self._pending, []
        by_length: dict[int, list[list[Any]]] = {}
        for steps in pending:
            by_length.setdefault(len(steps) - 1, []).append(steps)
        # Sorted by length, so that the order of summation does not depend on the order in which threads closed
        # episodes.
        for _, group in sorted(by_length.items()):
            table = np.array([steps[1:] for steps in group], np.int32)
            starts = np.array([steps[0] for steps in group], np.int32)
            states = np.concatenate([starts[:, None], table[:, :, 2]], axis=1)
            for record in self._experiences():
                record.add(states, table[:, :, 0], table[:, :, 1])

    def _experiences(self) -> list[Experience]:
        """List the experiences that are counted in: the current one and, with a window, its successor."""
        return [self._record] if self._next_record is None else [self._record, self._next_record]

    def _finish_episode(self, episode: OpenEpisode) -> None:
        """Remove an episode from the open ones and queue its steps for counting."""
        with self._lock:
            if self._open.pop(episode.id, None) is not None and episode.step > 0:
                self._pending.append(episode._steps)

    def _check_state(self, argument: str, state: object) -> int:
        """Check a state and return it as an integer."""
        try:
            index = operator.index(state)  # type: ignore[arg-type]  # checked by the except clause
        except TypeError:
            index = -1
        if not 0 <= index < self.num_states:
            raise_input_error(argument, quote_value(state), f"a state from 0 to {self.num_states - 1}")
        return index

    def _check_reward(self, reward: Any) -> int:
        """Return the reward index of a reward; with bins, that of its bin."""
        try:
            return self._scale.level(float(reward))
        except (TypeError, ValueError, OverflowError):  # integers can exceed the range of float
            raise_input_error("reward", quote_value(reward), f"one of the reward values {self.reward_values.tolist()}")

    def _end_state(self) -> int:
        """Return the index S of the end state; it requires that 0 is a reward value."""
        # There are no rewards after the end, so a model of the end needs the reward 0.
        if 0.0 not in self._reward_indices:
            raise_input_error(
                "next_state", None, "a state; an episode can end early only if 0 is one of the reward values"
            )
        return self.num_states


def _replay_action(policy: Controller, steps: list[Any]) -> int | None:
    """Return the action of a policy after these steps; ``None`` if it would have left them earlier."""
    state, node = steps[0], int(policy.initial_nodes[steps[0]])
    for t, (action, reward_index, next_state) in enumerate(steps[1:]):
        if int(policy.actions[t][state, node]) != action:
            return None
        node = int(policy.next_nodes[t][state, node, reward_index])
        state = next_state
    return int(policy.actions[len(steps) - 1][state, node])
