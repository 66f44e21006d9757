"""The summary of a run: one dictionary of plain data, the content of ``result.json``, from which the page is made.

Its fields are described in ``docs/report.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import Floats, refuse
from rewardmix._core.portable import logs
from rewardmix._version import __version__
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.recovery.recovery_result import alignment
from rewardmix.report.beliefs import belief_view
from rewardmix.report.coverage import pair_coverage
from rewardmix.report.playable import as_json, context_names, plain, playable
from rewardmix.report.schema import SCHEMA

MOST_POINTS = 240
"""Points of the uncertainty curve that are kept."""
MOST_REWARDS = 30
"""State-actions whose recovered rewards are shown: those where contexts differ most."""
LARGEST_SESSION = 2_000_000
"""Characters of a policy that is put into the page; larger ones are exported apart."""


def summarise(
    *,
    title: str,
    model: RewardMixingMDP,
    plan: Plan,
    moments: Moments | None = None,
    refined: int = 0,
    uncertainty: Sequence[tuple[float, float]] = (),
    intervals: tuple[ArrayLike, ArrayLike] | None = None,
    certificate: Mapping[str, Any] | None = None,
    comparison: Mapping[str, Any] | None = None,
    truth: Mapping[str, Any] | None = None,
    unanswered: Sequence[str] = (),
    command: str = "",
    version: str = __version__,
    seed: int | None = None,
    sections: Sequence[Mapping[str, Any]] = (),
    record: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything that the page shows, as JSON data.

    Args:
        title: of the run.
        model: as recovered.
        plan: made for ``model``.
        moments: what exploration counted.
        refined: episodes of refinement, which no count of pairs holds.
        uncertainty: (episodes, V_0), in the order of time.
        intervals: lower and upper limits, each shaped like ``model.rewards``.
        certificate: what was and was not proved; its fields are in ``docs/report.md``.
        comparison: ``{"measured": "exact" | "played" | "planned", "rows": [{"name", "role", "value", "lower",
            "upper"}]}``; role "adaptive" is this policy, "fixed" the best that does not adapt, "told" the bound.
        truth: ``{"model", "value", "regret", "share"}`` where the true model is known.
        unanswered: sentences, one for each question that the data cannot answer.
        command: that made this run.
        version: of rewardmix.
        seed: of the run.
        sections: more for the page: ``{"title", "paragraphs": [...], "columns": [...], "rows": [[...]]}``.
        record: anything else that ``result.json`` should keep.
    """
    if plan.model.rewards.shape != model.rewards.shape:
        shape = plan.model.rewards.shape
        refuse("plan", f"a plan for rewards of shape {shape}", f"{model.rewards.shape}, as the model")
    certificate, comparison, truth = dict(certificate or {}), dict(comparison or {}), dict(truth or {})
    true_model = truth.pop("model", None)
    session, note = _session(plan, model, title)
    pairs = None if moments is None else pair_coverage(moments)
    summary = {
        "schema": SCHEMA,
        "title": title,
        "rewardmix": version,
        "command": command,
        "seed": seed,
        "record": dict(record or {}),
        "world": _world(model, moments, refined),
        "planned": [plan.lower, plan.upper],
        "answer": _answer(plan, certificate, comparison, truth),
        "comparison": comparison,
        "uncertainty": _thinned([[float(k), float(v)] for k, v in uncertainty]),
        "coverage": pairs,
        "rewards": _rewards(model, moments, intervals, true_model),
        "beliefs": belief_view(plan),
        "unanswered": list(unanswered),
        "certificate": certificate,
        "truth": truth or None,
        "sections": [dict(section) for section in sections],
        "session": session,
        "session_note": note,
    }
    return dict(plain(summary))


def _world(model: RewardMixingMDP, moments: Moments | None, refined: int) -> dict[str, Any]:
    return {
        "states": model.num_states,
        "actions": model.num_actions,
        "horizon": model.horizon,
        "contexts": model.num_contexts,
        "state_names": list(model.state_names) or [f"state {s + 1}" for s in range(model.num_states)],
        "action_names": list(model.action_names) or [f"action {a + 1}" for a in range(model.num_actions)],
        "context_names": context_names(model),
        "reward_values": model.reward_values,
        "weights": model.weights,
        "initial": model.initial,
        "episodes": None if moments is None else moments.episodes + refined,
        "refined": refined,
    }


def _answer(
    plan: Plan, certificate: Mapping[str, Any], comparison: Mapping[str, Any], truth: Mapping[str, Any]
) -> dict[str, Any]:
    """The headline: the best evidence there is of what the policy earns, how sure, and what adapting is worth."""
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
    gain = None if mine is None or fixed is None else mine - fixed
    where = comparison.get("measured")
    return answer | {"adaptive": mine, "fixed": fixed, "told": told, "gain": gain, "gain_measured": where}


def _rewards(
    model: RewardMixingMDP, moments: Moments | None, intervals: tuple[ArrayLike, ArrayLike] | None, truth: Any
) -> dict[str, Any]:
    """What each context pays at each state-action: probability of the larger value, or the expected reward."""
    probability = model.num_values == 2
    shape = model.num_contexts, model.num_states, model.num_actions
    values = model.rewards if probability else model.means
    lower, upper = (np.asarray(part, float) for part in intervals) if intervals and probability else (None, None)
    real = _truth_of(model, truth)
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
    """At most ``MOST_POINTS`` of them, evenly spread in the logarithm of the episodes, the first and last kept."""
    if len(points) <= MOST_POINTS:
        return points
    places = logs([1.0 + max(point[0], 0.0) for point in points])
    wanted = np.linspace(places[0], places[-1], MOST_POINTS)
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
