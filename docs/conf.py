"""Sphinx: everything is built from this repository, without network access."""

import re
import sys
from pathlib import Path

from sphinx.util.inspect import TypeAliasForwardRef

from rewardmix import __version__

sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(Path(__file__).parents[1])]
TypeAliasForwardRef.__repr__ = lambda self: self.name  # Floats | None, not the name of a class of Sphinx

project = "rewardmix"
author = "The rewardmix authors"
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "plain_math",
    "pictures",
    "commands",
    "sample",
    "self_contained",
    "studies",
]
html_math_renderer = "mathml"
highlight_language = "none"  # formulas and commands that are set in are not Python; fences name their language
html_static_path = ["_static"]
html_extra_path = ["_sample"]  # filled by the extension ``sample``, which runs later than Sphinx looks for it
(Path(__file__).parent / "_sample").mkdir(exist_ok=True)
html_css_files = ["site.css"]
html_theme = "furo"
html_title = "rewardmix"
html_show_copyright = False
exclude_patterns = ["_build", "_sample"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_type_aliases = {"Floats": "Floats", "Counts": "Counts", "ArrayLike": "ArrayLike"}
napoleon_use_ivar = True
nitpicky = False


def formulas_are_literal(app, what, name, obj, options, lines):
    """Docstrings are plain text: blocks set in by four spaces are formulas, and * and | mean themselves."""
    fresh, previous, formula = [], "", False
    for line in lines:
        begins = line.startswith("    ") and not (fresh and fresh[-1].strip())
        if begins and previous and not previous.startswith((" ", ":", "..")) and not previous.endswith("::"):
            fresh += ["::", ""]
            formula = True
        formula = formula and (not line.strip() or line.startswith("    "))
        fresh.append(line if formula else plain(line))
        previous = line if line.strip() else previous
    lines[:] = fresh


def plain(line):
    """Escape what reStructuredText would take for marks, outside of ``code``."""
    parts = line.split("``")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<=[\w')\]])\*(?=[\w(])|(?<![\\*])\*(?=\w)(?![^*]*\*)|(?<!`)\|(?!`)", r"\\\g<0>", parts[i])
    return re.sub(r"^(\s*|:\w+ \w+: )([A-Z]\.)$", r"\1\\\2", "``".join(parts))  # M. is a number, not a list


def setup(app):
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", formulas_are_literal)
