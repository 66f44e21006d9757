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
    agent = rm.Agent(num_states=2, num_actions=2, horizon=3, memory=64)
    rng = np.random.default_rng(0)
    for _ in range(40):
        visit = agent.begin(int(rng.integers(2)))
        while visit.action is not None:
            visit.observe(float(rng.integers(2)), int(rng.integers(2)))
    agent.begin(0, id="me").observe(1.0, 1)
    path = tmp_path_factory.mktemp("agent") / "agent"
    save(path, agent)
    _, arrays, meta = storage.read_arrays(path)
    return arrays, meta


def edited(stored, tmp_path, place, value):
    """The file with another value in a place of its metadata."""
    arrays, meta = stored
    meta = copy.deepcopy(meta)
    inner = meta
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    storage.write_arrays(tmp_path / "agent", "agent", arrays, meta)
    return tmp_path / "agent"


ODD = [0, -1, 0.5, 10**400, "x", "", None, True, [], [1], [[]], {}, {"policies": 1}, {"uncertainty": "x"}]


def places_of(meta, before=()):
    """Every place of the metadata."""
    keys = meta if isinstance(meta, dict) else range(len(meta)) if isinstance(meta, list) else ()
    for key in keys:
        yield (*before, key)
        yield from places_of(meta[key], (*before, key))


def test_metadata_of_another_kind_is_refused_in_words(stored, tmp_path):
    places = [
        place for place in places_of(stored[1]) if place[0] != "policies" or place[1:] in ((), (0,), (0, "horizon"))
    ]
    assert {place[0] for place in places} == set(stored[1])
    refused = 0
    for place in places:
        for value in ODD:
            try:
                load(edited(stored, tmp_path, place, value))
            except InputError:
                refused += 1
    assert refused > 0.8 * len(places) * len(ODD)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("decisions",), [0], "policies: found int around it in the metadata, expected an object"),
        (("decisions", 0, "uncertainty"), "x", "uncertainty: found 'x' in the metadata, expected a finite number"),
        (("decisions", 0, "uncertainty"), 10**400, "uncertainty: found 10+ .* expected a finite number"),
        (("seeded",), [], r"seeded: found \[\] in the metadata, expected a finite number"),
        (("num_contexts",), 2**31 - 1, "num_contexts: found a need of .* GiB .*fewer contexts"),
    ],
)
def test_what_is_of_another_kind_is_named(stored, tmp_path, place, value, message):
    with pytest.raises(InputError, match=message):
        load(edited(stored, tmp_path, place, value))


@pytest.mark.parametrize("dtype", ["i1", "<i2", "<i4", "<i8", "<u8", "<f8"])
def test_arrays_of_another_type_are_refused_by_name(stored, tmp_path, dtype):
    arrays, meta = stored
    own = [name for name in arrays if not name.startswith("policy.") and "/seen/" not in name]
    floats = {name for name in own if arrays[name].dtype == np.float64}
    for name in own:
        if name in floats or arrays[name].dtype == np.dtype(dtype):
            continue
        other = arrays | {name: arrays[name].astype(dtype)}
        storage.write_arrays(tmp_path / "agent", "agent", other, meta)
        with pytest.raises(InputError, match=f"{name.split('/')[-1]}: found "):
            load(tmp_path / "agent")
