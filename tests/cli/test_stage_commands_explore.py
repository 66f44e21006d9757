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
    options = ["--num-episodes", "300", "--out", str(moments), "--save-episodes", str(episodes)]
    result = RUN.invoke(app, ["explore", "lock:steps=3", *options])
    assert result.exit_code == 0, result.output
    assert "uncertainty V_0" in result.output
    assert "pairs reachable, not observed" in result.output
    assert "Guarantee: none, its confidence levels were fitted to experiments" in result.output
    assert isinstance(load(episodes), Episodes)
    assert load(moments) == Moments.from_episodes(load(episodes))
    assert load(moments).num_episodes == 300


def test_explore_with_the_papers_settings():
    result = RUN.invoke(
        app,
        [
            "explore",
            "hard",
            "--num-episodes",
            "50",
            "--bonus",
            "paper",
            "--counting",
            "selected_pairs",
            "--replan-growth",
            "1",
        ],
    )
    assert result.exit_code == 0, result.output
    assert "paper bonus, selected" in result.output


@pytest.mark.parametrize("option", ["--bonus", "--counting", "--strategy"])
def test_unknown_words_are_refused(option):
    result = RUN.invoke(app, ["explore", "hard", "--num-episodes", "5", option, "what"])
    assert isinstance(result.exception, InputError)
    assert f"{option}: got 'what', expected one of" in str(result.exception)


def test_theory_prints_its_table():
    sizes = ["--num-states", "5", "--num-actions", "3", "--horizon", "6", "--epsilon", "0.1", "--min-separation", "0.2"]
    result = RUN.invoke(app, ["theory", *sizes])
    assert result.exit_code == 0, result.output
    for line in (
        "upper bound of the theorem",
        "estimate for the paper's algorithm",
        "estimate for the practical bonus",
    ):
        assert line in result.output
    assert "9.26e-05" in result.output
