"""Make the pictures: ``python -m docs.pictures.make [--measure] [name ...]`` from the root of the repository.

With --measure the runs behind shop.svg are done again (a minute); without it the committed numbers are drawn.
"""

import sys

from docs.pictures import computed, diagrams, measured

PICTURES = {
    "augmented": diagrams.augmented,
    "identified": diagrams.identified,
    "pairs": computed.pairs,
    "belief": computed.belief,
    "confidence": computed.confidence,
    "shop": computed.shop,
    "planning": measured.planning,
    "recovery": measured.recovery,
}


def main(asked):
    """Make what is asked for, or everything."""
    if "--measure" in asked:
        computed.measure_shop()
    for name in [name for name in asked if name != "--measure"] or PICTURES:
        PICTURES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
