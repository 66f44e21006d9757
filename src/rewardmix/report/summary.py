"""Build the summary of a run: one dictionary of plain data, from which the page is made.

The dictionary is the content of ``result.json``. ``docs/reference/result-json.md`` describes its fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from rewardmix._core.checks import Floats, raise_input_error
from rewardmix._core.portable_math import log_array
from rewardmix.exploration.joint_reachability import JointReachability
from rewardmix.model import RewardMixingMDP, weighted_sum
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.recovery.recovery_result import match_order
from rewardmix.report.belief_view import make_belief_view
from rewardmix.report.policy_json import policy_to_dict, to_json, to_plain
from rewardmix.report.report_data import ReportData
from rewardmix.report.result_schema import RESULT_SCHEMA
from rewardmix.statements import EVIDENCE, why_unfounded
from rewardmix.type_profiles import TypeIdentification, TypeProfile, describe_types, measure_identification
from rewardmix.verdict import VerdictInputs, make_verdict

MAX_CURVE_POINTS = 240
"""Largest number of points of the uncertainty curve in the summary."""
MAX_REWARD_ROWS = 30
"""Largest number of state-actions whose recovered rewards are shown: those where types differ most."""
MAX_POLICY_CHARS = 2_000_000
"""Largest policy, in characters of JSON, that is put into the page; larger ones are exported separately."""
MAX_HEATMAP_ROWS = 40
"""Largest number of rows of the heat map; with more state-actions each row is a block of them."""
MAX_HEATMAP_POINTS = 2_000
"""Largest number of state-actions with a heat map; the pair table has the square of it."""

IMPOSSIBLE_CELL = -1
"""Value of a heat-map cell whose pairs cannot occur in one episode."""


def build_summary(data: ReportData) -> dict[str, Any]:
    """Build the summary of a run as JSON data.

    Args:
        data: Report data of the run.

    Returns:
        Dictionary with verdict, headline, types, figures and certificate. All values are JSON types; NaN becomes
        ``None``.

    Raises:
        InputError: If the plan is for rewards of another shape than the model's.
    """
    model, plan = data.model, data.plan
    if plan.model.rewards.shape != model.rewards.shape:
        shape = plan.model.rewards.shape
        raise_input_error(
            "plan", f"a plan for rewards of shape {shape}", f"shape {model.rewards.shape} as in the model"
        )
    policy, policy_note = _policy_fields(plan, model, data.title)
    true_model = {key: value for key, value in data.true_model.items() if key != "model"}
    identification = measure_identification(plan.policy, model)
    headline = _headline_fields(data)
    summary = {
        "schema": RESULT_SCHEMA,
        "title": data.title,
        "rewardmix": data.version,
        "command": data.command,
        "seed": data.seed,
        "metadata": dict(data.metadata),
        "environment": _env_fields(model, data.moments, data.num_refinement_episodes),
        "planned_value_bounds": [plan.lower, plan.upper],
        "warnings": list(data.warnings),
        "verdict": _verdict_fields(make_verdict_inputs(data, headline, identification)),
        "types": [to_fields(profile) for profile in describe_types(model)],
        "identification": to_fields(identification),
        "headline": headline,
        "comparison": dict(data.comparison),
        "uncertainty": _thin_curve([[float(k), float(v)] for k, v in data.uncertainty]),
        "coverage": None if data.moments is None else make_pair_heatmap(data.moments),
        "rewards": _reward_fields(data),
        "beliefs": make_belief_view(plan),
        "open_questions": list(data.open_questions),
        "certificate": dict(data.certificate),
        "true_model": true_model or None,
        "online": None if data.online is None else dict(data.online),
        "sections": [dict(section) for section in data.sections],
        "policy": policy,
        "policy_note": policy_note,
    }
    return dict(to_plain(summary))


def _env_fields(model: RewardMixingMDP, moments: Moments | None, num_refinement_episodes: int) -> dict[str, Any]:
    """Return sizes, names, weights and episode counts of the model's environment."""
    cuts = model.reward_scale.cuts
    return {
        "num_states": model.num_states,
        "num_actions": model.num_actions,
        "horizon": model.horizon,
        "num_types": model.num_types,
        "state_names": list(model.state_labels),
        "action_names": list(model.action_labels),
        "type_names": list(model.type_labels),
        "reward_values": model.reward_values,
        **({} if cuts is None else {"reward_cuts": cuts}),
        "weights": model.weights,
        "initial": model.initial,
        "num_episodes": None if moments is None else moments.num_episodes + num_refinement_episodes,
        "num_refinement_episodes": num_refinement_episodes,
    }


