"""Exponents of the number of episodes, and the figure against the fluid estimate."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def fit(rows) -> dict[str, float]:
    """K ~ threshold^-p fluid-parts^q by least squares on logarithms, and how far the fluid estimate is off."""
    logs = np.log([[r["threshold"], parts(*r["size"])] for r in rows])
    episodes = np.log([r["episodes"] for r in rows])
    design = np.column_stack([np.ones(len(rows)), logs])
    (_, slope, size), *_ = np.linalg.lstsq(design, episodes, rcond=None)
    ratio = np.array([r["episodes"] / r["fluid"] for r in rows])
    return {
        "exponent of 1 / threshold": float(-slope),
        "exponent of (sqrt S + S sqrt(HA) + SA)": float(size),
        "least episodes / fluid": float(ratio.min()),
        "most episodes / fluid": float(ratio.max()),
    }


def parts(s: int, a: int, h: int) -> float:
    return s**0.5 + s * (h * a) ** 0.5 + s * a


def figure(rows) -> None:
    path = Path(__file__).with_name("episodes.svg")
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rewardmix"
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for size in sorted({tuple(r["size"]) for r in rows}):
        mine = sorted((r["threshold"], r["episodes"], r["fluid"]) for r in rows if tuple(r["size"]) == size)
        stop, episodes, fluid = zip(*mine, strict=True)
        (line,) = axes.loglog(stop, episodes, "o", label=f"S, A, H = {size}")
        axes.loglog(stop, fluid, "-", color=line.get_color(), linewidth=1)
    axes.set(xlabel="threshold for V_0", ylabel="episodes (dots: simulated, lines: fluid estimate)")
    axes.legend(frameon=False)
    drawing.savefig(path, metadata={"Date": None})
    plt.close(drawing)
