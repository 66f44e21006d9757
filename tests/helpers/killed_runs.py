"""Kill a run of the command line after its first checkpoint."""

import subprocess
import time


def kill_once_stored(command, folder, stored="exploration/exploration.safetensors"):
    """Start a run that writes to ``folder``, and kill it as soon as its first checkpoint is stored."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (folder / "checkpoint" / stored).exists():
        assert process.poll() is None, "the run ended before anything was stored"
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert not (folder / "result.json").exists()
