"""The files of a run belong together: all are written or none, and those of two runs are not taken for one."""

import dataclasses
import errno
import json
import os
import shutil

import pytest

import rewardmix as rm
from rewardmix._core import storage
from rewardmix.cli.app import exit_message
from rewardmix.report import load_run_summary
from rewardmix.report.run_folder import FILES

RUNS = ("model.safetensors", "policy.safetensors", "result.json", "report.html")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of ``learn`` with other seeds, and a plan, which counted nothing."""
    folder = tmp_path_factory.mktemp("runs")
    shop = rm.problems.make_model("shop")
    nouns = {seed: rm.learn(shop, num_episodes=60, num_resamples=0, seed=seed) for seed in (1, 2)}
    for seed, value in nouns.items():
        value.save(folder / str(seed))
    return folder, nouns, rm.plan(rm.problems.make_model("hard"))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", ["model.safetensors", "policy.safetensors", "moments.safetensors"])
def test_a_file_of_another_run_is_refused_by_name(runs, tmp_path, name):
    mixed = shutil.copytree(runs[0] / "1", tmp_path / "mixed")
    shutil.copy(runs[0] / "2" / name, mixed)
    for load in (rm.load, load_run_summary):
        with pytest.raises(rm.InputError, match=rf"DIR: got '.*{name}' of another run than result.json"):
            load(mixed)
    (mixed / name).unlink()
    with pytest.raises(rm.InputError, match=rf"DIR: got '.*{name}' missing, though result.json lists it"):
        rm.load(mixed)


@pytest.mark.parametrize("name", ["model.safetensors", "policy.safetensors"])
def test_commands_that_take_one_file_of_a_run_refuse_one_of_another(runs, tmp_path, name, capsys):
    from rewardmix.cli import main

    mixed = shutil.copytree(runs[0] / "1", tmp_path / "mixed")
    shutil.copy(runs[0] / "2" / name, mixed)
    log = tmp_path / "log.parquet"
    rm.logs.write_log(log, rm.simulate(rm.uniform_policy(rm.problems.make_model("shop")), "shop", 20))
    commands = {
        "model.safetensors": (
            ["infer-types", str(mixed), str(log), "--out", str(tmp_path / "out.csv")],
            ["compare-runs", str(mixed), str(runs[0] / "2")],
        ),
        "policy.safetensors": (["serve", str(mixed), "--port", "0", "--store", str(tmp_path / "store")],),
    }
    for command in commands[name]:
        with pytest.raises(SystemExit) as done:
            main(command)
        text = capsys.readouterr().err
        assert (done.value.code, "expected the files of one run" in text) == (2, True), (command, text)


def test_runs_without_digests_are_taken_if_plan_and_model_are_one(runs, tmp_path):
    """Those of earlier versions."""
    old = shutil.copytree(runs[0] / "1", tmp_path / "old")
    result = json.loads((old / "result.json").read_text())
    assert sorted(result.pop("files")) == ["model.safetensors", "moments.safetensors", "policy.safetensors"]
    (old / "result.json").write_text(json.dumps(result))
    assert rm.load(old).summary() == runs[1][1].summary()
    shutil.copy(runs[0] / "2" / "model.safetensors", old)
    with pytest.raises(rm.InputError, match="DIR: got '.*' with a plan for another model"):
        rm.load(old)
    names = dataclasses.replace(runs[1][1].recovery.model, state_names=())
    rm.save(old / "model.safetensors", names)
    assert rm.load(old).model.state_names == ()


def test_a_run_over_another_leaves_none_of_its_files(runs, tmp_path):
    folder = shutil.copytree(runs[0] / "1", tmp_path / "run")
    (folder / "mine.txt").write_text("mine")
    runs[2].save(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*RUNS, "mine.txt"])
    assert rm.load(folder).moments is None


@pytest.mark.parametrize("number", range(len(FILES)))
def test_a_full_disk_leaves_the_run_that_was_there(runs, tmp_path, monkeypatch, number):
    folder = shutil.copytree(runs[0] / "1", tmp_path / "run")
    before, written, sync = content(folder), [], os.fsync

    def full(handle):
        written.append(handle)
        if len(written) == number + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        runs[1][2].save(folder)
    assert exit_message(caught.value) == (f"No space left on device: {str(folder / FILES[number])!r}", 1)
    assert content(folder) == before
    assert len(list(folder.iterdir())) == len(before)
    monkeypatch.undo()
    assert rm.load(folder).summary() == runs[1][1].summary()


def test_what_ends_while_files_change_places_is_noticed(runs, tmp_path, monkeypatch):
    """However many took their place: the old run, the new one, or refused."""
    shown = {noun.summary() for noun in runs[1].values()}
    ways = set()
    for number in range(len(FILES) + 1):
        folder = shutil.copytree(runs[0] / "1", tmp_path / str(number))
        moved, replace = [], os.replace

        def killed(source, target, folder=folder, moved=moved, number=number, replace=replace):
            if os.path.dirname(target) == str(folder):
                moved.append(target)
                if len(moved) > number:
                    raise KeyboardInterrupt
            replace(source, target)

        monkeypatch.setattr(os, "replace", killed)
        try:
            runs[1][2].save(folder)
        except KeyboardInterrupt:
            ways.add("ended")
        monkeypatch.undo()
        try:
            assert rm.load(folder).summary() in shown
            ways.add("whole")
        except rm.InputError:
            ways.add("refused")
    assert ways == {"ended", "whole", "refused"}
