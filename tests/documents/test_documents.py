"""What is written is run: code blocks, commands, outputs, links and the table of public names."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from document_blocks import FENCE, SHELL, agrees, outputs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
REGISTRIES = r"-url\b|https?://\S*/(simple|packages)\b"


def name_of(path):
    return str(path.relative_to(ROOT))


def pages_with(*languages):
    return [path for path in PAGES if any(kind in languages for kind, _ in FENCE.findall(path.read_text("utf-8")))]


@pytest.mark.parametrize("path", pages_with("python", *SHELL), ids=name_of)
def test_code_blocks_run(path, tmp_path, monkeypatch):
    """In an empty folder; outputs are as shown. ``python tests/document_blocks.py PAGE`` writes them anew."""
    monkeypatch.chdir(tmp_path)
    for found, printed in outputs(path):
        assert agrees(found[2], printed), f"{name_of(path)} shows\n{found[2]}\nbut this was printed:\n{printed}"


def test_the_readme_has_code_by_line_five_and_the_two_commands():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "```python" in lines[:5]
    assert any("make demo" in line for line in lines)
    assert any("make test" in line for line in lines)


def test_the_readme_begins_with_a_sentence_ten_lines_their_output_and_a_figure():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (first, code), (second, _) = FENCE.findall(text)[:2]
    assert (first, second) == ("python", "text")
    assert len(code.splitlines()) <= 10
    assert text.index("](docs/pictures/") < text.index("\n## ")


def prose_of(path):
    """The text of a page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE))


def anchors_of(path):
    """The anchors that MyST and GitHub make of headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", prose_of(path)):
        place, _, anchor = target.partition("#")
        page = path.parent / place if place else path
        assert page.exists(), f"{name_of(path)} links to {target}"
        if anchor and page.suffix == ".md":
            assert anchor in anchors_of(page), f"{name_of(path)} links to {target}; there is {sorted(anchors_of(page))}"
    for target in re.findall(r"`((?:docs|tests|src|benchmarks|examples)/[\w/.-]+)`", path.read_text("utf-8")):
        assert (ROOT / target).exists(), f"{name_of(path)} names {target}"


def test_the_build_finds_dead_places_foreign_loads_and_images_without_words(tmp_path, monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    from self_contained import faults

    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="#top"></a><img src="x.svg" alt="x"><p id="top">'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://example.org/x">')
    assert list(faults(tmp_path)) == []
    (tmp_path / "b.html").write_text('<p id="there"><a href="c.html"></a><img src="https://example.org/y.svg">')
    assert list(faults(tmp_path)) == [
        "a.html links to b.html#here: that page has no such place",
        "b.html loads https://example.org/y.svg",
        "b.html shows https://example.org/y.svg without words for those who do not see it",
        "b.html links to c.html, which is not there",
    ]


def test_every_picture_that_is_drawn_is_shown_and_every_one_shown_is_drawn():
    make = pytest.importorskip("docs.pictures.make", reason="needs rewardmix[docs]", exc_type=ImportError)
    shown = {
        name for path in PAGES for name in re.findall(r"\{picture\} _figures/([\w-]+)\.svg", path.read_text("utf-8"))
    }
    assert shown <= make.names()
    listed = {path.parent.name for path in (ROOT / "benchmarks").glob("*/results.jsonl")}  # on the page of benchmarks
    assert {name for name in make.names() - shown if name.partition("-")[0] not in listed} == set()
    committed = (ROOT / "docs/pictures/shop.svg").read_text(encoding="utf-8")
    assert "http-equiv" not in committed


def test_every_public_name_is_in_the_reference():
    import rewardmix
    from rewardmix import HOME

    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md")))
    modules = re.findall(r"automodule:: ([\w.]+)", text)
    single = set(re.findall(r"auto(?:function|class|exception|data):: [\w.]+\.(\w+)", text))
    for name, home in HOME.items():
        if home and name not in single:
            module = getattr(rewardmix, name).__module__
            assert any(module == known or module.startswith(known + ".") for known in modules), f"{name} of {module}"


def read_as_types():
    """(place, text) of what the reference takes for a type: all before a colon in Returns or in a property."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                told = ast.get_docstring(node) or ""
                returned = re.search(r"^Returns:\n((?: {4}.*\n?)+)", told, re.MULTILINE)
                kinds = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
                words = [returned[1]] if returned else []
                words += [told.split("\n\n")[0]] if kinds & {"property", "cached_property"} else []
                yield from ((f"{path.name}: {node.name}", text.partition(":")[0]) for text in words if ":" in text)


def test_the_reference_takes_no_sentence_for_a_type():
    found = list(read_as_types())
    assert len(found) > 20
    for place, text in found:
        assert not re.search(r"[.;]\s|^\s*[A-Z][a-z]", text), f"{place} has a sentence before its colon: {text}"


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
        for cited in re.findall(r"[Dd]epartures? (\d+)(?: and (\d+))?", path.read_text(encoding="utf-8")):
            assert all(int(number) in numbers for number in cited if number), f"{path.name} cites {cited}"
