"""The directive ``tuned-constants``: a table of numeric constants for each package of the source."""

from docs.tuned_constants import SOURCE, collect_constants
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

COLUMNS = {"name": 30, "value": 15, "study and sensitivity": 55}


def make_table(constants):
    """Make the table of one package."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in COLUMNS.values()), cols=len(COLUMNS))
    head = nodes.row("", *(nodes.entry("", nodes.paragraph(text=name)) for name in COLUMNS))
    group += nodes.thead("", head)
    body = nodes.tbody()
    for constant in constants:
        name = nodes.paragraph("", "", nodes.literal(text=constant.name), nodes.Text(f" ({constant.file})"))
        value = nodes.paragraph("", "", nodes.literal(text=constant.value))
        text = nodes.paragraph(text=constant.text.replace("``", ""))
        body += nodes.row("", *(nodes.entry("", part) for part in (name, value, text)))
    group += body
    return nodes.table("", group)


class TunedConstants(SphinxDirective):
    """Show a section with a table for each package."""

    def run(self):
        """Make the sections."""
        sections = []
        for package, constants in collect_constants().items():
            title = package or "rewardmix"
            section = nodes.section("", nodes.title(text=title), ids=[f"constants-{nodes.make_id(title)}"])
            section += make_table(constants)
            sections.append(section)
        for path in SOURCE.rglob("*.py"):
            self.env.note_dependency(str(path))
        return sections


def setup(app):
    """Register the directive with Sphinx."""
    app.add_directive("tuned-constants", TunedConstants)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
