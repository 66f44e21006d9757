"""Other machines, emulated by the switches of NumPy, OpenBLAS and numba; each has a cache of machine code of its own.

    python -m benchmarks.machines.emulated COMMAND ...      runs a command on each, and fails if it fails anywhere

Switches can only take away what this machine has: an old machine never plays a new one, and no x86 machine plays ARM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

MACHINES: dict[str, dict[str, str]] = {
    "as is": {},
    "haswell": {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL", "OPENBLAS_CORETYPE": "Haswell"},
    "old": {
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
    },
    "skylakex": {"OPENBLAS_CORETYPE": "SkylakeX"},
}
"""Name -> environment variables. NumPy 2.4 names its features so; what a machine has not cannot be disabled there."""

OLDER_NAMES = {"X86_V4": "AVX512F AVX512CD AVX512_SKX", "X86_V3": "AVX2 FMA3 AVX F16C"}
"""What NumPy before 2.4 calls the same features."""


def machines() -> dict[str, dict[str, str]]:
    """The machines that this one can play."""
    flags = _flags()
    return {
        name: _named_for_numpy(switches, flags)
        for name, switches in MACHINES.items()
        if name != "skylakex" or "avx512f" in flags
    }


@contextmanager
def environment(name: str, cache: Path | None = None) -> Iterator[dict[str, str]]:
    """Environment variables of a process on an emulated machine, with an empty cache of machine code (or ``cache``)."""
    with tempfile.TemporaryDirectory() as empty:
        yield {**os.environ, **machines()[name], "NUMBA_CACHE_DIR": str(cache or empty)}


def run_everywhere(command: Sequence[str]) -> dict[str, int]:
    """Machine -> exit code of the command there; its output goes where this process's goes."""
    codes = {}
    for name in machines():
        print(f"== machine: {name}", flush=True)
        with environment(name) as variables:
            codes[name] = subprocess.run(command, env=variables, check=False).returncode
    return codes


def _flags() -> set[str]:
    """Features of this processor, as Linux names them; none where that is not Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return set(next((line for line in lines if line.startswith("flags")), "").partition(":")[2].split())


def _named_for_numpy(switches: Mapping[str, str], flags: set[str]) -> dict[str, str]:
    """The same switches in the words of the NumPy that is installed; features that are not here are left out."""
    import numpy as np

    if "NPY_DISABLE_CPU_FEATURES" not in switches:
        return dict(switches)
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    expected = switches["NPY_DISABLE_CPU_FEATURES"].split()
    if tuple(int(piece) for piece in np.__version__.split(".")[:2]) < (2, 4):
        expected = [older for name in expected for older in OLDER_NAMES.get(name, name).split()]
    available = [name for name in expected if name in __cpu_dispatch__ and __cpu_features__.get(name)]
    return {**switches, "NPY_DISABLE_CPU_FEATURES": " ".join(available)}


if __name__ == "__main__":
    result = run_everywhere(sys.argv[1:])
    print(
        "machines: "
        + ", ".join(f"{name} {'passed' if code == 0 else f'FAILED ({code})'}" for name, code in result.items())
    )
    sys.exit(any(result.values()))
