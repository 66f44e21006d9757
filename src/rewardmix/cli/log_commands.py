"""Define the commands ``fit`` and ``simulate`` for logs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import raise_input_error
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.episodes import Episodes
    from rewardmix.logs import FitProgress, FitResult, Log


def fit_command(
    log: options.LogArgument,
    *,
    num_types: Annotated[
        str | None,
        typer.Option(metavar="INTEGER|auto", help="Number of hidden types. [default: 2, or that of --init-model]"),
    ] = None,
    init_model: Annotated[
        str | None, typer.Option(metavar="RUN|MODEL", help="Earlier run or model of this environment to start from.")
    ] = None,
    horizon: options.HorizonOption = None,
    weights: options.WeightsOption = None,
    columns: options.ColumnsOption = "",
    reward_values: options.RewardValuesOption = None,
    user_column: options.UserColumnOption = None,
    time_column: options.TimeColumnOption = None,
    session_gap: options.SessionGapOption = None,
    num_reward_bins: options.NumRewardBinsOption = None,
    min_state_count: options.MinStateCountOption = None,
    drop_invalid: options.DropInvalidOption = None,
    seed: options.SeedOption = 0,
    num_resamples: Annotated[int, typer.Option(help="Number of bootstrap resamples.")] = 8,
    pessimism: Annotated[
        float,
        typer.Option(help="Standard errors subtracted from rewards; above 0, only actions in the log are planned."),
    ] = 0.5,
    scheduler: options.SchedulerOption = None,
    num_processes: options.NumProcessesOption = 1,
    type_names: options.TypeNamesOption = None,
    out: options.OutFolderOption = Path("runs/fit"),
    open_report: options.OpenReportOption = False,
) -> None:
    """Learn a policy from a log (offline RL); write a run folder.

    Recover the rewards of the hidden types from logged sessions, plan, and estimate the value off-policy.
    """
    # The first statement, as ``locals()`` holds the arguments only here. Output options do not influence the result.
    settings = {name: value for name, value in locals().items() if name not in ("out", "open_report")}
    from rewardmix import logs
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.logs.executors import open_executor
    from rewardmix.logs.schema_match import read_options_from_model, to_model
    from rewardmix.report.report_data import report_data_from_fit, set_report_type_names
    from rewardmix.report.run_folder import write_run
    from rewardmix.service.databases import redact_address

    as_seed("--seed", seed)
    as_count("--num-processes", num_processes)
    inputs.check_folder("--out", out)
    source: Any = log[0] if len(log) == 1 else log
    num_types_value = None if num_types is None else inputs.parse_num_types(num_types)
    inputs.check_names(type_names, num_types_value)
    known_weights, read_options = inputs.parse_weights(weights), inputs.parse_read_options(settings)
    start_model = None if init_model is None else inputs.load_run_or_model("--init-model", init_model)
    # Reading with the names and bins of the earlier model makes its parameters valid initial values for this log.
    if start_model is not None:
        read_options = read_options_from_model(to_model("--init-model", start_model), source, read_options)
    with ExitStack() as stack:
        executor = stack.enter_context(open_executor(scheduler, num_processes))
        data = load_log_argument(source, stack, {**read_options, "executor": executor})
        stages = stack.enter_context(terminal.stage_progress())
        fit_result = logs.fit(
            data,
            num_types=num_types_value,
            weights=known_weights,
            init_model=start_model,
            seed=seed,
            num_resamples=num_resamples,
            pessimism=pessimism,
            callback=_make_progress_callback(stages),
        )
    # Addresses of databases may contain passwords, which must not get into the report.
    settings["log"] = [redact_address(path) for path in log]
    title = f"Log {settings['log'][0]}"
    command = shlex.join(["rewardmix", *map(redact_address, sys.argv[1:])])
    report_data = report_data_from_fit(fit_result, title=title, command=command, settings=settings)
    summary = write_run(out, set_report_type_names(report_data, inputs.parse_names(type_names)))
    terminal.print_headline(summary)
    _print_result(fit_result)
    terminal.print_text(f"report: {out / 'report.html'}")
    terminal.print_run_json(out, summary)
    if open_report:
        terminal.open_page(out / "report.html")


def load_log_argument(source: Any, stack: ExitStack, read_options: dict[str, Any]) -> Log:
    """Load a log with a progress bar; ``stack`` keeps temporary files until the command ends."""
    from rewardmix.logs import read_log

    with terminal.progress_bar("reading", 1.0) as show:
        return read_log(
            inputs.materialize_log(source, stack, read_options.get("drop_invalid") or True),
            **read_options,
            callback=lambda done, total: show(done / total, f"{done} of {total} partitions"),
        )


def _make_progress_callback(stages: terminal.StageProgress) -> Any:
    """Make the callback that shows the stages of ``fit``."""

    def show_progress(progress: FitProgress) -> None:
        """Show the progress of one stage."""
        of = f" of {progress.total}" if progress.total else ""
        done = f"{progress.done}{of}" if progress.done else ""
        status = f"{done} partitions" if progress.stage == "count" and done else done
        stages.update(progress.stage, status, progress.done, progress.total or None)

    return show_progress


def _print_result(fit_result: FitResult) -> None:
    """Print episodes, weights, planned and off-policy values, and statements of a fit."""
    from rewardmix.report.formatting import format_dates
    from rewardmix.statements import EVIDENCE

    info = fit_result.info
    dates = f", {format_dates(*info.read_report.time_span)}" if info.read_report.time_span else ""
    terminal.print_text(
        f"{terminal.pluralize(info.read_report.num_kept, 'episode')}, "
        f"{terminal.pluralize(info.read_report.num_rows, 'row')}{dates}; "
        f"{terminal.pluralize(fit_result.model.num_types, 'type')} with weights "
        + ", ".join(terminal.format_fixed(float(w), 3) for w in fit_result.model.weights)
    )
    planned, pessimistic = map(terminal.format_fixed, (fit_result.plan.lower, info.support.pessimistic_value))
    terminal.print_text(f"{EVIDENCE['planned']}: {planned}; pessimistic {pessimistic}")
    estimate = info.off_policy
    if estimate is not None and estimate.is_supported:
        terminal.print_text(
            f"{EVIDENCE['logged']}: {estimate.value:.4f} ({estimate.lower:.4f} .. {estimate.upper:.4f})"
        )
    for sentence in info.report_text:
        terminal.print_text(f"- {sentence}")


BATCH_EPISODES = 1 << 18
"""Number of episodes in memory at a time."""


def simulate_command(
    problem: options.ModelArgument,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Parquet or CSV file to write.")],
    policy: Annotated[
        str, typer.Option(metavar="uniform|FILE", help="Uniform policy, or a saved policy or plan.")
    ] = "uniform",
    num_episodes: Annotated[int, typer.Option(help="Number of episodes.")] = 10_000,
    explore_prob: Annotated[float, typer.Option(help="Probability of a uniformly random action in each step.")] = 0.0,
    with_propensities: Annotated[
        bool, typer.Option("--with-propensities", help="Write the probability of each logged action.")
    ] = False,
    seed: options.SeedOption = 0,
) -> None:
    """Simulate a policy in a model; write the episodes as a log."""
    from rewardmix import logs
    from rewardmix._core.budget import COMPILED_STEP_COST, check_budget, check_budget_episodes
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.policy import make_epsilon_greedy

    as_count("--num-episodes", num_episodes)
    as_seed("--seed", seed)
    inputs.check_file("--out", out)
    model = inputs.parse_model(problem)
    # The estimate refuses a call that would run for days or exhaust memory before anything is written.
    operations = COMPILED_STEP_COST * num_episodes * model.horizon
    check_budget("--num-episodes", operations=operations, remedy="fewer episodes, or a shorter horizon")
    check_budget_episodes(min(num_episodes, BATCH_EPISODES), model.horizon)
    with terminal.progress_bar("simulating", num_episodes) as show:
        behavior_policy = make_epsilon_greedy(_load_behavior_policy(policy, model), explore_prob, model.num_actions)
        batches = _iter_batches(behavior_policy, model, num_episodes, seed, show)
        # Propensities are computed by the log writer from the behavior policy, exploration included.
        logged_policy = behavior_policy if with_propensities else None
        logs.write_log(
            out, batches, state_names=model.state_names, action_names=model.action_names, policy=logged_policy
        )
    terminal.print_text(
        f"{terminal.pluralize(num_episodes, 'episode')} of up to {terminal.pluralize(model.horizon, 'step')} in {out}"
    )
    terminal.print_json(saved=str(out), num_episodes=num_episodes, horizon=model.horizon)


def _load_behavior_policy(text: str, model: Any) -> Any:
    """Return the uniform policy or load a saved one."""
    from rewardmix.policy import uniform_policy

    if text == "uniform":
        return uniform_policy(model)
    if not Path(text).exists():
        raise_input_error("--policy", repr(text), "uniform, or a saved policy or plan")
    return inputs.load_policy("--policy", text)[0]


def _iter_batches(policy: Any, model: Any, num_episodes: int, seed: int, show: Any) -> Iterator[Episodes]:
    """Yield batches of episodes, each with its own random stream; the first equals that of ``rewardmix.simulate``."""
    from rewardmix._core.random_streams import Role, derive_seed
    from rewardmix.simulation import simulate

    for begin in range(0, num_episodes, BATCH_EPISODES):
        # Batches have a fixed size and seeds that depend on their position: the log does not depend on the memory.
        batch_seed = seed if begin == 0 else derive_seed(seed, Role.SIMULATED_BLOCKS, begin)
        yield simulate(policy, model, min(BATCH_EPISODES, num_episodes - begin), batch_seed)
        show(min(begin + BATCH_EPISODES, num_episodes))
