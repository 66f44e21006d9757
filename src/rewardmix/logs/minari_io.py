"""Read and write Minari datasets of environments with Discrete observation and action spaces."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from rewardmix._core.budget import check_budget_episodes
from rewardmix._core.checks import InputError, raise_input_error
from rewardmix.episodes import Episodes
from rewardmix.logs.log_schema import as_horizon

_NEEDED = "Minari datasets need minari: pip install 'rewardmix[logs]'"


def _import_minari() -> Any:
    """Import ``minari``."""
    try:
        import minari
    except ImportError as error:
        raise ImportError(_NEEDED) from error
    return minari


def is_dataset(source: Any) -> bool:
    """Return whether an object is an open Minari dataset."""
    return type(source).__module__.split(".")[0] == "minari" and hasattr(source, "iterate_episodes")


def read_minari(source: Any, *, horizon: int | None = None, reward_values: Any = None) -> Episodes:
    """Read the episodes of a Minari dataset with Discrete observations and actions.

    Args:
        source: Id of a dataset such as ``"rewardmix/shop-v0"``, or an open dataset.
        horizon: Maximum number of steps of an episode. ``None`` uses the longest episode.
        reward_values: Values that a reward can take. ``None`` uses those that occur.

    Returns:
        The episodes with at least one step.

    Raises:
        InputError: If the dataset does not exist, has other spaces or has no steps.
        ImportError: If minari is not installed.
    """
    max_steps = None if horizon is None else as_horizon(horizon)
    dataset = _open_dataset(source)
    states, first_state = _discrete_space("observations", dataset.spec.observation_space)
    actions, first_action = _discrete_space("actions", dataset.spec.action_space)
    episodes = [
        (
            _as_int64("observations", k, episode.observations, len(episode.rewards) + 1) - first_state,
            _as_int64("actions", k, episode.actions, len(episode.rewards)) - first_action,
            np.asarray(episode.rewards, dtype=np.float64),
        )
        for k, episode in enumerate(dataset.iterate_episodes())
        if len(episode.rewards)
    ]
    if not episodes:
        raise_input_error("source", "a Minari dataset without steps", "at least one episode")
    lengths = np.array([rewards.size for _, _, rewards in episodes])
    steps = int(lengths.max()) if max_steps is None else max_steps
    if steps < lengths.max():
        raise_input_error("horizon", steps, f"at least {lengths.max()}, the steps of episode {int(lengths.argmax())}")
    check_budget_episodes(len(episodes), 2 * steps)
    padded = _pad(episodes, steps)
    sizes = {"num_states": states, "num_actions": actions}
    return Episodes.from_arrays(*padded, **sizes, lengths=lengths, reward_values=reward_values)


def _as_int64(role: str, episode: int, values: Any, count: int) -> Any:
    """Return the values of one episode as ``count`` int64 numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        actual = f"{role} of type {array.dtype} and shape {array.shape} in episode {episode}"
        raise_input_error("source", actual, f"{count} whole numbers")
    # The first element of the space is subtracted next, which would wrap around in an unsigned type.
    return array.astype(np.int64)


def write_minari(identifier: str, episodes: Episodes, **about: Any) -> Any:
    """Write episodes as a Minari dataset in Minari's own folder.

    Args:
        identifier: Id of the dataset, such as ``"rewardmix/shop-v0"``.
        episodes: Episodes with known final states.
        **about: Metadata of the dataset: author, description, ...

    Returns:
        The dataset.

    Raises:
        InputError: If the final state of an episode is missing.
        ImportError: If minari is not installed.
    """
    minari = _import_minari()
    from minari.data_collector import EpisodeBuffer
    from minari.serialization import deserialize_space

    # Minari stores the observation after the last step, so it cannot be missing.
    if (episodes.states[np.arange(len(episodes)), episodes.lengths] < 0).any():
        raise_input_error("episodes", "an episode without its final state", "the final state of every episode")
    buffers = [
        EpisodeBuffer(
            id=k,
            observations=states[: steps + 1].astype(np.int64),
            actions=actions[:steps].astype(np.int64),
            rewards=rewards[:steps],
            terminations=np.arange(1, steps + 1) == steps,
            truncations=np.zeros(steps, bool),
            infos=None,
        )
        for k, (states, actions, rewards, steps) in enumerate(_iter_rows(episodes))
    ]
    spaces = [
        json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": n})
        for n in (episodes.num_states, episodes.num_actions)
    ]
    about = {"algorithm_name": "rewardmix", "data_format": "arrow", **about}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on missing metadata
        return minari.create_dataset_from_buffers(
            identifier, buffers, observation_space=deserialize_space(spaces[0]),
            action_space=deserialize_space(spaces[1]), **about,
        )  # fmt: skip


def _iter_rows(episodes: Episodes) -> Iterator[tuple[Any, Any, Any, int]]:
    return zip(episodes.states, episodes.actions, episodes.rewards, episodes.lengths.tolist(), strict=True)


def _open_dataset(source: Any) -> Any:
    if not isinstance(source, str):
        return source
    try:
        return _import_minari().load_dataset(source)
    except (FileNotFoundError, ValueError, KeyError, OSError) as error:
        raise InputError(
            f"source: got no Minari dataset {source!r} ({error}), expected a downloaded dataset"
        ) from error


def _discrete_space(role: str, space: Any) -> tuple[int, int]:
    """Return (size, first element) of a Discrete space."""
    if type(space).__name__ != "Discrete":
        raise_input_error("source", f"{role} in {space}", "a Discrete space")
    return int(space.n), int(space.start)


def _pad(episodes: list[tuple[Any, Any, Any]], steps: int) -> tuple[Any, Any, Any]:
    count = len(episodes)
    states, actions = np.zeros((count, steps + 1), np.int64), np.zeros((count, steps), np.int64)
    rewards = np.zeros((count, steps))
    for k, (s, a, r) in enumerate(episodes):
        states[k, : s.size], actions[k, : a.size], rewards[k, : r.size] = s, a, r
    return states, actions, rewards
