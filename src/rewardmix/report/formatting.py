"""Format the numbers and write the sentences of the report.

The page, the terminal and the notebook view use these functions, so that one quantity has one wording.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rewardmix.statements import EVIDENCE

MISSING_NUMBER = "\N{EN DASH}"
"""Printed in place of a missing number."""

MIN_BRACKET_WIDTH = 2e-3
"""Brackets of regret wider than this, in units of return, are mentioned."""


def format_decimal(value: float | None, digits: int = 2) -> str:
    """Format a number with fixed digits and a minus sign; ``None`` gives a dash."""
    if value is None:
        return MISSING_NUMBER
    text = f"{value:.{digits}f}"
    # A small negative number rounds to "-0.00"; the sign is dropped, as it says nothing.
    text = text.removeprefix("-") if float(text) == 0 else text
    return text.replace("-", "\N{MINUS SIGN}")


def format_small(value: float | None) -> str:
    """Format a number with two significant digits or so: 0.62, 0.031, 0.0007; values below 1e-4 as "<0.0001"."""
    if value is None:
        return MISSING_NUMBER
    magnitude = abs(value)
    if 0 < magnitude < 1e-4:
        return f"{'<' if value > 0 else '>'}\N{NARROW NO-BREAK SPACE}{format_decimal(math.copysign(1e-4, value), 4)}"
    # More digits for smaller numbers keep two significant digits; 0 gets two digits, too.
    return format_decimal(value, 2 if magnitude >= 0.1 or magnitude == 0 else 3 if magnitude >= 0.01 else 4)


def format_range(low: float, high: float) -> str:
    """Format a range with the fewest digits, from 2 to 4, at which its two ends differ."""
    digits = next((d for d in (2, 3, 4) if format_decimal(low, d) != format_decimal(high, d)), 4)
    return f"{format_decimal(low, digits)} to {format_decimal(high, digits)}"


def format_signed(value: float | None) -> str:
    """Format a difference with its sign; absolute values below 1e-4 count as zero and have no sign."""
    if value is None or abs(value) < 1e-4:
        return MISSING_NUMBER if value is None else format_small(0.0)
    return ("+" if value > 0 else "") + format_small(value)


def format_count(value: float | None) -> str:
    """Format an integer with thin spaces between groups of three digits."""
    return MISSING_NUMBER if value is None else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def format_percent(value: float | None, digits: int = 0) -> str:
    """Format a fraction in percent."""
    return MISSING_NUMBER if value is None else f"{format_decimal(100 * value, digits)}\N{NARROW NO-BREAK SPACE}%"


def describe_value(headline: Mapping[str, Any]) -> str:
    """Describe the evidence for the headline value: exact, played, estimated from the log, or planned."""
    if headline["evidence_key"] == "exact":
        return "Computed exactly in the true model."
    interval = f"95 % interval {format_small(headline['lower'])} to {format_small(headline['upper'])}"
    if headline["evidence_key"] == "played":
        return f"Mean return of {_pluralize(headline.get('num_episodes'), 'new episode')}; {interval}."
    if headline["evidence_key"] == "logged":
        episodes = _pluralize(headline.get("num_episodes"), "held-out episode")
        return (
            f"Off-policy estimate from {episodes} of the log, for the policy planned without them; {interval}. The "
            "policy has not been tested."
        )
    # Checked only for planned values: a played or logged value is valid even if the model is not.
    if headline.get("unfounded"):
        return f"Not valid: {headline['unfounded']}, which the model excludes."
    return (
        "Expected return if the recovered model is correct. Planned values are optimistic; the policy has not been "
        "tested."
    )


def describe_regret(headline: Mapping[str, Any]) -> str:
    """Describe the evidence for the headline regret: exact, from a bootstrap, or not estimated."""
    if headline["regret_measured"] == "exact":
        lower = headline.get("regret_lower")
        # The exact regret is measured against the upper end of the optimal value's bracket; the lower end is mentioned
        # only if it makes a visible difference.
        is_wide = lower is not None and headline["regret"] - lower > MIN_BRACKET_WIDTH
        text = f" The regret is at least {format_small(lower)}." if is_wide else ""
        return f"Upper bound of the difference to the optimal value of the true model.{text}"
    if headline["regret_measured"] == "bootstrap":
        upper = headline.get("regret_upper")
        worst_text = f", {format_small(upper)} in the worst resample" if upper is not None else ""
        gap = headline.get("planning_gap")
        is_wide = gap is not None and gap > MIN_BRACKET_WIDTH
        text = f" Better plans may add {format_small(gap)}." if is_wide else ""
        return f"Bootstrap estimate{worst_text}; not a guarantee.{text}"
    return "The regret was not estimated."


def describe_gain(headline: Mapping[str, Any]) -> str:
    """Describe the adaptivity gain: its relation to the best Markov policy and how it was computed."""
    gain = headline["adaptivity_gain"]
    if gain is None:
        return "The best Markov policy was not computed."
    # A ratio to a value that is zero or negative would have no meaning.
    relative = f" ({format_signed_percent(gain / headline['markov'])})" if headline["markov"] > 0 else ""
    evidence = EVIDENCE.get(headline.get("adaptivity_gain_evidence") or "", "")
    if headline.get("unfounded") and headline.get("adaptivity_gain_evidence") == "planned":
        evidence = f"planned in a model that is not valid: {headline['unfounded']}"
    text = f"Difference to the best Markov policy{relative}{f', {evidence}' if evidence else ''}."
    if headline.get("normalized_score") is not None:
        text += f" Normalized score: {format_percent(headline['normalized_score'], 1)}."
    return text


def format_signed_percent(value: float) -> str:
    """Format a relative difference in percent with its sign; no sign if it rounds to zero."""
    return format_percent(0.0) if abs(value) < 0.005 else ("+" if value > 0 else "") + format_percent(value)


def describe_run(summary: Mapping[str, Any]) -> str:
    """Write the first sentence of the page: what was learned, from how many episodes."""
    env = summary["environment"]
    refinement = env.get("num_refinement_episodes")
    refined = f", {format_count(refinement)} of them for refinement" if refinement else ""
    source = f"Learned from {_pluralize(env['num_episodes'], 'episode')}{refined}. " if env["num_episodes"] else ""
    states = f"{env['num_states']} states, " if env["num_states"] > 1 else ""
    sizes = f"{states}{_pluralize(env['num_actions'], 'action')}"
    types = "one hidden type" if env["num_types"] == 1 else f"one of {env['num_types']} hidden types"
    ending = "" if env["num_types"] == 1 else " The policy identifies the type while it acts."
    return (
        f"{source}Each episode has {_pluralize(env['horizon'], 'step')} ({sizes}) and {types}, which determines the "
        f"rewards.{ending}"
    )


def describe_online(online: Mapping[str, Any]) -> str:
    """Describe what the agent collected while it learned: total reward, mean, regret and policy changes."""
    num_episodes = online["returns"][-1][0] if online["returns"] else 0
    text = f"Total reward {format_decimal(online['total_reward'], 0)} in {_pluralize(num_episodes, 'episode')}"
    if num_episodes:
        text += f", {format_decimal(online['total_reward'] / num_episodes)} per episode"
    if online["optimal_value"] is not None:
        text += f"; the optimal value is {format_decimal(online['optimal_value'])}"
    if online["cumulative_regret"] is not None:
        text += f"; the cumulative regret of the policies played is {format_decimal(online['cumulative_regret'], 0)}"
    return f"{text}. The agent changed its policy {_pluralize(len(online['policy_changes']), 'time')}."


def describe_data(summary: Mapping[str, Any]) -> str:
    """Describe when the run was made and from which data, as far as that is known."""
    made, notes = summary.get("made"), (summary["metadata"].get("fit") or {}).get("notes") or {}
    num_episodes = summary["environment"]["num_episodes"]
    sentences = [f"Made on {made['date']}."] if made else []
    if notes.get("source_name") and notes.get("num_rows"):
        # Dates contain hyphens, at which browsers break lines; a date should stay on one line.
        no_break = str.maketrans("-", "\N{NON-BREAKING HYPHEN}")
        dates = f", {format_dates(*notes['time_span']).translate(no_break)}" if notes.get("time_span") else ""
        episodes = _pluralize(notes.get("num_kept"), "episode")
        sentences.append(f"Data: {format_count(notes['num_rows'])} rows of {notes['source_name']}; {episodes}{dates}.")
    elif num_episodes:
        sentences.append(f"Data: {_pluralize(num_episodes, 'episode')} collected by this run.")
    return " ".join(sentences)


def format_dates(start: str, end: str) -> str:
    """Format a time span: two dates, or one date with two clock times."""
    (first_day, first_time), (last_day, last_time) = start.split("T"), end.split("T")
    if first_day != last_day:
        return f"from {first_day} to {last_day}"
    return f"{first_day}, {first_time[:5]} to {last_time[:5]}"


def format_versions(summary: Mapping[str, Any]) -> str:
    """List the versions of rewardmix and of the packages that the run was made with."""
    made = summary.get("made") or {"versions": {}}
    return (
        ", ".join(
            f"{name} {version}" for name, version in {"rewardmix": summary["rewardmix"], **made["versions"]}.items()
        )
        + "."
    )


def _pluralize(number: float | None, noun: str) -> str:
    """Format a count with its noun: 1 episode, 2 episodes."""
    return f"{format_count(number)} {noun}{'' if number == 1 else 's'}"


def make_cards(headline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make the three headline cards: value, regret and adaptivity gain, each with unit and explanation."""
    evidence = headline["evidence_key"]
    planned = "Planned value (not valid)" if headline.get("unfounded") else "Planned value"
    value_title = {"planned": planned, "logged": "Estimated value"}.get(evidence, "Value")
    cards = [
        (value_title, format_decimal(headline["value"]), describe_value(headline), evidence == "planned"),
        ("Regret", format_small(headline["regret"]), describe_regret(headline), headline["regret"] is None),
        (
            "Adaptivity gain",
            format_signed(headline["adaptivity_gain"]),
            describe_gain(headline),
            headline["adaptivity_gain"] is None,
        ),
    ]
    return [
        {
            "title": title,
            "value": value,
            "unit": "" if value == MISSING_NUMBER else "per episode",
            "text": text,
            "caution": caution,
        }
        for title, value, text, caution in cards
    ]


