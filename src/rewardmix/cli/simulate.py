"""``rewardmix simulate``: make a log to try things on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, outputs
from rewardmix.cli.progress import bar

if TYPE_CHECKING:
    from rewardmix.episodes import Episodes

BLOCK = 1 << 18
"""Episodes that are in memory at a time."""


def simulate(
    problem: Annotated[str, typer.Argument(help=inputs.MODEL_HELP)],
    out: Annotated[Path, typer.Option(help="Parquet or CSV file to write.")],
    policy: Annotated[str, typer.Option(help="uniform, or a saved policy or plan.")] = "uniform",
    episodes: Annotated[int, typer.Option(help="How many.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same log.")] = 0,
) -> None:
    """Play a policy in a problem and write the episodes as a log."""
    from rewardmix import logs
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix._core.limits import COMPILED_STEP, afford, afford_episodes

    as_count("--episodes", episodes)
    as_seed("--seed", seed)
    outputs.check_file("--out", out)
    model = inputs.model_of(problem)
    steps = COMPILED_STEP * episodes * model.horizon
    afford("--episodes", operations=steps, change="fewer episodes, or a shorter horizon")
    afford_episodes(min(episodes, BLOCK), model.horizon)
    with bar("simulating", episodes) as show:
        blocks = _blocks(_policy(policy, model), model, episodes, seed, show)
        logs.write(out, blocks, state_names=model.state_names, action_names=model.action_names)
    typer.echo(f"{episodes} episodes of up to {model.horizon} steps in {out}")


def _policy(text: str, model: Any) -> Any:
    from rewardmix.io import load
    from rewardmix.planning import Plan
    from rewardmix.policy import uniform

    if text == "uniform":
        return uniform(model)
    if not Path(text).exists():
        refuse("--policy", repr(text), "uniform, or a saved policy or plan")
    noun = load(text)
    chosen = noun.policy if isinstance(noun, Plan) else noun
    if not hasattr(chosen, "observe"):
        refuse("--policy", f"a {type(noun).__name__} in {text!r}", "a policy or a plan")
    return chosen


def _blocks(policy: Any, model: Any, count: int, seed: int, show: Any) -> Iterator[Episodes]:
    """Block after block, each with a stream of its own; the first is what ``rewardmix.simulate`` gives."""
    from rewardmix._core.streams import Role, seed_for
    from rewardmix.simulation import simulate as play

    for begin in range(0, count, BLOCK):
        own = seed if begin == 0 else seed_for(seed, Role.SIMULATED_BLOCKS, begin)
        yield play(policy, model, min(BLOCK, count - begin), own)
        show(min(begin + BLOCK, count))
