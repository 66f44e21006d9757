"""A plan that does not bet on what the log does not know.

Two cautions, and one number for both (``pessimism``, the number of standard errors):

    rewards     each context's mean reward at each state-action is lowered by so many of its standard errors, to the
                worst reward at most; what was never tried pays the worst. A standard error that is not finite (of a
                probability at 0 or 1, of rare rewards, of many reward values) comes from counts
    support     where the log was written by a policy that looked at rewards, types and actions cannot be told apart
                (whatever it never did after a bad reward has never been seen after one), and no standard error says so.
                So the plan keeps to actions that the log takes in the same situation (``habits``)

If the plan for the lowered rewards keeps to the log's actions by itself, it is the answer: so it is with logs that try
everything. Otherwise the best policy among those that keep to them, with rewards lowered four times as much, is found
by a backward pass over (state, belief, step before). A small log of a deterministic policy cannot improve on it. If
that policy was given, it is the answer; otherwise the answer is the plan restricted to the support of the log.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats
from rewardmix._core.streams import Role, seed_for
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.logs.belief_pass import worths
from rewardmix.logs.habits import Habits, Situations, habits_of, is_history_deterministic, situations, took_every_action
from rewardmix.logs.offpolicy import LEAVES
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.planning import Plan, PlanInfo, plan, usual_work
from rewardmix.planning.backward_pass import Expectation, compact_controller
from rewardmix.planning.baselines import belief_nodes
from rewardmix.planning.plans import rounding_bound
from rewardmix.policy import Controller
from rewardmix.recovery.bags import bags_of
from rewardmix.recovery.bootstrap import mixture_of_model
from rewardmix.recovery.likelihood import e_step
from rewardmix.simulation import simulate

PESSIMISM = 0.5
"""Standard errors, unless somebody says otherwise; chosen by ``benchmarks/safety``."""

KEPT = 4.0
"""Where a plan has to be kept to the log's actions it takes off so many times as many standard errors."""

ADDED = 2.0
"""Visits with the worst and with the best reward that a standard error from counts adds, as in an interval of Agresti
and Coull for a probability; of several reward values as many in all, spread evenly."""

LEAST_VISITS = 1e-6
"""Fewer visits of a context are none."""

FEW_VISITS = 20
"""State-actions with fewer visits are thin support."""

SMALL_LOG = 500
"""A deterministic policy is not improved by a log with at most so many of its episodes; see ``benchmarks/safety``."""

PLAYED = 2000
"""Episodes that are simulated in the fitted model to see where a plan goes."""

STEPS_AT_ONCE = 1 << 20
"""Simulated steps whose situations are in memory at a time: some hundred bytes each."""

MOST_BELIEFS = 256
"""Beliefs of a step, at most ..."""
FEWEST_BELIEFS = 16
"""... and at least."""
CELLS = 2e7
"""Cells (step, state, belief, step before, action) of the backward pass, as far as ``FEWEST_BELIEFS`` allows."""


@dataclass(frozen=True)
class Support:
    """How much of a plan rests on what the log holds.

    Attributes:
        pessimism: standard errors that rewards were lowered by.
        cautious: value of the policy with lowered rewards.
        planned: its value in the fitted model.
        left: share of its steps, in the fitted model, at which it takes actions that are not the log's.
        thin: share of its steps at state-actions with fewer than ``FEW_VISITS`` visits.
        kept: whether it was made to keep to the log's actions.
    """

    pessimism: float
    cautious: float
    planned: float
    left: float
    thin: float
    kept: bool

    @property
    def sentence(self) -> str:
        """The gist."""
        thin = f"{100 * self.thin:.1f} % of the plan's steps are at state-actions with fewer than {FEW_VISITS} visits"
        own = self._describe_actions()
        if not self.pessimism:
            return f"{thin}, {own}; nothing was done about it (pessimism 0)."
        value = f"{self.cautious:.4f} if rewards are {self.pessimism:g} standard errors lower"
        return f"{thin}, {own}. The plan is worth {self.planned:.4f} in the fitted model, {value}."

    def _describe_actions(self) -> str:
        """Say whether the plan's actions are those of the log."""
        if self.left > LEAVES:
            return f"and {100 * self.left:.1f} % take actions that the log hardly ever took in such a situation"
        if self.kept:
            return "and it was made to keep to actions that the log took in the same situation"
        return "and it takes actions that the log took in the same situation"


