"""Stored files of every kind, damaged at random: each is refused, or what is in it can be used.

    python tests/fuzz/files.py --tries 20000 [--seed 0]

Half of the damaged files get a checksum that is right, as the file of somebody who means harm would have. Where it was
left as it is, a file that is read must hold what it held before. What was read is used: counted, played, evaluated,
gone on with.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from scipy.sparse import csr_array

from rewardmix import Episodes, InputError, explore, load, make_model, save, simulate, uniform_policy
from rewardmix._core import storage
from rewardmix.evaluation import evaluate
from rewardmix.exploration import checkpoints, selected_pairs
from rewardmix.exploration.running_counts import RunningCounts
from rewardmix.learning.refinement import _load_matching_batch, _save_batch
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.online import PosteriorSamplingAgent
from rewardmix.planning import AlphaVectors, Plan, plan
from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy
from rewardmix.recovery.reward_patterns import patterns_from_episodes

ODD = [0, 1, -1, 2, 3, 7, 127, 128, -128, 255, 32_768, 65_536, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
ODD_JSON = [
    *ODD,
    10**400,
    0.5,
    -0.5,
    1e308,
    1e999,
    None,
    True,
    False,
    "",
    "x",
    "model",
    [],
    [1],
    {},
    {"a": 1},
    "\ud800",
]
LONGEST = 64
"""Horizons beyond this are not played out."""


@cache
def world() -> RewardMixingMDP:
    """The small model that everything is about."""
    return make_model("random", states=2, actions=2, horizon=3)


@cache
def samples() -> dict[str, dict[str, bytes]]:
    """Folders of files, by what they hold; the file with the same name is the one that is opened."""
    model = world()
    planned = plan(model, gap=1e-2)
    played = simulate(uniform_policy(model), model, 20)
    rows = csr_array(np.asarray(model.transition).reshape(-1, model.num_states))
    sparse = RewardMixingMDP(rows, model.initial, model.weights, model.rewards, model.horizon)
    lengths = np.arange(20) % 2 + model.horizon - 1
    early = Episodes.from_arrays(
        played.states, played.actions, played.rewards, num_states=2, num_actions=2, lengths=lengths
    )
    objects = {
        "model": model,
        "sparse": sparse,
        "markov": uniform_policy(model),
        "controller": planned.policy,
        "vectors": planned.alpha_vectors,
        "belief": planned.belief_policy,
        "plan": planned,
        "moments": Moments.from_episodes(played),
        "selected": explore(model, num_episodes=30, counting=selected_pairs).moments,
        "episodes": played,
        "early": early,
        "agent": grown(PosteriorSamplingAgent(**sizes(model), window=64, seed=1), 140),
        "open agent": grown(PosteriorSamplingAgent(**sizes(model), num_types="auto", seed=2), 40),
    }
    result: dict[str, dict[str, bytes]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, value in objects.items():
            save(folder / kind, value)
            result[kind] = {kind: (folder / kind).read_bytes()}
        checkpoints.MIN_SECONDS_BETWEEN = 0.0
        explore(model, num_episodes=30, seed=1, replan_growth=4.0, checkpoint_dir=folder / "exploration")
        result["exploration"] = {path.name: path.read_bytes() for path in (folder / "exploration").iterdir()}
        _save_batch(folder / "batch", played, {"seed": 1})
        result["batch"] = {"batch": (folder / "batch").read_bytes()}
    return result


def sizes(model: RewardMixingMDP) -> dict[str, int]:
    """What an agent is told of a model."""
    return {name: getattr(model, name) for name in ("num_states", "num_actions", "horizon")}


def grown(agent: PosteriorSamplingAgent, num_episodes: int, seed: int = 0) -> PosteriorSamplingAgent:
    """The agent after so many visits, two of which are still open."""
    rng = np.random.default_rng(seed)
    for number in range(num_episodes):
        episode = agent.start_episode(int(rng.integers(agent.num_states)))
        while episode.action is not None and (number < num_episodes - 2 or episode.step == 0):
            episode.observe(float(rng.choice(agent.reward_values)), int(rng.integers(agent.num_states)))
    agent.update()
    return agent


def attempt(seed: int, number: int, folder: Path) -> str:
    """Damage one file and open it."""
    rng = np.random.default_rng([seed, number])
    kinds = list(samples())
    kind = kinds[number % len(kinds)]
    files = dict(samples()[kind])
    name = sorted(files)[int(rng.integers(len(files)))]
    before = files[name]
    after = DAMAGES[int(rng.integers(len(DAMAGES)))](before, rng)
    repaired = bool(rng.integers(2))
    files[name] = mended(after) if repaired else after
    subfolder = folder / f"{number}"
    subfolder.mkdir()
    try:
        for key, content in files.items():
            (subfolder / key).write_bytes(content)
        if not repaired:
            check_unchanged(subfolder / name, before)
        use(kind, subfolder, name, int(rng.integers(1 << 30)))
    except AssertionError as error:
        return f"WRONG {error}"
    finally:
        shutil.rmtree(subfolder)
    return "valid"


def check_unchanged(path: Path, before: bytes) -> None:
    """What is read without a mended checksum is what was written."""
    try:
        result = storage.read_arrays(path)
    except InputError:
        return
    other = path.with_name("before")
    other.write_bytes(before)
    expected = storage.read_arrays(other)
    other.unlink()
    assert result[::2] == expected[::2], "other metadata under the same checksum"
    for name, array in expected[1].items():
        assert array.tobytes() == result[1][name].tobytes(), f"another {name} under the same checksum"


# ---------------------------------------------------------------------------------------------------------------------
# Damage


def flip(content: bytes, rng: np.random.Generator) -> bytes:
    """A bit, or a few."""
    array = np.frombuffer(content, np.uint8).copy()
    for _ in range(int(rng.choice([1, 1, 1, 2, 8]))):
        array[rng.integers(array.size)] ^= np.uint8(1 << rng.integers(8))
    return array.tobytes()


def flip_data(content: bytes, rng: np.random.Generator) -> bytes:
    """A bit of the arrays."""
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    array = np.frombuffer(content, np.uint8).copy()
    if begin < array.size:
        array[rng.integers(begin, array.size)] ^= np.uint8(1 << rng.integers(8))
    return array.tobytes()


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """The end is missing, or something in between, or there is more."""
    offset = int(rng.integers(len(content)))
    return [content[:offset], content[:offset] + content[offset + 8 :], content + content[:offset]][
        int(rng.integers(3))
    ]


def put(content: bytes, rng: np.random.Generator) -> bytes:
    """An entry of an array is another number."""
    header, data = taken_apart(content)
    filled = [entry for name, entry in header.items() if name != "__metadata__" and np.prod(entry["shape"]) > 0]
    if not filled:
        return content
    entry = filled[int(rng.integers(len(filled)))]
    dtype = storage.DTYPES[entry["dtype"]]
    begin, end = entry["data_offsets"]
    array = np.frombuffer(data[begin:end], dtype).copy()
    if dtype.kind == "f":
        array[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -1.0, 0.0, 1.0, 2.0, 1e300, 1e-300, 0.5])
    else:
        array[rng.integers(array.size)] = np.array(ODD[int(rng.integers(len(ODD)))]).astype(dtype)
    return put_together(header, data[:begin] + array.tobytes() + data[end:])


def swap(content: bytes, rng: np.random.Generator) -> bytes:
    """Two arrays under each other's name, or one under another name, or gone."""
    header, data = taken_apart(content)
    names = [name for name in header if name != "__metadata__"]
    first, second = (names[int(rng.integers(len(names)))] for _ in range(2))
    if rng.integers(2):
        header[first], header[second] = header[second], header[first]
    else:
        header[f"{first}x"] = header.pop(first)
    return put_together(header, data)


