"""Define ``rewardmix serve``: serve a learned policy over HTTP and store all decisions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rewardmix._core.errors import raise_input_error
from rewardmix.cli import inputs, terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from rewardmix.model import RewardMixingMDP
    from rewardmix.planning import Plan
    from rewardmix.service import ServerAddress, SessionLimits

DEMO_EXPLORE_PROB, DEMO_HOLDOUT_SHARE, DEMO_REFIT_EVERY = 0.05, 0.2, 600
"""Settings of the demo; its initial policy, which has no information about the types, explores with probability 1."""


def serve_command(
    source: Annotated[Path | None, typer.Argument(metavar="RUN_OR_POLICY", help="Run folder or saved plan.")] = None,
    *,
    store: Annotated[
        str,
        typer.Option(
            envvar="REWARDMIX_STORE",
            show_envvar=False,
            help="SQLite file of the sessions, created if missing; or postgresql://USER@HOST/DATABASE.",
        ),
    ] = "sessions.sqlite",
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than the local machine requires --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token that requests must send.")
    ] = None,
    explore_prob: Annotated[float, typer.Option(help="Probability of a uniformly random action.")] = 0.05,
    holdout_share: Annotated[
        float, typer.Option(help="Fraction of sessions in the holdout arm, the best Markov policy.")
    ] = 0.1,
    max_session_return: Annotated[
        float | None,
        typer.Option(
            help="Largest return of a session in comparisons of arms. [default: horizon times highest reward]"
        ),
    ] = None,
    default_action: Annotated[
        str | None,
        typer.Option(
            metavar="ACTION", help="Action in an unknown state, by name or number. [default: best initial action]"
        ),
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="Refit from the sessions and activate new versions.")] = False,
    refit_every: Annotated[int, typer.Option(help="Minimum number of finished sessions between two refits.")] = 500,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a demo shop with simulated users and no initial policy.")
    ] = False,
    max_open_sessions: Annotated[int, typer.Option(help="Maximum number of open sessions.")] = 100_000,
    retention_days: Annotated[
        float | None, typer.Option(help="Delete sessions with no request for this many days. [default: never]")
    ] = None,
    rate_limit: Annotated[float, typer.Option(help="Maximum number of requests per second and client.")] = 5000.0,
    most_connections: Annotated[
        int, typer.Option(help="Maximum number of connections; above it, idle ones are closed.")
    ] = 1000,
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address or network of a proxy whose X-Forwarded-For is trusted. [default: none]"
        ),
    ] = None,
) -> None:
    """Serve a policy over HTTP; store every decision and reward."""
    from rewardmix.service import RefitSettings, ServerAddress, ServeSettings, SessionLimits, serve
    from rewardmix.service.databases import is_address, redact_address
    from rewardmix.service.policy_server import session_bounds
    from rewardmix.service.server import load_token

    # A database address is checked when the service connects; only a file can be checked without side effects.
    if not is_address(store):
        inputs.check_file("--store", Path(store))
    token = None if token_file is None else load_token(token_file)
    address = ServerAddress(host, port, token, rate_limit, most_connections, behind_proxy)
    limits, refit_settings = SessionLimits(max_open_sessions, retention_days=retention_days), RefitSettings(refit_every)

    def on_start(url: str) -> None:
        """Print the address once the service accepts requests."""
        destination = f"demo shop at {url}/shop" if demo else f"sessions in {redact_address(store)}"
        terminal.echo(f"serving at {url}, {destination}")

    if demo:
        _serve_demo(address, limits, on_start)
        return
    if source is None:
        raise_input_error("RUN_OR_POLICY", "nothing", "a run folder or a saved plan; or --demo")
    plan = _load_plan(source)
    action = _parse_action(default_action, plan.model)
    settings = ServeSettings(explore_prob, holdout_share, action, max_session_return=max_session_return)
    # A limit below the smallest return is wrong input now; it would make the first comparison of arms fail later.
    session_bounds(plan.model, max_session_return)
    serve(
        plan,
        store,
        settings=settings,
        limits=limits,
        address=address,
        learning=refit_settings if refit else None,
        on_start=on_start,
    )


def _serve_demo(address: ServerAddress, limits: SessionLimits, on_start: Callable[[str], None]) -> None:
    """Serve the demo: a shop with simulated users and an untrained policy; its sessions are deleted at the end."""
    from rewardmix.service import RefitSettings, ServeSettings, serve
    from rewardmix.service.demo_traffic import make_initial_plan
    from rewardmix.service.ending import handle_stop_signals

    # The order matters: the service must have ended before the folder of its store is removed.
    with handle_stop_signals(), tempfile.TemporaryDirectory() as folder:
        serve(
            make_initial_plan(),
            Path(folder) / "sessions.sqlite",
            settings=ServeSettings(DEMO_EXPLORE_PROB, DEMO_HOLDOUT_SHARE, initial_explore_prob=1.0),
            limits=limits,
            address=address,
            learning=RefitSettings(DEMO_REFIT_EVERY),
            demo=True,
            on_start=on_start,
        )


def _load_plan(source: Path) -> Plan:
    """Load the plan of a run folder or of a file."""
    from rewardmix.io import load
    from rewardmix.planning import Plan

    path = source / "policy.safetensors" if source.is_dir() else source
    if not path.is_file():
        raise_input_error(
            "RUN_OR_POLICY",
            f"no file {str(path)!r}",
            "a run folder, or a plan written by rewardmix plan MODEL --out FILE",
        )
    if source.is_dir():
        from rewardmix.report.run_folder import check_run_file

        # The digest shows whether the policy belongs to the ``result.json`` beside it.
        check_run_file(source, path.name)
    content = load(path)
    if not isinstance(content, Plan):
        raise_input_error(
            "RUN_OR_POLICY", f"a {type(content).__name__} in {str(path)!r}", "a plan, which includes its model"
        )
    return content


def _parse_action(text: str | None, model: RewardMixingMDP) -> int | None:
    """Parse an action by name or number."""
    if text is None:
        return None
    # Names take precedence, as an action may be named by a number.
    if text in model.action_names:
        return model.action_names.index(text)
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < model.num_actions):
        names = f" or one of {', '.join(model.action_names)}" if model.action_names else ""
        raise_input_error("--default-action", repr(text), f"a number below {model.num_actions}{names}")
    return int(text)
