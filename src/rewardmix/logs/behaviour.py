"""Did the log's actions follow rewards? A test, from one pair of steps an episode.

If actions never looked at rewards, the path of an episode does not depend on them, so the reward at an earlier step is
independent of everything on the path given the state-action x it was paid at. Tables of (reward then, action now), one
for each x then and state now, have no association: the Cochran-Mantel-Haenszel test of mean rewards, for each
(state now, action then), pooled over the state then.

    D[a] = sum over x of sum_z v_z (n[z, a] - n[z] n[a] / n)
    C[a, b] = sum over x of variance of v * (n n[a] [a = b] - n[a] n[b]) / (n - 1)
    statistic = sum over (state now, action then) of D C^+ D,     chi-squared with sum of rank(C) degrees of freedom

Steps of one episode share the hidden context and are not independent, so each episode gives one pair of neighbouring
steps and one pair at any distance, chosen without looking at its content; two tests, Bonferroni.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import eigenpairs, product
from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel
from rewardmix._core.limits import afford
from rewardmix.logs.log import loaded
from rewardmix.logs.log_schema import LogSchema

FALSE_ALARM = 1e-3
"""Below this chance of a false alarm the log is said to follow rewards."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Followed:
    """Counts of (state now, x then, reward then, action now), only those that occur; they add.

    Attributes:
        near: (N,) codes ((s * X + x) * Z + z) * A + a, increasing, for neighbouring steps.
        near_counts: (N,).
        far: (F,) the same for steps at any distance.
        far_counts: (F,).
    """

    near: Codes
    near_counts: Codes
    far: Codes
    far_counts: Codes

    def __add__(self, other: Followed) -> Followed:
        near = _merged(self.near, self.near_counts, other.near, other.near_counts)
        return Followed(*near, *_merged(self.far, self.far_counts, other.far, other.far_counts))


@dataclass(frozen=True)
class LoggingTest:
    """Whether the log's actions followed rewards of the same episode.

    Attributes:
        p_value: chance of so much association if they did not; NaN without any pair of steps.
        follows: whether that is below ``FALSE_ALARM``.
        sentence: the answer in words.
    """

    p_value: float
    follows: bool
    sentence: str


def count_followed(part: Any, schema: LogSchema) -> Followed:
    """The counts of one part of a log."""
    compact = loaded(part)
    near, far = np.empty(len(compact), np.int64), np.empty(len(compact), np.int64)
    used = _pairs(
        compact.symbols, compact.offsets, schema.num_actions, schema.num_values, schema.num_state_actions, near, far
    )
    return Followed(*_counted(near[:used]), *_counted(far[:used]))


def logging_test(counts: Followed, schema: LogSchema) -> LoggingTest:
    """Test the counts of a whole log."""
    near, near_sign = _statistic(counts.near, counts.near_counts, schema)
    far, far_sign = _statistic(counts.far, counts.far_counts, schema)
    if np.isnan(near) and np.isnan(far):
        return LoggingTest(
            float("nan"),
            False,
            "No episode has two steps with a choice: the log cannot show what its actions followed.",
        )
    p_value = min(1.0, 2.0 * float(np.nanmin([near, far])))
    if p_value >= FALSE_ALARM:
        text = (
            f"Nothing shows that the log's actions followed rewards of the same episode (p = {p_value:.2g}): "
            "pair moments and likelihood can both be trusted."
        )
        return LoggingTest(p_value, False, text)
    state, action, before, earlier, high, low = near_sign if not near > far else far_sign
    text = (
        f"The log's actions followed rewards of the same episode (p = {p_value:.2g}). For example, after action "
        f"{schema.action(earlier)} in state {schema.state(before)}, action {schema.action(action)} was taken in state "
        f"{schema.state(state)} {100 * high:.0f} % of the time if the reward had been the highest and "
        f"{100 * low:.0f} % if the lowest. Averages and pair moments are biased then, and so is what rests on them "
        "(the confidence set and its certificate); the likelihood is not, and the model is from the likelihood."
    )
    return LoggingTest(p_value, True, text)


Strongest = tuple[int, int, int, int, float, float]
"""(state now, action now, state then, action then, share after the highest reward, after the lowest)."""


