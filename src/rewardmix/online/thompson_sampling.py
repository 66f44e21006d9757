"""Choose policies by Thompson sampling, after an exploration phase that covers all state-actions.

    replan when some n(x) or n(x, y) has grown by a third, or the number of episodes by a sixth:
        V_0 = largest probability to reach, within an episode, an x that was tried less than MIN_TRIES times
        if V_0 > NOVELTY_THRESHOLD:  play the policy that attains it
        else:                        update the chains of the posterior
                                     plan in the maximum-a-posteriori model, rewards shrunk to the pooled mean
                                     for each chain: sample rewards and transitions, as wide as the posterior and
                                     sharper, and plan in the sampled models
                                     draw a policy for each episode, a third from each kind

References: Thompson (1933); posterior sampling for reinforcement learning (Strens, 2000; Osband, Russo and Van Roy,
2013).

Posterior sampling alone discovers what many action sequences reach, but rarely what needs a specific sequence: models
sampled for unvisited states disagree. The first slot of the augmented MDP of Algorithm 2 therefore comes first, with
counts alone. Its second slot, which covers pairs, is left to the posterior: samples disagree about unobserved pairs,
and rewards soon show which of them do not matter.

Several policies are played, not one for all episodes, because replanning is rare. A sampled policy that avoids the data
that would refute it makes no count grow; alone it would be played until the number of episodes has grown. Late regret
is mostly due to near ties that are decided wrongly: the most likely model decides them best, and sharp samples cost
little more but do not share all of its errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import Floats
from rewardmix._core.int_dtypes import action_dtype, choice_dtype
from rewardmix.exploration import exploration_kernels as augmented_kernels
from rewardmix.exploration.augmented_mdp import estimate_transitions, initial_value
from rewardmix.exploration.bonuses import ProblemSize
from rewardmix.model import RewardMixingMDP
from rewardmix.online import mcmc
from rewardmix.online.experience import Experience
from rewardmix.online.mcmc import MarkovChains, RewardData, Stream
from rewardmix.online.mcmc_kernels import draw_dirichlet_rows
from rewardmix.planning import Plan, plan
from rewardmix.policy import Controller
from rewardmix.recovery.likelihood import Mixture
from rewardmix.recovery.reward_patterns import RewardPatterns

MIN_TRIES = 3
"""Number of tries from which a state-action is no longer searched for.

A transition of probability 1/2 fails three times in one of eight cases; posterior samples take over then.
"""

NOVELTY_THRESHOLD = 0.1
"""Probability to reach a rarely tried state-action above which the agent searches for one."""

TRANSITION_PRIOR_COUNT = 1.0
"""Dirichlet prior count of transitions, spread evenly over all next states."""

POSTERIOR_SHARPNESS, HIGH_SHARPNESS = 1.0, 16.0
"""Sharpness of the two samples around each chain: transition counts and large reward counts are multiplied by it.

Samples as wide as the posterior are needed, because otherwise what was unlucky at first would never be tried again. If
all were that wide, they would cost more than they find once most of the environment is known.
"""

NUM_MAP_SHARES = mcmc.NUM_CHAINS
"""Number of shares of the most likely model among the policies; each sample has one."""

SAMPLED_PLAN_GAP, SAMPLED_PLAN_GAP_MANY_TYPES = 1e-4, 1e-3
"""Planning gap per step and unit of reward range, for two types and for more.