def _headline_fields(data: ReportData) -> dict[str, Any]:
    """Return the headline: value, regret and adaptivity gain, each with its strongest evidence."""
    plan, certificate, comparison, true_model = data.plan, data.certificate, data.comparison, data.true_model
    rows = {row.get("role"): row for row in comparison.get("rows", ()) if row.get("role")}
    plan_value, markov, oracle = (rows.get(role, {}).get("value") for role in ("adaptive", "markov", "oracle"))
    validation, bootstrap = certificate.get("validation") or {}, certificate.get("bootstrap_regret") or {}
    # Evidence from weak to strong: planned in the model, estimated from a log or played, exact in the true model. The
    # lower end of the plan's bracket is the value of its policy in the model.
    headline: dict[str, Any] = {
        "value": plan.lower,
        "lower": plan.lower,
        "upper": plan.upper,
        "evidence_key": "planned",
    }
    if true_model.get("value") is not None:
        headline = {"value": true_model["value"], "lower": None, "upper": None, "evidence_key": "exact"}
    elif validation.get("value") is not None:
        headline = {key: validation.get(key) for key in ("value", "lower", "upper", "num_episodes")}
        headline["evidence_key"] = validation.get("evidence_key") or "played"
    headline |= {"regret": None, "regret_upper": None, "regret_measured": None}
    headline["normalized_score"] = true_model.get("normalized_score")
    # An exact regret takes precedence over the bootstrap, which only estimates it.
    if true_model.get("regret") is not None:
        headline |= {"regret": true_model["regret"], "regret_lower": true_model.get("regret_lower")}
        headline["regret_measured"] = "exact"
    elif bootstrap.get("mean") is not None:
        headline |= {"regret": bootstrap["mean"], "regret_upper": bootstrap.get("upper")}
        headline |= {"regret_measured": "bootstrap", "planning_gap": bootstrap.get("planning_gap")}
    headline["evidence"] = EVIDENCE[headline["evidence_key"]]
    headline["unfounded"] = why_unfounded(data.statements) or None
    headline |= {"adaptive": plan_value, "markov": markov, "oracle": oracle}
    headline["adaptivity_gain"] = None if plan_value is None or markov is None else plan_value - markov
    headline["adaptivity_gain_evidence"] = comparison.get("evidence_key")
    return headline


def make_verdict_inputs(
    data: ReportData, headline: Mapping[str, Any], identification: TypeIdentification
) -> VerdictInputs:
    """Collect the inputs of the verdict on a run."""
    moments = data.moments
    return VerdictInputs(
        value=headline["value"],
        evidence=headline["evidence_key"],
        num_types=data.model.num_types,
        num_episodes=None if moments is None else moments.num_episodes + data.num_refinement_episodes,
        gain=headline["adaptivity_gain"],
        markov_value=headline["markov"],
        # The weakest evidence is assumed where none is recorded, so that the verdict is never too favorable.
        gain_evidence=headline["adaptivity_gain_evidence"] or "planned",
        regret=headline["regret"],
        regret_evidence=headline["regret_measured"] or "bootstrap",
        return_std=identification.return_std,
        statements=data.statements,
        is_online=data.online is not None,
    )


def _verdict_fields(inputs: VerdictInputs) -> dict[str, Any]:
    """Return key, text, advice and numbers of the verdict."""
    verdict = make_verdict(inputs)
    return {"key": verdict.key, "text": verdict.text, "advice": verdict.advice, "numbers": dict(verdict.numbers)}


def to_fields(description: TypeProfile | TypeIdentification) -> dict[str, Any]:
    """Return the attributes of a type profile or of the identification, and its text."""
    return {**dataclasses.asdict(description), "text": description.text}


def _reward_fields(data: ReportData) -> dict[str, Any]:
    """Return the recovered rewards where types differ most.

    With two reward values the figure shows the probability of the larger one, otherwise the expected reward.
    """
    model, moments, intervals = data.model, data.moments, data.reward_intervals
    is_binary = model.num_values == 2
    shape = model.num_types, model.num_states, model.num_actions
    values = model.rewards if is_binary else model.mean_rewards_by_type
    lower, upper = (np.asarray(limits, float) for limits in intervals) if intervals and is_binary else (None, None)
    true_rewards = _true_rewards(model, data.true_model.get("model"))
    samples = np.zeros(shape[1:], int) if moments is None else _count_samples(moments, model)
    # Standard deviation over types, weighted by the type weights: a rare type moves it little.
    type_std = np.sqrt(weighted_sum(model.weights, (values - weighted_sum(model.weights, values)) ** 2))
    # A stable sort breaks ties by state-action index, so that the rows do not depend on the sorting algorithm.
    order = np.argsort(-type_std, axis=None, kind="stable")[:MAX_REWARD_ROWS]
    rows = []
    # Rows are in the order of states, not of differences: the figure groups them by state.
    for x in np.sort(order):
        s, a = divmod(int(x), model.num_actions)
        row: dict[str, Any] = {"state": s, "action": a, "values": values[:, s, a]}
        row["samples"] = None if moments is None else int(samples[s, a])
        row["lower"], row["upper"] = (None if limits is None else limits[:, s, a] for limits in (lower, upper))
        row["true_values"] = None
        if true_rewards is not None and s < true_rewards.shape[1]:
            row["true_values"] = true_rewards[:, s, a]
        rows.append(row)
    return {
        "kind": "probability" if is_binary else "expected",
        "larger_value": float(model.reward_values[-1]),
        "range": [0.0, 1.0] if is_binary else [float(model.reward_values[0]), float(model.reward_values[-1])],
        "rows": rows,
        "num_omitted": type_std.size - len(rows),
    }


