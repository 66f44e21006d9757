"""Fuzz the command line: each command succeeds, or fails with one line and leaves no files.

    python tests/fuzz/commands.py --tries 2000 [--seed 0]

Every try is a function of its seed and number. Commands run in a worker that keeps its interpreter (a fresh one for
each would take most of the time), in a folder of their own, on small problems and on good and bad files of a workshop
that must stay as it is. The limits on memory and operations are set low, so that what is let through is quick, and the
worker is given several times that memory: estimates that are far too low end as "memory" or "hung".
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUTS = 120.0
"""Seconds after which a command hangs; accepted commands take a few."""

LIMITS = {"REWARDMIX_MEMORY": "0.5", "REWARDMIX_OPERATIONS": "3e9"}
ADDRESS_SPACE = 6 << 30
"""Bytes of address space of a worker."""

GOOD_ENDS = ("ok", "refused")

# ---------------------------------------------------------------------------------------------------------------------
# Values of arguments and options

HUGE = "9" * 30
WHOLE = ["-1", "0", "1.5", "x", "", "nan", "1e3", HUGE, "²", "٣", "1" * 5000, "2147483648", "9223372036854775807", " 5"]
WHOLE += ["-9223372036854775809", "true", "0x10", "1_0"]
REAL = ["nan", "inf", "-inf", "-1", "0", "1e-300", "1e300", "1e400", "x", "", "1,5", "9" * 400, "-0.0", "1"]
WORDS = ["", "x", "Best", "practical ", "\udcff", "é", "none", "0", "--", "a" * 3000]
WEIGHTS = ["", ",", "1", "0.5,0.6", "nan,1", "0,1", "-1,2", "uniform,", "x", "0.3,0.3,0.4", "1e400,1", "inf,1"]
LITERALS = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "1.5",
    "nan",
    "None",
    "True",
    "'x'",
    "()",
    "(1,)",
    "[1,2]",
    "{}",
    "1e400",
    "10**3",
]
LITERALS += ["1000000", "100000000", "1000000000000", HUGE, "(0.3,0.7)", "(nan,1)", "(0,1,2)", "((((", "1" * 5000, "x"]
LITERALS += ["(" * 300 + ")" * 300, "'\\ud800'", "b'x'", "1j", "[[1],[2,3]]", "(0,0.5,1)", "(1,1)", "0.25", "-0.0"]

COLUMNS = ["state", "state=nothing", "nothing=state", "state=action", "=", "state=none"]

PROBLEMS = ["shop:horizon=3", "hard", "probe:horizon=3", "lock:steps=2,actions=2", "riverswim:states=3,horizon=3"]
PROBLEMS += ["grid:size=2,horizon=3", "branches:rooms=1,doors=2", "random:states=2,actions=2,horizon=3"]
PROBLEMS += ["parity:actions=3,dials=0"]
PROBLEMS += [
    "random:states=2,actions=2,horizon=3,num_types=3",
    "random:states=2,actions=2,horizon=2,reward_values=(0,1,3)",
]
OPTIONS = {
    "hard": ["actions", "epsilon", "seed"],
    "random": [
        "states",
        "actions",
        "horizon",
        "seed",
        "num_types",
        "weights",
        "separation",
        "next_states",
        "reward_values",
    ],
    "lock": ["steps", "actions", "slip", "seed"],
    "riverswim": ["states", "horizon"],
    "grid": ["size", "horizon", "slip"],
    "shop": ["horizon", "weights", "follow"],
    "branches": ["rooms", "doors"],
    "probe": ["horizon"],
    "parity": ["actions", "dials", "strength", "risk", "seed"],
}
BAD_PROBLEMS = [
    "",
    ":",
    "shp",
    "random:",
    "random:states",
    "random:=3",
    "hard:actions=2,actions=3",
    "random:1=2",
    "\udcff",
]
BAD_PROBLEMS += [
    "a" * 5000,
    "shop:horizon=3,",
    "random:states=2,transition=1",
    "../x",
    "/",
    ".",
    "shop\n",
    "shop:horizon= 3",
]
GYM = ["FrozenLake-v1", "rewardmix/Shop-v0", "rewardmix/Random-v0"]
BAD_GYM = ["CartPole-v1", "Nothing-v0", "rewardmix/Nothing-v0", "a/b/c", "os:x", "Taxi-v99", "nowhere.module:Env-v0"]

GOOD_FILES = {
    "MODEL": ["model.safetensors", "three.safetensors"],
    "POLICY": ["plan.safetensors", "uniform.safetensors", "controller.safetensors"],
    "DATA": ["episodes.safetensors", "moments.safetensors"],
    "LOG": ["log.parquet", "log.csv", "logs"],
    "RUN": ["run"],
    "CONFIG": ["good.toml"],
}
BAD_FILES = [
    "empty",
    "binary",
    "text",
    "folder",
    "cut.safetensors",
    "cut.parquet",
    "header.csv",
    "binary.csv",
    "nowhere",
]
BAD_FILES += [
    "model.safetensors/x",
    "list.json",
    "deep",
    "edited",
    "bad.toml",
    "odd.toml",
    "nul\udcff",
    "half.csv",
    "gone",
]
BAD_FILES += ["wide.csv", "words.csv", "bent.safetensors"]

OUT_FILES = ["new.safetensors", "new.parquet", "new.csv", "new.json", "file"]
OUT_FOLDERS = ["new", "new/deep", "folder", "."]
BAD_OUTS = [
    "/proc/x",
    "/proc/1/x",
    "nowhere/x/y",
    "folder",
    "file/x",
    "",
    "..",
    "/",
    "a" * 300,
    "\udcff/x",
    "pipe",
    "loop",
]
BAD_OUTS += ["folder/", "closed/x"]

Values = tuple[list[str], list[str]]
NUM_EPISODES: Values = (["2", "20", "300"], WHOLE)
SEED: Values = (["0", "7", HUGE], [value for value in WHOLE if value not in (HUGE, "0")])
NUM_TYPES: Values = (["2", "3"], [*WHOLE, "auto "])
FAILURE_PROB: Values = (["0.05", "0.5"], REAL)
NUM_PROCESSES: Values = (["1"], [value for value in WHOLE if value != "1"])
FILE: Values = (OUT_FILES, BAD_OUTS)
FOLDER: Values = (OUT_FOLDERS, [out for out in BAD_OUTS if out not in ("folder", "..", "folder/")])

COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "describe": (["MODEL"], {"--num-episodes": NUM_EPISODES, "--seed": SEED}),
    "plan": (["MODEL"], {"--gap": (["0.1", "0.01"], REAL), "--max-seconds": (["5"], REAL), "--out": FILE}),
    "explore": (
        ["MODEL"],
        {
            "--num-episodes": NUM_EPISODES,
            "--uncertainty-threshold": (["0.9"], REAL),
            "--out": FILE,
            "--save-episodes": FILE,
            "--bonus": (["practical", "theory", "paper"], WORDS),
            "--counting": (["all_pairs", "selected_pairs"], WORDS),
            "--strategy": (["optimistic", "uniform", "state_action"], WORDS),
            "--replan-growth": (["1", "1.1", "2"], REAL),
            "--failure-prob": FAILURE_PROB,
            "--seed": SEED,
            "--checkpoint-dir": FOLDER,
            "--moment-order": (["2", "3"], WHOLE),
        },
    ),
    "theory": (
        [],
        {
            "--num-states": (["3", "1"], WHOLE),
            "--num-actions": (["2"], WHOLE),
            "--horizon": (["4"], WHOLE),
            "--epsilon": (["0.1", "2"], REAL),
            "--min-separation": (["0.2", "0"], REAL),
            "--failure-prob": FAILURE_PROB,
        },
    ),
    "recover": (
        ["DATA"],
        {
            "--num-types": (["2", "auto"], WHOLE),
            "--weights": (["uniform", "0.3,0.7"], WEIGHTS),
            "--method": (["maximum_likelihood", "algorithm_3", "spectral"], WORDS),
            "--pseudocount": (["1", "0"], REAL),
            "--failure-prob": FAILURE_PROB,
            "--epsilon": (["0.1"], REAL),
            "--num-std": (["3"], REAL),
            "--seed": SEED,
            "--max-rows": (["0", "5"], WHOLE),
            "--out": FILE,
        },
    ),
    "export": (
        ["EXPORTED"],
        {
            "--format": (["pomdp", "pomdpx", "json"], WORDS),
            "--out": FILE,
            "--discount": (["0.9"], REAL),
            "--model": (["shop:horizon=3", "@model.safetensors"], BAD_PROBLEMS),
            "--player": FILE,
        },
    ),
    "report": (["RUN"], {"--out": FILE}),
    "evaluate": (
        ["POLICY", "ENV"],
        {
            "--num-episodes": NUM_EPISODES,
            "--failure-prob": FAILURE_PROB,
            "--seed": SEED,
            "--import": (["json", "math,json"], ["../x", "nowhere", ".", "json,", "a b", "\udcff", "1"]),
        },
    ),
    "simulate": (
        ["MODEL"],
        {
            "--out": FILE,
            "--policy": (["uniform", "@plan.safetensors"], ["", "x", "@binary", "@model.safetensors"]),
            "--num-episodes": NUM_EPISODES,
            "--seed": SEED,
        },
    ),
    "fit": (
        ["LOG"],
        {
            "--num-types": (["2"], [*WHOLE, "auto "]),
            "--horizon": (["3", "5"], WHOLE),
            "--weights": (["0.3,0.7"], WEIGHTS),
            "--columns": (["", "state=state"], COLUMNS),
            "--reward-values": (
                ["0,1"],
                ["", "x", "nan", "1", "0,0", "1e400,0", "0,1," + ",".join(map(str, range(2, 300)))],
            ),
            "--drop-invalid": None,
            "--seed": SEED,
            "--num-resamples": (["0", "2"], WHOLE),
            "--num-processes": NUM_PROCESSES,
            "--out": FOLDER,
        },
    ),
    "learn": (
        ["ENV"],
        {
            "--num-episodes": (["100"], WHOLE),
            "--target-regret": (["0.1"], REAL),
            "--failure-prob": FAILURE_PROB,
            "--num-types": NUM_TYPES,
            "--weights": (["uniform", "0.3,0.7"], WEIGHTS),
            "--seed": SEED,
            "--bonus": (["practical", "theory", "paper"], WORDS),
            "--method": (["maximum_likelihood", "algorithm_3"], WORDS),
            "--refinement-fraction": (["0", "0.5"], REAL),
            "--num-validation-episodes": (["0", "5"], WHOLE),
            "--horizon": (["3"], WHOLE),
            "--moment-order": (["2", "3"], WHOLE),
            "--import": (["json"], ["../x", "nowhere", "\udcff"]),
            "--config": (["@good.toml"], ["@bad.toml", "@odd.toml", "@folder"]),
            "--out": FOLDER,
            "--resume": None,
        },
    ),
    "learn-online": (
        ["ENV"],
        {
            "--num-episodes": (["1", "20", "60"], WHOLE),
            "--num-types": (["2", "3", "auto"], WHOLE),
            "--window": (["64", "1000"], WHOLE),
            "--weights": (["0.5,0.5"], WORDS),
            "--seed": (["0", "7"], WHOLE),
            "--horizon": (["3"], WHOLE),
            "--import": (["json"], ["../x", "nowhere"]),
            "--out": FOLDER,
            "--resume": None,
        },
    ),
    "serve": (
        ["POLICY"],
        {
            "--store": (
                ["new.sqlite"],
                [*BAD_OUTS, "@log.parquet", "@text", "postgresql://127.0.0.1:1/x", "postgresql://["],
            ),
            "--port": (["0"], WHOLE),
            "--host": (["127.0.0.1", "localhost", "::1"], [*WORDS, "0.0.0.0", "256.1.1.1"]),
            "--token-file": (["@good.toml"], ["@text", "@binary", "@folder", "@nowhere", ""]),
            "--explore-prob": (["0", "0.5"], REAL),
            "--holdout-share": (["0", "1"], REAL),
            "--default-action": (["0", "1"], WORDS),
            "--max-open-sessions": (["5"], WHOLE),
            "--retention-days": (["30", "0.5"], REAL),
            "--rate-limit": (["10"], REAL),
            "--refit": None,
            "--refit-every": (["10"], WHOLE),
        },
    ),
    "envs": ([], {}),
}
FREQUENCIES = {"learn": 2, "envs": 1}
"""Relative frequency of these commands; the others have 3."""
NEEDED = {
    "explore": ["--num-episodes"],
    "simulate": ["--out"],
    "export": ["--format"],
    "learn": ["--num-episodes", "--out"],
}
NEEDED |= {"learn-online": ["--num-episodes", "--out"]}
NEEDED |= {"theory": ["--num-states", "--num-actions", "--horizon"], "fit": ["--out", "--num-resamples"]}
NEEDED |= {"describe": ["--num-episodes"], "evaluate": ["--num-episodes"]}


def command_line(seed: int, number: int, workshop: Path) -> list[str]:
    """Return the command line of one try."""
    rng = random.Random(f"{seed}/{number}")
    names = [name for name in COMMANDS for _ in range(FREQUENCIES.get(name, 3))]
    name = rng.choice(names)
    wrong = rng.choice([0.0, 0.1, 0.1, 0.3, 0.6])
    kinds, options = COMMANDS[name]
    line = [name, *(_argument(kind, rng, wrong, workshop) for kind in kinds if rng.random() > wrong / 10)]
    for option, values in options.items():
        needed = option in NEEDED.get(name, ()) and rng.random() > wrong / 10
        if not needed and rng.random() > 0.3:
            continue
        if values is None:
            line.append(option)
            continue
        value = rng.choice(values[rng.random() < wrong])
        line.append(f"{option}={workshop / value[1:] if value.startswith('@') else value}")
    if rng.random() < 0.02:
        line.insert(rng.randrange(1, len(line) + 1), rng.choice(["--help", "--nothing", "-x", "--", "extra", "--seed"]))
    return line


def _argument(kind: str, rng: random.Random, wrong: float, workshop: Path) -> str:
    """Return a model, a file or an environment, valid or not."""
    bad = rng.random() < wrong
    if kind == "EXPORTED":
        kind = rng.choice(["MODEL", "POLICY"])
    if kind == "ENV" and rng.random() < 0.2:
        return rng.choice(BAD_GYM if bad else GYM)
    if kind in ("MODEL", "ENV") and rng.random() < 0.8:
        if not bad:
            return rng.choice(PROBLEMS)
        if rng.random() < 0.3:
            return rng.choice(BAD_PROBLEMS)
        problem = rng.choice(list(OPTIONS))
        option_names = rng.sample(OPTIONS[problem], rng.randint(1, min(3, len(OPTIONS[problem]))))
        return f"{problem}:{','.join(f'{option}={rng.choice(LITERALS)}' for option in option_names)}"
    kind = "MODEL" if kind == "ENV" else kind
    others = [name for other, names in GOOD_FILES.items() if other != kind for name in names]
    return str(workshop / (rng.choice([*BAD_FILES, *others]) if bad else rng.choice(GOOD_FILES[kind])))


# ---------------------------------------------------------------------------------------------------------------------
# The workshop


def make_workshop(workshop: Path) -> None:
    """Write valid and invalid files into a folder."""
    import numpy as np

    from rewardmix import logs, problems, save, simulate, uniform_policy
    from rewardmix.moments import Moments
    from rewardmix.planning import plan

    model, three = (
        problems.make_model("shop", horizon=3),
        problems.make_model("random", states=2, actions=2, horizon=3, num_types=3),
    )
    result = plan(model, gap=0.1)
    episodes = simulate(uniform_policy(model), model, 200, 1)
    objects = {
        "model": model,
        "three": three,
        "plan": result,
        "uniform": uniform_policy(model),
        "controller": result.policy,
    }
    for name, value in {**objects, "episodes": episodes, "moments": Moments.from_episodes(episodes)}.items():
        save(workshop / f"{name}.safetensors", value)
    (workshop / "logs").mkdir()
    for name in ("log.parquet", "log.csv", "logs/one.parquet", "logs/two.parquet"):
        logs.write_log(workshop / name, [episodes], state_names=model.state_names, action_names=model.action_names)
    noise = np.random.default_rng(0).bytes(500)
    for name, content in {"empty": b"", "binary": noise, "binary.csv": noise, "text": b"hello\n"}.items():
        (workshop / name).write_bytes(content)
    (workshop / "folder").mkdir()
    for name in ("model.safetensors", "log.parquet"):
        content = (workshop / name).read_bytes()
        (workshop / f"cut{Path(name).suffix}").write_bytes(content[: len(content) // 2])
    content = bytearray((workshop / "plan.safetensors").read_bytes())
    content[len(content) // 2] ^= 4
    (workshop / "bent.safetensors").write_bytes(content)
    _texts(workshop)
    (workshop / "gone").symlink_to(workshop / "nowhere")
    _runs(workshop)


def _texts(workshop: Path) -> None:
    rows = "episode,step,state,action,reward\n"
    texts = {
        "header.csv": rows,
        "half.csv": rows + "0,0,home,show outdoor,1\n0,1,home\n",
        "wide.csv": rows + "0,0,99999999,0,1\n0,1,5,0,0\n",
        "words.csv": rows + "0,0,a,b,c\n",
        "list.json": "[1, 2]",
        "good.toml": "target_regret = 0.2\nseed = 3\n",
        "bad.toml": "target_regret = \n",
        "odd.toml": 'num_episodes = "many"\nnothing = 1\n',
    }
    for name, text in texts.items():
        (workshop / name).write_text(text)


def _runs(workshop: Path) -> None:
    """Write a run folder, one with an edited result, and one with a result that is nested too deeply."""
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(["learn", "shop:horizon=3", "--num-episodes=100", f"--out={workshop / 'run'}"])[0]
    assert code == 0
    result = json.loads((workshop / "run" / "result.json").read_text())
    for name, text in {
        "deep": "[" * 50_000,
        "edited": json.dumps({**result, "environment": {"num_states": "x"}}),
    }.items():
        (workshop / name).mkdir()
        (workshop / name / "result.json").write_text(text)


def make_working_folder(folder: Path) -> None:
    """Fill the folder in which a command runs."""
    (folder / "folder").mkdir()
    (folder / "folder" / "inner").write_text("kept")
    (folder / "file").write_text("kept")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")


def snapshot(folder: Path) -> dict[str, Any]:
    """Return every path in a folder with its mode, size and time."""
    result = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        result[os.fsencode(path.relative_to(folder)).hex()] = (status.st_mode, status.st_size, status.st_mtime_ns)
        if path.name == "report.html":  # report writes beside what it reads
            result.popitem()
        elif path.is_dir():
            result[os.fsencode(path.relative_to(folder)).hex()] = status.st_mode
    return result


# ---------------------------------------------------------------------------------------------------------------------
# The worker


def run(line: list[str]) -> tuple[int, str, str]:
    """Run a command line in this process; return exit code, standard output and standard error."""
    from rewardmix.cli.app import main

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    code: Any = None
    saved = sys.argv, sys.stdout, sys.stderr
    sys.argv, sys.stdout, sys.stderr = ["rewardmix", *line], *streams
    try:
        main(line)
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdout, sys.stderr = saved
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return int(code), texts[0], texts[1]


def _replace_server() -> None:
    """Let a server end when it would accept requests: wrong arguments are found before."""
    with contextlib.suppress(ImportError):
        import uvicorn

        uvicorn.Server.run = lambda self, sockets=None: None  # type: ignore[method-assign]


def work(workshop: Path) -> None:
    """Run the command lines from standard input, one per line, and write how each ended."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    _replace_server()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    before = snapshot(workshop)
    for text in sys.stdin:
        line = json.loads(text)
        answer = run_in_new_folder(line)
        if snapshot(workshop) != before:
            answer["left"] = "the workshop has changed"
            before = snapshot(workshop)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def run_in_new_folder(line: list[str]) -> dict[str, Any]:
    """Run a command line in a new folder; return its exit code, output and the files that a failure left."""
    home = Path.cwd()
    began = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_working_folder(folder)
        before = snapshot(folder)
        os.chdir(folder)
        try:
            code, stdout, stderr = run(line)
        except BaseException as error:
            code, stdout, stderr = -1, "", f"Traceback: {type(error).__name__}: {error}"
        os.chdir(home)
        after = snapshot(folder)
    left = sorted(bytes.fromhex(path).decode("utf-8", "replace") for path in after if after[path] != before.get(path))
    seconds = time.process_time() - began
    return {
        "code": code,
        "stdout": stdout[-500:],
        "stderr": stderr[:300] + stderr[300:][-800:],
        "left": str(left) if left and code == 2 else "",
        "seconds": seconds,
    }