@dataclass(frozen=True)
class SmallLogSupport(Support):
    """How much of a plan rests on a log that is too small to improve on the policy that wrote it.

    Attributes:
        keeps_given_policy: whether the plan is the given policy, which took every action of the log.
    """

    keeps_given_policy: bool

    def _describe_actions(self) -> str:
        """Say what the plan does instead of improving on the policy that wrote the log."""
        if self.keeps_given_policy:
            return (
                "and it is the given policy, which took all actions of the log: the log is too small to improve on it"
            )
        return (
            f"{super()._describe_actions()}; the log is too small to improve on the policy that wrote it: "
            "give the run of that policy as init_model, and fit keeps it"
        )


@short
@dataclass(frozen=True, eq=False)
class Known:
    """What a cautious plan looks at.

    Attributes:
        episodes: the log, or a sample of it.
        model: fitted to it.
        errors: of ``model.rewards``.
        visits: (S, A) of the whole log.
        chances: (K, H) with which the log took each action, if somebody kept them.
        policy: the policy that wrote the log, if it was given and the log is too small to improve on it.
    """

    episodes: Episodes
    model: RewardMixingMDP
    errors: Floats
    visits: NDArray[np.int64]
    chances: Floats | None = None
    policy: Controller | None = None


def policy_to_keep(start: Any, episodes: Episodes, model: RewardMixingMDP) -> Controller | None:
    """Return the policy of ``start`` if it took every action of a small log, otherwise None.

    Args:
        start: a plan, or a result that has one; anything else gives None.
        episodes: the log.
        model: the fitted model, which the policy has to fit.
    """
    given = start if isinstance(start, Plan) else getattr(start, "plan", None)
    if not isinstance(given, Plan) or len(episodes) > SMALL_LOG:
        return None
    policy = given.policy
    sizes = policy.num_states, policy.horizon, policy.reward_values.tolist()
    fits = sizes == (model.num_states, model.horizon, model.reward_values.tolist())
    return policy if fits and policy.most < model.num_actions and took_every_action(policy, episodes) else None


def cautious(plain: Plan, known: Known, pessimism: float, gap: float, seed: int) -> tuple[Plan, Support, Habits]:
    """The plan that keeps to what is known, set beside ``plain``, the plan that believes the model."""
    habits = habits_of(known.episodes, known.model)
    if not pessimism:
        return plain, _support(plain.policy, known, habits, known.model, 0.0, False, seed), habits
    low = lowered(known, pessimism)
    if known.policy is not None:
        support = _support(known.policy, known, None, low, pessimism, True, seed)
        return _set_beside(plain, known.policy, gap, True), _of_small_log(support, True), habits
    found = plan(low, gap=gap, work_limit=usual_work(low)).policy
    support = _support(found, known, habits, low, pessimism, False, seed)
    if support.left > LEAVES:
        found = keep_to(habits, known.model, lowered(known, KEPT * pessimism))
        support = _support(found, known, habits, low, pessimism, True, seed)
        if len(known.episodes) <= SMALL_LOG and is_history_deterministic(known.episodes):
            support = _of_small_log(support, False)
    return _set_beside(plain, found, gap, support.kept), support, habits


def lowered(known: Known, pessimism: float) -> RewardMixingMDP:
    """The model with lower rewards: with a small chance, every state-action pays the worst."""
    model = known.model
    worth = model.reward_values - model.reward_values[0]
    spread = _mean_errors(known, worth)
    above = model.means - model.reward_values[0]
    share = np.where(above > 0, np.minimum(pessimism * spread / np.where(above > 0, above, 1.0), 1.0), 0.0)
    tried = np.ones(share.shape[1:], np.bool_)
    tried[: known.visits.shape[0]] = known.visits > 0
    share = np.where(tried, share, 1.0)[..., None]
    worst = np.zeros(model.num_values)
    worst[0] = 1.0
    return replace(model, rewards=(1.0 - share) * model.laws + share * worst)


def _mean_errors(known: Known, worth: Floats) -> Floats:
    """(M, S, A): the standard error of each mean reward; where those of its law are not all finite, from counts."""
    finite, two = np.isfinite(known.errors), known.model.num_values == 2
    errors = np.where(finite, known.errors, 0.0)
    spread: Floats = errors * worth[1] if two else np.sqrt(((errors * worth) ** 2).sum(axis=-1))
    whole = finite if two else finite.all(axis=-1)
    return spread if whole.all() else np.where(whole, spread, np.maximum(spread, counted_errors(known, worth)))