BONUS_SENTENCES = {
    "a log": "Learned from a log: no exploration, and no guarantee.",
    "practical": "Practical bonus: confidence levels were scaled so that few episodes suffice. It gives a rule of "
    "thumb, not a guarantee.",
    "theory": "Theory bonus: radii have explicit constants, and every proved statement had its premises checked. The "
    "constant of the paper's theorem is unknown, so no bound of the regret follows.",
    "paper": "Paper bonus: the paper's forms with one free constant. It serves to study the theory and gives no "
    "guarantee.",
}


def describe_bonus(certificate: Mapping[str, Any]) -> str:
    """Describe what the exploration bonus of a certificate implies for its guarantees."""
    # Only the name counts: a bonus is stored with its arguments, such as ``paper(0.5)``.
    name = str(certificate.get("bonus") or "")
    return BONUS_SENTENCES.get(name.split("(")[0].strip(), "") or (f"Exploration bonus: {name}." if name else "")


def make_certificate_rows(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """List the numbers of the certificate, each with its meaning; unknown ones are left out."""
    certificate = summary["certificate"]
    coverage = certificate.get("coverage") or summary["coverage"] or {}
    bootstrap, validation = certificate.get("bootstrap_regret") or {}, certificate.get("validation") or {}
    checks = "; ".join(
        f"{CHECK_LABELS.get(name, name)}: {_describe_check(result)}"
        for name, result in (certificate.get("statement_checks") or {}).items()
    )
    pairs = (
        f"{format_count(coverage.get('num_missing'))} possible but not observed, "
        f"{format_count(coverage.get('num_impossible'))} impossible"
    )
    interval = f"{format_small(validation.get('lower'))} to {format_small(validation.get('upper'))}"
    is_logged = validation.get("evidence_key") == "logged"
    episodes = "held-out episodes, for the policy planned without them" if is_logged else "new episodes"
    # The first item of each row decides whether it is shown: ``None`` marks a number that was not computed.
    rows = [
        (True, "Planned value bounds", format_range(*summary["planned_value_bounds"]),
         "bracket of the optimal value in the recovered model; optimistic, not a measurement"),
        (certificate.get("uncertainty"), "Uncertainty V\N{SUBSCRIPT ZERO}",
         format_small(certificate.get("uncertainty")),
         "when exploration stopped: how much of the reachable pairs is still unobserved, from 1 to 0"),
        (coverage.get("num_observed"), "Pairs of state-actions",
         f"{format_count(coverage.get('num_observed'))} observed", pairs),
        (certificate.get("radius_inflation"), "Radius inflation", format_small(certificate.get("radius_inflation")),
         f"factor by which all radii must grow for one model to explain all pairs{_weights_note(certificate)}; at most "
         "about 1 if the model fits"),
        (checks or None, "Statement checks", checks,
         "three comparisons with the recovered model: magnitudes of the reward differences (linear program), their "
         "signs (parities), and the likelihood of whole episodes"),
        (bootstrap.get("mean"), "Bootstrap regret", format_small(bootstrap.get("mean")),
         f"an estimate, {format_small(bootstrap.get('upper'))} in the worst resample; better plans may add "
         f"{format_small(bootstrap.get('planning_gap'))}; it cannot see states that no episode visited"),
        (validation.get("value"), "Off-policy estimate" if is_logged else "Validation",
         format_small(validation.get("value")),
         f"{interval} in {format_count(validation.get('num_episodes'))} {episodes}"),
    ]  # fmt: skip
    return [{"name": name, "value": value, "note": note} for number, name, value, note in rows if number is not None]


def _weights_note(certificate: Mapping[str, Any]) -> str:
    """Return a note if the linear program used weights that are not known."""
    source = certificate.get("weights_source")
    return "" if source in (None, "known") else f", with weights {source}"


CHECK_LABELS = {"program": "magnitudes", "linear_program": "magnitudes", "parities": "signs"}
"""Key of a statement check -> its name on the page."""


def _describe_check(result: Any) -> str:
    """Describe whether a check agrees with the recovered model."""
    if isinstance(result, bool):
        return "agree" if result else "disagree"
    if isinstance(result, float):
        return f"{format_percent(result, 1)} agree"
    return "not checked" if result is None else str(result)
