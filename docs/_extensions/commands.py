"""The directive ``commands``: the help of every command of the command line, as it prints it."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from rewardmix.cli.app import COMMANDS, app


def help_of(name):
    """What ``rewardmix NAME --help`` prints, 100 columns wide."""
    from typer.testing import CliRunner

    return CliRunner().invoke(app, [name, "--help"], prog_name="rewardmix", env={"COLUMNS": "100"}).output.strip()


class Commands(SphinxDirective):
    """A section for each command."""

    def run(self):
        """All of them."""
        found = []
        for name in COMMANDS:
            section = nodes.section(ids=[f"command-{name}"])
            section += nodes.title(text=name)
            text = help_of(name)
            section += nodes.literal_block(text, text, language="text")
            found.append(section)
        return found


def setup(app):
    """Sphinx calls this."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
