import dataclasses
import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from rewardmix import Episodes, InputError, explore, load, problems, recover, save, simulate, uniform
from rewardmix._core import storage
from rewardmix.io import FORMS
from rewardmix.learning.refinement import refine
from rewardmix.model import dense_transition
from strategies import models, random_controller


@given(models(contexts=(2, 3), values=(2, 3)))
def test_models_come_back_as_they_were(tmp_path_factory, model):
    path = tmp_path_factory.getbasetemp() / "model.safetensors"
    save(path, model)
    again = load(path)
    assert again.is_sparse == model.is_sparse
    for name in ("initial", "weights", "rewards", "reward_values", "horizon", "state_names"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(dense_transition(again), dense_transition(model))


def test_policies_and_episodes_come_back(tmp_path):
    model = problems.make("shop")
    path = tmp_path / "thing.safetensors"
    save(path, uniform(model))
    np.testing.assert_array_equal(load(path).table, uniform(model).table)
    controller = random_controller(model, np.random.default_rng(0))
    save(path, controller)
    again = load(path)
    for mine, yours in zip(controller.actions + controller.successors, again.actions + again.successors, strict=True):
        np.testing.assert_array_equal(mine, yours)
    episodes = simulate(uniform(model), model, 50)
    save(path, episodes)
    assert isinstance(load(path), Episodes)
    np.testing.assert_array_equal(load(path).outcomes, episodes.outcomes)
    save(path, model)
    assert load(path).state_names == model.state_names


def test_what_cannot_be_stored_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="noun: found dict, expected one of RewardMixingMDP, MarkovPolicy"):
        save(tmp_path / "x.safetensors", {})
    with pytest.raises(InputError, match="path: found no folder"):
        save(tmp_path / "no" / "x.safetensors", problems.make("hard"))
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save(path, problems.make("hard"))
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save(path, problems.make("shop"))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_broken_foreign_and_newer_files_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(InputError, match="path: found no file at"):
        load(path)
    save(path, problems.make("shop"))
    whole = path.read_bytes()
    for cut in (0, 4, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="unreadable as safetensors .* expected a whole file written by rewardmix"):
            load(path)
    path.write_bytes(b"PK\x03\x04 this is a zip file, or says so" * 20)
    with pytest.raises(InputError, match="unreadable as safetensors"):
        load(path)
    path.write_bytes(with_header(whole, {"other": "thing"}))
    with pytest.raises(InputError, match="safetensors file of something else"):
        load(path)
    path.write_bytes(ours(whole, kind="model", schema=storage.SCHEMA + 1, version="99.0", meta={}))
    with pytest.raises(InputError, match=r"with schema 3 \(written by rewardmix 99.0\), expected schema 2 or older"):
        load(path)
    path.write_bytes(ours(whole, kind="teapot", schema=1, version="0", meta={}))
    with pytest.raises(InputError, match=f"holding a 'teapot', expected one of {', '.join(FORMS)}"):
        load(path)
    path.write_bytes(ours(whole, kind="model", schema=1, version="0", meta={}))
    with pytest.raises(InputError, match="without 'horizon', expected a whole model"):
        load(path)
    for text in ("{", "3", json.dumps({"kind": "model"})):
        path.write_bytes(with_header(whole, {storage.KEY: text}))
        with pytest.raises(InputError, match="without readable metadata"):
            load(path)


