"""The directive ``studies``: every committed result under benchmarks/, with its commands, machines and figures.

The page is made from the files, so a study that is added or run again cannot be forgotten or misquoted.
"""

import ast
from pathlib import Path

from benchmarks.record import parts_of
from docutils import nodes
from pictures import card
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


class Studies(SphinxDirective):
    """A section for each study that has committed results."""

    def run(self):
        """The sections, in the order of their names."""
        return [self.section(path) for path in sorted((ROOT / "benchmarks").glob("*/results.jsonl"))]

    def section(self, path):
        """Title, what was run where, and the figures."""
        study = path.parent.name
        self.env.note_dependency(str(path))
        section = nodes.section("", nodes.title("", study.capitalize()), ids=[f"study-{study}"])
        section += nodes.paragraph("", purpose(path.parent))
        for part, (about, *rows) in parts_of(study).items():
            section += told(part, about, len(rows))
        for figure in sorted((ROOT / "docs/_figures").glob(f"{study}-*.svg")):
            words = figure.stem.removeprefix(f"{study}-")
            section += card(f"/_figures/{figure.name}", f"Figure of the study {study}: {words}")
        return section


def told(part, about, rows):
    """One part: its command, machine and day."""
    machine = f"{about['machine']['processor']}, {about['machine']['cores']} cores"
    return nodes.paragraph(
        "",
        "",
        nodes.Text(f"{part.replace('_', ' ')}: {rows} {'row' if rows == 1 else 'rows'} by "),
        nodes.literal("", about["command"]),
        nodes.Text(f" on {machine}, {about['date']}."),
    )


def purpose(folder):
    """What the study is about, as its first line says."""
    told = [ast.get_docstring(ast.parse((folder / name).read_text("utf-8"))) for name in ("__init__.py", "run.py")]
    return next((text.split("\n\n")[0].replace("\n", " ").replace("``", "") for text in told if text), "")


def setup(app):
    """Sphinx calls this."""
    app.add_directive("studies", Studies)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
