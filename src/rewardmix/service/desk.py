"""Where sessions are answered: what a request means for the store, and what is told in return.

A step that is sent again is answered as before and counts once. One that is out of order is refused. A session follows
the version of the policy that it began with, also after a restart with another one.
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
from rewardmix.report.playable import as_json, playable
from rewardmix.service.deciding import Decided, ServedPlan, ServeSettings
from rewardmix.service.messages import Begin, Choose, Observed, Refusal
from rewardmix.service.records import NewSession, Records, SessionRow, StepRow, Totals
from rewardmix.service.refitting import RefitSettings, next_refit
from rewardmix.service.store import Store
from rewardmix.service.versions import plan_from, policy_of_plan, start_with, told_version

_T = TypeVar("_T")

LONGEST_SESSION = 10_000
"""Steps of a session."""

IDLE_AT_ONCE = 64
"""Idle sessions that are looked for when one begins."""

OLD_AT_ONCE = 16
"""Sessions beyond their time that are deleted when one begins."""

DELETED_AT_ONCE = 500
"""Sessions that are deleted in one transaction."""

DAY = 86_400.0


@dataclass(frozen=True)
class DeskLimits:
    """How much a desk takes on.

    Attributes:
        most_open: open sessions, beyond which none begins.
        idle: seconds without a word after which a session no longer counts as open; it may still go on.
        keep_days: after so many days without a word a session is deleted; None: never.
    """

    most_open: int = 100_000
    idle: float = 3600.0
    keep_days: float | None = None

    def __post_init__(self) -> None:
        as_count("most_open", self.most_open)
        as_number("idle", self.idle, above=0.0)
        if self.keep_days is not None:
            as_number("keep_days", self.keep_days, above=0.0)


@dataclass(frozen=True)
class Reply:
    """What a client is told, and what happened, to be counted.

    Attributes:
        body: JSON data; None: nothing to say.
        events: names and amounts of counters.
    """

    body: dict[str, Any] | None
    events: dict[tuple[str, str], float] = field(default_factory=dict)


class Desk:
    """Answers sessions by a plan, and keeps them in a store."""

    def __init__(
        self, store: Store, plan: Plan, settings: ServeSettings | None = None, limits: DeskLimits | None = None
    ) -> None:
        self.store, self.limits = store, limits or DeskLimits()
        self.served = ServedPlan(as_instance("plan", plan, Plan), settings)
        policy = policy_of_plan(plan)
        world = json.loads(policy.world)
        self._states = {name: index for index, name in enumerate(world["state_names"])}
        self._num_states = int(world["states"])
        self._versions: dict[int, ServedPlan] = {}
        self._policy = 0, ""
        self.version = store.submit(lambda records: start_with(records, policy)).result()
        self.learning: RefitSettings | None = None
        self.problem = ""
        self.on_finished: Callable[[int], None] = lambda finished: None
        self.new_id: Callable[[Begin], str] = lambda asked: secrets.token_urlsafe(24)  # nobody can guess it

    def begin(self, asked: Begin) -> Future[Reply]:
        """Begin a session."""
        return self.store.submit(lambda records: self._begin(records, asked), key=asked.key)

    def go_on(self, id: str, asked: Observed) -> Future[Reply]:
        """Take the reward of a step, and decide the next."""
        scale = self.served.model.reward_scale
        try:
            recorded = scale.recorded(asked.reward)
        except InputError:
            known = ", ".join(f"{value:g}" for value in scale.values)
            raise Refusal(422, "invalid", f"reward has to be one of {known}") from None
        meant = Observed(asked.step, recorded, asked.state)
        return self.store.submit(lambda records: self._go_on(records, id, meant), id)

    def show(self, id: str) -> Future[Reply]:
        """A session so far."""
        return self.store.submit(lambda records: self._show(records, id), only_reads=True)

    def delete(self, id: str) -> Future[Reply]:
        """Forget a session; one that is not there is forgotten already."""

        def job(records: Records) -> Reply:
            session = records.session(id)
            if session is None:
                return Reply(None)
            return Reply(None, {("sessions_deleted", ""): records.delete([session])})

        return self.store.submit(job)

    def forget(self, visitor: str) -> Future[Reply]:
        """Forget sessions of a visitor; to be asked again until none was there."""

        def job(records: Records) -> Reply:
            deleted = records.delete(records.sessions_of(visitor, DELETED_AT_ONCE))
            return Reply({"deleted": deleted}, {("sessions_deleted", ""): deleted})

        return self.store.submit(job)

    def delete_old(self, most: int = DELETED_AT_ONCE) -> Future[int]:
        """Delete sessions that were not heard of for as long as they are kept; how many they were."""
        return self.store.submit(lambda records: self._delete_old(records, most))

    def _delete_old(self, records: Records, most: int) -> int:
        if self.limits.keep_days is None:
            return 0
        return records.delete_before(time.time() - self.limits.keep_days * DAY, most)

    def policy(self) -> Future[str]:
        """The policy that new sessions get, as JSON for the JavaScript player."""

        def job(records: Records) -> str:
            version = self._totals(records).current
            if self._policy[0] != version:
                served = self.served_by(records, version)
                self._policy = version, as_json({**playable(served.plan.policy, served.model), "version": version})
            return self._policy[1]

        return self.store.submit(job, only_reads=True)

    def versions(self) -> Future[Reply]:
        """All versions of the policy, and which one new sessions get."""
        return self.store.submit(lambda records: Reply(self.told_versions(records)), only_reads=True)

    def told_versions(self, records: Records) -> dict[str, Any]:
        """What ``versions`` tells, within a job."""
        totals = records.totals()
        return {
            "current": totals.current,
            "held": totals.held,
            "finished_sessions": totals.finished,
            "learning": self._learning(records),
            "versions": [told_version(row, totals) for row in records.versions()],
        }

    def _learning(self, records: Records) -> dict[str, Any] | None:
        """When it learns next, and what went wrong; None if it does not learn."""
        if self.learning is None:
            return None
        return {"every": self.learning.every, "next": next_refit(records, self.learning), "problem": self.problem}

    def choose(self, version: int, asked: Choose) -> Future[Reply]:
        """Give new sessions a version by hand; sessions that have begun go on with theirs."""

        def job(records: Records) -> Reply:
            if records.version(version) is None:
                raise Refusal(404, "no_such_version", "there is no version with this number")
            records.promote(version)
            records.set_total("held", int(asked.hold))
            row = records.version(version)
            assert row is not None
            return Reply(told_version(row, records.totals()), {("versions_chosen", ""): 1})

        return self.store.submit(job)

    def count(self) -> Future[int]:
        """How many sessions are open: also whether the store answers."""
        return self.store.submit(lambda records: self._totals(records).open, only_reads=True)

    def _begin(self, records: Records, asked: Begin) -> Reply:
        state, said = self._meant(asked.state)
        before = None if asked.key is None else records.session_of_key(asked.key)
        if before is not None:
            first = _found(records.step(before.number, 0))
            if (first.choice.state, first.said) != (state, said) or not records.is_of(before.number, asked.visitor):
                raise Refusal(
                    409, "key_in_use", "a session with this key began in another state, or for another visitor"
                )
            return Reply(self._told(before, first.choice, asked.state), {("retries", ""): 1})
        now = time.time()
        records.close_idle(now - self.limits.idle, IDLE_AT_ONCE)
        deleted = self._delete_old(records, OLD_AT_ONCE)
        totals = self._totals(records)
        self.on_finished(totals.finished)
        if totals.open >= self.limits.most_open:
            raise Refusal(503, "too_many_sessions", f"{self.limits.most_open} sessions are open; try again later")
        id = self.new_id(asked)
        served = self.served_by(records, totals.current)
        owner, holdout = NewSession(id, asked.key, asked.visitor), served.settings.holdout
        session = records.add_session(owner, totals.current, served.arm_of(id), now, holdout)
        choice = served.begin(id, session.arm, state)
        records.add_step(session, choice, said, now)
        events = {("sessions", session.arm): 1, ("sessions_deleted", ""): deleted, **_events(session, choice)}
        return Reply(self._told(session, choice, asked.state), events)

    def _go_on(self, records: Records, id: str, asked: Observed) -> Reply:
        session, last = _found(records.session_at(id))
        if asked.step > last.choice.step:
            _out_of_order(f"step {asked.step} was not decided yet; the last is {last.choice.step}")
        played = last if asked.step == last.choice.step else _found(records.step(session.number, asked.step))
        if played.reward is not None:
            return self._again(records, session, played, asked)
        now = time.time()
        records.pay(session.number, asked.step, asked.reward)
        paid = {("rewards", session.arm): 1.0, ("reward_sum", session.arm): asked.reward}
        if asked.state is None:
            self.on_finished(records.end(session, asked.step + 1, now))
            return Reply(self._told(session, None, None, asked.step + 1), {**paid, ("sessions_ended", session.arm): 1})
        if asked.step + 1 >= LONGEST_SESSION:
            raise Refusal(409, "too_long", f"a session has at most {LONGEST_SESSION} steps; end it with state null")
        state, said = self._meant(asked.state)
        served = self.served_by(records, session.version)
        choice = served.follow(id, session.arm, played.choice, asked.reward, state)
        records.add_step(session, choice, said, now)
        return Reply(self._told(session, choice, asked.state), {**paid, **_events(session, choice)})

    def _again(self, records: Records, session: SessionRow, played: StepRow, asked: Observed) -> Reply:
        """What was answered when this step was told for the first time."""
        after = records.step(session.number, asked.step + 1)
        told = None if after is None else (after.choice.state, after.said)
        meant = None if asked.state is None else self._meant(asked.state)
        if (played.reward, told) != (asked.reward, meant):
            _out_of_order(f"step {asked.step} has another reward or another next state already")
        body = self._told(session, None if after is None else after.choice, asked.state, asked.step + 1)
        return Reply(body, {("retries", ""): 1})

    def _show(self, records: Records, id: str) -> Reply:
        session = _found(records.session(id))
        steps = records.steps(session.number)
        last = steps[-1]
        served = self.served_by(records, session.version)
        belief = list(last.choice.belief)
        if last.reward is not None:
            belief = served.after(last.choice, last.reward).tolist()
        model = served.model
        history = [
            {
                "step": one.choice.step,
                "state": _named(model.state_names, one.choice.state, one.said),
                "action": _named(model.action_names, one.choice.action),
                "propensity": one.choice.propensity,
                "reward": one.reward,
            }
            for one in steps
        ]
        told = {"session": id, "version": session.version, "arm": session.arm, "ended": session.ended}
        return Reply({**told, "belief": belief, "history": history})

    def _meant(self, state: str | int) -> tuple[int | None, str | None]:
        """(number of a state, None), or (None, what was said) if the plan does not know it."""
        number = self._states.get(state) if isinstance(state, str) else state
        if number is not None and 0 <= number < self._num_states:
            return number, None
        return None, json.dumps(state)

    def _told(self, session: SessionRow, choice: Decided | None, state: Any, step: int | None = None) -> dict[str, Any]:
        """The answer to a step: names for those who say names, numbers for those who say numbers."""
        names = () if isinstance(state, int) else self.served.model.action_names
        return {
            "session": session.id,
            "step": step if choice is None else choice.step,
            "action": None if choice is None else _named(names, choice.action),
            "propensity": None if choice is None else choice.propensity,
            "version": session.version,
        }

    def _totals(self, records: Records) -> Totals:
        totals = records.totals()
        self.version = totals.current
        return totals

    def _settings_of(self, records: Records, version: int) -> ServeSettings:
        settings, row = self.served.settings, records.version(version)
        if settings.explore_first is None or row is None or row.learned_from is not None:
            return settings
        return replace(settings, explore=settings.explore_first)

    def served_by(self, records: Records, version: int) -> ServedPlan:
        """The plan of a version, read from the store once."""
        if version not in self._versions:
            plan = plan_from(records.plan_of(version))
            self._versions[version] = ServedPlan(plan, self._settings_of(records, version))
        return self._versions[version]


def _events(session: SessionRow, choice: Decided) -> dict[tuple[str, str], float]:
    unknown = {("unknown_states", ""): 1.0} if choice.state is None else {}
    return {("decisions", session.arm): 1.0, **unknown}


def _named(names: tuple[str, ...], number: int | None, said: str | None = None) -> Any:
    """What people call a state or an action; the number where it has no name."""
    if number is None:
        return None if said is None else json.loads(said)
    return names[number] if names else number


def _found(session: _T | None) -> _T:
    if session is None:
        raise Refusal(404, "no_such_session", "there is no session with this id")
    return session


def _out_of_order(message: str) -> NoReturn:
    raise Refusal(409, "out_of_order", message)
