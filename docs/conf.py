"""Sphinx: everything is built from this repository, without network access."""

from rewardmix import __version__

project = "rewardmix"
author = "The rewardmix authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
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
