"""Make the sections of the page that only runs of ``fit`` have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported only if there is a log
    from rewardmix.logs import FitInfo, FitResult


def _make_types_section(info: FitInfo) -> dict[str, Any]:
    """Make the section on the number of types: held-out likelihood if it was selected, otherwise BIC only."""
    if info.type_selection is None:
        rows = [[str(m), f"{value:.1f}"] for m, value in sorted(info.bic.items())]
        text = "Bayesian information criterion (BIC); the smallest is best."
        return {"title": "Number of types", "paragraphs": [text], "columns": ["types", "BIC"], "rows": rows}
    rows = [
        [str(m), "" if m == 1 else f"{score.loglik_gain:+.4f} ± {score.gain_error:.4f}", f"{score.bic:.1f}"]
        for m, score in info.type_selection.scores.items()
    ]
    text = (
        "Held-out gain: log-likelihood per held-out episode above the model with one type less, with its standard "
        "error. A type is added while its total gain is above one nat, and more than one type are selected only if "
        "they are significantly better than one. BIC: Bayesian information criterion, which tends to select too few "
        "types."
    )
    columns = ["types", "held-out gain", "BIC"]
    return {
        "title": "Number of types",
        "paragraphs": [info.type_selection.text, text],
        "columns": columns,
        "rows": rows,
    }


def _make_bins_section(result: FitResult) -> list[dict[str, Any]]:
    """Make the table of reward bins; empty if rewards were not discretized."""
    scale = result.info.schema.reward_scale
    if scale.cuts is None:
        return []
    bins = zip(scale.intervals, scale.values, scale.empty, strict=True)
    rows = [[interval, f"{value:.6g}"] for interval, value, empty in bins if not empty]
    text = (
        "Rewards were discretized: each counts as the mean of its bin. The bins are stored with the run, so new logs, "
        "the service and exported policies take raw rewards."
    )
    return [{"title": "Reward bins", "paragraphs": [text], "columns": ["rewards", "value"], "rows": rows}]


def make_log_sections(result: FitResult) -> list[dict[str, Any]]:
    """Make the sections about a log in the order of the page."""
    info, schema = result.info, result.info.schema
    # The table is cut at 50 rows to keep the page readable; the data of the run hold the complete list.
    untried_rows = [[schema.state_label(s), schema.action_label(a)] for s, a in info.coverage.untried_actions[:50]]
    sections: list[dict[str, Any]] = [
        *_make_bins_section(result),
        {"title": "Behavior policy", "paragraphs": [info.adaptivity.text], "columns": [], "rows": []},
        {
            "title": "Coverage of the log",
            "paragraphs": [
                f"{info.read_report.num_kept} episodes, {info.read_report.num_rows} rows read.",
                info.coverage.text,
                info.support.text,
            ],
            "columns": ["state", "action never taken"] if untried_rows else [],
            "rows": untried_rows,
        },
        _make_types_section(info),
        {
            "title": "Model assumptions",
            "paragraphs": list(info.diagnostics.sentences),
            "columns": [],
            "rows": [],
        },
    ]
    # Each sentence occurs once on the page: the last section has what neither a section nor the verdict contains.
    used_sentences = {text for section in sections for text in section["paragraphs"]}
    used_sentences |= {info.recovery.identification_text, *(test.text for test in info.diagnostics.rejected)}
    remaining = [sentence for sentence in info.report_text if sentence not in used_sentences]
    return [*sections, {"title": "Further statements", "paragraphs": remaining, "columns": [], "rows": []}]
