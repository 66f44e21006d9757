"""kill -9 in the middle of ``rewardmix learn`` at random moments, then --resume: the same result every time?

python -m benchmarks.resume.run [--quick]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.record import record, table

COMMAND = [sys.executable, "-m", "rewardmix", "learn", "shop", "--num-episodes", "400000", "--seed", "3"]


def result(folder: Path) -> dict[str, object]:
    """What a run wrote, without the command that was typed."""
    content = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    del content["command"]
    content["files"] = {
        name: (folder / name).read_bytes().hex() for name in ("model.safetensors", "policy.safetensors")
    }
    return content


def main() -> None:
    kills = 3 if "--quick" in sys.argv else 10
    rng = np.random.default_rng(0)
    rows = []
    with tempfile.TemporaryDirectory() as top:
        whole = Path(top) / "whole"
        began = time.monotonic()
        subprocess.run([*COMMAND, "--out", str(whole)], check=True, capture_output=True)
        duration = time.monotonic() - began
        expected = result(whole)
        for number in range(kills):
            folder = Path(top) / str(number)
            moment = float(rng.uniform(0.05, 1.0)) * duration
            process = subprocess.Popen(
                [*COMMAND, "--out", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(moment)
            process.kill()
            process.wait()
            has_checkpoint = (folder / "checkpoint" / "exploration" / "exploration.safetensors").is_file()
            stopped = (folder / "checkpoint").is_dir()
            subprocess.run([*COMMAND, "--out", str(folder), *["--resume"] * stopped], check=True, capture_output=True)
            rows.append([f"{moment:.2f} s of {duration:.2f} s", has_checkpoint, result(folder) == expected])
    table(["killed after", "a checkpoint was there", "same result"], rows)
    same = sum(row[2] for row in rows)
    print(f"{same} of {kills} runs ended with the same result")
    if "--quick" not in sys.argv:
        record("resume", "kills", [dict(zip(("killed_after", "checkpoint", "same"), row, strict=True)) for row in rows])
    sys.exit(same != kills)


if __name__ == "__main__":
    main()
