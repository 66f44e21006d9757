"""Pictures are drawn before the pages are read, and shown by the directive ``picture``.

It puts an image on a light card that can be moved sideways where the screen is narrow.
"""

from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective


def card(path, words):
    """The image in its box."""
    return nodes.container("", nodes.image("", uri=path, alt=words), classes=["picture"])


class Picture(SphinxDirective):
    """``path`` with ``:alt:`` words for those who do not see it."""

    required_arguments = 1
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012 - docutils reads it, nobody writes it

    def run(self):
        """One box."""
        return [card(self.arguments[0], self.options["alt"])]


def draw(app):
    """Draw everything that is missing or older than what it is drawn from."""
    root = Path(app.confdir).parent
    from docs.pictures import make

    sources = [
        *root.glob("benchmarks/*/results.jsonl"),
        *root.glob("benchmarks/**/*.py"),
        *root.glob("docs/pictures/*.py"),
    ]
    drawn = [make.BUILT / f"{name}.svg" for name in make.names()]
    newest = max(path.stat().st_mtime for path in sources)
    if not all(path.is_file() and path.stat().st_mtime >= newest for path in drawn):
        make.draw()


def setup(app):
    """Sphinx calls this."""
    app.connect("builder-inited", draw)
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
