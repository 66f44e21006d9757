"""Define commands for models and runs: ``envs``, ``describe``, ``plan``, ``evaluate``, ``export``, ``report``."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import raise_input_error
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.evaluation import Evaluation
    from rewardmix.model import RewardMixingMDP


def envs_command() -> None:
    """List the built-in problems with their Gymnasium ids."""
    from rewardmix.environments.registration import env_id
    from rewardmix.problems.registry import PROBLEMS

    descriptions = {
        name: (builder.__doc__ or "").split("\n")[0].replace("``", "") for name, builder in PROBLEMS.items()
    }
    rows = [[name, env_id(name), text] for name, text in descriptions.items()]
    terminal.print_table("Problems", ["name", "Gymnasium id", "description"], rows, text_columns=3)
    terminal.print_json(problems=[dict(zip(("name", "id", "description"), row, strict=True)) for row in rows])


def describe_command(
    problem: options.ModelArgument,
    num_episodes: Annotated[int, typer.Option(help="Number of episodes to simulate.")] = 100_000,
    seed: options.SeedOption = 0,
) -> None:
    """Describe a model and evaluate simple policies in it.

    Values are computed exactly and estimated by simulation.
    """
    import numpy as np

    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.evaluation import bounds_of, confidence_interval, evaluate
    from rewardmix.policy import markov_policy, uniform_policy
    from rewardmix.simulation import simulate

    as_count("--num-episodes", num_episodes, min_value=2)
    as_seed("--seed", seed)
    model = inputs.parse_model(problem)
    terminal.print_text(repr(model))
    greedy = np.argmax(model.mean_rewards, axis=1)
    policy_rows: list[dict[str, Any]] = []
    policies = {"uniform": uniform_policy(model), "greedy on the mean reward": markov_policy(greedy, model)}
    rows = []
    for name, policy in policies.items():
        # Both values are printed: the interval from simulation should contain the exact value, which checks both.
        with terminal.progress_bar(f"simulating {name}", num_episodes) as show:
            episodes = simulate(policy, model, num_episodes, seed, callback=show)
        exact = evaluate(policy, model)
        interval = confidence_interval(episodes.returns, bounds=bounds_of(episodes, policy, model))
        rows.append([name, terminal.format_fixed(exact.value), f"{interval.lower:.4f} .. {interval.upper:.4f}"])
        policy_rows.append({"policy": name, "value": exact.value, "simulated": [interval.lower, interval.upper]})
    title = f"{terminal.pluralize(num_episodes, 'episode')} each"
    terminal.print_table(title, ["policy", "exact value", "simulated (95 %)"], rows)
    sizes = ("num_types", "num_states", "num_actions", "horizon", "weights", "reward_values")
    terminal.print_json(model={name: getattr(model, name) for name in sizes}, policies=policy_rows)


def plan_command(
    problem: options.ModelArgument,
    gap: Annotated[
        float, typer.Option(help="Largest difference between the certified bounds of the optimal value.")
    ] = 1e-3,
    max_operations: Annotated[
        float | None, typer.Option(help="Budget of elementary operations, about 1e9 per second.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Time limit; the plan then depends on the machine.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Plan file to write.")] = None,
) -> None:
    """Plan in a known model; compare with simple policies."""
    from rewardmix.planning import compare_with_baselines, plan

    inputs.check_file("--out", out)
    model = inputs.parse_model(problem)
    terminal.print_text(repr(model))
    with terminal.status_line() as show:
        plan_result = plan(
            model,
            gap=gap,
            max_operations=max_operations,
            max_seconds=max_seconds,
            callback=lambda done: show(
                f"{done.num_points} beliefs: {done.lower:.8g} .. {done.upper:.8g}, "
                f"gap {done.gap:.1e}, {done.seconds:.1f} s"
            ),
        )
        show("comparing")
        comparison = compare_with_baselines(plan_result)
    rows = [
        [row.name, terminal.format_fixed(row.value, 6), _format_percent(row.normalized_score)]
        for row in comparison.table
    ]
    terminal.print_table("Expected return per episode", ["policy", "value", "normalized score"], rows)
    status = (
        "as requested" if plan_result.info.converged else f"NOT the requested {gap:g}: {plan_result.info.stop_reason}"
    )
    terminal.print_text(
        f"optimal value between {plan_result.lower:.9g} and {plan_result.upper:.9g}: "
        f"gap {plan_result.gap:.2g}, {status}"
    )
    terminal.print_text(f"policy: controller with {plan_result.policy.size} nodes, {plan_result.nbytes / 1024:.0f} KiB")
    if out is not None:
        # The module imports every class that can be stored, which takes long; it is needed only with ``--out``.
        from rewardmix.io import save

        save(out, plan_result)
        _print_saved(out)
    terminal.print_json(
        lower=plan_result.lower,
        upper=plan_result.upper,
        converged=plan_result.info.converged,
        stop_reason=plan_result.info.stop_reason,
        policies=[
            {"policy": row.name, "value": row.value, "normalized_score": row.normalized_score}
            for row in comparison.table
        ],
        saved=None if out is None else str(out),
    )


def _format_percent(score: float) -> str:
    """Format a normalized score in percent; a dash if it is undefined."""
    # NaN differs from itself. The score is NaN if the adaptivity gain, its denominator, is 0.
    return f"{100 * score:.1f} %" if score == score else "-"


def _print_saved(out: Path) -> None:
    """Print path and size of a file."""
    terminal.print_text(f"saved: {out} ({out.stat().st_size / 1024:.0f} KiB)")


def evaluate_command(
    policy: Annotated[
        Path, typer.Argument(metavar="POLICY", help="Saved policy or plan, such as policy.safetensors of a run.")
    ],
    env: Annotated[str, options.ENV_ARGUMENT],
    num_episodes: Annotated[
        int, typer.Option(help="Number of episodes in an environment; values in models are exact.")
    ] = 10_000,
    failure_prob: options.FailureProbOption = 0.05,
    seed: options.SeedOption = 0,
    modules: options.ModulesOption = None,
) -> None:
    """Evaluate a policy in a model or in an environment.

    The value is exact in a model; in an environment it is estimated from episodes, with a confidence interval.
    """
    from rewardmix._core.checks import as_count, as_number, as_seed
    from rewardmix.evaluation import evaluate

    as_count("--num-episodes", num_episodes, min_value=2)
    as_number("--failure-prob", failure_prob, above=0.0, below=1.0)
    as_seed("--seed", seed)
    loaded_policy, _ = inputs.load_policy("POLICY", policy)
    env_or_model = inputs.parse_model_or_env(env, modules)
    with terminal.progress_bar("evaluating", num_episodes) as show:
        evaluation = evaluate(
            loaded_policy, env_or_model, num_episodes=num_episodes, failure_prob=failure_prob, seed=seed, callback=show
        )
    terminal.print_json(**vars(evaluation))
    if evaluation.is_exact:
        terminal.print_text(f"{evaluation.value:.9g} (exact)")
    else:
        terminal.print_text(
            f"{evaluation.value:.6g} ({_format_interval(evaluation)}, "
            f"{terminal.pluralize(evaluation.num_episodes, 'episode')})"
        )


def _format_interval(evaluation: Evaluation) -> str:
    """Format the confidence interval of a simulated value, or the reason why there is none."""
    if evaluation.upper == math.inf:
        return "no interval: all returns are 0 and no bound of the return is known"
    ends = f"{evaluation.lower:.6g} .. {evaluation.upper:.6g}"
    return f"{ends}, approximate: no bound of the return is known" if evaluation.approximate else ends


class ExportFormat(StrEnum):
    """List the export formats by file ending."""

    POMDPX = "pomdpx"
    POMDP = "pomdp"
    JSON = "json"
    PARQUET = "parquet"


def export_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|POLICY|STORE",
            help=f"{options.MODEL_HELP} For json: saved policy or plan. For parquet: store of rewardmix serve.",
        ),
    ],
    format: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            help="Format: pomdpx (factored, for SARSOP), pomdp (flat), json (policy) or parquet (sessions as a log).",
        ),
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write. [default: standard output]")] = None,
    discount: Annotated[
        float, typer.Option(help="Discount factor of a POMDP file; rewards are scaled to cancel it.")
    ] = 0.99,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="json: model that updates the belief. [default: model.safetensors beside POLICY]"
        ),
    ] = None,
    player: Annotated[
        Path | None, typer.Option(metavar="FILE", help="json: JavaScript module to write, which runs the policy.")
    ] = None,
    drop_invalid: Annotated[
        float | None,
        typer.Option(help="parquet: largest fraction of sessions to cut at an unknown state. [default: 0.1]"),
    ] = None,
) -> None:
    """Export a model, a policy or sessions to one file.

    A model is written for a POMDP solver, a policy as JSON, the sessions of a store as a log.
    """
    inputs.check_file("--out", out)
    inputs.check_file("--player", player)
    if format is ExportFormat.JSON:
        _export_policy(source, model, out, player)
    elif format is ExportFormat.PARQUET:
        _export_sessions(source, out, drop_invalid)
    else:
        _export_model(source, format, out, discount)


def _export_model(source: str, format: ExportFormat, out: Path | None, discount: float) -> None:
    """Write a model in a POMDP format to a file or to standard output."""
    from rewardmix import interop

    model = inputs.parse_model(source)
    write, lines = {
        ExportFormat.POMDPX: (interop.export_pomdpx, interop.pomdpx_lines),
        ExportFormat.POMDP: (interop.export_pomdp, interop.pomdp_lines),
    }[format]
    if out is not None:
        write(model, out, discount=discount)
        _print_saved(out)
        return
    # Line by line, because a flat POMDP file can be much larger than the model.
    for line in lines(model, discount=discount):
        terminal.write_document(f"{line}\n")


def _export_policy(source: str, model: str | None, out: Path | None, player: Path | None) -> None:
    """Write a policy as JSON, and if requested the JavaScript module that runs it."""
    from rewardmix._core.storage import write_atomic
    from rewardmix.report import policy_to_dict
    from rewardmix.report.policy_json import load_player_js, to_json

    policy, policy_model = _load_policy_and_model(source, model)
    text = to_json(policy_to_dict(policy, policy_model, Path(source).parent.name)) + "\n"
    if out is None:
        terminal.write_document(text)
    else:
        write_atomic(out, text.encode())
        _print_saved(out)
    if player is not None:
        write_atomic(player, load_player_js().encode())
        # On standard error if the policy itself goes to standard output, which must stay valid JSON.
        terminal.echo(f"saved: {player}", err=out is None)


def _export_sessions(source: str, out: Path | None, drop_invalid: float | None) -> None:
    """Export the sessions of a store to a log file."""
    from rewardmix.service import export_log

    if out is None:
        raise_input_error("--out", "nothing", "a log file to write")
    export_report = export_log(source, out, drop_invalid=True if drop_invalid is None else drop_invalid)
    for warning in export_report.warnings:
        terminal.echo(warning)
    terminal.echo(f"{export_report.num_sessions} sessions with {export_report.num_rows} steps")
    _print_saved(out)


def _load_policy_and_model(source: str, model: str | None) -> tuple[Any, RewardMixingMDP]:
    """Load a policy and its model: the given model, that of the plan, or the file beside the policy."""
    policy, plan_model = inputs.load_policy("POLICY", source)
    if model is not None:
        return policy, inputs.parse_model(model)
    if plan_model is not None:
        return policy, plan_model
    model_path = Path(source).with_name("model.safetensors")
    if not model_path.exists():
        raise_input_error("--model", f"nothing, and no file {str(model_path)!r}", "a model")
    return policy, inputs.parse_model(str(model_path))


def report_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Report to write. [default: RUN/report.html]")
    ] = None,
    type_names: options.TypeNamesOption = None,
    open_report: options.OpenReportOption = False,
) -> None:
    """Render the report of a run from its result.json.

    --type-names also renames the types in the files of the run folder.
    """
    from rewardmix.report import read_result, write_report
    from rewardmix.report.saved_runs import load_run, save_run

    inputs.check_file("--out", out)
    if type_names is not None:
        save_run(load_run(folder).with_type_names(inputs.parse_names(type_names)), folder)
    page = write_report(folder, read_result(folder), out)
    terminal.print_text(str(page))
    terminal.print_json(report=str(page))
    if open_report:
        terminal.open_page(page)
