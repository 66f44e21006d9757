"""Decide the next action of a session. Each decision is a value that the store can keep, so any server can continue.

The controller of the plan is followed as long as its own actions are played. After an exploratory action, in a state
that the plan does not know, and beyond the horizon, the node is chosen by the belief: the one with the highest value
there. Beyond the horizon every step is treated as the last one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats, as_count, as_instance, as_number, raise_input_error
from rewardmix.bounded_mean import ReturnBounds, return_bounds
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan
from rewardmix.planning.baselines import plan_markov
from rewardmix.policy import MarkovPolicy

ADAPTIVE, HOLDOUT = "adaptive", "holdout"
"""Arms of a session: the plan, or the best Markov policy, which depends on step and state only."""


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a served policy.

    Attributes:
        explore_prob: Probability with which an adaptive session plays a uniformly random action.
        holdout_share: Probability that a session plays the best Markov policy.
        default_action: Action in states that the plan does not know; None takes the best one for the first step.
        initial_explore_prob: ``explore_prob`` of sessions with a provided version; None makes no difference.
        max_session_return: Upper bound of a session's return in the A/B test, to be set before the first session; None
            takes the horizon times the largest reward value.
    """

    explore_prob: float = 0.05
    holdout_share: float = 0.1
    default_action: int | None = None
    initial_explore_prob: float | None = None
    max_session_return: float | None = None

    def __post_init__(self) -> None:
        """Check the probabilities and the bound."""
        for name in (
            "explore_prob",
            "holdout_share",
            *(["initial_explore_prob"] if self.initial_explore_prob is not None else []),
        ):
            probability = as_number(name, getattr(self, name))
            if not 0.0 <= probability <= 1.0:
                raise_input_error(name, probability, "a number between 0 and 1")
        if self.max_session_return is not None:
            as_number("max_session_return", self.max_session_return)


@dataclass(frozen=True)
class StepDecision:
    """Decision of one step, with everything that the next one needs.

    Attributes:
        step: Index of the step, from 0.
        state: Index of the state; None if the plan does not know it.
        action: Action that is played.
        propensity: Probability of this action here, given the arm.
        node: Node of the controller; None where it is not followed.
        belief: Probabilities of the types before the reward of this step, shape (M,).
    """

    step: int
    state: int | None
    action: int
    propensity: float
    node: int | None
    belief: tuple[float, ...]


