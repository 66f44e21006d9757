"""Draw the figures of all studies from their committed results: python -m benchmarks.figures FOLDER.

``FIGURES`` of a study's ``analysis`` has functions from pyplot to a figure. Figures are built, not committed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.record import HERE


def figures() -> dict[str, Callable[[Any], Any]]:
    """study-name -> what draws it."""
    studies = sorted(path.parent.name for path in HERE.glob("*/analysis.py"))
    by_study = {study: getattr(import_module(f"benchmarks.{study}.analysis"), "FIGURES", {}) for study in studies}
    return {f"{study}-{name}": draw for study, functions in by_study.items() for name, draw in functions.items()}


def draw_all(folder: Path) -> None:
    """Write one SVG file for each figure, the same ones for the same results."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "backend": "svg", "svg.hashsalt": "rewardmix"}):
        for name, draw in figures().items():
            figure = draw(plt)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]))
