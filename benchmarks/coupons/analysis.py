"""Table and figure of the study of households: python -m benchmarks.coupons.analysis."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.coupons import settings
from benchmarks.record import HERE, pyplot, table

FOLDER = HERE / "coupons"


def of(rows: list[dict[str, Any]], product: str) -> tuple[Any, Any]:
    """(learned, fixed) hits per household, one number a split."""
    chosen = [row for row in rows if row["product"] == product]
    return np.array([row["learned"] for row in chosen]), np.array([row["fixed"] for row in chosen])


def show(rows: list[dict[str, Any]]) -> None:
    """Hits, lift, and the lift as a share of the one to be reached."""
    out = []
    for product, (known_fixed, known_adaptive) in settings.PRODUCTS.items():
        learned, fixed = of(rows, product)
        if not learned.size:
            continue
        lift, wanted = learned - fixed, known_adaptive - known_fixed
        error = lift.std(ddof=1) / np.sqrt(lift.size)  # splits share households: rather too small
        verdict = "met" if lift.mean() >= settings.GOAL * wanted else "MISSED"
        out.append(
            [
                product,
                lift.size,
                f"{fixed.mean():.3f}",
                f"{learned.mean():.3f}",
                f"{lift.mean():.3f} +- {error:.3f}",
                f"{wanted:.2f}",
                f"{lift.mean() / wanted:.3f}",
                f"{int((lift > 0).sum())}/{lift.size}",
                verdict,
            ]
        )
    table(
        [
            "product",
            "splits",
            "fixed brand",
            "learned",
            "lift",
            "to reach",
            "ratio",
            "splits ahead",
            f"target {settings.GOAL}",
        ],
        out,
    )


def draw(rows: list[dict[str, Any]]) -> None:
    """One line for each split, from the fixed brand to the learned policy."""
    plt = pyplot()

    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for axis, product in zip(axes, settings.PRODUCTS, strict=True):
        learned, fixed = of(rows, product)
        for a, b in zip(fixed, learned, strict=True):
            axis.plot([0, 1], [a, b], "o-", color="0.7", ms=4)
        mean = [fixed.mean(), learned.mean()]
        axis.plot([0, 1], mean, "o-", color="C0", lw=2.5, label=f"mean of {fixed.size} splits")
        axis.set(xticks=[0, 1], xticklabels=["best fixed brand", "learned policy"], xlim=(-0.3, 1.3), title=product)
        axis.set_ylabel(f"hits of {settings.HORIZON} in held-out households")
        axis.legend(loc="upper left")
    figure.savefig(FOLDER / "hits.svg", metadata={"Date": None})


def main() -> None:
    """Print and draw the committed results."""
    rows = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["results"]["rows"]
    show(rows)
    draw(rows)


if __name__ == "__main__":
    main()