def counted_errors(known: Known, worth: Floats) -> Floats:
    """(M, S, A): the standard error of each mean reward from the visits n that each context is expected to have made.

    With p its law over Z values v and q = p + 2 ``ADDED`` / (Z n), the square is

        (sum(q) sum(q v^2) - sum(q v)^2) / n            Z = 2:  (p + a / n) (1 - p + a / n) (v_1 - v_0)^2 / n

    It is that of a multinomial, var(v) / n, and more: also where p is 0 or 1 it is not 0. It falls as n grows.
    """
    model, episodes = known.model, known.episodes
    counts = e_step(bags_of(episodes), mixture_of_model(model, episodes)).outcomes.sum(axis=-1)
    visits = np.zeros(model.means.shape)
    visits[:, : episodes.num_states] = counts.reshape(model.num_contexts, episodes.num_states, -1)
    visits = np.maximum(visits, LEAST_VISITS)
    chances = np.moveaxis(model.laws, -1, 0) + 2.0 * ADDED / (model.num_values * visits)
    squares = mixed(np.ones(worth.size), chances) * mixed(worth**2, chances) - mixed(worth, chances) ** 2
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) / visits))


def keep_to(habits: Habits, model: RewardMixingMDP, low: RewardMixingMDP) -> Controller:
    """The best policy in ``low`` that takes only actions of the log's own, with beliefs as ``model`` has them."""
    states, lasts = np.arange(model.num_states), np.arange(habits.lasts)
    each = model.horizon * model.num_states * habits.lasts * model.num_actions
    nodes = belief_nodes(model, int(min(MOST_BELIEFS, max(FEWEST_BELIEFS, CELLS / each))))
    expect = Expectation(low)
    actions, successors = [], []
    later: Floats | None = None
    for t in reversed(range(model.horizon)):
        worth, onward = worths(model, low, nodes, t, later, expect)
        where = Situations(t, states[:, None, None], nodes[t][None, :, None], lasts)
        expected = (worth * nodes[t][None, :, None]).sum(axis=-1)
        plays = np.where(habits.own(where), expected[:, :, None], -np.inf).argmax(axis=-1)
        later = np.take_along_axis(worth[:, :, None], plays[..., None, None], axis=3)[:, :, :, 0]
        moves = np.take_along_axis(onward[:, :, None], plays[..., None, None], axis=3)[:, :, :, 0]
        after = 1 + plays[..., None] * model.num_values + np.arange(model.num_values)
        count = nodes[t].shape[0] * habits.lasts
        actions.append(plays.reshape(-1, count))
        successors.append((moves * habits.lasts + after).reshape(-1, count, model.num_values))
    return compact_controller(actions[::-1], successors[::-1], model)


def _support(
    policy: Controller,
    known: Known,
    habits: Habits | None,
    low: RewardMixingMDP,
    pessimism: float,
    kept: bool,
    seed: int,
) -> Support:
    """Measure where the policy goes in the fitted model, and what the log holds there.

    Without ``habits`` every action counts as one of the log's: the policy is the one that wrote it.
    """
    model = known.model
    played = simulate(policy, model, PLAYED, seed_for(seed, Role.PLANNED_STEPS))
    left = 0.0 if habits is None else float((~_own_steps(habits, played, model)).mean())
    visits = np.full((model.num_states, model.num_actions), FEW_VISITS, np.int64)
    visits[: known.visits.shape[0]] = known.visits
    return Support(
        pessimism,
        controller_value(policy, low),
        controller_value(policy, model),
        left,
        float((visits[played.states[:, :-1], played.actions] < FEW_VISITS).mean()),
        kept,
    )


def _of_small_log(support: Support, keeps_given_policy: bool) -> SmallLogSupport:
    parts = {one.name: getattr(support, one.name) for one in fields(support)}
    return SmallLogSupport(**parts, keeps_given_policy=keeps_given_policy)


def _own_steps(habits: Habits, played: Episodes, model: RewardMixingMDP) -> NDArray[np.bool_]:
    """(K, H): whether each step takes an action that the log takes there; few episodes at a time, if they are long."""
    size = max(1, STEPS_AT_ONCE // played.horizon)
    own = np.empty(played.actions.shape, np.bool_)
    for begin in range(0, len(played), size):
        block = played[begin : begin + size]
        taken = habits.own(situations(block, model))
        place = block.actions.astype(np.int64)[..., None]
        own[begin : begin + size] = np.take_along_axis(taken, place, axis=-1)[..., 0]
    return own


def _set_beside(plain: Plan, policy: Controller, gap: float, kept: bool) -> Plan:
    """A plan of this policy, with the bounds of ``plain``."""
    model = plain.model
    lower = min(controller_value(policy, model) - rounding_bound(model, model.num_states), plain.upper)
    met = plain.upper - lower <= gap
    reason = plain.info.reason if met else "the plan keeps to what the log knows"
    return Plan(policy, lower, plain.upper, PlanInfo(met, plain.info.asked, reason, plain.info.rounds), model, kept)
