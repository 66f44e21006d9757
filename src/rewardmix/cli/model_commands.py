"""Commands for a model that is known: ``envs``, ``describe``, ``plan``, ``evaluate``, ``export``, ``report``."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.evaluation import Evaluation
    from rewardmix.model import RewardMixingMDP


def envs_command() -> None:
    """List the problems, their Gymnasium ids, and what each is about."""
    from rewardmix.environments.registration import identifier_of
    from rewardmix.problems.catalogue import CATALOGUE

    about = {name: (builder.__doc__ or "").split("\n")[0].replace("``", "") for name, builder in CATALOGUE.items()}
    rows = [[name, identifier_of(name), text] for name, text in about.items()]
    terminal.show_table("Problems", ["name", "Gymnasium id", "about"], rows, texts=3)
    terminal.answer(problems=[dict(zip(("name", "id", "about"), row, strict=True)) for row in rows])


def describe_command(
    model: options.Model,
    episodes: Annotated[int, typer.Option(help="Episodes to simulate beside the exact values.")] = 100_000,
    seed: options.Seed = 0,
) -> None:
    """Show a problem and what simple policies earn in it: exactly, and by simulation."""
    import numpy as np

    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.evaluation import bounds_of, evaluate, interval
    from rewardmix.policy import markov, uniform
    from rewardmix.simulation import simulate

    as_count("--episodes", episodes, least=2)
    as_seed("--seed", seed)
    world = inputs.model_of(model)
    terminal.say(repr(world))
    greedy = np.argmax(world.mean, axis=1)
    answers: list[dict[str, Any]] = []
    policies = {"uniform": uniform(world), "greedy on the average reward": markov(greedy, world)}
    rows = []
    for name, policy in policies.items():
        with terminal.bar(f"simulating {name}", episodes) as show:
            played = simulate(policy, world, episodes, seed, on_update=show)
        exact = evaluate(policy, world)
        seen = interval(played.returns, bounds=bounds_of(played, policy, world))
        rows.append([name, terminal.fixed(exact.value), f"{seen.lower:.4f} .. {seen.upper:.4f}"])
        answers.append({"policy": name, "value": exact.value, "simulated": [seen.lower, seen.upper]})
    title = f"{terminal.counted(episodes, 'episode')} each"
    terminal.show_table(title, ["policy", "exact value", "simulated (95 %)"], rows)
    sizes = ("num_contexts", "num_states", "num_actions", "horizon", "weights", "reward_values")
    terminal.answer(model={name: getattr(world, name) for name in sizes}, policies=answers)


def plan_command(
    model: options.Model,
    gap: Annotated[float, typer.Option(help="Largest certified distance from the optimum.")] = 1e-3,
    work_limit: Annotated[float | None, typer.Option(help="Simple steps to take, about 1e9 a second.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds; the plan then depends on the machine.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file.")] = None,
) -> None:
    """Plan in a known model, and compare the plan with simple policies."""
    from rewardmix.planning import compare_plan, plan

    inputs.check_file("--out", out)
    world = inputs.model_of(model)
    terminal.say(repr(world))
    with terminal.live_line() as show:
        found = plan(
            world,
            gap=gap,
            work_limit=work_limit,
            time_limit=time_limit,
            on_update=lambda done: show(
                f"{done.points} beliefs: {done.lower:.8g} .. {done.upper:.8g}, gap {done.gap:.1e}, {done.seconds:.1f} s"
            ),
        )
        show("comparing")
        comparison = compare_plan(found)
    rows = [[row.name, terminal.fixed(row.value, 6), _percent(row.share)] for row in comparison.table]
    terminal.show_table("What policies earn", ["policy", "value", "share of the gain of adapting"], rows)
    met = "as asked" if found.info.converged else f"NOT the {gap:g} asked for: {found.info.reason}"
    terminal.say(f"optimum between {found.lower:.9g} and {found.upper:.9g}: gap {found.gap:.2g}, {met}")
    terminal.say(f"policy: controller with {found.policy.size} nodes, {found.nbytes / 1024:.0f} KiB")
    if out is not None:
        from rewardmix.io import save  # knows every noun, so it takes long to import: only where there is a file

        save(out, found)
        _tell_saved(out)
    terminal.answer(
        lower=found.lower,
        upper=found.upper,
        converged=found.info.converged,
        reason=found.info.reason,
        policies=[{"policy": row.name, "value": row.value, "share": row.share} for row in comparison.table],
        saved=None if out is None else str(out),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share == share else "-"


def _tell_saved(out: Path) -> None:
    terminal.say(f"saved: {out} ({out.stat().st_size / 1024:.0f} KiB)")


def evaluate_command(
    policy: Annotated[Path, typer.Argument(help="A saved policy or plan (policy.safetensors of a run).")],
    world: Annotated[str, options.WORLD],
    episodes: Annotated[int, typer.Option(help="Episodes to play where the value is not exact.")] = 10_000,
    failure: options.Failure = 0.05,
    seed: options.Seed = 0,
    modules: options.Modules = None,
) -> None:
    """Value of a policy: exact in a model, an interval from played episodes elsewhere."""
    from rewardmix._core.checks import as_count, as_number, as_seed
    from rewardmix.evaluation import evaluate

    as_count("--episodes", episodes, least=2)
    as_number("--failure", failure, above=0.0, below=1.0)
    as_seed("--seed", seed)
    chosen, _ = inputs.policy_of("POLICY", policy)
    place = inputs.model_or_environment(world, modules)
    with terminal.bar("playing", episodes) as show:
        found = evaluate(chosen, place, episodes=episodes, failure=failure, seed=seed, on_update=show)
    terminal.answer(**vars(found))
    if found.exact:
        terminal.say(f"{found.value:.9g} (exact)")
    else:
        terminal.say(f"{found.value:.6g} ({_interval_of(found)}, {terminal.counted(found.episodes, 'episode')})")


def _interval_of(value: Evaluation) -> str:
    """The interval of a played value; none where nothing was paid and nobody says what can be."""
    if value.upper == math.inf:
        return "no interval, as no episode was paid and neither world nor policy says what one can be paid"
    ends = f"{value.lower:.6g} .. {value.upper:.6g}"
    return f"{ends}, approximate, as neither world nor policy says what can be paid" if value.approximate else ends


class ExportFormat(StrEnum):
    """The formats, by the ending of their files."""

    POMDPX = "pomdpx"
    POMDP = "pomdp"
    JSON = "json"
    PARQUET = "parquet"


def export_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|POLICY|STORE",
            help=f"{options.MODEL} For json: a saved policy or plan. For parquet: a store of rewardmix serve.",
        ),
    ],
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="pomdpx (factored, for SARSOP), pomdp (flat), json (a policy to play), parquet (sessions as a log).",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if none.")] = None,
    discount: Annotated[
        float, typer.Option(help="Discount of a pomdp file; rewards are scaled so that it cancels.")
    ] = 0.99,
    model: Annotated[
        str | None, typer.Option(help="json: the model that beliefs follow; model.safetensors beside POLICY if none.")
    ] = None,
    player: Annotated[Path | None, typer.Option(help="json: also write the JavaScript module that plays it.")] = None,
    skip_bad: Annotated[
        float | None, typer.Option("--skip-bad", help="parquet: share of sessions that unknown states may cut. [0.1]")
    ] = None,
) -> None:
    """Write a model for a general POMDP solver, a policy as plain data for any front end, or sessions as a log."""
    inputs.check_file("--out", out)
    inputs.check_file("--player", player)
    if form is ExportFormat.JSON:
        _export_policy(source, model, out, player)
    elif form is ExportFormat.PARQUET:
        _export_sessions(source, out, skip_bad)
    else:
        _export_model(source, form, out, discount)


def _export_model(source: str, form: ExportFormat, out: Path | None, discount: float) -> None:
    from rewardmix import interop

    world = inputs.model_of(source)
    write, lines = {
        ExportFormat.POMDPX: (interop.export_pomdpx, interop.pomdpx_lines),
        ExportFormat.POMDP: (interop.export_pomdp, interop.pomdp_lines),
    }[form]
    if out is not None:
        write(world, out, discount=discount)
        _tell_saved(out)
        return
    for line in lines(world, discount=discount):
        terminal.write_document(f"{line}\n")


def _export_policy(source: str, model: str | None, out: Path | None, player: Path | None) -> None:
    from rewardmix._core.storage import replace
    from rewardmix.report import playable
    from rewardmix.report.playable import as_json, player_source

    policy, world = _policy_and_model(source, model)
    text = as_json(playable(policy, world, Path(source).parent.name)) + "\n"
    if out is None:
        terminal.write_document(text)
    else:
        replace(out, text.encode())
        _tell_saved(out)
    if player is not None:
        replace(player, player_source().encode())
        terminal.echo(f"saved: {player}", err=out is None)


def _export_sessions(source: str, out: Path | None, skip_bad: float | None) -> None:
    from rewardmix.service import export_log

    if out is None:
        refuse("--out", "nothing", "a file to write the log to")
    done = export_log(source, out, skip_bad=True if skip_bad is None else skip_bad)
    for warning in done.warnings:
        terminal.echo(warning)
    terminal.echo(f"{done.sessions} sessions with {done.rows} steps")
    _tell_saved(out)


def _policy_and_model(source: str, model: str | None) -> tuple[Any, RewardMixingMDP]:
    """The policy in a file, and the model: as asked for, of the plan, or from the file beside it."""
    policy, planned = inputs.policy_of("POLICY", source)
    if model is not None:
        return policy, inputs.model_of(model)
    if planned is not None:
        return policy, planned
    beside = Path(source).with_name("model.safetensors")
    if not beside.exists():
        refuse("--model", f"none, and no {str(beside)!r}", "a model beside the policy, or --model MODEL")
    return policy, inputs.model_of(str(beside))


def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that rewardmix learn wrote.")],
    out: Annotated[Path | None, typer.Option(help="File to write; DIR/report.html if none.")] = None,
    names: options.TypeNames = None,
    open_page: options.Open = False,
) -> None:
    """Make the page of a run again, from its result.json alone; --names also names its types, in every file."""
    from rewardmix.report import read_result, write_report
    from rewardmix.report.saved_runs import load_run, save_run

    inputs.check_file("--out", out)
    if names is not None:
        save_run(load_run(folder).named(inputs.names_of(names)), folder)
    page = write_report(folder, read_result(folder), out)
    terminal.say(str(page))
    terminal.answer(report=str(page))
    if open_page:
        terminal.open_page(page)
