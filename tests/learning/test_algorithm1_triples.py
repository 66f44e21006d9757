"""learn(order=3): four types that pairs do not show, through the library and the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rewardmix import InputError, Moments, learn, problems
from rewardmix.cli.app import app
from rewardmix.environments import RewardMixingEnv
from rewardmix.exploration import paper_bonus, theory_bonus
from rewardmix.learning.learn_settings import COVERED_UNCERTAINTY_TRIPLES

RUN = CliRunner()
SMALL = problems.make_model("parity", actions=3, dials=1, risk=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("order", [2, 3])
def test_triples_show_the_types_of_parity_and_pairs_do_not(order):
    learned = learn(
        "parity", num_episodes=20_000, num_types=4, moment_order=order, num_resamples=0, refinement_fraction=0, seed=1
    )
    share = learned.certificate.true_model.normalized_score
    assert share > 0.99 if order == 3 else share < 0.01
    moments = learned.exploration.moments
    assert (moments.triple_keys.size > 0) == (order == 3)
    assert learned.exploration.info.counting == ("all triples" if order == 3 else "all pairs")


@pytest.mark.system
def test_refinement_waits_until_triples_are_covered():
    """Covered as pairs are asked to be they were at half of the budget, and refinement went on with what is noise."""
    env = problems.make_model("parity", dials=1, seed=101)
    learned = learn(env, num_episodes=9000, num_types=4, moment_order=3, num_resamples=0)
    assert 4500 < learned.exploration.num_episodes < 9000
    assert learned.exploration.uncertainty <= COVERED_UNCERTAINTY_TRIPLES
    assert learned.num_episodes == 9000
    assert learned.certificate.true_model.normalized_score > 0.99


@pytest.mark.system
def test_a_run_that_was_stopped_goes_on_with_triples(tmp_path):
    settings = {"num_episodes": 1500, "num_types": 4, "moment_order": 3, "num_resamples": 0}
    whole = learn(SMALL, **settings)
    calls = []

    def interrupt(stage):
        calls.append(stage.name)
        if len(calls) == 40:
            raise KeyboardInterrupt

    learn(SMALL, **settings, checkpoint_dir=tmp_path, callback=interrupt)
    again = learn(SMALL, **settings, checkpoint_dir=tmp_path)
    assert again.exploration.moments == whole.exploration.moments
    assert np.array_equal(again.model.rewards, whole.model.rewards)


def test_environments_are_learned_with_triples_too():
    learned = learn(RewardMixingEnv(SMALL), num_episodes=300, num_types=4, moment_order=3, num_resamples=0)
    explored = learned.exploration
    assert explored.moments == Moments.from_episodes(explored.episodes, order=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moment_order": 5}, "moment_order: got 5, expected 2 for pairs, or 3 for triples"),
        ({"moment_order": 3, "bonus": theory_bonus}, "moment_order: got 3, expected 2 with theory_bonus"),
        ({"moment_order": 3, "bonus": paper_bonus(1)}, "moment_order: got 3, expected 2 with paper_bonus"),
    ],
)
def test_what_has_no_triples_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        learn("hard", num_episodes=10, **options)


def test_the_command_line_explores_and_learns_with_triples(tmp_path):
    out = tmp_path / "m.safetensors"
    explored = RUN.invoke(
        app, ["explore", "parity:dials=1", "--num-episodes", "300", "--moment-order", "3", "--out", str(out)]
    )
    assert explored.exit_code == 0, explored.output
    assert "triples" in explored.output
    recovered = RUN.invoke(app, ["recover", str(out), "--num-types", "4", "--out", str(tmp_path / "model.safetensors")])
    assert recovered.exit_code == 0, recovered.output
    folder = tmp_path / "run"
    arguments = [
        "learn",
        "parity:dials=1",
        "--num-episodes",
        "300",
        "--num-types",
        "4",
        "--moment-order",
        "3",
        "--out",
        str(folder),
    ]
    learned = RUN.invoke(app, arguments)
    assert learned.exit_code == 0, learned.output
    assert json.loads((folder / "result.json").read_text(encoding="utf-8"))["metadata"]["settings"]["moment_order"] == 3
    refused = RUN.invoke(app, ["explore", "hard", "--num-episodes", "5", "--moment-order", "4"])
    assert refused.exit_code != 0
