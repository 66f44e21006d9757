"""Check that every test has exactly one marker, so that runs by marker together leave out nothing."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARKERS = {"unit", "statistical", "fuzz", "system", "documents", "machines"}


def test_every_collected_test_has_one_marker(request):
    wrong = {
        item.nodeid: names
        for item in request.session.items
        if len(names := {mark.name for mark in item.iter_markers()} & MARKERS) != 1
    }
    assert not wrong


def test_markers_are_declared_and_explained():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    assert {line.partition(":")[0] for line in declared} == MARKERS
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert all(f"| `{marker}` |" in page for marker in MARKERS)


def test_files_with_a_marker_of_their_own_exist(request):
    (plugin,) = [item for item in request.config.pluginmanager.get_plugins() if hasattr(item, "FOLDERS")]
    assert all((ROOT / "tests" / path).exists() for path in (*plugin.FILES, *plugin.FOLDERS))
    assert {*plugin.FILES.values(), *plugin.FOLDERS.values()} <= set(plugin.MARKERS) == MARKERS
