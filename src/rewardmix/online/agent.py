"""An agent that is fed one event at a time.

    visit = agent.begin(state)
    while visit.action is not None:
        visit.observe(reward, next_state)          of visit.action
    visit.end()                                    at any time; the rest of the episode is then unknown
    agent.learn()                                  at any time, in any thread: looks again if there is a reason to

Any number of visits go on at once, each with the policy that it began with. What they showed counts once they have
ended, and only what they showed. The state of an agent is plain data: ``rewardmix.save`` and ``rewardmix.load`` keep it
with its open visits, and what is loaded goes on as if nothing had happened, bit for bit.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core import streams
from rewardmix._core.checks import Floats, quoted, refuse
from rewardmix._core.limits import afford
from rewardmix._core.streams import Role
from rewardmix.episodes import Episodes
from rewardmix.model import BINARY, RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.online.agent_settings import AgentSettings
from rewardmix.planning import Plan
from rewardmix.policy import Controller
from rewardmix.reward_scale import RewardScale

if TYPE_CHECKING:  # with their kernels they take a while to import: only where there is an agent
    from rewardmix.online.decision import Decision
    from rewardmix.online.drift import Alarm
    from rewardmix.online.posterior import Chains
    from rewardmix.online.record import Record

Step = tuple[int, int, int]
"""(action, outcome, next state); the next state S is the end."""


class Visit:
    """One episode under way. Made by ``Agent.begin``.

    Attributes:
        id: how the agent knows it.
        action: what to do now; None where the visit is over.
        step: actions that were taken.
    """

    __slots__ = ("_agent", "_decision", "_node", "_policy", "_state", "_steps", "action", "id", "step")

    def __init__(self, agent: Agent, name: int | str, state: int, decision: Decision, policy: Controller) -> None:
        self._agent, self._decision, self._policy = agent, decision, policy
        self.id, self.step = name, 0
        self._steps: list[Step | int] = [state]
        self._state, self._node = state, int(policy.first[state])
        self.action: int | None = int(policy.actions[0][state, self._node])

    def observe(self, reward: float, next_state: int | None) -> None:
        """The action was taken: it paid ``reward`` and led to ``next_state`` (None: the world ended the episode).

        Refused, with nothing changed, if the visit is over, or if there is no such reward or state.
        """
        agent, action, step = self._agent, self.action, self.step
        if action is None:
            refuse("visit", f"{self.id!r}, which is over after {step} steps", "a visit under way; begin another")
        try:
            outcome = agent._outcomes.get(reward)
        except TypeError:
            outcome = None
        if outcome is None:
            outcome = agent._outcome(reward)
        following = agent._ending() if next_state is None else agent._state("next_state", next_state)
        self._steps.append((action, outcome, following))
        self.step = step + 1
        if next_state is None or self.step == agent.horizon:
            self.end()
            return
        policy = self._policy
        self._node = int(policy.successors[step][self._state, self._node, outcome])
        self._state = following
        self.action = int(policy.actions[self.step][following, self._node])

    def end(self) -> None:
        """The visit is over: what it showed counts. Ending twice is ending once."""
        self.action = None
        self._agent._ended(self)

    @property
    def propensity(self) -> float | None:
        """The chance that this action is taken here, given what the agent knew when the visit began.

        That is the share, among the policies that were shared out then and would have done the same so far, of those
        that take this action. None where the visit is over.
        """
        if self.action is None:
            return None
        plays = [_replayed(policy, self._steps) for policy in self._decision.policies]
        same = [play for play in plays if play is not None]
        return sum(play == self.action for play in same) / len(same)


class Agent:
    """Earns while it learns, in a world whose episodes secretly differ in their rewards.

    Args:
        num_states: S.
        num_actions: A.
        horizon: H, the most actions of an episode.
        num_contexts: M, or "auto" to find it out: see ``prequential``.
        reward_values: (Z,) increasing. They hold 0 where the world can end an episode early.
        weights: (M,) if they are known; "uniform": all the same.
        memory: episodes after which one is forgotten; None: never. What counts are the last half to all of so many.
        seed: the same events in the same order with the same seed give the same agent.
    """

    def __init__(
        self,
        *,
        num_states: int,
        num_actions: int,
        horizon: int,
        num_contexts: int | str = 2,
        reward_values: Sequence[float] | Floats = BINARY,
        weights: ArrayLike | str | None = None,
        memory: int | None = None,
        seed: int = 0,
    ) -> None:
        from rewardmix._core import xoshiro
        from rewardmix.online import posterior, prequential
        from rewardmix.online.decision import decide
        from rewardmix.online.record import Record

        self.settings = known = AgentSettings(
            num_states=num_states, num_actions=num_actions, horizon=horizon, num_contexts=num_contexts,
            reward_values=reward_values, weights=weights, memory=memory, seed=seed,
        )  # fmt: skip
        self.num_states, self.num_actions, self.horizon = known.num_states, known.num_actions, known.horizon
        self.seed = known.seed
        self.reward_values: Floats = known.reward_values
        self.weights: Floats | None = known.weights
        num_x = known.num_state_actions
        table = 8 * num_x * (self.num_states + 1) * (posterior.CHAINS + 2)
        afford("num_states", memory=table + 16 * num_x * num_x, change="fewer states or actions")
        self._scale = RewardScale(self.reward_values)
        self._outcomes = {float(value): z for z, value in enumerate(self.reward_values)}
        self._lock, self._learning = threading.Lock(), threading.Lock()
        self._stream = streams.stream(known.seed, Role.LOOKS)
        self._shares = streams.stream(known.seed, Role.VISITS)
        self._record = Record.blank(known)
        self._following = None if known.memory is None else Record.blank(known)
        self._forgotten = 0
        self._alarms: list[Alarm] = []
        contexts = prequential.FEWEST_CONTEXTS if known.auto else known.told_contexts
        blank = posterior.prior_chains(num_x, known.reward_values.size, contexts, known.weights, self._stream)
        self._forecasts: prequential.Forecasts = ()
        self._decide, self._uniform = decide, xoshiro.uniform_draw
        self._decision = decide(self._record, blank, self._stream)
        self._open: dict[int | str, Visit] = {}
        self._pending: list[list[Step | int]] = []
        self._begun, self._switches = 0, 0

    def __repr__(self) -> str:
        return (
            f"Agent(states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}, "
            f"contexts={self.num_contexts}, episodes={self.episodes}, open={len(self._open)})"
        )

    @property
    def num_contexts(self) -> int:
        """M; where it is to be found out, what it seems to be."""
        return int(self._decision.chains.weights.shape[1])

    @property
    def episodes(self) -> int:
        """Visits that ended with at least one step."""
        return self._forgotten + self._record.episodes + len(self._pending)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All the times when the recent past contradicted the rest, so that the world may have changed."""
        return tuple(self._alarms)

    @property
    def switches(self) -> int:
        """How often the agent has looked again and changed what it plays."""
        return self._switches

    @property
    def policies(self) -> tuple[Controller, ...]:
        """What new visits are shared out among."""
        return self._decision.policies

    @property
    def shares(self) -> Floats:
        """(M,) how frequent each context is believed to be, the most frequent first."""
        drawn = np.sort(self._decision.chains.weights, axis=1)[:, ::-1]
        return np.asarray(drawn.mean(axis=0))

    @property
    def explores(self) -> bool:
        """Whether these policies look for what was hardly ever tried."""
        return self._decision.explores

    def begin(self, state: int, id: int | str | None = None) -> Visit:
        """A new visit that is in ``state`` now; ``id`` (text or a whole number) if somebody else has one for it."""
        start = self._state("state", state)
        if id is not None and (isinstance(id, bool) or not isinstance(id, int | str)):
            refuse("id", f"{quoted(id)} ({type(id).__name__})", "text or a whole number")
        with self._lock:
            while self._begun in self._open:  # somebody's own number
                self._begun += 1
            name = self._begun if id is None else id
            if name in self._open:
                refuse("id", quoted(name), "one that no open visit has; end that visit first")
            policies = self._decision.policies
            chosen = policies[int(self._uniform(self._shares) * len(policies))] if len(policies) > 1 else policies[0]
            visit = self._open[name] = Visit(self, name, start, self._decision, chosen)
            self._begun += 1
        return visit

    def visit(self, id: int | str) -> Visit:
        """The open visit with this id."""
        if id not in self._open:
            refuse("id", quoted(id), "that of an open visit")
        return self._open[id]

    def add(self, episodes: Episodes) -> None:
        """Count episodes that were played elsewhere, by whatever policy. Those that are short ended in the end."""
        mine = self.num_states, self.num_actions, tuple(self.reward_values.tolist())
        given = episodes.num_states, episodes.num_actions, tuple(episodes.reward_values.tolist())
        if mine != given or episodes.horizon > self.horizon:
            found = f"(states, actions, reward values) = {given} with horizon {episodes.horizon}"
            refuse("episodes", found, f"{mine} with horizon {self.horizon} at most")
        if len(episodes) and episodes.lengths.min() < self.horizon:
            self._ending()
        with self._learning:
            for record in self._records():
                record.add_episodes(episodes)

    def learn(self) -> bool:
        """Look again if there is a reason to; whether what new visits play has changed."""
        with self._learning:
            self._count()
            if not self._record.due:
                return False
            chains = self._turned() if self._record.turning(self.settings.memory) else self._decision.chains
            decision = self._decide(self._record, chains, self._stream)
            self._record.look()
            with self._lock:
                self._decision = decision
                self._switches += 1
            return True

    def model(self) -> RewardMixingMDP:
        """The world as it most likely is: the best chain climbed to the top of its hill, moves as expected."""
        from rewardmix.online.decision import most_likely_model

        with self._learning:
            self._count()
            return most_likely_model(self._record, self._record.evidence().bags, self._decision.chains)

    def moments(self) -> Moments:
        """The counts of what ended visits showed."""
        with self._learning:
            self._count()
            return self._record.tally.moments()

    def plan(self) -> Plan:
        """The best plan, nearly, of ``model()``."""
        from rewardmix.online.decision import nearly_best_plan

        return nearly_best_plan(self.model())

    def policy(self) -> Controller:
        """What to play if nothing more is to be learnt: the best policy of ``model()``."""
        from rewardmix.online.decision import best_policy

        return best_policy(self.model(), self.num_states)

    def _turned(self) -> Chains:
        """Compare what came since the last turn with what was expected; the chains, with the contexts that it takes."""
        from rewardmix.online import drift, posterior, prequential

        record, chains = self._record, self._decision.chains
        record.merge()
        if record.turned:
            alarm = drift.alarm_of(record, posterior.most_likely(chains, record.bags), self.episodes)
            self._alarms += [] if alarm is None else [alarm]
        if self.settings.auto:
            chains = prequential.chosen_chains(chains, record.recent, self._forecasts)
        chains = self._forget(chains)
        if self.settings.auto:
            now = int(chains.weights.shape[1])
            self._forecasts = prequential.new_forecasts(self._record.bags, now, self._forecasts, self.seed)
        self._record.turn()
        return chains

    def _forget(self, chains: Chains) -> Chains:
        """Go on with what came since the last time, if that is half of what is to be remembered."""
        from rewardmix.online.record import Record

        following, memory = self._following, self.settings.memory
        if following is None or memory is None or 2 * following.episodes < memory:
            return chains
        following.merge()
        self._forgotten += self._record.episodes - following.episodes
        self._record, self._following = following, Record.blank(self.settings)
        return replace(chains, seeded=0.0)

    def _count(self) -> None:
        """Count the visits that ended; those of one length together."""
        with self._lock:
            pending, self._pending = self._pending, []
        by_length: dict[int, list[list[Any]]] = {}
        for steps in pending:
            by_length.setdefault(len(steps) - 1, []).append(steps)
        for _, visits in sorted(by_length.items()):
            table = np.array([steps[1:] for steps in visits], np.int32)
            starts = np.array([steps[0] for steps in visits], np.int32)
            states = np.concatenate([starts[:, None], table[:, :, 2]], axis=1)
            for record in self._records():
                record.add(states, table[:, :, 0], table[:, :, 1])

    def _records(self) -> list[Record]:
        """What is counted in: all that is remembered, and what will be when that is forgotten."""
        return [self._record] if self._following is None else [self._record, self._following]

    def _ended(self, visit: Visit) -> None:
        with self._lock:
            if self._open.pop(visit.id, None) is not None and visit.step > 0:
                self._pending.append(visit._steps)

    def _state(self, argument: str, state: object) -> int:
        try:
            found = operator.index(state)  # type: ignore[arg-type]  # that is what is found out
        except TypeError:
            found = -1
        if not 0 <= found < self.num_states:
            refuse(argument, quoted(state), f"a state from 0 to {self.num_states - 1}")
        return found

    def _outcome(self, reward: Any) -> int:
        try:
            return self._scale.level(float(reward))
        except (TypeError, ValueError, OverflowError):  # a whole number may lie beyond all floats
            refuse("reward", quoted(reward), f"one of the reward values {self.reward_values.tolist()}")

    def _ending(self) -> int:
        if 0.0 not in self._outcomes:
            refuse("next_state", None, "reward values with 0 among them, where the world can end an episode")
        return self.num_states


def _replayed(policy: Controller, steps: list[Any]) -> int | None:
    """What a policy does after these steps; None if it would have done something else on the way."""
    state, node = steps[0], int(policy.first[steps[0]])
    for t, (action, outcome, following) in enumerate(steps[1:]):
        if int(policy.actions[t][state, node]) != action:
            return None
        node = int(policy.successors[t][state, node, outcome])
        state = following
    return int(policy.actions[len(steps) - 1][state, node])
