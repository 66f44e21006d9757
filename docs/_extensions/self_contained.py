"""Check the built pages: nothing is loaded from other hosts, links have targets, images have alternative texts."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from sphinx.errors import SphinxError

LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """Collect what a page loads, its links, its anchors and its images without alternative text."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.anchors, self.unlabeled = [], [], {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Collect from one tag."""
        values = dict(attributes)
        if values.get(LOADS.get(tag, "")):
            self.loads.append(values[LOADS[tag]])
        if tag == "img" and not values.get("alt"):
            self.unlabeled.append(values.get("src"))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if values.get("id"):
            self.anchors.add(values["id"])


def find_faults(folder):
    """Yield a sentence for each fault of the pages of a folder."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        yield from (f"{name} loads {target}" for target in page.loads if target.startswith(("http:", "https:", "//")))
        yield from (f"{name} shows {target} without an alternative text" for target in page.unlabeled)
        for target in page.links:
            place, _, anchor = unquote(target).partition("#")
            if target.startswith(("http:", "https:", "mailto:")) or path.name in ("search.html", "genindex.html"):
                continue
            other = (path.parent / place).resolve() if place else path
            if not other.exists():
                yield f"{name} links to {target}, which is not there"
            elif name.parts[0] == "_modules":  # sources know one name for each module, and the reference has two
                continue
            elif other in pages and anchor not in pages[other].anchors:
                yield f"{name} links to {target}: that page has no such anchor"


def check(app, error):
    """Fail the build if a page has a fault."""
    if error is None and app.builder.name == "html":
        faults = list(find_faults(Path(app.outdir).resolve()))
        if faults:
            raise SphinxError(f"{len(faults)} faults in the built pages: " + "; ".join(faults[:10]))


def setup(app):
    """Check the pages when the build is finished."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
