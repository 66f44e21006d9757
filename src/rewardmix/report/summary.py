"""The summary of a run: one dictionary of plain data, the content of ``result.json``, from which the page is made.

Its fields are described in ``docs/report.md``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from rewardmix._core.checks import Floats, refuse
from rewardmix._core.portable import logs
from rewardmix.exploration.companions import Companions
from rewardmix.facts import EVIDENCE, why_unfounded
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.profiles import Recognition, TypeProfile, recognition, type_profiles
from rewardmix.recovery.recovery_result import alignment
from rewardmix.report.beliefs import belief_view
from rewardmix.report.findings import Findings
from rewardmix.report.playable import as_json, plain, playable
from rewardmix.report.result_schema import RESULT_SCHEMA
from rewardmix.verdict import Grounds, verdict_on

MOST_CURVE_POINTS = 240
"""Points of the uncertainty curve that are kept."""
MOST_REWARDS = 30
"""State-actions whose recovered rewards are shown: those where contexts differ most."""
LARGEST_SESSION = 2_000_000
"""Characters of a policy that is put into the page; larger ones are exported apart."""
MOST_ROWS = 40
"""A heat map has at most so many rows; larger ones show blocks of state-actions."""
MOST_PAIRED = 2_000
"""With more state-actions than this there is no heat map."""

IMPOSSIBLE = -1
"""Written in place of a count."""


def summarise(found: Findings) -> dict[str, Any]:
    """Everything that the page shows, as JSON data."""
    model, plan = found.model, found.plan
    if plan.model.rewards.shape != model.rewards.shape:
        shape = plan.model.rewards.shape
        refuse("plan", f"a plan for rewards of shape {shape}", f"{model.rewards.shape}, as the model")
    session, note = _session(plan, model, found.title)
    truth = {key: value for key, value in found.truth.items() if key != "model"}
    known = recognition(plan.policy, model)
    answer = _answer(found)
    summary = {
        "schema": RESULT_SCHEMA,
        "title": found.title,
        "rewardmix": found.version,
        "command": found.command,
        "seed": found.seed,
        "record": dict(found.record),
        "world": _world(model, found.moments, found.refined),
        "planned": [plan.lower, plan.upper],
        "warnings": list(found.warnings),
        "verdict": _verdict(grounds_of(found, answer, known)),
        "types": [told(profile) for profile in type_profiles(model)],
        "recognition": told(known),
        "answer": answer,
        "comparison": dict(found.comparison),
        "uncertainty": _thinned([[float(k), float(v)] for k, v in found.uncertainty]),
        "coverage": None if found.moments is None else pair_coverage(found.moments),
        "rewards": _rewards(found),
        "beliefs": belief_view(plan),
        "unanswered": list(found.unanswered),
        "certificate": dict(found.certificate),
        "truth": truth or None,
        "earned": None if found.earned is None else dict(found.earned),
        "sections": [dict(section) for section in found.sections],
        "session": session,
        "session_note": note,
    }
    return dict(plain(summary))


def _world(model: RewardMixingMDP, moments: Moments | None, refined: int) -> dict[str, Any]:
    cuts = model.reward_scale.cuts
    return {
        "states": model.num_states,
        "actions": model.num_actions,
        "horizon": model.horizon,
        "contexts": model.num_contexts,
        "state_names": list(model.state_labels),
        "action_names": list(model.action_labels),
        "context_names": list(model.type_labels),
        "reward_values": model.reward_values,
        **({} if cuts is None else {"reward_cuts": cuts}),
        "weights": model.weights,
        "initial": model.initial,
        "episodes": None if moments is None else moments.episodes + refined,
        "refined": refined,
    }


def _answer(found: Findings) -> dict[str, Any]:
    """The headline: the best evidence there is of what the policy earns, how sure, and what adapting is worth."""
    plan, certificate, comparison, truth = found.plan, found.certificate, found.comparison, found.truth
    rows = {row.get("role"): row for row in comparison.get("rows", ()) if row.get("role")}
    mine, fixed, told = (rows.get(role, {}).get("value") for role in ("adaptive", "fixed", "told"))
    played, bootstrap = certificate.get("validation") or {}, certificate.get("bootstrap_regret") or {}
    answer: dict[str, Any] = {"value": plan.lower, "lower": plan.lower, "upper": plan.upper, "measured": "planned"}
    if truth.get("value") is not None:
        answer = {"value": truth["value"], "lower": None, "upper": None, "measured": "exact"}
    elif played.get("value") is not None:
        answer = {key: played.get(key) for key in ("value", "lower", "upper", "episodes")}
        answer["measured"] = played.get("measured") or "played"
    answer |= {"regret": None, "regret_upper": None, "regret_measured": None, "share": truth.get("share")}
    if truth.get("regret") is not None:
        answer |= {"regret": truth["regret"], "regret_measured": "exact", "regret_least": truth.get("regret_least")}
    elif bootstrap.get("mean") is not None:
        answer |= {"regret": bootstrap["mean"], "regret_upper": bootstrap.get("upper"), "regret_measured": "bootstrap"}
        answer["regret_gap"] = bootstrap.get("gap")
    answer["evidence"] = EVIDENCE[answer["measured"]]
    answer["unfounded"] = why_unfounded(found.facts) or None
    gain = None if mine is None or fixed is None else mine - fixed
    where = comparison.get("measured")
    return answer | {"adaptive": mine, "fixed": fixed, "told": told, "gain": gain, "gain_measured": where}


def grounds_of(found: Findings, answer: Mapping[str, Any], known: Recognition) -> Grounds:
    """What the verdict on a run is made from."""
    moments = found.moments
    return Grounds(
        value=answer["value"],
        evidence=answer["measured"],
        contexts=found.model.num_contexts,
        episodes=None if moments is None else moments.episodes + found.refined,
        gain=answer["gain"],
        fixed=answer["fixed"],
        gain_evidence=answer["gain_measured"] or "planned",
        regret=answer["regret"],
        regret_evidence=answer["regret_measured"] or "bootstrap",
        spread=known.spread,
        facts=found.facts,
        earning=found.earned is not None,
    )


def _verdict(grounds: Grounds) -> dict[str, Any]:
    said = verdict_on(grounds)
    return {"what": said.what, "sentence": said.sentence, "advice": said.advice, "numbers": dict(said.numbers)}


def told(noun: TypeProfile | Recognition) -> dict[str, Any]:
    """Its attributes, and what it says."""
    return {**dataclasses.asdict(noun), "sentence": noun.sentence}


def _rewards(found: Findings) -> dict[str, Any]:
    """What each context pays at each state-action: probability of the larger value, or the expected reward."""
    model, moments, intervals = found.model, found.moments, found.intervals
    probability = model.num_values == 2
    shape = model.num_contexts, model.num_states, model.num_actions
    values = model.rewards if probability else model.means
    lower, upper = (np.asarray(part, float) for part in intervals) if intervals and probability else (None, None)
    real = _truth_of(model, found.truth.get("model"))
    samples = np.zeros(shape[1:], int) if moments is None else _samples(moments, model)
    spread = np.sqrt(mixed(model.weights, (values - mixed(model.weights, values)) ** 2))
    order = np.argsort(-spread, axis=None, kind="stable")[:MOST_REWARDS]
    rows = []
    for x in np.sort(order):
        s, a = divmod(int(x), model.num_actions)
        row: dict[str, Any] = {"state": s, "action": a, "values": values[:, s, a]}
        row["samples"] = None if moments is None else int(samples[s, a])
        row["lower"], row["upper"] = (None if part is None else part[:, s, a] for part in (lower, upper))
        row["truth"] = None if real is None or s >= real.shape[1] else real[:, s, a]
        rows.append(row)
    return {
        "kind": "probability" if probability else "expected",
        "larger": float(model.reward_values[-1]),
        "range": [0.0, 1.0] if probability else [float(model.reward_values[0]), float(model.reward_values[-1])],
        "rows": rows,
        "left_out": spread.size - len(rows),
    }


def _truth_of(model: RewardMixingMDP, truth: Any) -> Floats | None:
    """(M, S, A) of the true model with its contexts in the order of ``model``; None where they cannot be compared."""
    if truth is None:
        return None
    same = "num_contexts", "num_values", "num_actions"
    if any(getattr(truth, name) != getattr(model, name) for name in same):
        return None
    states = truth.num_states
    if model.num_states - states not in (0, 1):  # one more: the end, which recovery adds when episodes end early
        return None
    order = alignment(truth.laws[:, :states], model.laws[:, :states])
    return np.asarray((truth.rewards if model.num_values == 2 else truth.means)[order])


def _samples(moments: Moments, model: RewardMixingMDP) -> Any:
    """(S, A): independent samples of each reward; 0 at a state that the model added for the end of episodes."""
    samples = np.zeros((model.num_states, model.num_actions), np.int64)
    samples[: moments.num_states] = moments.samples.reshape(moments.num_states, -1)
    return samples


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """At most ``MOST_CURVE_POINTS``, evenly spread in the logarithm of the episodes, the first and last kept."""
    if len(points) <= MOST_CURVE_POINTS:
        return points
    places = logs([1.0 + max(point[0], 0.0) for point in points])
    wanted = np.linspace(places[0], places[-1], MOST_CURVE_POINTS)
    kept = np.unique(np.clip(np.searchsorted(places, wanted), 0, len(points) - 1))
    return [points[i] for i in kept]


def _session(plan: Plan, model: RewardMixingMDP, title: str) -> tuple[dict[str, Any] | None, str]:
    data = playable(plan.policy, model, title)
    size = len(as_json(data))
    if size <= LARGEST_SESSION:
        return data, ""
    return None, (
        f"This policy is too large to play inside the page ({size / 1e6:.1f} MB as JSON): "
        "write it with rewardmix export POLICY --format json, and play it with the module player.js."
    )


def pair_coverage(moments: Moments) -> dict[str, Any] | None:
    """The lower triangle of pair counts, in blocks of ``block`` state-actions if there are many.

    What can happen is judged by the moves that were seen. A block shows its least-seen pair that can happen, so that a
    gap is never hidden by its neighbours.
    """
    size = moments.num_state_actions
    if size > MOST_PAIRED:
        return None
    counts = moments.pair_counts()
    rows = csr_array(moments.moves[:, : moments.num_states])
    companions = Companions(rows, moments.starts > 0, moments.num_actions, moments.horizon)
    possible = companions.possible_with(np.arange(size)) | (counts > 0)
    lower = np.tril(np.ones((size, size), bool))
    block = -(-size // MOST_ROWS)
    edges = np.arange(0, size, block)
    large = np.iinfo(np.int64).max
    least = np.where(possible & lower, counts, large)
    least = np.minimum.reduceat(np.minimum.reduceat(least, edges, axis=0), edges, axis=1)
    cells = np.where(least == large, IMPOSSIBLE, least)
    return {
        "seen": int(((counts > 0) & lower).sum()),
        "never": int((possible & lower & (counts == 0)).sum()),
        "impossible": int((~possible & lower).sum()),
        "size": size,
        "block": block,
        "cells": [cells[i, : i + 1].tolist() for i in range(edges.size)],
    }
