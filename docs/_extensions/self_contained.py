"""After the build: pages load nothing from elsewhere, links lead to a page and a place there, images have words."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from sphinx.errors import SphinxError

LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """What a page loads, links to, and can be linked at."""

    def __init__(self, path):
        super().__init__()
        self.loads, self.links, self.places, self.mute = [], [], {""}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Collect."""
        found = dict(attributes)
        if found.get(LOADS.get(tag, "")):
            self.loads.append(found[LOADS[tag]])
        if tag == "img" and not found.get("alt"):
            self.mute.append(found.get("src"))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if found.get("id"):
            self.places.add(found["id"])


def faults(folder):
    """A sentence for everything that is wrong with the pages of a folder."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        yield from (f"{name} loads {target}" for target in page.loads if target.startswith(("http:", "https:", "//")))
        yield from (f"{name} shows {target} without words for those who do not see it" for target in page.mute)
        for target in page.links:
            place, _, anchor = unquote(target).partition("#")
            if target.startswith(("http:", "https:", "mailto:")) or path.name in ("search.html", "genindex.html"):
                continue
            other = (path.parent / place).resolve() if place else path
            if not other.exists():
                yield f"{name} links to {target}, which is not there"
            elif name.parts[0] == "_modules":  # sources know one name for each module, and the reference has two
                continue
            elif other in pages and anchor not in pages[other].places:
                yield f"{name} links to {target}: that page has no such place"


def check(app, error):
    """Fail the build on the first faults."""
    if error is None and app.builder.name == "html":
        found = list(faults(Path(app.outdir).resolve()))
        if found:
            raise SphinxError(f"{len(found)} faults in the built pages: " + "; ".join(found[:10]))


def setup(app):
    """Sphinx calls this."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
