"""``rewardmix evaluate``: what a saved policy earns in a world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs
from rewardmix.cli.progress import bar


def evaluate(
    policy: Annotated[Path, typer.Argument(help="A saved policy or plan (policy.safetensors of a run).")],
    world: Annotated[str, typer.Argument(metavar="PROBLEM_OR_ENV_ID", help=inputs.WORLD_HELP)],
    episodes: Annotated[int, typer.Option(help="Episodes to play where the value is not exact.")] = 10_000,
    failure: Annotated[float, typer.Option(help="What the interval may fail with.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Of the played episodes.")] = 0,
    modules: Annotated[str | None, typer.Option("--import", help="Modules that register environments.")] = None,
) -> None:
    """Value of a policy: exact in a model, an interval from played episodes elsewhere."""
    from rewardmix import evaluation
    from rewardmix._core.checks import as_count, as_number, as_seed
    from rewardmix.io import load
    from rewardmix.planning import Plan

    as_count("--episodes", episodes, least=2)
    as_number("--failure", failure, above=0.0, below=1.0)
    as_seed("--seed", seed)
    noun = load(policy)
    chosen = noun.policy if isinstance(noun, Plan) else noun
    if not hasattr(chosen, "observe"):
        refuse("POLICY", f"a {type(noun).__name__} in {str(policy)!r}", "a policy or a plan")
    with bar("playing", episodes) as show:
        found = evaluation.evaluate(
            chosen, inputs.world_of(world, modules), episodes=episodes, failure=failure, seed=seed, on_update=show
        )
    if found.exact:
        typer.echo(f"{found.value:.9g} (exact)")
    else:
        typer.echo(f"{found.value:.6g} ({found.lower:.6g} .. {found.upper:.6g}, {found.episodes} episodes)")
