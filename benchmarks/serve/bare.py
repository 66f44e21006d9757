"""A bare endpoint of the same framework: takes JSON, writes one row durably, says so.

python -m benchmarks.serve.bare STORE

It writes as well as it can: requests that wait share a transaction and one hop to another thread, and each is answered
after the commit. No log, no checks, no limits.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rewardmix.service.server import open_socket

TABLE = "CREATE TABLE IF NOT EXISTS bare (number {key}, step INTEGER, reward REAL, state TEXT)"


def writer(store: str) -> Callable[[list[Any]], None]:
    """Writes rows in one transaction: to PostgreSQL by its address, to SQLite by a path."""
    if store.startswith(("postgresql:", "postgres:")):
        import psycopg

        server = psycopg.connect(store, autocommit=True)
        server.execute(TABLE.format(key="BIGSERIAL PRIMARY KEY"))

        def to_server(rows: list[Any]) -> None:
            with server.transaction(), server.cursor() as cursor:
                cursor.executemany("INSERT INTO bare (step, reward, state) VALUES (%s, %s, %s)", rows)

        return to_server
    file = sqlite3.connect(store, isolation_level=None, check_same_thread=False)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute("PRAGMA synchronous=FULL")
    file.execute(TABLE.format(key="INTEGER PRIMARY KEY"))
    file.execute("INSERT INTO bare (state) VALUES (zeroblob(5000000))")  # the log is as long as it gets from the start
    file.execute("PRAGMA wal_checkpoint(RESTART)")

    def to_file(rows: list[Any]) -> None:
        file.execute("BEGIN IMMEDIATE")
        file.executemany("INSERT INTO bare (step, reward, state) VALUES (?, ?, ?)", rows)
        file.execute("COMMIT")

    return to_file


class Bare:
    """Rows that wait, and one thread that writes them."""

    def __init__(self, store: str) -> None:
        self.write, self.thread = writer(store), ThreadPoolExecutor(1)
        self.waiting: list[tuple[Any, asyncio.Future[None]]] = []
        self.task: asyncio.Task[None] | None = None

    async def row(self, request: Request) -> Response:
        body = json.loads(await request.body())
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(((body.get("step"), body.get("reward"), body.get("state")), future))
        if self.task is None:
            self.task = asyncio.create_task(self.flush())
        await future
        return Response(json.dumps({"written": True}), media_type="application/json")

    async def flush(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting, []
            await asyncio.get_running_loop().run_in_executor(self.thread, self.write, [row for row, _ in batch])
            for _, future in batch:
                future.set_result(None)
        self.task = None


def main() -> None:
    app = Starlette(routes=[Route("/row", Bare(sys.argv[1]).row, methods=["POST"])])
    with open_socket("127.0.0.1", 0) as listening:
        print(f"serving at http://127.0.0.1:{listening.getsockname()[1]}, rows", flush=True)
        config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
