"""The two commands of exploration, as typed."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rewardmix import load
from rewardmix._core.checks import InputError
from rewardmix.cli.app import app
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments

RUN = CliRunner()


def test_explore_saves_moments_and_episodes(tmp_path):
    moments, episodes = tmp_path / "moments.safetensors", tmp_path / "episodes.safetensors"
    options = ["--episodes", "300", "--out", str(moments), "--episodes-out", str(episodes)]
    shown = RUN.invoke(app, ["explore", "lock:steps=3", *options])
    assert shown.exit_code == 0, shown.output
    assert "uncertainty V_0" in shown.output
    assert "pairs possible, never seen" in shown.output
    assert "Guarantee: none, its confidence levels were fitted to experiments" in shown.output
    assert isinstance(load(episodes), Episodes)
    assert load(moments) == Moments.of(load(episodes))
    assert load(moments).episodes == 300


def test_explore_with_the_papers_settings():
    shown = RUN.invoke(
        app, ["explore", "hard", "--episodes", "50", "--confidence", "paper", "--counts", "selected", "--growth", "1"]
    )
    assert shown.exit_code == 0, shown.output
    assert "paper setting, selected" in shown.output


@pytest.mark.parametrize("option", ["--confidence", "--counts", "--strategy"])
def test_unknown_words_are_refused(option):
    result = RUN.invoke(app, ["explore", "hard", "--episodes", "5", option, "what"])
    assert isinstance(result.exception, InputError)
    assert f"{option}: found 'what', expected one of" in str(result.exception)


def test_theory_prints_its_table():
    sizes = ["--states", "5", "--actions", "3", "--horizon", "6", "--accuracy", "0.1", "--separation", "0.2"]
    shown = RUN.invoke(app, ["theory", *sizes])
    assert shown.exit_code == 0, shown.output
    for line in ("what the theorem asks", "what the paper's algorithm would use", "what the practical setting needs"):
        assert line in shown.output
    assert "9.26e-05" in shown.output
