"""Decide the actions of sessions: what each request changes in the store and what it returns.

A repeated step gets the stored answer and counts once. A step out of order is rejected. A session follows the version
of the policy that it started with, also after a restart of the service with another policy.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

from rewardmix._core.checks import InputError, as_count, as_instance, as_number
from rewardmix.planning import Plan
from rewardmix.report.policy_json import policy_to_dict, to_json
from rewardmix.service.policy_server import ServedPlan, ServeSettings, StepDecision
from rewardmix.service.policy_versions import describe_version, deserialize_plan, init_active_version, make_policy_blob
from rewardmix.service.records import NewSession, Records, SessionRow, StepRow, Totals
from rewardmix.service.refit import RefitSettings, next_refit
from rewardmix.service.request_schema import ActivateVersion, ApiError, StartSession, StepFeedback
from rewardmix.service.store import Store

_T = TypeVar("_T")

MAX_SESSION_STEPS = 10_000
"""Maximum number of steps of a session."""

IDLE_BATCH = 64
"""Number of idle sessions that are closed when a new session starts."""

EXPIRED_BATCH = 16
"""Number of expired sessions that are deleted when a new session starts."""

DELETE_BATCH = 500
"""Number of sessions that are deleted in one transaction."""

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class SessionLimits:
    """Limits of a session service: how many sessions are open, when one times out, how long one is stored.

    Attributes:
        max_open_sessions: Number of open sessions above which no session starts.
        idle_seconds: Seconds without a request after which a session no longer counts as open; it may still continue.
        retention_days: Days without a request after which a session is deleted; None keeps all sessions.
    """

    max_open_sessions: int = 100_000
    idle_seconds: float = 3600.0
    retention_days: float | None = None

    def __post_init__(self) -> None:
        as_count("max_open_sessions", self.max_open_sessions)
        as_number("idle_seconds", self.idle_seconds, above=0.0)
        if self.retention_days is not None:
            as_number("retention_days", self.retention_days, above=0.0)


@dataclass(frozen=True)
class ServiceReply:
    """Answer to a client with the events that it counts.

    Attributes:
        body: JSON object; None for an empty answer.
        events: Increments of metrics by (name, label).
    """

    body: dict[str, Any] | None
    events: dict[tuple[str, str], float] = field(default_factory=dict)


class SessionService:
    """Answer sessions by a plan and keep them in a store."""

    def __init__(
        self, store: Store, plan: Plan, settings: ServeSettings | None = None, limits: SessionLimits | None = None
    ) -> None:
        self.store, self.limits = store, limits or SessionLimits()
        self.served = ServedPlan(as_instance("plan", plan, Plan), settings)
        policy = make_policy_blob(plan)
        spec = json.loads(policy.spec)
        self._states = {name: index for index, name in enumerate(spec["state_names"])}
        self._num_states = int(spec["num_states"])
        self._versions: dict[int, ServedPlan] = {}
        self._policy_cache = 0, ""
        self.version = store.submit(lambda records: init_active_version(records, policy)).result()
        self.refit_settings: RefitSettings | None = None
        self.refit_error = ""
        self.on_finished: Callable[[int], None] = lambda num_finished: None
        # Ids are random and cannot be guessed: knowing the id is the permission to use a session.
        self.new_id: Callable[[StartSession], str] = lambda request: secrets.token_urlsafe(24)

    def start_session(self, request: StartSession) -> Future[ServiceReply]:
        """Start a session and decide its first action."""
        return self.store.submit(lambda records: self._start_session(records, request), key=request.idempotency_key)

    def add_step(self, id: str, feedback: StepFeedback) -> Future[ServiceReply]:
        """Store the reward of a step and decide the next action."""
        scale = self.served.model.reward_scale
        try:
            # The reward is checked outside of the transaction: an invalid request must not delay other jobs.
            reward = scale.to_stored(feedback.reward)
        except InputError:
            allowed = ", ".join(f"{value:g}" for value in scale.values)
            raise ApiError(422, "invalid", f"reward: got {feedback.reward:g}, expected one of {allowed}") from None
        checked_feedback = StepFeedback(feedback.step, reward, feedback.state)
        return self.store.submit(lambda records: self._add_step(records, id, checked_feedback), id)

    def get_session(self, id: str) -> Future[ServiceReply]:
        """Return a session with its history and belief."""
        return self.store.submit(lambda records: self._get_session(records, id), only_reads=True)

    def delete_session(self, id: str) -> Future[ServiceReply]:
        """Delete a session; an unknown id is no error."""

        def job(records: Records) -> ServiceReply:
            session = records.session(id)
            if session is None:
                return ServiceReply(None)
            return ServiceReply(None, {("sessions_deleted", ""): records.delete_sessions([session])})

        return self.store.submit(job)

    def delete_user(self, user: str) -> Future[ServiceReply]:
        """Delete a batch of sessions of a user; repeat until it deletes none."""

        def job(records: Records) -> ServiceReply:
            num_deleted = records.delete_sessions(records.find_user_sessions(user, DELETE_BATCH))
            return ServiceReply({"deleted": num_deleted}, {("sessions_deleted", ""): num_deleted})

        return self.store.submit(job)

    def delete_expired(self, max_sessions: int = DELETE_BATCH) -> Future[int]:
        """Delete up to ``max_sessions`` sessions beyond the retention time and return how many they were."""
        return self.store.submit(lambda records: self._delete_expired(records, max_sessions))

    def _delete_expired(self, records: Records, max_sessions: int) -> int:
        """Delete expired sessions within a job."""
        if self.limits.retention_days is None:
            return 0
        return records.delete_before(time.time() - self.limits.retention_days * SECONDS_PER_DAY, max_sessions)

    def policy(self) -> Future[str]:
        """Return the active policy as JSON for the JavaScript player."""

        def job(records: Records) -> str:
            version = self._read_totals(records).active_version
            if self._policy_cache[0] != version:
                served = self.get_served_plan(records, version)
                self._policy_cache = (
                    version,
                    to_json({**policy_to_dict(served.plan.policy, served.model), "version": version}),
                )
            return self._policy_cache[1]

        return self.store.submit(job, only_reads=True)

    def versions(self) -> Future[ServiceReply]:
        """Return all versions of the policy and which one is active."""
        return self.store.submit(lambda records: ServiceReply(self.describe_versions(records)), only_reads=True)

    def describe_versions(self, records: Records) -> dict[str, Any]:
        """Build the answer of ``versions`` within a job."""
        totals = records.totals()
        return {
            "active_version": totals.active_version,
            "pinned": totals.pinned,
            "finished_sessions": totals.num_finished,
            "refit": self._refit_status(records),
            "versions": [describe_version(row, totals) for row in records.versions()],
        }

    def _refit_status(self, records: Records) -> dict[str, Any] | None:
        """Describe when the next refit is due and the last error; None without refits."""
        if self.refit_settings is None:
            return None
        return {
            "interval": self.refit_settings.min_new_sessions,
            "next_at": next_refit(records, self.refit_settings),
            "error": self.refit_error,
        }

    def activate_version(self, version: int, request: ActivateVersion) -> Future[ServiceReply]:
        """Activate a version by hand; sessions that have started continue with their own version."""

        def job(records: Records) -> ServiceReply:
            if records.version(version) is None:
                raise ApiError(404, "version_not_found", "no version has this number; see /v1/versions")
            records.activate_version(version)
            records.set_total("pinned", int(request.pin))
            row = records.version(version)
            assert row is not None
            return ServiceReply(describe_version(row, records.totals()), {("versions_activated", ""): 1})

        return self.store.submit(job)

    def count_open(self) -> Future[int]:
        """Return the number of open sessions; it also tests whether the store answers."""
        return self.store.submit(lambda records: self._read_totals(records).num_open, only_reads=True)

    def _start_session(self, records: Records, request: StartSession) -> ServiceReply:
        """Start a session within a job, or repeat the answer for a known idempotency key."""
        state, raw_state = self._parse_state(request.state)
        # A known key continues its session only if the request agrees with the first one.
        existing = None if request.idempotency_key is None else records.find_session_by_key(request.idempotency_key)
        if existing is not None:
            first_step = _require_session(records.step(existing.number, 0))
            is_other_state = (first_step.decision.state, first_step.raw_state) != (state, raw_state)
            if is_other_state or not records.is_of_user(existing.number, request.user):
                raise ApiError(
                    409,
                    "idempotency_key_conflict",
                    "idempotency_key: belongs to a session with another initial state or user; use a new key",
                )
            return ServiceReply(self._decision_body(existing, first_step.decision, request.state), {("retries", ""): 1})
        # Idle and expired sessions are cleaned up in small batches here, so the service needs no timer and no
        # long transaction.
        now = time.time()
        records.close_idle(now - self.limits.idle_seconds, IDLE_BATCH)
        deleted = self._delete_expired(records, EXPIRED_BATCH)
        totals = self._read_totals(records)
        self.on_finished(totals.num_finished)
        if totals.num_open >= self.limits.max_open_sessions:
            raise ApiError(503, "too_many_sessions", f"{self.limits.max_open_sessions} sessions are open; retry later")
        id = self.new_id(request)
        # The arm is a hash of the id and not of a random stream, so replays give identical arms.
        served = self.get_served_plan(records, totals.active_version)
        new_session, holdout = NewSession(id, request.idempotency_key, request.user), served.settings.holdout_share
        session = records.add_session(new_session, totals.active_version, served.assign_arm(id), now, holdout)
        decision = served.decide_first(id, session.arm, state)
        records.add_step(session, decision, raw_state, now)
        events = {
            ("sessions", session.arm): 1,
            ("sessions_deleted", ""): deleted,
            **_decision_events(session, decision),
        }
        return ServiceReply(self._decision_body(session, decision, request.state), events)

    def _add_step(self, records: Records, id: str, feedback: StepFeedback) -> ServiceReply:
        """Store a reward within a job, and decide the next action or end the session."""
        session, last_step = _require_session(records.session_with_last_step(id))
        if feedback.step > last_step.decision.step:
            _raise_out_of_order(f"step: got {feedback.step}, expected {last_step.decision.step}, the step decided last")
        # The last step is the usual case and was prefetched; an earlier step needs a query and can only be a
        # repetition.
        is_last = feedback.step == last_step.decision.step
        stored_step = last_step if is_last else _require_session(records.step(session.number, feedback.step))
        if stored_step.reward is not None:
            return self._replay_reply(records, session, stored_step, feedback)
        now = time.time()
        records.set_reward(session.number, feedback.step, feedback.reward)
        events = {("rewards", session.arm): 1.0, ("reward_sum", session.arm): feedback.reward}
        if feedback.state is None:
            self.on_finished(records.end_session(session, feedback.step + 1, now))
            return ServiceReply(
                self._decision_body(session, None, None, feedback.step + 1),
                {**events, ("sessions_ended", session.arm): 1},
            )
        if feedback.step + 1 >= MAX_SESSION_STEPS:
            raise ApiError(
                409, "too_long", f'a session has at most {MAX_SESSION_STEPS} steps; end it with "state": null'
            )
        state, raw_state = self._parse_state(feedback.state)
        served = self.get_served_plan(records, session.version)
        decision = served.decide_next(id, session.arm, stored_step.decision, feedback.reward, state)
        records.add_step(session, decision, raw_state, now)
        return ServiceReply(
            self._decision_body(session, decision, feedback.state), {**events, **_decision_events(session, decision)}
        )

    def _replay_reply(
        self, records: Records, session: SessionRow, stored_step: StepRow, feedback: StepFeedback
    ) -> ServiceReply:
        """Return the stored answer to a repeated step."""
        next_step = records.step(session.number, feedback.step + 1)
        stored_state = None if next_step is None else (next_step.decision.state, next_step.raw_state)
        sent_state = None if feedback.state is None else self._parse_state(feedback.state)
        # A repetition has to agree with the first request. Otherwise the client and the store have different
        # histories.
        if (stored_step.reward, stored_state) != (feedback.reward, sent_state):
            _raise_out_of_order(f"step: {feedback.step} has been sent before with another reward or next state")
        next_decision = None if next_step is None else next_step.decision
        body = self._decision_body(session, next_decision, feedback.state, feedback.step + 1)
        return ServiceReply(body, {("retries", ""): 1})

    def _get_session(self, records: Records, id: str) -> ServiceReply:
        """Build the description of a session within a job."""
        session = _require_session(records.session(id))
        steps = records.list_steps(session.number)
        last = steps[-1]
        served = self.get_served_plan(records, session.version)
        # The stored belief does not contain the reward of its own step.
        belief = list(last.decision.belief)
        if last.reward is not None:
            belief = served.update_belief(last.decision, last.reward).tolist()
        model = served.model
        history = [
            {
                "step": step.decision.step,
                "state": _name_or_index(model.state_names, step.decision.state, step.raw_state),
                "action": _name_or_index(model.action_names, step.decision.action),
                "propensity": step.decision.propensity,
                "reward": step.reward,
            }
            for step in steps
        ]
        body = {"session": id, "version": session.version, "arm": session.arm, "ended": session.ended}
        return ServiceReply({**body, "belief": belief, "history": history})

    def _parse_state(self, state: str | int) -> tuple[int | None, str | None]:
        """Return (state index, None), or (None, raw state as JSON) if the plan does not know the state."""
        index = self._states.get(state) if isinstance(state, str) else state
        if index is not None and 0 <= index < self._num_states:
            return index, None
        return None, json.dumps(state)

    def _decision_body(
        self, session: SessionRow, decision: StepDecision | None, state: Any, step: int | None = None
    ) -> dict[str, Any]:
        """Build the answer to a step, with action names for clients that send state names, else with indices."""
        names = () if isinstance(state, int) else self.served.model.action_names
        return {
            "session": session.id,
            "step": step if decision is None else decision.step,
            "action": None if decision is None else _name_or_index(names, decision.action),
            "propensity": None if decision is None else decision.propensity,
            "version": session.version,
        }

    def _read_totals(self, records: Records) -> Totals:
        """Read the totals and remember the active version."""
        totals = records.totals()
        self.version = totals.active_version
        return totals

    def _settings_for_version(self, records: Records, version: int) -> ServeSettings:
        """Return the settings of a version: a provided version may explore with a probability of its own."""
        settings, row = self.served.settings, records.version(version)
        if settings.initial_explore_prob is None or row is None or row.num_training_sessions is not None:
            return settings
        return replace(settings, explore_prob=settings.initial_explore_prob)

    def get_served_plan(self, records: Records, version: int) -> ServedPlan:
        """Return the plan of a version; each version is read from the store once."""
        if version not in self._versions:
            plan = deserialize_plan(records.plan_bytes(version))
            self._versions[version] = ServedPlan(plan, self._settings_for_version(records, version))
        return self._versions[version]


def _decision_events(session: SessionRow, decision: StepDecision) -> dict[tuple[str, str], float]:
    """Return the metrics events of one decision."""
    unknown = {("unknown_states", ""): 1.0} if decision.state is None else {}
    return {("decisions", session.arm): 1.0, **unknown}


def _name_or_index(names: tuple[str, ...], index: int | None, raw_state: str | None = None) -> Any:
    """Return the name of a state or action, or its index if the model has no names."""
    if index is None:
        return None if raw_state is None else json.loads(raw_state)
    return names[index] if names else index


def _require_session(row: _T | None) -> _T:
    """Return a value, or raise an ``ApiError`` with status 404 if it is None."""
    if row is None:
        raise ApiError(404, "session_not_found", "no session has this id")
    return row


def _raise_out_of_order(message: str) -> NoReturn:
    """Raise an ``ApiError`` with status 409 for a step out of order."""
    raise ApiError(409, "step_out_of_order", message)
