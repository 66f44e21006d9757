"""What is written is run: code blocks, commands and the table of public names."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REGISTRIES = r"index-url|/simple\b|pythonhosted|pypi\.org/(?!project)|registry\."


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_code_blocks_run(path, tmp_path, monkeypatch):
    """All Python blocks of a page, in order, in one namespace and an empty folder."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(path), "exec"), namespace)


def test_the_readme_has_code_by_line_five_and_the_two_commands():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "```python" in lines[:5]
    assert any("make demo" in line for line in lines)
    assert any("make test" in line for line in lines)


def test_links_inside_the_repository_lead_somewhere():
    for path in PAGES:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
        for target in re.findall(
            r"`((?:docs|tests|src|benchmarks|examples)/[\w/.-]+)`", path.read_text(encoding="utf-8")
        ):
            assert (ROOT / target).exists(), f"{path.name} names {target}"


def test_every_dependency_is_pinned_and_no_registry_is_named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["dev"],
        *project["optional-dependencies"]["docs"],
    ]
    names = {re.split(r"[\[><=!~]", item)[0].lower() for item in asked} - {"rewardmix"}
    assert names <= pins, names - pins
    for name in ("constraints.txt", "pyproject.toml", "Makefile", ".ci/run"):
        assert not re.search(REGISTRIES, (ROOT / name).read_text(encoding="utf-8")), name


def test_the_version_is_the_same_everywhere():
    from rewardmix import __version__

    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_page_on_the_paper_names_every_test_of_it_and_no_other():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    tests = set(re.findall(r"^def (test_\w+)", (ROOT / "tests" / "test_paper.py").read_text(), re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named <= tests, named - tests
    assert {name for name in tests if not any(name.startswith(known) for known in named)} == set()


def test_departures_that_are_cited_are_numbered():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split("## Departures")[1]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", page, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "tests" / "test_paper.py"]
    for path in files:
        for cited in re.findall(r"departures? (\d+)(?: and (\d+))?", path.read_text(encoding="utf-8")):
            assert all(int(number) in numbers for number in cited if number), f"{path.name} cites {cited}"
