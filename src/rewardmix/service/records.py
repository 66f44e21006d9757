"""What a service remembers, in tables: versions of the policy, sessions and their steps."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rewardmix.service.deciding import Decided

SCHEMA_OF_STORE = """
CREATE TABLE versions (
    version INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, plan BLOB NOT NULL, world TEXT NOT NULL,
    added REAL NOT NULL);
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, retry_key TEXT UNIQUE,
    version INTEGER NOT NULL REFERENCES versions, arm TEXT NOT NULL, touched REAL NOT NULL,
    open INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0);
CREATE INDEX waiting ON sessions (touched) WHERE open = 1;
CREATE TABLE steps (
    number INTEGER NOT NULL REFERENCES sessions, step INTEGER NOT NULL, state INTEGER, said TEXT,
    action INTEGER NOT NULL, propensity REAL NOT NULL, node INTEGER, belief TEXT NOT NULL, decided REAL NOT NULL,
    reward REAL, PRIMARY KEY (number, step)) WITHOUT ROWID;
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO totals VALUES ('open', 0);
"""


_STEP = "step, state, action, propensity, node, belief, said, reward"
"""Columns of a step, as ``_step_of`` takes them."""


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
    """

    number: int
    id: str
    version: int
    arm: str
    open: bool
    ended: bool


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
    """What a job may ask and change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._ask = connection.execute

    def version_of(self, digest: str, plan: bytes, world: str, now: float) -> int:
        """The number of a policy, stored if it is new."""
        found = self._ask("SELECT version FROM versions WHERE digest = ?", (digest,)).fetchone()
        if found is None:
            row = (digest, plan, world, now)
            added = self._ask("INSERT INTO versions (digest, plan, world, added) VALUES (?, ?, ?, ?)", row)
            return int(added.lastrowid or 0)
        return int(found[0])

    def worlds(self) -> list[str]:
        """What the versions say of their states, actions and reward values, each once."""
        return [str(row[0]) for row in self._ask("SELECT DISTINCT world FROM versions")]

    def plan_of(self, version: int) -> bytes:
        """The stored plan of a version."""
        return bytes(self._ask("SELECT plan FROM versions WHERE version = ?", (version,)).fetchone()[0])

    def session(self, id: str) -> SessionRow | None:
        """A session by its id."""
        return self._session("id", id)

    def session_of_key(self, key: str) -> SessionRow | None:
        """A session by the key that it was begun with."""
        return self._session("retry_key", key)

    def _session(self, column: str, value: str) -> SessionRow | None:
        columns = "number, id, version, arm, open, ended"
        row = self._ask(f"SELECT {columns} FROM sessions WHERE {column} = ?", (value,)).fetchone()
        return None if row is None else SessionRow(row[0], row[1], row[2], row[3], bool(row[4]), bool(row[5]))

    def add_session(self, id: str, key: str | None, version: int, arm: str, now: float) -> SessionRow:
        """A new session."""
        row = (id, key, version, arm, now)
        added = self._ask(
            "INSERT INTO sessions (id, retry_key, version, arm, touched, open) VALUES (?, ?, ?, ?, ?, 1)", row
        )
        self._count_open(1)
        return SessionRow(int(added.lastrowid or 0), id, version, arm, True, False)

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
        self._ask("UPDATE sessions SET touched = ?, open = 1 WHERE number = ?", (now, session.number))
        self._count_open(not session.open)

    def pay(self, number: int, step: int, reward: float) -> None:
        """The reward of a step that had none."""
        self._ask("UPDATE steps SET reward = ? WHERE number = ? AND step = ?", (reward, number, step))

    def end(self, session: SessionRow, now: float) -> None:
        """Nothing follows in this session."""
        self._ask("UPDATE sessions SET touched = ?, open = 0, ended = 1 WHERE number = ?", (now, session.number))
        self._count_open(-session.open)

    def delete(self, session: SessionRow) -> None:
        """Remove a session and all of its steps."""
        self._ask("DELETE FROM steps WHERE number = ?", (session.number,))
        self._ask("DELETE FROM sessions WHERE number = ?", (session.number,))
        self._count_open(-session.open)

    def count_open(self) -> int:
        """How many sessions are open."""
        return int(self._ask("SELECT value FROM totals WHERE name = 'open'").fetchone()[0])

    def count_sessions(self) -> int:
        """How many sessions are stored."""
        return int(self._ask("SELECT COUNT(*) FROM sessions").fetchone()[0])

    def close_idle(self, before: float, most: int) -> int:
        """Count sessions that were last heard of before some time as open no more; how many they were."""
        closed = self._ask(
            "UPDATE sessions SET open = 0 WHERE number IN "
            "(SELECT number FROM sessions WHERE open = 1 AND touched < ? ORDER BY touched LIMIT ?)",
            (before, most),
        ).rowcount
        self._count_open(-closed)
        return closed

    def _count_open(self, change: int) -> None:
        if change:
            self._ask("UPDATE totals SET value = value + ? WHERE name = 'open'", (int(change),))

    def paid_rows(self) -> Iterator[tuple[Any, ...]]:
        """(id, step, state, action, reward, propensity, version, arm, next state) of each step with a reward."""
        return iter(
            self._ask(
                "SELECT sessions.id, steps.step, steps.state, steps.action, steps.reward, steps.propensity, version, "
                "arm, after.state FROM sessions JOIN steps USING (number) LEFT JOIN steps AS after "
                "ON after.number = steps.number AND after.step = steps.step + 1 "
                "WHERE steps.reward IS NOT NULL ORDER BY steps.number, steps.step"
            )
        )


def _step_of(row: tuple[Any, ...]) -> StepRow:
    step, state, action, propensity, node, belief, said, reward = row
    return StepRow(Decided(step, state, action, propensity, node, tuple(json.loads(belief))), said, reward)
