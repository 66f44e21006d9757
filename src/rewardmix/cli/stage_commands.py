"""The stages of ``learn`` one by one: ``explore``, ``recover``; and ``theory``, the episodes that they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.exploration import Exploration
    from rewardmix.recovery import Recovery


def explore_command(
    problem: options.Model,
    *,
    episodes: Annotated[int | None, typer.Option(help="Budget of episodes.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Stop once the uncertainty V_0 is at most this.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the moments to this file.")] = None,
    episodes_out: Annotated[Path | None, typer.Option(help="Save the episodes themselves to this file.")] = None,
    confidence: Annotated[str, typer.Option(help="practical, theory or paper.")] = "practical",
    counts: Annotated[str, typer.Option(help="all_pairs, or selected as in the paper.")] = "all_pairs",
    order: Annotated[int, typer.Option(help="Explore pairs (2) or triples (3).")] = 2,
    strategy: Annotated[str, typer.Option(help="optimistic, or a baseline: uniformly, first_order.")] = "optimistic",
    growth: Annotated[float, typer.Option(help="Counts grow by this factor between two plans; 1: never wait.")] = 1.05,
    failure: options.Failure = 0.05,
    seed: options.Seed = 0,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder to save to, and to go on from.")] = None,
) -> None:
    """Explore a problem so that every reachable pair of state-actions is seen. Ctrl-C keeps what was gathered."""
    from rewardmix import exploration
    from rewardmix._core.checks import as_seed
    from rewardmix.io import save

    as_seed("--seed", seed)
    inputs.check_file("--out", out)
    inputs.check_file("--episodes-out", episodes_out)
    inputs.check_folder("--checkpoint", checkpoint)
    setting = inputs.confidence_of("--confidence", confidence)
    counted = inputs.chosen("--counts", counts, _by_name(exploration, "all_pairs", "selected"))
    played = inputs.chosen("--strategy", strategy, _by_name(exploration, "optimistic", "uniformly", "first_order"))
    with terminal.bar("exploring", episodes) as show:
        found = exploration.explore(
            inputs.model_of(problem),
            episodes=episodes,
            threshold=threshold,
            confidence=setting,
            counts=counted,
            order=order,
            strategy=played,
            growth=growth,
            failure=failure,
            seed=seed,
            keep=episodes_out is not None,
            on_update=lambda update: show(update.episodes, f"V_0 {update.uncertainty:.3f}"),
            checkpoint=checkpoint,
        )
    for path, noun in ((out, found.moments), (episodes_out, found.gathered)):
        if path is not None and noun is not None:
            save(path, noun)
    _show_explored(found, out)


def _by_name(room: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(room, name) for name in names}


def _show_explored(found: Exploration, out: Path | None) -> None:
    seen = found.info.coverage
    rows = [
        ["episodes", f"{found.episodes:,}"],
        ["uncertainty V_0", f"{found.uncertainty:.4f}"],
        *([["triples seen", f"{found.moments.triple_keys.size:,}"]] if found.moments.triple_keys.size else []),
        ["pairs seen", f"{seen.seen:,}"],
        ["pairs possible, never seen", f"{seen.never_seen:,}"],
        ["pairs impossible", f"{seen.impossible:,}"],
        ["samples of the rarest possible pair", f"{seen.least:,}"],
        ["plans made", f"{found.info.refreshes:,} whole, {found.info.rows_planned:,} rows"],
        ["stopped by", found.info.stopped],
    ]
    terminal.show_table(f"Exploration, {found.info.confidence} setting, {found.info.counts}", ["", ""], rows)
    terminal.say(f"Guarantee: {found.info.guarantee}.")
    if out is not None:
        terminal.say(f"Moments saved to {out}")
    terminal.answer(
        episodes=found.episodes,
        uncertainty=found.uncertainty,
        pairs={"seen": seen.seen, "never_seen": seen.never_seen, "impossible": seen.impossible, "least": seen.least},
        stopped=found.info.stopped,
        saved=None if out is None else str(out),
    )


def theory_command(
    states: Annotated[int, typer.Option(help="S: how many states.")],
    actions: Annotated[int, typer.Option(help="A: how many actions.")],
    horizon: Annotated[int, typer.Option(help="H: steps of an episode.")],
    accuracy: Annotated[float, typer.Option(help="epsilon: how far from the best policy.")] = 0.1,
    separation: Annotated[float, typer.Option(help="delta: the smallest difference of types that is not 0.")] = 0.2,
    failure: Annotated[float, typer.Option(help="eta: what the claim may fail with.")] = 0.05,
) -> None:
    """Episodes that the theorems ask for, that the paper's algorithm would use, that the practical setting needs."""
    from rewardmix import theory
    from rewardmix._core.checks import as_count, as_number

    sizes = as_count("--states", states), as_count("--actions", actions), as_count("--horizon", horizon)
    as_number("--accuracy", accuracy, above=0.0)
    as_number("--separation", separation, above=-1e-12)
    as_number("--failure", failure, above=0.0, below=1.0)
    if accuracy > horizon:
        refuse("--accuracy", accuracy, f"at most the horizon {horizon}: no policy can be further from the best")
    stop = theory.threshold(accuracy, separation, horizon)
    asked = theory.upper_bound(*sizes, accuracy, separation, failure)
    used = theory.fluid_episodes(*sizes, stop, failure)
    rows = [
        ["threshold for V_0 (eps_pe)", f"{stop:.3g}", "(epsilon / H^3) max(delta, epsilon / H^2)"],
        ["lower bound", f"{theory.lower_bound(*sizes[:2], accuracy):.3g}", "S^2 A^2 / epsilon^2, constant 1"],
        ["what the theorem asks", f"{asked:.3g}", "theorem:upper_bound, constant 1"],
        ["its bound on exploration", f"{theory.episode_bound(*sizes, stop, failure):.3g}", "until V_0 <= eps_pe"],
        ["what the paper's algorithm would use", f"{used:.3g}", "fluid estimate, c = 1"],
        ["what the practical setting needs", f"{theory.practical_episodes(*sizes):.3g}", "V_0 <= 0.5, easy worlds"],
    ]
    title = f"Episodes for S = {states}, A = {actions}, H = {horizon}, epsilon = {accuracy:g}, delta = {separation:g}"
    terminal.show_table(title, ["", "number", "what it is"], rows)
    terminal.answer(
        threshold=stop,
        lower_bound=theory.lower_bound(*sizes[:2], accuracy),
        upper_bound=asked,
        exploration_bound=theory.episode_bound(*sizes, stop, failure),
        paper=used,
        practical=theory.practical_episodes(*sizes),
    )