def test_the_same_thing_is_the_same_file(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / name, problems.make("shop"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def ours(whole: bytes, **header) -> bytes:
    return with_header(whole, {storage.KEY: json.dumps(header)})


def with_header(whole: bytes, metadata: dict[str, str]) -> bytes:
    """The same tensors under other metadata, written by hand."""
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + whole[8 + size :]


OLD = Path(__file__).parent / "schema1"
"""Files written before there were checksums."""


@pytest.mark.parametrize("path", sorted(OLD.glob("*.safetensors")), ids=lambda path: path.stem)
def test_files_of_the_first_schema_are_read(path, tmp_path):
    noun = load(path)
    save(tmp_path / "again", noun)
    kind, arrays, meta = storage.read_arrays(tmp_path / "again")
    assert (kind, meta) == (storage.read_arrays(path)[0], storage.read_arrays(path)[2])
    for name, array in storage.read_arrays(path)[1].items():
        np.testing.assert_array_equal(arrays[name], array)


def test_every_kind_has_a_file_of_the_first_schema():
    assert {storage.read_arrays(path)[0] for path in OLD.glob("*.safetensors")} == set(FORMS) - {
        "agent"
    }  # agents are younger


def test_checkpoints_of_the_first_schema_say_what_to_do(tmp_path):
    model = load(OLD / "model.safetensors")
    shutil.copytree(OLD, tmp_path / "old")
    with pytest.raises(
        InputError, match=r"checkpoint: found .*cannot be gone on with .*schema 1 .*delete .*exploration to begin anew"
    ):
        explore(model, episodes=30, checkpoint=tmp_path / "old" / "exploration", seed=1, growth=4.0)
    episodes = load(OLD / "episodes.safetensors")
    with pytest.raises(
        InputError,
        match=r"checkpoint: found .*cannot be gone on with .*schema 1 .*delete .*refinement to play it again",
    ):
        refine(
            model, episodes, recover(episodes), episodes=4, batches=2, seed=5, checkpoint=tmp_path / "old/refinement"
        )


def test_the_library_reads_the_same_arrays(tmp_path):
    """The format is the common one, not ours."""
    from safetensors.numpy import load_file

    save(tmp_path / "file", load(OLD / "sparse-model.safetensors"))
    _, arrays, _ = storage.read_arrays(tmp_path / "file")
    theirs = load_file(tmp_path / "file")
    assert theirs.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(theirs[name], array)
        assert theirs[name].dtype == array.dtype
        assert not array.flags.writeable


def test_a_flipped_bit_anywhere_is_found(tmp_path):
    path = tmp_path / "model"
    save(path, load(OLD / "model.safetensors"))
    whole = path.read_bytes()
    before = storage.read_arrays(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            found = storage.read_arrays(path)
        except InputError:
            continue
        assert (found[0], found[2]) == (before[0], before[2]), place  # a blank in the header
        for name, array in before[1].items():
            np.testing.assert_array_equal(found[1][name], array)


def test_a_plan_must_have_the_lower_end_that_its_policy_earns(tmp_path):
    path = tmp_path / "plan"
    plan = load(OLD / "plan.safetensors")
    for lower in (plan.lower - 1e-3, plan.lower + 1e-3):
        forged = dataclasses.replace(plan, lower=lower, upper=plan.upper + 1)
        save(path, forged)  # with a checksum that is right
        with pytest.raises(
            InputError, match=r"expected a plan \(lower: found .*, the value of the policy in the model"
        ):
            load(path)
    save(path, dataclasses.replace(plan, upper=plan.upper + 1))
    assert load(path).upper == plan.upper + 1  # as claimed by the file


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": 3}, "without readable metadata"),
        ({"kind": ["model"]}, "without readable metadata"),
        ({"schema": "1"}, "without readable metadata"),
        ({"schema": True}, "without readable metadata"),
        ({"schema": 0}, "with schema 0"),
        ({"schema": 2}, "does not match its checksum"),
        ({"version": None}, "without readable metadata"),
        ({"meta": []}, "without readable metadata"),
        (
            {"meta": {"horizon": 10**400, "state_names": [], "action_names": []}},
            "horizon: found .*expected a whole number",
        ),
        ({"meta": {"horizon": 3.0, "state_names": [], "action_names": []}}, "horizon: found float in the metadata"),
        ({"meta": {"horizon": 3, "state_names": "ab", "action_names": []}}, "state_names: found str in the metadata"),
        (
            {"meta": {"horizon": 3, "state_names": [1, 2], "action_names": []}},
            "state_names: found something that is no",
        ),
        (
            {"meta": {"horizon": 3, "state_names": [], "action_names": [], "teapot": 1}},
            "with 'teapot', expected a model",
        ),
    ],
)
def test_odd_headers_are_refused(tmp_path, changes, message):
    path = tmp_path / "model"
    whole = (OLD / "model.safetensors").read_bytes()
    header = {"kind": "model", "schema": 1, "version": "0.1.0", "meta": {}}
    path.write_bytes(ours(whole, **{**header, **changes}))
    with pytest.raises(InputError, match=message):
        load(path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"kind": NaN}', '{"kind": "a", "kind": "b"}', "9" * 5000, '"\\ud800"']
)
def test_text_that_is_no_header_is_refused(tmp_path, text):
    path = tmp_path / "model"
    path.write_bytes(with_header((OLD / "model.safetensors").read_bytes(), {storage.KEY: text}))
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
def test_arrays_that_do_not_lie_where_the_header_says_are_refused(tmp_path, change):
    path = tmp_path / "model"
    whole = (OLD / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    header["rewards"] = {**header["rewards"], **change}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + size :])
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
