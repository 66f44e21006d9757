"""``rewardmix envs`` and ``rewardmix describe``: what there is, and what one of them is like."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from rewardmix.cli import inputs, tables
from rewardmix.cli.progress import bar


def envs() -> None:
    """List the problems, their Gymnasium ids, and what each is about."""
    from rewardmix.environments.registration import identifier_of
    from rewardmix.problems.catalogue import CATALOGUE

    about = {name: (builder.__doc__ or "").split("\n")[0] for name, builder in CATALOGUE.items()}
    about["coupons"] = "Real households: which brand will they buy next? Needs rewardmix[data]."
    rows = [[name, identifier_of(name), text] for name, text in about.items()]
    tables.show("Problems", ["name", "Gymnasium id", "about"], rows, texts=3)


def describe(
    model: Annotated[str, typer.Argument(help=inputs.MODEL_HELP)],
    episodes: Annotated[int, typer.Option(help="Episodes to simulate beside the exact values.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulated episodes.")] = 0,
) -> None:
    """Show a problem and what simple policies earn in it: exactly, and by simulation."""
    import numpy as np

    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.evaluation import evaluate, interval
    from rewardmix.policy import markov, uniform
    from rewardmix.simulation import simulate

    as_count("--episodes", episodes, least=2)
    as_seed("--seed", seed)
    world = inputs.model_of(model)
    typer.echo(repr(world))
    greedy = np.argmax(world.mean, axis=1)
    policies = {"uniform": uniform(world), "greedy on the average reward": markov(greedy, world)}
    rows = []
    with bar("simulating", episodes * len(policies)) as show:
        for i, (name, policy) in enumerate(policies.items()):
            played = simulate(policy, world, episodes, seed, on_update=partial(_advance, show, i * episodes))
            exact, seen = evaluate(policy, world), interval(played.returns)
            rows.append([name, tables.number(exact.value), f"{seen.lower:.4f} .. {seen.upper:.4f}"])
    tables.show(f"{episodes} episodes each", ["policy", "exact value", "simulated (95 %)"], rows)


def _advance(show: Callable[..., None], before: int, done: int) -> None:
    show(before + done)
