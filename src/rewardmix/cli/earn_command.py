"""``rewardmix earn``: an agent in a world for so many episodes, what it collected, and a report."""

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
    from rewardmix.online import Earned


def earn_command(
    world: Annotated[str, options.WORLD],
    *,
    episodes: Annotated[int, typer.Option(help="Episodes to play.")] = 20_000,
    contexts: Annotated[str, typer.Option(help="Number of hidden types, or auto.")] = "2",
    weights: options.Weights = None,
    memory: Annotated[int | None, typer.Option(help="Episodes after which one is forgotten. [never]")] = None,
    seed: options.Seed = 0,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode, if the environment does not tell.")] = None,
    modules: options.Modules = None,
    names: options.TypeNames = None,
    out: options.OutFolder = Path("runs/earned"),
    resume: options.Resume = False,
    open_page: options.Open = False,
) -> None:
    """Earn in a world of which only the states, actions and horizon are known, and learn on the way."""
    settings = {name: value for name, value in locals().items() if name not in ("out", "resume", "open_page")}
    inputs.check_folder("--out", out)
    inputs.check_names(names, inputs.contexts_of(contexts))
    place = inputs.model_or_environment(world, modules)
    checkpoint = inputs.checkpoint_of(out, resume)
    if resume and inputs.is_finished(out, settings):
        terminal.say_finished(out)
        return
    began = time.monotonic()
    with inputs.keeping(checkpoint):
        earned = _earned(settings, place, checkpoint)
    summary = _write_earned(earned, settings, place, out)
    shutil.rmtree(checkpoint, ignore_errors=True)
    _show_earned(earned, time.monotonic() - began)
    terminal.say(f"report: {out / 'report.html'}")
    terminal.answer_run(out, summary)
    if open_page:
        terminal.open_page(out / "report.html")


def _earned(settings: dict[str, Any], place: Any, checkpoint: Path) -> Earned:
    from rewardmix import online

    contexts, known = inputs.contexts_of(settings["contexts"]), inputs.weights_of(settings["weights"])
    with terminal.bar("earning", settings["episodes"]) as show_bar:
        return online.earn(
            place,
            episodes=settings["episodes"],
            num_contexts=contexts,
            seed=settings["seed"],
            weights=known,
            horizon=settings["horizon"],
            memory=settings["memory"],
            on_update=lambda done: show_bar(done, f"{done:,}"),
            checkpoint=checkpoint,
        )


def _write_earned(earned: Earned, settings: dict[str, Any], place: Any, out: Path) -> dict[str, Any]:
    from rewardmix import io
    from rewardmix.report.findings import earned_findings, with_names
    from rewardmix.report.folder import write_folder

    found = earned_findings(
        earned,
        title=settings["world"],
        world=place,
        command=shlex.join(["rewardmix", *sys.argv[1:]]),
        settings=settings,
    )
    summary = write_folder(out, with_names(found, inputs.names_of(settings["names"])))
    io.save(out / "agent.safetensors", earned.agent)
    terminal.show_headline(summary)
    terminal.show_values(summary["comparison"])
    return summary


def _show_earned(earned: Earned, seconds: float) -> None:
    cost = "" if earned.regret is None else f", {earned.regret[-1]:.1f} less than the best policy is expected to"
    terminal.say(
        f"{terminal.counted(earned.curve.size, 'episode')} in {seconds:.1f} s: collected {earned.total:g}{cost}; "
        f"what is played changed {terminal.counted(earned.switches, 'time')}"
    )
    for alarm in earned.agent.alarms:
        seen = (
            f"noticed after {terminal.counted(alarm.episodes, 'episode')} by its {alarm.what} (p = {alarm.p_value:.2g})"
        )
        terminal.say(f"the world has changed: {seen}")
