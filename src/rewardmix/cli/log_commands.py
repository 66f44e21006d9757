"""Commands for logs: ``fit``, ``simulate``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.episodes import Episodes
    from rewardmix.logs import Fitted, Log, Progress


def fit_command(
    log: options.LogArgument,
    *,
    contexts: Annotated[str | None, typer.Option(help="Number of hidden types, or auto. [2, or as --start]")] = None,
    start: Annotated[str | None, typer.Option(help="An earlier run or model of the same world to start from.")] = None,
    horizon: options.HorizonOption = None,
    weights: options.Weights = None,
    columns: options.ColumnsOption = "",
    rewards: options.RewardsOption = None,
    visitor: options.VisitorOption = None,
    time: options.TimeOption = None,
    gap: options.GapOption = None,
    bins: options.BinsOption = None,
    fold: options.FoldOption = None,
    skip_bad: options.SkipBadOption = None,
    seed: options.Seed = 0,
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 8,
    pessimism: Annotated[
        float, typer.Option(help="Standard errors taken off rewards; above 0 the plan also keeps to the log's actions.")
    ] = 0.5,
    scheduler: options.Scheduler = None,
    processes: options.Processes = 1,
    names: options.TypeNames = None,
    out: options.OutFolder = Path("runs/fit"),
    open_page: options.Open = False,
) -> None:
    """Learn from sessions that already happened."""
    settings = {name: value for name, value in locals().items() if name not in ("out", "open_page")}
    from rewardmix import logs
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.logs.same_world import as_model, reading_like
    from rewardmix.logs.workers import executor_of
    from rewardmix.report.findings import fitted_findings, with_names
    from rewardmix.report.folder import write_folder
    from rewardmix.service.databases import shown_store

    as_seed("--seed", seed)
    as_count("--processes", processes)
    inputs.check_folder("--out", out)
    source: Any = log[0] if len(log) == 1 else log
    number = None if contexts is None else inputs.contexts_of(contexts)
    inputs.check_names(names, number)
    shares, reading = inputs.weights_of(weights), inputs.reading_of(settings)
    earlier = None if start is None else inputs.run_or_model("--start", start)
    if earlier is not None:
        reading = reading_like(as_model("--start", earlier), source, reading)
    with ExitStack() as stack:
        executor = stack.enter_context(executor_of(scheduler, processes))
        data = read_log(source, stack, {**reading, "executor": executor})
        stages = stack.enter_context(terminal.watching())
        fitted = logs.fit(
            data,
            num_contexts=number,
            weights=shares,
            start=earlier,
            seed=seed,
            resamples=resamples,
            pessimism=pessimism,
            on_update=_teller(stages),
        )
    settings["log"] = [shown_store(one) for one in log]  # an address may have a password
    title = f"Log {settings['log'][0]}"
    command = shlex.join(["rewardmix", *map(shown_store, sys.argv[1:])])
    found = fitted_findings(fitted, title=title, command=command, settings=settings)
    summary = write_folder(out, with_names(found, inputs.names_of(names)))
    terminal.show_headline(summary)
    _show_fitted(fitted)
    terminal.say(f"report: {out / 'report.html'}")
    terminal.answer_run(out, summary)
    if open_page:
        terminal.open_page(out / "report.html")


def read_log(source: Any, stack: ExitStack, reading: dict[str, Any]) -> Log:
    """A log, read with a bar that grows; ``stack`` keeps what it is read from until all is done."""
    from rewardmix.logs import read

    with terminal.bar("reading", 1.0) as show:
        return read(
            inputs.log_in(source, stack, reading.get("skip_bad") or True),
            **reading,
            on_update=lambda done, total: show(done / total, f"{done} of {total} parts"),
        )


def _teller(stages: terminal.Stages) -> Any:
    def tell(progress: Progress) -> None:
        of = f" of {progress.total}" if progress.total else ""
        done = f"{progress.done}{of}" if progress.done else ""
        told = f"{done} parts" if progress.stage == "count" and done else done
        stages.tell(progress.stage, told, progress.done, progress.total or None)

    return tell


def _show_fitted(fitted: Fitted) -> None:
    from rewardmix.facts import EVIDENCE
    from rewardmix.report.words import dates

    info = fitted.info
    when = f", {dates(*info.notes.span)}" if info.notes.span else ""
    terminal.say(
        f"{terminal.counted(info.notes.kept, 'episode')}, {terminal.counted(info.notes.rows, 'row')}{when}; "
        f"{terminal.counted(fitted.model.num_contexts, 'type')} with weights "
        + ", ".join(terminal.fixed(float(w), 3) for w in fitted.model.weights)
    )
    planned, cautious = map(terminal.fixed, (fitted.plan.lower, info.support.cautious))
    terminal.say(f"{EVIDENCE['planned']}: {planned}; with lower rewards {cautious}")
    if info.off_policy is not None and info.off_policy.supported:
        value = info.off_policy
        terminal.say(f"{EVIDENCE['logged']}: {value.value:.4f} ({value.lower:.4f} .. {value.upper:.4f})")
    for sentence in info.sentences:
        terminal.say(f"- {sentence}")


EPISODES_AT_ONCE = 1 << 18
"""Episodes that are in memory at a time."""


def simulate_command(
    problem: options.Model,
    out: Annotated[Path, typer.Option(help="Parquet or CSV file to write.")],
    policy: Annotated[str, typer.Option(help="uniform, or a saved policy or plan.")] = "uniform",
    episodes: Annotated[int, typer.Option(help="How many.")] = 10_000,
    explore: Annotated[float, typer.Option(help="Chance of a step to play any action, for the next fit.")] = 0.0,
    propensity: Annotated[bool, typer.Option("--propensity", help="Write the chance of each action too.")] = False,
    seed: options.Seed = 0,
) -> None:
    """Play a policy in a problem and write the episodes as a log."""
    from rewardmix import logs
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix._core.limits import COMPILED_STEP, afford, afford_episodes
    from rewardmix.policy import exploring

    as_count("--episodes", episodes)
    as_seed("--seed", seed)
    inputs.check_file("--out", out)
    model = inputs.model_of(problem)
    steps = COMPILED_STEP * episodes * model.horizon
    afford("--episodes", operations=steps, change="fewer episodes, or a shorter horizon")
    afford_episodes(min(episodes, EPISODES_AT_ONCE), model.horizon)
    with terminal.bar("simulating", episodes) as show:
        played = exploring(_policy(policy, model), explore, model.num_actions)
        blocks = _blocks(played, model, episodes, seed, show)
        kept = played if propensity else None
        logs.write(out, blocks, state_names=model.state_names, action_names=model.action_names, policy=kept)
    terminal.say(f"{terminal.counted(episodes, 'episode')} of up to {terminal.counted(model.horizon, 'step')} in {out}")
    terminal.answer(saved=str(out), episodes=episodes, horizon=model.horizon)


def _policy(text: str, model: Any) -> Any:
    from rewardmix.policy import uniform

    if text == "uniform":
        return uniform(model)
    if not Path(text).exists():
        refuse("--policy", repr(text), "uniform, or a saved policy or plan")
    return inputs.policy_of("--policy", text)[0]


def _blocks(policy: Any, model: Any, count: int, seed: int, show: Any) -> Iterator[Episodes]:
    """Block after block, each with a stream of its own; the first is what ``rewardmix.simulate`` gives."""
    from rewardmix._core.streams import Role, seed_for
    from rewardmix.simulation import simulate

    for begin in range(0, count, EPISODES_AT_ONCE):
        own = seed if begin == 0 else seed_for(seed, Role.SIMULATED_BLOCKS, begin)
        yield simulate(policy, model, min(EPISODES_AT_ONCE, count - begin), own)
        show(min(begin + EPISODES_AT_ONCE, count))
