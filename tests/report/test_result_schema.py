"""A summary that somebody edited: a page is made of it, or the field is named."""

from __future__ import annotations

import copy
import json
import random

import pytest

from helpers.example_summaries import make_summary, random_sparse_model
from rewardmix import InputError, problems
from rewardmix.report import read_result, render_page

WORLDS = {"two": problems.make_model("probe", horizon=4), "rays": random_sparse_model(3, (0.0, 1.0), 2)}
BAD = [None, True, "", "x", "\ud800", -1, 0, 1.5, 10**400, 1e308, float("nan"), [], [[]], {}, {"a": 1}, [1, 2, 3]]
GONE = object()


@pytest.fixture(scope="module", params=WORLDS)
def summary(request):
    result = json.loads(json.dumps(make_summary(WORLDS[request.param])))
    assert result["beliefs"]["kind"] == request.param
    result["policy"] = {}  # large, and read by the page alone
    return result


def places(data, before=()):
    """The path of every field, and of the first and last entry of every list."""
    inner = list(data.items()) if isinstance(data, dict) else []
    if isinstance(data, list) and data:
        inner = [(0, data[0]), (len(data) - 1, data[-1])]
    for key, value in inner:
        yield (*before, key)
        yield from places(value, (*before, key))


def edited(summary, path, value):
    """A copy with one place changed (or gone)."""
    changed = copy.deepcopy(summary)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


NEEDED = ("title", "rewardmix", "command", "seed", "environment", "planned_value_bounds", "headline", "comparison")
NEEDED += ("uncertainty", "coverage", "metadata", "rewards", "beliefs", "open_questions", "certificate", "sections")
NEEDED += ("policy", "policy_note")


@pytest.mark.parametrize("span", [["2026-03-02", "2026-03-25"], ["2026-03-02T08:00:00"], "2026", [1, 2], ["T", "T"]])
def test_a_range_of_dates_that_is_none_is_named(summary, span):
    notes = {"source_name": "a.csv", "num_rows": 9, "num_kept": 3, "time_span": span}
    with pytest.raises(InputError, match=r"^summary\.metadata\.fit\.notes\.time_span"):
        render_page({**summary, "metadata": {"fit": {"notes": notes}}})


@pytest.mark.parametrize("field", NEEDED)
def test_a_missing_field_is_named(summary, field):
    with pytest.raises(InputError, match=rf"^summary\.{field}: got nothing, expected this field"):
        render_page(edited(summary, (field,), GONE))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("environment", "num_states"),
            "x",
            r"summary\.environment\.num_states: got 'x' \(str\), expected an integer of at least 1",
        ),
        (("environment", "state_names"), [], r"summary\.environment\.state_names: got 0 entries, expected"),
        (("planned_value_bounds",), [1.0], r"summary\.planned_value_bounds: got 1 entries, expected 2"),
        (("rewards", "rows", 0, "state"), 99, r"summary\.rewards\.rows\[0\]\.state: got 99 \(int\), expected"),
        (("rewards", "rows", 0, "upper"), None, r"summary\.rewards\.rows\[0\]: got one of lower and upper"),
        (("headline", "value"), 10**400, r"summary\.headline\.value: got 1000.*expected a finite number"),
        (
            ("headline", "evidence_key"),
            "so",
            r"summary\.headline\.evidence_key: got 'so' \(str\), expected one of exact, pl",
        ),
        (("beliefs", "kind"), 3, r"summary\.beliefs\.kind: got 3 \(int\), expected one of two, rays"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(summary, path, value, message):
    with pytest.raises(InputError, match=f"^{message}"):
        render_page(edited(summary, path, value))


@pytest.mark.system
def test_any_edit_ends_in_a_page_or_a_refusal(summary):
    rng = random.Random(0)
    everywhere = [path for path in places(summary) if path[0] not in ("metadata", "policy")]
    pages = 0
    for _ in range(400):
        try:
            pages += bool(render_page(edited(summary, rng.choice(everywhere), rng.choice([*BAD, GONE]))).encode())
        except InputError:
            continue
    assert 20 < pages < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "unreadable"),
        ('{"a":' * 300 + "1" + "}" * 300, "more than 20 levels of lists and objects"),
        ("1" * 5000, "unreadable"),
        ("\udcff", "unreadable"),
    ],
)
def test_a_file_that_is_no_summary_is_refused(tmp_path, text, message):
    (tmp_path / "result.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError, match=message):
        render_page({"schema": "rewardmix-result/2", **read_result(tmp_path)})


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="^DIR: got a file, '.*file', expected a folder of rewardmix learn"):
        read_result(tmp_path / "file")
    with pytest.raises(InputError, match="^DIR: got a missing folder, '.*none', expected a folder of rewardmix learn"):
        read_result(tmp_path / "none")
