"""Visitors under load, who remember what was acknowledged, and what a store must say of them."""

import http.client
import threading

from rewardmix.service.databases import open_database
from service.running_service import Client


class Visitor(threading.Thread):
    """Visits one session after the other, sends again what was not answered, and remembers what was acknowledged."""

    def __init__(self, port, name, stop):
        super().__init__(daemon=True)
        self.clients = [Client(one) for one in (port if isinstance(port, list) else [port])]
        self.label, self.stopped = name, stop
        self.answered: dict[str, list[dict]] = {}
        self.paid: dict[tuple[str, int], float] = {}
        self.again, self.turned_away = 0, 0
        self.sent_so_far = 0
        self.failure = None

    def run(self):
        try:
            number = 0
            while not self.stopped.is_set():
                self.visit(number)
                number += 1
        except Exception as error:
            self.failure = error
        for client in self.clients:
            client.close()

    def visit(self, number):
        answer = self.sent("/v1/sessions", {"state": number % 3, "key": f"{self.label}.{number}"})
        id = answer["session"]
        self.answered[id] = [answer]
        for step in range(6):  # two beyond the horizon
            reward = float((number + step) % 2)
            state = None if step == 5 else (number + step) % 3
            answer = self.sent(f"/v1/sessions/{id}/steps", {"step": step, "reward": reward, "state": state})
            self.paid[id, step] = reward
            self.answered[id].append(answer)

    def sent(self, path, body):
        """The answer to a request, sent again (to the next server, if there are several) until there is one."""
        while True:
            self.sent_so_far += 1
            try:
                status, answer = self.clients[self.sent_so_far % len(self.clients)].ask("POST", path, body)
            except (OSError, http.client.HTTPException):
                self.again += 1
                self.stopped.wait(0.05)
                continue
            if status == 503:
                assert answer["error"] == "store_down", answer
                self.turned_away += 1
                self.stopped.wait(0.05)
                continue
            assert status == 200, (status, answer)
            return answer


def played(visitors, rewards):
    """Wait until each visitor was paid so many rewards more."""
    wanted = [len(visitor.paid) + rewards for visitor in visitors]
    while any(len(v.paid) < w and v.failure is None for v, w in zip(visitors, wanted, strict=True)):
        visitors[0].stopped.wait(0.02)


def turned_away(visitors, times):
    """Wait until each visitor was told so often more that the store is down."""
    wanted = [visitor.turned_away + times for visitor in visitors]
    while any(v.turned_away < w and v.failure is None for v, w in zip(visitors, wanted, strict=True)):
        visitors[0].stopped.wait(0.02)


def finish(visitors):
    """Let all end their sessions."""
    visitors[0].stopped.set()
    for visitor in visitors:
        visitor.join()
    assert [visitor.failure for visitor in visitors] == [None] * len(visitors)


def check_store(place, visitors):
    """Nothing that was acknowledged is lost, and nothing is there twice; how many rewards there are."""
    database = open_database(place, new=False)
    database.look()
    text = "SELECT id, step, action, propensity, reward FROM sessions JOIN steps USING (number)"
    stored = database.ask(text).fetchall()
    assert database.ask("SELECT value FROM totals WHERE name = 'open'").fetchone() == (0,)
    (ended,) = database.ask("SELECT COUNT(*) FROM sessions WHERE ended = 1").fetchone()
    numbers = [row[0] for row in database.ask("SELECT finished FROM sessions ORDER BY finished").fetchall()]
    assert numbers == list(range(1, ended + 1))
    assert database.ask("SELECT value FROM totals WHERE name = 'finished'").fetchone() == (ended,)
    database.roll_back()
    database.close()
    acknowledged = {
        (id, one["step"]): (one["action"], one["propensity"])
        for visitor in visitors
        for id, answers in visitor.answered.items()
        for one in answers
        if one["action"] is not None
    }
    assert {(id, step): (action, propensity) for id, step, action, propensity, _ in stored} == acknowledged
    paid = {key: reward for visitor in visitors for key, reward in visitor.paid.items()}
    assert {(id, step): reward for id, step, *_, reward in stored} == paid
    assert len(stored) == len(paid)
    return len(paid)
