"""Names of types: typed when a run is made, or after its report was read; then everywhere."""

import json
import subprocess
import sys

from rewardmix import load

QUICK = ["learn", "shop", "--episodes", "400", "--refine", "0"]


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def everywhere(folder, names):
    result = json.loads((folder / "result.json").read_text())
    assert result["world"]["context_names"] == result["session"]["context_names"] == names
    for name, told in zip(names, result["types"], strict=True):
        assert told["sentence"].startswith(f"{name}, ")
        assert told["sentence"] in (folder / "report.html").read_text()
    assert load(folder / "model.safetensors").context_names == tuple(names)
    assert load(folder / "policy.safetensors").model.context_names == tuple(names)


def test_names_go_everywhere(tmp_path):
    done = run(*QUICK, "--names", "early,late", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "- early, " in done.stdout
    everywhere(tmp_path / "run", ["early", "late"])
    again = run("report", "run", "--names", "outdoor,reading", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    everywhere(tmp_path / "run", ["outdoor", "reading"])


def test_wrong_names_are_refused_before_anything_is_done(tmp_path):
    for wrong, message in (
        ("one", "--names: found 1 names, expected 2, one for each type"),
        ("a,a", "--names: found 'a' twice, expected a name of its own for each type"),
        ("a,", "--names: found 'a,', expected names separated by commas"),
    ):
        done = run(*QUICK, "--names", wrong, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert list(tmp_path.iterdir()) == []
