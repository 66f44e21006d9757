"""Draw the pictures of the pages into docs/_figures: ``python -m docs.pictures.make`` from the root of the repository.

With ``--measure`` the runs behind README's picture are done again (a minute) and it is drawn anew; with ``--readme`` it
is drawn from the committed numbers. It alone is committed.
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
    """Every picture that is drawn, those of the studies too."""
    return {*PICTURES, *figures.figures()}


def draw():
    """All of them."""
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