def recover_command(
    data: Annotated[Path, typer.Argument(metavar="MOMENTS_OR_EPISODES", help="A saved file of either.")],
    *,
    contexts: Annotated[str, typer.Option(help="Number of hidden types, or auto to choose (needs episodes).")] = "2",
    weights: options.Weights = None,
    method: Annotated[str, typer.Option(help="best, paper or spectral.")] = "best",
    prior: Annotated[
        float | None, typer.Option(help="Pseudo-count at the average; 0: maximum likelihood; left out: 1, or learned.")
    ] = None,
    failure: options.Failure = 0.05,
    accuracy: Annotated[float, typer.Option(help="Accuracy that the confidence set's tolerance is for.")] = 0.1,
    deviations: Annotated[
        float | None, typer.Option(help="Intervals of so many standard errors instead of guaranteed ones.")
    ] = None,
    seed: options.Seed = 0,
    rows: Annotated[int, typer.Option(help="State-actions to show at most.")] = 40,
    out: Annotated[Path | None, typer.Option(help="Save the model to this file.")] = None,
) -> None:
    """Recover the rewards of each hidden type from what was seen."""
    from rewardmix import recovery
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.io import load, save

    as_seed("--seed", seed)
    as_count("--rows", rows, least=0)
    inputs.check_file("--out", out)
    algorithm = inputs.method_of(method, "best", "paper", "spectral")
    seen = load(data)
    with terminal.live_line() as show:
        show("choosing the number of types")
        number = _number_of_contexts(contexts, seen, seed)
        show("recovering")
        found = recovery.recover(
            seen,
            num_contexts=number,
            weights=inputs.weights_of(weights),
            prior=prior,
            method=algorithm,
            seed=seed,
            failure=failure,
            accuracy=accuracy,
            radius=recovery.hoeffding if deviations is None else recovery.normal(deviations),
        )
    terminal.say(repr(found.model))
    _show_recovered(found, rows)
    for line in _certificate_lines(found):
        terminal.say(line)
    if out is not None:
        save(out, found.model)
        terminal.say(f"saved: {out}")
    terminal.answer(
        weights=found.model.weights,
        rewards=found.model.rewards,
        lower=found.info.lower,
        upper=found.info.upper,
        certificate=_certificate_lines(found),
        saved=None if out is None else str(out),
    )


