"""What a service remembers, in tables: versions of the policy, sessions and their steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewardmix._core.errors import refuse
from rewardmix.service.databases import WHOLE_STORE, Database, RowChange
from rewardmix.service.deciding import Decided

PROMOTED, REFUSED, WAITING = "promoted", "refused", "waiting"
"""What became of a version: new sessions got it, the check-up contradicted it, or somebody holds another one."""

TOUCH_SECONDS = 30.0
"""How old the note of when a session was last heard of may be: a write less for steps that follow each other."""

_VERSION = "digest, added, parent, learned_from, state, reason, evidence"
"""Columns of a version behind its number, as ``VersionRow`` takes them."""

_SESSION = "number, id, version, arm, open, ended, finished, touched"
"""Columns of a session, as ``_session_of`` takes them."""

_STEP = "step, state, action, propensity, node, belief, said, reward"
"""Columns of a step, as ``_step_of`` takes them."""

_BEGUN = RowChange("sessions", ("number", "id", "retry_key", "visitor", "version", "arm", "touched", "open", "holdout"))
_STEPS = ("number", "step", "state", "said", "action", "propensity", "node", "belief", "decided")
_DECIDED = RowChange("steps", _STEPS)
_PAID = RowChange("steps", ("number", "step", "reward"), ("number", "step"))
_TOUCHED = RowChange("sessions", ("number", "touched", "open"), ("number",))
_ENDED = RowChange("sessions", ("number", "touched", "open", "ended"), ("number",))
_FINISHED = RowChange("sessions", ("number", "finished", "paid"), ("number",))
_DONE = RowChange("sessions", (*_ENDED.columns, "finished", "paid"), ("number",))
_COUNTED = RowChange("totals", ("name", "value"), ("name",))
_CHANGES = (_BEGUN, _DECIDED, _PAID, _TOUCHED, _ENDED, _FINISHED, _DONE)
"""What waits to be written, in the order in which it is."""

_AT = f"SELECT {_SESSION}, {_STEP} FROM sessions JOIN steps USING (number)"
_TOTALS = "SELECT name, value FROM totals UNION ALL SELECT 'last', COALESCE(MAX(number), 0) FROM sessions"
_LAST = "SELECT MAX(step) FROM steps AS others WHERE others.number = sessions.number"
"""A session beside one of its steps; totals, with the last number of a session; and which step is the last."""


@dataclass(frozen=True)
class Totals:
    """Numbers that a store keeps beside its tables.

    Attributes:
        open: sessions that count as open.
        finished: sessions that ended or fell silent, ever.
        current: version that new sessions get.
        given: version that the service was last started with.
        held: whether ``current`` was chosen by hand, to stay.
    """

    open: int
    finished: int
    current: int
    given: int
    held: bool


@dataclass(frozen=True)
class VersionRow:
    """A version of the policy as it is stored.

    Attributes:
        version: its number.
        digest: SHA-256 of its content.
        added: when, in seconds since 1970.
        parent: version that new sessions got when this one was learned; None: it was given.
        learned_from: how many finished sessions it was learned from; None: it was given.
        state: PROMOTED, REFUSED or WAITING.
        reason: why it was not promoted by itself, or "".
        evidence: what is known of it, as JSON.
    """

    version: int
    digest: str
    added: float
    parent: int | None
    learned_from: int | None
    state: str
    reason: str
    evidence: str


@dataclass(frozen=True)
class StoredPolicy:
    """What a version plays.

    Attributes:
        digest: SHA-256 of its content.
        plan: content of its file.
        world: its states, actions and reward values, as JSON.
    """

    digest: str
    plan: bytes
    world: str


@dataclass(frozen=True)
class NewSession:
    """Who begins a session.

    Attributes:
        id: what its owner will know it by.
        key: of the client, so that a request that is sent again begins no second session.
        visitor: whose it is, to find all of somebody's sessions.
    """

    id: str
    key: str | None = None
    visitor: str | None = None


@dataclass(frozen=True)
class SessionRow:
    """A session as it is stored.

    Attributes:
        number: in the order of their beginnings.
        id: what its owner knows it by.
        version: of the policy that it follows to its end.
        arm: which policy of that version.
        open: whether it counts as open: neither ended nor idle.
        ended: whether its owner ended it.
        finished: whether it ended or fell silent once, and was counted.
        touched: when it was last heard of, up to ``TOUCH_SECONDS``.
    """

    number: int
    id: str
    version: int
    arm: str
    open: bool
    ended: bool
    finished: bool
    touched: float


@dataclass(frozen=True)
class StepRow:
    """A step as it is stored.

    Attributes:
        choice: what was decided.
        said: the state as it was told, where the plan does not know it.
        reward: None as long as nobody told it.
    """

    choice: Decided
    said: str | None
    reward: float | None


class Records:
    """What jobs may ask and change in one transaction.

    What jobs change waits, and is written together: before anything is asked that was not read ahead, and at the end
    (``flush``). Totals, which change with almost every job, are read once and written at the end only.

    Attributes:
        writes: how often something was changed.
        deleted: sessions that were removed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writes = self.deleted = 0
        self._totals: dict[str, int] = {}
        self._changed: set[str] = set()
        self._waiting: dict[RowChange, list[tuple[Any, ...]]] = {}
        self._ahead: dict[str, tuple[SessionRow, StepRow] | None] = {}
        self._keys: dict[str, SessionRow | None] = {}
        self._searched: set[str] = set()

    def flush(self) -> None:
        """Write all that has changed."""
        self._write()
        if self._changed:
            self._database.change(_COUNTED, [(name, self._totals[name]) for name in sorted(self._changed)])
            self._changed.clear()

    def forget(self) -> None:
        """Take what was read for unknown, and what waits for not said, after something was undone."""
        for kept in (self._ahead, self._keys, self._totals, self._changed, self._waiting, self._searched):
            kept.clear()

    def _write(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for change in _CHANGES:
                if change in waiting:
                    self._database.change(change, waiting[change])

    def _change(self, how: RowChange, *row: Any) -> None:
        self.writes += 1
        self._waiting.setdefault(how, []).append(row)

    def _ask(self, text: str, values: Sequence[Any] = ()) -> Any:
        self._write()
        self.writes += not text.startswith("SELECT")
        return self._database.ask(text, values)

    def totals(self) -> Totals:
        """The numbers beside the tables."""
        found = self._known_totals()
        return Totals(found["open"], found["finished"], found["current"], found["given"], bool(found["held"]))

    def _known_totals(self) -> dict[str, int]:
        if not self._totals:
            self._totals.update(self._ask(_TOTALS).fetchall())
            for name in ("open", "finished", "current", "given", "held"):
                if not isinstance(self._totals.get(name), int):
                    refuse("store", f"the total {name!r} as {self._totals.get(name)!r}", WHOLE_STORE)
        return self._totals

    def set_total(self, name: str, value: int) -> None:
        """Change one of the numbers."""
        self.writes += 1
        self._known_totals()[name] = value
        self._changed.add(name)

    def version_of(self, digest: str) -> int | None:
        """The version that was given with this content, if there is one."""
        text = "SELECT version FROM versions WHERE digest = ? AND parent IS NULL"
        found = self._ask(text, (digest,)).fetchone()
        return None if found is None else int(found[0])

    def add_version(self, policy: StoredPolicy, row: VersionRow) -> int:
        """A new version; its number."""
        (last,) = self._ask("SELECT COALESCE(MAX(version), 0) FROM versions").fetchone()
        kept = (row.added, row.parent, row.learned_from, row.state, row.reason, row.evidence)
        self._ask(
            f"INSERT INTO versions (version, plan, world, {_VERSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (int(last) + 1, policy.plan, policy.world, policy.digest, *kept),
        )
        return int(last) + 1

    def versions(self) -> list[VersionRow]:
        """All versions, the first one first."""
        rows = self._ask(f"SELECT version, {_VERSION} FROM versions ORDER BY version")
        return [VersionRow(*row) for row in rows]

    def version(self, version: int) -> VersionRow | None:
        """One version."""
        row = self._ask(f"SELECT version, {_VERSION} FROM versions WHERE version = ?", (version,)).fetchone()
        return None if row is None else VersionRow(*row)

    def promote(self, version: int) -> None:
        """From now on new sessions get this version."""
        self._ask("UPDATE versions SET state = ? WHERE version = ?", (PROMOTED, version))
        self.set_total("current", version)

    def learned_until(self) -> int:
        """How many finished sessions the last version that was learned has seen."""
        return int(self._ask("SELECT COALESCE(MAX(learned_from), 0) FROM versions").fetchone()[0])

    def worlds(self) -> list[str]:
        """What the versions say of their states, actions and reward values, each once."""
        return [str(row[0]) for row in self._ask("SELECT DISTINCT world FROM versions")]

    def plan_of(self, version: int) -> bytes:
        """The stored plan of a version."""
        return bytes(self._ask("SELECT plan FROM versions WHERE version = ?", (version,)).fetchone()[0])

    def session(self, id: str) -> SessionRow | None:
        """A session by its id."""
        return next(iter(self._sessions("id = ?", id)), None)

    def session_of_key(self, key: str) -> SessionRow | None:
        """A session by the key that it was begun with."""
        hashed = _hashed(key)
        if hashed in self._keys:
            return self._keys.pop(hashed)
        return next(iter(self._sessions("retry_key = ?", hashed)), None)

    def read_ahead(self, ids: Sequence[str], keys: Sequence[str]) -> None:
        """Read what jobs will ask for, all at once; each is given out once, so nobody sees an old one.

        Args:
            ids: of sessions that go on.
            keys: that sessions are begun with.
        """
        if ids:
            which, values = self._database.among(ids)
            rows = self._ask(f"{_AT} WHERE id {which} AND step = ({_LAST})", values).fetchall()
            self._ahead = {**dict.fromkeys(ids), **{row[1]: _at_of(row) for row in rows}}
        if keys:
            hashed = [_hashed(key) for key in keys]
            which, values = self._database.among(hashed)
            rows = self._ask(f"SELECT {_SESSION}, retry_key FROM sessions WHERE retry_key {which}", values).fetchall()
            self._keys = {**dict.fromkeys(hashed), **{row[8]: _session_of(row[:8]) for row in rows}}

    def session_at(self, id: str) -> tuple[SessionRow, StepRow] | None:
        """A session and its last step."""
        if id in self._ahead:
            return self._ahead.pop(id)
        row = self._ask(f"{_AT} WHERE id = ? ORDER BY step DESC LIMIT 1", (id,)).fetchone()
        return None if row is None else _at_of(row)

    def sessions_of(self, visitor: str, most: int) -> list[SessionRow]:
        """Sessions of a visitor, the first ones first."""
        return self._sessions("visitor = ? ORDER BY number LIMIT ?", _hashed(visitor), most)

    def is_of(self, number: int, visitor: str | None) -> bool:
        """Whether a session is that of a visitor; None: of nobody."""
        (stored,) = self._ask("SELECT visitor FROM sessions WHERE number = ?", (number,)).fetchone()
        return bool(stored == (None if visitor is None else _hashed(visitor)))

    def _sessions(self, which: str, *values: object) -> list[SessionRow]:
        rows = self._ask(f"SELECT {_SESSION} FROM sessions WHERE {which}", values).fetchall()
        return [_session_of(row) for row in rows]

    def add_session(
        self, asked: NewSession, version: int, arm: str, now: float, holdout: float | None = None
    ) -> SessionRow:
        """A new session; ``holdout``: the share of the holdout by which its arm was drawn."""
        known = [None if text is None else _hashed(text) for text in (asked.key, asked.visitor)]
        totals = self._known_totals()
        number = totals["last"] = totals["last"] + 1
        self._change(_BEGUN, number, asked.id, *known, version, arm, now, 1, holdout)
        self._count_open(1)
        return SessionRow(number, asked.id, version, arm, True, False, False, now)

    def step(self, number: int, step: int | None = None) -> StepRow | None:
        """A step of a session; the last one if none is named."""
        which, values = ("", (number,)) if step is None else (" AND step = ?", (number, step))
        text = f"SELECT {_STEP} FROM steps WHERE number = ?{which} ORDER BY step DESC LIMIT 1"
        row = self._ask(text, values).fetchone()
        return None if row is None else _step_of(row)

    def steps(self, number: int) -> list[StepRow]:
        """All steps of a session."""
        rows = self._ask(f"SELECT {_STEP} FROM steps WHERE number = ? ORDER BY step", (number,))
        return [_step_of(row) for row in rows]

    def add_step(self, session: SessionRow, choice: Decided, said: str | None, now: float) -> None:
        """A new choice of a session."""
        decided = choice.state, said, choice.action, choice.propensity, choice.node, json.dumps(choice.belief)
        self._change(_DECIDED, session.number, choice.step, *decided, now)
        if not session.open or now - session.touched > TOUCH_SECONDS:
            self._change(_TOUCHED, session.number, now, 1)
        self._count_open(not session.open)

    def pay(self, number: int, step: int, reward: float) -> None:
        """The reward of a step that had none."""
        self._change(_PAID, number, step, reward)

    def end(self, session: SessionRow, paid: int, now: float) -> int:
        """Nothing follows in this session, which has so many rewards; how many have finished with it."""
        self._count_open(-session.open)
        if session.finished:
            self._change(_ENDED, session.number, now, 0, 1)
            return 0
        finished = self.totals().finished + 1
        self.set_total("finished", finished)
        self._change(_DONE, session.number, now, 0, 1, finished, paid)
        return finished

    def delete(self, sessions: Sequence[SessionRow]) -> int:
        """Remove sessions and all of their steps; how many they were."""
        if sessions:
            self._keys.clear()
            which, numbers = self._of([session.number for session in sessions])
            self._ask(f"DELETE FROM steps WHERE number {which}", numbers)
            self._ask(f"DELETE FROM sessions WHERE number {which}", numbers)
            self._count_open(-sum(session.open for session in sessions))
            self.deleted += len(sessions)
        return len(sessions)

    def delete_before(self, time: float, most: int) -> int:
        """Remove sessions that were last heard of before some time, the oldest first; how many they were.

        Where the jobs before have found all of them, nobody looks again.
        """
        if "old" in self._searched:
            return 0
        found = self._sessions("touched < ? ORDER BY touched, number LIMIT ?", time, most)
        if len(found) < most:
            self._searched.add("old")
        return self.delete(found)

    def _of(self, numbers: list[int]) -> tuple[str, Sequence[Any]]:
        """How sessions are asked for that are about to change; what was read ahead of them is not true any more."""
        gone = set(numbers)
        self._ahead = {id: at for id, at in self._ahead.items() if at is None or at[0].number not in gone}
        return self._database.among(numbers)

    def count_sessions(self) -> int:
        """How many sessions are stored."""
        return int(self._ask("SELECT COUNT(*) FROM sessions").fetchone()[0])

    def close_idle(self, before: float, most: int) -> int:
        """Count sessions that were last heard of before some time as open no more; how many they were.

        Where the jobs before have found all of them, nobody looks again.
        """
        if "idle" in self._searched:
            return 0
        silent = self._ask(
            "SELECT number, finished, (SELECT COUNT(reward) FROM steps WHERE steps.number = sessions.number) "
            "FROM sessions WHERE open = 1 AND touched < ? ORDER BY touched, number LIMIT ?",
            (before, most),
        ).fetchall()
        if len(silent) < most:
            self._searched.add("idle")
        if not silent:
            return 0
        which, numbers = self._of([row[0] for row in silent])
        self._ask(f"UPDATE sessions SET open = 0 WHERE number {which}", numbers)
        self._count_open(-len(silent))
        for number, finished, paid in silent:
            if finished is None and paid:  # in this order; what comes later teaches nothing
                self.set_total("finished", self.totals().finished + 1)
                self._change(_FINISHED, number, self.totals().finished, paid)
        return len(silent)

    def _count_open(self, change: int) -> None:
        if change:
            self.set_total("open", self._known_totals()["open"] + int(change))

    def finished_after(self, finished: int, most: int) -> list[tuple[Any, ...]]:
        """(place, version, arm, whether ended, sum of rewards, holdout) of sessions that finished after others."""
        return list(
            self._ask(
                "SELECT finished, version, arm, ended, (SELECT COALESCE(SUM(reward), 0) FROM steps "
                "WHERE steps.number = sessions.number AND steps.step < sessions.paid), holdout "
                "FROM sessions WHERE finished > ? ORDER BY finished LIMIT ?",
                (finished, most),
            ).fetchall()
        )

    def unknown_between(self, after: int, until: int) -> list[tuple[str, int]]:
        """(what was said as JSON, how often) of states that no version knows, in sessions that finished between."""
        rows = self._ask(
            "SELECT said, COUNT(*) FROM sessions JOIN steps USING (number) "
            "WHERE finished > ? AND finished <= ? AND said IS NOT NULL GROUP BY said ORDER BY COUNT(*) DESC, said",
            (after, until),
        )
        return [(str(said), int(count)) for said, count in rows.fetchall()]

    def paid_rows(self, until: int | None = None) -> Iterator[tuple[Any, ...]]:
        """(id, step, state, action, reward, propensity, version, arm, next state) of each step with a reward.

        Args:
            until: only the first so many sessions that finished, as they were then; None: all sessions as they are.
        """
        only = "" if until is None else "AND finished <= ? AND steps.step < paid "
        return iter(
            self._ask(
                "SELECT sessions.id, steps.step, steps.state, steps.action, steps.reward, steps.propensity, version, "
                "arm, after.state FROM sessions JOIN steps USING (number) LEFT JOIN steps AS after "
                "ON after.number = steps.number AND after.step = steps.step + 1 "
                f"WHERE steps.reward IS NOT NULL {only}ORDER BY steps.number, steps.step",
                () if until is None else (until,),
            )
        )


def _hashed(text: str) -> str:
    """A key or a visitor as it is stored: it can be found again, and not be read."""
    return hashlib.sha256(text.encode()).hexdigest()


def _at_of(row: tuple[Any, ...]) -> tuple[SessionRow, StepRow]:
    return _session_of(row[:8]), _step_of(row[8:])


def _session_of(row: tuple[Any, ...]) -> SessionRow:
    number, id, version, arm, open, ended, finished, touched = row
    return SessionRow(number, id, version, arm, bool(open), bool(ended), finished is not None, touched)


def _step_of(row: tuple[Any, ...]) -> StepRow:
    step, state, action, propensity, node, belief, said, reward = row
    for name, value in (("state", state if said is None else 0), ("action", action)):
        if not isinstance(value, int) or value < 0:  # Python would count from the end
            refuse("store", f"{name} {value!r} in step {step!r}", WHOLE_STORE)
    return StepRow(Decided(step, state, action, propensity, node, tuple(json.loads(belief))), said, reward)
