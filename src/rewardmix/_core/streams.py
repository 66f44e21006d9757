"""Which random numbers belong to whom: every caller that draws has a role, and every role a stream of its own.

A stream is named by (seed, role, index ...), where the index tells apart chunks, rounds or sizes of one caller. Two
callers never share a stream, so that what was learnt with a seed and what is tested with it are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray


@unique
class Role(IntEnum):
    """Who draws. Numbers are part of what a seed means: they may be added, not changed."""

    PROBLEM = 0
    """Makes a problem, from the bare seed."""
    ENVIRONMENT = 1
    """An environment of this package after ``reset(seed=...)``."""
    VECTOR_ENVIRONMENT = 25
    """A vector of such environments after ``reset(seed=...)``."""
    MIXED_REWARDS = 2
    """Contexts and rewards that ``MixedRewards`` puts on another environment."""
    SIMULATION = 3
    """Episodes of ``simulate``; index: chunk."""
    SIMULATED_BLOCKS = 4
    """Seeds of the later blocks of a log that is simulated block by block; index: first episode."""
    PLAYED_ACTIONS = 5
    """Actions of a policy that is played in an environment."""
    PLAYED_ENVIRONMENT = 6
    """Seed of the environment that a policy is played in."""
    EVALUATION = 7
    """Seed of the episodes of ``evaluate``."""
    BASELINE_BELIEFS = 9
    """Beliefs that baselines decide at."""
    EXPLORATION = 10
    """Episodes of the compiled engine."""
    BATCHED_EXPLORATION = 11
    """Episodes of the batched engine."""
    EXPLORED_ACTIONS = 12
    """Random actions in an explored environment; index: episodes played before."""
    EXPLORED_ENVIRONMENT = 13
    """Seed of an explored environment; index: episodes played before."""
    EVIDENCE_ORDER = 14
    """Order of the episodes of refinement among the others."""
    STARTS = 15
    """Where climbs begin, with two contexts."""
    CONTEXT_STARTS = 16
    """Where climbs begin, with more; index: contexts."""
    RARE_STARTS = 50
    """Where climbs begin that look for a rare context; index: contexts."""
    TRIALS = 17
    """Seed of the trials that choose the weights."""
    RESAMPLES = 18
    """Episodes drawn again by the bootstrap."""
    REFINEMENT = 19
    """Seeds of the resamples of refinement; index: episodes before, batch."""
    REFINED_EPISODES = 20
    """Seeds of the episodes of refinement; index: episodes before, batch."""
    HOPES = 51
    """How much better rewards are hoped to be in a batch of refinement."""
    VALIDATION = 21
    """Seed of the fresh episodes that judge what was learnt."""
    LOG_SAMPLE = 22
    """Episodes that stand for a long log; index: part."""
    HELD_OUT = 23
    """Episodes that a fit does not see."""
    LOG_RESAMPLES = 24
    """Episodes of a log drawn again by the bootstrap."""
    RESEEDED_CHAINS = 26
    """Fresh starts of the chains of a posterior; seeded by where their stream stands."""
    LOOKS = 27
    """What an agent draws from its posterior."""
    VISITS = 28
    """Which policy a visit of an agent gets."""
    EARNED_EPISODES = 29
    """Episodes of a model in which somebody earns; index: episodes before, number of the policy."""
    EARNED_SHARES = 30
    """Which policy they are played by; index: episodes before."""
    EARNED_ENVIRONMENT = 31
    """Seed of an environment in which somebody earns; index: episodes before, number of the policy."""
    RIVAL_STARTS = 32
    """Where the climbs of certainty equivalence begin."""
    FORECASTS = 34
    """Where the climbs begin that forecast with several numbers of contexts; index: episodes before."""
    CROSS_FIT = 33
    """Which half an episode is in when the number of contexts is chosen."""
    RECOGNITION = 41
    """Seed of the episodes, in a model, that show how fast types are recognised."""
    DRAWN_SESSION = 42
    """Seed of the session, in a model, that a picture of beliefs shows."""
    DEMO_VISITORS = 43
    """What a visitor of the demo shop likes and clicks on; index: visitor."""
    DEMO_SHOP = 44
    """What the demo shop believes before it has learned anything."""
    CHECKUP_RESAMPLES = 60
    """Rewards drawn anew from a fitted model, for the check-up; index: types, resample."""
    TRANSITION_TYPES = 57
    """Which episodes judge whether types move differently, and where those climbs begin."""
    NEXT_STATE = 58
    """The same for whether rewards depend on the next state."""
    PLANNED_STEPS = 40
    """Seed of the episodes, in a fitted model, that show where a plan goes."""


def sequence(seed: int | Sequence[int], role: Role, *index: int) -> np.random.SeedSequence:
    """The source of the random numbers of a role."""
    key = () if role is Role.PROBLEM else (int(role), *index)
    return np.random.SeedSequence(seed, spawn_key=key)


def stream(seed: int | Sequence[int], role: Role, *index: int) -> NDArray[np.uint64]:
    """The state of a fresh stream, for kernels; see ``xoshiro``."""
    return sequence(seed, role, *index).generate_state(4, np.uint64).astype(np.uint64, copy=False)


def generator(seed: int | Sequence[int], role: Role, *index: int) -> np.random.Generator:
    """A fresh generator of NumPy."""
    return np.random.Generator(np.random.PCG64(sequence(seed, role, *index)))


def seed_for(seed: int | Sequence[int], role: Role, *index: int) -> int:
    """A seed below 2^31 to hand on: what draws from it has roles of its own, or is somebody else's environment."""
    return int(sequence(seed, role, *index).generate_state(1, np.uint32)[0] >> 1)