# ---------------------------------------------------------------------------------------------------------------------
# The master


class Worker:
    """Process that runs command lines; it is replaced if it crashes or hangs."""

    def __init__(self, workshop: Path) -> None:
        self.workshop = workshop
        self.process: subprocess.Popen[str] | None = None

    def run(self, line: list[str]) -> dict[str, Any]:
        """Run a command line and return how it ended."""
        if self.process is None:
            self.process = self._start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUTS)
        answer = self.process.stdout.readline() if ready else ""
        if answer:
            return dict(json.loads(answer))
        end = "hung" if not ready else "crashed"
        self.stop()
        return {"end": end, "code": None, "stderr": end, "stdout": "", "left": "", "seconds": 0.0}

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()  # waits, and closes the pipes
            self.process = None

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).resolve()), "--work", str(self.workshop)]
        environment = {**os.environ, **LIMITS, "PYTHONWARNINGS": "error::RuntimeWarning:rewardmix"}
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def end_of(answer: dict[str, Any]) -> str:
    """Return "ok", "refused" or a failure."""
    if "end" in answer:
        return str(answer["end"])
    stderr = answer["stderr"]
    if "Traceback" in stderr or answer["code"] == -1:
        return "traceback"
    if answer["code"] == 70:
        return "exit 70"
    if "out of memory" in stderr:
        return "memory"
    if answer["left"]:
        return "left behind"
    if answer["code"] in (1, 2):
        plain = stderr.startswith("rewardmix: ") and stderr.count("\n") == 1
        usage = stderr.startswith(("Usage: ", "\u256d\u2500 Error "))  # typer's own
        return "refused" if plain or usage else "more than a line"
    return "ok" if answer["code"] == 0 else f"exit {answer['code']}"


