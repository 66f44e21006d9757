"""One page for each public object, generated before the pages are read.

The group pages under ``reference/`` list the objects in their contents, as ``api/rewardmix.NAME``. The page of an
object holds an autodoc directive that fits its kind. A module's page leaves out what has a page of its own.

``-class`` at the end of an entry tells a class from a function whose name differs in case only, because some file
systems do not.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

ENTRY = re.compile(r"^api/([\w.]+?)(-class)?$", re.MULTILINE)


def list_entries(reference):
    """Return {entry: dotted name} of all group pages."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(reference.glob("*.md")))
    return {found[0].removeprefix("api/"): found[1] for text in texts for found in ENTRY.finditer(text)}


def find_object(name):
    """Import the object with a dotted name."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        home, _, last = name.rpartition(".")
        return getattr(find_object(home), last)


def make_page(name, found, others):
    """Return the text of the page of one object; ``others``: objects with a page of their own."""
    if inspect.ismodule(found):
        public = getattr(found, "__all__", ())
        listed = [member for member in public if any(getattr(found, member) is other for other in others)]
        # without __all__ the imported members would include typing.Any and the like
        options = [":members:"] + [":imported-members:"] * bool(public)
        options += [f":exclude-members: {', '.join(listed)}"] * bool(listed)
        directive = f".. automodule:: {name}"
    elif inspect.isclass(found):
        kind = "autoexception" if issubclass(found, BaseException) else "autoclass"
        options, directive = [":members:"], f".. {kind}:: {name}"
    elif callable(found):
        options, directive = [], f".. autofunction:: {name}"
    else:
        options, directive = [], f".. autodata:: {name}"
    lines = [directive, *(f"   {option}" for option in options)]
    return "\n".join([f"# {name}", "", "```{eval-rst}", *lines, "```", ""])


def write_pages(app):
    """Write the pages, and delete those of objects that are no longer listed."""
    folder = Path(app.confdir) / "reference" / "api"
    folder.mkdir(exist_ok=True)
    entries = list_entries(folder.parent)
    objects = {name: find_object(name) for name in entries.values()}
    others = [found for found in objects.values() if not inspect.ismodule(found)]
    for entry, name in entries.items():
        path, text = folder / f"{entry}.md", make_page(name, objects[name], others)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not read again
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.md"):
        if path.stem not in entries:
            path.unlink()


def setup(app):
    """Write the pages when the builder starts."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
