"""Define the commands for single stages of ``learn``: ``explore``, ``recover``; and ``theory``, their sample sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rewardmix._core.errors import raise_input_error
from rewardmix.cli import inputs, options, terminal

if TYPE_CHECKING:
    from rewardmix.exploration import ExplorationResult
    from rewardmix.recovery import RecoveryResult


def explore_command(
    model: options.ModelArgument,
    *,
    num_episodes: Annotated[int | None, typer.Option(help="Episode budget.")] = None,
    uncertainty_threshold: Annotated[
        float | None, typer.Option(help="Stop once the uncertainty V_0 is at most this.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Moments file to write.")] = None,
    save_episodes: Annotated[Path | None, typer.Option(metavar="FILE", help="Episodes file to write.")] = None,
    bonus: Annotated[
        str, typer.Option(metavar="NAME", help="Exploration bonus: practical, theory or paper.")
    ] = "practical",
    counting: Annotated[
        str, typer.Option(metavar="NAME", help="Pairs to count: all_pairs, or selected_pairs as in the paper.")
    ] = "all_pairs",
    moment_order: Annotated[int, typer.Option(help="Order of the moments: 2 (pairs) or 3 (triples).")] = 2,
    strategy: Annotated[
        str,
        typer.Option(metavar="NAME", help="Exploration strategy: optimistic, or a baseline: uniform, state_action."),
    ] = "optimistic",
    replan_growth: Annotated[
        float, typer.Option(help="Replan when counts have grown by this factor; 1: after every episode.")
    ] = 1.05,
    failure_prob: options.FailureProbOption = 0.05,
    seed: options.SeedOption = 0,
    checkpoint_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of checkpoints to write and to resume from.")
    ] = None,
) -> None:
    """Explore a model until all reachable pairs are observed.

    Write moments and episodes to files. Ctrl-C saves the episodes collected so far.
    """
    from rewardmix import exploration
    from rewardmix._core.checks import as_seed
    from rewardmix.io import save

    as_seed("--seed", seed)
    inputs.check_file("--out", out)
    inputs.check_file("--save-episodes", save_episodes)
    inputs.check_folder("--checkpoint-dir", checkpoint_dir)
    # Names and paths are checked before the exploration, which may run for hours.
    bonus_function = inputs.parse_bonus("--bonus", bonus)
    counting_rule = inputs.parse_choice(
        "--counting", counting, {rule: getattr(exploration, rule) for rule in ("all_pairs", "selected_pairs")}
    )
    strategies = {name: getattr(exploration, f"{name}_strategy") for name in ("optimistic", "uniform", "state_action")}
    strategy_function = inputs.parse_choice("--strategy", strategy, strategies)
    with terminal.progress_bar("exploring", num_episodes) as show:
        exploration_result = exploration.explore(
            inputs.parse_model(model),
            num_episodes=num_episodes,
            uncertainty_threshold=uncertainty_threshold,
            bonus=bonus_function,
            counting=counting_rule,
            moment_order=moment_order,
            strategy=strategy_function,
            replan_growth=replan_growth,
            failure_prob=failure_prob,
            seed=seed,
            keep_episodes=save_episodes is not None,
            callback=lambda update: show(update.num_episodes, f"V_0 {update.uncertainty:.3f}"),
            checkpoint_dir=checkpoint_dir,
        )
    for path, content in ((out, exploration_result.moments), (save_episodes, exploration_result.episodes)):
        if path is not None and content is not None:
            save(path, content)
    _print_exploration(exploration_result, out)


def _print_exploration(exploration_result: ExplorationResult, out: Path | None) -> None:
    """Print counts, coverage and guarantee of an exploration."""
    info, coverage = exploration_result.info, exploration_result.info.coverage
    num_triples = exploration_result.moments.triple_keys.size
    rows = [
        ["episodes", f"{exploration_result.num_episodes:,}"],
        ["uncertainty V_0", f"{exploration_result.uncertainty:.4f}"],
        *([["triples observed", f"{num_triples:,}"]] if num_triples else []),
        ["pairs observed", f"{coverage.num_observed:,}"],
        ["pairs reachable, not observed", f"{coverage.num_missing:,}"],
        ["pairs unreachable", f"{coverage.num_impossible:,}"],
        ["samples of the rarest reachable pair", f"{coverage.min_samples:,}"],
        ["replans", f"{info.num_replans:,} full, {info.num_rows_planned:,} rows"],
        ["stopped by", info.stop_reason],
    ]
    terminal.print_table(f"Exploration, {info.bonus} bonus, {info.counting}", ["", ""], rows)
    terminal.print_text(f"Guarantee: {info.guarantee_text}.")
    if out is not None:
        terminal.print_text(f"Moments saved to {out}")
    terminal.print_json(
        num_episodes=exploration_result.num_episodes,
        uncertainty=exploration_result.uncertainty,
        coverage={
            name: getattr(coverage, name) for name in ("num_observed", "num_missing", "num_impossible", "min_samples")
        },
        stop_reason=info.stop_reason,
        saved=None if out is None else str(out),
    )


def theory_command(
    num_states: Annotated[int, typer.Option(help="S: number of states.")],
    num_actions: Annotated[int, typer.Option(help="A: number of actions.")],
    horizon: Annotated[int, typer.Option(help="H: number of steps of an episode.")],
    epsilon: Annotated[float, typer.Option(help="epsilon: target regret of the policy.")] = 0.1,
    min_separation: Annotated[
        float, typer.Option(help="delta: smallest nonzero reward difference of the types.")
    ] = 0.2,
    failure_prob: Annotated[float, typer.Option(help="eta: probability that a confidence statement is wrong.")] = 0.05,
) -> None:
    """Compute the sample sizes of the theorems and algorithms.

    Print the lower and the upper bound, and estimates for the paper's algorithm and for the practical bonus.
    """
    from rewardmix import theory
    from rewardmix._core.checks import as_count, as_number

    sizes = as_count("--num-states", num_states), as_count("--num-actions", num_actions), as_count("--horizon", horizon)
    as_number("--epsilon", epsilon, above=0.0)
    # Zero is allowed: it means that no separation is known. The limit is exclusive, hence the small negative number.
    as_number("--min-separation", min_separation, above=-1e-12)
    as_number("--failure-prob", failure_prob, above=0.0, below=1.0)
    if epsilon > horizon:
        raise_input_error("--epsilon", epsilon, f"at most the horizon {horizon}, the largest possible regret")
    threshold = theory.uncertainty_threshold(epsilon, min_separation, horizon)
    theorem_episodes = theory.upper_bound(*sizes, epsilon, min_separation, failure_prob)
    paper_episodes = theory.estimate_paper_episodes(*sizes, threshold, failure_prob)
    rows = [
        ["threshold for V_0 (eps_pe)", f"{threshold:.3g}", "(epsilon / H^3) max(delta, epsilon / H^2)"],
        ["lower bound", f"{theory.lower_bound(*sizes[:2], epsilon):.3g}", "S^2 A^2 / epsilon^2, constant 1"],
        ["upper bound of the theorem", f"{theorem_episodes:.3g}", "theory.upper_bound, constant 1"],
        [
            "its exploration phase",
            f"{theory.episode_bound(*sizes, threshold, failure_prob):.3g}",
            "until V_0 <= eps_pe",
        ],
        ["estimate for the paper's algorithm", f"{paper_episodes:.3g}", "fluid estimate, c = 1"],
        [
            "estimate for the practical bonus",
            f"{theory.estimate_practical_episodes(*sizes):.3g}",
            "V_0 <= 0.5, easy environments",
        ],
    ]
    title = (
        f"Episodes for S = {num_states}, A = {num_actions}, H = {horizon}, "
        f"epsilon = {epsilon:g}, delta = {min_separation:g}"
    )
    terminal.print_table(title, ["", "number", "formula"], rows)
    terminal.print_json(
        uncertainty_threshold=threshold,
        lower_bound=theory.lower_bound(*sizes[:2], epsilon),
        upper_bound=theorem_episodes,
        episode_bound=theory.episode_bound(*sizes, threshold, failure_prob),
        paper_episodes=paper_episodes,
        practical_episodes=theory.estimate_practical_episodes(*sizes),
    )


def recover_command(
    data: Annotated[Path, typer.Argument(metavar="MOMENTS|EPISODES", help="Saved moments or episodes.")],
    *,
    num_types: Annotated[
        str, typer.Option(metavar="INTEGER|auto", help="Number of hidden types; auto requires episodes.")
    ] = "2",
    weights: options.WeightsOption = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Recovery method: maximum_likelihood, algorithm_3 or spectral.")
    ] = "maximum_likelihood",
    pseudocount: Annotated[
        float | None,
        typer.Option(help="Pseudocount at the marginal rewards; 0: none. [default: 1, or estimated]"),
    ] = None,
    failure_prob: options.FailureProbOption = 0.05,
    epsilon: Annotated[float, typer.Option(help="Accuracy that sets the tolerance of the confidence set.")] = 0.1,
    num_std: Annotated[
        float | None, typer.Option(help="Use intervals of this many standard errors. [default: guaranteed intervals]")
    ] = None,
    seed: options.SeedOption = 0,
    max_rows: Annotated[int, typer.Option(help="Maximum number of state-action pairs to print.")] = 40,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Model file to write.")] = None,
) -> None:
    """Recover the reward probabilities of each hidden type.

    Estimate them from saved moments or episodes; print them, and write the model to a file.
    """
    from rewardmix import recovery
    from rewardmix._core.checks import as_count, as_seed
    from rewardmix.io import load, save

    as_seed("--seed", seed)
    # Errors of display options should not appear after minutes of computation either.
    as_count("--max-rows", max_rows, min_value=0)
    inputs.check_file("--out", out)
    method_function = inputs.parse_method(method, "maximum_likelihood", "algorithm_3", "spectral")
    content = load(data)
    with terminal.status_line() as show:
        show("selecting the number of types")
        num_types_value = _resolve_num_types(num_types, content, seed)
        show("recovering")
        recovery_result = recovery.recover(
            content,
            num_types=num_types_value,
            weights=inputs.parse_weights(weights),
            pseudocount=pseudocount,
            method=method_function,
            seed=seed,
            failure_prob=failure_prob,
            epsilon=epsilon,
            radius_rule=recovery.hoeffding_rule if num_std is None else recovery.normal_rule(num_std),
        )
    terminal.print_text(repr(recovery_result.model))
    _print_recovery(recovery_result, max_rows)
    for line in _format_certificate(recovery_result):
        terminal.print_text(line)
    if out is not None:
        save(out, recovery_result.model)
        terminal.print_text(f"saved: {out}")
    terminal.print_json(
        weights=recovery_result.model.weights,
        rewards=recovery_result.model.rewards,
        lower=recovery_result.info.lower,
        upper=recovery_result.info.upper,
        certificate=_format_certificate(recovery_result),
        saved=None if out is None else str(out),
    )


def _resolve_num_types(text: str, content: Any, seed: int) -> int:
    """Return the number of types, selected from the episodes for "auto"."""
    num_types = inputs.parse_num_types(text)
    if isinstance(num_types, str):
        from rewardmix.episodes import Episodes
        from rewardmix.recovery import select_num_types

        if not isinstance(content, Episodes):
            raise_input_error("--num-types", "auto for moments", "a number; auto requires episodes")
        selection = select_num_types(content, seed=seed)
        terminal.print_text(selection.text)
        return selection.num_types
    return num_types


def _print_recovery(recovery_result: RecoveryResult, max_rows: int) -> None:
    """Print the rewards of each state-action, those with the largest differences between types first."""
    import numpy as np

    model, info = recovery_result.model, recovery_result.info
    differences = np.abs(model.mean_rewards_by_type - model.mean_rewards).max(axis=0).ravel()
    # A stable sort breaks ties by state-action index, so that the output is reproducible.
    order = np.argsort(-differences, kind="stable")[:max_rows]
    has_many_values = model.num_values > 2
    columns = ["state", "action", *(["reward"] if has_many_values else [])]
    columns += [f"{name} ({weight:.3f})" for name, weight in zip(model.type_labels, model.weights, strict=True)]
    rows = []
    for x in order:
        s, a = divmod(int(x), model.num_actions)
        names = [model.state_names[s] if model.state_names else str(s)]
        names.append(model.action_names[a] if model.action_names else str(a))
        for z in range(model.num_values) if has_many_values else (None,):
            index = (slice(None), s, a) if z is None else (slice(None), s, a, z)
            values = zip(model.rewards[index], info.lower[index], info.upper[index], strict=True)
            cells = [f"{p:.3f} ({low:.3f} .. {high:.3f})" for p, low, high in values]
            rows.append([*names, *([] if z is None else [f"{model.reward_values[z]:g}"]), *cells])
    quantity = "probability of each reward" if has_many_values else f"probability of reward {model.reward_values[1]:g}"
    suffix = "" if order.size == differences.size else f", {order.size} of {differences.size} state-actions"
    terminal.print_table(
        f"Recovered {quantity} for each type (95 %){suffix}", columns, rows, text_columns=3 if has_many_values else 2
    )


def _format_certificate(recovery_result: RecoveryResult) -> list[str]:
    """Format the certificate and what is not identified, one statement per line."""
    info, certificate = recovery_result.info, recovery_result.info.certificate
    lines = [f"method: {info.method}; weights {info.weights_source}; {info.convergence}"]
    # NaN differs from itself: methods without a likelihood report NaN, and the line is left out.
    if info.em_runs and info.loglik == info.loglik:
        lines.append(
            f"log-likelihood: {info.loglik:.6f}; best of {len(info.em_runs)} starts, reached by {info.num_reproduced}"
        )
    inside = "inside" if certificate.contains_model else f"outside of {certificate.violations} intervals of"
    lines.append(f"certificate: the model is {inside} its confidence set")
    if certificate.lp_status != "not run":
        inflation, source = certificate.radius_inflation, certificate.weights_source
        status = certificate.lp_status + ("" if inflation == 1 else f" with radius inflation {inflation:.4g}")
        status += "" if source == "known" else f", with weights {source}"
        lines.append(f"certificate: magnitudes {status}; {len(certificate.conflicts)} sign conflicts")
    if certificate.violated_pairs:
        lines.append(f"pairs that violate it: {_format_pairs(certificate.violated_pairs)}")
    if certificate.odd_cycle:
        lines.append(f"conflicting signs on the cycle {' - '.join(map(str, certificate.odd_cycle))}")
    if info.outlier_pairs:
        lines.append(f"outlier pairs: {_format_pairs(info.outlier_pairs)}")
    if info.num_unobserved_pairs:
        lines.append(f"pairs of visited state-actions without a joint sample: {info.num_unobserved_pairs}")
    lines.append(info.identification_text)
    return lines


def _format_pairs(pairs: tuple[tuple[int, int], ...]) -> str:
    """Format at most ten pairs of indices."""
    text = ", ".join(f"({i}, {j})" for i, j in pairs[:10])
    return text + (f" and {len(pairs) - 10} more" if len(pairs) > 10 else "")
