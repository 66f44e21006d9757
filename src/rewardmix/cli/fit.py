"""``rewardmix fit``: from a log to a model, a policy and a report."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, outputs, tables
from rewardmix.cli.progress import bar, live_line

if TYPE_CHECKING:
    from rewardmix.logs import Fitted, Progress


def fit(
    log: Annotated[list[str], typer.Argument(help="Parquet or CSV files, a folder, a pattern, or minari:ID.")],
    contexts: Annotated[str, typer.Option(help="Number of hidden contexts, or auto.")] = "2",
    horizon: Annotated[int | None, typer.Option(help="Most steps of an episode. [the longest]")] = None,
    weights: Annotated[str | None, typer.Option(help="Shares of the contexts, 0.3,0.7 or uniform. [estimated]")] = None,
    columns: Annotated[str, typer.Option(help="How columns are called: state=page,action=button")] = "",
    rewards: Annotated[str | None, typer.Option(help="Values that a reward can take: 0,1. [those that occur]")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out episodes with problems.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    resamples: Annotated[int, typer.Option(help="Of the bootstrap.")] = 8,
    scheduler: Annotated[str | None, typer.Option(help="A Dask scheduler, tcp://host:port.")] = None,
    processes: Annotated[int, typer.Option(help="Processes of this machine, without a scheduler.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/fit"),
) -> None:
    """Learn from sessions that already happened."""
    settings = {name: value for name, value in locals().items() if name != "out"}
    from rewardmix import logs
    from rewardmix._core.checks import as_count, as_seed

    as_seed("--seed", seed)
    as_count("--processes", processes)
    outputs.check_folder("--out", out)
    source: Any = log[0] if len(log) == 1 else log
    number, shares, values, names = (
        _contexts(contexts),
        inputs.weights_of(weights),
        _numbers(rewards),
        _columns(columns),
    )
    with ExitStack() as stack:
        crew = _crew(stack, scheduler, processes)
        with bar("reading", 1.0) as show:
            data = logs.read(
                source,
                columns=names,
                horizon=horizon,
                reward_values=values,
                skip_bad=skip_bad,
                crew=crew,
                on_update=lambda done, total: show(done / total, f"{done} of {total} parts"),
            )
        show_bar, show_line = stack.enter_context(bar("counting", 1.0)), stack.enter_context(live_line())
        fitted = logs.fit(
            data,
            num_contexts=number,
            weights=shares,
            seed=seed,
            resamples=resamples,
            on_update=_teller(show_bar, show_line),
        )
    _write(fitted, source, out, settings)
    _show(fitted)
    typer.echo(f"report: {out / 'report.html'}")


def _crew(stack: ExitStack, scheduler: str | None, processes: int) -> Any:
    from rewardmix.logs import Cluster, Here, Processes
    from rewardmix.logs.workers import connected

    if scheduler is not None:
        return Cluster(stack.enter_context(connected(scheduler)))
    return stack.enter_context(Processes(processes)) if processes > 1 else Here()


def _contexts(text: str) -> int | str:
    if text == "auto":
        return text
    return inputs.count_of("--contexts", text, "a whole number of at least 2, or auto")


def _columns(text: str) -> dict[str, str | None]:
    return {role: None if name == "none" else str(name) for role, name in inputs.options_of(text).items()}


def _numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        refuse("--rewards", repr(text), "numbers separated by commas")


def _teller(show_bar: Any, show_line: Any) -> Any:
    def tell(progress: Progress) -> None:
        if progress.stage == "count":
            show_bar(progress.done / progress.total, f"{progress.done} of {progress.total} parts")
        else:
            of = f" of {progress.total}" if progress.total else ""
            show_line(f"{progress.stage} {progress.done or ''}{of if progress.done else ''}")

    return tell


def _write(fitted: Fitted, source: Any, out: Path, settings: dict[str, Any]) -> None:
    from rewardmix._core import storage
    from rewardmix.io import save
    from rewardmix.report import page

    out.mkdir(parents=True, exist_ok=True)
    save(out / "model.safetensors", fitted.model)
    save(out / "policy.safetensors", fitted.plan)
    save(out / "moments.safetensors", fitted.info.moments)
    summary = _summary(fitted, source, settings)
    storage.replace(out / "result.json", json.dumps(summary, indent=1).encode())
    storage.replace(out / "report.html", page(summary).encode())


def _summary(fitted: Fitted, source: Any, settings: dict[str, Any]) -> dict[str, Any]:
    from rewardmix.planning import compare_plan
    from rewardmix.report import summarise
    from rewardmix.report.folder import row

    info, found = fitted.info, compare_plan(fitted.plan)
    value, boot = info.off_policy, info.bootstrap
    validation: dict[str, Any] | None = None
    if value is not None and value.supported:
        validation = {key: getattr(value, key) for key in ("value", "lower", "upper", "episodes")}
        validation["measured"] = "logged"
    return summarise(
        title=f"Log {source if isinstance(source, str) else source[0]}",
        model=fitted.model,
        plan=fitted.plan,
        moments=info.moments,
        intervals=(info.recovery.lower, info.recovery.upper),
        certificate={
            "setting": "a log",
            "stopped": "the end of the log",
            "proved": [],
            "not_proved": list(info.sentences),
            "planned": [fitted.plan.lower, fitted.plan.upper],
            "validation": validation,
            "bootstrap_regret": None if boot is None else {"mean": boot.regret, "upper": None, "gap": boot.gap},
        },
        comparison={
            "measured": "planned",
            "rows": [
                row("told the context (a bound)", "told", found.told),
                row("this policy", "adaptive", found.adaptive_lower, found.adaptive_lower, found.adaptive_upper),
                row("best policy that does not adapt", "fixed", found.markov),
            ],
        },
        unanswered=[info.recovery.not_identified],
        command=shlex.join(["rewardmix", *sys.argv[1:]]),
        seed=settings["seed"],
        sections=_sections(fitted),
        record={"settings": settings, "weights": fitted.model.weights.tolist(), "fit": _record(fitted)},
    )


def _record(fitted: Fitted) -> dict[str, Any]:
    """Everything that was found about the log, as plain data."""
    info = fitted.info
    parts = {
        name: getattr(info, name) for name in ("notes", "coverage", "logging", "held_out", "bootstrap", "off_policy")
    }
    plain = {name: None if part is None else dataclasses.asdict(part) for name, part in parts.items()}
    return {
        **plain,
        "criterion": {str(m): value for m, value in info.criterion.items()},
        "passes": info.passes,
        "loglik": info.recovery.loglik,
    }


def _sections(fitted: Fitted) -> list[dict[str, Any]]:
    info, schema = fitted.info, fitted.info.schema
    tried = [[schema.state(s), schema.action(a)] for s, a in info.coverage.never_tried[:50]]
    criterion = [[str(m), f"{value:.1f}"] for m, value in sorted(info.criterion.items())]
    return [
        {"title": "How the log was made", "paragraphs": [info.logging.sentence], "columns": [], "rows": []},
        {
            "title": "What the log holds",
            "paragraphs": [f"{info.notes.kept} episodes, {info.notes.rows} rows read.", info.coverage.sentence],
            "columns": ["state", "action never tried"] if tried else [],
            "rows": tried,
        },
        {
            "title": "How many contexts",
            "paragraphs": ["Bayesian information criterion; the smallest is best."],
            "columns": ["contexts", "criterion"],
            "rows": criterion,
        },
        {"title": "What to make of it", "paragraphs": list(info.sentences), "columns": [], "rows": []},
    ]


def _show(fitted: Fitted) -> None:
    info = fitted.info
    typer.echo(
        f"{info.notes.kept} episodes, {info.notes.rows} rows; {fitted.model.num_contexts} contexts with weights "
        + ", ".join(tables.number(float(w), 3) for w in fitted.model.weights)
    )
    typer.echo(f"value planned in the fitted model (optimistic): {fitted.plan.lower:.4f}")
    for sentence in info.sentences:
        typer.echo(f"- {sentence}")
