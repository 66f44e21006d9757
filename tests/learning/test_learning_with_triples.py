"""learn(order=3): four types that pairs do not show, through the library and the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rewardmix import InputError, Moments, learn, problems
from rewardmix.cli.app import app
from rewardmix.environments import RewardMixingEnv
from rewardmix.exploration import paper, theory
from rewardmix.learning.learn_settings import COVERED_TRIPLES

RUN = CliRunner()
SMALL = problems.make("parity", actions=3, dials=1, risk=0.1)


@pytest.mark.parametrize("order", [2, 3])
def test_triples_show_the_types_of_parity_and_pairs_do_not(order):
    learned = learn("parity", episodes=20_000, num_contexts=4, order=order, resamples=0, refine=0, seed=1)
    share = learned.certificate.truth.share
    assert share > 0.99 if order == 3 else share < 0.01
    moments = learned.exploration.moments
    assert (moments.triple_keys.size > 0) == (order == 3)
    assert learned.exploration.info.counts == ("all triples" if order == 3 else "all pairs")


def test_refinement_waits_until_triples_are_covered():
    """Covered as pairs are asked to be they were at half of the budget, and refinement went on with what is noise."""
    world = problems.make("parity", dials=1, seed=101)
    learned = learn(world, episodes=9000, num_contexts=4, order=3, resamples=0)
    assert 4500 < learned.exploration.episodes < 9000
    assert learned.exploration.uncertainty <= COVERED_TRIPLES
    assert learned.episodes == 9000
    assert learned.certificate.truth.share > 0.99


def test_a_run_that_was_stopped_goes_on_with_triples(tmp_path):
    asked = {"episodes": 1500, "num_contexts": 4, "order": 3, "resamples": 0}
    whole = learn(SMALL, **asked)
    calls = []

    def interrupt(stage):
        calls.append(stage.name)
        if len(calls) == 40:
            raise KeyboardInterrupt

    learn(SMALL, **asked, checkpoint=tmp_path, on_update=interrupt)
    again = learn(SMALL, **asked, checkpoint=tmp_path)
    assert again.exploration.moments == whole.exploration.moments
    assert np.array_equal(again.model.rewards, whole.model.rewards)


def test_environments_are_learned_with_triples_too():
    learned = learn(RewardMixingEnv(SMALL), episodes=300, num_contexts=4, order=3, resamples=0)
    explored = learned.exploration
    assert explored.moments == Moments.of(explored.gathered, order=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 5}, "order: found 5, expected 2 for pairs, or 3 for triples"),
        ({"order": 3, "confidence": theory}, "order: found 3, expected 2 with the theory setting"),
        ({"order": 3, "confidence": paper(1)}, "order: found 3, expected 2 with the paper setting"),
    ],
)
def test_what_has_no_triples_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        learn("hard", episodes=10, **options)


def test_the_command_line_explores_and_learns_with_triples(tmp_path):
    out = tmp_path / "m.safetensors"
    shown = RUN.invoke(app, ["explore", "parity:dials=1", "--episodes", "300", "--order", "3", "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    assert "triples seen" in shown.output
    recovered = RUN.invoke(app, ["recover", str(out), "--contexts", "4", "--out", str(tmp_path / "model.safetensors")])
    assert recovered.exit_code == 0, recovered.output
    folder = tmp_path / "run"
    asked = ["learn", "parity:dials=1", "--episodes", "300", "--contexts", "4", "--order", "3", "--out", str(folder)]
    learned = RUN.invoke(app, asked)
    assert learned.exit_code == 0, learned.output
    assert json.loads((folder / "result.json").read_text(encoding="utf-8"))["record"]["settings"]["order"] == 3
    refused = RUN.invoke(app, ["explore", "hard", "--episodes", "5", "--order", "4"])
    assert refused.exit_code != 0
