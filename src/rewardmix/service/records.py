"""What a service remembers, in tables: versions of the policy, sessions and their steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewardmix.service.databases import Database
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


_AT = f"SELECT {_SESSION}, {_STEP} FROM sessions JOIN steps USING (number)"
_LAST = "SELECT MAX(step) FROM steps AS others WHERE others.number = sessions.number"
"""A session beside one of its steps, and which one is its last."""


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

    Totals change with almost every job: they are read once and written at the end (``flush``).

    Attributes:
        writes: how often something was changed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writes = 0
        self._totals: dict[str, int] = {}
        self._changed: set[str] = set()
        self._ahead: dict[str, tuple[SessionRow, StepRow]] = {}

    def flush(self) -> None:
        """Write the totals that have changed."""
        for name in sorted(self._changed):
            self._ask("UPDATE totals SET value = ? WHERE name = ?", (self._totals[name], name))
        self._changed.clear()

    def forget(self) -> None:
        """Take what was read for unknown, after something was undone."""
        self._ahead.clear()
        self._totals.clear()
        self._changed.clear()

    def _ask(self, text: str, values: Sequence[Any] = ()) -> Any:
        self.writes += not text.startswith("SELECT")
        return self._database.ask(text, values)

    def totals(self) -> Totals:
        """The numbers beside the tables."""
        found = self._known_totals()
        return Totals(found["open"], found["finished"], found["current"], found["given"], bool(found["held"]))

    def _known_totals(self) -> dict[str, int]:
        if not self._totals:
            self._totals.update(self._ask("SELECT name, value FROM totals").fetchall())
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
        return next(iter(self._sessions("retry_key = ?", _hashed(key))), None)

    def read_ahead(self, ids: Sequence[str]) -> None:
        """Read sessions that jobs will ask for, all at once; each is given out once, so nobody sees an old one."""
        if len(ids) > 1:
            text = f"{_AT} WHERE id IN ({', '.join('?' * len(ids))}) AND step = ({_LAST})"
            for row in self._ask(text, tuple(ids)).fetchall():
                self._ahead[row[1]] = _session_of(row[:8]), _step_of(row[8:])

    def session_at(self, id: str) -> tuple[SessionRow, StepRow] | None:
        """A session and its last step."""
        if id in self._ahead:
            return self._ahead.pop(id)
        row = self._ask(f"{_AT} WHERE id = ? ORDER BY step DESC LIMIT 1", (id,)).fetchone()
        return None if row is None else (_session_of(row[:8]), _step_of(row[8:]))

    def sessions_of(self, visitor: str, most: int) -> list[SessionRow]:
        """Sessions of a visitor, the first ones first."""
        return self._sessions("visitor = ? ORDER BY number LIMIT ?", _hashed(visitor), most)

    def sessions_before(self, time: float, most: int) -> list[SessionRow]:
        """Sessions that were last heard of before some time, the oldest first."""
        return self._sessions("touched < ? ORDER BY touched, number LIMIT ?", time, most)

    def _sessions(self, which: str, *values: object) -> list[SessionRow]:
        rows = self._ask(f"SELECT {_SESSION} FROM sessions WHERE {which}", values).fetchall()
        return [_session_of(row) for row in rows]

    def add_session(self, asked: NewSession, version: int, arm: str, now: float) -> SessionRow:
        """A new session."""
        known = [None if text is None else _hashed(text) for text in (asked.key, asked.visitor)]
        added = self._ask(
            "INSERT INTO sessions (id, retry_key, visitor, version, arm, touched, open) VALUES (?, ?, ?, ?, ?, ?, 1) "
            "RETURNING number",
            (asked.id, *known, version, arm, now),
        ).fetchone()
        self._count_open(1)
        return SessionRow(int(added[0]), asked.id, version, arm, True, False, False, now)

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
        self._ask(
            "INSERT INTO steps (number, step, state, said, action, propensity, node, belief, decided) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                session.number,
                choice.step,
                choice.state,
                said,
                choice.action,
                choice.propensity,
                choice.node,
                json.dumps(choice.belief),
                now,
            ),
        )
        if not session.open or now - session.touched > TOUCH_SECONDS:
            self._ask("UPDATE sessions SET touched = ?, open = 1 WHERE number = ?", (now, session.number))
        self._count_open(not session.open)

    def pay(self, number: int, step: int, reward: float) -> None:
        """The reward of a step that had none."""
        self._ask("UPDATE steps SET reward = ? WHERE number = ? AND step = ?", (reward, number, step))

    def end(self, session: SessionRow, paid: int, now: float) -> int:
        """Nothing follows in this session, which has so many rewards; how many have finished with it."""
        self._ask("UPDATE sessions SET touched = ?, open = 0, ended = 1 WHERE number = ?", (now, session.number))
        self._count_open(-session.open)
        return 0 if session.finished else self._finish([(session.number, paid)])

    def _finish(self, sessions: list[tuple[int, int]]) -> int:
        """Count (number, rewards) of sessions as finished, in this order: what comes later teaches nothing."""
        finished = self.totals().finished
        for number, paid in sessions:
            finished += 1
            self._ask("UPDATE sessions SET finished = ?, paid = ? WHERE number = ?", (finished, paid, number))
        self.set_total("finished", finished)
        return finished

    def delete(self, sessions: Sequence[SessionRow]) -> int:
        """Remove sessions and all of their steps; how many they were."""
        self._ahead.clear()
        if sessions:
            numbers = tuple(session.number for session in sessions)
            places = ", ".join("?" * len(numbers))
            self._ask(f"DELETE FROM steps WHERE number IN ({places})", numbers)
            self._ask(f"DELETE FROM sessions WHERE number IN ({places})", numbers)
            self._count_open(-sum(session.open for session in sessions))
        return len(sessions)

    def count_sessions(self) -> int:
        """How many sessions are stored."""
        return int(self._ask("SELECT COUNT(*) FROM sessions").fetchone()[0])

    def close_idle(self, before: float, most: int) -> int:
        """Count sessions that were last heard of before some time as open no more; how many they were."""
        silent = self._ask(
            "SELECT number, finished, (SELECT COUNT(reward) FROM steps WHERE steps.number = sessions.number) "
            "FROM sessions WHERE open = 1 AND touched < ? ORDER BY touched, number LIMIT ?",
            (before, most),
        ).fetchall()
        if not silent:
            return 0
        self._ahead.clear()
        places = ", ".join("?" * len(silent))
        self._ask(f"UPDATE sessions SET open = 0 WHERE number IN ({places})", tuple(row[0] for row in silent))
        self._count_open(-len(silent))
        self._finish([(number, paid) for number, finished, paid in silent if finished is None and paid])
        return len(silent)

    def _count_open(self, change: int) -> None:
        if change:
            self.set_total("open", self._known_totals()["open"] + int(change))

    def finished_after(self, finished: int, most: int) -> list[tuple[Any, ...]]:
        """(place, version, arm, whether it was ended, sum of rewards) of sessions that finished after others."""
        return list(
            self._ask(
                "SELECT finished, version, arm, ended, (SELECT COALESCE(SUM(reward), 0) FROM steps "
                "WHERE steps.number = sessions.number AND steps.step < sessions.paid) "
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


def _session_of(row: tuple[Any, ...]) -> SessionRow:
    number, id, version, arm, open, ended, finished, touched = row
    return SessionRow(number, id, version, arm, bool(open), bool(ended), finished is not None, touched)


def _step_of(row: tuple[Any, ...]) -> StepRow:
    step, state, action, propensity, node, belief, said, reward = row
    return StepRow(Decided(step, state, action, propensity, node, tuple(json.loads(belief))), said, reward)
