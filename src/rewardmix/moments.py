"""Count rewards, pairs of rewards and transitions of episodes: the sufficient statistics of recovery.

    X = S*A state-actions x = s*A + a, Z reward values
    num_episodes                 K
    initial_counts[s]            episodes that start in s
    transition_counts[x, s']     steps from x to s'; column S is "the end": the episode ended early
    reward_counts[x, z]          reward value z at the first visit of x in an episode
    pair table of (x, y)         z at the first visit of x and z' at the first visit of y in one episode, x < y;
                                 for x = y the first two visits of x

An episode gives at most one sample of each x and of each unordered pair. Samples of a pair are therefore independent,
while all visits of one episode are not, since they share the hidden type. If the actions of an episode do not depend on
its rewards, each sample of a pair is unbiased.

With the paper's counting rule an episode gives one chosen, ordered pair of steps: ``first_visit_tables``. The samples
are also in ``pair_tables``, pooled over the order, and ``reward_counts`` are those of the chosen steps.

Third-order counts also have z, z' and z'' at x <= y <= w in one episode: ``triple_tables``. A state-action that occurs
twice in a triple contributes its first two visits, one that occurs three times its first three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import (
    MAX_COUNT,
    Floats,
    as_array,
    as_count,
    as_readonly_copy,
    as_reward_values,
    check_shape,
    first_index,
    format_index,
    mark_readonly,
    out_of_range_mask,
    raise_input_error,
)
from rewardmix._core.count_tables import (
    Counts,
    count_pairs,
    count_transitions,
    count_triples,
    merge_pair_orders,
    merge_tables,
)
from rewardmix._core.csr_checks import CSR_ARRAYS, make_csr, mark_csr_readonly
from rewardmix._core.storage import get_metadata
from rewardmix.episodes import Episodes


@dataclass(frozen=True, eq=False)
class Moments:
    """Integer counts of K episodes; ``+`` adds the counts of two sets of episodes exactly.

    All arrays are checked and stored read-only: counts have the right shapes and are consistent, on which the compiled
    kernels rely.

    Attributes:
        num_states: Number of states, S.
        num_actions: Number of actions, A.
        horizon: Maximum number of steps, H.
        reward_values: Possible rewards, shape (Z,).
        num_episodes: Number of episodes, K.
        initial_counts: Episodes that start in each state, shape (S,).
        transition_counts: Steps from x to s', CSR array of shape (X, S + 1). The last column counts early ends. The
            step at the horizon counts the state to which it leads.
        reward_counts: Rewards at first visits, shape (X, Z).
        pair_keys: Observed pairs x * X + y with x <= y in increasing order, shape (P,).
        pair_tables: Counts of (value at x, value at y), shape (P, Z, Z).
        first_visit_keys: Pairs x1 * X + x2 in the order of the chosen steps, shape (P2,); empty for other counting
            rules.
        first_visit_tables: Their counts, shape (P2, Z, Z).
        triple_keys: Observed triples (x * X + y) * X + w with x <= y <= w, shape (P3,); empty for second order.
        triple_tables: Counts of (value at x, value at y, value at w), shape (P3, Z, Z, Z).

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 100, seed=1)
        >>> moments = rm.Moments.from_episodes(episodes)
        >>> moments.num_episodes, moments.num_samples[:4].tolist()
        (100, [34, 33, 50, 50])
        >>> moments.marginal_rewards[0].round(2).tolist()
        [0.32, 0.21, 0.32, 0.24]
        >>> (moments + moments).num_episodes
        200
    """

    num_states: int
    num_actions: int
    horizon: int
    reward_values: Floats
    num_episodes: int
    initial_counts: Counts
    transition_counts: csr_array
    reward_counts: Counts
    pair_keys: Counts
    pair_tables: Counts
    first_visit_keys: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    first_visit_tables: Counts = field(default_factory=lambda: np.empty((0, 0, 0), np.int64))
    triple_keys: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    triple_tables: Counts = field(default_factory=lambda: np.empty((0, 0, 0, 0), np.int64))

    def __post_init__(self) -> None:
        sizes = {name: as_count(name, getattr(self, name)) for name in ("num_states", "num_actions", "horizon")}
        sizes["num_episodes"] = as_count("num_episodes", self.num_episodes, min_value=0)
        values = as_reward_values(self.reward_values)
        num_states, num_state_actions, num_values = (
            sizes["num_states"],
            sizes["num_states"] * sizes["num_actions"],
            values.size,
        )
        # Keys are products of indices and totals are sums over steps; all of them have to fit into int64.
        if (
            max(num_state_actions, sizes["num_episodes"] * sizes["horizon"])
            * max(num_state_actions, num_values * num_values)
            > MAX_COUNT
        ):
            raise_input_error(
                "num_states", f"{num_state_actions} state-actions", "fewer; their pairs cannot be numbered"
            )
        kinds = ("pair", "first_visit", "triple")
        keys = {f"{kind}_keys": check_counts(f"{kind}_keys", getattr(self, f"{kind}_keys"), (None,)) for kind in kinds}
        if keys["triple_keys"].size and num_state_actions**3 > MAX_COUNT:
            raise_input_error(
                "num_states", f"{num_state_actions} state-actions", "fewer; their triples cannot be numbered"
            )
        cells = {kind: (num_values,) * (3 if kind == "triple" else 2) for kind in kinds}
        tables = {
            f"{kind}_tables": check_counts(name, getattr(self, name), (keys[f"{kind}_keys"].size, *cells[kind]))
            if keys[f"{kind}_keys"].size
            else np.empty((0, *cells[kind]), np.int64)
            for kind, name in ((kind, f"{kind}_tables") for kind in kinds)
        }
        arrays = {
            "initial_counts": check_counts("initial_counts", self.initial_counts, (num_states,)),
            "reward_counts": check_counts("reward_counts", self.reward_counts, (num_state_actions, num_values)),
            "transition_counts": _check_transition_counts(self.transition_counts, (num_state_actions, num_states + 1)),
            **keys,
            **tables,
        }
        _set_fields(self, {**sizes, "reward_values": values, **arrays})
        _check_counts(self)

    @staticmethod
    def from_valid_counts(**fields: Any) -> Moments:
        """Make moments without checks, from counts of data that were checked before."""
        moments = object.__new__(Moments)
        size = fields["reward_values"].size
        none = {"first_visit_keys": np.empty(0, np.int64), "first_visit_tables": np.empty((0, size, size), np.int64)}
        zeros = {"triple_keys": np.empty(0, np.int64), "triple_tables": np.empty((0, size, size, size), np.int64)}
        _set_fields(moments, {**none, **zeros, **fields})
        return moments

    def __repr__(self) -> str:
        triples = f", triples seen={self.triple_keys.size}" if self.triple_keys.size else ""
        return (
            f"Moments({self.num_episodes} episodes, horizon={self.horizon}, states={self.num_states}, "
            f"actions={self.num_actions}, reward_values={tuple(self.reward_values.tolist())}, "
            f"pairs seen={self.pair_keys.size}{triples})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        same = self.spec == other.spec and self.num_episodes == other.num_episodes
        same = same and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)
        return same and (self.transition_counts != other.transition_counts).nnz == 0

    __hash__ = None  # type: ignore[assignment]  # equality compares content

    def __add__(self, other: Moments) -> Moments:
        if self.spec != other.spec:
            actual = f"(states, actions, horizon, reward values) = {other.spec}"
            raise_input_error("other", actual, f"{self.spec}, as on the left")
        pairs = merge_tables(self.pair_keys, self.pair_tables, other.pair_keys, other.pair_tables)
        first_visits = merge_tables(
            self.first_visit_keys, self.first_visit_tables, other.first_visit_keys, other.first_visit_tables
        )
        triples = merge_tables(self.triple_keys, self.triple_tables, other.triple_keys, other.triple_tables)
        return Moments.from_valid_counts(
            num_states=self.num_states,
            num_actions=self.num_actions,
            horizon=self.horizon,
            reward_values=self.reward_values,
            num_episodes=self.num_episodes + other.num_episodes,
            initial_counts=self.initial_counts + other.initial_counts,
            transition_counts=csr_array(self.transition_counts + other.transition_counts),
            reward_counts=self.reward_counts + other.reward_counts,
            pair_keys=pairs[0],
            pair_tables=pairs[1],
            first_visit_keys=first_visits[0],
            first_visit_tables=first_visits[1],
            triple_keys=triples[0],
            triple_tables=triples[1],
        )

    @property
    def spec(self) -> tuple[int, int, int, tuple[float, ...]]:
        """Return (S, A, H, reward values); moments add only if these agree."""
        return self.num_states, self.num_actions, self.horizon, tuple(self.reward_values.tolist())

    @property
    def num_values(self) -> int:
        """Return the number of reward values, Z."""
        return int(self.reward_values.size)

    @property
    def num_state_actions(self) -> int:
        """Return the number of state-actions, X = S*A."""
        return self.num_states * self.num_actions

    @cached_property
    def visits(self) -> Counts:
        """Return the number of steps from each x with a known next state or end, shape (X,); repeated visits count."""
        visits: Counts = np.asarray(self.transition_counts.sum(axis=1), dtype=np.int64).ravel()
        return visits

    @cached_property
    def num_samples(self) -> Counts:
        """Return the number of independent reward samples of each x, at most one per episode, shape (X,)."""
        samples: Counts = self.reward_counts.sum(axis=1)
        return samples

    @cached_property
    def pair_samples(self) -> Counts:
        """Return the number of independent samples of each pair, shape (P,)."""
        samples: Counts = self.pair_tables.sum(axis=(1, 2))
        return samples

    @cached_property
    def pairs(self) -> tuple[Counts, Counts]:
        """Return x and y of each observed pair, x <= y, shapes (P,) and (P,)."""
        first, second = np.divmod(self.pair_keys, self.num_state_actions)
        return first, second

    @cached_property
    def triple_samples(self) -> Counts:
        """Return the number of independent samples of each triple, shape (P3,)."""
        samples: Counts = self.triple_tables.sum(axis=(1, 2, 3))
        return samples

    @cached_property
    def triples(self) -> tuple[Counts, Counts, Counts]:
        """Return x, y and w of each observed triple, x <= y <= w, three arrays of shape (P3,)."""
        front, third = np.divmod(self.triple_keys, self.num_state_actions)
        first, second = np.divmod(front, self.num_state_actions)
        return first, second, third

    @cached_property
    def reward_frequencies(self) -> Floats:
        """Return the relative frequency of each reward value at x, shape (X, Z); NaN without samples."""
        samples = self.num_samples[:, None]
        return np.where(samples > 0, self.reward_counts / np.maximum(samples, 1), np.nan)

    @cached_property
    def marginal_rewards(self) -> Floats:
        """Estimate the marginal rewards, shape (S, A), or (S, A, Z) for Z > 2; NaN without samples."""
        shape = self.num_states, self.num_actions
        if self.num_values == 2:
            return self.reward_frequencies[:, 1].reshape(shape)
        return self.reward_frequencies.reshape(*shape, -1)

    @property
    def ended_early(self) -> bool:
        """Return whether any episode ended before its horizon."""
        return bool(self.transition_counts.indices.size and (self.transition_counts.indices == self.num_states).any())

    def initial_estimate(self) -> Floats:
        """Estimate the initial distribution, shape (S',) with S' of ``transition_estimate``; NaN without episodes."""
        # Episodes do not start at the end, so its initial probability is 0.
        starts = np.append(self.initial_counts, 0) if self.ended_early else self.initial_counts
        return starts / self.num_episodes if self.num_episodes else np.full(starts.size, np.nan)

    def transition_estimate(self) -> tuple[csr_array, NDArray[np.bool_]]:
        """Estimate the transition matrix, with rows x = s*A + a, and return which rows were visited.

        Without visits a row is s to s with probability 1, so that a model can be built; the mask marks it as
        unknown.

        If episodes end early, there may be states without any action: they were entered by last steps only, and an
        early end cannot be told from the horizon there. Transitions into such states are counted as transitions to the
        end.

        Returns:
            CSR array of shape (S'*A, S') and boolean mask of shape (S'*A,). S' is S, or S + 1 if an episode ended
            early. The end is then the absorbing last state, which counts as visited.
        """
        ended = self.ended_early
        size = self.num_states + ended
        counts = self.transition_counts[:, :size].tocoo()
        row, column = counts.coords
        if ended:
            has_actions = (self.visits + self.num_samples).reshape(self.num_states, -1).any(axis=1)
            # Such states were entered by last steps only. Without this correction the model would stay in them
            # forever.
            column = np.where(np.append(has_actions, True)[column], column, self.num_states)
        frequencies = counts.data / self.visits[row]
        visited = np.append(self.visits > 0, np.ones(ended * self.num_actions, bool))
        unknown = np.flatnonzero(~visited)
        end = np.arange(self.num_state_actions, size * self.num_actions)
        # Unknown rows become self-loops, which keeps each row a probability distribution and invents no
        # transition.
        self_loops = np.concatenate([unknown, end])
        entries = np.concatenate([frequencies, np.ones(self_loops.size)])
        coordinates = np.concatenate([row, self_loops]), np.concatenate([column, self_loops // self.num_actions])
        rows = csr_array(coo_array((entries, coordinates), shape=(size * self.num_actions, size)))
        return rows, visited

    def pair_counts(self) -> Counts:
        """Return the number of samples of each pair as a dense symmetric array of shape (X, X)."""
        counts = np.zeros((self.num_state_actions, self.num_state_actions), np.int64)
        first, second = self.pairs
        counts[first, second] = counts[second, first] = self.pair_samples
        return counts

    @staticmethod
    def empty(num_states: int, num_actions: int, horizon: int, reward_values: Any = (0.0, 1.0)) -> Moments:
        """Make the moments of no episode, the neutral element of ``+``."""
        values = as_reward_values(reward_values)
        size = as_count("num_states", num_states) * as_count("num_actions", num_actions)
        check_budget("num_states", memory=8 * size * (values.size + 1), remedy="fewer states, actions or reward values")
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
    def from_episodes(episodes: Episodes, order: int = 2) -> Moments:
        """Count rewards, pairs and transitions of episodes; with order 3 also triples."""
        if as_count("order", order, min_value=2) > 3:
            raise_input_error("order", order, "2 for pairs, or 3 for pairs and triples")
        moments = Moments.from_steps(episodes.symbols, episodes.lengths, _last_states(episodes), episodes)
        if order == 2:
            return moments
        num_state_actions, num_values = moments.num_state_actions, moments.num_values
        if num_state_actions**3 > MAX_COUNT:
            raise_input_error(
                "num_states", f"{num_state_actions} state-actions", "fewer; their triples cannot be numbered"
            )
        keys, tables = count_triples(episodes.symbols, episodes.lengths, num_state_actions, num_values)
        return replace(moments, triple_keys=keys, triple_tables=tables)

    @staticmethod
    def from_steps(symbols: NDArray[Any], lengths: NDArray[Any], last: NDArray[Any], sizes: Any) -> Moments:
        """Count steps that were checked before.

        Args:
            symbols: x*Z + z of each step, episode after episode, shape (N,).
            lengths: Number of steps of each episode, shape (K,).
            last: State to which the last action of each episode led, -1 if unknown, shape (K,).
            sizes: Object with num_states, num_actions, horizon and reward_values, e.g. ``Episodes``.
        """
        num_state_actions, num_values = sizes.num_states * sizes.num_actions, int(sizes.reward_values.size)
        counts, keys, tables = count_pairs(symbols, lengths, num_state_actions, num_values)
        fields = _count_transitions(symbols, lengths, last, sizes)
        return Moments.from_valid_counts(**fields, reward_counts=counts, pair_keys=keys, pair_tables=tables)

    @staticmethod
    def from_transitions(episodes: Episodes) -> Moments:
        """Count initial states and transitions without rewards, which suffices to estimate the transition."""
        values = episodes.reward_values.size
        return Moments.from_valid_counts(
            **_count_transitions(episodes.symbols, episodes.lengths, _last_states(episodes), episodes),
            reward_counts=np.zeros((episodes.num_states * episodes.num_actions, values), np.int64),
            pair_keys=np.empty(0, np.int64),
            pair_tables=np.empty((0, values, values), np.int64),
        )


def _last_states(episodes: Episodes) -> NDArray[Any]:
    """Return the state to which the last action of each episode led, shape (K,)."""
    last: NDArray[Any] = episodes.states[np.arange(len(episodes)), episodes.lengths]
    return last


def _count_transitions(symbols: NDArray[Any], lengths: NDArray[Any], last: NDArray[Any], sizes: Any) -> dict[str, Any]:
    """Count the fields of moments that do not depend on rewards."""
    shape = sizes.num_states * sizes.num_actions, sizes.num_states + 1
    starts, cells, numbers = count_transitions(symbols, lengths, last, sizes)
    return {
        "num_states": sizes.num_states,
        "num_actions": sizes.num_actions,
        "horizon": sizes.horizon,
        "reward_values": sizes.reward_values,
        "num_episodes": int(lengths.size),
        "initial_counts": starts,
        "transition_counts": csr_array(coo_array((numbers, np.divmod(cells, shape[1])), shape=shape)),
    }


def _set_fields(moments: Moments, fields: Mapping[str, Any]) -> None:
    """Set the fields of moments and make their arrays read-only."""
    for name, value in fields.items():
        value = (
            mark_readonly(value)
            if name in _ARRAYS
            else mark_csr_readonly(value)
            if name == "transition_counts"
            else value
        )
        object.__setattr__(moments, name, value)


def check_counts(argument: str, values: Any, shape: tuple[int | None, ...]) -> Counts:
    """Check counts of a shape and return them as a read-only int64 array."""
    array = as_array(argument, values)
    check_shape(argument, array, shape)
    if array.dtype.kind not in "iu":
        raise_input_error(argument, f"dtype {array.dtype}", "whole numbers")
    bad = out_of_range_mask(array, 0, MAX_COUNT + 1)
    if bad is not None:
        raise_input_error(
            format_index(argument, first_index(bad)), int(array[first_index(bad)]), "a count of at least 0"
        )
    counts: Counts = as_readonly_copy(array, np.int64)
    return counts


def _check_transition_counts(transitions: Any, shape: tuple[int, int]) -> csr_array:
    """Check transition counts and return them as CSR with sorted, unique columns."""
    if not issparse(transitions) or transitions.format != "csr" or transitions.shape != shape:
        actual = f"{type(transitions).__name__} of shape {getattr(transitions, 'shape', 'unknown')}"
        raise_input_error("transition_counts", actual, f"compressed sparse rows of shape {shape}")
    data = check_counts("transition_counts.data", transitions.data, (None,))
    rows = make_csr(
        "transition_counts", data, as_readonly_copy(transitions.indices), as_readonly_copy(transitions.indptr), shape
    )
    # The copy keeps the caller's array unchanged: sum_duplicates works in place.
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _check_counts(moments: Moments) -> None:
    """Raise an ``InputError`` for counts that no set of this many episodes can have."""
    count, num_state_actions = moments.num_episodes, moments.num_state_actions
    if moments.initial_counts.max(initial=0) > count or moments.initial_counts.sum() != count:
        raise_input_error(
            "initial_counts",
            f"a sum of {moments.initial_counts.sum()}",
            f"one initial state for each of the {count} episodes",
        )
    # Summed in float64, because invalid counts could overflow int64 and wrap around to a valid total.
    if float(moments.transition_counts.data.sum(dtype=np.float64)) > count * moments.horizon:
        raise_input_error(
            "transition_counts", "more transitions", f"at most {moments.horizon} for each of the {count} episodes"
        )
    # Both chosen steps of an episode may be at one state-action x.
    max_per_episode = 2 if moments.first_visit_keys.size else 1
    _check_sums("reward_counts", moments.reward_counts, moments.num_samples, count * max_per_episode)
    for name in ("pair", "first_visit"):
        keys, tables = getattr(moments, f"{name}_keys"), getattr(moments, f"{name}_tables")
        if (keys[1:] <= keys[:-1]).any() or keys.max(initial=0) >= num_state_actions * num_state_actions:
            raise_input_error(
                f"{name}_keys",
                "numbers out of order or range",
                f"increasing numbers below {num_state_actions * num_state_actions}",
            )
        _check_sums(
            f"{name}_tables", tables, moments.pair_samples if name == "pair" else tables.sum(axis=(1, 2)), count
        )
    if moments.first_visit_keys.size:
        keys, tables = merge_pair_orders(moments.first_visit_keys, moments.first_visit_tables, num_state_actions)
        if not (np.array_equal(keys, moments.pair_keys) and np.array_equal(tables, moments.pair_tables)):
            raise_input_error(
                "first_visit_tables",
                "other samples than in pair_tables",
                "those of pair_tables, in the order of the picked steps",
            )
    x, other = moments.pairs
    if (x > other).any():
        raise_input_error(
            format_index("pair_keys", first_index(x > other)), "a pair (x, y) with x > y", "each pair once, x <= y"
        )
    num_samples = moments.num_samples
    if (moments.pair_samples > np.minimum(num_samples[x], num_samples[other])).any():
        raise_input_error("pair_tables", "more samples of a pair than of one of its state-actions", "at most as many")
    if moments.triple_keys.size:
        _check_triples(moments)


def _check_triples(moments: Moments) -> None:
    """Raise an ``InputError`` for invalid triples, or more samples of a triple than of one of its pairs."""
    num_state_actions, keys = moments.num_state_actions, moments.triple_keys
    if moments.first_visit_keys.size:
        raise_input_error(
            "triple_keys", "triples with selected pairs", "no triples; selected pairs are one per episode"
        )
    if (keys[1:] <= keys[:-1]).any() or keys.max() >= num_state_actions**3:
        raise_input_error(
            "triple_keys", "numbers out of order or range", f"increasing numbers below {num_state_actions**3}"
        )
    x, y, w = moments.triples
    bad = (x > y) | (y > w)
    if bad.any():
        raise_input_error(
            format_index("triple_keys", first_index(bad)),
            "a triple (x, y, w) out of order",
            "each triple once, x <= y <= w",
        )
    _check_sums("triple_tables", moments.triple_tables, moments.triple_samples, moments.num_episodes)
    for first, second in ((x, y), (x, w), (y, w)):
        pair = first * num_state_actions + second
        # searchsorted returns the length for keys behind the last one; the index is clipped and then compared.
        position = np.minimum(np.searchsorted(moments.pair_keys, pair), max(moments.pair_keys.size - 1, 0))
        missing = moments.pair_keys[position] != pair if moments.pair_keys.size else np.ones(pair.size, bool)
        samples = moments.pair_samples[position] if moments.pair_keys.size else np.zeros(pair.size, np.int64)
        if (moments.triple_samples > np.where(missing, 0, samples)).any():
            raise_input_error("triple_tables", "more samples of a triple than of a pair in it", "at most as many")


def _check_sums(argument: str, tables: Counts, sums: Counts, max_count: int) -> None:
    """Raise an ``InputError`` if a table along the first axis has more than ``max_count`` samples."""
    # With entries this large the sums may have overflowed, so single entries are compared.
    large = tables.max(initial=0) > max_count
    bad = (tables > max_count).reshape(len(tables), -1).any(axis=1) if large else sums > max_count
    if bad.any():
        raise_input_error(
            format_index(argument, first_index(np.asarray(bad))),
            "more samples",
            f"at most one for each of the {max_count} episodes",
        )


_TRIPLES = ("triple_keys", "triple_tables")
_STORED_FIELDS = (
    "initial_counts",
    "reward_counts",
    "pair_keys",
    "pair_tables",
    "first_visit_keys",
    "first_visit_tables",
)
_ARRAYS = (*_STORED_FIELDS, *_TRIPLES)


def pack_moments(moments: Moments) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Convert moments to arrays and metadata for a file; triples are written only if there are any."""
    names = (*_STORED_FIELDS, *(_TRIPLES if moments.triple_keys.size else ()), "reward_values")
    arrays: dict[str, NDArray[Any]] = {name: getattr(moments, name) for name in names}
    transitions = {f"transition_counts_{name}": getattr(moments.transition_counts, name) for name in CSR_ARRAYS}
    meta = {name: getattr(moments, name) for name in ("num_states", "num_actions", "horizon", "num_episodes")}
    return {**arrays, **transitions}, meta


def unpack_moments(arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> Moments:
    """Build moments from the arrays and metadata of a file; other entries are ignored."""
    sizes: dict[str, Any] = {
        name: get_metadata(meta, name, int) for name in ("num_states", "num_actions", "horizon", "num_episodes")
    }
    shape = sizes["num_states"] * sizes["num_actions"], sizes["num_states"] + 1
    data, indices, indptr = (arrays[f"transition_counts_{name}"] for name in CSR_ARRAYS)
    transitions = make_csr("transition_counts", data, indices, indptr, shape)
    triple_fields = _TRIPLES if any(name in arrays for name in _TRIPLES) else ()
    stored: dict[str, Any] = {name: arrays[name] for name in (*_STORED_FIELDS, *triple_fields, "reward_values")}
    return Moments(**sizes, **stored, transition_counts=transitions)
