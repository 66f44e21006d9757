"""Figures of committed results, ``bench-<study>.svg``; a study that draws its own figures needs none here."""

import json

import numpy as np
from docs.pictures.style import BLUE, GREY, HERE, ORANGE, page, save

BENCHMARKS = HERE.parents[1] / "benchmarks"


def results(study):
    """What a study found, or None."""
    path = BENCHMARKS / study / "results.json"
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else None


def planning():
    """CPU time to a certified gap."""
    found = results("planning")
    rows = sorted(found["to_a_gap"], key=lambda row: row["seconds"])
    figure, axes = page(8.2, 0.34 * len(rows) + 1.0)
    places = np.arange(len(rows))
    axes.barh(places, [row["seconds"] for row in rows], color=BLUE, height=0.62)
    for place, row in zip(places, rows, strict=True):
        axes.text(row["seconds"] * 1.12, place, f"{row['seconds']:.2g} s", va="center", fontsize=9)
    axes.set(xscale="log", xlabel="CPU-seconds until the gap is certified", xlim=(0.006, 40))
    axes.set_yticks(places, [row["case"] for row in rows], fontsize=9)
    save(figure, "bench-planning")


def recovery():
    """Error of the recovered rewards by method."""
    quality = results("recovery")["quality"]
    names = list(quality["complete"]["rmse"])
    figure, axes = page(8.2, 3.4)
    places = np.arange(len(names))
    for shift, (coverage, words, colour) in enumerate(
        (("complete", "every pair seen", BLUE), ("regional", "only neighbours seen together", ORANGE))
    ):
        values = [quality[coverage]["rmse"][name] for name in names]
        axes.barh(places + 0.2 - 0.4 * shift, values, height=0.36, color=colour, label=words)
        for place, value in zip(places, values, strict=True):
            axes.text(value + 0.002, place + 0.2 - 0.4 * shift, f"{value:.3f}", va="center", fontsize=8.5, color=GREY)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(xlabel="root mean square error of the reward probabilities", xlim=(0, 0.18))
    axes.legend(loc="lower right")
    save(figure, "bench-recovery")