def _statistic(codes: Codes, counts: Codes, schema: LogSchema) -> tuple[float, Strongest]:
    """(p-value, where the association is strongest)."""
    from scipy.special import chdtrc

    cells, played = np.divmod(codes, schema.num_actions)
    actions, action = np.unique(played, return_inverse=True)
    strata, outcome = np.divmod(cells, schema.num_values)
    reward = schema.reward_values[outcome]
    stratum, place = np.unique(strata, return_inverse=True)
    total = _sum(place, counts, stratum.size)
    mean = _sum(place, counts * reward, stratum.size) / np.maximum(total, 1)
    variance = _sum(place, counts * (reward - mean[place]) ** 2, stratum.size) / np.maximum(total, 1)
    scale = np.where((variance > 0) & (total > 1), variance / np.maximum(total - 1, 1), 0.0)
    _afford_test(stratum, actions.size, schema)
    taken = np.zeros((stratum.size, actions.size))
    np.add.at(taken, (place, action), counts)
    paid = np.zeros_like(taken)
    np.add.at(paid, (place, action), counts * reward)
    off = np.where(scale[:, None] > 0, paid - taken * mean[:, None], 0.0)
    diagonal = (scale * total)[:, None] * taken
    now, then = np.divmod(stratum, schema.num_state_actions)
    statistic, freedom = _quadratic(now * schema.num_actions + then % schema.num_actions, off, diagonal, scale, taken)
    if not freedom:
        return float("nan"), (0, 0, 0, 0, 0.0, 0.0)
    variances = diagonal - scale[:, None] * taken**2
    size = np.abs(off) / np.sqrt(np.where(variances > 0, variances, np.inf))
    row, best = (int(i) for i in np.unravel_index(int(size.argmax()), size.shape))
    shares = _shares(place == row, action == best, outcome, counts)
    where = int(now[row]), int(actions[best]), *divmod(int(then[row]), schema.num_actions)
    return float(f"{chdtrc(freedom, statistic):.12g}"), (*where, *shares)


def _afford_test(stratum: Codes, actions: int, schema: LogSchema) -> None:
    """Refuse a test whose tables of actions do not fit."""
    groups = min(stratum.size, schema.num_state_actions)
    afford(
        "actions",
        memory=16 * groups * actions**2 + 64 * stratum.size * actions,
        operations=100 * groups * actions**3,
        change="fewer actions",
    )


def _quadratic(group: Any, off: Floats, diagonal: Floats, scale: Floats, taken: Floats) -> tuple[float, int]:
    """Sum over groups of strata of D C^+ D, and its degrees of freedom."""
    groups, place = np.unique(group, return_inverse=True)
    actions = off.shape[1]
    difference, variance = np.zeros((groups.size, actions)), np.zeros((groups.size, actions, actions))
    np.add.at(difference, place, off)
    np.add.at(variance, place, -scale[:, None, None] * taken[:, :, None] * taken[:, None, :])
    every = np.arange(actions)
    extra = np.zeros_like(difference)
    np.add.at(extra, place, diagonal)
    variance[:, every, every] += extra
    statistic, freedom = 0.0, 0
    for d, c in zip(difference, variance, strict=True):
        values, vectors = eigenpairs(c)
        real = values > 1e-9 * max(float(c.max(initial=0.0)), 1e-300)  # the rest is rounding around 0
        statistic += float((product(d, vectors)[real] ** 2 / values[real]).sum())
        freedom += int(real.sum())
    return statistic, freedom


def _shares(here: Any, chosen: Any, outcome: Any, counts: Codes) -> tuple[float, float]:
    """Share of an action in a stratum after the highest and after the lowest reward that was seen there."""
    out = []
    for value in (outcome[here].max(), outcome[here].min()):
        rows = here & (outcome == value)
        out.append(float(counts[rows & chosen].sum() / counts[rows].sum()))
    return out[0], out[1]


def _sum(place: Any, values: Any, size: int) -> Floats:
    return np.bincount(place, weights=values, minlength=size).astype(np.float64)


def _counted(codes: Codes) -> tuple[Codes, Codes]:
    found, counts = np.unique(codes, return_counts=True)
    return found, counts.astype(np.int64)


def _merged(codes: Codes, counts: Codes, more: Codes, more_counts: Codes) -> tuple[Codes, Codes]:
    found, where = np.unique(np.concatenate([codes, more]), return_inverse=True)
    total = np.zeros(found.size, np.int64)
    np.add.at(total, where, np.concatenate([counts, more_counts]))
    return found, total


@kernel
def _pairs(symbols: Any, offsets: Any, num_actions: Any, num_values: Any, num_x: Any, near: Any, far: Any) -> int:
    """Codes of one pair of neighbouring steps and of one pair of any steps of each episode that has two."""
    used = 0
    for k in range(offsets.size - 1):
        steps = offsets[k + 1] - offsets[k]
        if steps < 2:
            continue
        mixed = (np.uint64(k) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        now = 1 + np.int64((mixed >> np.uint64(8)) % np.uint64(steps - 1))
        then = np.int64((mixed >> np.uint64(36)) % np.uint64(now))
        x = symbols[offsets[k] + now] // num_values
        s, a = x // num_actions, x % num_actions
        for i in range(2):
            paid = np.int64(symbols[offsets[k] + (now - 1 if i == 0 else then)])
            code = (np.int64(s) * num_x * num_values + paid) * num_actions + a
            if i == 0:
                near[used] = code
            else:
                far[used] = code
        used += 1
    return used
