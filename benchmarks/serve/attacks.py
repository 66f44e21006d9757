"""Attacks on a service that runs, each with its counts: what was tried, what was answered, and whether anything broke.

python -m benchmarks.serve.attacks [--quick]

Two services are started, of a policy whose names are attacks themselves. What answers are allowed is said beforehand
for each attack; anything else, and an answer that has to come and does not, is a break. At the end the log, the
metrics, the store, its export and the pages are looked through for what was injected. Quick: fewer where it is many.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.record import Rows, run, table
from benchmarks.serve import crowding, damage, intrusion
from benchmarks.serve.hostile import Target, attacked

Tries = Callable[[Target, bool], Iterable[str]]
"""Attacks a service, many times or (quick) few times; what came of each."""


@dataclass(frozen=True)
class Attack:
    """One line of the list.

    Attributes:
        name: what is done.
        tries: does it.
        allowed: what may come of it, words of ``Heard.status`` or of the attack.
        needed: of these, what has to.
    """

    name: str
    tries: Tries
    allowed: frozenset[str]
    needed: frozenset[str] = frozenset()


def _attack(name: str, tries: Tries, allowed: str, needed: str = "") -> Attack:
    return Attack(name, tries, frozenset(allowed.split(",")), frozenset(filter(None, needed.split(","))))


WITH_TOKEN = (
    _attack(
        "slow clients: no head, half a head, half a body, answers not taken; others meanwhile",
        crowding.slow,
        "closed,408,200",
        "closed,408,200",
    ),
    _attack("no token", intrusion.no_token, "401"),
    _attack("wrong tokens, in every scheme and place", intrusion.wrong_tokens, "401"),
    _attack("wrong tokens that agree so far, compared whole", intrusion.compared, "compared whole"),
    _attack("guessed session ids, random and near a real one", crowding.guessed, "404"),
    _attack("bodies, heads and addresses that are too large", damage.too_large, "400,404,413,closed", "413"),
    _attack("bodies that are not JSON, or not the JSON that is asked for", damage.malformed, "400,422"),
    _attack("every odd value in every field", damage.odd, "200,404,409,422", "422"),
    _attack("bytes that are not HTTP, or two requests in one", damage.garbled, "400,401,404,405,closed", "400"),
    *(_attack(f"injected text: {place}", tries, allowed) for place, (tries, allowed) in intrusion.FIELDS.items()),
    _attack("idempotency keys of another user", intrusion.users_keys, "409"),
    _attack("users with unusual ids, to be deleted", intrusion.users_deleted, "deleted"),
    _attack("sessions that are started and abandoned", crowding.abandoned, "200"),
    _attack("... and others are answered as before", crowding.answered, "200"),
    _attack("unknown states are returned unchanged", intrusion.told_again, "the same text"),
    _attack("pages in a browser: names that were shown", intrusion.pages, "text"),
    _attack("lines of the log", intrusion.log_lines, "one object without a name"),
    _attack("lines of the metrics", intrusion.metrics_lines, "as they should be"),
    _attack("rows of the exported log", intrusion.exported, "a name of the policy"),
    _attack("tables of the store", intrusion.tables, "whole"),
)

WITHOUT_TOKEN = (
    _attack("requests by a name that another site points here", intrusion.other_hosts, "403"),
    _attack("forms and scripts of other pages", intrusion.other_pages, "405,415"),
    _attack("sessions beyond --max-open-sessions", crowding.too_many, "200,503", "200,503"),
    _attack("silent connections beyond --most-connections; others meanwhile", crowding.silent, "200", "200"),
    _attack("requests beyond --rate-limit", crowding.too_fast, "200,429", "200,429"),
    _attack("requests beyond --rate-limit, each in the name of another client", crowding.as_others, "429,200", "429"),
)


def run_attack(attack: Attack, target: Target, quick: bool) -> dict[str, Any]:
    """The row of an attack."""
    result = Counter(attack.tries(target, quick))
    passed = bool(result) and result.keys() <= attack.allowed and attack.needed <= result.keys()
    return {"attack": attack.name, "tries": result.total(), "responses": dict(sorted(result.items())), "passed": passed}


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    """All attacks."""
    with attacked("--rate-limit", "1e6") as target:
        for attack in WITH_TOKEN:
            yield run_attack(attack, target, quick)
    few = ("--most-connections", str(crowding.MOST_CONNECTIONS))
    with attacked("--rate-limit", "100", "--max-open-sessions", "100", *few, token="") as target:
        for attack in WITHOUT_TOKEN:
            yield run_attack(attack, target, quick)


def print_attacks(part: str, result: Rows, quick: bool) -> None:
    """Print the list; leaves with 1 where something broke."""
    lines = [
        [row["attack"], row["tries"], format_counts(row["responses"]), "yes" if row["passed"] else "NO"]
        for row in result
    ]
    table(["attack", "tries", "responses", "passed"], lines)
    broken = sum(not row["passed"] for row in result)
    total = sum(row["tries"] for row in result)
    print(f"{len(result)} attacks, {total:,} tries: {'all passed' if not broken else f'{broken} FAILED'}")
    if broken:
        sys.exit(1)


def format_counts(answers: dict[str, int]) -> str:
    """What came of an attack, with counts."""
    return ", ".join(f"{name}: {count:,}" for name, count in answers.items())


if __name__ == "__main__":
    run(__doc__, "serve", {"attacks": rows}, print_attacks, program="attacks")
