"""Tables and the figure of the check of the promise: python -m benchmarks.pac.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.pac import settings
from benchmarks.record import HERE, pyplot, rows_of, table

FOLDER = HERE / "pac"
BOUNDS = {
    "budget": (settings.REGRET, settings.WITHIN),
    "rule": (settings.ACCURACY, 1 - settings.FAILURE),
    "strict": (settings.STRICT, 1 - settings.FAILURE),
}
"""Part -> bound on the regret, and share of the worlds that should be within it."""


def limits(successes: int, trials: int, failure: float = 0.05) -> tuple[float, float]:
    """Exact binomial limits (Clopper and Pearson)."""
    from scipy.special import betaincinv

    low = betaincinv(successes, trials - successes + 1, failure / 2) if successes else 0.0
    high = betaincinv(successes + 1, trials - successes, 1 - failure / 2) if successes < trials else 1.0
    return float(low), float(high)


def show(part: str, rows: list[dict[str, Any]]) -> None:
    """How many worlds are within the bound."""
    bound, target = BOUNDS[part]
    out = []
    for name, key in (("learn", "regret"), ("best Markov policy", "markov")):
        within = int((np.array([row[key] for row in rows]) <= bound).sum())
        low, high = limits(within, len(rows))
        verdict = ("met" if within >= target * len(rows) else "MISSED") if key == "regret" else ""
        out.append([name, len(rows), within, f"{within / len(rows):.4f}", f"[{low:.4f}, {high:.4f}]", verdict])
    print(
        f"{settings.EPISODES} episodes"
        if part == "budget"
        else f"stopping by the rule, accuracy {bound}, failure {settings.FAILURE}"
    )
    table(["policy", "worlds", f"regret <= {bound}", "share", "exact 95 % limits", f"target {target}"], out)
    if part != "budget":
        played = np.array([row["episodes"] for row in rows])
        print(f"episodes: median {np.median(played):g}, from {played.min()} to {played.max()}")
        true, guessed = (np.array([row[key] for row in rows]) for key in ("regret", "estimated"))
        print(f"mean regret {true.mean():.4f}, by the bootstrap {guessed.mean():.4f}")
    print()


def stored(part: str) -> Any:
    """Rows of a part, or None if it was not run."""
    return rows_of("pac", part)


def draw() -> None:
    """Share of worlds with at most a given regret."""
    plt = pyplot()

    parts = [part for part in BOUNDS if stored(part)]
    figure, axes = plt.subplots(1, len(parts), figsize=(4.2 * len(parts), 4), layout="constrained", squeeze=False)
    titles = {
        "budget": f"{settings.EPISODES} episodes",
        "rule": f"by the rule, accuracy {settings.ACCURACY}",
        "strict": f"larger worlds, accuracy {settings.STRICT}",
    }
    for part, axis in zip(parts, axes[0], strict=True):
        rows = stored(part)
        for name, key in (("learn", "regret"), ("best Markov policy", "markov")):
            regret = np.sort([max(row[key], 1e-5) for row in rows])
            axis.step(regret, np.arange(1, regret.size + 1) / regret.size, where="post", label=name)
        axis.axvline(BOUNDS[part][0], color="0.4", ls=":")
        axis.set(xscale="log", xlabel="regret", ylabel="share of worlds with at most this", title=titles[part])
        axis.legend(loc="upper left")
    figure.savefig(FOLDER / "regret.svg", metadata={"Date": None})


def main() -> None:
    """Print and draw all that there is."""
    for part in BOUNDS:
        if rows := stored(part):
            show(part, rows)
    draw()


if __name__ == "__main__":
    main()
