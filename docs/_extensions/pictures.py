"""Draw the pictures before the pages are read; the directive ``picture`` shows one.

The image has a light background and scrolls sideways on narrow screens.
"""

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective


def make_card(path, alt):
    """Make an image in a box."""
    return nodes.container("", nodes.image("", uri=path, alt=alt), classes=["picture"])


class Picture(SphinxDirective):
    """Show ``path``, relative to the folder of the documents, with ``:alt:`` as its text."""

    required_arguments = 1
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self):
        """Make the box."""
        return [make_card(f"/{self.arguments[0]}", self.options["alt"])]


def draw(app):
    """Draw all pictures if one is missing or older than its sources."""
    root = Path(app.confdir).parent
    from docs.pictures import make

    sources = [
        *root.glob("benchmarks/*/results.jsonl"),
        *root.glob("benchmarks/**/*.py"),
        *root.glob("docs/pictures/*.py"),
    ]
    pictures = [make.BUILT / f"{name}.svg" for name in make.names()]
    newest = max(path.stat().st_mtime for path in sources)
    if not all(path.is_file() and path.stat().st_mtime >= newest for path in pictures):
        make.draw()


def setup(app):
    """Register the directive with Sphinx."""
    app.connect("builder-inited", draw)
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
