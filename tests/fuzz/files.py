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

from rewardmix import Episodes, InputError, explore, load, save, simulate, uniform
from rewardmix._core import storage
from rewardmix.evaluation import evaluate
from rewardmix.exploration import checkpoints, selected
from rewardmix.exploration.tally import Tally
from rewardmix.learning.refinement import _save, _saved
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.online import Agent
from rewardmix.planning import AlphaVectors, Plan, plan
from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy
from rewardmix.recovery.bags import bags_of

OLD = Path(__file__).resolve().parents[1] / "schema1"
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
    """The small world that everything is about."""
    model: RewardMixingMDP = load(OLD / "model.safetensors")
    return model


@cache
def samples() -> dict[str, dict[str, bytes]]:
    """Folders of files, by what they hold; the file with the same name is the one that is opened."""
    model = world()
    planned = plan(model, gap=1e-2)
    played = simulate(uniform(model), model, 20)
    rows = csr_array(np.asarray(model.transition).reshape(-1, model.num_states))
    sparse = RewardMixingMDP(rows, model.initial, model.weights, model.rewards, model.horizon)
    nouns = {
        "model": model,
        "sparse": sparse,
        "markov": uniform(model),
        "controller": planned.policy,
        "vectors": planned.alpha_vectors,
        "belief": planned.belief_policy,
        "plan": planned,
        "moments": Moments.of(played),
        "selected": explore(model, episodes=30, counts=selected).moments,
        "episodes": played,
        "early": load(OLD / "early-episodes.safetensors"),
        "agent": grown(Agent(**sizes(model), memory=64, seed=1), 140),
        "open agent": grown(Agent(**sizes(model), num_contexts="auto", seed=2), 40),
    }
    found: dict[str, dict[str, bytes]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, noun in nouns.items():
            save(folder / kind, noun)
            found[kind] = {kind: (folder / kind).read_bytes()}
        checkpoints.SECONDS = 0.0
        explore(model, episodes=30, seed=1, growth=4.0, checkpoint=folder / "exploration")
        found["exploration"] = {path.name: path.read_bytes() for path in (folder / "exploration").iterdir()}
        _save(folder / "batch", played, {"seed": 1})
        found["batch"] = {"batch": (folder / "batch").read_bytes()}
    for path in OLD.glob("*.safetensors"):
        found[f"old {path.stem}"] = {path.name: path.read_bytes()}
    return found


def sizes(model: RewardMixingMDP) -> dict[str, int]:
    """What an agent is told of a world."""
    return {name: getattr(model, name) for name in ("num_states", "num_actions", "horizon")}


def grown(agent: Agent, visits: int, seed: int = 0) -> Agent:
    """The agent after so many visits, two of which are still open."""
    rng = np.random.default_rng(seed)
    for number in range(visits):
        visit = agent.begin(int(rng.integers(agent.num_states)))
        while visit.action is not None and (number < visits - 2 or visit.step == 0):
            visit.observe(float(rng.choice(agent.reward_values)), int(rng.integers(agent.num_states)))
    agent.learn()
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
    place = folder / f"{number}"
    place.mkdir()
    try:
        for key, content in files.items():
            (place / key).write_bytes(content)
        if not repaired and not kind.startswith("old"):
            check_unchanged(place / name, before)
        use(kind, place, name, int(rng.integers(1 << 30)))
    except AssertionError as error:
        return f"WRONG {error}"
    finally:
        shutil.rmtree(place)
    return "valid"


def check_unchanged(path: Path, before: bytes) -> None:
    """What is read without a mended checksum is what was written."""
    try:
        found = storage.read_arrays(path)
    except InputError:
        return
    other = path.with_name("before")
    other.write_bytes(before)
    expected = storage.read_arrays(other)
    other.unlink()
    assert found[::2] == expected[::2], "other metadata under the same checksum"
    for name, array in expected[1].items():
        assert array.tobytes() == found[1][name].tobytes(), f"another {name} under the same checksum"


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
    place = int(rng.integers(len(content)))
    return [content[:place], content[:place] + content[place + 8 :], content + content[:place]][int(rng.integers(3))]


def put(content: bytes, rng: np.random.Generator) -> bytes:
    """An entry of an array is another number."""
    header, data = taken_apart(content)
    filled = [one for name, one in header.items() if name != "__metadata__" and np.prod(one["shape"]) > 0]
    if not filled:
        return content
    one = filled[int(rng.integers(len(filled)))]
    dtype = storage.DTYPES[one["dtype"]]
    begin, end = one["data_offsets"]
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
    one, other = (names[int(rng.integers(len(names)))] for _ in range(2))
    if rng.integers(2):
        header[one], header[other] = header[other], header[one]
    else:
        header[f"{one}x"] = header.pop(one)
    return put_together(header, data)


def reshape(content: bytes, rng: np.random.Generator) -> bytes:
    """An array of another shape or type, and as many bytes of it as that takes."""
    header, data = taken_apart(content)
    names = [name for name in header if name != "__metadata__"]
    sizes = {name: header[name]["data_offsets"] for name in names}
    parts = {name: data[begin:end] for name, (begin, end) in sizes.items()}
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
    parts[name] = (parts[name] * (1 + needed // max(len(parts[name]), 1)) + bytes(needed))[:needed]
    place = 0
    for key in sorted(names, key=lambda key: sizes[key]):
        told = {"dtype": dtype, "shape": shape} if key == name else header[key]
        header[key] = {**told, "data_offsets": [place, place + len(parts[key])]}
        place += len(parts[key])
    return put_together(header, b"".join(parts[key] for key in sorted(names, key=lambda key: sizes[key])))


def edit(content: bytes, rng: np.random.Generator) -> bytes:
    """Something else in the metadata, or in what is said about an array."""
    header, data = taken_apart(content)
    said = json.loads(header["__metadata__"][storage.KEY])
    tree: Any = said if rng.integers(4) else header
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
    if isinstance(header.get("__metadata__"), dict) and storage.KEY in header["__metadata__"]:
        header["__metadata__"][storage.KEY] = json.dumps(said)
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
        said = json.loads(header["__metadata__"][storage.KEY])
        arrays = {
            name: np.frombuffer(data[slice(*one["data_offsets"])], storage.DTYPES[one["dtype"]]).reshape(one["shape"])
            for name, one in header.items()
            if name != "__metadata__"
        }
        said["checksum"] = storage.checksum(said, arrays)
        header["__metadata__"][storage.KEY] = json.dumps(said)
        return put_together(header, data)
    except Exception:  # too broken to have one
        return content


# ---------------------------------------------------------------------------------------------------------------------
# Use


def use(kind: str, place: Path, name: str, seed: int) -> None:
    """Open what was damaged and do with it what people do."""
    if kind == "exploration":
        explore(world(), episodes=30 + seed % 5, seed=1, growth=4.0, checkpoint=place)
        return
    if kind == "batch":
        batch = _saved(place / name, {"seed": 1}, samples_episodes(), 20)
        assert batch is not None
        use_noun(batch, seed)
        return
    use_noun(load(place / name), seed)


@cache
def samples_episodes() -> Episodes:
    """The episodes that the batch must go with."""
    return simulate(uniform(world()), world(), 20)


def use_noun(noun: Any, seed: int) -> None:
    """Count, play, evaluate: whatever this noun is for."""
    if isinstance(noun, RewardMixingMDP):
        use_model(noun, seed)
    elif isinstance(noun, Episodes):
        use_episodes(noun)
    elif isinstance(noun, Moments):
        use_moments(noun)
    elif isinstance(noun, MarkovPolicy | Controller):
        evaluate(noun, world())
        use_episodes(simulate(noun, world(), 5, seed))
    elif isinstance(noun, AlphaVectors):
        contexts = noun.values[0].shape[2]
        for t, values in enumerate(noun.values):
            noun(t, values.shape[0] - 1, np.full(contexts, 1 / contexts))
    elif isinstance(noun, BeliefPolicy):
        play_by_hand(noun, seed)
    elif isinstance(noun, Agent):
        use_agent(noun, seed)
    elif isinstance(noun, Plan):
        evaluate(noun.policy, noun.model)
        use_episodes(simulate(noun.policy, noun.model, 5, seed))
        play_by_hand(noun.belief_policy, seed)


def use_agent(agent: Agent, seed: int) -> None:
    """Go on with it, as long as its episodes are short, and keep it."""
    if agent.horizon <= LONGEST:
        for name in list(agent._open):
            agent.visit(name).end()
        grown(agent, 6, seed)
    with tempfile.TemporaryDirectory() as name:
        save(Path(name) / "agent", agent)
        load(Path(name) / "agent")


def use_model(model: RewardMixingMDP, seed: int) -> None:
    """Play a uniform policy."""
    if model.horizon <= LONGEST:
        policy = uniform(model)
        assert np.isfinite(evaluate(policy, model).value), "a value that is no number"
        use_episodes(simulate(policy, model, 5, seed))


def use_episodes(episodes: Episodes) -> None:
    """Count them."""
    moments = Moments.of(episodes)
    assert moments.episodes == len(episodes), "other episodes than there were"
    assert np.isfinite(episodes.returns).all(), "returns that are no numbers"
    bags_of(episodes)
    use_moments(moments)


def use_moments(moments: Moments) -> None:
    """Add and estimate."""
    assert (moments + moments).episodes == 2 * moments.episodes, "a sum that is none"
    moments.transition_estimate()
    sizes = moments.num_states, moments.num_actions, moments.horizon
    if moments.num_state_actions <= 1000:
        moments.pair_counts()
        tally = Tally.fresh(sizes, moments.reward_values, bool(moments.selected_keys.size))
        tally.add(moments)
        assert tally.moments() == moments, "other counts in a tally"


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
    from fuzz.batches import main

    main(__file__, attempt)