Ten times the gap for two types costs 14 rewards in 20,000 episodes of ``shop``; for more types a tenth of the gap takes
more than ten times the CPU time.
"""

MAX_PLANNING_OPERATIONS = 1e9
"""Operations of one plan (``_core.budget``) after which its best policy so far is used; many types are slow."""

MIN_WEIGHT = 1e-12
"""Smallest type weight, as weights of a model must be positive."""


@dataclass(frozen=True, eq=False)
class PolicySet:
    """Hold the policies that are played until the next replanning.

    Attributes:
        policies: Controllers among which episodes are drawn uniformly.
        is_exploring: Whether they search for rarely tried state-actions; otherwise each is near-optimal in a plausible
            model.
        uncertainty: V_0, the probability to reach a rarely tried state-action.
        chains: Chains of the posterior.
    """

    policies: tuple[Controller, ...]
    is_exploring: bool
    uncertainty: float
    chains: MarkovChains


def choose_policies(experience: Experience, chains: MarkovChains, stream: Stream) -> PolicySet:
    """Choose the policies to play from all data so far."""
    search_policy, uncertainty = plan_novelty_policy(experience)
    # The chains are not updated while exploring: rewards do not matter for these policies, and updates cost time.
    if uncertainty > NOVELTY_THRESHOLD:
        return PolicySet((search_policy,), True, uncertainty, chains)
    evidence = experience.reward_data()
    chains = mcmc.update_chains(chains, evidence, stream)
    transitions = transition_posterior_counts(experience)
    map_mixture = mcmc.shrink_mixture(
        mcmc.find_map_mixture(chains, evidence.patterns, **mcmc.ASCENT_OPTIONS), evidence.patterns.reward_counts
    )
    models = [make_expected_model(experience, map_mixture, transitions)]
    for sharpness in (POSTERIOR_SHARPNESS, HIGH_SHARPNESS):
        models += [
            sample_model(experience, evidence, transitions, chains, k, sharpness, stream)
            for k in range(chains.num_chains)
        ]
    # The most likely model gets as many shares as each kind of sample, by repetition of one policy object.
    first, *sampled = (plan_policy(model, experience.counts.num_states) for model in models)
    return PolicySet((first,) * NUM_MAP_SHARES + tuple(sampled), False, uncertainty, chains)


def plan_approximately(model: RewardMixingMDP) -> Plan:
    """Plan up to a gap that scales with horizon and reward range, within ``MAX_PLANNING_OPERATIONS``."""
    reward_range = float(model.reward_values[-1] - model.reward_values[0])
    step_gap = SAMPLED_PLAN_GAP if model.num_types == 2 else SAMPLED_PLAN_GAP_MANY_TYPES
    return plan(model, gap=step_gap * model.horizon * reward_range, max_operations=MAX_PLANNING_OPERATIONS)


def plan_policy(model: RewardMixingMDP, num_states: int) -> Controller:
    """Plan and return the policy for the first ``num_states`` states; the end state needs no action."""
    policy = plan_approximately(model).policy
    if model.num_states == num_states:
        return policy
    actions, next_nodes = ([table[:num_states] for table in tables] for tables in (policy.actions, policy.next_nodes))
    return Controller(tuple(actions), tuple(next_nodes), policy.initial_nodes[:num_states], policy.reward_values)


@dataclass(frozen=True)
class NoveltyBonus:
    """Define a bonus of 1 for rarely tried state-actions and 0 for transitions, for the planner of Algorithm 2."""

    scales_with_value: bool = False
    unseen_pair_weight: float = 1.0

    def pair(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return 1 for counts below ``MIN_TRIES``, otherwise 0."""
        return (np.asarray(counts) < MIN_TRIES).astype(np.float64)

    def transition(self, counts: ArrayLike, size: ProblemSize) -> Any:
        """Return no bonus for transitions: the empirical ones are used."""
        return np.zeros(np.shape(counts))

    def initial(self, size: ProblemSize) -> Any:
        """Return the bonus of the initial state, 0."""
        return 0.0


def plan_novelty_policy(experience: Experience) -> tuple[Controller, float]:
    """Plan the policy that most likely reaches a rarely tried state-action; return it with that probability.

    Transitions are the empirical ones, without a bonus.
    """
    counts, novelty_bonus = experience.counts, NoveltyBonus()
    counts.refresh_transition_lists()
    sizes = counts.num_states, counts.num_actions, counts.horizon
    size = ProblemSize(*sizes, counts.num_states + counts.ended_early, 0.5, counts.episodes)
    hat = estimate_transitions(counts, novelty_bonus, size)  # type: ignore[arg-type]  # a bonus without name and guarantee
    choices = np.zeros((counts.horizon, counts.num_states), choice_dtype(counts.num_actions))
    after, value = np.zeros((counts.horizon, counts.num_state_actions)), np.zeros(counts.num_states)
    bonus = novelty_bonus.pair(counts.visits, size)
    all_states = np.arange(counts.num_states)
    augmented_kernels.plan_slot(hat, bonus, np.zeros(after.shape), all_states, choices, after, value)
    uncertainty = initial_value(value, counts, novelty_bonus, size)  # type: ignore[arg-type]  # a bonus without name and guarantee
    # The kernel stores the action in the upper bits and the choice to pick a pair in the lowest one.
    return make_markov_controller(
        (choices >> 1).astype(action_dtype(counts.num_actions)), counts.reward_values
    ), uncertainty


