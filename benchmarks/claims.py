"""Every measured number on a page points to a committed result and to the command that makes it.

A paragraph, a point of a list or a table that holds one carries one of these marks (without a blank line between):

    <!-- see FILE, FILE -->               its numbers are in these files
    <!-- see FILE: name; part/of/it -->   its numbers are in a fact of ``benchmarks.facts``, or in a part of the file
    <!-- see output above -->             its numbers are in an output of the page, which ``tests`` makes again
    <!-- no measurement: why -->          it has numbers, but nothing was measured

or lies between ``<!-- from FILE: name -->`` and ``<!-- end -->`` and is made by ``benchmarks.pages``. The section of a
``see`` shows the files and their commands. A number agrees with a value to which it can be rounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.facts import FACTS
from benchmarks.record import found_in, results_of, stored

END = "<!-- end -->"
FROM = re.compile(
    rf"(?P<mark><!-- from (?P<files>[^:>]+): (?P<name>[\w.]+) -->)\n(?P<body>.*?){re.escape(END)}", re.DOTALL
)
SEE = re.compile(r"<!-- see (?!output above)(?P<files>[^:>]+?)(?:: (?P<parts>[^>]+?))? -->")
PRINTED = "<!-- see output above -->"
EXEMPT = re.compile(r"<!-- no measurement: \S.*?-->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)

TAIL = r"(?!\w)|(?=(?:x|s|ms|[kM]|[kMG]i?B)\b)"
NUMBER = re.compile(
    rf"(?<![\w.])[-−]?(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)?(?:(?<=\d)|(?=\.\d))(?:\.\d+)?(?:e[+-]?\d+)?(?:{TAIL})"
)
SCALES = {"%": 0.01, "percent": 0.01, "thousand": 1e3, "million": 1e6, "billion": 1e9}
SPELLED = "two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|forty|fifty|hundred|thousand|million|billion"
LENGTHS = r"%|percent|(?:CPU-)?(?:milli)?seconds?|minutes?|hours?|times|fold|faster|slower"
UNITS = (
    rf"{LENGTHS}|[kM]?s|ms|µs|x|×|[KMG]iB|[kMG]B|bytes?|rows|episodes|sessions|clicks|worlds|runs|seeds|splits|nats|"
    r"points|more|fewer"
)
WORDS = r"shares?|regret|lift|ratio|speed|memory|errors?|interval|goal|faster|slower"
MEASURED = re.compile(
    rf"{NUMBER.pattern}[\s-]?(?:(?:thousand|million|billion)\s)?(?:{UNITS})(?![\w'])|"
    rf"\b(?:{SPELLED})[\s-](?:{LENGTHS})(?![\w'])|"
    rf"\b(?:{WORDS})\b[^.\d|]{{0,25}}{NUMBER.pattern}|"
    r"(?<![\w.,/])\d*\.\d+(?![\w.])",
    re.IGNORECASE,
)
CELL = re.compile(rf"^[\s*]*(?:{NUMBER.pattern})(?:\s*(?:±|to|of|{UNITS})\s*(?:{NUMBER.pattern})?)*[\s*]*$")


@dataclass(frozen=True)
class Block:
    """A paragraph, a point of a list or a table, with the section and the text of the page before it."""

    line: int
    text: str
    section: str
    before: str

    @property
    def prose(self) -> str:
        """Without marks, code, formulas, targets of links and the 1 of 1/ε."""
        bare = re.sub(r"(?<![\w.,])1/(?=[^\W\d]|√)", "", COMMENT.sub("", self.text))
        return re.sub(r"`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)]*\)|https?://\S+", " ", bare, flags=re.DOTALL)

    @property
    def measured(self) -> str:
        """The first number that looks measured, or nothing."""
        found = MEASURED.search(self.prose)
        if found:
            return found[0].strip()
        rows = [line.strip().strip("|").split("|") for line in self.prose.splitlines() if line.lstrip().startswith("|")]
        return next((cell.strip() for row in rows for cell in row if CELL.match(cell)), "")


def blocks(text: str) -> Iterator[Block]:
    """What a page says outside of code and of what is made from results."""
    bare = FROM.sub(lambda found: "\n" * found[0].count("\n"), FENCE.sub(lambda f: "\n" * f[0].count("\n"), text))
    starts = [0, *(found.start() for found in re.finditer(r"^#{1,6} ", blanked(text), re.MULTILINE)), len(text)]
    lines, whole = bare.split("\n"), text.split("\n")
    offsets = [0]
    for line in whole:
        offsets.append(offsets[-1] + len(line) + 1)
    for first, last in spans(lines):
        at = max(start for start in starts if start <= offsets[first])
        section = text[at : min(start for start in [*starts, len(text) + 1] if start > offsets[first])]
        yield Block(first + 1, "\n".join(lines[first:last]), COMMENT.sub("", section), text[: offsets[first]])


def blanked(text: str) -> str:
    """Without the signs of headings inside of code, at the same length."""
    return FENCE.sub(lambda found: found[0].replace("#", " "), text)


def spans(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(first, one behind the last) line of every block; code that is set in is none, headings are none."""
    first = None
    for i, line in enumerate([*lines, ""]):
        ends = not line.strip() or line.startswith("#") or re.match(r"\s*(?:[-*]|\d+\.) ", line) is not None
        if first is not None and ends:
            if not lines[first].startswith("    "):
                yield first, i
            first = None
        if first is None and line.strip() and not line.startswith("#"):
            first = i


