"""Moments: everything that recovery needs to know of any number of episodes, as whole numbers that add.

    X = S*A state-actions x = s*A + a, Z reward values
    episodes                 K
    starts[s]                episodes that began in s
    moves[x, s']             steps from x to s'; column S, "the end": the episode ended there before its horizon
    outcomes[x, z]           reward value z at the first visit of x in an episode
    pair table of (x, y)     z at the first visit of x and z' at the first visit of y in one episode, x < y;
                             for x = y the first two visits of x

An episode gives at most one sample of each x and of each unordered pair, so the samples of a pair are independent
(visits of one episode share the hidden context, and are not). As long as the path of an episode does not depend on its
rewards, each sample of a pair is unbiased.

Counts made by the paper's rule take one chosen, ordered pair of steps an episode: ``selected_tables``. The same
samples are then in ``pair_tables`` (pooled over the order), and ``outcomes`` are those of the chosen steps.

Third-order counts have besides, by the same rule, z, z' and z'' at x <= y <= w in one episode: ``triple_tables``. Where
a state-action is in a triple twice, these are its first two visits, three times its first three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from rewardmix._core.checks import (
    MOST,
    Floats,
    as_array,
    as_count,
    as_reward_values,
    at,
    check_shape,
    first,
    outside,
    owned,
    refuse,
    shut,
)
from rewardmix._core.limits import afford
from rewardmix._core.pair_table import Counts, count_moves, count_pairs, count_triples, merged_tables, unordered
from rewardmix._core.sparse_rows import ROW_PARTS, close, rows_of
from rewardmix._core.storage import entry
from rewardmix.episodes import Episodes


@dataclass(frozen=True, eq=False)
class Moments:
    """Whole-number counts of K episodes; ``+`` merges the counts of two sets of episodes exactly.

    Whatever they are made from is checked, and copied where somebody could still write to it: counts fit their sizes
    and each other, and kernels rely on that.

    Attributes:
        num_states: S.
        num_actions: A.
        horizon: H.
        reward_values: (Z,).
        episodes: K.
        starts: (S,).
        moves: (X, S + 1) CSR. The step at the horizon counts where it led, like any other.
        outcomes: (X, Z).
        pair_keys: (P,) increasing, x * X + y with x <= y; only pairs that were seen.
        pair_tables: (P, Z, Z), [value at x, value at y].
        selected_keys: (P2,) increasing, x1 * X + x2 in the order of the chosen steps; empty for other counts.
        selected_tables: (P2, Z, Z).
        triple_keys: (P3,) increasing, (x * X + y) * X + w with x <= y <= w; empty for counts of second order.
        triple_tables: (P3, Z, Z, Z), [value at x, value at y, value at w].
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    episodes: int
    starts: Counts
    moves: csr_array
    outcomes: Counts
    pair_keys: Counts
    pair_tables: Counts
    selected_keys: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    selected_tables: Counts = field(default_factory=lambda: np.empty((0, 0, 0), np.int64))
    triple_keys: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    triple_tables: Counts = field(default_factory=lambda: np.empty((0, 0, 0, 0), np.int64))

    def __post_init__(self) -> None:
        sizes = {name: as_count(name, getattr(self, name)) for name in ("num_states", "num_actions", "horizon")}
        sizes["episodes"] = as_count("episodes", self.episodes, least=0)
        values = as_reward_values(self.reward_values)
        num_states, num_x, num_values = sizes["num_states"], sizes["num_states"] * sizes["num_actions"], values.size
        if max(num_x, sizes["episodes"] * sizes["horizon"]) * max(num_x, num_values * num_values) > MOST:
            refuse("num_states", f"{num_x} state-actions", "fewer; their pairs cannot be numbered")
        kinds = ("pair", "selected", "triple")
        keys = {f"{kind}_keys": as_counts(f"{kind}_keys", getattr(self, f"{kind}_keys"), (None,)) for kind in kinds}
        if keys["triple_keys"].size and num_x**3 > MOST:
            refuse("num_states", f"{num_x} state-actions", "fewer; their triples cannot be numbered")
        cells = {kind: (num_values,) * (3 if kind == "triple" else 2) for kind in kinds}
        tables = {
            f"{kind}_tables": as_counts(name, getattr(self, name), (keys[f"{kind}_keys"].size, *cells[kind]))
            if keys[f"{kind}_keys"].size
            else np.empty((0, *cells[kind]), np.int64)
            for kind, name in ((kind, f"{kind}_tables") for kind in kinds)
        }
        parts = {
            "starts": as_counts("starts", self.starts, (num_states,)),
            "outcomes": as_counts("outcomes", self.outcomes, (num_x, num_values)),
            "moves": _as_moves(self.moves, (num_x, num_states + 1)),
            **keys,
            **tables,
        }
        _fill(self, {**sizes, "reward_values": values, **parts})
        _check_counts(self)

    @staticmethod
    def trusted(**fields: Any) -> Moments:
        """Moments without a look: for counts of what was checked before."""
        moments = object.__new__(Moments)
        size = fields["reward_values"].size
        none = {"selected_keys": np.empty(0, np.int64), "selected_tables": np.empty((0, size, size), np.int64)}
        nothing = {"triple_keys": np.empty(0, np.int64), "triple_tables": np.empty((0, size, size, size), np.int64)}
        _fill(moments, {**none, **nothing, **fields})
        return moments

    def __repr__(self) -> str:
        triples = f", triples seen={self.triple_keys.size}" if self.triple_keys.size else ""
        return (
            f"Moments({self.episodes} episodes, horizon={self.horizon}, states={self.num_states}, "
            f"actions={self.num_actions}, reward_values={tuple(self.reward_values.tolist())}, "
            f"pairs seen={self.pair_keys.size}{triples})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        same = self.world == other.world and self.episodes == other.episodes
        same = same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)
        return same and (self.moves != other.moves).nnz == 0

    __hash__ = None  # type: ignore[assignment]  # equal by content, which is large

    def __add__(self, other: Moments) -> Moments:
        if self.world != other.world:
            found = f"(states, actions, horizon, reward values) = {other.world}"
            refuse("other", found, f"{self.world}, as on the left")
        pairs = merged_tables(self.pair_keys, self.pair_tables, other.pair_keys, other.pair_tables)
        selected = merged_tables(self.selected_keys, self.selected_tables, other.selected_keys, other.selected_tables)
        triples = merged_tables(self.triple_keys, self.triple_tables, other.triple_keys, other.triple_tables)
        return Moments.trusted(
            num_states=self.num_states,
            num_actions=self.num_actions,
            horizon=self.horizon,
            reward_values=self.reward_values,
            episodes=self.episodes + other.episodes,
            starts=self.starts + other.starts,
            moves=csr_array(self.moves + other.moves),
            outcomes=self.outcomes + other.outcomes,
            pair_keys=pairs[0],
            pair_tables=pairs[1],
            selected_keys=selected[0],
            selected_tables=selected[1],
            triple_keys=triples[0],
            triple_tables=triples[1],
        )

    @property
    def world(self) -> tuple[int, int, int, tuple[float, ...]]:
        """(S, A, H, reward values): moments add only when these agree."""
        return self.num_states, self.num_actions, self.horizon, tuple(self.reward_values.tolist())

    @property
    def num_values(self) -> int:
        """Z."""
        return int(self.reward_values.size)

    @property
    def num_state_actions(self) -> int:
        """X = S*A."""
        return self.num_states * self.num_actions

    @cached_property
    def visits(self) -> Counts:
        """(X,): steps taken from x whose next state (or end) is known, repeated visits of one episode included."""
        visits: Counts = np.asarray(self.moves.sum(axis=1), dtype=np.int64).ravel()
        return visits

    @cached_property
    def samples(self) -> Counts:
        """(X,): independent samples of the reward at x, at most one an episode."""
        samples: Counts = self.outcomes.sum(axis=1)
        return samples

    @cached_property
    def pair_samples(self) -> Counts:
        """(P,): independent samples of each pair."""
        samples: Counts = self.pair_tables.sum(axis=(1, 2))
        return samples

    @cached_property
    def pairs(self) -> tuple[Counts, Counts]:
        """(P,) and (P,): x and y of each pair that was seen, x <= y."""
        first, second = np.divmod(self.pair_keys, self.num_state_actions)
        return first, second

    @cached_property
    def triple_samples(self) -> Counts:
        """(P3,): independent samples of each triple."""
        samples: Counts = self.triple_tables.sum(axis=(1, 2, 3))
        return samples

    @cached_property
    def triples(self) -> tuple[Counts, Counts, Counts]:
        """(P3,) three times: x, y and w of each triple that was seen, x <= y <= w."""
        front, third = np.divmod(self.triple_keys, self.num_state_actions)
        first, second = np.divmod(front, self.num_state_actions)
        return first, second, third

    @cached_property
    def frequencies(self) -> Floats:
        """(X, Z): share of each reward value at x, NaN where x was never seen."""
        seen = self.samples[:, None]
        return np.where(seen > 0, self.outcomes / np.maximum(seen, 1), np.nan)

    @cached_property
    def average(self) -> Floats:
        """(S, A), or (S, A, Z) for Z > 2, like ``model.average``; NaN where x was never seen."""
        shape = self.num_states, self.num_actions
        if self.num_values == 2:
            return self.frequencies[:, 1].reshape(shape)
        return self.frequencies.reshape(*shape, -1)

    @property
    def ended_early(self) -> bool:
        """Whether any episode ended before its horizon."""
        return bool(self.moves.indices.size and (self.moves.indices == self.num_states).any())

    def initial_estimate(self) -> Floats:
        """(S',): share of the starts, NaN without any episode. S' as in ``transition_estimate``."""
        starts = np.append(self.starts, 0) if self.ended_early else self.starts
        return starts / self.episodes if self.episodes else np.full(starts.size, np.nan)

    def transition_estimate(self) -> tuple[csr_array, NDArray[np.bool_]]:
        """T-hat as rows x = s*A + a, and which rows were ever visited.

        Returns:
            (S'*A, S') CSR and (S'*A,) mask: S' is S, or S + 1 if an episode ended early, with the end as the absorbing
            last state (which counts as visited). A row that was never visited stays where it is, s to s. So it is a
            law, and a model can be built; the mask says that nothing is known of it.

        Where episodes end early, a state in which nobody ever acted was entered by last steps alone: what would have
        ended the episode before the horizon looks like a state at it. So who enters it is at the end.
        """
        ended = self.ended_early
        size = self.num_states + ended
        counts = self.moves[:, :size].tocoo()
        row, column = counts.coords
        if ended:
            acted = (self.visits + self.samples).reshape(self.num_states, -1).any(axis=1)
            column = np.where(np.append(acted, True)[column], column, self.num_states)
        share = counts.data / self.visits[row]
        visited = np.append(self.visits > 0, np.ones(ended * self.num_actions, bool))
        unknown = np.flatnonzero(~visited)
        end = np.arange(self.num_state_actions, size * self.num_actions)
        stay = np.concatenate([unknown, end])
        entries = np.concatenate([share, np.ones(stay.size)])
        where = np.concatenate([row, stay]), np.concatenate([column, stay // self.num_actions])
        rows = csr_array(coo_array((entries, where), shape=(size * self.num_actions, size)))
        return rows, visited

    def pair_counts(self) -> Counts:
        """(X, X) dense and symmetric: samples of each pair. For X*X that fits into memory."""
        counts = np.zeros((self.num_state_actions, self.num_state_actions), np.int64)
        first, second = self.pairs
        counts[first, second] = counts[second, first] = self.pair_samples
        return counts

    @staticmethod
    def empty(num_states: int, num_actions: int, horizon: int, reward_values: Any = (0.0, 1.0)) -> Moments:
        """The moments of no episode: the zero of ``+``."""
        values = as_reward_values(reward_values)
        size = as_count("num_states", num_states) * as_count("num_actions", num_actions)
        afford("num_states", memory=8 * size * (values.size + 1), change="fewer states, actions or reward values")
        return Moments(
            num_states,
            num_actions,
            horizon,
            values,
            0,
            np.zeros(num_states, np.int64),
            csr_array((size, num_states + 1), dtype=np.int64),
            np.zeros((size, values.size), np.int64),
            np.empty(0, np.int64),
            np.empty((0, values.size, values.size), np.int64),
        )

    @staticmethod
    def of(episodes: Episodes, order: int = 2) -> Moments:
        """Count the first visits, pairs of first visits, and moves of episodes; with order 3 triples too."""
        if as_count("order", order, least=2) > 3:
            refuse("order", order, "2 for pairs, or 3 for triples too")
        moments = Moments.of_steps(episodes.symbols, episodes.lengths, _last_states(episodes), episodes)
        if order == 2:
            return moments
        num_x, num_values = moments.num_state_actions, moments.num_values
        if num_x**3 > MOST:
            refuse("num_states", f"{num_x} state-actions", "fewer; their triples cannot be numbered")
        keys, tables = count_triples(episodes.symbols, episodes.lengths, num_x, num_values)
        return replace(moments, triple_keys=keys, triple_tables=tables)

    @staticmethod
    def of_steps(symbols: NDArray[Any], lengths: NDArray[Any], last: NDArray[Any], sizes: Any) -> Moments:
        """Count steps that were checked before.

        Args:
            symbols: (N,) x*Z + z of each step, episode after episode.
            lengths: (K,) steps of each episode.
            last: (K,) the state that its last action led to, -1 if nobody kept it.
            sizes: whatever has num_states, num_actions, horizon and reward_values, ``Episodes`` for one.
        """
        num_x, num_values = sizes.num_states * sizes.num_actions, int(sizes.reward_values.size)
        outcomes, keys, tables = count_pairs(symbols, lengths, num_x, num_values)
        moved = _moved(symbols, lengths, last, sizes)
        return Moments.trusted(**moved, outcomes=outcomes, pair_keys=keys, pair_tables=tables)

    @staticmethod
    def of_moves(episodes: Episodes) -> Moments:
        """Count the starts and moves of episodes and none of their rewards: all that the laws of moves need."""
        values = episodes.reward_values.size
        return Moments.trusted(
            **_moved(episodes.symbols, episodes.lengths, _last_states(episodes), episodes),
            outcomes=np.zeros((episodes.num_states * episodes.num_actions, values), np.int64),
            pair_keys=np.empty(0, np.int64),
            pair_tables=np.empty((0, values, values), np.int64),
        )


def _last_states(episodes: Episodes) -> NDArray[Any]:
    """(K,): the state that the last action of each episode led to."""
    last: NDArray[Any] = episodes.states[np.arange(len(episodes)), episodes.lengths]
    return last


def _moved(symbols: NDArray[Any], lengths: NDArray[Any], last: NDArray[Any], sizes: Any) -> dict[str, Any]:
    """The fields of moments that do not look at rewards."""
    shape = sizes.num_states * sizes.num_actions, sizes.num_states + 1
    starts, cells, numbers = count_moves(symbols, lengths, last, sizes)
    return {
        "num_states": sizes.num_states,
        "num_actions": sizes.num_actions,
        "horizon": sizes.horizon,
        "reward_values": sizes.reward_values,
        "episodes": int(lengths.size),
        "starts": starts,
        "moves": csr_array(coo_array((numbers, np.divmod(cells, shape[1])), shape=shape)),
    }


def _fill(moments: Moments, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        value = shut(value) if name in _ARRAYS else close(value) if name == "moves" else value
        object.__setattr__(moments, name, value)


def as_counts(argument: str, values: Any, shape: tuple[int | None, ...]) -> Counts:
    """``values`` as numbers of things, of this shape, in an array that nobody can write to."""
    array = as_array(argument, values)
    check_shape(argument, array, shape)
    if array.dtype.kind not in "iu":
        refuse(argument, f"dtype {array.dtype}", "whole numbers")
    bad = outside(array, 0, MOST + 1)
    if bad is not None:
        refuse(at(argument, first(bad)), int(array[first(bad)]), "a count of at least 0")
    counts: Counts = owned(array, np.int64)
    return counts


def _as_moves(moves: Any, shape: tuple[int, int]) -> csr_array:
    """Rows of counts, each next state once and in order."""
    if not issparse(moves) or moves.format != "csr" or moves.shape != shape:
        found = f"{type(moves).__name__} of shape {getattr(moves, 'shape', 'unknown')}"
        refuse("moves", found, f"compressed sparse rows of shape {shape}")
    data = as_counts("moves.data", moves.data, (None,))
    rows = rows_of("moves", data, owned(moves.indices), owned(moves.indptr), shape)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _check_counts(moments: Moments) -> None:
    """Refuse counts that no set of this many episodes can have."""
    most, num_x = moments.episodes, moments.num_state_actions
    if moments.starts.max(initial=0) > most or moments.starts.sum() != most:
        refuse("starts", f"a sum of {moments.starts.sum()}", f"one start for each of the {most} episodes")
    if float(moments.moves.data.sum(dtype=np.float64)) > most * moments.horizon:
        refuse("moves", "more steps", f"at most {moments.horizon} for each of the {most} episodes")
    twice = 2 if moments.selected_keys.size else 1  # both chosen steps of an episode may be at the same x
    _check_sums("outcomes", moments.outcomes, moments.samples, most * twice)
    for name in ("pair", "selected"):
        keys, tables = getattr(moments, f"{name}_keys"), getattr(moments, f"{name}_tables")
        if (keys[1:] <= keys[:-1]).any() or keys.max(initial=0) >= num_x * num_x:
            refuse(f"{name}_keys", "numbers out of order or range", f"increasing numbers below {num_x * num_x}")
        _check_sums(f"{name}_tables", tables, moments.pair_samples if name == "pair" else tables.sum(axis=(1, 2)), most)
    if moments.selected_keys.size:
        keys, tables = unordered(moments.selected_keys, moments.selected_tables, num_x)
        if not (np.array_equal(keys, moments.pair_keys) and np.array_equal(tables, moments.pair_tables)):
            refuse("selected_tables", "other samples than in pair_tables", "the same, in the order of the chosen steps")
    one, other = moments.pairs
    if (one > other).any():
        refuse(at("pair_keys", first(one > other)), "a pair (x, y) with x > y", "each pair once, x <= y")
    seen = moments.samples
    if (moments.pair_samples > np.minimum(seen[one], seen[other])).any():
        refuse("pair_tables", "more samples of a pair than of one of its ends", "at most as many")
    if moments.triple_keys.size:
        _check_triples(moments)


def _check_triples(moments: Moments) -> None:
    """Refuse triples that are no triples, or of which there are more than of a pair in them."""
    num_x, keys = moments.num_state_actions, moments.triple_keys
    if moments.selected_keys.size:
        refuse("triple_keys", "triples beside selected pairs", "none: the paper's rule chooses one pair an episode")
    if (keys[1:] <= keys[:-1]).any() or keys.max() >= num_x**3:
        refuse("triple_keys", "numbers out of order or range", f"increasing numbers below {num_x**3}")
    x, y, w = moments.triples
    bad = (x > y) | (y > w)
    if bad.any():
        refuse(at("triple_keys", first(bad)), "a triple (x, y, w) out of order", "each triple once, x <= y <= w")
    _check_sums("triple_tables", moments.triple_tables, moments.triple_samples, moments.episodes)
    for one, other in ((x, y), (x, w), (y, w)):
        pair = one * num_x + other
        place = np.minimum(np.searchsorted(moments.pair_keys, pair), max(moments.pair_keys.size - 1, 0))
        missing = moments.pair_keys[place] != pair if moments.pair_keys.size else np.ones(pair.size, bool)
        samples = moments.pair_samples[place] if moments.pair_keys.size else np.zeros(pair.size, np.int64)
        if (moments.triple_samples > np.where(missing, 0, samples)).any():
            refuse("triple_tables", "more samples of a triple than of a pair in it", "at most as many")


def _check_sums(argument: str, tables: Counts, sums: Counts, most: int) -> None:
    """Refuse tables (one in each place of the first axis) that hold more than ``most`` samples."""
    large = tables.max(initial=0) > most  # then sums might have overflowed
    bad = (tables > most).reshape(len(tables), -1).any(axis=1) if large else sums > most
    if bad.any():
        refuse(at(argument, first(np.asarray(bad))), "more samples", f"at most one for each of the {most} episodes")


_TRIPLES = ("triple_keys", "triple_tables")
_STORED = ("starts", "outcomes", "pair_keys", "pair_tables", "selected_keys", "selected_tables")
_ARRAYS = (*_STORED, *_TRIPLES)


def packed(moments: Moments) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Moments as arrays and metadata, to be stored; triples only where there are any, so that others read the rest."""
    names = (*_STORED, *(_TRIPLES if moments.triple_keys.size else ()), "reward_values")
    arrays: dict[str, NDArray[Any]] = {name: getattr(moments, name) for name in names}
    moves = {f"moves_{name}": getattr(moments.moves, name) for name in ROW_PARTS}
    meta = {name: getattr(moments, name) for name in ("num_states", "num_actions", "horizon", "episodes")}
    return {**arrays, **moves}, meta


def unpacked(arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> Moments:
    """The way back from ``packed``; other entries are ignored."""
    sizes: dict[str, Any] = {
        name: entry(meta, name, int) for name in ("num_states", "num_actions", "horizon", "episodes")
    }
    shape = sizes["num_states"] * sizes["num_actions"], sizes["num_states"] + 1
    data, indices, indptr = (arrays[f"moves_{name}"] for name in ROW_PARTS)
    moves = rows_of("moves", data, indices, indptr, shape)
    found = _TRIPLES if any(name in arrays for name in _TRIPLES) else ()
    parts: dict[str, Any] = {name: arrays[name] for name in (*_STORED, *found, "reward_values")}
    return Moments(**sizes, **parts, moves=moves)
