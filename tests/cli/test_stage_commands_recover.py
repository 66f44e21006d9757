import numpy as np
import pytest
from typer.testing import CliRunner

from rewardmix import InputError, load, problems, save, simulate, uniform_policy
from rewardmix.cli.app import app


@pytest.fixture
def stored(tmp_path):
    model = problems.make_model("random", states=3, actions=2, horizon=5, seed=1, weights=(0.3, 0.7))
    path = tmp_path / "episodes.safetensors"
    save(path, simulate(uniform_policy(model), model, 3000, seed=0))
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["recover", *map(str, arguments)], catch_exceptions=False)


def test_recover_shows_rewards_and_certificate_and_saves(stored, tmp_path):
    out = tmp_path / "model.safetensors"
    result = run(stored, "--out", out, "--max-rows", 4)
    assert result.exit_code == 0
    for words in ("4 of 6", "type 1", "the model is inside its confidence set", "0 sign conflicts", "identified"):
        assert words in result.output
    assert load(out).num_types == 2


def test_known_weights_methods_and_the_number_of_contexts(stored):
    assert "method: algorithm_3; weights known" in run(stored, "--method", "algorithm_3", "--weights", "0.3,0.7").output
    known = run(stored, "--weights", "uniform", "--num-std", 3).output
    assert "weights known" in known
    assert "with weights" not in known  # where the program took them as they are
    assert "magnitudes feasible, with weights estimated; " in run(stored).output
    assert "magnitudes" not in run(stored, "--num-types", "3").output  # the linear program is for two types
    chosen = run(stored, "--num-types", "auto").output
    assert "2 types predict held-out episodes best" in chosen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "magic"), r"--method: got 'magic', expected one of maximum_likelihood, algorithm_3, spectral"),
        (("--weights", "a,b"), r"--weights: got 'a,b', expected uniform or numbers"),
        (("--num-types", "few"), r"--num-types: got 'few', expected a whole number or auto"),
    ],
)
def test_wrong_options_are_named(stored, arguments, message):
    with pytest.raises(InputError, match=message):
        run(stored, *arguments)


def test_several_reward_values_have_a_row_each(tmp_path):
    from oracles.mixtures import draw_episodes, random_mixture

    rng = np.random.default_rng(0)
    path = tmp_path / "episodes.safetensors"
    save(path, draw_episodes(rng, random_mixture(rng, 2, 3, 3), rng.integers(0, 3, (500, 4))))
    assert "probability of each reward" in run(path).output
