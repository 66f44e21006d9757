"""Tables and the figure of the check of the promise: python -m benchmarks.pac.analysis."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cells import bare, grid, short, show
from benchmarks.exponents import exact_limits
from benchmarks.pac import settings
from benchmarks.record import Rows, rows_of

PARTS = {
    "budget": (settings.REGRET, f"`learn`, {settings.EPISODES:,} episodes"),
    "rule": (settings.ACCURACY, f"`learn`, stopping rule, failure probability {short(settings.FAILURE, 1)}"),
    "strict": (settings.STRICT, f"`learn`, larger models, failure probability {short(settings.FAILURE, 1)}"),
}
"""Part -> bound on the regret, and what the page calls it."""

POLICIES = {"regret": "learn", "markov": "best Markov policy"}


def promise(*parts: Rows) -> list[str]:
    """How many random models are within the bound on the regret."""
    lines = [line for part, rows in zip(PARTS, parts, strict=True) for line in within(part, rows)]
    return [grid(["", "bound on the regret", "models within it", "fraction", "exact 95 % limits"], lines)]


def within(part: str, rows: Rows) -> list[list[str]]:
    """The same for one part, and for the best Markov policy in its models."""
    (bound, name), lines = PARTS[part], []
    for key, policy in {**POLICIES, "regret": name}.items():
        count = sum(row[key] <= bound for row in rows)
        limits = " to ".join(map(short, exact_limits(count, len(rows))))
        lines.append([policy, bare(bound), f"{count} of {len(rows)}", short(count / len(rows)), limits])
    return lines


def rounds(rule: Rows, strict: Rows) -> list[str]:
    """When the rule stopped, and what the bootstrap said there."""
    both = [(rule, settings.ACCURACY), (strict, settings.STRICT)]
    stops = sorted({row["episodes"] for rows, _ in both for row in rows})
    lines = []
    for rows, epsilon in both:
        true, estimated = (np.array([row[key] for row in rows]) for key in ("regret", "estimated"))
        counts = [str(sum(row["episodes"] == stop for row in rows)) for stop in stops]
        means = [f"{true.mean():.4f}", f"{estimated.mean():.4f}", f"{true.max():.3f}", f"{estimated.max():.3f}"]
        lines.append([bare(epsilon), *counts, *means])
    heads = [f"stopped at {stop:,}" for stop in stops]
    return [grid(["accuracy", *heads, "mean regret", "by bootstrap", "largest regret", "largest estimate"], lines)]


def regret(plt: Any) -> Any:
    """Share of models with at most a given regret."""
    figure, axes = plt.subplots(1, 3, figsize=(12.6, 4), layout="constrained")
    titles = (
        f"{settings.EPISODES} episodes",
        f"by the rule, accuracy {settings.ACCURACY}",
        f"larger models, target regret {settings.STRICT}",
    )
    for part, title, axis in zip(PARTS, titles, axes, strict=True):
        for key, name in POLICIES.items():
            sizes = np.sort([max(row[key], 1e-5) for row in rows_of("pac", part)])
            axis.step(sizes, np.arange(1, sizes.size + 1) / sizes.size, where="post", label=name)
        axis.axvline(PARTS[part][0], color="0.4", ls=":")
        axis.set(xscale="log", xlabel="regret", ylabel="fraction of models with at most this", title=title)
        axis.legend(loc="upper left")
    return figure


TABLES = {"promise": promise, "rounds": rounds}
FIGURES = {"regret": regret}

if __name__ == "__main__":
    part_rows = [rows_of("pac", part) for part in PARTS]
    show([*promise(*part_rows), *rounds(*part_rows[1:])])
