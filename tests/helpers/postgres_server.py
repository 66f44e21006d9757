"""A PostgreSQL that runs for the tests: Debian's, in a folder of its own, reached by a socket in that folder only.

It does not wait for the disk (``fsync=off``): the service is killed in these tests, never the machine.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

MISSING = "NO POSTGRESQL: its tests are skipped; make postgres installs it, as root"
OWNER = "postgres"
"""Who runs it where the tests run as root, which PostgreSQL refuses to."""


def programs():
    """The folder of initdb and postgres, or None."""
    result = shutil.which("initdb")
    there = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return Path(result).parent if result else there[-1].parent if there else None


def need_postgres():
    """Skip where there is no PostgreSQL, loudly, but not in CI."""
    missing = programs() is None
    with contextlib.suppress(ImportError):
        import psycopg

        if not missing:
            return psycopg
    assert not os.environ.get("CI"), MISSING
    print(MISSING)
    return pytest.skip(MISSING)


class Postgres:
    """A cluster in a temporary folder, which can be stopped and started again."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="rewardmix-postgres-"))
        self.owner = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam(OWNER)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            self.owner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        data = str(self.folder / "data")
        command = ["initdb", "-D", data, "-U", "rewardmix", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        self._run(command)
        self.process = None
        self.start()

    def _run(self, command):
        subprocess.run([programs() / command[0], *command[1:]], check=True, capture_output=True, cwd="/", **self.owner)

    def start(self):
        """Start it, and wait until it answers."""
        data, sockets = str(self.folder / "data"), str(self.folder)
        command = [programs() / "postgres", "-D", data, "-k", sockets, "-c", "listen_addresses=", "-c", "fsync=off"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self.owner)
        while True:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            with contextlib.suppress(Exception):
                self.sql("SELECT 1")
                return
            time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        """Stop it in order; connections are cut."""
        self.process.send_signal(how)
        self.process.wait()

    def sql(self, text):
        """The rows of a statement."""
        import psycopg

        with psycopg.connect(self.address(), autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    def address(self):
        """What ``--store`` takes."""
        return f"postgresql://rewardmix@/postgres?host={self.folder}"

    def fresh(self):
        """The address of a database in which there is no store."""
        self.sql("DROP SCHEMA IF EXISTS rewardmix CASCADE")
        return self.address()

    def remove(self):
        """Stop it and remove the folder."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)


@contextlib.contextmanager
def small_disk(folder, size="8m"):
    """A file system of its own at a folder, of so many bytes; skipped, loudly, where nobody may mount one."""
    folder.mkdir()
    shutil.chown(folder, folder.owner() if os.geteuid() else OWNER)
    options = f"size={size},mode=0700,uid={folder.stat().st_uid},gid={folder.stat().st_gid}"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        folder.rmdir()
        print(NO_MOUNT)
        pytest.skip(NO_MOUNT)
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


NO_MOUNT = "NO SMALL DISK: mounting is not allowed here; a database that says that it is full stands for it"


class Disk:
    """A file system that can be filled to the last byte, and emptied again."""

    def __init__(self, folder):
        self.folder, self._filler = folder, folder / "filler"

    def fill(self):
        with open(self._filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def free(self):
        self._filler.unlink()


KINDS = ("sqlite", "postgres")
"""Stores that tests are run with."""


def place_of(kind, request):
    """A new store of a kind, for a fixture."""
    if kind == "sqlite":
        return str(request.getfixturevalue("tmp_path") / "sessions.sqlite")
    return request.getfixturevalue("postgres").fresh()
