"""What to play next, given what was seen: open the world first, then sample from the posterior and plan.

    look again when some n(x) or n(x, y) has grown by a third, or the episodes by a sixth:
        V_0 = the largest chance to meet, within an episode, an x that was tried less than STRANGE_BELOW times
        if V_0 > LOOKED_FOR:   play the policy that has it
        else:               carry the chains of the posterior on
                            plan in the world as it most likely is, without what looks like luck
                            for each chain: draw laws and moves around it, as wide as the posterior and sharper,
                            and plan in the worlds that were drawn
                            visits are shared out among these policies by chance, a third to each kind

Posterior sampling alone finds what many episodes lead to by chance, and next to never what needs a row of right
actions: draws of a world that nobody saw point in all directions. So the first slot of the augmented MDP of Algorithm 2
comes first, by counts alone. Its second slot, which covers pairs, is left to the posterior: draws disagree about pairs
that nobody saw, and rewards tell soon which of them do not matter.

Many policies, and not one of them for all visits, because looks are few: a draw that avoids what would refute it makes
no count grow, and alone it would be played until the episodes have grown, again and again. What learning costs late is
mostly near ties that are decided wrongly: the most likely world decides them best, and sharp draws cost little more but
do not share all of its mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import Floats
from rewardmix._core.widths import action_width, choice_width
from rewardmix.exploration import exploration_kernels as augmented_kernels
from rewardmix.exploration.augmented import estimate_moves, start_value
from rewardmix.exploration.bonuses import Size
from rewardmix.model import RewardMixingMDP
from rewardmix.online import posterior
from rewardmix.online.posterior import Chains, RewardEvidence, Stream
from rewardmix.online.posterior_kernels import draw_rows
from rewardmix.online.record import Record
from rewardmix.planning import Plan, plan
from rewardmix.policy import Controller
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import Mixture

STRANGE_BELOW = 3
"""Tries after which a state-action is no longer strange: a door that opens every second time stays shut at all of them
one time in eight, and is left to the draws then."""

LOOKED_FOR = 0.1
"""Chance to meet a strange state-action above which it is looked for."""

MOVES = 1.0
"""Dirichlet prior on moves: so many imagined visits, spread evenly over all states."""

WIDE, SHARP = 1.0, 16.0
"""Sharpness of the draws that are played, two around each chain: moves are taken as if each had been seen so often, and
rewards of what was met often. Draws as wide as the posterior are needed, or what was unlucky at first would never be
tried again; all of them so wide would cost more than they find out once most of the world is known."""

LIKELY = posterior.CHAINS
"""Shares of the most likely world; each draw has one."""

DRAWN_GAP, DRAWN_GAP_OF_MANY = 1e-4, 1e-3
"""Of planning, a step and reward range, for two contexts and for more. Ten times as much for two would cost ``shop`` 14
rewards in 20,000 episodes; for more a tenth would take ten times the CPU time and more."""

PLANNING = 1e9
"""Simple steps of one plan (``_core.limits``) after which the best policy so far will do: many contexts are slow."""

SMALLEST_WEIGHT = 1e-12
"""A model's weights are positive."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What is played until the next look.

    Attributes:
        policies: controllers that visits are shared out among.
        explores: whether they look for what nobody tried; otherwise each is the best in a world that is plausible.
        uncertainty: V_0, the chance to meet something that was hardly tried.
        chains: the posterior's.
    """

    policies: tuple[Controller, ...]
    explores: bool
    uncertainty: float
    chains: Chains


def decide(seen: Record, chains: Chains, stream: Stream) -> Decision:
    """Look at everything seen so far, and choose what to play."""
    search, uncertainty = search_for_the_strange(seen)
    if uncertainty > LOOKED_FOR:
        return Decision((search,), True, uncertainty, chains)
    evidence = seen.evidence()
    chains = posterior.updated(chains, evidence, stream)
    moves = move_counts(seen)
    likely = posterior.luck_evened(
        posterior.most_likely(chains, evidence.bags, **posterior.CLIMB), evidence.bags.occurrences
    )
    worlds = [expected_model(seen, likely, moves)]
    for sharpness in (WIDE, SHARP):
        worlds += [drawn_model(seen, evidence, moves, chains, k, sharpness, stream) for k in range(chains.number)]
    first, *drawn = (best_policy(world, seen.tally.num_states) for world in worlds)
    return Decision((first,) * LIKELY + tuple(drawn), False, uncertainty, chains)


def nearly_best_plan(model: RewardMixingMDP) -> Plan:
    """The best plan, nearly."""
    reach = float(model.reward_values[-1] - model.reward_values[0])
    near = DRAWN_GAP if model.num_contexts == 2 else DRAWN_GAP_OF_MANY
    return plan(model, gap=near * model.horizon * reach, work_limit=PLANNING)


def best_policy(model: RewardMixingMDP, num_states: int) -> Controller:
    """The best policy, nearly, for the first ``num_states`` states: nobody acts in the end."""
    found = nearly_best_plan(model).policy
    if model.num_states == num_states:
        return found
    actions, successors = ([part[:num_states] for part in parts] for parts in (found.actions, found.successors))
    return Controller(tuple(actions), tuple(successors), found.first[:num_states], found.reward_values)


@dataclass(frozen=True)
class Strange:
    """The setting in which the first slot counts what was hardly tried: a bonus of one for that, none for moves."""

    scaled: bool = False
    unseen: float = 1.0

    def pair(self, counts: ArrayLike, size: Size) -> Any:
        """One up to ``STRANGE_BELOW`` tries."""
        return (np.asarray(counts) < STRANGE_BELOW).astype(np.float64)

    def move(self, counts: ArrayLike, size: Size) -> Any:
        """Moves are taken as they were seen."""
        return np.zeros(np.shape(counts))

    def start(self, size: Size) -> Any:
        """Likewise the first state."""
        return 0.0


def search_for_the_strange(seen: Record) -> tuple[Controller, float]:
    """The policy that most likely meets a state-action that was hardly tried, and that chance under T-hat."""
    tally, setting = seen.tally, Strange()
    tally.list_moves()
    sizes = tally.num_states, tally.num_actions, tally.horizon
    size = Size(*sizes, tally.num_states + tally.ended_early, 0.5, tally.episodes)
    hat = estimate_moves(tally, setting, size)  # type: ignore[arg-type]  # it needs no name and promises nothing
    choices = np.zeros((tally.horizon, tally.num_states), choice_width(tally.num_actions))
    after, value = np.zeros((tally.horizon, tally.num_x)), np.zeros(tally.num_states)
    bonus = setting.pair(tally.visits, size)
    everywhere = np.arange(tally.num_states)
    augmented_kernels.plan_slot(hat, bonus, np.zeros(after.shape), everywhere, choices, after, value)
    uncertainty = start_value(value, tally, setting, size)  # type: ignore[arg-type]  # as above
    return markov_controller((choices >> 1).astype(action_width(tally.num_actions)), tally.reward_values), uncertainty


def markov_controller(actions: Any, reward_values: Floats) -> Controller:
    """Actions (H, S) as a controller of one node."""
    horizon, num_states = actions.shape
    stay = np.zeros((num_states, 1, reward_values.size), np.int16)
    plays = tuple(np.ascontiguousarray(actions[t, :, None]) for t in range(horizon))
    return Controller(plays, (stay,) * horizon, np.zeros(num_states, np.int64), reward_values)


def drawn_model(
    seen: Record, evidence: RewardEvidence, moves: Floats, chains: Chains, chain: int, sharpness: float, stream: Stream
) -> RewardMixingMDP:
    """A world drawn around a chain and ``move_counts``, as wide as the posterior or sharper."""
    mixture = posterior.drawn_mixture(chains, chain, evidence, sharpness, stream)
    prior = MOVES / (seen.tally.num_states + seen.tally.ended_early)
    shapes = prior + sharpness * (moves - prior)
    rows = np.empty_like(shapes)
    draw_rows(shapes, stream, rows)
    return assembled_model(seen, mixture, rows)


def most_likely_model(seen: Record, bags: Bags, chains: Chains) -> RewardMixingMDP:
    """The world as it most likely is: rewards from the top of the best chain's hill, moves as expected."""
    return expected_model(seen, posterior.most_likely(chains, bags), move_counts(seen))


