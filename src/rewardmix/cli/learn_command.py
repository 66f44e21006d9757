"""``rewardmix learn``: from an unknown world to a policy, a certificate and a report; its options, typed or in TOML."""

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

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.learning import Learned, Stage

VALIDATE = 1000
"""Fresh episodes in which the policy is tried where no true model tells its value."""

RESAMPLES = 8
"""Of the bootstrap."""

STOPPING = (
    "no more episodes; a result is being made of those that were played (recover, plan, bootstrap). "
    "Ctrl-C again ends that too"
)
"""What is said when somebody presses Ctrl-C."""

UNSAID = ("bracket", "planned value", "setting", "not tried", "kappa")
"""Facts that the report tells at length and the terminal leaves out."""


def learn_command(
    world: Annotated[str | None, options.WORLD] = None,
    *,
    episodes: Annotated[int | None, typer.Option(help="Budget. Without one, the stopping rule decides.")] = None,
    accuracy: Annotated[float | None, typer.Option(help="Regret at which the rule stops. [0.1]")] = None,
    failure: Annotated[float | None, typer.Option(help="What confidence levels may fail with. [0.05]")] = None,
    contexts: Annotated[str | None, typer.Option(help="Number of hidden types, or auto. [2]")] = None,
    weights: options.Weights = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same result. [0]")] = None,
    setting: Annotated[str | None, typer.Option(help="practical, theory or paper. [practical]")] = None,
    method: Annotated[str | None, typer.Option(help="Recovery: best or paper. [best]")] = None,
    order: Annotated[int | None, typer.Option(help="Explore pairs (2) or triples (3). [2]")] = None,
    refine: Annotated[
        float | None, typer.Option(help="Largest share of episodes for refinement. [0.5 or more]")
    ] = None,
    separation: Annotated[float | None, typer.Option(help="Least gap of types, if known. [0]")] = None,
    validate: Annotated[int | None, typer.Option(help="Fresh episodes to try the policy in.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode, if the environment does not tell.")] = None,
    rewards: Annotated[
        str | None, typer.Option(help="Values that a reward can take, if the environment does not tell: 0,1,2.")
    ] = None,
    modules: options.Modules = None,
    names: options.TypeNames = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these settings.")] = None,
    out: options.OutFolder = Path("runs/latest"),
    resume: options.Resume = False,
    open_page: options.Open = False,
) -> None:
    """Learn to act in a world of which only the states, actions and horizon are known."""
    fields = {field.name for field in dataclasses.fields(LearnOptions)}
    typed = {name: value for name, value in locals().items() if name in fields}
    inputs.check_folder("--out", out)
    settings = LearnOptions.of(typed, config)
    inputs.check_names(settings.names, settings.contexts)
    place = inputs.model_or_environment(settings.world, settings.modules)
    checkpoint = inputs.checkpoint_of(out, resume)
    if resume and inputs.is_finished(out, dataclasses.asdict(settings)):
        terminal.say_finished(out)
        return
    began = time.monotonic()
    with inputs.keeping(checkpoint), terminal.answering_interrupts(STOPPING):
        learned = _learned(settings, place, checkpoint)
    summary = _write(learned, settings, place, out)
    shutil.rmtree(checkpoint, ignore_errors=True)
    terminal.show_headline(summary)
    _show_learned(learned, time.monotonic() - began)
    terminal.say(f"report: {out / 'report.html'}")
    terminal.answer_run(out, summary)
    if open_page:
        terminal.open_page(out / "report.html")
    if learned.certificate.stopped == "interrupted":
        terminal.echo("rewardmix: interrupted; the result holds what was gathered until then", err=True)
        sys.exit(130)


def _learned(settings: LearnOptions, place: Any, checkpoint: Path) -> Learned:
    from rewardmix import learning
    from rewardmix.model import RewardMixingMDP

    known = isinstance(place, RewardMixingMDP)
    values = inputs.numbers_of("--rewards", settings.rewards)
    validate = settings.validate if settings.validate is not None else 0 if known else VALIDATE
    with terminal.watching() as stages:
        return learning.learn(
            place,
            accuracy=settings.accuracy,
            failure=settings.failure,
            episodes=settings.episodes,
            num_contexts=settings.contexts,
            weights=inputs.weights_of(settings.weights),
            seed=settings.seed,
            confidence=inputs.confidence_of("--setting", settings.setting),
            method=inputs.method_of(settings.method, "best", "paper"),
            order=settings.order,
            refine=settings.refine,
            separation=settings.separation,
            validate=validate,
            horizon=settings.horizon,
            reward_values=None if values is None else sorted(values),
            resamples=RESAMPLES,
            on_update=_teller(stages, settings.episodes),
            checkpoint=checkpoint,
        )


