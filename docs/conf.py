"""Sphinx: everything is built from this repository, without network access."""

import sys
from pathlib import Path

from rewardmix import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "rewardmix"
author = "The rewardmix authors"
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "plain_math",
    "studies",
]
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "furo"
html_title = "rewardmix"
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
nitpicky = False


def formulas_are_literal(app, what, name, obj, options, lines):
    """Indented blocks of module docstrings are formulas: show them as they are written."""
    if what != "module":
        return
    fresh, previous = [], ""
    for line in lines:
        if line.startswith("    ") and previous and not previous.startswith(" ") and not previous.endswith("::"):
            fresh += ["::", ""]
        fresh.append(line)
        previous = line if line.strip() else previous
    lines[:] = fresh


def setup(app):
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", formulas_are_literal)