def _number_of_contexts(text: str, seen: Any, seed: int) -> int:
    number = inputs.contexts_of(text)
    if isinstance(number, str):
        from rewardmix.episodes import Episodes
        from rewardmix.recovery import choose_contexts

        if not isinstance(seen, Episodes):
            refuse("--contexts", "auto for moments", "a number: choosing it needs whole episodes")
        choice = choose_contexts(seen, seed=seed)
        terminal.say(choice.sentence)
        return choice.num_contexts
    return number


def _show_recovered(found: Recovery, most: int) -> None:
    """One row for each state-action: where types differ most comes first."""
    import numpy as np

    model, info = found.model, found.info
    spread = np.abs(model.means - model.mean).max(axis=0).ravel()
    order = np.argsort(-spread, kind="stable")[:most]
    several = model.num_values > 2
    columns = ["state", "action", *(["reward"] if several else [])]
    columns += [f"{name} ({weight:.3f})" for name, weight in zip(model.type_labels, model.weights, strict=True)]
    rows = []
    for x in order:
        s, a = divmod(int(x), model.num_actions)
        names = [model.state_names[s] if model.state_names else str(s)]
        names.append(model.action_names[a] if model.action_names else str(a))
        for z in range(model.num_values) if several else (None,):
            place = (slice(None), s, a) if z is None else (slice(None), s, a, z)
            values = zip(model.rewards[place], info.lower[place], info.upper[place], strict=True)
            cells = [f"{p:.3f} ({low:.3f} .. {high:.3f})" for p, low, high in values]
            rows.append([*names, *([] if z is None else [f"{model.reward_values[z]:g}"]), *cells])
    what = "probability of each reward" if several else f"probability of reward {model.reward_values[1]:g}"
    shown = "" if order.size == spread.size else f", {order.size} of {spread.size} state-actions"
    terminal.show_table(f"Recovered {what} for each type (95 %){shown}", columns, rows, texts=3 if several else 2)


def _certificate_lines(found: Recovery) -> list[str]:
    """The certificate and what is not identified, one thing a line."""
    info, certificate = found.info, found.info.certificate
    out = [f"method: {info.method}; weights {info.weights}; {info.convergence}"]
    if info.starts and info.loglik == info.loglik:
        out.append(
            f"log-likelihood: {info.loglik:.6f}; best of {len(info.starts)} starts, reached by {info.reproduced}"
        )
    inside = "inside" if certificate.contained else f"outside of {certificate.violations} intervals of"
    out.append(f"certificate: the model is {inside} its confidence set")
    if certificate.program != "not asked":
        grown = "" if certificate.kappa == 1 else f", radii would have to grow {certificate.kappa:.4g} times"
        taken = "" if certificate.kappa_weights == "known" else f", with weights {certificate.kappa_weights}"
        said = f"{certificate.program}{grown}{taken}; {len(certificate.conflicts)} sign conflicts"
        out.append(f"certificate: magnitudes {said}")
    if certificate.broken:
        out.append(f"pairs that break it: {_some(certificate.broken)}")
    if certificate.odd_cycle:
        out.append(f"signs contradict each other around {' - '.join(map(str, certificate.odd_cycle))}")
    if info.gross:
        out.append(f"pairs not believed: {_some(info.gross)}")
    if info.never_together:
        out.append(f"pairs of visited state-actions never seen together: {info.never_together}")
    out.append(info.not_identified)
    return out


def _some(pairs: tuple[tuple[int, int], ...]) -> str:
    text = ", ".join(f"({i}, {j})" for i, j in pairs[:10])
    return text + (f" and {len(pairs) - 10} more" if len(pairs) > 10 else "")
