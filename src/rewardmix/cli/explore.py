"""``rewardmix explore`` and ``rewardmix theory``: gather episodes, and how many of them the theory asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, outputs, tables
from rewardmix.cli.progress import bar

SETTINGS = ("practical", "theory", "paper")
COUNTS = ("all_pairs", "selected")
STRATEGIES = ("optimistic", "uniformly", "first_order")


def explore(
    problem: Annotated[str, typer.Argument(help=inputs.MODEL_HELP)],
    episodes: Annotated[int | None, typer.Option(help="Budget of episodes.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Stop once the uncertainty V_0 is at most this.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the moments to this file.")] = None,
    episodes_out: Annotated[Path | None, typer.Option(help="Save the episodes themselves to this file.")] = None,
    confidence: Annotated[str, typer.Option(help="practical, theory or paper.")] = "practical",
    counts: Annotated[str, typer.Option(help="all_pairs, or selected as in the paper.")] = "all_pairs",
    strategy: Annotated[str, typer.Option(help="optimistic, or a baseline: uniformly, first_order.")] = "optimistic",
    growth: Annotated[float, typer.Option(help="Counts grow by this factor between two plans; 1: never wait.")] = 1.05,
    failure: Annotated[float, typer.Option(help="Failure probability of the confidence levels.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder to save to, and to go on from.")] = None,
) -> None:
    """Explore a problem so that every reachable pair of state-actions is seen. Ctrl-C keeps what was gathered."""
    from rewardmix import exploration
    from rewardmix._core.checks import as_seed
    from rewardmix.io import save

    as_seed("--seed", seed)
    outputs.check_file("--out", out)
    outputs.check_file("--episodes-out", episodes_out)
    outputs.check_folder("--checkpoint", checkpoint)
    for name, value, known in (
        ("--confidence", confidence, SETTINGS),
        ("--counts", counts, COUNTS),
        ("--strategy", strategy, STRATEGIES),
    ):
        if value not in known:
            refuse(name, repr(value), f"one of {', '.join(known)}")
    setting = exploration.paper() if confidence == "paper" else getattr(exploration, confidence)
    with bar("exploring", episodes) as show:
        found = exploration.explore(
            inputs.model_of(problem),
            episodes=episodes,
            threshold=threshold,
            confidence=setting,
            counts=getattr(exploration, counts),
            strategy=getattr(exploration, strategy),
            growth=growth,
            failure=failure,
            seed=seed,
            keep=episodes_out is not None,
            on_update=lambda update: show(update.episodes, f"V_0 {update.uncertainty:.3f}"),
            checkpoint=checkpoint,
        )
    for path, noun in ((out, found.moments), (episodes_out, found.gathered)):
        if path is not None and noun is not None:
            save(path, noun)
    _show(found, out)


def _show(found: object, out: Path | None) -> None:
    from rewardmix.exploration import Exploration

    assert isinstance(found, Exploration)
    seen = found.info.coverage
    rows = [
        ["episodes", f"{found.episodes:,}"],
        ["uncertainty V_0", f"{found.uncertainty:.4f}"],
        ["pairs seen", f"{seen.seen:,}"],
        ["pairs possible, never seen", f"{seen.never_seen:,}"],
        ["pairs impossible", f"{seen.impossible:,}"],
        ["samples of the rarest possible pair", f"{seen.least:,}"],
        ["plans made", f"{found.info.refreshes:,} whole, {found.info.rows_planned:,} rows"],
        ["stopped by", found.info.stopped],
    ]
    tables.show(f"Exploration, {found.info.confidence} setting, {found.info.counts}", ["", ""], rows)
    typer.echo(f"Guarantee: {found.info.guarantee}.")
    if out is not None:
        typer.echo(f"Moments saved to {out}")


def theory(
    states: Annotated[int, typer.Option(help="S.")],
    actions: Annotated[int, typer.Option(help="A.")],
    horizon: Annotated[int, typer.Option(help="H.")],
    accuracy: Annotated[float, typer.Option(help="epsilon: how far from the best policy.")] = 0.1,
    separation: Annotated[float, typer.Option(help="delta: the smallest difference of contexts that is not 0.")] = 0.2,
    failure: Annotated[float, typer.Option(help="eta.")] = 0.05,
) -> None:
    """Episodes that the theorems ask for, that the paper's algorithm would use, that the practical setting needs."""
    from rewardmix import theory as numbers
    from rewardmix._core.checks import as_count, as_number

    sizes = as_count("--states", states), as_count("--actions", actions), as_count("--horizon", horizon)
    as_number("--accuracy", accuracy, above=0.0)
    as_number("--separation", separation, above=-1e-12)
    as_number("--failure", failure, above=0.0, below=1.0)
    if accuracy > horizon:
        refuse("--accuracy", accuracy, f"at most the horizon {horizon}: no policy can be further from the best")
    stop = numbers.threshold(accuracy, separation, horizon)
    asked = numbers.upper_bound(*sizes, accuracy, separation, failure)
    used = numbers.fluid_episodes(*sizes, stop, failure)
    rows = [
        ["threshold for V_0 (eps_pe)", f"{stop:.3g}", "(epsilon / H^3) max(delta, epsilon / H^2)"],
        ["lower bound", f"{numbers.lower_bound(*sizes[:2], accuracy):.3g}", "S^2 A^2 / epsilon^2, constant 1"],
        ["what the theorem asks", f"{asked:.3g}", "theorem:upper_bound, constant 1"],
        ["its bound on exploration", f"{numbers.episode_bound(*sizes, stop, failure):.3g}", "until V_0 <= eps_pe"],
        ["what the paper's algorithm would use", f"{used:.3g}", "fluid estimate, c = 1"],
        ["what the practical setting needs", f"{numbers.practical_episodes(*sizes):.3g}", "V_0 <= 0.5, easy worlds"],
    ]
    title = f"Episodes for S = {states}, A = {actions}, H = {horizon}, epsilon = {accuracy:g}, delta = {separation:g}"
    tables.show(title, ["", "number", "what it is"], rows)
