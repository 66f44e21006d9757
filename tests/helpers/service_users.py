"""Visitors under load, who remember what was acknowledged, and what a store must say of them."""

import http.client
import threading

from helpers.service_process import Client
from rewardmix.service.databases import open_database


class SimulatedUser(threading.Thread):
    """Visits one session after the other, sends again what was not answered, and remembers what was acknowledged."""

    def __init__(self, port, name, stop):
        super().__init__(daemon=True)
        self.clients = [Client(item) for item in (port if isinstance(port, list) else [port])]
        self.label, self.stop = name, stop
        self.answered: dict[str, list[dict]] = {}
        self.paid: dict[tuple[str, int], float] = {}
        self.again, self.turned_away = 0, 0
        self.sent_so_far = 0
        self.failure = None

    def run(self):
        try:
            number = 0
            while not self.stop.is_set():
                self.visit(number)
                number += 1
        except Exception as error:
            self.failure = error
        for client in self.clients:
            client.close()

    def visit(self, number):
        answer = self.sent("/v1/sessions", {"state": number % 3, "idempotency_key": f"{self.label}.{number}"})
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
                self.stop.wait(0.05)
                continue
            if status == 503:
                assert answer["error"] == "store_unavailable", answer
                self.turned_away += 1
                self.stop.wait(0.05)
                continue
            assert status == 200, (status, answer)
            return answer


def played(users, rewards):
    """Wait until each visitor was paid so many rewards more."""
    expected = [len(user.paid) + rewards for user in users]
    while any(len(v.paid) < w and v.failure is None for v, w in zip(users, expected, strict=True)):
        users[0].stop.wait(0.02)


def turned_away(users, times):
    """Wait until each visitor was told so often more that the store is down."""
    expected = [user.turned_away + times for user in users]
    while any(v.turned_away < w and v.failure is None for v, w in zip(users, expected, strict=True)):
        users[0].stop.wait(0.02)


def finish(users):
    """Let all end their sessions."""
    users[0].stop.set()
    for user in users:
        user.join()
    assert [user.failure for user in users] == [None] * len(users)


def check_store(place, users):
    """Nothing that was acknowledged is lost, and nothing is there twice; how many rewards there are."""
    database = open_database(place, new=False)
    database.begin_snapshot()
    text = "SELECT id, step, action, propensity, reward FROM sessions JOIN steps USING (number)"
    stored = database.execute(text).fetchall()
    assert database.execute("SELECT value FROM totals WHERE name = 'open'").fetchone() == (0,)
    (ended,) = database.execute("SELECT COUNT(*) FROM sessions WHERE ended = 1").fetchone()
    numbers = [row[0] for row in database.execute("SELECT finished FROM sessions ORDER BY finished").fetchall()]
    assert numbers == list(range(1, ended + 1))
    assert database.execute("SELECT value FROM totals WHERE name = 'finished'").fetchone() == (ended,)
    database.roll_back()
    database.close()
    acknowledged = {
        (id, item["step"]): (item["action"], item["propensity"])
        for user in users
        for id, answers in user.answered.items()
        for item in answers
        if item["action"] is not None
    }
    assert {(id, step): (action, propensity) for id, step, action, propensity, _ in stored} == acknowledged
    paid = {key: reward for user in users for key, reward in user.paid.items()}
    assert {(id, step): reward for id, step, *_, reward in stored} == paid
    assert len(stored) == len(paid)
    return len(paid)
