"""Do stored files depend on the machine? The same work on emulated machines, byte for byte; and a run that moves.

python -m benchmarks.machines.run [--quick]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machines.emulated import environment, machines
from benchmarks.machines.settings import KILLED
from benchmarks.record import record, table

FILES = ("model.safetensors", "policy.safetensors", "moments.safetensors", "result.json")


def run_everywhere(top: Path, quick: bool) -> dict[str, Path]:
    """Machine -> folder with what it stored."""
    folders = {}
    for name in machines():
        folders[name] = top / name
        command = [sys.executable, "-m", "benchmarks.machines.work", str(folders[name]), *["--quick"] * quick]
        folders[name].mkdir()
        with environment(name, top / f"{name} cache") as variables:
            subprocess.run(command, env=variables, check=True)
    return folders


def compared(folders: dict[str, Path]) -> list[dict[str, Any]]:
    """For each machine and kind of work: files, and how many differ from those of the machine as it is."""
    first = folders["as is"]
    kinds = sorted({path.relative_to(first).parts[0] for path in first.rglob("*") if path.is_file()})
    rows = []
    for name, folder in folders.items():
        for kind in kinds:
            files = sorted(path for path in (first / kind).rglob("*") if path.is_file())
            others = [folder / path.relative_to(first) for path in files]
            differ = [
                str(path.relative_to(first))
                for path, other in zip(files, others, strict=True)
                if not other.is_file() or other.read_bytes() != path.read_bytes()
            ]
            rows.append(
                {"machine": name, "work": kind, "files": len(files), "differ": len(differ), "which": differ[:5]}
            )
    return rows


def stored_by(folder: Path) -> dict[str, Any]:
    """What a run wrote, without the command that was typed."""
    labels: dict[str, Any] = {name: (folder / name).read_bytes() for name in FILES}
    result = json.loads(labels["result.json"])
    for typed in ("command", "settings", "metadata"):
        result.pop(typed, None)
    return {**labels, "result.json": result}


def moved(top: Path) -> list[dict[str, Any]]:
    """A run killed on each machine and resumed on the next, against whole runs on both."""
    names = list(machines())
    whole_runs = {name: _whole(top, name) for name in names}
    rows = []
    for name, next_name in zip(names, names[1:] + names[:1], strict=True):
        folder = top / f"killed {name}"
        has_checkpoint = _killed(top, name, folder)
        _run(top, next_name, [*KILLED, "--out", str(folder), *["--resume"] * has_checkpoint])
        result = stored_by(folder)
        rows.append(
            {
                "killed": name,
                "resumed": next_name,
                "checkpoint": has_checkpoint,
                "same": result == whole_runs[name] and result == whole_runs[next_name],
            }
        )
    return rows


def _whole(top: Path, name: str) -> dict[str, Any]:
    _run(top, name, [*KILLED, "--out", str(top / f"whole {name}")])
    return stored_by(top / f"whole {name}")


def _killed(top: Path, name: str, folder: Path) -> bool:
    """Kill a run once it has a checkpoint; whether it left one."""
    checkpoint = folder / "checkpoint" / "exploration" / "exploration.safetensors"
    with environment(name, top / f"{name} cache") as variables:
        command = [sys.executable, "-m", "rewardmix", *KILLED, "--out", str(folder)]
        process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not checkpoint.is_file():
            time.sleep(0.02)
        process.kill()
        process.wait()
    return (folder / "checkpoint").is_dir()


def _run(top: Path, name: str, arguments: list[str]) -> None:
    with environment(name, top / f"{name} cache") as variables:
        subprocess.run(
            [sys.executable, "-m", "rewardmix", *arguments], env=variables, check=True, stdout=subprocess.DEVNULL
        )


def main() -> None:
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        rows = compared(run_everywhere(Path(folder), quick))
        table(
            ["machine", "work", "files", "differ"],
            [[row[k] for k in ("machine", "work", "files", "differ")] for row in rows],
        )
        for row in rows:
            for path in row["which"]:
                print(f"{row['machine']}: {path} differs")
        resumed = moved(Path(folder))
    table(["killed", "resumed", "same as both"], [[row["killed"], row["resumed"], row["same"]] for row in resumed])
    differ = sum(row["differ"] for row in rows)
    print(
        f"{differ} stored files differ; {sum(row['same'] for row in resumed)} of {len(resumed)} moved runs are the same"
    )
    if not quick:
        record("machines", "work", rows)
        record("machines", "moved", resumed)
    sys.exit(bool(differ) or not all(row["same"] for row in resumed))


if __name__ == "__main__":
    main()
