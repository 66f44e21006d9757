"""Examples of docstrings run as written, and every public function and class is documented in full."""

import ast
import doctest
import importlib
import inspect
import itertools
from pathlib import Path

import pytest

import rewardmix

SOURCE = Path(__file__).parents[2] / "src"
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
PUBLIC = {name: getattr(rewardmix, name) for name in rewardmix.__all__}
FUNCTIONS = sorted(name for name, item in PUBLIC.items() if inspect.isfunction(item))
CLASSES = sorted(name for name, item in PUBLIC.items() if inspect.isclass(item))


def list_docstrings(node, name):
    """Yield (dotted name, docstring) of a module and everything in it; the source lists compiled kernels too."""
    if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
        yield name, text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DOCUMENTED):
            yield from list_docstrings(child, f"{name}.{child.name}")
        elif not isinstance(child, ast.expr):  # definitions below ``if`` or ``with``
            yield from list_docstrings(child, name)


def list_examples():
    """Yield (module, dotted name, docstring) of every docstring with an example."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for name, text in list_docstrings(ast.parse(path.read_text(encoding="utf-8")), module):
            if ">>>" in text:
                yield module, name, text


EXAMPLES = list(list_examples())


@pytest.mark.parametrize(("module", "name", "text"), EXAMPLES, ids=[name for _, name, _ in EXAMPLES])
def test_examples_of_docstrings_run(module, name, text, tmp_path, monkeypatch):
    """Run in an empty folder, with the names of the module."""
    monkeypatch.chdir(tmp_path)
    names = dict(vars(importlib.import_module(module)))
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    messages = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(example, out=messages.append)
    assert tried > 0
    assert failed == 0, "".join(messages)


def test_examples_are_found_in_every_file_that_has_one():
    files = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if ">>>" in path.read_text("utf-8")}
    found = {inspect.getsourcefile(importlib.import_module(module)) for module, _, _ in EXAMPLES}
    assert {str(Path(path).relative_to(SOURCE)) for path in found} == files
    assert len(EXAMPLES) > 30


def sections_of(documented):
    """Return the sections of a docstring in the style of Google, such as Args."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    return {line.removesuffix(":") for line, below in itertools.pairwise(lines) if below.startswith("    ")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_are_documented(name):
    function = PUBLIC[name]
    parameters = inspect.signature(function).parameters
    expected = {"Examples", *(["Args"] if parameters else [])}
    if inspect.signature(function).return_annotation not in (None, "None"):
        expected.add("Returns")
    assert expected <= sections_of(function), f"{name} lacks {expected - sections_of(function)}"
    text = inspect.getdoc(function)
    missing = [parameter for parameter in parameters if f"    {parameter}:" not in text.replace("*", "")]
    assert not missing, f"{name} does not describe {', '.join(missing)}"


@pytest.mark.parametrize("name", CLASSES)
def test_public_classes_are_documented(name):
    missing = {"Attributes", "Examples"} - sections_of(PUBLIC[name])
    assert not missing, f"{name} lacks {', '.join(sorted(missing))}"
