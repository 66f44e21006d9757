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
from rewardmix.exploration import (
    all_pairs,
    environment_engine,
    explore,
    make_batched_engine,
    make_compiled_engine,
    paper_bonus,
    practical_bonus,
    selected_pairs,
)
from rewardmix.exploration import checkpoints as module
from rewardmix.exploration import make_compiled_engine as engine_function
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.exploration_result import infer_keep_every
from rewardmix.moments import Moments

MODEL = problems.make_model("random", states=4, actions=2, horizon=5, seed=8)


def same(first, second):
    assert first.moments == second.moments
    assert first.uncertainty == second.uncertainty
    assert first.rng_state.tolist() == second.rng_state.tolist()
    assert np.array_equal(first.info.uncertainty_curve, second.info.uncertainty_curve)
    assert (first.episodes is None) == (second.episodes is None)
    if first.episodes is not None:
        for name in ("states", "actions", "reward_indices", "lengths"):
            assert np.array_equal(getattr(first.episodes, name), getattr(second.episodes, name))


@pytest.mark.system
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("counts", [all_pairs, selected_pairs], ids=lambda c: c.name)
def test_interrupted_anywhere_and_resumed_is_as_if_never_interrupted(counts, keep, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MIN_SECONDS_BETWEEN", 0.0)
    settings = {"num_episodes": 3000, "counting": counts, "keep_episodes": keep, "seed": 3}
    whole = explore(MODEL, **settings)
    calls = {"number": 0}

    def interrupt(update):
        calls["number"] += 1
        if calls["number"] == 60:
            raise KeyboardInterrupt

    partial = explore(MODEL, **settings, callback=interrupt, checkpoint_dir=tmp_path)
    assert partial.info.stop_reason == "interrupted"
    assert 0 < partial.num_episodes < 3000
    same(whole, explore(MODEL, **settings, checkpoint_dir=tmp_path))
    same(whole, explore(MODEL, **settings, checkpoint_dir=tmp_path))  # a finished run can be asked for again


def test_batched_runs_resume_too(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MIN_SECONDS_BETWEEN", 0.0)
    settings = {"counting": selected_pairs, "bonus": paper_bonus(), "engine": make_batched_engine, "replan_growth": 1.5}
    whole = explore(MODEL, num_episodes=10**9, **settings)
    explore(MODEL, num_episodes=10**6, **settings, checkpoint_dir=tmp_path)
    same(whole, explore(MODEL, num_episodes=10**9, **settings, checkpoint_dir=tmp_path))


KILLED = """
import sys
from rewardmix import problems
from rewardmix.exploration import checkpoints, explore
checkpoints.MIN_SECONDS_BETWEEN = 0.0
model = problems.make_model("random", states=4, actions=2, horizon=5, seed=8)
print("ready", flush=True)
explore(model, num_episodes=3_000_000, keep_episodes=False, seed=3, checkpoint_dir=sys.argv[1])
"""


@pytest.mark.system
def test_after_kill_9_the_result_is_the_same(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    child.stdout.readline()
    deadline = time.monotonic() + 600
    while not (tmp_path / module.STATE_FILE).exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.01)
    time.sleep(0.15)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert (tmp_path / module.STATE_FILE).exists()
    resumed = explore(MODEL, num_episodes=3_000_000, keep_episodes=False, seed=3, checkpoint_dir=tmp_path)
    same(explore(MODEL, num_episodes=3_000_000, keep_episodes=False, seed=3), resumed)


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MIN_SECONDS_BETWEEN", 0.0)
    explore(MODEL, num_episodes=50, checkpoint_dir=tmp_path)
    with pytest.raises(InputError, match=r"checkpoint: got a run with seed = 0 in .*, expected seed = 1"):
        explore(MODEL, num_episodes=50, seed=1, checkpoint_dir=tmp_path)
    other = problems.make_model("random", states=4, actions=2, horizon=5, seed=9)
    with pytest.raises(InputError, match=r"checkpoint: got a run with spec_digest"):
        explore(other, num_episodes=50, checkpoint_dir=tmp_path)


@pytest.mark.parametrize("env", [MODEL, RewardMixingEnv(MODEL)], ids=["model", "environment"])
def test_an_exploration_can_go_on(env):
    first = explore(env, num_episodes=200)
    more = explore(env, num_episodes=500, resume_from=first)
    assert more.num_episodes == 500
    assert more.moments == Moments.from_episodes(more.episodes)
    assert np.array_equal(more.episodes.states[:200], first.episodes.states)
    assert more.uncertainty < first.uncertainty
    assert explore(env, num_episodes=100, resume_from=more).num_episodes == 500


def test_ctrl_c_returns_what_was_gathered():
    def stop(update):
        if update.num_episodes > 100:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells have it ignored
    try:
        result = explore(MODEL, num_episodes=10**7, callback=stop)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.info.stop_reason == "interrupted"
    assert result.num_episodes > 100
    assert result.moments == Moments.from_episodes(result.episodes)


def test_compiled_counts_are_those_of_its_episodes():
    result = explore(MODEL, num_episodes=5000, replan_growth=1.3, bonus=practical_bonus, engine=make_compiled_engine)
    assert result.moments == Moments.from_episodes(result.episodes)
    assert engine_function is make_compiled_engine


def assert_every(result, whole, every):
    """Check that one of ``every`` episodes was kept, and that all were counted."""
    assert len(result.episodes) == -(-5000 // every)
    for name in ("states", "actions", "reward_indices", "lengths"):
        np.testing.assert_array_equal(getattr(result.episodes, name), getattr(whole.episodes, name)[::every])
    assert result.moments == whole.moments


def test_every_other_episode_is_dropped_where_they_would_fill_the_memory(monkeypatch, tmp_path):
    whole = explore(MODEL, num_episodes=5000)
    continued = explore(MODEL, num_episodes=5000, resume_from=explore(MODEL, num_episodes=3000))
    size = sum(getattr(whole.episodes, name).nbytes for name in ("states", "actions", "reward_indices")) // 5000
    monkeypatch.setattr(sys.modules[CompiledEngine.__module__], "MAX_EPISODE_BYTES", 1500 * size)
    assert_every(explore(MODEL, num_episodes=5000), whole, 4)
    monkeypatch.setattr(module, "MIN_SECONDS_BETWEEN", 0.0)
    folder = tmp_path / "checkpoint"
    explore(MODEL, num_episodes=1800, checkpoint_dir=folder)
    assert all(path.stem.endswith("-every-2") for path in folder.glob("episodes-*"))
    assert (folder / "episodes-000000000000-every-2.safetensors").is_file()
    assert_every(explore(MODEL, num_episodes=5000, checkpoint_dir=folder), whole, 4)
    assert_every(explore(MODEL, num_episodes=5000, resume_from=explore(MODEL, num_episodes=3000)), continued, 4)


@pytest.mark.system
def test_every_other_episode_of_an_environment_is_dropped_too(monkeypatch):
    def explored():
        return explore(RewardMixingEnv(MODEL), num_episodes=5000, seed=3)

    whole = explored()
    monkeypatch.setattr(environment_engine, "MAX_EPISODE_BYTES", 2000 * (7 * MODEL.horizon + 8))
    assert_every(explored(), whole, 4)


def test_kept_every():
    assert [infer_keep_every(1000, kept) for kept in (1000, 500, 250, 125)] == [1, 2, 4, 8]
    assert infer_keep_every(1001, 501) == 2
    assert infer_keep_every(0, 0) == 1


def test_updates_are_told():
    updates = []
    explore(MODEL, num_episodes=100, callback=updates.append)
    assert updates[0].num_episodes == 0
    assert updates[-1].num_episodes == 100
    assert updates[-1].max_episodes == 100
    assert 0 < updates[-1].uncertainty <= 1


@pytest.mark.system
def test_large_worlds_need_memory_for_what_is_seen_only():
    """S*A = 5000: the 25 million pairs have no dense table."""
    model = problems.make_model("random", states=1000, actions=5, horizon=6, next_states=3)
    result = explore(model, num_episodes=300, keep_episodes=False)
    assert result.moments.num_episodes == 300
    assert result.moments.pair_keys.size <= 300 * 21
    assert sum(getattr(result.moments, name).nbytes for name in ("pair_keys", "pair_tables")) < 1e6