class ServedPlan:
    """Plan and its Markov baseline, with the randomization of arms and exploration."""

    def __init__(self, plan: Plan, settings: ServeSettings | None = None) -> None:
        self.plan = as_instance("plan", plan, Plan)
        self.model = plan.model
        self.settings = settings or ServeSettings()
        self._belief_rule = plan.belief_decision_rule
        # Both arms are computed from one model, so the test measures the effect of adapting and not of the model.
        markov = as_instance("policy", plan_markov(plan.model).policy, MarkovPolicy)
        self._markov_actions = markov.table.argmax(axis=-1)
        self.default_action = self._resolve_default_action(self.settings.default_action)
        self.session_bounds = session_bounds(self.model, self.settings.max_session_return)

    def _resolve_default_action(self, action: int | None) -> int:
        """Check the default action, or choose the one with the highest mean reward in the initial state."""
        if action is None:
            return int((self.model.initial[:, None] * self.model.mean_rewards).sum(axis=0).argmax())
        if as_count("default_action", action, 0) >= self.model.num_actions:
            raise_input_error("default_action", action, f"an action below {self.model.num_actions}")
        return action

    def assign_arm(self, session: str) -> str:
        """Draw the arm of a new session by a hash of its id."""
        return HOLDOUT if hash_uniform(session, "arm") < self.settings.holdout_share else ADAPTIVE

    def decide_first(self, session: str, arm: str, state: int | None) -> StepDecision:
        """Decide the first action of a session."""
        node = None if state is None else int(self.plan.policy.initial_nodes[state])
        return self._choose(session, arm, 0, state, node, self.model.weights)

    def decide_next(self, session: str, arm: str, last: StepDecision, reward: float, state: int | None) -> StepDecision:
        """Decide the action after decision ``last`` had ``reward`` and led to ``state``."""
        belief = self.update_belief(last, reward)
        return self._choose(session, arm, last.step + 1, state, self._next_node(last, reward), belief)

    def update_belief(self, last: StepDecision, reward: float) -> Floats:
        """Update the belief by a reward; a reward in an unknown state leaves it unchanged."""
        belief = np.array(last.belief)
        reward_index = self.find_reward_index(reward)
        if last.state is None:
            return belief
        return bayes.update(belief, self.model.reward_probs[:, last.state, last.action, reward_index])

    def find_reward_index(self, reward: float) -> int:
        """Return the index of the reward value, or of its bin."""
        return self.model.reward_scale.level(reward)

    def _next_node(self, last: StepDecision, reward: float) -> int | None:
        """Return the next node of the controller; None where it was not followed or has ended."""
        policy = self.plan.policy
        if last.node is None or last.state is None or last.step + 1 >= policy.horizon:
            return None
        # An exploratory action leaves the controller: its nodes continue only its own actions.
        if int(policy.actions[last.step][last.state, last.node]) != last.action:
            return None
        return int(policy.next_nodes[last.step][last.state, last.node, self.find_reward_index(reward)])

    def _choose(
        self, session: str, arm: str, step: int, state: int | None, node: int | None, belief: Floats
    ) -> StepDecision:
        """Choose the action of a step and its propensity."""
        belief_tuple = tuple(belief.tolist())
        model_step = min(step, self.model.horizon - 1)
        if state is None:
            return StepDecision(step, None, self.default_action, 1.0, None, belief_tuple)
        if arm == HOLDOUT:
            return StepDecision(step, state, int(self._markov_actions[model_step, state]), 1.0, None, belief_tuple)
        if node is None:
            # The belief-based choice costs a scan over nodes. It runs after deviations only; otherwise the
            # controller gives the node.
            node = self._belief_rule.find_node(model_step, state, belief)
        action, propensity = self._explore(session, step, int(self.plan.policy.actions[model_step][state, node]))
        return StepDecision(step, state, action, propensity, node, belief_tuple)

    def _explore(self, session: str, step: int, planned_action: int) -> tuple[int, float]:
        """Return (action, its probability): the planned action, or with a small probability any."""
        explore_prob, num_actions = self.settings.explore_prob, self.model.num_actions
        action = planned_action
        if explore_prob > 0.0 and hash_uniform(session, "explore", step) < explore_prob:
            action = int(hash_uniform(session, "action", step) * num_actions)
        # Exploration draws from all actions, including the planned one: its propensity is 1 - e (A - 1) / A, that of
        # the others e / A.
        if action != planned_action:
            return action, explore_prob / num_actions
        return action, 1.0 - explore_prob * (num_actions - 1) / num_actions


def session_bounds(model: RewardMixingMDP, max_return: float | None) -> ReturnBounds:
    """Return the bounds of a session's return: reward range times horizon, or ``max_return`` as upper bound."""
    bounds = return_bounds(model.reward_values, model.horizon)
    if max_return is None:
        return bounds
    if max_return <= bounds.min_return:
        raise_input_error(
            "max_session_return", max_return, f"more than {bounds.min_return:g}, the smallest possible return"
        )
    return ReturnBounds(bounds.min_return, float(max_return))


def hash_uniform(session: str, *purpose: object) -> float:
    """Return a number in [0, 1) that is a hash of a session and a purpose, so that repetitions agree."""
    text = "\0".join(map(str, (session, *purpose)))
    # 53 bits fill the mantissa of a float64, so the result is uniform, below 1 and identical on all platforms.
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11) / (1 << 53)
