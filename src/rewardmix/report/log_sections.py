"""What the page says about a log beside what it says about every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # only where there is a log
    from rewardmix.logs import FitInfo, Fitted


def _types_section(info: FitInfo) -> dict[str, Any]:
    """How many types there are: by held-out episodes if the number was chosen, otherwise by the criterion alone."""
    if info.choice is None:
        rows = [[str(m), f"{value:.1f}"] for m, value in sorted(info.criterion.items())]
        text = "Bayesian information criterion; the smallest is best."
        return {"title": "How many types", "paragraphs": [text], "columns": ["types", "criterion"], "rows": rows}
    rows = [
        [str(m), "" if m == 1 else f"{trial.gain:+.4f} ± {trial.error:.4f}", f"{trial.criterion:.1f}"]
        for m, trial in info.choice.trials.items()
    ]
    text = (
        "Log-likelihood an episode of held-out episodes, above one type less, with its standard error; a type is added "
        "as long as that is more than one nat in all, and more than one are said only where they are clearly better "
        "than one. Beside it the Bayesian information criterion, which tends to ask for too few."
    )
    columns = ["types", "held-out gain", "criterion"]
    return {"title": "How many types", "paragraphs": [info.choice.sentence, text], "columns": columns, "rows": rows}


def _levels_section(fitted: Fitted) -> list[dict[str, Any]]:
    """Which rewards each level holds, where rewards were put into bins."""
    scale = fitted.info.schema.reward_scale
    if scale.cuts is None:
        return []
    levels = zip(scale.intervals, scale.values, scale.empty, strict=True)
    rows = [[interval, f"{value:.6g}"] for interval, value, empty in levels if not empty]
    text = (
        "Rewards were put into bins, and each counts as the mean of its bin. The run keeps the bins: new logs, the "
        "service and exported policies take rewards as they are."
    )
    return [{"title": "Levels of rewards", "paragraphs": [text], "columns": ["rewards", "count as"], "rows": rows}]


def log_sections(fitted: Fitted) -> list[dict[str, Any]]:
    """Sections in the order of the page; every sentence stands in one of them."""
    info, schema = fitted.info, fitted.info.schema
    tried = [[schema.state(s), schema.action(a)] for s, a in info.coverage.never_tried[:50]]
    sections: list[dict[str, Any]] = [
        *_levels_section(fitted),
        {"title": "How the log was made", "paragraphs": [info.logging.sentence], "columns": [], "rows": []},
        {
            "title": "What the log holds",
            "paragraphs": [
                f"{info.notes.kept} episodes, {info.notes.rows} rows read.",
                info.coverage.sentence,
                info.support.sentence,
            ],
            "columns": ["state", "action never tried"] if tried else [],
            "rows": tried,
        },
        _types_section(info),
        {
            "title": "What is taken for granted",
            "paragraphs": list(info.checkup.sentences),
            "columns": [],
            "rows": [],
        },
    ]
    said = {text for section in sections for text in section["paragraphs"]}
    said |= {info.recovery.not_identified, *(finding.sentence for finding in info.checkup.broken)}
    left = [sentence for sentence in info.sentences if sentence not in said]
    return [*sections, {"title": "What else was found", "paragraphs": left, "columns": [], "rows": []}]
