"""Define ``rewardmix learn``: from an unknown environment to a policy, a certificate and a report.

Options come from the command line or from a TOML file.
"""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import raise_input_error
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.learning import LearnProgress, LearnResult

DEFAULT_VALIDATION_EPISODES = 1000
"""Number of validation episodes in an environment, where no true model gives the value of the policy."""

NUM_RESAMPLES = 8
"""Number of bootstrap resamples."""

INTERRUPT_MESSAGE = (
    "interrupted; computing a result from the episodes so far (recover, plan, bootstrap). Ctrl-C again stops this too"
)
"""Message after the first Ctrl-C."""

HIDDEN_STATEMENTS = ("bracket", "planned value", "bonus guarantee", "not tested", "radius inflation")
"""Keys of statements that the report explains and the terminal omits."""


def learn_command(
    env: Annotated[str | None, options.ENV_ARGUMENT] = None,
    *,
    num_episodes: Annotated[
        int | None, typer.Option(help="Episode budget. [default: the stopping rule of --target-regret]")
    ] = None,
    target_regret: Annotated[float | None, typer.Option(help="Regret at which learning stops. [default: 0.1]")] = None,
    failure_prob: Annotated[
        float | None, typer.Option(help="Probability that a confidence statement is wrong. [default: 0.05]")
    ] = None,
    num_types: Annotated[
        str | None, typer.Option(metavar="INTEGER|auto", help="Number of hidden types. [default: 2]")
    ] = None,
    weights: options.WeightsOption = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; equal seeds give equal results. [default: 0]")] = None,
    bonus: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Exploration bonus: practical, theory or paper. [default: practical]"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Recovery method: maximum_likelihood or algorithm_3. [default: maximum_likelihood]"
        ),
    ] = None,
    moment_order: Annotated[
        int | None, typer.Option(help="Order of the moments: 2 (pairs) or 3 (triples). [default: 2]")
    ] = None,
    refinement_fraction: Annotated[
        float | None, typer.Option(help="Largest fraction of episodes for refinement. [default: 0.5 or more]")
    ] = None,
    min_separation: Annotated[
        float | None, typer.Option(help="Smallest nonzero reward difference of the types, if known. [default: 0]")
    ] = None,
    num_validation_episodes: Annotated[
        int | None,
        typer.Option(help="New episodes to evaluate the policy in. [default: 1000 in environments, 0 in models]"),
    ] = None,
    horizon: options.EnvHorizonOption = None,
    reward_values: Annotated[
        str | None, typer.Option(help="Values that a reward can take, e.g. 0,1,2. [default: those of the environment]")
    ] = None,
    modules: options.ModulesOption = None,
    type_names: options.TypeNamesOption = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with these settings; options take precedence.")
    ] = None,
    out: options.OutFolderOption = Path("runs/latest"),
    resume: options.ResumeOption = False,
    open_report: options.OpenReportOption = False,
) -> None:
    """Learn a policy in an environment; write a run folder.

    Explore, recover the rewards of the hidden types, and plan (Algorithm 1).
    """
    # ``locals()`` is read at the start, while it holds the arguments only; ``fields`` are those that influence the
    # result.
    fields = {field.name for field in dataclasses.fields(LearnOptions)}
    arguments = {name: value for name, value in locals().items() if name in fields}
    inputs.check_folder("--out", out)
    settings = LearnOptions.merge(arguments, config)
    inputs.check_names(settings.type_names, settings.num_types)
    env_or_model = inputs.parse_model_or_env(settings.env, settings.modules)
    checkpoint = inputs.resolve_checkpoint(out, resume)
    if resume and inputs.check_run_complete(out, dataclasses.asdict(settings)):
        terminal.print_already_complete(out)
        return
    start_time = time.monotonic()
    with inputs.discard_checkpoint_on_error(checkpoint), terminal.handle_first_interrupt(INTERRUPT_MESSAGE):
        learn_result = _run(settings, env_or_model, checkpoint)
    summary = _write_run(learn_result, settings, env_or_model, out)
    # Removed after the folder is written: a crash in between leaves a run that ``--resume`` can finish.
    shutil.rmtree(checkpoint, ignore_errors=True)
    terminal.print_headline(summary)
    _print_result(learn_result, time.monotonic() - start_time)
    terminal.print_text(f"report: {out / 'report.html'}")
    terminal.print_run_json(out, summary)
    if open_report:
        terminal.open_page(out / "report.html")
    # The result is saved, but scripts must see that the budget was not used: 130, as for any interrupted command.
    if learn_result.certificate.stop_reason == "interrupted":
        terminal.echo("rewardmix: interrupted; the result uses the episodes so far", err=True)
        sys.exit(130)


def _run(settings: LearnOptions, env_or_model: Any, checkpoint: Path) -> LearnResult:
    """Run ``learn`` with progress of its stages."""
    from rewardmix import learning
    from rewardmix.model import RewardMixingMDP

    has_model = isinstance(env_or_model, RewardMixingMDP)
    reward_values = inputs.parse_numbers("--reward-values", settings.reward_values)
    # In a model the value of the policy is exact, so validation episodes would add nothing.
    num_validation_episodes = settings.num_validation_episodes
    if num_validation_episodes is None:
        num_validation_episodes = 0 if has_model else DEFAULT_VALIDATION_EPISODES
    with terminal.stage_progress() as stages:
        return learning.learn(
            env_or_model,
            target_regret=settings.target_regret,
            failure_prob=settings.failure_prob,
            num_episodes=settings.num_episodes,
            num_types=settings.num_types,
            weights=inputs.parse_weights(settings.weights),
            seed=settings.seed,
            bonus=inputs.parse_bonus("--bonus", settings.bonus),
            method=inputs.parse_method(settings.method, "maximum_likelihood", "algorithm_3"),
            moment_order=settings.moment_order,
            refinement_fraction=settings.refinement_fraction,
            min_separation=settings.min_separation,
            num_validation_episodes=num_validation_episodes,
            horizon=settings.horizon,
            reward_values=None if reward_values is None else sorted(reward_values),
            num_resamples=NUM_RESAMPLES,
            callback=_make_progress_callback(stages, settings.num_episodes),
            checkpoint_dir=checkpoint,
        )


