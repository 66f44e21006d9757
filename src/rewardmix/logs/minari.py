"""The door to Minari: datasets of Discrete environments in and out."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from rewardmix._core.checks import InputError, refuse
from rewardmix._core.limits import afford_episodes
from rewardmix.episodes import Episodes
from rewardmix.logs.log_schema import as_horizon

_NEEDED = "Minari datasets need minari: pip install 'rewardmix[logs]'"


def _minari() -> Any:
    """The ``minari`` module."""
    try:
        import minari
    except ImportError as error:
        raise ImportError(_NEEDED) from error
    return minari


def is_dataset(source: Any) -> bool:
    """Whether something is an open Minari dataset."""
    return type(source).__module__.split(".")[0] == "minari" and hasattr(source, "iterate_episodes")


def read_minari(source: Any, *, horizon: int | None = None, reward_values: Any = None) -> Episodes:
    """Episodes of a Minari dataset (open, or by its id) whose observations and actions are Discrete.

    Args:
        source: an id such as "rewardmix/shop-v0", or a dataset.
        horizon: most steps of an episode; left out, the longest has it.
        reward_values: values that a reward can take; left out, those that occur.
    """
    most = None if horizon is None else as_horizon(horizon)
    dataset = _opened(source)
    states, first_state = _discrete("observations", dataset.spec.observation_space)
    actions, first_action = _discrete("actions", dataset.spec.action_space)
    episodes = [
        (
            _whole_numbers("observations", k, one.observations, len(one.rewards) + 1) - first_state,
            _whole_numbers("actions", k, one.actions, len(one.rewards)) - first_action,
            np.asarray(one.rewards, dtype=np.float64),
        )
        for k, one in enumerate(dataset.iterate_episodes())
        if len(one.rewards)
    ]
    if not episodes:
        refuse("source", "a Minari dataset without steps", "at least one episode")
    lengths = np.array([rewards.size for _, _, rewards in episodes])
    steps = int(lengths.max()) if most is None else most
    if steps < lengths.max():
        refuse("horizon", steps, f"at least {lengths.max()}, the steps of episode {int(lengths.argmax())}")
    afford_episodes(len(episodes), 2 * steps)
    padded = _padded(episodes, steps)
    sizes = {"num_states": states, "num_actions": actions}
    return Episodes.from_arrays(*padded, **sizes, lengths=lengths, reward_values=reward_values)


def _whole_numbers(role: str, episode: int, values: Any, count: int) -> Any:
    """What an episode says of a role as ``count`` numbers of 64 bits, which no first element of a space can wrap."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        found = f"{role} of type {array.dtype} and shape {array.shape} in episode {episode}"
        refuse("source", found, f"{count} whole numbers")
    return array.astype(np.int64)


def write_minari(identifier: str, episodes: Episodes, **about: Any) -> Any:
    """Store episodes as a Minari dataset (in Minari's own folder) and return it; ``about``: author, description, ..."""
    minari = _minari()
    from minari.data_collector import EpisodeBuffer
    from minari.serialization import deserialize_space

    if (episodes.states[np.arange(len(episodes)), episodes.lengths] < 0).any():
        refuse("episodes", "an episode whose last state nobody kept", "the state that every action led to")
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
        for k, (states, actions, rewards, steps) in enumerate(_rows(episodes))
    ]
    spaces = [
        json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": n})
        for n in (episodes.num_states, episodes.num_actions)
    ]
    about = {"algorithm_name": "rewardmix", "data_format": "arrow", **about}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # recommendations on authors and links, which ``about`` may follow
        return minari.create_dataset_from_buffers(
            identifier, buffers, observation_space=deserialize_space(spaces[0]),
            action_space=deserialize_space(spaces[1]), **about,
        )  # fmt: skip


def _rows(episodes: Episodes) -> Iterator[tuple[Any, Any, Any, int]]:
    return zip(episodes.states, episodes.actions, episodes.rewards, episodes.lengths.tolist(), strict=True)


def _opened(source: Any) -> Any:
    if not isinstance(source, str):
        return source
    try:
        return _minari().load_dataset(source)
    except (FileNotFoundError, ValueError, KeyError, OSError) as error:
        raise InputError(
            f"source: found no Minari dataset {source!r} ({error}), expected one that is downloaded"
        ) from error


def _discrete(role: str, space: Any) -> tuple[int, int]:
    """(size, first) of a Discrete space."""
    if type(space).__name__ != "Discrete":
        refuse("source", f"{role} in {space}", "a Discrete space")
    return int(space.n), int(space.start)


def _padded(episodes: list[tuple[Any, Any, Any]], steps: int) -> tuple[Any, Any, Any]:
    count = len(episodes)
    states, actions = np.zeros((count, steps + 1), np.int64), np.zeros((count, steps), np.int64)
    rewards = np.zeros((count, steps))
    for k, (seen, played, paid) in enumerate(episodes):
        states[k, : seen.size], actions[k, : played.size], rewards[k, : paid.size] = seen, played, paid
    return states, actions, rewards
