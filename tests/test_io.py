import dataclasses
import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array

from helpers.strategies import models, random_controller
from rewardmix import (
    Episodes,
    InputError,
    Moments,
    PosteriorSamplingAgent,
    explore,
    load,
    plan,
    problems,
    recover,
    save,
    simulate,
    uniform_policy,
)
from rewardmix._core import storage
from rewardmix.exploration import selected_pairs
from rewardmix.io import FILE_FORMATS
from rewardmix.learning.refinement import refine
from rewardmix.model import dense_transition


@given(models(num_types=(2, 3), values=(2, 3)))
def test_models_come_back_as_they_were(tmp_path_factory, model):
    path = tmp_path_factory.getbasetemp() / "model.safetensors"
    save(path, model)
    again = load(path)
    assert again.is_sparse == model.is_sparse
    for name in ("initial", "weights", "rewards", "reward_values", "horizon", "state_names"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(dense_transition(again), dense_transition(model))


def test_policies_and_episodes_come_back(tmp_path):
    model = problems.make_model("shop")
    path = tmp_path / "thing.safetensors"
    save(path, uniform_policy(model))
    np.testing.assert_array_equal(load(path).table, uniform_policy(model).table)
    controller = random_controller(model, np.random.default_rng(0))
    save(path, controller)
    again = load(path)
    for before, after in zip(controller.actions + controller.next_nodes, again.actions + again.next_nodes, strict=True):
        np.testing.assert_array_equal(before, after)
    episodes = simulate(uniform_policy(model), model, 50)
    save(path, episodes)
    assert isinstance(load(path), Episodes)
    np.testing.assert_array_equal(load(path).reward_indices, episodes.reward_indices)
    save(path, model)
    assert load(path).state_names == model.state_names


def test_what_cannot_be_stored_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="result: got dict, expected one of RewardMixingMDP, MarkovPolicy"):
        save(tmp_path / "x.safetensors", {})
    with pytest.raises(InputError, match="path: got no folder"):
        save(tmp_path / "no" / "x.safetensors", problems.make_model("hard"))
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save(path, problems.make_model("hard"))
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save(path, problems.make_model("shop"))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_broken_foreign_and_newer_files_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(InputError, match="path: got no file at"):
        load(path)
    save(path, problems.make_model("shop"))
    complete = path.read_bytes()
    for cut in (0, 4, 40, len(complete) // 2, len(complete) - 1):
        path.write_bytes(complete[:cut])
        with pytest.raises(InputError, match="unreadable as safetensors .* expected a complete file written by"):
            load(path)
    path.write_bytes(b"PK\x03\x04 this is a zip file, or says so" * 20)
    with pytest.raises(InputError, match="unreadable as safetensors"):
        load(path)
    path.write_bytes(with_header(complete, {"other": "thing"}))
    with pytest.raises(InputError, match="safetensors file of another program"):
        load(path)
    path.write_bytes(ours(complete, kind="model", schema=storage.FILE_SCHEMA + 1, version="99.0", meta={}))
    with pytest.raises(InputError, match=r"with schema 4 \(written by rewardmix 99.0\), expected schema 3; read it"):
        load(path)
    path.write_bytes(ours(complete, kind="teapot", schema=storage.FILE_SCHEMA, version="0", meta={}))
    with pytest.raises(InputError, match=f"with an object of kind 'teapot', expected one of {', '.join(FILE_FORMATS)}"):
        load(path)
    path.write_bytes(with_checksum(complete, kind="model", schema=storage.FILE_SCHEMA, version="0", meta={}))
    with pytest.raises(InputError, match="without 'horizon', expected a complete file of kind model"):
        load(path)
    for text in ("{", "3", json.dumps({"kind": "model"})):
        path.write_bytes(with_header(complete, {storage.METADATA_KEY: text}))
        with pytest.raises(InputError, match="without readable metadata"):
            load(path)


def test_the_same_thing_is_the_same_file(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / name, problems.make_model("shop"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def ours(complete: bytes, **header) -> bytes:
    return with_header(complete, {storage.METADATA_KEY: json.dumps(header)})


def with_header(complete: bytes, metadata: dict[str, str]) -> bytes:
    """The same tensors under other metadata, written by hand."""
    (size,) = struct.unpack("<Q", complete[:8])
    header = json.loads(complete[8 : 8 + size])
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + complete[8 + size :]


def with_checksum(complete: bytes, **header) -> bytes:
    """The same tensors under another header, whose checksum is right."""
    (size,) = struct.unpack("<Q", complete[:8])
    layout = json.loads(complete[8 : 8 + size])
    arrays = {
        name: np.frombuffer(
            complete[8 + size :][slice(*entry["data_offsets"])], storage.DTYPES[entry["dtype"]]
        ).reshape(entry["shape"])
        for name, entry in layout.items()
        if name != "__metadata__"
    }
    return ours(complete, **header, checksum=storage.checksum(header, arrays))


OLD = Path(__file__).parent / "schema1"
"""Files of the first schema: a model, and the checkpoints of an exploration and of a refinement."""

SMALL = problems.make_model("random", states=2, actions=2, horizon=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> bytes:
    """The file of a small model."""
    path = tmp_path_factory.mktemp("small") / "model"
    save(path, SMALL)
    return path.read_bytes()


def objects():
    """An object of each type that has a file format, and variants whose files differ."""
    played = simulate(uniform_policy(SMALL), SMALL, 20)
    planned = plan(SMALL, gap=1e-2)
    rows = csr_array(np.asarray(SMALL.transition).reshape(-1, SMALL.num_states))
    early = Episodes.from_arrays(
        played.states, played.actions, played.rewards, num_states=2, num_actions=2, lengths=np.arange(20) % 2 + 2
    )
    yield from (SMALL, dataclasses.replace(SMALL, transition=rows), problems.make_model("shop"), played, early)
    yield from (uniform_policy(SMALL), planned, planned.policy, planned.alpha_vectors, planned.belief_policy)
    yield from (Moments.from_episodes(played), explore(SMALL, num_episodes=30, counting=selected_pairs).moments)
    yield PosteriorSamplingAgent(num_states=2, num_actions=2, horizon=3)


def test_every_type_is_written_and_read(tmp_path):
    stored = set()
    for value in objects():
        save(tmp_path / "first", value)
        save(tmp_path / "again", load(tmp_path / "first"))
        assert (tmp_path / "first").read_bytes() == (tmp_path / "again").read_bytes()
        stored.add(storage.read_arrays(tmp_path / "first")[0])
    assert stored == set(FILE_FORMATS)


def test_files_of_an_older_schema_are_refused_with_what_to_do():
    with pytest.raises(
        InputError, match=r"with schema 1 \(written by .*\), expected schema 3; write the file again with this version"
    ):
        load(OLD / "model.safetensors")


def test_checkpoints_of_the_first_schema_say_what_to_do(tmp_path):
    shutil.copytree(OLD, tmp_path / "old")
    with pytest.raises(
        InputError, match=r"checkpoint: cannot resume from .*exploration .*schema 1 .*; delete the folder to start over"
    ):
        explore(SMALL, num_episodes=30, checkpoint_dir=tmp_path / "old" / "exploration", seed=1, replan_growth=4.0)
    episodes = simulate(uniform_policy(SMALL), SMALL, 20)
    with pytest.raises(
        InputError, match=r"checkpoint: cannot resume from .*schema 1 .*; delete the folder to play it again"
    ):
        refine(
            SMALL,
            episodes,
            recover(episodes),
            num_episodes=4,
            batches=2,
            seed=5,
            checkpoint_dir=tmp_path / "old/refinement",
        )


def test_the_library_reads_the_same_arrays(tmp_path):
    """The format is the common one, not ours."""
    from safetensors.numpy import load_file

    rows = csr_array(np.asarray(SMALL.transition).reshape(-1, SMALL.num_states))
    save(tmp_path / "file", dataclasses.replace(SMALL, transition=rows))
    _, arrays, _ = storage.read_arrays(tmp_path / "file")
    theirs = load_file(tmp_path / "file")
    assert theirs.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name], array)
        assert theirs[name].dtype == array.dtype
        assert not array.flags.writeable


def test_a_flipped_bit_anywhere_is_found(tmp_path, small):
    path = tmp_path / "model"
    path.write_bytes(small)
    complete = small
    before = storage.read_arrays(path)
    for place in range(len(complete)):
        path.write_bytes(complete[:place] + bytes([complete[place] ^ 1 << place % 8]) + complete[place + 1 :])
        try:
            result = storage.read_arrays(path)
        except InputError:
            continue
        assert (result[0], result[2]) == (before[0], before[2]), place  # a blank in the header
        for name, array in before[1].items():
            np.testing.assert_array_equal(result[1][name], array)


def test_a_plan_must_have_the_lower_end_that_its_policy_earns(tmp_path):
    path = tmp_path / "plan"
    planned = plan(SMALL, gap=1e-2)
    for lower in (planned.lower - 1e-3, planned.lower + 1e-3):
        forged = dataclasses.replace(planned, lower=lower, upper=planned.upper + 1)
        save(path, forged)  # with a checksum that is right
        with pytest.raises(InputError, match=r"invalid content \(lower: got .*, the value of the policy in the model"):
            load(path)
    save(path, dataclasses.replace(planned, upper=planned.upper + 1))
    assert load(path).upper == planned.upper + 1  # as claimed by the file


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": 3}, "without readable metadata"),
        ({"kind": ["model"]}, "without readable metadata"),
        ({"schema": "1"}, "without readable metadata"),
        ({"schema": True}, "without readable metadata"),
        ({"schema": 0}, "with schema 0"),
        ({"checksum": "crc32:00000000"}, "does not match its checksum"),
        ({"checksum": None}, "does not match its checksum"),
        ({"version": None}, "without readable metadata"),
        ({"meta": []}, "without readable metadata"),
        (
            {"meta": {"horizon": 10**400, "state_names": [], "action_names": []}},
            "horizon: got .*expected a whole number",
        ),
        ({"meta": {"horizon": 3.0, "state_names": [], "action_names": []}}, "horizon: got float in the metadata"),
        ({"meta": {"horizon": 3, "state_names": "ab", "action_names": []}}, "state_names: got str in the metadata"),
        (
            {"meta": {"horizon": 3, "state_names": [1, 2], "action_names": []}},
            "state_names: got a value that is not a string",
        ),
        (
            {"meta": {"horizon": 3, "state_names": [], "action_names": [], "teapot": 1}},
            "with 'teapot', expected no other entries than those of a model",
        ),
    ],
)
def test_odd_headers_are_refused(tmp_path, small, changes, message):
    path = tmp_path / "model"
    header = {"kind": "model", "schema": storage.FILE_SCHEMA, "version": "0.1.0", "meta": {}}
    write = ours if "checksum" in changes else with_checksum
    path.write_bytes(write(small, **{**header, **changes}))
    with pytest.raises(InputError, match=message):
        load(path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"kind": NaN}', '{"kind": "a", "kind": "b"}', "9" * 5000, '"\\ud800"']
)
def test_text_that_is_no_header_is_refused(tmp_path, small, text):
    path = tmp_path / "model"
    path.write_bytes(with_header(small, {storage.METADATA_KEY: text}))
    with pytest.raises(InputError, match="without readable metadata"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "F16"},
        {"dtype": 3},
        {"shape": [2, -2, 2]},
        {"shape": [1 << 62, 1 << 62, 2]},
        {"shape": 8},
        {"shape": [0, 1 << 47, 1 << 47]},
        {"data_offsets": [0, 1 << 40]},
        {"data_offsets": [8, 72]},
        {"data_offsets": [64, 0]},
        {"data_offsets": [0]},
        {"dtype": "I8"},
        {"extra": 1},
    ],
    ids=str,
)
def test_arrays_that_do_not_lie_where_the_header_says_are_refused(tmp_path, small, change):
    path = tmp_path / "model"
    (size,) = struct.unpack("<Q", small[:8])
    header = json.loads(small[8 : 8 + size])
    header["rewards"] = {**header["rewards"], **change}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + small[8 + size :])
    with pytest.raises(InputError, match="unreadable as safetensors"):
        load(path)


def test_the_checksum_of_large_arrays_finds_flips_swaps_and_shifts():
    words = np.random.default_rng(0).integers(0, 1 << 60, 300_000)
    expected = storage.checksum_of({"a": words})
    assert storage.checksum_of({"a": words.copy()}) == expected
    for place in (0, 1023, 1024, 131_071, 131_072, 299_007, 299_008, 299_999):
        other = words.copy()
        other[place] ^= 1 << 17
        assert storage.checksum_of({"a": other}) != expected
        other = words.copy()
        other[[place, place - 1024]] = other[[place - 1024, place]]
        assert storage.checksum_of({"a": other}) != expected
        other[[place, place - 1]] = other[[place - 1, place]]
        assert storage.checksum_of({"a": other}) != expected
    assert storage.checksum_of({"a": np.roll(words, 1024)}) != expected
    assert storage.checksum_of({"a": words[:-1]}) != expected
    odd = np.frombuffer(b"x" + words.tobytes(), np.uint8)[1:]  # bytes that lie askew
    assert storage.checksum_of({"a": odd}) == storage.checksum_of({"a": words.view(np.uint8)})
