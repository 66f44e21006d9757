"""``rewardmix recover``: a model from saved episodes or moments, how sure it is, and what the data cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, outputs, tables
from rewardmix.cli.progress import live_line

if TYPE_CHECKING:
    from rewardmix.recovery import Recovery

METHODS = {"best": "best", "paper": "algorithm_3", "spectral": "spectral"}
"""Name of a method on the command line -> in ``rewardmix.recovery``."""


def recover(
    data: Annotated[Path, typer.Argument(metavar="MOMENTS_OR_EPISODES", help="A saved file of either.")],
    contexts: Annotated[str, typer.Option(help="How many contexts, or auto to choose (needs episodes).")] = "2",
    weights: Annotated[str | None, typer.Option(help="Known weights: uniform, or 0.3,0.7. Left out: unknown.")] = None,
    method: Annotated[str, typer.Option(help="best, paper or spectral.")] = "best",
    prior: Annotated[float, typer.Option(help="Pseudo-count at the average; 0 is maximum likelihood.")] = 1.0,
    failure: Annotated[float, typer.Option(help="Failure probability of the confidence set.")] = 0.05,
    accuracy: Annotated[float, typer.Option(help="Accuracy that the confidence set's tolerance is for.")] = 0.1,
    deviations: Annotated[
        float | None, typer.Option(help="Intervals of so many standard errors instead of guaranteed ones.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random starts.")] = 0,
    rows: Annotated[int, typer.Option(help="State-actions to show at most.")] = 40,
    out: Annotated[Path | None, typer.Option(help="Save the model to this file.")] = None,
) -> None:
    """Recover the rewards of each hidden context from what was seen."""
    from rewardmix import recovery
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.io import load

    as_seed("--seed", seed)
    as_count("--rows", rows, least=0)
    outputs.check_file("--out", out)
    if method not in METHODS:
        refuse("--method", repr(method), f"one of {', '.join(METHODS)}")
    seen = load(data)
    with live_line() as show:
        show("choosing the number of contexts")
        number = _contexts(contexts, seen, seed)
        show("recovering")
        found = recovery.recover(
            seen,
            num_contexts=number,
            weights=inputs.weights_of(weights),
            prior=prior,
            method=getattr(recovery, METHODS[method]),
            seed=seed,
            failure=failure,
            accuracy=accuracy,
            radius=recovery.hoeffding if deviations is None else recovery.normal(deviations),
        )
    typer.echo(repr(found.model))
    _table(found, rows)
    for line in lines(found):
        typer.echo(line)
    if out is not None:
        from rewardmix.io import save

        save(out, found.model)
        typer.echo(f"saved: {out}")


def _contexts(text: str, seen: Any, seed: int) -> int:
    if text == "auto":
        from rewardmix.episodes import Episodes
        from rewardmix.recovery import choose_contexts

        if not isinstance(seen, Episodes):
            refuse("--contexts", "auto for moments", "a number: choosing it needs whole episodes")
        choice = choose_contexts(seen, seed=seed)
        scores = ", ".join(f"{m}: {value:.1f}" for m, value in choice.criterion.items())
        typer.echo(f"contexts by BIC: {choice.num_contexts} (criterion {scores})")
        if choice.num_contexts == 1:
            typer.echo("one context describes the episodes best; what follows splits it in two all the same")
        return max(choice.num_contexts, 2)
    return inputs.count_of("--contexts", text, "a number, or auto")


def _table(found: Recovery, most: int) -> None:
    """One row for each state-action: where contexts differ most comes first."""
    import numpy as np

    model, info = found.model, found.info
    spread = np.abs(model.means - model.mean).max(axis=0).ravel()
    order = np.argsort(-spread, kind="stable")[:most]
    several = model.num_values > 2
    columns = ["state", "action", *(["reward"] if several else [])]
    columns += [f"context {m + 1} ({weight:.3f})" for m, weight in enumerate(model.weights)]
    rows = []
    for x in order:
        s, a = divmod(int(x), model.num_actions)
        names = [model.state_names[s] if model.state_names else str(s)]
        names.append(model.action_names[a] if model.action_names else str(a))
        for z in range(model.num_values) if several else (None,):
            place = (slice(None), s, a) if z is None else (slice(None), s, a, z)
            values = zip(model.rewards[place], info.lower[place], info.upper[place], strict=True)
            cells = [f"{p:.3f} ({low:.3f} .. {high:.3f})" for p, low, high in values]
            rows.append([*names, *([] if z is None else [f"{model.reward_values[z]:g}"]), *cells])
    what = "probability of each reward" if several else f"probability of reward {model.reward_values[1]:g}"
    shown = "" if order.size == spread.size else f", {order.size} of {spread.size} state-actions"
    tables.show(f"Recovered {what} in each context (95 %){shown}", columns, rows, texts=3 if several else 2)


def lines(found: Recovery) -> list[str]:
    """The certificate and what is not identified, one thing a line."""
    info, certificate = found.info, found.info.certificate
    out = [f"method: {info.method}; weights {info.weights}; {info.convergence}"]
    if info.starts and info.loglik == info.loglik:
        out.append(
            f"log-likelihood: {info.loglik:.6f}; best of {len(info.starts)} starts, reached by {info.reproduced}"
        )
    inside = "inside" if certificate.contained else f"outside of {certificate.violations} intervals of"
    out.append(f"certificate: the model is {inside} its confidence set")
    if certificate.program != "not asked":
        grown = "" if certificate.kappa == 1 else f", radii would have to grow {certificate.kappa:.4g} times"
        taken = "" if certificate.kappa_weights == "known" else f", with weights {certificate.kappa_weights}"
        said = f"{certificate.program}{grown}{taken}; {len(certificate.conflicts)} sign conflicts"
        out.append(f"certificate: magnitudes {said}")
    if certificate.broken:
        out.append(f"pairs that break it: {_some(certificate.broken)}")
    if certificate.odd_cycle:
        out.append(f"signs contradict each other around {' - '.join(map(str, certificate.odd_cycle))}")
    if info.gross:
        out.append(f"pairs not believed: {_some(info.gross)}")
    if info.never_together:
        out.append(f"pairs of visited state-actions never seen together: {info.never_together}")
    out.append(info.not_identified)
    return out


def _some(pairs: tuple[tuple[int, int], ...]) -> str:
    text = ", ".join(f"({i}, {j})" for i, j in pairs[:10])
    return text + (f" and {len(pairs) - 10} more" if len(pairs) > 10 else "")
