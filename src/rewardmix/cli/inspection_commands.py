"""Commands that look before anything is learned, and at what was: ``check``, ``posterior``, ``compare``."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, options, terminal
from rewardmix.cli.log_commands import read_log

if TYPE_CHECKING:
    from rewardmix.logs import Log, RunComparison, Shift
    from rewardmix.model import RewardMixingMDP


def check_command(
    log: options.LogArgument,
    *,
    contexts: options.ContextsOption = "auto",
    horizon: options.HorizonOption = None,
    columns: options.ColumnsOption = "",
    rewards: options.RewardsOption = None,
    visitor: options.VisitorOption = None,
    time: options.TimeOption = None,
    gap: options.GapOption = None,
    bins: options.BinsOption = None,
    fold: options.FoldOption = None,
    skip_bad: options.SkipBadOption = None,
    seed: options.Seed = 0,
) -> None:
    """Read a log without learning from it: what is repaired, what it holds, whether it keeps to the assumptions."""
    reading = inputs.reading_of(locals())
    from rewardmix import logs
    from rewardmix._core.checks import as_seed

    as_seed("--seed", seed)
    number = inputs.contexts_of(contexts)
    with ExitStack() as stack:
        data = read_log(log[0] if len(log) == 1 else log, stack, reading)
        _show_log(data)
        show_line = stack.enter_context(terminal.live_line())
        show_line("asking about assumptions")
        found = logs.check(data, num_contexts=number, seed=seed)
    terminal.say(f"assumptions, asked of {terminal.counted(found.episodes, 'episode')}:")
    for sentence in found.sentences[len(found.warnings) :]:
        terminal.say(f"- {sentence}")
    schema = data.schema
    terminal.answer(
        episodes=data.notes.kept,
        rows=data.notes.rows,
        span=data.notes.span,
        states=schema.num_states,
        actions=schema.num_actions,
        horizon=schema.horizon,
        reward_values=schema.reward_values,
        warnings=found.warnings,
        notes=data.notes.sentences,
        assumptions=dataclasses.asdict(found),
        sentences=found.sentences,
    )


def posterior_command(
    run: Annotated[str, typer.Argument(help="A folder of fit or learn, or a saved model.")],
    log: options.LogArgument,
    out: Annotated[Path, typer.Option(help="Parquet or CSV file to write.")],
    *,
    horizon: options.HorizonOption = None,
    columns: options.ColumnsOption = "",
    rewards: options.RewardsOption = None,
    visitor: options.VisitorOption = None,
    time: options.TimeOption = None,
    gap: options.GapOption = None,
    skip_bad: options.SkipBadOption = None,
    safe_cells: Annotated[
        bool,
        typer.Option("--safe-cells", help="Write ' before text of a CSV file that spreadsheets take for formulas."),
    ] = False,
) -> None:
    """Write which session of a log was probably of which type."""
    reading = inputs.reading_of({**locals(), "bins": None, "fold": None})
    from rewardmix import logs
    from rewardmix.logs.same_world import reading_like
    from rewardmix.logs.writing import write_table

    inputs.check_file("--out", out)
    if safe_cells and out.suffix.lower() != ".csv":
        refuse("--safe-cells", f"it with --out {str(out)!r}", "a CSV file; cells of other files are no formulas")
    model = inputs.model_of_run("RUN", run)
    source: Any = log[0] if len(log) == 1 else log
    with ExitStack() as stack:
        data = read_log(source, stack, reading_like(model, source, reading))
        stack.enter_context(terminal.live_line())("asking for types")
        table = logs.posterior_types(model, data)
    write_table(out, table, safe_cells=safe_cells)
    lost = data.notes.left_out
    if lost.headline:
        terminal.say(lost.headline)
    found = table.column("type").to_numpy()
    answers = []
    for m, name in enumerate(model.type_labels):
        share = float(table.column(f"chance_{m + 1}").to_numpy().mean())
        most = int((found == m + 1).sum())
        answers.append({"type": name, "episodes": most, "share": share})
        terminal.say(f"{name}: most probable in {most} of {len(table)} episodes, {share:.3f} on average")
    terminal.say(f"{terminal.counted(len(table), 'episode')} in {out}")
    terminal.answer(saved=str(out), episodes=len(table), types=answers, left_out=dataclasses.asdict(lost))


MOST_MOVED = 10
"""Rewards that moved which are shown."""


def compare_command(
    old: Annotated[Path, typer.Argument(help="A folder of fit or learn.")],
    new: Annotated[Path, typer.Argument(help="A later one, of the same world.")],
    level: Annotated[float, typer.Option(help="Chance that anything is called moved if nothing was.")] = 0.05,
) -> None:
    """Compare two runs: types, shares and rewards that moved beyond their errors, what each policy earns in each."""
    from rewardmix.logs import compare_runs
    from rewardmix.report.saved_runs import read_run

    one, two = read_run(old), read_run(new)
    found = compare_runs(one, two, level=level)
    rows = [
        [f"type {o + 1}", f"type {n + 1}", *map(terminal.fixed, (shift.before, shift.after)), _moved(shift, found)]
        for (o, n), shift in zip(found.types, found.shares, strict=True)
    ]
    terminal.show_table("Types", ["old", "new", "old share", "new share", "moved"], rows, texts=2)
    shown = [
        [*_place(shift, two.model), *map(terminal.fixed, (shift.before, shift.after))] for shift in found.moved_rewards
    ]
    if shown:
        columns = ["type", "state", "action", "reward", "old chance", "new chance"]
        terminal.show_table("Rewards that moved beyond their errors", columns, shown[:MOST_MOVED], texts=3)
        terminal.say(f"{len(shown)} moved" + (f", {MOST_MOVED} of them shown" if len(shown) > MOST_MOVED else ""))
    values = {"old": (found.old_in_old, found.old_in_new), "new": (found.new_in_old, found.new_in_new)}
    lines = [[name, *map(terminal.fixed, pair)] for name, pair in values.items()]
    terminal.show_table("Value of each policy, planned in", ["policy", "the old model", "the new model"], lines)
    terminal.say(found.verdict)
    terminal.answer(**dataclasses.asdict(found))


def _moved(shift: Shift, found: RunComparison) -> str:
    return "yes" if shift in found.moved_shares else "no"


def _place(shift: Shift, model: RewardMixingMDP) -> list[str]:
    """Which reward of which type it is."""
    s, a = int(shift.state or 0), int(shift.action or 0)
    state = model.state_names[s] if model.state_names else str(s)
    action = model.action_names[a] if model.action_names else str(a)
    return [f"type {shift.type + 1}", state, action, f"{shift.value:.6g}"]


def _show_log(data: Log) -> None:
    """What a log holds."""
    from rewardmix.logs.behaviour import count_followed, logging_test
    from rewardmix.logs.validation import log_coverage
    from rewardmix.report.words import dates

    schema, notes = data.schema, data.notes
    if notes.left_out.headline:
        terminal.say(notes.left_out.headline)
    when = f", {dates(*notes.span)}" if notes.span else ""
    values: list[Any] = [f"{value:.6g}" for value in schema.reward_values]
    shown = ", ".join(values if len(values) <= 6 else [*values[:3], "...", values[-1]])
    terminal.say(
        f"{notes.kept} episodes, {notes.rows} rows{when}; {schema.num_states} states, {schema.num_actions} actions, "
        f"at most {schema.horizon} steps; rewards {shown}"
    )
    test = logging_test(data.total(count_followed), schema)
    for sentence in (*notes.sentences, test.sentence, log_coverage(data.moments, schema).sentence):
        terminal.say(f"- {sentence}")