def fuzz(tries: int, seed: int, show: bool = True, first: int = 0) -> tuple[Counter[str], list[str]]:
    """Return the number of tries by outcome, and a description of each failure."""
    ends: Counter[str] = Counter()
    bad: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        workshop = Path(name)
        make_workshop(workshop)
        worker = Worker(workshop)
        try:
            for number in range(first, first + tries):
                line = command_line(seed, number, workshop)
                answer = worker.run(line)
                end = end_of(answer)
                ends[end] += 1
                if end not in GOOD_ENDS:
                    shown = " ".join(piece if len(piece) < 120 else piece[:100] + "..." for piece in line)
                    bad.append(f"{number}: {end}: {shown}\n    {answer['stderr'][-600:]} {answer['left']}")
                    if show:
                        print(_printable(bad[-1]), flush=True)
                if show and answer["seconds"] > 5:
                    print(_printable(f"{number}: {answer['seconds']:.1f} CPU s: {' '.join(line)[:300]}"), flush=True)
        finally:
            worker.stop()
    return ends, bad


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def table(tries: int, ends: Counter[str]) -> Iterator[str]:
    """Yield the outcomes as pieces of a line."""
    yield f"tried {tries}"
    outcomes = ("ok", "refused", "traceback", "exit 70", "crashed", "hung", "memory", "left behind", "more than a line")
    for end in outcomes:
        yield f"{end} {ends[end]}"
    yield from (f"{end} {count}" for end, count in ends.items() if end not in outcomes)


def main() -> None:
    """Fuzz, and exit with 1 at any failure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    if args.work is not None:
        work(args.work)
        return
    ends, bad = fuzz(args.tries, args.seed, first=args.first)
    print("command lines: " + ", ".join(table(args.tries, ends)))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
