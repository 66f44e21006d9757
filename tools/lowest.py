"""The lowest versions that pyproject.toml allows, as a constraints file: ``python tools/lowest.py > lowest.txt``.

Every direct dependency, those of the extras too, is held at its lower bound; what they need themselves is left to pip.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

BOUND = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9][0-9A-Za-z.]*)(?:,<[0-9.]+)?$")


def lowest(text: str) -> list[str]:
    """``name==bound`` of every dependency; one without a lower bound is refused."""
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    pins: dict[str, str] = {}
    for requirement in wanted:
        if requirement.startswith(f"{project['name']}["):
            continue
        found = BOUND.match(requirement.replace(" ", ""))
        if found is None:
            sys.exit(f"pyproject.toml: found {requirement!r}, expected name>=version, with or without an upper bound")
        name, bound = found.groups()
        if pins.setdefault(name, bound) != bound:
            sys.exit(f"pyproject.toml: found {name}>={pins[name]} and {name}>={bound}, expected one bound")
    return [f"{name}=={bound}" for name, bound in sorted(pins.items())]


if __name__ == "__main__":
    print("\n".join(lowest(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))))
