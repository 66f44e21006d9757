"""What every committed result carries: the command, the version, the machine and the day; and how time is taken."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def record(study: str, results: dict[str, Any], *, name: str = "results", program: str = "run") -> Path:
    """Write ``benchmarks/<study>/<name>.json``; ``program`` is the module of the study that was run."""
    import numba
    import numpy
    import scipy

    import rewardmix

    about = {
        "command": shlex.join(["python", "-m", f"benchmarks.{study}.{program}", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "rewardmix": rewardmix.__version__,
        "python": platform.python_version(),
        "packages": {module.__name__: module.__version__ for module in (numpy, scipy, numba)},
        "machine": _machine(),
    }
    path = HERE / study / f"{name}.json"
    path.write_text(json.dumps({**about, "results": results}, indent=2) + "\n", encoding="utf-8")
    return path


def stored(path: Path) -> dict[str, Any]:
    """A committed file with all that it says about itself."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def results_of(path: Path) -> Any:
    """What was measured."""
    content = stored(path)
    return content.get("results", content)


def found_in(names: str, root: Path) -> list[Path]:
    """Files of a list of names with commas between them; a name may be a pattern."""
    out: list[Path] = []
    for name in names.split(","):
        paths = sorted(root.glob(name.strip()))
        if not paths:
            raise FileNotFoundError(f"{name.strip()}: there is no such file of results")
        out += paths
    return out


def rows_of(study: str, part: str) -> Any:
    """Rows of a committed part of a study, or None if it was not run."""
    path = HERE / study / f"{part}.json"
    return stored(path)["results"]["rows"] if path.is_file() else None


def pyplot() -> Any:
    """Matplotlib for SVG files, the same ones for the same results."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rewardmix"
    import matplotlib.pyplot as plt

    return plt


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
    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return "; ".join(
        sorted({f"{one['internal_api']} {one['version']} {one.get('architecture', '?')}" for one in found})
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
