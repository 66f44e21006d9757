"""``rewardmix serve``: a learned policy at an address, with a store of everything that it decided."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, terminal

DEMO_EXPLORE, DEMO_HOLDOUT, DEMO_EVERY = 0.05, 0.2, 600
"""The demo plays anything as long as it has learned nothing: a policy that knows nothing is no habit to keep to."""

if TYPE_CHECKING:
    from collections.abc import Callable

    from rewardmix.model import RewardMixingMDP
    from rewardmix.planning import Plan
    from rewardmix.service import Address, DeskLimits


def serve_command(
    source: Annotated[
        Path | None, typer.Argument(metavar="RUN_OR_POLICY", help="Folder of a run, or a saved plan.")
    ] = None,
    *,
    store: Annotated[
        str,
        typer.Option(
            envvar="REWARDMIX_STORE",
            show_envvar=False,
            help="File that keeps the sessions, made if it is not there; or postgresql://USER@HOST/DATABASE.",
        ),
    ] = "sessions.sqlite",
    host: Annotated[
        str, typer.Option(help="Address to listen at; one that others can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 8000,
    token_file: Annotated[Path | None, typer.Option(help="File with the token that requests have to carry.")] = None,
    explore: Annotated[float, typer.Option(help="Chance of any action instead of the policy's.")] = 0.05,
    holdout: Annotated[float, typer.Option(help="Share of sessions that play the best fixed policy.")] = 0.1,
    max_session_return: Annotated[
        float | None,
        typer.Option(help="What a session counts at most where arms are compared. [horizon times the highest reward]"),
    ] = None,
    default_action: Annotated[
        str | None, typer.Option(help="Name or number of what is played in an unknown state. [the best at the start]")
    ] = None,
    learn: Annotated[bool, typer.Option("--learn", help="Learn from the sessions, and swap in new versions.")] = False,
    learn_every: Annotated[int, typer.Option(help="Finished sessions from one refit to the next, at least.")] = 500,
    demo: Annotated[
        bool, typer.Option("--demo", help="A shop with made-up visitors, learning from nothing; no policy is needed.")
    ] = False,
    most_open: Annotated[int, typer.Option(help="Open sessions beyond which none begins.")] = 100_000,
    keep_days: Annotated[
        float | None, typer.Option(help="Delete sessions that were silent for so many days. [keep all]")
    ] = None,
    rate: Annotated[float, typer.Option(help="Requests a second of each client.")] = 5000.0,
    most_connections: Annotated[
        int, typer.Option(help="Connections at a time; beyond, one on which nobody asks is closed for each that comes.")
    ] = 1000,
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address or network of a proxy whose X-Forwarded-For is believed. [believe nobody]"
        ),
    ] = None,
) -> None:
    """Decide for sessions over HTTP, and remember every decision and reward."""
    from rewardmix.service import Address, DeskLimits, RefitSettings, ServeSettings, serve
    from rewardmix.service.databases import is_address, shown_store
    from rewardmix.service.deciding import session_bounds
    from rewardmix.service.serving import token_in

    if not is_address(store):
        inputs.check_file("--store", Path(store))
    token = None if token_file is None else token_in(token_file)
    address = Address(host, port, token, rate, most_connections, behind_proxy)
    limits, refits = DeskLimits(most_open, keep_days=keep_days), RefitSettings(learn_every)

    def on_start(place: str) -> None:
        kept = f"demo shop at {place}/shop" if demo else f"sessions in {shown_store(store)}"
        terminal.echo(f"serving at {place}, {kept}")

    if demo:
        _serve_demo(address, limits, on_start)
        return
    if source is None:
        refuse("RUN_OR_POLICY", "nothing", "the folder of a run, or a saved plan; or --demo")
    plan = _plan_in(source)
    action = _action_of(default_action, plan.model)
    settings = ServeSettings(explore, holdout, action, max_session_return=max_session_return)
    session_bounds(plan.model, max_session_return)
    serve(
        plan,
        store,
        settings=settings,
        limits=limits,
        address=address,
        learning=refits if learn else None,
        on_start=on_start,
    )


def _serve_demo(address: Address, limits: DeskLimits, on_start: Callable[[str], None]) -> None:
    """The demo: a shop whose policy knows nothing yet, visitors, and learning; sessions are forgotten at its end."""
    from rewardmix.service import RefitSettings, ServeSettings, serve
    from rewardmix.service.ending import ending_in_order
    from rewardmix.service.visitors import first_plan

    with ending_in_order(), tempfile.TemporaryDirectory() as folder:
        serve(
            first_plan(),
            Path(folder) / "sessions.sqlite",
            settings=ServeSettings(DEMO_EXPLORE, DEMO_HOLDOUT, explore_first=1.0),
            limits=limits,
            address=address,
            learning=RefitSettings(DEMO_EVERY),
            demo=True,
            on_start=on_start,
        )


def _plan_in(source: Path) -> Plan:
    """The plan of a run, or in a file."""
    from rewardmix.io import load
    from rewardmix.planning import Plan

    path = source / "policy.safetensors" if source.is_dir() else source
    if not path.is_file():
        refuse("RUN_OR_POLICY", f"no file {str(path)!r}", "the folder of a run, or a plan of rewardmix plan --out FILE")
    if source.is_dir():
        from rewardmix.report.folder import check_part

        check_part(source, path.name)
    noun = load(path)
    if not isinstance(noun, Plan):
        refuse("RUN_OR_POLICY", f"a {type(noun).__name__} in {str(path)!r}", "a plan, which knows its model")
    return noun


def _action_of(text: str | None, model: RewardMixingMDP) -> int | None:
    """An action by its name or number."""
    if text is None:
        return None
    if text in model.action_names:
        return model.action_names.index(text)
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < model.num_actions):
        names = f" or one of {', '.join(model.action_names)}" if model.action_names else ""
        refuse("--default-action", repr(text), f"a number below {model.num_actions}{names}")
    return int(text)
