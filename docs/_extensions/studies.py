"""The directive ``studies``: every committed result under benchmarks/, with its command, machine and figures.

The page is made from the files, so a study that is added or run again cannot be forgotten or misquoted.
"""

import json
from pathlib import Path

from docutils import nodes
from pictures import card
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


class Studies(SphinxDirective):
    """A section for each study."""

    def run(self):
        """The sections, in the order of their names."""
        return [self.section(path) for path in sorted((ROOT / "benchmarks").glob("*/results*.json"))]

    def section(self, path):
        """Title, what was run where, and the figures."""
        self.env.note_dependency(str(path))
        study, about = path.parent.name, json.loads(path.read_text(encoding="utf-8"))
        title = study if path.stem == "results" else f"{study} ({path.stem})"
        section = nodes.section("", nodes.title("", title.capitalize()), ids=[f"study-{title.replace(' ', '-')}"])
        machine = about.get("machine", {})
        facts = f"{machine.get('processor', 'machine not recorded')}, {machine.get('cores', '?')} cores"
        section += nodes.paragraph(
            "",
            "",
            nodes.literal("", about.get("command", "")),
            nodes.Text(f" on {facts}, {about.get('date', '')}. Numbers: "),
            nodes.literal("", str(path.relative_to(ROOT))),
            nodes.Text("."),
        )
        drawn = [*sorted(path.parent.glob("*.svg")), *sorted((ROOT / "docs/pictures").glob(f"bench-{study}*.svg"))]
        for figure in drawn if path.stem == "results" else []:
            words = figure.stem.removeprefix("bench-").replace("-", " ").replace("_", " ")
            where = Path("/") / ".." / figure.relative_to(ROOT)
            section += card(str(where), f"Figure of the study {study}: {words}")
        return section


def setup(app):
    """Sphinx calls this."""
    app.add_directive("studies", Studies)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
