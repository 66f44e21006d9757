"""Assign random streams (seeding): every caller that draws has a role, and every role its own stream.

A stream is named by (seed, role, index ...), where the index tells apart chunks, rounds or sizes of one caller. Two
callers do not share a stream, so what is learned with a seed and what is tested with that seed are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray


@unique
class Role(IntEnum):
    """List the callers that draw random numbers.

    The integers determine what a seed gives: new ones may be added, existing ones must not change.
    """

    PROBLEM = 0
    """Generator of a random problem; uses the bare seed."""
    ENVIRONMENT = 1
    """Environment of this package after ``reset(seed=...)``."""
    VECTOR_ENVIRONMENT = 25
    """Vector environment of this package after ``reset(seed=...)``."""
    MIXED_REWARDS = 2
    """Types and rewards that ``RewardMixingWrapper`` adds to another environment."""
    SIMULATION = 3
    """Episodes of ``simulate``; index: chunk."""
    SIMULATED_BLOCKS = 4
    """Seeds of the later blocks of a log that is simulated in blocks; index: first episode."""
    PLAYED_ACTIONS = 5
    """Actions of a policy in an environment."""
    PLAYED_ENVIRONMENT = 6
    """Seed of the environment in which a policy is evaluated."""
    EVALUATION = 7
    """Seed of the episodes of ``evaluate``."""
    BASELINE_BELIEFS = 9
    """Beliefs at which baseline policies decide."""
    EXPLORATION = 10
    """Episodes of the compiled engine."""
    BATCHED_EXPLORATION = 11
    """Episodes of the batched engine."""
    EXPLORED_ACTIONS = 12
    """Random actions in an explored environment; index: number of earlier episodes."""
    EXPLORED_ENVIRONMENT = 13
    """Seed of an explored environment; index: number of earlier episodes."""
    EVIDENCE_ORDER = 14
    """Order of refinement episodes among the other episodes."""
    TWO_TYPE_INITS = 15
    """Initial values of EM for two types."""
    TYPE_INITS = 16
    """Initial values of EM for more types; index: number of types."""
    RARE_TYPE_INITS = 50
    """Initial values of EM that search for a rare type; index: number of types."""
    TRIALS = 17
    """Seed of the trials that choose the weights."""
    RESAMPLES = 18
    """Episodes resampled by the bootstrap."""
    REFINEMENT = 19
    """Seeds of the resamples of refinement; index: number of earlier episodes, batch."""
    REFINED_EPISODES = 20
    """Seeds of the refinement episodes; index: number of earlier episodes, batch."""
    OPTIMISM = 51
    """Optimistic reward perturbations in a batch of refinement."""
    VALIDATION = 21
    """Seed of the new episodes that validate a learned policy."""
    LOG_SAMPLE = 22
    """Episodes that represent a long log; index: partition."""
    HELD_OUT = 23
    """Episodes that are held out of a fit."""
    LOG_RESAMPLES = 24
    """Episodes of a log resampled by the bootstrap."""
    RESEEDED_CHAINS = 26
    """New initial states of posterior chains; seeded by the state of their stream."""
    AGENT_UPDATES = 27
    """Posterior samples of an agent."""
    AGENT_EPISODES = 28
    """Policy that an agent's episode gets."""
    ONLINE_EPISODES = 29
    """Episodes of online learning in a model; index: number of earlier episodes, index of the policy."""
    ONLINE_POLICY_CHOICE = 30
    """Policy of each of those episodes; index: number of earlier episodes."""
    ONLINE_ENVIRONMENT = 31
    """Seed of an environment of online learning; index: number of earlier episodes, index of the policy."""
    BASELINE_INITS = 32
    """Initial values of EM in the certainty-equivalence baseline."""
    FORECASTS = 34
    """Initial values of EM for forecasts with several numbers of types; index: number of earlier episodes."""
    CROSS_FIT = 33
    """Half to which an episode belongs when the number of types is selected."""
    RECOGNITION = 41
    """Seed of the episodes, in a model, that show how fast types are identified."""
    PLOT_EPISODE = 42
    """Seed of the episode, in a model, that a plot of beliefs shows."""
    DEMO_USERS = 43
    """Preferences and clicks of a user of the demo shop; index: user."""
    DEMO_SHOP = 44
    """Initial policy of the demo shop, before it has learned anything."""
    DIAGNOSTICS_RESAMPLES = 60
    """Rewards resampled from a fitted model for the diagnostics; index: number of types, resample."""
    TRANSITION_TYPES = 57
    """Test episodes, and initial values of EM, of the test whether transitions depend on the type."""
    NEXT_STATE = 58
    """Test episodes, and initial values of EM, of the test whether rewards depend on the next state."""
    PLANNED_STEPS = 40
    """Seed of the episodes, in a fitted model, that show which states a plan visits."""


def seed_sequence(seed: int | Sequence[int], role: Role, *index: int) -> np.random.SeedSequence:
    """Return the NumPy seed sequence of a role."""
    # A spawn key gives independent streams for one seed without any shared state between callers.
    key = () if role is Role.PROBLEM else (int(role), *index)
    return np.random.SeedSequence(seed, spawn_key=key)


def kernel_stream(seed: int | Sequence[int], role: Role, *index: int) -> NDArray[np.uint64]:
    """Return the initial state (4,) of a role's xoshiro256++ stream, for kernels."""
    return seed_sequence(seed, role, *index).generate_state(4, np.uint64).astype(np.uint64, copy=False)


def make_generator(seed: int | Sequence[int], role: Role, *index: int) -> np.random.Generator:
    """Return a new NumPy generator for a role."""
    return np.random.Generator(np.random.PCG64(seed_sequence(seed, role, *index)))


def derive_seed(seed: int | Sequence[int], role: Role, *index: int) -> int:
    """Return a seed below 2^31 for another function or environment, which derives its own streams from it."""
    return int(seed_sequence(seed, role, *index).generate_state(1, np.uint32)[0] >> 1)
