"""Share one style among all pictures: a light background, few colors that color-blind readers can distinguish."""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
BUILT = HERE.parent / "_figures"
"""Folder of the pictures; only the picture of README is committed."""

INK, GREY, FAINT = "#22303c", "#75818c", "#d5dae0"
BLUE, ORANGE, GREEN, VIOLET = "#2b6cb0", "#c7622a", "#2f855a", "#7a4fa3"

SETTINGS = {
    "svg.hashsalt": "rewardmix",  # the same picture is the same file
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.facecolor": "white",
    "lines.linewidth": 2.0,
}


def page(width, height, columns=1, **options):
    """Make a figure and its axes."""
    plt.rcParams.update(SETTINGS)
    return plt.subplots(1, columns, figsize=(width, height), layout="constrained", **options)


def bare(axes, right, top):
    """Remove ticks and frame from the axes of a diagram, and set its units."""
    axes.set(xlim=(0, right), ylim=(0, top), xticks=[], yticks=[])
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)


def save(figure, name, folder=BUILT):
    """Write an SVG file without the date."""
    path = folder / f"{name}.svg"
    folder.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    print(path.relative_to(HERE.parents[1]))
