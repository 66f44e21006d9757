import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given

from rewardmix import Episodes, InputError, load, problems, save, simulate, stored, uniform
from rewardmix.io import FORMS
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
    path.write_bytes(ours(whole, kind="model", schema=stored.SCHEMA + 1, version="99.0", meta={}))
    with pytest.raises(InputError, match=r"with schema 2 \(written by rewardmix 99.0\), expected schema 1 or older"):
        load(path)
    path.write_bytes(ours(whole, kind="teapot", schema=1, version="0", meta={}))
    with pytest.raises(InputError, match=f"holding a 'teapot', expected one of {', '.join(FORMS)}"):
        load(path)
    path.write_bytes(ours(whole, kind="model", schema=1, version="0", meta={}))
    with pytest.raises(InputError, match="without 'horizon', expected a whole model"):
        load(path)
    for text in ("{", "3", json.dumps({"kind": "model"})):
        path.write_bytes(with_header(whole, {stored.KEY: text}))
        with pytest.raises(InputError, match="without readable metadata"):
            load(path)


def test_the_same_thing_is_the_same_file(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / name, problems.make("shop"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def ours(whole: bytes, **header) -> bytes:
    return with_header(whole, {stored.KEY: json.dumps(header)})


def with_header(whole: bytes, metadata: dict[str, str]) -> bytes:
    """The same tensors under other metadata, written by hand."""
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + whole[8 + size :]