def expected_model(seen: Record, mixture: Mixture, moves: Floats) -> RewardMixingMDP:
    """The world of a mixture, with moves as ``move_counts`` let one expect."""
    return assembled_model(seen, mixture, moves / moves.sum(axis=1, keepdims=True))


def move_counts(seen: Record) -> Floats:
    """(X, S'): moves seen, with those of the prior. S' is S, or S + 1 if the world has ended episodes."""
    tally = seen.tally
    counts = tally.moves_matrix().toarray().astype(np.float64)
    size = tally.num_states + tally.ended_early
    return np.ascontiguousarray(counts[:, :size]) + MOVES / size


def assembled_model(seen: Record, mixture: Mixture, rows: Floats) -> RewardMixingMDP:
    """The model with these laws and these moves (X, S'); an end is the last state, never left, and pays 0."""
    tally, values, contexts = seen.tally, seen.tally.reward_values, mixture.num_contexts
    size, actions = rows.shape[1], tally.num_actions
    laws = np.zeros((contexts, size, actions, values.size))
    laws[:, : tally.num_states] = mixture.laws.reshape(contexts, tally.num_states, actions, values.size)
    transition, starts = np.zeros((size, actions, size)), np.zeros(size)
    transition[: tally.num_states] = rows.reshape(tally.num_states, actions, size)
    starts[: tally.num_states] = tally.starts + MOVES / tally.num_states
    if size > tally.num_states:
        laws[:, -1, :, int(np.searchsorted(values, 0.0))] = 1.0
        transition[-1, :, -1] = 1.0
    laws /= laws.sum(axis=-1, keepdims=True)
    weights = np.maximum(mixture.weights, SMALLEST_WEIGHT)
    if contexts == 1:  # a model has two contexts at least: twice the same
        laws, weights = np.repeat(laws, 2, axis=0), np.ones(2)
    rewards = np.ascontiguousarray(laws[..., 1]) if values.size == 2 else laws
    return RewardMixingMDP(transition, starts / starts.sum(), weights / weights.sum(), rewards, tally.horizon, values)
