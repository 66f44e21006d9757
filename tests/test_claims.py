"""Every measured number of README and docs comes from a committed file, with the command that made it."""

import json
import re
import shutil
import subprocess

import pytest
from benchmarks import claims, pages, tables
from benchmarks.record import found_in, stored

FILE = "benchmarks/speed/results.json"
COMMAND = "python -m benchmarks.speed.run"
SECTION = f"## Speed\n\nMeasured in `{FILE}` by `{COMMAND}`.\n\n"


def name_of(path):
    return str(path.relative_to(pages.ROOT))


@pytest.mark.parametrize("path", pages.pages(), ids=name_of)
def test_tables_are_what_the_results_give(path):
    """``python -m benchmarks.pages`` writes them anew."""
    text = path.read_text(encoding="utf-8")
    assert pages.filled(text) == text, f"{name_of(path)} is stale: run python -m benchmarks.pages"


@pytest.mark.parametrize("path", pages.pages(), ids=name_of)
def test_every_number_can_be_traced(path):
    found = list(claims.faults(name_of(path), path.read_text(encoding="utf-8"), pages.ROOT))
    assert not found, "\n".join(found)


def named_files():
    """Every file of results that a mark of a page names."""
    texts = [path.read_text(encoding="utf-8") for path in pages.pages()]
    marks = [found["files"] for text in texts for kind in (claims.FROM, claims.SEE) for found in kind.finditer(text)]
    return {path for names in marks for path in found_in(names, pages.ROOT)}


def test_the_files_are_committed_and_name_their_command():
    files = named_files()
    assert len(files) > 10
    for path in files:
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


def faults(text, root):
    return list(claims.faults("page.md", text, root))


@pytest.mark.parametrize(
    "claim",
    [
        "It takes 0.12 seconds, 42 times faster, with 94 % of the gain, 93.7 percent, on 2,000,000 rows.",
        "It takes .123 s, about 40 times faster, on 2 million rows of 10 states and 4 actions; .937.",
        "- one point\n- it takes 0.1234 s\n  and a share of .94",
        "| a | b |\n|---|---|\n| 0.12 | 42 |",
    ],
)
def test_numbers_that_are_in_the_file_are_fine(claim, root):
    mark = f"<!-- see {FILE} -->"
    text = f"{mark}\n{claim}" if claim.startswith("|") else f"{claim}\n{mark}"
    assert faults(SECTION + text, root) == []


@pytest.mark.parametrize(
    ("number", "agreed"), [("0.12", 1), ("0.13", 0), ("43", 0), ("42.0", 0), ("41.7", 1), ("50", 0)]
)
def test_a_number_that_is_not_in_the_file_is_named(number, agreed, root):
    text = f"{SECTION}It takes {number} seconds.\n<!-- see {FILE}: runs -->\n"
    assert faults(text, root) == ([] if agreed else [f"page.md, line 5: {number} is not in {FILE}"])


def test_a_part_of_the_file_is_all_that_counts(root):
    assert faults(f"{SECTION}42 times faster. <!-- see {FILE}: runs/0/ratio -->", root) == []
    assert faults(f"{SECTION}0.12 seconds. <!-- see {FILE}: runs/0/ratio -->", root) == [
        f"page.md, line 5: 0.12 is not in {FILE}"
    ]
    (fault,) = faults(f"{SECTION}42 times faster. <!-- see {FILE}: runs/0/speed -->", root)
    assert fault.endswith("runs/0/speed: neither a fact nor a part of the results")


def test_one_over_a_letter_is_a_sign_and_one_over_a_number_is_not(root):
    mark = f"<!-- see {FILE}: runs/0/ratio -->"
    assert faults(f"{SECTION}42 times, like 1/ε and 1/√K. {mark}", root) == []
    assert faults(f"{SECTION}42 times, like 3/4. {mark}", root) == [
        f"page.md, line 5: {number} is not in {FILE}" for number in "34"
    ]


