"""Table and figure of the study of households: python -m benchmarks.coupons.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cells import error_of, grid, show
from benchmarks.coupons import settings
from benchmarks.record import Rows, rows_of


def of(rows: Rows, product: str) -> tuple[Any, Any]:
    """(learned, fixed) hits per household, one number a split."""
    chosen = [row for row in rows if row["product"] == product]
    return np.array([row["learned"] for row in chosen]), np.array([row["fixed"] for row in chosen])


def households(rows: Rows) -> list[str]:
    """Hits in held-out households against a fixed brand; splits share households, so errors are rather too small."""
    lines = []
    for product, (known_fixed, known_adaptive) in settings.PRODUCTS.items():
        learned, fixed = of(rows, product)
        lift, expected = learned - fixed, known_adaptive - known_fixed
        cells = [f"{lift.mean():.3f} ± {error_of(lift):.3f}", f"{expected:.2f}", f"{lift.mean() / expected:.3f}"]
        ahead = f"{(lift > 0).sum()} of {lift.size}"
        lines.append([product, f"{fixed.mean():.3f}", f"{learned.mean():.3f}", *cells, ahead])
    return [grid(["product", "best single brand", "learned", "lift", "lift to reach", "ratio", "splits ahead"], lines)]


def hits(plt: Any) -> Any:
    """One line for each split, from the fixed brand to the learned policy."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for axis, product in zip(axes, settings.PRODUCTS, strict=True):
        learned, fixed = of(rows_of("coupons", "splits"), product)
        for a, b in zip(fixed, learned, strict=True):
            axis.plot([0, 1], [a, b], "o-", color="0.7", ms=4)
        mean = [fixed.mean(), learned.mean()]
        axis.plot([0, 1], mean, "o-", color="C0", lw=2.5, label=f"mean of {fixed.size} splits")
        axis.set(xticks=[0, 1], xticklabels=["best single brand", "learned policy"], xlim=(-0.3, 1.3), title=product)
        axis.set_ylabel(f"hits of {settings.HORIZON} in held-out households")
        axis.legend(loc="upper left")
    return figure


TABLES = {"households": households}
FIGURES = {"hits": hits}

if __name__ == "__main__":
    show(households(rows_of("coupons", "splits")))
