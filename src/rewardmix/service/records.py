"""Read and write the tables of a service: policy versions, sessions, steps and totals.

One ``Records`` object belongs to one transaction. It delays writes and sends rows of one kind with one statement, so a
batch of jobs costs a few round trips to the database instead of several per job.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewardmix._core.errors import raise_input_error
from rewardmix.service.databases import EXPECTED_STORE, Database, RowChange
from rewardmix.service.policy_server import StepDecision

ACTIVATED, REJECTED, PENDING = "activated", "rejected", "pending"
"""State of a version: became active, rejected by the diagnostics, or pending because another version is pinned."""

TOUCH_INTERVAL_SECONDS = 30.0
"""Largest error in seconds of ``last_seen``. Steps that follow each other quickly then need one write less."""

_VERSION = "digest, created_at, parent, num_training_sessions, state, reason, evidence"
"""Columns of a version after its number, in the order of the fields of ``VersionRow``."""

_SESSION = "number, id, version, arm, open, ended, finished, last_seen"
"""Columns of a session, in the order in which ``_parse_session`` takes them."""

_STEP = "step, state, action, propensity, node, belief, raw_state, reward"
"""Columns of a step, in the order in which ``_parse_step`` takes them."""

_TOTAL_NAMES = ("open", "finished", "active_version", "initial_version", "pinned")
"""Names of the totals, in the order of the fields of ``Totals``."""

_INSERT_SESSION = RowChange(
    "sessions", ("number", "id", "idempotency_key", "user_hash", "version", "arm", "last_seen", "open", "holdout")
)
_STEPS = ("number", "step", "state", "raw_state", "action", "propensity", "node", "belief", "decided_at")
_INSERT_STEP = RowChange("steps", _STEPS)
_SET_REWARD = RowChange("steps", ("number", "step", "reward"), ("number", "step"))
_TOUCH_SESSION = RowChange("sessions", ("number", "last_seen", "open"), ("number",))
_END_SESSION = RowChange("sessions", ("number", "last_seen", "open", "ended"), ("number",))
_FINISH_SESSION = RowChange("sessions", ("number", "finished", "num_rewards"), ("number",))
_END_AND_FINISH_SESSION = RowChange("sessions", (*_END_SESSION.columns, "finished", "num_rewards"), ("number",))
_SET_TOTAL = RowChange("totals", ("name", "value"), ("name",))
_CHANGES = (
    _INSERT_SESSION,
    _INSERT_STEP,
    _SET_REWARD,
    _TOUCH_SESSION,
    _END_SESSION,
    _FINISH_SESSION,
    _END_AND_FINISH_SESSION,
)
"""Kinds of delayed writes, in the order in which they are executed: a session exists before its steps and rewards."""

_SESSION_WITH_STEP = f"SELECT {_SESSION}, {_STEP} FROM sessions JOIN steps USING (number)"
_TOTALS = "SELECT name, value FROM totals UNION ALL SELECT 'last_number', COALESCE(MAX(number), 0) FROM sessions"
_LAST_STEP = "SELECT MAX(step) FROM steps AS others WHERE others.number = sessions.number"
"""Queries: a session with one of its steps; the totals with the largest session number; the index of the last step."""


@dataclass(frozen=True)
class Totals:
    """Counters and settings that the store keeps besides its tables.

    Attributes:
        num_open: Number of open sessions.
        num_finished: Number of sessions that ended or became idle since the store was created.
        active_version: Version that new sessions get.
        initial_version: Version that the service was last started with.
        pinned: Whether an operator fixed ``active_version``; refits then do not replace it.
    """

    num_open: int
    num_finished: int
    active_version: int
    initial_version: int
    pinned: bool


@dataclass(frozen=True)
class VersionRow:
    """Version of the policy as stored.

    Attributes:
        version: Number of the version, from 1.
        digest: SHA-256 of the serialized plan, in hexadecimal.
        created_at: Time of creation in seconds since 1970 (UTC).
        parent: Active version when this one was fitted; None for a provided version.
        num_training_sessions: Number of finished sessions it was fitted to; None for a provided version.
        state: ACTIVATED, REJECTED or PENDING.
        reason: Why it did not become active automatically, or an empty string.
        evidence: Results of the fit and of the diagnostics, as JSON.
    """

    version: int
    digest: str
    created_at: float
    parent: int | None
    num_training_sessions: int | None
    state: str
    reason: str
    evidence: str


@dataclass(frozen=True)
class PolicyBlob:
    """Serialized plan of a version.

    Attributes:
        digest: SHA-256 of ``plan``, in hexadecimal.
        plan: Content of the plan's file.
        spec: States, actions and reward values, as JSON.
    """

    digest: str
    plan: bytes
    spec: str


@dataclass(frozen=True)
class NewSession:
    """Identifiers of a session that a client wants to start.

    Attributes:
        id: Identifier that the client gets.
        key: Idempotency key of the client: a repeated request with this key does not start a second session.
        user: User of the session, so that all sessions of one user can be deleted.
    """

    id: str
    key: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class SessionRow:
    """Session as stored.

    Attributes:
        number: Running number in order of creation, from 1.
        id: Identifier that the client knows.
        version: Version of the policy that it follows until its end.
        arm: Arm of the A/B test: adaptive or holdout.
        open: Whether it counts as open, that is, neither ended nor idle.
        ended: Whether the client ended it.
        finished: Whether it ended or became idle before, and was counted.
        last_seen: Time of the last request in seconds since 1970, up to ``TOUCH_INTERVAL_SECONDS`` too old.
    """

    number: int
    id: str
    version: int
    arm: str
    open: bool
    ended: bool
    finished: bool
    last_seen: float


@dataclass(frozen=True)
class StepRow:
    """Step as stored.

    Attributes:
        decision: Decision of the step.
        raw_state: State as the client sent it, as JSON, if the plan does not know it; else None.
        reward: Reward of the step; None until the client reports it.
    """

    decision: StepDecision
    raw_state: str | None
    reward: float | None


class Records:
    """Tables as the jobs of one transaction read and change them.

    Writes are delayed and sent together: before any query that was not prefetched, and at the end (``flush``). The
    totals change in almost every job; they are read once and written once, at the end.

    Attributes:
        writes: Number of changes so far, which tells whether a failed job has to be undone.
        deleted: Number of sessions that were deleted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writes = self.deleted = 0
        self._totals: dict[str, int] = {}
        self._changed: set[str] = set()
        self._queued: dict[RowChange, list[tuple[Any, ...]]] = {}
        self._prefetched: dict[str, tuple[SessionRow, StepRow] | None] = {}
        self._prefetched_keys: dict[str, SessionRow | None] = {}
        self._searched: set[str] = set()

    def flush(self) -> None:
        """Write all delayed changes and the changed totals to the database."""
        self._write()
        if self._changed:
            self._database.write_rows(_SET_TOTAL, [(name, self._totals[name]) for name in sorted(self._changed)])
            self._changed.clear()

    def reset(self) -> None:
        """Discard cached rows and delayed writes after a rollback."""
        # All caches go, not only those of the job: a rolled back job may have changed any of them.
        for cache in (
            self._prefetched,
            self._prefetched_keys,
            self._totals,
            self._changed,
            self._queued,
            self._searched,
        ):
            cache.clear()

    def _write(self) -> None:
        """Send the delayed rows, one statement for each kind, in the order of ``_CHANGES``."""
        if self._queued:
            queued, self._queued = self._queued, {}
            # The fixed order makes the statements independent of the order of jobs, and an UPDATE never
            # precedes the INSERT of its row.
            for change in _CHANGES:
                if change in queued:
                    self._database.write_rows(change, queued[change])

    def _queue_change(self, change: RowChange, *row: Any) -> None:
        """Queue one row for a delayed write."""
        self.writes += 1
        self._queued.setdefault(change, []).append(row)

    def _execute(self, text: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement after all delayed writes, so that it sees them."""
        self._write()
        # Only changing statements count: a job that failed after reads alone needs no rollback.
        self.writes += not text.startswith("SELECT")
        return self._database.execute(text, values)

    def totals(self) -> Totals:
        """Return the counters and settings of the store."""
        totals = self._load_totals()
        num_open, num_finished, active_version, initial_version, pinned = (totals[name] for name in _TOTAL_NAMES)
        return Totals(num_open, num_finished, active_version, initial_version, bool(pinned))

    def _load_totals(self) -> dict[str, int]:
        """Load the totals on first use and check that all of them are integers."""
        if not self._totals:
            self._totals.update(self._execute(_TOTALS).fetchall())
            # A damaged store is reported here, before any session is decided with a wrong version.
            for name in _TOTAL_NAMES:
                if not isinstance(self._totals.get(name), int):
                    raise_input_error("store", f"{self._totals.get(name)!r} for the total {name!r}", EXPECTED_STORE)
        return self._totals

    def set_total(self, name: str, value: int) -> None:
        """Set one of the totals; it is written at the next ``flush``."""
        self.writes += 1
        self._load_totals()[name] = value
        self._changed.add(name)

    def find_version(self, digest: str) -> int | None:
        """Find the provided version with this digest; return None if there is none."""
        text = "SELECT version FROM versions WHERE digest = ? AND parent IS NULL"
        row = self._execute(text, (digest,)).fetchone()
        return None if row is None else int(row[0])

    def add_version(self, policy: PolicyBlob, row: VersionRow) -> int:
        """Insert a version and return its number."""
        (last,) = self._execute("SELECT COALESCE(MAX(version), 0) FROM versions").fetchone()
        values = (row.created_at, row.parent, row.num_training_sessions, row.state, row.reason, row.evidence)
        self._execute(
            f"INSERT INTO versions (version, policy, spec, {_VERSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (int(last) + 1, policy.plan, policy.spec, policy.digest, *values),
        )
        return int(last) + 1

    def versions(self) -> list[VersionRow]:
        """Return all versions in order of their numbers."""
        rows = self._execute(f"SELECT version, {_VERSION} FROM versions ORDER BY version")
        return [VersionRow(*row) for row in rows]

    def version(self, version: int) -> VersionRow | None:
        """Return one version, or None if the number is unknown."""
        row = self._execute(f"SELECT version, {_VERSION} FROM versions WHERE version = ?", (version,)).fetchone()
        return None if row is None else VersionRow(*row)

    def activate_version(self, version: int) -> None:
        """Activate a version: new sessions get it from now on."""
        self._execute("UPDATE versions SET state = ? WHERE version = ?", (ACTIVATED, version))
        self.set_total("active_version", version)

    def max_training_sessions(self) -> int:
        """Return the largest number of finished sessions that any version was fitted to; 0 before the first refit."""
        return int(self._execute("SELECT COALESCE(MAX(num_training_sessions), 0) FROM versions").fetchone()[0])

    def list_specs(self) -> list[str]:
        """Return the distinct specs (states, actions, reward values; JSON) of all versions."""
        return [str(row[0]) for row in self._execute("SELECT DISTINCT spec FROM versions")]

    def plan_bytes(self, version: int) -> bytes:
        """Return the serialized plan of a version."""
        return bytes(self._execute("SELECT policy FROM versions WHERE version = ?", (version,)).fetchone()[0])

    def session(self, id: str) -> SessionRow | None:
        """Return the session with an id, or None."""
        return next(iter(self._sessions("id = ?", id)), None)

    def find_session_by_key(self, key: str) -> SessionRow | None:
        """Return the session that was started with an idempotency key, or None."""
        hashed = _hash_text(key)
        if hashed in self._prefetched_keys:
            # Each entry is used once: the job that takes it may start the session, after which the entry is
            # outdated.
            return self._prefetched_keys.pop(hashed)
        return next(iter(self._sessions("idempotency_key = ?", hashed)), None)

    def prefetch(self, ids: Sequence[str], keys: Sequence[str]) -> None:
        """Prefetch sessions for a batch of jobs with one query each; every entry is used at most once.

        Args:
            ids: Ids of sessions that get another step.
            keys: Idempotency keys of sessions that are to be started.
        """
        if ids:
            condition, values = self._database.in_clause(ids)
            rows = self._execute(
                f"{_SESSION_WITH_STEP} WHERE id {condition} AND step = ({_LAST_STEP})", values
            ).fetchall()
            # Ids without a row are stored as None, so that a missing session needs no second query.
            self._prefetched = {**dict.fromkeys(ids), **{row[1]: _parse_session_and_step(row) for row in rows}}
        if keys:
            hashed = [_hash_text(key) for key in keys]
            condition, values = self._database.in_clause(hashed)
            rows = self._execute(
                f"SELECT {_SESSION}, idempotency_key FROM sessions WHERE idempotency_key {condition}", values
            ).fetchall()
            self._prefetched_keys = {**dict.fromkeys(hashed), **{row[8]: _parse_session(row[:8]) for row in rows}}

    def session_with_last_step(self, id: str) -> tuple[SessionRow, StepRow] | None:
        """Return a session and its last step, or None."""
        if id in self._prefetched:
            # Each entry is used once, because the job that takes it may add a step.
            return self._prefetched.pop(id)
        row = self._execute(f"{_SESSION_WITH_STEP} WHERE id = ? ORDER BY step DESC LIMIT 1", (id,)).fetchone()
        return None if row is None else _parse_session_and_step(row)

    def find_user_sessions(self, user: str, max_sessions: int) -> list[SessionRow]:
        """Return up to ``max_sessions`` sessions of a user in order of creation."""
        return self._sessions("user_hash = ? ORDER BY number LIMIT ?", _hash_text(user), max_sessions)

    def is_of_user(self, number: int, user: str | None) -> bool:
        """Return whether a session belongs to a user; ``None`` tests for a session without a user."""
        (stored,) = self._execute("SELECT user_hash FROM sessions WHERE number = ?", (number,)).fetchone()
        return bool(stored == (None if user is None else _hash_text(user)))

    def _sessions(self, condition: str, *values: object) -> list[SessionRow]:
        """Query sessions by a WHERE clause."""
        rows = self._execute(f"SELECT {_SESSION} FROM sessions WHERE {condition}", values).fetchall()
        return [_parse_session(row) for row in rows]

    def add_session(
        self, new_session: NewSession, version: int, arm: str, now: float, holdout: float | None = None
    ) -> SessionRow:
        """Insert a session and return it.

        ``holdout`` is the probability of the holdout arm when the arm of the session was drawn; the A/B test needs it.
        """
        hashes = [None if text is None else _hash_text(text) for text in (new_session.key, new_session.user)]
        totals = self._load_totals()
        # Numbers are assigned here and not by the database, so that the insert can be delayed. One writer at a
        # time keeps them unique.
        number = totals["last_number"] = totals["last_number"] + 1
        self._queue_change(_INSERT_SESSION, number, new_session.id, *hashes, version, arm, now, 1, holdout)
        self._count_open(1)
        return SessionRow(number, new_session.id, version, arm, True, False, False, now)

    def step(self, number: int, step: int | None = None) -> StepRow | None:
        """Return one step of a session, by default the last one; None if it does not exist."""
        condition, values = ("", (number,)) if step is None else (" AND step = ?", (number, step))
        text = f"SELECT {_STEP} FROM steps WHERE number = ?{condition} ORDER BY step DESC LIMIT 1"
        row = self._execute(text, values).fetchone()
        return None if row is None else _parse_step(row)

    def list_steps(self, number: int) -> list[StepRow]:
        """Return all steps of a session in order."""
        rows = self._execute(f"SELECT {_STEP} FROM steps WHERE number = ? ORDER BY step", (number,))
        return [_parse_step(row) for row in rows]

    def add_step(self, session: SessionRow, decision: StepDecision, raw_state: str | None, now: float) -> None:
        """Insert a decision of a session and mark the session as open."""
        values = decision.state, raw_state, decision.action, decision.propensity, decision.node
        self._queue_change(_INSERT_STEP, session.number, decision.step, *values, json.dumps(decision.belief), now)
        # Most steps follow the last one within seconds. The time of the session is written only if it is old or
        # the session was idle.
        if not session.open or now - session.last_seen > TOUCH_INTERVAL_SECONDS:
            self._queue_change(_TOUCH_SESSION, session.number, now, 1)
        self._count_open(not session.open)

    def set_reward(self, number: int, step: int, reward: float) -> None:
        """Set the reward of a step that has none yet."""
        self._queue_change(_SET_REWARD, number, step, reward)

    def end_session(self, session: SessionRow, num_rewards: int, now: float) -> int:
        """End a session with ``num_rewards`` rewards; return its number among finished sessions, 0 if it has one."""
        self._count_open(-session.open)
        # An idle session was counted as finished before. Its later rewards must not change the log that refits
        # were made from.
        if session.finished:
            self._queue_change(_END_SESSION, session.number, now, 0, 1)
            return 0
        finished = self.totals().num_finished + 1
        self.set_total("finished", finished)
        self._queue_change(_END_AND_FINISH_SESSION, session.number, now, 0, 1, finished, num_rewards)
        return finished

    def delete_sessions(self, sessions: Sequence[SessionRow]) -> int:
        """Delete sessions with all of their steps and return how many they were."""
        if sessions:
            # A deleted session must not be found by a prefetched idempotency key.
            self._prefetched_keys.clear()
            condition, numbers = self._session_clause([session.number for session in sessions])
            self._execute(f"DELETE FROM steps WHERE number {condition}", numbers)
            self._execute(f"DELETE FROM sessions WHERE number {condition}", numbers)
            self._count_open(-sum(session.open for session in sessions))
            self.deleted += len(sessions)
        return len(sessions)

    def delete_before(self, time: float, max_sessions: int) -> int:
        """Delete up to ``max_sessions`` sessions last seen before ``time``, oldest first, and return their number.

        After one call in a transaction found fewer than ``max_sessions``, later calls do not query again.
        """
        if "old" in self._searched:
            return 0
        sessions = self._sessions("last_seen < ? ORDER BY last_seen, number LIMIT ?", time, max_sessions)
        # Fewer rows than requested: this transaction has found all of them.
        if len(sessions) < max_sessions:
            self._searched.add("old")
        return self.delete_sessions(sessions)

    def _session_clause(self, numbers: list[int]) -> tuple[str, Sequence[Any]]:
        """Return an IN clause for sessions about to change, and drop their prefetched rows, which become outdated."""
        changed = set(numbers)
        self._prefetched = {
            id: row for id, row in self._prefetched.items() if row is None or row[0].number not in changed
        }
        return self._database.in_clause(numbers)

    def count_sessions(self) -> int:
        """Return the number of stored sessions."""
        return int(self._execute("SELECT COUNT(*) FROM sessions").fetchone()[0])

    def close_idle(self, before: float, max_sessions: int) -> int:
        """Close up to ``max_sessions`` open sessions last seen before ``before`` and return how many they were.

        After one call in a transaction found fewer than ``max_sessions``, later calls do not query again.
        """
        if "idle" in self._searched:
            return 0
        idle = self._execute(
            "SELECT number, finished, (SELECT COUNT(reward) FROM steps WHERE steps.number = sessions.number) "
            "FROM sessions WHERE open = 1 AND last_seen < ? ORDER BY last_seen, number LIMIT ?",
            (before, max_sessions),
        ).fetchall()
        # Fewer rows than requested: this transaction has found all of them.
        if len(idle) < max_sessions:
            self._searched.add("idle")
        if not idle:
            return 0
        condition, numbers = self._session_clause([row[0] for row in idle])
        self._execute(f"UPDATE sessions SET open = 0 WHERE number {condition}", numbers)
        self._count_open(-len(idle))
        for number, finished, num_rewards in idle:
            # Sessions finish in order of last_seen and number, which makes replays deterministic. Sessions
            # without a reward contain nothing to learn from.
            if finished is None and num_rewards:
                self.set_total("finished", self.totals().num_finished + 1)
                self._queue_change(_FINISH_SESSION, number, self.totals().num_finished, num_rewards)
        return len(idle)

    def _count_open(self, difference: int) -> None:
        """Add to the number of open sessions."""
        if difference:
            self.set_total("open", self._load_totals()["open"] + int(difference))

    def list_finished_after(self, finished: int, max_sessions: int) -> list[tuple[Any, ...]]:
        """Return sessions that finished after number ``finished``, at most ``max_sessions``, in order.

        Each row is (finished number, version, arm, whether the client ended it, sum of rewards, holdout probability).
        """
        return list(
            self._execute(
                "SELECT finished, version, arm, ended, (SELECT COALESCE(SUM(reward), 0) FROM steps "
                # Rewards that arrive after a session has finished do not count, so sums never change.
                "WHERE steps.number = sessions.number AND steps.step < sessions.num_rewards), holdout "
                "FROM sessions WHERE finished > ? ORDER BY finished LIMIT ?",
                (finished, max_sessions),
            ).fetchall()
        )

    def list_unknown_states(self, after: int, until: int) -> list[tuple[str, int]]:
        """Return (raw state as JSON, count) of unknown states in sessions that finished between two numbers."""
        rows = self._execute(
            "SELECT raw_state, COUNT(*) FROM sessions JOIN steps USING (number) "
            "WHERE finished > ? AND finished <= ? AND raw_state IS NOT NULL "
            "GROUP BY raw_state ORDER BY COUNT(*) DESC, raw_state",
            (after, until),
        )
        return [(str(raw_state), int(count)) for raw_state, count in rows.fetchall()]

    def iter_rewarded_steps(self, until: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Iterate over all steps with a reward, sorted by session and step.

        A row is (id, step, state, action, reward, propensity, version, arm, next state).

        Args:
            until: Number of finished sessions to include, each as it was when it finished; None includes all sessions.
        """
        # Rows are cut at the state of each session when it finished; replays of a refit then read identical
        # data.
        condition = "" if until is None else "AND finished <= ? AND steps.step < num_rewards "
        return iter(
            self._execute(
                "SELECT sessions.id, steps.step, steps.state, steps.action, steps.reward, steps.propensity, version, "
                "arm, after.state FROM sessions JOIN steps USING (number) LEFT JOIN steps AS after "
                "ON after.number = steps.number AND after.step = steps.step + 1 "
                f"WHERE steps.reward IS NOT NULL {condition}ORDER BY steps.number, steps.step",
                () if until is None else (until,),
            )
        )


def _hash_text(text: str) -> str:
    """Hash an idempotency key or user name with SHA-256: it can be looked up but not read from the store."""
    return hashlib.sha256(text.encode()).hexdigest()


def _parse_session_and_step(row: tuple[Any, ...]) -> tuple[SessionRow, StepRow]:
    """Split a joined row into session and step."""
    return _parse_session(row[:8]), _parse_step(row[8:])


def _parse_session(row: tuple[Any, ...]) -> SessionRow:
    """Convert a database row to a ``SessionRow``."""
    number, id, version, arm, open, ended, finished, last_seen = row
    return SessionRow(number, id, version, arm, bool(open), bool(ended), finished is not None, last_seen)


def _parse_step(row: tuple[Any, ...]) -> StepRow:
    """Convert a database row to a ``StepRow``; a damaged state or action raises an ``InputError``."""
    step, state, action, propensity, node, belief, raw_state, reward = row
    for name, value in (("state", state if raw_state is None else 0), ("action", action)):
        # A negative index would silently address states from the end of an array.
        if not isinstance(value, int) or value < 0:
            raise_input_error("store", f"{name} {value!r} in step {step!r}", EXPECTED_STORE)
    return StepRow(StepDecision(step, state, action, propensity, node, tuple(json.loads(belief))), raw_state, reward)