def test_a_missing_file_is_named(root):
    (fault,) = faults("42 times faster. <!-- see benchmarks/speed/other.json -->", root)
    assert fault == "page.md, line 1: benchmarks/speed/other.json: there is no such file of results"
    with pytest.raises(FileNotFoundError, match=r"other\.json"):
        pages.filled("<!-- from benchmarks/speed/other.json: logs.speed -->\n\n<!-- end -->", root)


def test_the_section_shows_file_and_command(root):
    found = faults(f"{SECTION}## Next\n\nIt takes 0.12 seconds.\n<!-- see {FILE} -->", root)
    assert found == [
        f"page.md, line 7: the section does not show {FILE}",
        f"page.md, line 7: the section does not show the command of {FILE}: {COMMAND}",
    ]


@pytest.mark.parametrize(
    ("claim", "number"),
    [
        ("It is 20 times faster.", "20 times"),
        ("It is 3x faster.", "3x"),
        ("It is three times faster.", "three times"),
        ("It takes\n12 ms.", "12 ms"),
        ("A 2-fold gain.", "2-fold"),
        ("It plays 4 million episodes per second.", "4 million episodes"),
        ("It needs 7 GiB.", "7 GiB"),
        ("The regret is about 3.", "regret is about 3"),
        ("98 % of worlds.", "98 %"),
        ("A value of .98 was found.", ".98"),
        ("- no number\n- at 1.5", "1.5"),
        ("1. first\n2. after 500 episodes", "500 episodes"),
        ("| a | b |\n|---|---|\n| x | 17 |", "17"),
        ("| a | b |\n|---|---|\n| x | 1.565 ± 0.081 |", "1.565"),
        ("*It takes 5 minutes.*", "5 minutes"),
    ],
)
def test_a_claim_without_a_mark_is_named(claim, number, root):
    (fault,) = faults("# Page\n\nWords.\n\n" + claim, root)
    assert re.match(
        rf'page\.md, line [5-7]: "{re.escape(number)}" has no mark that says where it was measured: ', fault
    )
    mark = "<!-- no measurement: a setting -->"
    assert faults(f"{mark}\n{claim}" if claim.startswith("|") else f"{claim}\n{mark}", root) == []


@pytest.mark.parametrize(
    "text",
    [
        "Algorithm 2 of NeurIPS 2021, departure 13, H + 1 states, `5 seconds`, $0.5$, [x](a.md#1.5).",
        "```python\nassert 0.5 < 1\n```\n\n```text\n99.7 %\n```",
        "    python -m benchmarks.run --seconds 5 seconds",
        "## 5 and E Other weights",
        "| a | b |\n|---|---|\n| `x` | (M, S, A) |",
    ],
)
def test_other_numbers_are_left_alone(text, root):
    assert faults(text, root) == []


def test_an_exemption_needs_a_reason_and_a_number(root):
    assert len(faults("5 seconds. <!-- no measurement: -->", root)) == 1
    assert faults("Words. <!-- no measurement: a setting -->", root) == [
        "page.md, line 1: nothing here needs <!-- no measurement: a setting -->"
    ]


def test_numbers_of_outputs_are_looked_for_above(root):
    page = "```text\nshare 99.7%\n```\n\nThat is {} %. <!-- see output above -->"
    assert faults(page.format(99.7), root) == []
    assert faults(page.format(98.7), root) == ["page.md, line 5: 98.7 is in no output above"]


def test_a_stale_table_and_a_broken_mark_are_found(root, monkeypatch):
    monkeypatch.setitem(tables.TABLES, "speed", lambda found: [tables.grid(["rows"], [[f"{found['rows']:,}"]])])
    mark = f"<!-- from {FILE}: speed -->"
    text = pages.filled(f"# A\n\n{mark}\n\n| rows |\n| --- |\n| 1,000 |\n\n<!-- end -->\n\nB.\n", root)
    assert "| 2,000,000 |" in text
    assert "1,000 |\n" not in text.replace("2,000,000", "")
    assert f"From `{FILE}` by `{COMMAND}`." in text
    assert pages.filled(text, root) == text
    assert faults(text, root) == []
    (fault,) = faults(f"{mark}\n\n2\n", root)
    assert fault.startswith("page.md: a mark without its end")
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