def make_markov_controller(actions: Any, reward_values: Floats) -> Controller:
    """Convert actions (H, S) to a controller with a single node."""
    horizon, num_states = actions.shape
    next_nodes = np.zeros((num_states, 1, reward_values.size), np.int16)
    action_tables = tuple(np.ascontiguousarray(actions[t, :, None]) for t in range(horizon))
    return Controller(action_tables, (next_nodes,) * horizon, np.zeros(num_states, np.int64), reward_values)


def sample_model(
    experience: Experience,
    evidence: RewardData,
    transitions: Floats,
    chains: MarkovChains,
    chain: int,
    sharpness: float,
    stream: Stream,
) -> RewardMixingMDP:
    """Sample a model around a chain and the transition counts, as wide as the posterior or sharper."""
    mixture = mcmc.sample_mixture(chains, chain, evidence, sharpness, stream)
    prior = TRANSITION_PRIOR_COUNT / (experience.counts.num_states + experience.counts.ended_early)
    # Sharpness multiplies observed transitions, not the prior: otherwise unvisited rows would become sharp, too.
    shapes = prior + sharpness * (transitions - prior)
    rows = np.empty_like(shapes)
    draw_dirichlet_rows(shapes, stream, rows)
    return build_model_with_end(experience, mixture, rows)


def most_likely_model(experience: Experience, patterns: RewardPatterns, chains: MarkovChains) -> RewardMixingMDP:
    """Return the maximum-a-posteriori rewards with expected transitions as a model."""
    mixture = mcmc.find_map_mixture(chains, patterns)
    return make_expected_model(experience, mixture, transition_posterior_counts(experience))


def make_expected_model(experience: Experience, mixture: Mixture, transitions: Floats) -> RewardMixingMDP:
    """Build a model of a mixture with the posterior mean of the transitions."""
    return build_model_with_end(experience, mixture, transitions / transitions.sum(axis=1, keepdims=True))


def transition_posterior_counts(experience: Experience) -> Floats:
    """Return transition counts plus prior counts, (X, S'); S' is S + 1 if episodes have ended early, else S."""
    running_counts = experience.counts
    counts = running_counts.count_matrix().toarray().astype(np.float64)
    size = running_counts.num_states + running_counts.ended_early
    return np.ascontiguousarray(counts[:, :size]) + TRANSITION_PRIOR_COUNT / size


def build_model_with_end(experience: Experience, mixture: Mixture, rows: Floats) -> RewardMixingMDP:
    """Build a model from reward probabilities and transitions (X, S').

    An end state is the last state: absorbing, with reward 0.
    """
    counts, values, num_types = experience.counts, experience.counts.reward_values, mixture.num_types
    size, actions = rows.shape[1], counts.num_actions
    probs = np.zeros((num_types, size, actions, values.size))
    probs[:, : counts.num_states] = mixture.probs.reshape(num_types, counts.num_states, actions, values.size)
    transition, starts = np.zeros((size, actions, size)), np.zeros(size)
    transition[: counts.num_states] = rows.reshape(counts.num_states, actions, size)
    starts[: counts.num_states] = counts.initial_counts + TRANSITION_PRIOR_COUNT / counts.num_states
    if size > counts.num_states:
        probs[:, -1, :, int(np.searchsorted(values, 0.0))] = 1.0
        transition[-1, :, -1] = 1.0
    # Floors and shrinkage leave rows that sum to 1 only approximately; a model checks its probabilities.
    probs /= probs.sum(axis=-1, keepdims=True)
    weights = np.maximum(mixture.weights, MIN_WEIGHT)
    # A model needs two types at least, so that a single one is entered twice.
    if num_types == 1:
        probs, weights = np.repeat(probs, 2, axis=0), np.ones(2)
    rewards = np.ascontiguousarray(probs[..., 1]) if values.size == 2 else probs
    return RewardMixingMDP(transition, starts / starts.sum(), weights / weights.sum(), rewards, counts.horizon, values)
