"""The directive ``picture``: an image on a light card that can be moved sideways where the screen is narrow."""

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


def setup(app):
    """Sphinx calls this."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
