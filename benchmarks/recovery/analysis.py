"""Tables of the committed results.

python -m benchmarks.recovery.analysis
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.record import table
from benchmarks.recovery.settings import TARGETS


def show(name: str, results: dict[str, Any]) -> None:
    """Print one study as a table of ratios with its target."""
    print()
    SHOWN[name](results)


def _program(results: dict[str, Any]) -> None:
    rows = [
        [name, r["rows"], r["seconds"], r["linprog_seconds"], r["ratio"], r["objective"] - r["linprog_objective"],
         r["feasibility_seconds"]]
        for name, r in results.items()
    ]  # fmt: skip
    columns = ["linear program", "rows", "CPU s", "linprog, all rows", "ratio", "objective off", "feasibility CPU s"]
    table(columns, rows)
    print(f"targets: {TARGETS['program']} s, ratio {TARGETS['program_ratio']}, {TARGETS['feasibility']} s")


def _start(results: dict[str, Any]) -> None:
    table(["best without climbing", "value"], [[key, value] for key, value in results.items()])
    print(f"target: {TARGETS['start_only']} s in all")


def _quality(results: dict[str, Any]) -> None:
    for world, r in results.items():
        rows = [[name, value, r["regret"].get(name, float("nan"))] for name, value in r["rmse"].items()]
        table([f"{world} coverage", "RMSE", "regret"], rows)
        print(f"best / EM from the truth {r['ratio_best_to_truth']:.5f} (target {TARGETS['rmse_ratio']}), "
              f"failed starts {r['failed_starts']} of {r['seeds']}")  # fmt: skip


def _gross(results: dict[str, Any]) -> None:
    shares = list(next(iter(results.values()))["ratio"])
    table(["share of gross pairs", *shares], [[world, *r["ratio"].values()] for world, r in results.items()])
    print(f"RMSE against clean pairs; target {TARGETS['gross_ratio']}")


def _weights(results: dict[str, Any]) -> None:
    table(["true weight", "mean error", "worst error", "objective short of EM from the truth by"],
          [[w, *r.values()] for w, r in results.items()])  # fmt: skip
    print(f"target: mean error {TARGETS['weight_error']}")


def _plain(results: dict[str, Any]) -> None:
    rows = [[key, *(value.values() if isinstance(value, dict) else [value])] for key, value in results.items()]
    table(["", "value"], rows)


def _real(results: dict[str, Any]) -> None:
    if not results:
        print("StepMix is not installed: pip install rewardmix[bench]")
        return
    rows = [
        [name, f"{r['loglik']:.4f}", f"{r['stepmix_loglik']:.4f}", r["better_by"], r["seconds"], r["stepmix_seconds"],
         r["ratio"]]
        for name, r in results.items()
    ]  # fmt: skip
    table(["real answers", "log-likelihood", "StepMix", "better by", "CPU s", "StepMix CPU s", "times faster"], rows)


SHOWN = {
    "program": _program,
    "start": _start,
    "quality": _quality,
    "gross": _gross,
    "weights": _weights,
    "sweep": _plain,
    "intervals": _plain,
    "real": _real,
}


if __name__ == "__main__":
    stored = json.loads((Path(__file__).parent / "results.json").read_text(encoding="utf-8"))
    for study, found in stored["results"].items():
        show(study, found)
