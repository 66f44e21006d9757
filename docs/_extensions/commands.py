"""The directive ``commands``: the help of every command of the command line."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from rewardmix.cli.app import COMMANDS, app


def run_help(name):
    """Return what ``rewardmix NAME --help`` prints at 100 columns."""
    from typer.testing import CliRunner

    return CliRunner().invoke(app, [name, "--help"], prog_name="rewardmix", env={"COLUMNS": "100"}).output.strip()


class Commands(SphinxDirective):
    """Show a section for each command."""

    def run(self):
        """Make the sections."""
        sections = []
        for name in COMMANDS:
            section = nodes.section(ids=[f"command-{name}"])
            section += nodes.title(text=name)
            text = run_help(name)
            section += nodes.literal_block(text, text, language="text")
            sections.append(section)
        return sections


def setup(app):
    """Register the directive with Sphinx."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
