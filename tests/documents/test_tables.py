"""Check that tables of README and docs match the committed results, and that results say how they were made."""

import re
import shutil
import subprocess

import pytest
from benchmarks import pages, record
from benchmarks.learning import analysis

STUDIES = sorted(path.parent.name for path in record.HERE.glob("*/results.jsonl"))


def name_of(path):
    return str(path.relative_to(pages.ROOT))


@pytest.mark.parametrize("path", pages.list_pages(), ids=name_of)
def test_tables_match_the_results(path):
    """``python -m benchmarks.pages`` rewrites them."""
    text = path.read_text(encoding="utf-8")
    assert pages.fill_tables(text) == text, f"{name_of(path)} is stale: run python -m benchmarks.pages"
    rest = pages.TABLE.sub("", text)
    assert "<!-- table " not in rest, f"{name_of(path)} has a table without an end"
    assert pages.END not in rest


def test_there_are_tables_and_studies():
    studies = [mark["study"] for path in pages.list_pages() for mark in pages.TABLE.finditer(path.read_text("utf-8"))]
    assert len(studies) > 20
    assert set(studies) <= set(STUDIES)


@pytest.mark.parametrize("study", STUDIES)
def test_every_part_has_its_command_version_date_and_machine(study):
    parts = record.parts_of(study)
    assert parts
    for part, (about, *rows) in parts.items():
        command = re.fullmatch(r"python -m (benchmarks\.[\w.]+)( .*)?", about["command"])
        assert command, part
        assert (pages.ROOT / f"{command[1].replace('.', '/')}.py").is_file(), f"{part} names no program"
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", about["rewardmix"]), part
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", about["date"]), part
        assert about["machine"]["processor"], part
        assert rows, part
        assert not any("command" in row for row in rows), part


@pytest.mark.skipif(not shutil.which("git") or not (pages.ROOT / ".git").exists(), reason="not a clone")
def test_results_are_committed_and_figures_are_not():
    listing = subprocess.run(["git", "ls-files"], cwd=pages.ROOT, capture_output=True, text=True, check=True)
    committed = set(listing.stdout.splitlines())
    assert {name_of(record.path_of(study)) for study in STUDIES} <= committed
    assert [name for name in committed if name.endswith(".svg")] == ["docs/pictures/shop.svg"]


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a study of two parts."""
    (tmp_path / "learning").mkdir()
    for part, share in (("long", 0.25), ("hard", 0.5)):
        record.record("learning", part, [{"problem": "shop", "episodes": 200, "share": [share]}], folder=tmp_path)
    return tmp_path


def test_running_a_part_again_replaces_only_its_lines(folder):
    before = record.path_of("learning", folder).read_text(encoding="utf-8").splitlines()
    assert len(before) == 4
    rows = [{"problem": name, "episodes": 200, "share": [0.75]} for name in ("shop", "lock δ")]
    record.record("learning", "long", rows, folder=folder)
    after = record.path_of("learning", folder).read_text(encoding="utf-8").splitlines()
    assert after[3:] == before[2:]
    assert record.rows_of("learning", "long", folder) == rows
    assert record.rows_of("learning", "hard", folder) == [{"problem": "shop", "episodes": 200, "share": [0.5]}]
    assert record.rows_of("learning", "never", folder) == []


def test_a_run_writes_the_requested_parts_and_a_quick_run_nothing(folder, monkeypatch):
    shown = []
    parts = {"long": lambda quick: iter([{"few": quick}]), "fresh": lambda quick: [{"few": quick}] * 2}
    before = record.parts_of("learning", folder)
    monkeypatch.setattr("sys.argv", ["run", "--quick"])
    record.run("", "learning", parts, lambda *text: shown.append(text), folder)
    assert record.parts_of("learning", folder) == before
    assert shown == [("long", [{"few": True}], True), ("fresh", [{"few": True}] * 2, True)]
    monkeypatch.setattr("sys.argv", ["run", "--parts", "fresh"])
    record.run("", "learning", parts, lambda *text: shown.append(text), folder)
    assert record.parts_of("learning", folder).keys() == {"long", "hard", "fresh"}
    assert record.rows_of("learning", "long", folder) == before["long"][1:]
    (about, *rows) = record.parts_of("learning", folder)["fresh"]
    assert about["command"] == "python -m benchmarks.learning.run --parts fresh"
    assert rows == [{"few": False}] * 2


def test_a_stale_table_is_rewritten_and_a_table_without_results_is_refused(folder):
    text = "# A\n\n<!-- table learning.others of {} -->\n\n| share |\n| --- |\n| 1 |\n\n<!-- end -->\n\nB.\n"
    result = pages.fill_tables(text.replace("others", "share").format("long, hard"), folder)
    assert "| shop | .500 |" in result
    assert "| 1 |" not in result
    assert "From `benchmarks/learning/results.jsonl` by `python -m benchmarks.learning.run" in " ".join(result.split())
    assert pages.fill_tables(result, folder) == result
    with pytest.raises(KeyError, match=r"learning: no results of never, there are long, hard"):
        pages.fill_tables(text.format("never"), folder)
    with pytest.raises(KeyError, match=r"learning\.none: no such table, there are share"):
        pages.fill_tables(text.replace("others", "none").format("long"), folder)


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
    text = "\n".join(analysis.recurrent(rows, *([run] for run in runs)))
    assert "| 6,000 |  | 2.950 ± .100 |" in text
    assert "from 2 fresh seeds" in text
    assert "Seed 1 did not reach it in 4,000 episodes, so it needs more than 2 times as many." in text
    assert "Seed 2 reaches it, within its interval, at 6,000 episodes: 3 times as many." in text
    assert "on lock: of 3 settings" in text
    assert "Normalized scores: .500 after 4,000 episodes, .950 after 6,000 episodes; `learn` has .900" in text


def test_the_number_of_seeds_is_that_of_the_results():
    rows = [{"problem": "shop", "episodes": n, "share": [0.9, 0.95]} for n in (500, 2000)]
    long = [{"problem": "shop", "episodes": 200_000, "share": [1.0] * 20}]
    table, text = analysis.share(rows, long)
    assert "| shop | .925 | .925 | 1.000 |" in table
    assert text.startswith("Means over 2 seeds (20 at 200,000).")
    assert text.endswith("1 of 1 cells lie below it: shop at 2,000 (.925 ± .025).")
