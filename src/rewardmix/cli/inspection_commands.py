"""Define commands that inspect logs and runs: ``diagnose``, ``infer-types``, ``compare-runs``."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import raise_input_error
from rewardmix.cli import inputs, options, terminal
from rewardmix.cli.log_commands import load_log_argument

if TYPE_CHECKING:
    from rewardmix.logs import Change, Log, RunComparison
    from rewardmix.model import RewardMixingMDP


def diagnose_command(
    log: options.LogArgument,
    *,
    num_types: options.NumTypesOption = "auto",
    horizon: options.HorizonOption = None,
    columns: options.ColumnsOption = "",
    reward_values: options.RewardValuesOption = None,
    user_column: options.UserColumnOption = None,
    time_column: options.TimeColumnOption = None,
    session_gap: options.SessionGapOption = None,
    num_reward_bins: options.NumRewardBinsOption = None,
    min_state_count: options.MinStateCountOption = None,
    drop_invalid: options.DropInvalidOption = None,
    seed: options.SeedOption = 0,
) -> None:
    """Diagnose a log: test the assumptions of the model.

    Print its repairs and its contents too. Nothing is learned or written.
    """
    # The first statement, as ``locals()`` holds the arguments only here.
    read_options = inputs.parse_read_options(locals())
    from rewardmix import logs
    from rewardmix._core.checks import as_seed

    as_seed("--seed", seed)
    num_types_value = inputs.parse_num_types(num_types)
    with ExitStack() as stack:
        data = load_log_argument(log[0] if len(log) == 1 else log, stack, read_options)
        _print_log(data)
        show_line = stack.enter_context(terminal.status_line())
        show_line("testing assumptions")
        diagnostics = logs.diagnose(data, num_types=num_types_value, seed=seed)
    terminal.print_text(f"assumption tests on {terminal.pluralize(diagnostics.num_episodes, 'episode')}:")
    # The sentences begin with the warnings, which were printed with the log.
    for sentence in diagnostics.sentences[len(diagnostics.warnings) :]:
        terminal.print_text(f"- {sentence}")
    schema = data.schema
    terminal.print_json(
        num_episodes=data.read_report.num_kept,
        num_rows=data.read_report.num_rows,
        time_span=data.read_report.time_span,
        num_states=schema.num_states,
        num_actions=schema.num_actions,
        horizon=schema.horizon,
        reward_values=schema.reward_values,
        warnings=diagnostics.warnings,
        notes=data.read_report.format_lines,
        assumptions=dataclasses.asdict(diagnostics),
        sentences=diagnostics.sentences,
    )


def infer_types_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder or saved model.")],
    log: options.LogArgument,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Parquet or CSV file to write.")],
    *,
    horizon: options.HorizonOption = None,
    columns: options.ColumnsOption = "",
    reward_values: options.RewardValuesOption = None,
    user_column: options.UserColumnOption = None,
    time_column: options.TimeColumnOption = None,
    session_gap: options.SessionGapOption = None,
    drop_invalid: options.DropInvalidOption = None,
    safe_cells: Annotated[
        bool,
        typer.Option("--safe-cells", help="Prefix CSV cells that spreadsheets would read as formulas with '."),
    ] = False,
) -> None:
    """Infer the type of each session; write type probabilities."""
    read_options = inputs.parse_read_options(locals())
    from rewardmix import logs
    from rewardmix.logs.log_writer import write_table
    from rewardmix.logs.schema_match import read_options_from_model

    inputs.check_file("--out", out)
    if safe_cells and out.suffix.lower() != ".csv":
        raise_input_error("--safe-cells", f"--out {str(out)!r}", "a CSV file; other formats have no formulas")
    model = inputs.load_run_model("RUN", run)
    source: Any = log[0] if len(log) == 1 else log
    with ExitStack() as stack:
        # The log is read with the states, actions and bins of the model, as its parameters are indexed by them.
        data = load_log_argument(source, stack, read_options_from_model(model, source, read_options))
        stack.enter_context(terminal.status_line())("inferring types")
        table = logs.infer_types(model, data)
    write_table(out, table, safe_cells=safe_cells)
    dropped = data.read_report.left_out
    if dropped.headline:
        terminal.print_text(dropped.headline)
    type_indices = table.column("type").to_numpy()
    type_rows = []
    for m, name in enumerate(model.type_labels):
        # Two figures: the number of sessions per most probable type is biased towards frequent types, the mean
        # probability is not.
        mean_probability = float(table.column(f"prob_{m + 1}").to_numpy().mean())
        num_episodes = int((type_indices == m + 1).sum())
        type_rows.append({"type": name, "num_episodes": num_episodes, "weight": mean_probability})
        terminal.print_text(
            f"{name}: most probable in {num_episodes} of {len(table)} episodes, mean probability {mean_probability:.3f}"
        )
    terminal.print_text(f"{terminal.pluralize(len(table), 'episode')} in {out}")
    terminal.print_json(saved=str(out), num_episodes=len(table), types=type_rows, left_out=dataclasses.asdict(dropped))


MAX_CHANGES_SHOWN = 10
"""Largest number of changed rewards that are printed."""


def compare_runs_command(
    old: Annotated[Path, typer.Argument(metavar="OLD_RUN", help="Run folder of fit or learn.")],
    new: Annotated[Path, typer.Argument(metavar="NEW_RUN", help="Later run folder of this environment.")],
    significance_level: Annotated[
        float, typer.Option(help="Probability that any change is reported if nothing changed.")
    ] = 0.05,
) -> None:
    """Compare two runs: test what changed between them.

    Test which weights and rewards changed, and evaluate each policy in both models.
    """
    from rewardmix.logs import compare_runs
    from rewardmix.report.saved_runs import load_run_summary

    old_run, new_run = load_run_summary(old), load_run_summary(new)
    comparison = compare_runs(old_run, new_run, significance_level=significance_level)
    rows = [
        [
            f"type {o + 1}",
            f"type {n + 1}",
            *map(terminal.format_fixed, (change.old, change.new)),
            _label_change(change, comparison),
        ]
        for (o, n), change in zip(comparison.type_pairs, comparison.weights, strict=True)
    ]
    terminal.print_table("Types", ["old", "new", "old weight", "new weight", "changed"], rows, text_columns=2)
    changed_rows = [
        [*_format_reward_cells(change, new_run.model), *map(terminal.format_fixed, (change.old, change.new))]
        for change in comparison.changed_rewards
    ]
    if changed_rows:
        columns = ["type", "state", "action", "reward", "old probability", "new probability"]
        terminal.print_table(
            "Rewards that changed significantly", columns, changed_rows[:MAX_CHANGES_SHOWN], text_columns=3
        )
        terminal.print_text(
            f"{len(changed_rows)} changed"
            + (f", {MAX_CHANGES_SHOWN} of them shown" if len(changed_rows) > MAX_CHANGES_SHOWN else "")
        )
    values = {
        "old": (comparison.old_in_old, comparison.old_in_new),
        "new": (comparison.new_in_old, comparison.new_in_new),
    }
    value_rows = [[name, *map(terminal.format_fixed, pair)] for name, pair in values.items()]
    terminal.print_table("Planned value of each policy", ["policy", "in the old model", "in the new model"], value_rows)
    terminal.print_text(comparison.verdict)
    terminal.print_json(**dataclasses.asdict(comparison))


def _label_change(change: Change, comparison: RunComparison) -> str:
    """Return "yes" if a weight changed significantly, else "no"."""
    return "yes" if change in comparison.changed_weights else "no"


def _format_reward_cells(change: Change, model: RewardMixingMDP) -> list[str]:
    """Return type, state, action and value of a changed reward as table cells."""
    s, a = int(change.state or 0), int(change.action or 0)
    state = model.state_names[s] if model.state_names else str(s)
    action = model.action_names[a] if model.action_names else str(a)
    return [f"type {change.type + 1}", state, action, f"{change.value:.6g}"]


def _print_log(data: Log) -> None:
    """Print what a log contains: sizes, time span, rewards, coverage, and whether it is adaptive."""
    from rewardmix.logs.adaptivity_test import count_reward_action_pairs, run_adaptivity_test
    from rewardmix.logs.fit_validation import log_coverage
    from rewardmix.report.formatting import format_dates

    schema, read_report = data.schema, data.read_report
    if read_report.left_out.headline:
        terminal.print_text(read_report.left_out.headline)
    dates = f", {format_dates(*read_report.time_span)}" if read_report.time_span else ""
    values: list[Any] = [f"{value:.6g}" for value in schema.reward_values]
    reward_text = ", ".join(values if len(values) <= 6 else [*values[:3], "...", values[-1]])
    terminal.print_text(
        f"{read_report.num_kept} episodes, {read_report.num_rows} rows{dates}; {schema.num_states} states, "
        f"{schema.num_actions} actions, at most {schema.horizon} steps; rewards {reward_text}"
    )
    test = run_adaptivity_test(data.sum_over_partitions(count_reward_action_pairs), schema)
    for sentence in (*read_report.format_lines, test.text, log_coverage(data.moments, schema).text):
        terminal.print_text(f"- {sentence}")