def reshape(content: bytes, rng: np.random.Generator) -> bytes:
    """An array of another shape or type, and as many bytes of it as that takes."""
    header, data = taken_apart(content)
    names = [name for name in header if name != "__metadata__"]
    sizes = {name: header[name]["data_offsets"] for name in names}
    contents = {name: data[begin:end] for name, (begin, end) in sizes.items()}
    name = names[int(rng.integers(len(names)))]
    shape = list(header[name]["shape"])
    if shape and rng.integers(4):
        axis = int(rng.integers(len(shape)))
        shape[axis] = max(0, shape[axis] + int(rng.choice([-1, 1, 2, -2, 5])))
    elif rng.integers(2):
        shape = [*shape, 1]
    else:
        shape = [int(np.prod(shape))]
    dtype = header[name]["dtype"] if rng.integers(3) else str(rng.choice(list(storage.DTYPES)))
    needed = int(np.prod(shape)) * storage.DTYPES[dtype].itemsize
    contents[name] = (contents[name] * (1 + needed // max(len(contents[name]), 1)) + bytes(needed))[:needed]
    offset = 0
    for key in sorted(names, key=lambda key: sizes[key]):
        entry = {"dtype": dtype, "shape": shape} if key == name else header[key]
        header[key] = {**entry, "data_offsets": [offset, offset + len(contents[key])]}
        offset += len(contents[key])
    return put_together(header, b"".join(contents[key] for key in sorted(names, key=lambda key: sizes[key])))


def edit(content: bytes, rng: np.random.Generator) -> bytes:
    """Something else in the metadata, or in what is said about an array."""
    header, data = taken_apart(content)
    text = json.loads(header["__metadata__"][storage.METADATA_KEY])
    tree: Any = text if rng.integers(4) else header
    while True:
        keys: list[Any] = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            break
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(tree[key], dict | list) and tree[key] and rng.integers(6):
            tree = tree[key]
            continue
        if isinstance(tree, dict) and not rng.integers(6):
            del tree[key]
        else:
            tree[key] = ODD_JSON[int(rng.integers(len(ODD_JSON)))]
        break
    if isinstance(header.get("__metadata__"), dict) and storage.METADATA_KEY in header["__metadata__"]:
        header["__metadata__"][storage.METADATA_KEY] = json.dumps(text)
    return put_together(header, data)


DAMAGES = [flip, flip, flip, flip_data, flip_data, cut, put, put, swap, reshape, edit, edit]


def taken_apart(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and data of a whole file."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def put_together(header: dict[str, Any], data: bytes) -> bytes:
    """The way back."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def mended(content: bytes) -> bytes:
    """The same file with the checksum of what is in it now, if there is a way to tell."""
    try:
        header, data = taken_apart(content)
        text = json.loads(header["__metadata__"][storage.METADATA_KEY])
        arrays = {
            name: np.frombuffer(data[slice(*item["data_offsets"])], storage.DTYPES[item["dtype"]]).reshape(
                item["shape"]
            )
            for name, item in header.items()
            if name != "__metadata__"
        }
        text["checksum"] = storage.checksum(text, arrays)
        header["__metadata__"][storage.METADATA_KEY] = json.dumps(text)
        return put_together(header, data)
    except Exception:  # too broken to have one
        return content


# ---------------------------------------------------------------------------------------------------------------------
# Use


def use(kind: str, folder: Path, name: str, seed: int) -> None:
    """Open what was damaged and do with it what people do."""
    if kind == "exploration":
        explore(world(), num_episodes=30 + seed % 5, seed=1, replan_growth=4.0, checkpoint_dir=folder)
        return
    if kind == "batch":
        batch = _load_matching_batch(folder / name, {"seed": 1}, samples_episodes(), 20)
        assert batch is not None
        use_noun(batch, seed)
        return
    use_noun(load(folder / name), seed)


@cache
def samples_episodes() -> Episodes:
    """The episodes that the batch must go with."""
    return simulate(uniform_policy(world()), world(), 20)


def use_noun(instance: Any, seed: int) -> None:
    """Count, play, evaluate: whatever this noun is for."""
    if isinstance(instance, RewardMixingMDP):
        use_model(instance, seed)
    elif isinstance(instance, Episodes):
        use_episodes(instance)
    elif isinstance(instance, Moments):
        use_moments(instance)
    elif isinstance(instance, MarkovPolicy | Controller):
        evaluate(instance, world())
        use_episodes(simulate(instance, world(), 5, seed))
    elif isinstance(instance, AlphaVectors):
        num_types = instance.values[0].shape[2]
        for t, values in enumerate(instance.values):
            instance(t, values.shape[0] - 1, np.full(num_types, 1 / num_types))
    elif isinstance(instance, BeliefPolicy):
        play_by_hand(instance, seed)
    elif isinstance(instance, PosteriorSamplingAgent):
        use_agent(instance, seed)
    elif isinstance(instance, Plan):
        evaluate(instance.policy, instance.model)
        use_episodes(simulate(instance.policy, instance.model, 5, seed))
        play_by_hand(instance.belief_policy, seed)


def use_agent(agent: PosteriorSamplingAgent, seed: int) -> None:
    """Go on with it, as long as its episodes are short, and keep it."""
    if agent.horizon <= LONGEST:
        for name in list(agent._open):
            agent.get_episode(name).close()
        grown(agent, 6, seed)
    with tempfile.TemporaryDirectory() as name:
        save(Path(name) / "agent", agent)
        load(Path(name) / "agent")


def use_model(model: RewardMixingMDP, seed: int) -> None:
    """Play a uniform policy."""
    if model.horizon <= LONGEST:
        policy = uniform_policy(model)
        assert np.isfinite(evaluate(policy, model).value), "a value that is no number"
        use_episodes(simulate(policy, model, 5, seed))


def use_episodes(episodes: Episodes) -> None:
    """Count them."""
    moments = Moments.from_episodes(episodes)
    assert moments.num_episodes == len(episodes), "other episodes than there were"
    assert np.isfinite(episodes.returns).all(), "returns that are no numbers"
    patterns_from_episodes(episodes)
    use_moments(moments)


def use_moments(moments: Moments) -> None:
    """Add and estimate."""
    assert (moments + moments).num_episodes == 2 * moments.num_episodes, "a sum that is none"
    moments.transition_estimate()
    sizes = moments.num_states, moments.num_actions, moments.horizon
    if moments.num_state_actions <= 1000:
        moments.pair_counts()
        counts = RunningCounts.empty(sizes, moments.reward_values, bool(moments.first_visit_keys.size))
        counts.add(moments)
        assert counts.moments() == moments, "other counts in a tally"


def play_by_hand(policy: BeliefPolicy, seed: int) -> None:
    """A few episodes, step by step."""
    rng = np.random.default_rng(seed)
    model = policy.model
    memory: Any = policy.start(int(rng.integers(model.num_states)))
    for _ in range(min(policy.horizon, LONGEST)):
        action = policy.act(memory, rng)
        reward = float(rng.choice(model.reward_values))
        memory = policy.observe(memory, action, reward, int(rng.integers(model.num_states)))


if __name__ == "__main__":
    from fuzz.worker_processes import main

    main(__file__, attempt)
