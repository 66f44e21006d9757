"""Stopping and going on: interrupts, checkpoints after kill -9, continued explorations, kept episodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from rewardmix import problems
from rewardmix._core.checks import InputError
from rewardmix.environments import RewardMixingEnv
from rewardmix.exploration import all_pairs, batched, compiled, environment_engine, explore, paper, practical, selected
from rewardmix.exploration import checkpoints as module
from rewardmix.exploration import compiled as engine_function
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.exploration_result import kept_every
from rewardmix.moments import Moments

MODEL = problems.make("random", states=4, actions=2, horizon=5, seed=8)


def same(one, two):
    assert one.moments == two.moments
    assert one.uncertainty == two.uncertainty
    assert one.stream.tolist() == two.stream.tolist()
    assert np.array_equal(one.info.curve, two.info.curve)
    assert (one.gathered is None) == (two.gathered is None)
    if one.gathered is not None:
        for name in ("states", "actions", "outcomes", "lengths"):
            assert np.array_equal(getattr(one.gathered, name), getattr(two.gathered, name))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("counts", [all_pairs, selected], ids=lambda c: c.name)
def test_interrupted_anywhere_and_resumed_is_as_if_never_interrupted(counts, keep, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    settings = {"episodes": 3000, "counts": counts, "keep": keep, "seed": 3}
    whole = explore(MODEL, **settings)
    calls = {"number": 0}

    def interrupt(update):
        calls["number"] += 1
        if calls["number"] == 60:
            raise KeyboardInterrupt

    part = explore(MODEL, **settings, on_update=interrupt, checkpoint=tmp_path)
    assert part.info.stopped == "interrupted"
    assert 0 < part.episodes < 3000
    same(whole, explore(MODEL, **settings, checkpoint=tmp_path))
    same(whole, explore(MODEL, **settings, checkpoint=tmp_path))  # a finished run can be asked for again


def test_batched_runs_resume_too(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    settings = {"counts": selected, "confidence": paper(), "engine": batched, "growth": 1.5}
    whole = explore(MODEL, episodes=10**9, **settings)
    explore(MODEL, episodes=10**6, **settings, checkpoint=tmp_path)
    same(whole, explore(MODEL, episodes=10**9, **settings, checkpoint=tmp_path))


KILLED = """
import sys
from rewardmix import problems
from rewardmix.exploration import checkpoints, explore
checkpoints.SECONDS = 0.0
model = problems.make("random", states=4, actions=2, horizon=5, seed=8)
print("ready", flush=True)
explore(model, episodes=3_000_000, keep=False, seed=3, checkpoint=sys.argv[1])
"""


def test_after_kill_9_the_result_is_the_same(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    child.stdout.readline()
    deadline = time.monotonic() + 600
    while not (tmp_path / module.STATE).exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.01)
    time.sleep(0.15)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert (tmp_path / module.STATE).exists()
    resumed = explore(MODEL, episodes=3_000_000, keep=False, seed=3, checkpoint=tmp_path)
    same(explore(MODEL, episodes=3_000_000, keep=False, seed=3), resumed)


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    explore(MODEL, episodes=50, checkpoint=tmp_path)
    with pytest.raises(InputError, match=r"checkpoint: found a run with seed = 0 in .*, expected seed = 1"):
        explore(MODEL, episodes=50, seed=1, checkpoint=tmp_path)
    other = problems.make("random", states=4, actions=2, horizon=5, seed=9)
    with pytest.raises(InputError, match=r"checkpoint: found a run with world"):
        explore(other, episodes=50, checkpoint=tmp_path)


@pytest.mark.parametrize("world", [MODEL, RewardMixingEnv(MODEL)], ids=["model", "environment"])
def test_an_exploration_can_go_on(world):
    first = explore(world, episodes=200)
    more = explore(world, episodes=500, after=first)
    assert more.episodes == 500
    assert more.moments == Moments.of(more.gathered)
    assert np.array_equal(more.gathered.states[:200], first.gathered.states)
    assert more.uncertainty < first.uncertainty
    assert explore(world, episodes=100, after=more).episodes == 500


def test_ctrl_c_returns_what_was_gathered():
    def stop(update):
        if update.episodes > 100:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells have it ignored
    try:
        found = explore(MODEL, episodes=10**7, on_update=stop)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found.info.stopped == "interrupted"
    assert found.episodes > 100
    assert found.moments == Moments.of(found.gathered)


def test_compiled_counts_are_those_of_its_episodes():
    found = explore(MODEL, episodes=5000, growth=1.3, confidence=practical, engine=compiled)
    assert found.moments == Moments.of(found.gathered)
    assert engine_function is compiled


def assert_every(found, whole, every):
    """Every so-manieth episode was kept, and everything was counted."""
    assert len(found.gathered) == -(-5000 // every)
    for name in ("states", "actions", "outcomes", "lengths"):
        np.testing.assert_array_equal(getattr(found.gathered, name), getattr(whole.gathered, name)[::every])
    assert found.moments == whole.moments


def test_every_other_episode_is_dropped_where_they_would_fill_the_memory(monkeypatch, tmp_path):
    whole = explore(MODEL, episodes=5000)
    continued = explore(MODEL, episodes=5000, after=explore(MODEL, episodes=3000))
    size = sum(getattr(whole.gathered, name).nbytes for name in ("states", "actions", "outcomes")) // 5000
    monkeypatch.setattr(sys.modules[CompiledEngine.__module__], "KEPT_BYTES", 1500 * size)
    assert_every(explore(MODEL, episodes=5000), whole, 4)
    monkeypatch.setattr(module, "SECONDS", 0.0)
    folder = tmp_path / "checkpoint"
    explore(MODEL, episodes=1800, checkpoint=folder)
    assert all(path.stem.endswith("-every-2") for path in folder.glob("episodes-*"))
    assert (folder / "episodes-000000000000-every-2.safetensors").is_file()
    assert_every(explore(MODEL, episodes=5000, checkpoint=folder), whole, 4)
    assert_every(explore(MODEL, episodes=5000, after=explore(MODEL, episodes=3000)), continued, 4)


def test_every_other_episode_of_an_environment_is_dropped_too(monkeypatch):
    def explored():
        return explore(RewardMixingEnv(MODEL), episodes=5000, seed=3)

    whole = explored()
    monkeypatch.setattr(environment_engine, "KEPT_BYTES", 2000 * (7 * MODEL.horizon + 8))
    assert_every(explored(), whole, 4)


def test_kept_every():
    assert [kept_every(1000, kept) for kept in (1000, 500, 250, 125)] == [1, 2, 4, 8]
    assert kept_every(1001, 501) == 2
    assert kept_every(0, 0) == 1


def test_updates_are_told():
    told = []
    explore(MODEL, episodes=100, on_update=told.append)
    assert told[0].episodes == 0
    assert told[-1].episodes == 100
    assert told[-1].budget == 100
    assert 0 < told[-1].uncertainty <= 1


def test_large_worlds_need_memory_for_what_is_seen_only():
    """S*A = 5000: the 25 million pairs have no dense table."""
    model = problems.make("random", states=1000, actions=5, horizon=6, successors=3)
    found = explore(model, episodes=300, keep=False)
    assert found.moments.episodes == 300
    assert found.moments.pair_keys.size <= 300 * 21
    assert sum(getattr(found.moments, name).nbytes for name in ("pair_keys", "pair_tables")) < 1e6
