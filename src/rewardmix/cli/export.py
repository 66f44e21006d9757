"""``rewardmix export``: a model for general POMDP solvers, or a policy for a player without Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, outputs

if TYPE_CHECKING:
    from rewardmix.model import RewardMixingMDP


class Form(StrEnum):
    """The formats, by the ending of their files."""

    POMDPX = "pomdpx"
    POMDP = "pomdp"
    JSON = "json"


def export(
    source: Annotated[
        str, typer.Argument(metavar="MODEL|POLICY", help=f"{inputs.MODEL_HELP} For json: a saved policy or plan.")
    ],
    form: Annotated[
        Form, typer.Option("--format", help="pomdpx (factored, for SARSOP), pomdp (flat), or json (a policy to play).")
    ],
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if none.")] = None,
    discount: Annotated[
        float, typer.Option(help="Discount of a pomdp file; rewards are scaled so that it cancels.")
    ] = 0.99,
    model: Annotated[
        str | None, typer.Option(help="json: the model that beliefs follow; model.safetensors beside POLICY if none.")
    ] = None,
    player: Annotated[Path | None, typer.Option(help="json: also write the JavaScript module that plays it.")] = None,
) -> None:
    """Write a model for a general POMDP solver, or a policy as plain data for any front end."""
    outputs.check_file("--out", out)
    outputs.check_file("--player", player)
    if form is Form.JSON:
        _export_policy(source, model, out, player)
    else:
        _export_model(source, form, out, discount)


def _export_model(source: str, form: Form, out: Path | None, discount: float) -> None:
    from rewardmix import interop

    world = inputs.model_of(source)
    write, lines = {
        Form.POMDPX: (interop.export_pomdpx, interop.pomdpx_lines),
        Form.POMDP: (interop.export_pomdp, interop.pomdp_lines),
    }[form]
    if out is not None:
        write(world, out, discount=discount)
        typer.echo(f"saved: {out} ({out.stat().st_size / 1024:.0f} KiB)")
        return
    for line in lines(world, discount=discount):
        typer.echo(line)


def _export_policy(source: str, model: str | None, out: Path | None, player: Path | None) -> None:
    from rewardmix._core.storage import replace
    from rewardmix.report import playable
    from rewardmix.report.playable import as_json, player_source

    policy, world = _policy_and_model(source, model)
    text = as_json(playable(policy, world, Path(source).parent.name)) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        replace(out, text.encode())
        typer.echo(f"saved: {out} ({out.stat().st_size / 1024:.0f} KiB)")
    if player is not None:
        replace(player, player_source().encode())
        typer.echo(f"saved: {player}", err=out is None)


def _policy_and_model(source: str, model: str | None) -> tuple[Any, RewardMixingMDP]:
    """The policy in a file, and the model: as asked for, of the plan, or from the file beside it."""
    from rewardmix.io import load
    from rewardmix.model import RewardMixingMDP
    from rewardmix.planning import Plan

    noun = load(source)
    if isinstance(noun, RewardMixingMDP):
        refuse("POLICY", f"a model in {source!r}", "a saved policy or plan (rewardmix plan MODEL --out FILE makes one)")
    policy = noun.policy if isinstance(noun, Plan) else noun
    if model is not None:
        return policy, inputs.model_of(model)
    if isinstance(noun, Plan):
        return policy, noun.model
    beside = Path(source).with_name("model.safetensors")
    if not beside.exists():
        refuse("--model", f"none, and no {str(beside)!r}", "a model beside the policy, or --model MODEL")
    return policy, inputs.model_of(str(beside))