def _teller(stages: terminal.Stages, budget: int | None) -> Any:
    def tell(stage: Stage) -> None:
        detail: Any = stage.detail
        if stage.name == "forecast":
            terminal.remark(f"without a budget: perhaps {detail:.2g} episodes, more if the rewards are noisy")
        elif stage.name == "explore":
            known = f"{detail.pairs:,} pairs seen, uncertainty {detail.uncertainty:.2f}"
            stages.tell("explore", f"{terminal.counted(detail.episodes, 'episode')}, {known}", detail.episodes, budget)
        elif stage.name == "refine":
            stages.tell("refine", f"up to {terminal.counted(int(detail), 'episode')}", detail, budget)
        elif stage.name == "plan":
            bracket = "" if detail is None else f"value between {detail.lower:.4f} and {detail.upper:.4f}"
            stages.tell("plan", bracket)
        elif stage.name == "bootstrap":
            stages.tell("bootstrap", f"{detail} of {RESAMPLES}", detail, RESAMPLES)
        else:
            stages.tell(stage.name, "" if detail is None else f"{detail:,}")

    return tell


def _write(learned: Learned, settings: LearnOptions, place: Any, out: Path) -> dict[str, Any]:
    from rewardmix.model import RewardMixingMDP
    from rewardmix.report.findings import learned_findings, with_names
    from rewardmix.report.folder import write_folder

    found = learned_findings(
        learned,
        title=settings.world,
        truth=place if isinstance(place, RewardMixingMDP) else None,
        command=shlex.join(["rewardmix", *sys.argv[1:]]),
        settings=dataclasses.asdict(settings),
    )
    return write_folder(out, with_names(found, inputs.names_of(settings.names)))


def _show_learned(learned: Learned, seconds: float) -> None:
    from rewardmix.report.findings import comparison_of

    terminal.show_values(comparison_of(learned.certificate.truth, learned.plan))
    found = learned.certificate
    ended = found.stopped if found.stopped == "interrupted" else f"stopped by {found.stopped}"
    terminal.say(
        f"{terminal.counted(learned.episodes, 'episode')} in {seconds:.1f} s ({found.setting} setting, "
        f"{ended}), {learned.exploration.episodes} of them explored: "
        f"uncertainty {found.uncertainty:.3f}, pairs seen {found.coverage.seen}, "
        f"never seen {found.coverage.never_seen}"
    )
    for fact in found.facts:
        if fact.what not in UNSAID:
            terminal.say(f"{fact.kind}: {fact.sentence}")


@dataclass(frozen=True)
class LearnOptions:
    """Everything that decides the result of a run; ``result.json`` keeps it."""

    world: str = ""
    episodes: int | None = None
    accuracy: float = 0.1
    failure: float = 0.05
    contexts: int | str = 2
    weights: str | None = None
    seed: int = 0
    setting: str = "practical"
    method: str = "best"
    order: int = 2
    refine: float | None = None
    separation: float = 0.0
    validate: int | None = None
    horizon: int | None = None
    rewards: str | None = None
    modules: str | None = None
    names: str | None = None

    @staticmethod
    def of(typed: dict[str, Any], config: Path | None) -> LearnOptions:
        """What was typed goes before what the file says, and that before the defaults."""
        settings = {
            **(_config(config) if config else {}),
            **{key: value for key, value in typed.items() if value is not None},
        }
        if not settings.get("world"):
            refuse(
                "PROBLEM_OR_ENV_ID", "nothing", "a problem, a Gymnasium id or a saved model (or `world` in --config)"
            )
        if "contexts" in settings:
            settings["contexts"] = inputs.contexts_of(settings["contexts"])
        return LearnOptions(**settings)


def _config(path: Path) -> dict[str, Any]:
    content = inputs.toml_of("--config", path)
    fields = {field.name: field for field in dataclasses.fields(LearnOptions)}
    for name, value in content.items():
        if name not in fields:
            refuse(f"--config {path}", f"{name!r}", f"one of {', '.join(fields)}")
        wanted = fields[name].type
        kind = str if "str" in str(wanted) else float if "float" in str(wanted) else int
        if name == "contexts":
            kind = int if isinstance(value, int) else str
        if isinstance(value, bool) or not isinstance(value, int | float if kind is float else kind):
            refuse(
                f"--config {path}: {name}", repr(value), {str: "a text", float: "a number", int: "a whole number"}[kind]
            )
    return content