def _make_progress_callback(stages: terminal.StageProgress, budget: int | None) -> Any:
    """Make the callback that shows the stages of ``learn``."""

    def show_progress(stage: LearnProgress) -> None:
        """Show the progress of one stage."""
        detail: Any = stage.detail
        if stage.name == "forecast":
            terminal.print_status(f"no budget given: about {detail:.2g} episodes expected, more if rewards are noisy")
        elif stage.name == "explore":
            status = f"{detail.num_pairs:,} pairs observed, uncertainty {detail.uncertainty:.2f}"
            stages.update(
                "explore",
                f"{terminal.pluralize(detail.num_episodes, 'episode')}, {status}",
                detail.num_episodes,
                budget,
            )
        elif stage.name == "refine":
            stages.update("refine", f"up to {terminal.pluralize(int(detail), 'episode')}", detail, budget)
        elif stage.name == "plan":
            bracket = "" if detail is None else f"value between {detail.lower:.4f} and {detail.upper:.4f}"
            stages.update("plan", bracket)
        elif stage.name == "bootstrap":
            stages.update("bootstrap", f"{detail} of {NUM_RESAMPLES}", detail, NUM_RESAMPLES)
        else:
            stages.update(stage.name, "" if detail is None else f"{detail:,}")

    return show_progress


def _write_run(learn_result: LearnResult, settings: LearnOptions, env_or_model: Any, out: Path) -> dict[str, Any]:
    """Write the run folder and return its summary."""
    from rewardmix.model import RewardMixingMDP
    from rewardmix.report.report_data import report_data_from_learn, set_report_type_names
    from rewardmix.report.run_folder import write_run

    report_data = report_data_from_learn(
        learn_result,
        title=settings.env,
        true_model=env_or_model if isinstance(env_or_model, RewardMixingMDP) else None,
        command=shlex.join(["rewardmix", *sys.argv[1:]]),
        settings=dataclasses.asdict(settings),
    )
    return write_run(out, set_report_type_names(report_data, inputs.parse_names(settings.type_names)))


def _print_result(learn_result: LearnResult, seconds: float) -> None:
    """Print values, episode counts and statements of a run."""
    from rewardmix.report.report_data import make_comparison

    terminal.print_values(make_comparison(learn_result.certificate.true_model, learn_result.plan))
    certificate = learn_result.certificate
    reason = certificate.stop_reason
    stop_text = reason if reason == "interrupted" else f"stopped by {reason}"
    terminal.print_text(
        f"{terminal.pluralize(learn_result.num_episodes, 'episode')} in {seconds:.1f} s ({certificate.bonus} bonus, "
        f"{stop_text}), {learn_result.exploration.num_episodes} of them exploration: "
        f"uncertainty {certificate.uncertainty:.3f}, {certificate.coverage.num_observed} pairs observed, "
        f"{certificate.coverage.num_missing} not observed"
    )
    for statement in certificate.statements:
        if statement.key not in HIDDEN_STATEMENTS:
            terminal.print_text(f"{statement.status}: {statement.text}")


@dataclass(frozen=True)
class LearnOptions:
    """Hold all options that influence the result of a run; ``result.json`` stores them."""

    env: str = ""
    num_episodes: int | None = None
    target_regret: float = 0.1
    failure_prob: float = 0.05
    num_types: int | str = 2
    weights: str | None = None
    seed: int = 0
    bonus: str = "practical"
    method: str = "maximum_likelihood"
    moment_order: int = 2
    refinement_fraction: float | None = None
    min_separation: float = 0.0
    num_validation_episodes: int | None = None
    horizon: int | None = None
    reward_values: str | None = None
    modules: str | None = None
    type_names: str | None = None

    @staticmethod
    def merge(arguments: dict[str, Any], config: Path | None) -> LearnOptions:
        """Merge options: the command line takes precedence over the TOML file, and that over the defaults."""
        settings = {
            **(_load_config(config) if config else {}),
            **{key: value for key, value in arguments.items() if value is not None},
        }
        if not settings.get("env"):
            raise_input_error(
                "PROBLEM_OR_ENV_ID",
                "nothing",
                "a problem, a Gymnasium id or a saved model; or env in the file of --config",
            )
        if "num_types" in settings:
            settings["num_types"] = inputs.parse_num_types(settings["num_types"])
        return LearnOptions(**settings)


def _load_config(path: Path) -> dict[str, Any]:
    """Load options from a TOML file after a check of names and types."""
    content = inputs.load_toml("--config", path)
    fields = {field.name: field for field in dataclasses.fields(LearnOptions)}
    for name, value in content.items():
        if name not in fields:
            raise_input_error(f"--config {path}", f"{name!r}", f"one of {', '.join(fields)}")
        # Annotations are strings here, because of ``from __future__ import annotations``.
        annotation = str(fields[name].type)
        kind = str if "str" in annotation else float if "float" in annotation else int
        if name == "num_types":
            kind = int if isinstance(value, int) else str
        # ``bool`` is a subclass of ``int`` and would pass as a number. An integer is valid where a float is expected.
        if isinstance(value, bool) or not isinstance(value, int | float if kind is float else kind):
            raise_input_error(
                f"--config {path}: {name}", repr(value), {str: "a text", float: "a number", int: "a whole number"}[kind]
            )
    return content