def faults(page: str, text: str, root: Path) -> Iterator[str]:
    """A sentence for every number of a page that cannot be traced."""
    for opened in re.finditer("<!-- from ", FROM.sub("", text)):
        yield f"{page}: a mark without its end: {FROM.sub('', text)[opened.start() :][:60]!r}"
    for block in blocks(text):
        where = f"{page}, line {block.line}"
        for found in SEE.finditer(block.text):
            yield from (f"{where}: {fault}" for fault in seen(block, found, root))
        if PRINTED in block.text:
            values = [value for output in FENCE.findall(block.before) for value in leaves(output)]
            yield from (f"{where}: {number} is in no output above" for number in strange(block.prose, values))
        if EXEMPT.search(block.text) and not block.measured:
            yield f"{where}: nothing here needs {EXEMPT.findall(block.text)[0]}"
        marked = SEE.search(block.text) or EXEMPT.search(block.text) or PRINTED in block.text
        if not marked and block.measured:
            said = " ".join(block.prose.split())[:90]
            yield f'{where}: "{block.measured}" has no mark that says where it was measured: {said}'


def seen(block: Block, found: re.Match[str], root: Path) -> Iterator[str]:
    """What is wrong with a paragraph that points to files."""
    try:
        paths = found_in(found["files"], root)
        values = values_of(paths, found["parts"])
    except (FileNotFoundError, KeyError) as error:
        yield str(error.args[0])
        return
    for path in paths:
        name, command = str(path.relative_to(root)), stored(path).get("command", "")
        if name not in block.section:
            yield f"the section does not show {name}"
        if not command or " ".join(command.split()) not in " ".join(block.section.split()):
            yield f"the section does not show the command of {name}: {command}"
    yield from (f"{number} is not in {found['files']}" for number in strange(block.prose, values))


def values_of(paths: list[Path], parts: str | None) -> list[float]:
    """The numbers that a mark allows."""
    trees = [results_of(path) for path in paths]
    if not parts:
        return list(leaves(trees))
    out: list[float] = []
    for part in parts.split(";"):
        name = part.strip()
        out += FACTS[name](*trees) if name in FACTS else leaves([inside(tree, name) for tree in trees])
    return out


def inside(tree: Any, way: str) -> Any:
    """The part of results at the end of keys with strokes between them."""
    for key in way.split("/"):
        try:
            tree = tree[int(key)] if isinstance(tree, list) else tree[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise KeyError(f"{way}: neither a fact nor a part of the results") from None
    return tree


def leaves(tree: Any) -> Iterator[float]:
    """All numbers of a tree: those of its texts and keys, and the lengths of its lists, too."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(str(key))
            yield from leaves(value)
    elif isinstance(tree, list):
        yield float(len(tree))
        for value in tree:
            yield from leaves(value)
    elif isinstance(tree, str):
        yield from (parsed(number) for number in NUMBER.findall(tree))
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield float(tree)


def strange(prose: str, values: list[float]) -> Iterator[str]:
    """Numbers of a text that none of the values can be rounded to."""
    for found in NUMBER.finditer(prose):
        unit = re.match(rf"\s?({'|'.join(SCALES)})", prose[found.end() :])
        scale = SCALES[unit[1]] if unit else 1.0
        if not any(agrees(found[0], value / scale) or agrees(found[0], value) for value in values):
            yield found[0]


def agrees(number: str, value: float) -> bool:
    """Whether a value, rounded to the digits that are printed, is this number; 400 may stand for 402."""
    printed = parsed(number)
    digits = re.sub(r"e.*", "", number).partition(".")[2]
    power = int(number.partition("e")[2] or 0) - len(digits)
    if abs(printed - value) <= 0.5000001 * 10.0**power:
        return True
    zeros = 0 if "." in number or "e" in number else len(number) - len(number.rstrip("0"))
    return bool(zeros) and abs(printed - value) <= min(0.5 * 10.0**zeros, 0.05 * abs(value))


def parsed(number: str) -> float:
    """A number as pages write it."""
    return float(number.replace(",", "").replace("−", "-"))
