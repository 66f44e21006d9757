"""The directive ``studies``: every committed result under benchmarks/, with its command, machine and figures.

The page is made from the files, so a study that is added or run again cannot be forgotten or misquoted.
"""

import ast
import json
from pathlib import Path

from docutils import nodes
from pictures import card
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


class Studies(SphinxDirective):
    """A section for each study that has committed results."""

    def run(self):
        """The sections, in the order of their names."""
        folders = sorted({path.parent for path in (ROOT / "benchmarks").glob("*/*.json")})
        return [self.section(folder) for folder in folders]

    def section(self, folder):
        """Title, what was run where, and the figures: the study's own, then those of docs/pictures."""
        study = folder.name
        section = nodes.section("", nodes.title("", study.capitalize()), ids=[f"study-{study}"])
        section += nodes.paragraph("", purpose(folder))
        for path in sorted(folder.glob("*.json")):
            section += self.results(path)
        for figure in [*sorted(folder.glob("*.svg")), *sorted((ROOT / "docs/pictures").glob(f"bench-{study}*.svg"))]:
            words = figure.stem.removeprefix("bench-").replace("-", " ").replace("_", " ")
            where = Path("/") / ".." / figure.relative_to(ROOT)
            section += card(str(where), f"Figure of the study {study}: {words}")
        return section

    def results(self, path):
        """One file: its command, machine and day."""
        self.env.note_dependency(str(path))
        about = json.loads(path.read_text(encoding="utf-8"))
        machine = about.get("machine", {})
        facts = f"{machine.get('processor', 'a machine not recorded')}, {machine.get('cores', '?')} cores"
        return nodes.paragraph(
            "",
            "",
            nodes.literal("", str(path.relative_to(ROOT))),
            nodes.Text(" by "),
            nodes.literal("", about.get("command", "an unrecorded command")),
            nodes.Text(f" on {facts}, {about.get('date', 'day not recorded')}."),
        )


def purpose(folder):
    """What the study is about, as its first line says."""
    told = [ast.get_docstring(ast.parse((folder / name).read_text("utf-8"))) for name in ("__init__.py", "run.py")]
    return next((text.split("\n\n")[0].replace("\n", " ").replace("``", "") for text in told if text), "")


def setup(app):
    """Sphinx calls this."""
    app.add_directive("studies", Studies)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
