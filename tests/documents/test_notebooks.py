"""Run the notebooks from the first cell to the last.

The code cells are plain Python and run in order in a separate process; a Jupyter kernel would add a dozen packages
without testing more. The value of the last expression of a cell is shown as in a notebook.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))

SHOW = """
def _shown(value):
    html = getattr(value, "_repr_html_", None)
    print(html() if html and not isinstance(value, type) else repr(value))
"""


def script_of(cells):
    """Join the code cells to one program that shows the value of an expression at the end of a cell."""
    statements = ["import matplotlib", "matplotlib.use('Agg')", SHOW]
    for source in cells:
        tree = ast.parse(source)
        if isinstance(tree.body[-1], ast.Expr):
            tree.body[-1] = ast.parse(f"_shown({ast.unparse(tree.body[-1].value)})").body[0]
        statements.append(ast.unparse(tree))
    return "\n".join(statements)


def code_of(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return notebook, ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["first_hour", "own_table"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path):
    _, cells = code_of(path)
    if any("LatentClassMixture" in cell for cell in cells) and not os.environ.get("CI"):
        pytest.importorskip("sklearn", reason="the extra dev has scikit-learn")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script_of(cells)],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path.parent), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<div>") >= 1
    assert "nan" not in done.stdout.lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path):
    notebook, _ = code_of(path)
    for cell in notebook["cells"]:
        assert cell["id"]
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_a_cell_that_fails_is_noticed():
    done = subprocess.run([sys.executable, "-c", script_of(["1 / 0"])], capture_output=True, check=False)
    assert done.returncode != 0
