"""Configure Sphinx; everything is built from this repository, without network access."""

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
    "api_pages",
    "http_routes",
    "constants",
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


def mark_formulas(app, what, name, obj, options, lines):
    """Read docstrings as plain text: indented blocks are formulas, and * and | are no markup."""
    escaped, previous, formula = [], "", False
    for line in lines:
        indented = line.startswith("    ") and not (escaped and escaped[-1].strip())
        if indented and previous and not previous.startswith((" ", ":", "..")) and not previous.endswith("::"):
            escaped += ["::", ""]
            formula = True
        formula = formula and (not line.strip() or line.startswith("    "))
        escaped.append(line if formula else escape_markup(line))
        previous = line if line.strip() else previous
    lines[:] = escaped


def escape_markup(line):
    """Escape what reStructuredText would read as markup, outside of ``code``."""
    pieces = line.split("``")
    for i in range(0, len(pieces), 2):
        pieces[i] = re.sub(
            r"(?<=[\w')\]])\*(?=[\w(])|(?<![\\*])\*(?=\w)(?![^*]*\*)|(?<!`)\|(?!`)", r"\\\g<0>", pieces[i]
        )
    return re.sub(r"^(\s*|:\w+ \w+: )([A-Z]\.)$", r"\1\\\2", "``".join(pieces))  # M. is a number, not a list


def setup(app):
    """Register the hook with Sphinx."""
    app.connect("autodoc-process-docstring", mark_formulas)