def _true_rewards(model: RewardMixingMDP, true_model: Any) -> Floats | None:
    """Return the true rewards (M, S, A) with types matched to those of ``model``; ``None`` if sizes differ."""
    if true_model is None:
        return None
    sizes = "num_types", "num_values", "num_actions"
    if any(getattr(true_model, name) != getattr(model, name) for name in sizes):
        return None
    num_states = true_model.num_states
    # Recovery adds an end state when episodes terminate early, so the model may have one state more.
    if model.num_states - num_states not in (0, 1):
        return None
    order = match_order(true_model.reward_probs[:, :num_states], model.reward_probs[:, :num_states])
    return np.asarray((true_model.rewards if model.num_values == 2 else true_model.mean_rewards_by_type)[order])


def _count_samples(moments: Moments, model: RewardMixingMDP) -> Any:
    """Return the number of independent samples of each reward, (S, A); 0 in an end state that the model added."""
    samples = np.zeros((model.num_states, model.num_actions), np.int64)
    samples[: moments.num_states] = moments.num_samples.reshape(moments.num_states, -1)
    return samples


def _thin_curve(points: list[list[float]]) -> list[list[float]]:
    """Thin a curve to at most ``MAX_CURVE_POINTS`` points equally spaced in log(episodes), ends included."""
    if len(points) <= MAX_CURVE_POINTS:
        return points
    # One is added because a curve may start at 0 episodes. This logarithm gives equal bits on all platforms.
    positions = log_array([1.0 + max(point[0], 0.0) for point in points])
    targets = np.linspace(positions[0], positions[-1], MAX_CURVE_POINTS)
    indices = np.unique(np.clip(np.searchsorted(positions, targets), 0, len(points) - 1))
    return [points[i] for i in indices]


def _policy_fields(plan: Plan, model: RewardMixingMDP, title: str) -> tuple[dict[str, Any] | None, str]:
    """Return the policy as JSON data, or ``None`` and a note if it is too large for the page."""
    data = policy_to_dict(plan.policy, model, title)
    size = len(to_json(data))
    if size <= MAX_POLICY_CHARS:
        return data, ""
    return None, (
        f"The policy is too large for this page ({size / 1e6:.1f} MB as JSON). Export it with "
        "rewardmix export POLICY --format json, and play it with the module player.js."
    )


def make_pair_heatmap(moments: Moments) -> dict[str, Any] | None:
    """Return counts of state-action pairs as a lower triangle, in blocks of ``block`` state-actions if there are many.

    Which pairs are possible is derived from the observed transitions. A block shows the smallest count of its possible
    pairs, so that a missing pair is never hidden by frequent ones.
    """
    num_state_actions = moments.num_state_actions
    if num_state_actions > MAX_HEATMAP_POINTS:
        return None
    counts = moments.pair_counts()
    transition_rows = csr_array(moments.transition_counts[:, : moments.num_states])
    reachability = JointReachability(transition_rows, moments.initial_counts > 0, moments.num_actions, moments.horizon)
    # A pair that was observed is possible, whatever the reachability says: counts may come from other transitions.
    is_possible = reachability.pairs_with(np.arange(num_state_actions)) | (counts > 0)
    is_lower = np.tril(np.ones((num_state_actions, num_state_actions), bool))
    block = -(-num_state_actions // MAX_HEATMAP_ROWS)
    edges = np.arange(0, num_state_actions, block)
    max_int = np.iinfo(np.int64).max
    # Impossible pairs get the largest integer: they do not change a minimum, and it marks a block of nothing else.
    min_counts = np.where(is_possible & is_lower, counts, max_int)
    min_counts = np.minimum.reduceat(np.minimum.reduceat(min_counts, edges, axis=0), edges, axis=1)
    cells = np.where(min_counts == max_int, IMPOSSIBLE_CELL, min_counts)
    return {
        "num_observed": int(((counts > 0) & is_lower).sum()),
        "num_missing": int((is_possible & is_lower & (counts == 0)).sum()),
        "num_impossible": int((~is_possible & is_lower).sum()),
        "size": num_state_actions,
        "block": block,
        "cells": [cells[i, : i + 1].tolist() for i in range(edges.size)],
    }
