"""The directive ``studies``: every committed result under benchmarks/, with its commands, machines and figures.

The page is generated from the files, so it always shows every study and its current results.
"""

import ast
from pathlib import Path

from benchmarks.record import parts_of
from docutils import nodes
from pictures import make_card
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


class Studies(SphinxDirective):
    """Show a section for each study with committed results."""

    def run(self):
        """Make the sections, sorted by name."""
        return [self.make_section(path) for path in sorted((ROOT / "benchmarks").glob("*/results.jsonl"))]

    def make_section(self, path):
        """Make a section: title, command and machine of each part, figures."""
        study = path.parent.name
        self.env.note_dependency(str(path))
        section = nodes.section("", nodes.title("", study.capitalize()), ids=[f"study-{study}"])
        section += nodes.paragraph("", read_purpose(path.parent))
        for piece, (about, *rows) in parts_of(study).items():
            section += describe_part(piece, about, len(rows))
        for figure in sorted((ROOT / "docs/_figures").glob(f"{study}-*.svg")):
            name = figure.stem.removeprefix(f"{study}-")
            section += make_card(f"/_figures/{figure.name}", f"Figure of the study {study}: {name}")
        return section


def describe_part(piece, about, rows):
    """Make a paragraph with the command, machine and date of one part."""
    machine = f"{about['machine']['processor']}, {about['machine']['cores']} cores"
    return nodes.paragraph(
        "",
        "",
        nodes.Text(f"{piece.replace('_', ' ')}: {rows} {'row' if rows == 1 else 'rows'} by "),
        nodes.literal("", about["command"]),
        nodes.Text(f" on {machine}, {about['date']}."),
    )


def read_purpose(folder):
    """Return the first paragraph of the docstring of a study."""
    docstrings = [
        ast.get_docstring(ast.parse((folder / name).read_text("utf-8"))) for name in ("__init__.py", "run.py")
    ]
    return next((text.split("\n\n")[0].replace("\n", " ").replace("``", "") for text in docstrings if text), "")


def setup(app):
    """Register the directive with Sphinx."""
    app.add_directive("studies", Studies)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
