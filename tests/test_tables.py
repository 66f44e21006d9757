"""Tables of README and docs are what the committed results give; results say how and where they were made."""

import json
import re
import shutil
import subprocess

import pytest
from benchmarks import pages, tables
from benchmarks.record import found_in, stored

FILE = "benchmarks/speed/results.json"
COMMAND = "python -m benchmarks.speed.run"


def name_of(path):
    return str(path.relative_to(pages.ROOT))


@pytest.mark.parametrize("path", pages.pages(), ids=name_of)
def test_tables_are_what_the_results_give(path):
    """``python -m benchmarks.pages`` writes them anew."""
    text = path.read_text(encoding="utf-8")
    assert pages.filled(text) == text, f"{name_of(path)} is stale: run python -m benchmarks.pages"


def named_files():
    """Every file of results that a mark of a page names."""
    texts = [path.read_text(encoding="utf-8") for path in pages.pages()]
    return {
        path for text in texts for found in pages.FROM.finditer(text) for path in found_in(found["files"], pages.ROOT)
    }


def test_every_mark_has_its_end():
    for path in pages.pages():
        left = pages.FROM.sub("", path.read_text(encoding="utf-8"))
        assert "<!-- from " not in left, name_of(path)
        assert pages.END not in left, name_of(path)


def test_results_are_committed_and_name_command_version_and_machine():
    files = named_files()
    assert len(files) > 10
    for path in files:
        assert stored(path)["rewardmix"], name_of(path)
        assert stored(path)["machine"]["processor"], name_of(path)
        assert re.fullmatch(r"python -m (benchmarks|docs)\.[\w.]+( .*)?", stored(path)["command"]), name_of(path)
        module = stored(path)["command"].split()[2].replace(".", "/")
        assert (pages.ROOT / f"{module}.py").is_file(), f"{name_of(path)} names a program that is not there"
    if shutil.which("git") and (pages.ROOT / ".git").exists():
        known = subprocess.run(["git", "ls-files"], cwd=pages.ROOT, capture_output=True, text=True, check=True).stdout
        assert {name_of(path) for path in files} <= set(known.splitlines())


@pytest.fixture
def root(tmp_path):
    """A repository with one result."""
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    results = {"runs": [{"seconds": 0.1234, "ratio": 41.7, "share": 0.9371}], "rows": 2_000_000, "sizes": {"10,4": 7}}
    path.write_text(json.dumps({"command": COMMAND, "results": results}), encoding="utf-8")
    return tmp_path


def test_a_missing_file_is_named(root):
    with pytest.raises(FileNotFoundError, match=r"other\.json"):
        pages.filled("<!-- from benchmarks/speed/other.json: logs.speed -->\n\n<!-- end -->", root)


def test_a_stale_table_is_made_anew_and_an_unknown_one_refused(root, monkeypatch):
    monkeypatch.setitem(tables.TABLES, "speed", lambda found: [tables.grid(["rows"], [[f"{found['rows']:,}"]])])
    mark = f"<!-- from {FILE}: speed -->"
    text = pages.filled(f"# A\n\n{mark}\n\n| rows |\n| --- |\n| 1,000 |\n\n<!-- end -->\n\nB.\n", root)
    assert "| 2,000,000 |" in text
    assert "1,000 |\n" not in text.replace("2,000,000", "")
    assert f"From `{FILE}` by `{COMMAND}`." in text
    assert pages.filled(text, root) == text
    with pytest.raises(KeyError, match=r"no\.such: no such table"):
        pages.filled(f"<!-- from {FILE}: no.such -->\n\n<!-- end -->", root)


def test_recurrent_takes_any_number_of_problems_seeds_and_checkpoints():
    def curve(*values):
        return [
            {"episodes": 2000 * (i + 1), "value": value, "lower": value - 0.1, "upper": value + 0.1}
            for i, value in enumerate(values)
        ]

    setting = {"num_envs": 8, "hidden": 16, "learning_rate": 0.01, "entropy": 0.0, "epochs": 5}
    shop = {"problem": "shop", "sweep": [setting] * 3, "sweep_episodes": 500, "chosen": 1}
    rows = [
        {"problem": name, "episodes": 2000, "value": [3.0], "share": [0.9], "best": 3.0, "markov": 2.0}
        for name in ("shop", "lock")
    ]
    runs = [{**shop, "curves": {"1": curve(2, 2.5), "2": curve(2, 2.5, 2.95)}}]
    runs.append({**shop, "problem": "lock", "curves": {"1": curve(1)}})
    text = "\n".join(tables.recurrent({"rows": rows}, *runs))
    assert "| 6,000 |  | 2.950 ± .100 |" in text
    assert "from 2 fresh seeds" in text
    assert "Seed 1 did not get there in 4,000 episodes, so it needs more than 2 times as many." in text
    assert "Seed 2 gets there, within its interval, at 6,000 episodes: 3 times as many." in text
    assert "on lock: of 3 settings" in text
    assert "In shares of the gain: .500 after 4,000 episodes, .950 after 6,000 episodes; `learn` has .900" in text


def test_the_number_of_seeds_is_that_of_the_results():
    rows = [{"problem": "shop", "episodes": n, "share": [0.9, 0.95]} for n in (500, 2000)]
    long = [{"problem": "shop", "episodes": 200_000, "share": [1.0] * 20}]
    table, said = tables.share({"rows": rows}, {"rows": long})
    assert "| shop | .925 | .925 | 1.000 |" in table
    assert said.startswith("Means over 2 seeds (20 at 200,000).")
    assert said.endswith("1 of 1 cells lie below it: shop at 2,000 (.925 ± .025).")
