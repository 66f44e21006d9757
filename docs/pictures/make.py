"""Draw the pictures of the pages into docs/_figures: ``python -m docs.pictures.make`` from the root of the repository.

``--measure`` repeats the runs behind the picture of README (a minute) and draws it again. ``--readme`` draws it from
the committed numbers. The only other committed picture is ``report.png``, a screenshot of the sample report.
"""

import sys

from benchmarks import figures
from docs.pictures import computed, diagrams
from docs.pictures.style import BUILT

PICTURES = {
    "augmented": diagrams.augmented,
    "identified": diagrams.identified,
    "pairs": computed.pairs,
    "belief": computed.belief,
    "confidence": computed.confidence,
}


def names():
    """Return the names of all pictures, with those of the studies."""
    return {*PICTURES, *figures.figures()}


def draw():
    """Draw all pictures."""
    for picture in PICTURES.values():
        picture()
    figures.draw_all(BUILT)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        computed.measure_shop()
    if {"--measure", "--readme"} & set(sys.argv):
        computed.shop()
    else:
        draw()
