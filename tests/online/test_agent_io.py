"""Files of agents whose parts are of another kind, under a checksum that is right: refused in words, each of them."""

import copy

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import InputError, load, save
from rewardmix._core import storage


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """(arrays, metadata) of an agent with a memory and an open visit."""
    agent = rm.PosteriorSamplingAgent(num_states=2, num_actions=2, horizon=3, window=64)
    rng = np.random.default_rng(0)
    for _ in range(40):
        visit = agent.start_episode(int(rng.integers(2)))
        while visit.action is not None:
            visit.observe(float(rng.integers(2)), int(rng.integers(2)))
    agent.start_episode(0, id="me").observe(1.0, 1)
    path = tmp_path_factory.mktemp("agent") / "agent"
    save(path, agent)
    _, arrays, meta = storage.read_arrays(path)
    return arrays, meta


def edited(stored, tmp_path, path, value):
    """The file with another value in a place of its metadata."""
    arrays, meta = stored
    meta = copy.deepcopy(meta)
    inner = meta
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    storage.write_arrays(tmp_path / "agent", "agent", arrays, meta)
    return tmp_path / "agent"


ODD = [0, -1, 0.5, 10**400, "x", "", None, True, [], [1], [[]], {}, {"num_policies": 1}, {"uncertainty": "x"}]


def places_of(meta, before=()):
    """Every place of the metadata."""
    keys = meta if isinstance(meta, dict) else range(len(meta)) if isinstance(meta, list) else ()
    for key in keys:
        yield (*before, key)
        yield from places_of(meta[key], (*before, key))


@pytest.mark.system
def test_metadata_of_another_kind_is_refused_in_words(stored, tmp_path):
    paths = [path for path in places_of(stored[1]) if path[0] != "policies" or path[1:] in ((), (0,), (0, "horizon"))]
    assert {path[0] for path in paths} == set(stored[1])
    refused = 0
    for path in paths:
        for value in ODD:
            try:
                load(edited(stored, tmp_path, path, value))
            except InputError:
                refused += 1
    assert refused > 0.8 * len(paths) * len(ODD)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("decisions",),
            [0],
            "num_policies: got int instead of a table in the metadata, expected a table with this key",
        ),
        (("decisions", 0, "uncertainty"), "x", "uncertainty: got 'x' in the metadata, expected a finite number"),
        (("decisions", 0, "uncertainty"), 10**400, "uncertainty: got 10+ .* expected a finite number"),
        (("last_restart",), [], r"last_restart: got \[\] in the metadata, expected a finite number"),
        (("num_types",), 2**31 - 1, "num_types: got a need of .* GiB .*fewer types"),
    ],
)
def test_what_is_of_another_kind_is_named(stored, tmp_path, path, value, message):
    with pytest.raises(InputError, match=message):
        load(edited(stored, tmp_path, path, value))


@pytest.mark.parametrize("dtype", ["i1", "<i2", "<i4", "<i8", "<u8", "<f8"])
def test_arrays_of_another_type_are_refused_by_name(stored, tmp_path, dtype):
    arrays, meta = stored
    names = [name for name in arrays if not name.startswith("policy.") and "/counts/" not in name]
    floats = {name for name in names if arrays[name].dtype == np.float64}
    for name in names:
        if name in floats or arrays[name].dtype == np.dtype(dtype):
            continue
        other = arrays | {name: arrays[name].astype(dtype)}
        storage.write_arrays(tmp_path / "agent", "agent", other, meta)
        with pytest.raises(InputError, match=f"{name.split('/')[-1]}: got "):
            load(tmp_path / "agent")
