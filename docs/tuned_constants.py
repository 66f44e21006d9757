"""List the numeric constants of the source: name, value, and the text beside each (study and sensitivity).

The directive ``tuned-constants`` shows the tables. ``python -m docs.tuned_constants`` prints them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "rewardmix"

NAME = re.compile(r"_?[A-Z][A-Z0-9_]*")

CALLS = {"float", "int", "log", "sqrt"}
"""Functions that a numeric constant may call."""


class Constant(NamedTuple):
    """One numeric constant of a module."""

    file: str
    name: str
    value: str
    text: str


def is_numeric(node: ast.expr) -> bool:
    """Say whether an expression is a number, a tuple of numbers, or arithmetic of numbers and other constants."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.Name):
        return NAME.fullmatch(node.id) is not None
    if isinstance(node, ast.UnaryOp):
        return is_numeric(node.operand)
    if isinstance(node, ast.BinOp):
        return is_numeric(node.left) and is_numeric(node.right)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(is_numeric, node.elts))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in CALLS and all(map(is_numeric, node.args))
    return False


def has_number(node: ast.expr) -> bool:
    """Say whether a number is written in an expression; an alias of another constant has none."""
    return any(isinstance(part, ast.Constant) for part in ast.walk(node))


def read_text(lines: list[str], statement: ast.stmt, following: ast.stmt | None) -> str:
    """Return the docstring below a constant, else the comment beside it, else the comment above it."""
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return " ".join(str(following.value.value).split())
    beside = lines[(statement.end_lineno or 1) - 1][statement.end_col_offset :].partition("#")[2].strip()
    if beside:
        return beside
    above: list[str] = []
    for line in reversed(lines[: statement.lineno - 1]):
        if not line.startswith("# "):
            break
        above.insert(0, line.removeprefix("# ").strip())
    return " ".join(above)


def list_constants(source: str, file: str) -> Iterator[Constant]:
    """Yield the numeric UPPER_CASE constants of a module, in their order."""
    body, lines = ast.parse(source).body, source.splitlines()
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name) and NAME.fullmatch(target.id) and is_numeric(value) and has_number(value):
            yield Constant(file, target.id, ast.unparse(value), read_text(lines, statement, following))


def collect_constants(root: Path = SOURCE) -> dict[str, list[Constant]]:
    """Return the constants of every package below ``root``; modules outside of packages come first, as ``""``."""
    tables: dict[str, list[Constant]] = {}
    files = sorted(root.rglob("*.py"), key=lambda path: (len(path.relative_to(root).parts) > 1, path))
    for path in files:
        place = path.relative_to(root)
        constants = list(list_constants(path.read_text(encoding="utf-8"), place.as_posix()))
        if constants:
            tables.setdefault("/".join(place.parts[:-1]), []).extend(constants)
    return tables


def main() -> None:
    """Print every table."""
    for package, constants in collect_constants().items():
        print(f"\n{package or 'rewardmix'}")
        for constant in constants:
            print(f"  {constant.file}: {constant.name} = {constant.value}  {constant.text}")


if __name__ == "__main__":
    main()
