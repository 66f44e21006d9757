"""Who does the work on the parts of a log: this process, several processes, or a cluster. All three are asked the same.

``hold`` makes something of every piece and keeps it where the work will be done; ``ask`` computes something from every
held part, in order. Results are added up in the order of the parts, so the numbers do not depend on who did the work.

On Dask a held part is the future of a pure function of its piece. If the worker that has it dies, Dask makes it again
from the piece, elsewhere, and gets the same numbers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from rewardmix._core.checks import as_count, refuse
from rewardmix._core.limits import afford


class Shelf:
    """A temporary folder; ``clear`` removes it at once, otherwise it goes with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rewardmix-log-"))
        self.clear = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


Report = Callable[[int, int], None]
"""Called with (parts done, parts in all)."""

IN_MEMORY = 1 << 24
"""Rows that are kept in memory; the parts of a longer log wait on disk."""

PROCESS = 150 * 2**20
"""Bytes that a process takes before it has any work: the interpreter with its libraries."""


class Crew(Protocol):
    """Hands for a log."""

    def hold(
        self, function: Callable[..., Any], pieces: Sequence[Any], *common: Any, on_update: Report | None = None
    ) -> list[Any]:
        """function(piece, *common) of every piece: a ``Checked``, whose ``part`` stays where it was made."""
        ...

    def ask(self, function: Callable[..., Any], parts: Sequence[Any], *common: Any) -> Iterator[Any]:
        """function(part, *common) of every held part, in their order."""
        ...

    def as_done(self, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """(number, function(item)) of every item, whichever is ready first."""
        ...


class Here:
    """This process. Parts beyond ``IN_MEMORY`` rows go to a temporary directory."""

    def __init__(self) -> None:
        self.rows = 0
        self.shelf: Shelf | None = None

    def hold(
        self, function: Callable[..., Any], pieces: Sequence[Any], *common: Any, on_update: Report | None = None
    ) -> list[Any]:
        """One after the other."""
        return told((self._kept(function(piece, *common)) for piece in pieces), len(pieces), on_update)

    def ask(self, function: Callable[..., Any], parts: Sequence[Any], *common: Any) -> Iterator[Any]:
        """One after the other."""
        return (function(part, *common) for part in parts)

    def as_done(self, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """One after the other."""
        return ((number, function(item)) for number, item in enumerate(items))

    def _kept(self, checked: Any) -> Any:
        from rewardmix.logs.log import Compact, spill

        if not isinstance(checked.part, Compact):
            return checked
        self.rows += checked.part.rows
        if self.rows <= IN_MEMORY:
            return checked
        return replace(checked, part=spill(checked.part, self._place()))

    def _place(self) -> Path:
        if self.shelf is None:
            self.shelf = Shelf()
        return self.shelf.path / f"{self.rows}.part"


class Processes:
    """Several processes of this machine; every part waits on disk, so that any of them can take it up.

    Use it as a context manager, and from a script only under ``if __name__ == "__main__"``: processes are spawned.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = as_count("processes", (os.cpu_count() or 1) if count is None else count)
        afford("processes", memory=PROCESS * self.count, change="fewer processes")
        self.shelf = Shelf()
        self.pool = ProcessPoolExecutor(self.count, mp_context=get_context("spawn"))
        self.held = 0

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)
        self.shelf.clear()

    def hold(
        self, function: Callable[..., Any], pieces: Sequence[Any], *common: Any, on_update: Report | None = None
    ) -> list[Any]:
        """All at once."""
        paths = [str(self.shelf.path / f"{self.held + i}.part") for i in range(len(pieces))]
        self.held += len(pieces)
        results = self.pool.map(partial(_shelved, function), paths, pieces, *_repeated(common, len(pieces)))
        return told(results, len(pieces), on_update)

    def ask(self, function: Callable[..., Any], parts: Sequence[Any], *common: Any) -> Iterator[Any]:
        """All at once; the results come in order."""
        yield from self.pool.map(function, parts, *_repeated(common, len(parts)))

    def as_done(self, function: Callable[..., Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """All at once."""
        numbers = {self.pool.submit(function, item): number for number, item in enumerate(items)}
        for future in as_completed(numbers):
            yield numbers[future], future.result()


def as_crew(crew: Any) -> Crew:
    """Hands for a log; those of this process if nothing is given."""
    hands: Crew = Here() if crew is None else crew
    if not all(callable(getattr(hands, method, None)) for method in ("hold", "ask", "as_done")):
        refuse("crew", type(crew).__name__, "Here(), Processes(n) or Cluster(client)")
    return hands


def _shelved(function: Callable[..., Any], path: str, piece: Any, *common: Any) -> Any:
    from rewardmix.logs.log import spill

    checked = function(piece, *common)
    return replace(checked, part=spill(checked.part, Path(path)))


def _repeated(common: Sequence[Any], times: int) -> list[list[Any]]:
    return [[value] * times for value in common]


def told(results: Iterable[Any], total: int, on_update: Report | None) -> list[Any]:
    """The results as a list, with a word after each."""
    out = []
    for result in results:
        out.append(result)
        if on_update:
            on_update(len(out), total)
    return out


def added(results: Iterable[Any], total: int = 0, on_update: Report | None = None) -> Any:
    """The sum of the results in their order."""
    summed: Any = None
    for done, result in enumerate(results, 1):
        summed = result if summed is None else summed + result
        if on_update:
            on_update(done, total)
    return summed


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
