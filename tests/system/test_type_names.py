"""Names of types: typed when a run is made, or after its report was read; then everywhere."""

import json
import subprocess
import sys

from rewardmix import load

QUICK = ["learn", "shop", "--num-episodes", "400", "--refinement-fraction", "0"]


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def everywhere(folder, names):
    result = json.loads((folder / "result.json").read_text())
    assert result["environment"]["type_names"] == result["policy"]["type_names"] == names
    for name, described in zip(names, result["types"], strict=True):
        assert described["text"].startswith(f"{name}, ")
        assert described["text"] in (folder / "report.html").read_text()
    assert load(folder / "model.safetensors").type_names == tuple(names)
    assert load(folder / "policy.safetensors").model.type_names == tuple(names)


def test_names_go_everywhere(tmp_path):
    done = run(*QUICK, "--type-names", "early,late", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "- early, " in done.stdout
    everywhere(tmp_path / "run", ["early", "late"])
    again = run("report", "run", "--type-names", "outdoor,reading", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    everywhere(tmp_path / "run", ["outdoor", "reading"])


def test_wrong_names_are_refused_before_anything_is_done(tmp_path):
    for wrong, message in (
        ("one", "--type-names: got 1 names, expected 2, one for each type"),
        ("a,a", "--type-names: got 'a' twice, expected unique type names"),
        ("a,", "--type-names: got 'a,', expected names separated by commas"),
    ):
        done = run(*QUICK, "--type-names", wrong, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert list(tmp_path.iterdir()) == []
