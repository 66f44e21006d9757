"""What to play next in a session: a plan followed from choice to choice, each a value that a store can keep.

The controller of the plan is followed as long as its own actions are played. After an action that was tried by chance,
after a state that the plan does not know and beyond the horizon, the node is found again by the belief: the one that is
worth most there. Beyond the horizon every step is taken to be the last.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats, as_count, as_instance, as_number, refuse
from rewardmix.bounded_mean import ReturnBounds, return_bounds
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.planning.baselines import plan_markov
from rewardmix.policy import MarkovPolicy

ADAPTIVE, FIXED = "adaptive", "fixed"
"""Arms of a session: the plan, or the best policy that looks at the step and the state only."""


@dataclass(frozen=True)
class ServeSettings:
    """How a plan is put to work.

    Attributes:
        explore: chance with which an adaptive session plays any action instead of the plan's.
        holdout: share of the sessions that play the best fixed policy.
        default_action: what is played in a state that the plan does not know; None: what earns most at the first step.
        explore_first: ``explore`` of sessions whose version was given and not learned; None: the same.
        max_session_return: what one session counts at most where the arms are compared, to be said before the first;
            None: the horizon times the highest reward value.
    """

    explore: float = 0.05
    holdout: float = 0.1
    default_action: int | None = None
    explore_first: float | None = None
    max_session_return: float | None = None

    def __post_init__(self) -> None:
        for name in ("explore", "holdout", *(["explore_first"] if self.explore_first is not None else [])):
            share = as_number(name, getattr(self, name))
            if not 0.0 <= share <= 1.0:
                refuse(name, share, "a share between 0 and 1")
        if self.max_session_return is not None:
            as_number("max_session_return", self.max_session_return)


@dataclass(frozen=True)
class Decided:
    """One decision of a session, with all that the next one needs.

    Attributes:
        step: 0 for the first.
        state: None if the plan does not know it.
        action: what is played.
        propensity: chance with which this action was to be played here, given the arm.
        node: of the controller; None where it is not followed.
        belief: over the contexts, before the reward of this step.
    """

    step: int
    state: int | None
    action: int
    propensity: float
    node: int | None
    belief: tuple[float, ...]


class ServedPlan:
    """A plan, its fixed rival, and how choices are drawn between them."""

    def __init__(self, plan: Plan, settings: ServeSettings | None = None) -> None:
        self.plan = as_instance("plan", plan, Plan)
        self.model = plan.model
        self.settings = settings or ServeSettings()
        self._decide = plan.decide
        fixed = as_instance("policy", plan_markov(plan.model).policy, MarkovPolicy)
        self._fixed = fixed.table.argmax(axis=-1)
        self.default_action = self._default(self.settings.default_action)
        self.session_bounds = session_bounds(self.model, self.settings.max_session_return)

    def _default(self, given: int | None) -> int:
        if given is None:
            return int((self.model.initial[:, None] * self.model.mean).sum(axis=0).argmax())
        if as_count("default_action", given, 0) >= self.model.num_actions:
            refuse("default_action", given, f"an action below {self.model.num_actions}")
        return given

    def arm_of(self, session: str) -> str:
        """Which arm a new session gets, drawn by its id."""
        return FIXED if drawn(session, "arm") < self.settings.holdout else ADAPTIVE

    def begin(self, session: str, arm: str, state: int | None) -> Decided:
        """The first choice of a session."""
        node = None if state is None else int(self.plan.policy.first[state])
        return self._choose(session, arm, 0, state, node, self.model.weights)

    def follow(self, session: str, arm: str, last: Decided, reward: float, state: int | None) -> Decided:
        """The choice after ``last`` was paid ``reward`` and led to ``state``."""
        belief = self.after(last, reward)
        return self._choose(session, arm, last.step + 1, state, self._successor(last, reward), belief)

    def after(self, last: Decided, reward: float) -> Floats:
        """The belief after a reward; one for a state that the plan does not know tells nothing."""
        belief = np.array(last.belief)
        outcome = self.outcome_of(reward)
        if last.state is None:
            return belief
        return bayes.update(belief, self.model.laws[:, last.state, last.action, outcome])

    def outcome_of(self, reward: float) -> int:
        """The index of the value that a reward counts as."""
        return self.model.reward_scale.level(reward)

    def _successor(self, last: Decided, reward: float) -> int | None:
        """The node that the controller moves to; None where it was not followed or has ended."""
        policy = self.plan.policy
        if last.node is None or last.state is None or last.step + 1 >= policy.horizon:
            return None
        if int(policy.actions[last.step][last.state, last.node]) != last.action:
            return None
        return int(policy.successors[last.step][last.state, last.node, self.outcome_of(reward)])

    def _choose(
        self, session: str, arm: str, step: int, state: int | None, node: int | None, belief: Floats
    ) -> Decided:
        kept = tuple(belief.tolist())
        time = min(step, self.model.horizon - 1)
        if state is None:
            return Decided(step, None, self.default_action, 1.0, None, kept)
        if arm == FIXED:
            return Decided(step, state, int(self._fixed[time, state]), 1.0, None, kept)
        if node is None:
            node = self._decide.node(time, state, belief)
        action, propensity = self._explored(session, step, int(self.plan.policy.actions[time][state, node]))
        return Decided(step, state, action, propensity, node, kept)

    def _explored(self, session: str, step: int, best: int) -> tuple[int, float]:
        """(action, its chance): the best, or with a small chance any."""
        explore, count = self.settings.explore, self.model.num_actions
        action = best
        if explore > 0.0 and drawn(session, "explore", step) < explore:
            action = int(drawn(session, "action", step) * count)
        return action, 1.0 - explore * (count - 1) / count if action == best else explore / count


def session_bounds(model: RewardMixingMDP, most: float | None) -> ReturnBounds:
    """Between what a session counts: the range of the rewards times the horizon, or up to ``most``."""
    bounds = return_bounds(model.reward_values, model.horizon)
    if most is None:
        return bounds
    if most <= bounds.least:
        refuse("max_session_return", most, f"more than {bounds.least:g}, the least that a session can earn")
    return ReturnBounds(bounds.least, float(most))


def drawn(session: str, *purpose: object) -> float:
    """A number in [0, 1) that belongs to a session and a purpose: whoever asks again is told the same."""
    text = "\0".join(map(str, (session, *purpose)))
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11) / (1 << 53)
