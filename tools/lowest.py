"""Print the lowest versions that pyproject.toml allows as a constraints file: ``python tools/lowest.py > lowest.txt``.

Every direct dependency, with those of the extras, is pinned to its lower bound; pip chooses indirect dependencies.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

BOUND = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9][0-9A-Za-z.]*)(?:,<[0-9.]+)?$")


def list_pins(text: str) -> list[str]:
    """List ``name==bound`` of every dependency; exit if one has no lower bound."""
    project = tomllib.loads(text)["project"]
    requirements = [
        *project["dependencies"],
        *(item for extra in project["optional-dependencies"].values() for item in extra),
    ]
    pins: dict[str, str] = {}
    for requirement in requirements:
        if requirement.startswith(f"{project['name']}["):
            continue
        match = BOUND.match(requirement.replace(" ", ""))
        if match is None:
            sys.exit(f"pyproject.toml: got {requirement!r}, expected name>=version, with or without an upper bound")
        name, bound = match.groups()
        if pins.setdefault(name, bound) != bound:
            sys.exit(f"pyproject.toml: got {name}>={pins[name]} and {name}>={bound}, expected one bound")
    return [f"{name}=={bound}" for name, bound in sorted(pins.items())]


if __name__ == "__main__":
    print("\n".join(list_pins(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))))
