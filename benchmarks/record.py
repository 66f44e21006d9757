"""Results of a study, ``benchmarks/<study>/results.jsonl``, and how time is taken.

A study has parts. The lines of a part begin with one that says how it was made (command, versions, machine, day); every
other line is a row. Running a part again replaces its lines and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS_BETWEEN_WRITES = 10.0
"""Seconds after which rows are written before a part is through."""

Rows = list[dict[str, Any]]
PrintRows = Callable[[str, Rows, bool], None]
"""Says what the rows of a part tell, quick ones or not."""


def record(study: str, part: str, rows: Rows, *, program: str = "run", folder: Path = HERE) -> None:
    """Put a part into the results of its study; ``program`` is the module of the study that was run."""
    parts = {**parts_of(study, folder), part: [about(study, program), *rows]}
    lines = [{"part": name, **line} for name, content in parts.items() for line in content]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path_of(study, folder).write_text(text, encoding="utf-8")


def run(
    doc: str | None, study: str, parts: dict[str, Callable[[bool], Iterable[dict[str, Any]]]], print_rows: PrintRows,
    folder: Path = HERE, program: str = "run",
) -> None:  # fmt: skip
    """Run the parts asked for, ``--quick`` or whole: rows are written as they come, and what they tell is printed.

    A part is a function from whether it is quick to its rows. Quick runs are not written.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", default=",".join(parts))
    args = parser.parse_args()
    for part in args.parts.split(","):
        rows: Rows = []
        written = time.monotonic()
        for row in parts[part](args.quick):
            rows.append(row)
            if time.monotonic() - written > SECONDS_BETWEEN_WRITES:
                print(f"{part}: {len(rows)} rows", file=sys.stderr, flush=True)
                args.quick or record(study, part, rows, program=program, folder=folder)
                written = time.monotonic()
        args.quick or record(study, part, rows, program=program, folder=folder)
        print_rows(part, rows, args.quick)


def path_of(study: str, folder: Path = HERE) -> Path:
    """Where the results of a study are."""
    return folder / study / "results.jsonl"


def parts_of(study: str, folder: Path = HERE) -> dict[str, Rows]:
    """Part -> its lines, the first of which says how it was made."""
    path, parts = path_of(study, folder), dict[str, Rows]()
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        content = json.loads(line)
        parts.setdefault(content.pop("part"), []).append(content)
    return parts


def rows_of(study: str, part: str, folder: Path = HERE) -> Rows:
    """Rows of a part; none if it was not run."""
    return parts_of(study, folder).get(part, [])[1:]


def about(study: str, program: str) -> dict[str, Any]:
    """How a part is made, here and now."""
    import numba
    import numpy
    import scipy

    import rewardmix

    return {
        "command": shlex.join(["python", "-m", f"benchmarks.{study}.{program}", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "rewardmix": rewardmix.__version__,
        "python": platform.python_version(),
        "packages": {module.__name__: module.__version__ for module in (numpy, scipy, numba)},
        "machine": _machine(),
    }


def cpu_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Least CPU time of a call over some repeats: the machine is shared, and noise only ever adds."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their columns."""
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print(
            "  ".join(
                text.rjust(width) if i else text.ljust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            )
        )


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _machine() -> dict[str, Any]:
    """What tells machines apart: those of one name differ in vector instructions and kernels of BLAS."""
    from numpy._core._multiarray_umath import __cpu_baseline__, __cpu_dispatch__, __cpu_features__

    simd = [*__cpu_baseline__, *(name for name in __cpu_dispatch__ if __cpu_features__[name])]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "simd": " ".join(simd),
        "blas": _blas(),
    }


def _blas() -> str:
    """Library and kernels of BLAS, by threadpoolctl (an extra of development)."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "unknown: threadpoolctl is not installed"
    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return "; ".join(
        sorted(
            {
                f"{library['internal_api']} {library['version']} {library.get('architecture', '?')}"
                for library in libraries
            }
        )
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
