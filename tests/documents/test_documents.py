"""Run the code blocks of the pages, and check outputs, links, pictures and the list of public names."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from documents.document_blocks import FENCE, SHELL, agrees, run_blocks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
REGISTRIES = r"-url\b|https?://\S*/(simple|packages)\b"


def name_of(path):
    return str(path.relative_to(ROOT))


def pages_with(*languages):
    return [path for path in PAGES if any(kind in languages for kind, _ in FENCE.findall(path.read_text("utf-8")))]


@pytest.mark.parametrize("path", pages_with("python", *SHELL), ids=name_of)
def test_code_blocks_run(path, tmp_path, monkeypatch):
    """Run in an empty folder and compare the outputs; ``document_blocks.py PAGE`` rewrites them."""
    monkeypatch.chdir(tmp_path)
    for block, printed in run_blocks(path):
        assert agrees(block[2], printed), f"{name_of(path)} shows\n{block[2]}\nbut this was printed:\n{printed}"


def test_the_readme_has_code_by_line_five_and_the_two_commands():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "```python" in lines[:5]
    assert any("make demo" in line for line in lines)
    assert any("make test" in line for line in lines)


def test_the_readme_starts_with_an_example_its_output_and_a_figure():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (first, code), (second, _) = FENCE.findall(text)[:2]
    assert (first, second) == ("python", "text")
    assert len(code.splitlines()) <= 10
    assert text.index("](docs/pictures/") < text.index("\n## ")


def prose_of(path):
    """Return the text of a page without code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE))


def anchors_of(path):
    """Return the anchors that MyST and GitHub make of headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_have_targets(path):
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", prose_of(path)):
        place, _, anchor = target.partition("#")
        page = path.parent / place if place else path
        assert page.exists(), f"{name_of(path)} links to {target}"
        if anchor and page.suffix == ".md":
            assert anchor in anchors_of(page), f"{name_of(path)} links to {target}; there is {sorted(anchors_of(page))}"
    for target in re.findall(r"`((?:docs|tests|src|benchmarks|examples)/[\w/.-]+)`", path.read_text("utf-8")):
        assert (ROOT / target).exists(), f"{name_of(path)} names {target}"


def test_the_build_finds_dead_links_foreign_hosts_and_images_without_alternative_text(tmp_path, monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    from self_contained import find_faults

    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="#top"></a><img src="x.svg" alt="x"><p id="top">'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://example.org/x">')
    assert list(find_faults(tmp_path)) == []
    (tmp_path / "b.html").write_text('<p id="there"><a href="c.html"></a><img src="https://example.org/y.svg">')
    assert list(find_faults(tmp_path)) == [
        "a.html links to b.html#here: that page has no such anchor",
        "b.html loads https://example.org/y.svg",
        "b.html shows https://example.org/y.svg without an alternative text",
        "b.html links to c.html, which is not there",
    ]


def test_pictures_are_drawn_if_and_only_if_a_page_shows_them():
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

    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/reference").glob("*.md")))
    listed = re.findall(r"^api/rewardmix\.(\w+)(?:-class)?$", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {*rewardmix.__all__, "service"} - {"__version__"}


def test_the_pages_of_public_objects_fit_their_kinds(tmp_path, monkeypatch):
    """Check the directive of functions, classes and modules; entries that differ in case only get different files."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    import api_pages

    entries = api_pages.list_entries(ROOT / "docs" / "reference")
    assert len({entry.lower() for entry in entries}) == len(entries) == len(set(entries.values()))
    for name, directive in (
        ("rewardmix.plan", "autofunction"),
        ("rewardmix.Plan", "autoclass"),
        ("rewardmix.theory", "automodule"),
    ):
        text = api_pages.make_page(name, api_pages.find_object(name), [])
        assert f".. {directive}:: {name}" in text
    assert ":exclude-members: plan\n" in api_pages.make_page(
        "rewardmix.planning", api_pages.find_object("rewardmix.planning"), [api_pages.find_object("rewardmix.plan")]
    )


def test_the_page_of_constants_reads_docstrings_and_comments():
    from docs.tuned_constants import collect_constants, list_constants

    source = '''
A = 1.5
"""Set by a study.

Insensitive."""
# Above.
B = -2 ** 3
C = (1, 2.0)  # beside
NAMES = ("a", "b")
ALIAS = A
lower = 3
D: float = 1.0
'''
    constants = [(name, value, text) for _, name, value, text in list_constants(source, "a.py")]
    assert constants == [
        ("A", "1.5", "Set by a study. Insensitive."),
        ("B", "-2 ** 3", "Above."),
        ("C", "(1, 2.0)", "beside"),
        ("D", "1.0", ""),
    ]
    tables = collect_constants()
    assert {"", "recovery", "planning"} <= tables.keys()
    assert sum(map(len, tables.values())) > 200


def list_described_values():
    """Yield (place, text) of every Returns section, and of the first paragraph of every property."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                returned = re.search(r"^Returns:\n((?: {4}.*\n?)+)", text, re.MULTILINE)
                kinds = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
                texts = [returned[1]] if returned else []
                texts += [text.split("\n\n")[0]] if kinds & {"property", "cached_property"} else []
                yield from ((f"{path.name}: {node.name}", text) for text in texts)


def test_the_reference_reads_no_sentence_as_a_type():
    """Napoleon reads the text before a colon as a type."""
    described = list(list_described_values())
    assert len(described) > 200
    for place, text in described:
        before, colon, _ = text.partition(":")
        sentence = colon and re.search(r"[.;]\s|^\s*[A-Z][a-z]", before)
        assert not sentence, f"{place} has a sentence before its colon: {text}"


def test_every_dependency_is_pinned_and_no_registry_is_named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    requirements = [
        *project["dependencies"],
        *project["optional-dependencies"]["dev"],
        *project["optional-dependencies"]["docs"],
    ]
    names = {re.split(r"[\[><=!~]", requirement)[0].lower() for requirement in requirements} - {"rewardmix"}
    assert names <= pins, names - pins
    for name in ("constraints.txt", "pyproject.toml", "Makefile", ".ci/run"):
        assert not re.search(REGISTRIES, (ROOT / name).read_text(encoding="utf-8")), name


def test_the_version_is_the_same_everywhere():
    from rewardmix import __version__

    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_page_on_the_paper_names_every_test_of_it_and_no_other():
    page = (ROOT / "docs" / "concepts" / "paper-and-code.md").read_text(encoding="utf-8")
    tests = set(re.findall(r"^def (test_\w+)", (ROOT / "tests" / "system" / "test_paper.py").read_text(), re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named <= tests, named - tests
    assert {name for name in tests if not any(name.startswith(prefix) for prefix in named)} == set()


def test_departures_that_are_cited_are_numbered():
    page = (ROOT / "docs" / "concepts" / "paper-and-code.md").read_text(encoding="utf-8").split("## Departures")[1]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", page, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "tests" / "system" / "test_paper.py"]
    for path in files:
        for cited in re.findall(r"[Dd]epartures? (\d+)(?: and (\d+))?", path.read_text(encoding="utf-8")):
            assert all(int(number) in numbers for number in cited if number), f"{path.name} cites {cited}"


def test_pages_that_the_code_cites_exist():
    """Docstrings and comments cite pages by path; a page that moves takes its citations along."""
    cited = {
        (path.name, page)
        for folder in ("src", "tests", "benchmarks", "examples", "tools")
        for path in (ROOT / folder).rglob("*.py")
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 5
    assert [(name, page) for name, page in sorted(cited) if not (ROOT / page).exists()] == []
