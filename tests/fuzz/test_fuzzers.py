"""The fuzzers of files and nouns with a small budget; `make fuzz` gives them a large one."""

from pathlib import Path

import pytest

from fuzz import worker_processes as batches

HERE = Path(__file__).parent


@pytest.mark.parametrize(("script", "tries"), [("files.py", 600), ("constructors.py", 320)])
def test_nothing_but_refused_and_valid(script, tries):
    total = batches.fuzz(str(HERE / script), tries, seed=1)
    assert sum(total.values()) == tries
    assert set(total) <= set(batches.FINE), total
    assert all(total[name] > tries // 50 for name in batches.FINE), total


def test_crashes_hangs_and_tracebacks_are_seen(tmp_path, monkeypatch):
    """A script of tries that go wrong."""
    script = tmp_path / "wrong.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(0, {str(HERE.parent)!r})\nfrom fuzz.worker_processes import main\n"
        "def attempt(seed, number, folder):\n"
        "    if number == 1: os.abort()\n"
        "    if number == 2: raise KeyError(number)\n"
        "    return 'valid'\n"
        "main(__file__, attempt)\n"
    )
    assert batches.fuzz(str(script), 4) == {"valid": 2, "crashed": 1, "TRACEBACK": 1}
    monkeypatch.setattr(batches, "TIMEOUT_SECONDS", 0.0)
    assert batches.fuzz(str(script), 1) == {"hung": 1}
