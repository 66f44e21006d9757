"""The door to Dask: a crew whose hands are the workers of a distributed client.

A held part is the future of a pure function of its piece. If the worker that has it dies, Dask makes it again from the
piece, elsewhere, and gets the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rewardmix._core.checks import refuse
from rewardmix.logs.crew import Report, told

NEEDED = "A cluster needs Dask: pip install 'rewardmix[cluster]'"


def connected(address: str) -> Any:
    """A client of the scheduler at an address such as tcp://host:8786."""
    try:
        import distributed
    except ImportError as error:
        raise ImportError(NEEDED) from error
    try:
        client: Any = distributed.Client  # untyped
        return client(address, timeout="10s")
    except (OSError, ValueError) as error:
        refuse("scheduler", f"no answer from {address!r} ({error})", "the address of a running Dask scheduler")


class Cluster:
    """A crew on a ``distributed.Client``. Files have to be at the same paths for every worker."""

    def __init__(self, client: Any) -> None:
        for method in ("submit", "map", "gather"):
            if not hasattr(client, method):
                refuse("client", type(client).__name__, "a dask.distributed Client")
        self.client = client

    def hold(
        self, function: Callable[..., Any], pieces: Sequence[Any], *common: Any, on_update: Report | None = None
    ) -> list[Any]:
        """All at once; only what describes a part travels back, the part stays."""
        checked = self._each(function, pieces, common)
        kept = self.client.map(_part, checked, pure=False)
        summaries = self.client.map(_without_part, checked, pure=False)
        found = told((summary.result() for summary in summaries), len(pieces), on_update)
        return [replace(one, part=Held(future, len(one.part))) for one, future in zip(found, kept, strict=True)]

    def ask(self, function: Callable[..., Any], parts: Sequence[Any], *common: Any) -> Iterator[Any]:
        """All at once; the results come in order."""
        futures = [part.future if isinstance(part, Held) else part for part in parts]
        asked = self._each(function, futures, common)
        for future in asked:
            yield future.result()

    def as_done(self, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """All at once."""
        import distributed

        ready: Any = distributed.as_completed  # untyped
        futures = self._each(function, items, ())
        numbers = {future.key: number for number, future in enumerate(futures)}
        for future in ready(futures):
            yield numbers[future.key], future.result()

    def _each(self, function: Callable[..., Any], items: Sequence[Any], common: Sequence[Any]) -> list[Any]:
        # what is common travels with every task: scattered data would be lost for good with the worker that has it
        return [self.client.submit(function, item, *common, pure=False) for item in items]


class Held:
    """A part that is on some worker, and how many episodes it has."""

    def __init__(self, future: Any, episodes: int) -> None:
        self.future, self.episodes = future, episodes

    def __len__(self) -> int:
        return self.episodes


class Length:
    """Stands for a part where only its length is wanted."""

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes

    def __len__(self) -> int:
        return self.episodes


def _part(checked: Any) -> Any:
    return checked.part


def _without_part(checked: Any) -> Any:
    return replace(checked, part=Length(len(checked.part)))
