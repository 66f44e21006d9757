"""Define ``rewardmix learn-online``: run an agent and write its result and a report."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.online import OnlineResult


def learn_online_command(
    env: Annotated[str, options.ENV_ARGUMENT],
    *,
    num_episodes: Annotated[int, typer.Option(help="Number of episodes.")] = 20_000,
    num_types: options.NumTypesOption = "2",
    weights: options.WeightsOption = None,
    window: Annotated[
        int | None, typer.Option(help="Number of most recent episodes to learn from. [default: all]")
    ] = None,
    seed: options.SeedOption = 0,
    horizon: options.EnvHorizonOption = None,
    modules: options.ModulesOption = None,
    type_names: options.TypeNamesOption = None,
    out: options.OutFolderOption = Path("runs/online"),
    resume: options.ResumeOption = False,
    open_report: options.OpenReportOption = False,
) -> None:
    """Learn online by posterior sampling; write a run folder.

    Maximize reward from the first episode with a posterior-sampling agent (Thompson sampling).
    """
    # The first statement, as ``locals()`` holds the arguments only here. Output options do not influence the result.
    settings = {name: value for name, value in locals().items() if name not in ("out", "resume", "open_report")}
    inputs.check_folder("--out", out)
    inputs.check_names(type_names, inputs.parse_num_types(num_types))
    env_or_model = inputs.parse_model_or_env(env, modules)
    checkpoint = inputs.resolve_checkpoint(out, resume)
    if resume and inputs.check_run_complete(out, settings):
        terminal.print_already_complete(out)
        return
    start_time = time.monotonic()
    with inputs.discard_checkpoint_on_error(checkpoint):
        online_result = _run(settings, env_or_model, checkpoint)
    summary = _write_run(online_result, settings, env_or_model, out)
    # Removed after the folder is written: a crash in between leaves a run that ``--resume`` can finish.
    shutil.rmtree(checkpoint, ignore_errors=True)
    _print_result(online_result, time.monotonic() - start_time)
    terminal.print_text(f"report: {out / 'report.html'}")
    terminal.print_run_json(out, summary)
    if open_report:
        terminal.open_page(out / "report.html")


def _run(settings: dict[str, Any], env_or_model: Any, checkpoint: Path) -> OnlineResult:
    """Run the agent with a progress bar."""
    from rewardmix import online

    num_types, weights = inputs.parse_num_types(settings["num_types"]), inputs.parse_weights(settings["weights"])
    with terminal.progress_bar("learning online", settings["num_episodes"]) as show_bar:
        return online.learn_online(
            env_or_model,
            num_episodes=settings["num_episodes"],
            num_types=num_types,
            seed=settings["seed"],
            weights=weights,
            horizon=settings["horizon"],
            window=settings["window"],
            callback=lambda done: show_bar(done, f"{done:,}"),
            checkpoint_dir=checkpoint,
        )


def _write_run(online_result: OnlineResult, settings: dict[str, Any], env_or_model: Any, out: Path) -> dict[str, Any]:
    """Write the run folder and the agent, print the headline, and return the summary."""
    from rewardmix import io
    from rewardmix.report.report_data import report_data_from_online, set_report_type_names
    from rewardmix.report.run_folder import write_run

    report_data = report_data_from_online(
        online_result,
        title=settings["env"],
        env_or_model=env_or_model,
        command=shlex.join(["rewardmix", *sys.argv[1:]]),
        settings=settings,
    )
    summary = write_run(out, set_report_type_names(report_data, inputs.parse_names(settings["type_names"])))
    io.save(out / "agent.safetensors", online_result.agent)
    terminal.print_headline(summary)
    terminal.print_values(summary["comparison"])
    return summary


def _print_result(online_result: OnlineResult, seconds: float) -> None:
    """Print totals, regret, policy changes and drift alarms."""
    regret = online_result.cumulative_regret
    regret_text = "" if regret is None else f", cumulative regret {regret[-1]:.1f}"
    terminal.print_text(
        f"{terminal.pluralize(online_result.episode_returns.size, 'episode')} in {seconds:.1f} s: "
        f"total reward {online_result.total_reward:g}{regret_text}, "
        f"{terminal.pluralize(online_result.num_policy_changes, 'policy change')}"
    )
    for alarm in online_result.agent.alarms:
        detection = f"after {terminal.pluralize(alarm.num_episodes, 'episode')}, {alarm.kind} (p = {alarm.p_value:.2g})"
        terminal.print_text(f"drift alarm: the environment changed; detected {detection}")
