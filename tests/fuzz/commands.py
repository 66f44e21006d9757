"""Command lines at random: each ends well, or in a refusal of one line that leaves nothing behind.

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

PATIENCE = 120.0
"""Seconds after which a command hangs; those that are let through take a few."""

LIMITS = {"REWARDMIX_MEMORY": "0.5", "REWARDMIX_OPERATIONS": "3e9"}
ROOM = 6 << 30
"""Bytes of address space of a worker."""

GOOD_ENDS = ("ok", "refused")

# ---------------------------------------------------------------------------------------------------------------------
# What people type

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
    "random:states=2,actions=2,horizon=3,contexts=3",
    "random:states=2,actions=2,horizon=2,reward_values=(0,1,3)",
]
OPTIONS = {
    "hard": ["actions", "accuracy", "seed"],
    "random": [
        "states",
        "actions",
        "horizon",
        "seed",
        "contexts",
        "weights",
        "separation",
        "successors",
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
EPISODES: Values = (["2", "20", "300"], WHOLE)
SEED: Values = (["0", "7", HUGE], [value for value in WHOLE if value not in (HUGE, "0")])
CONTEXTS: Values = (["2", "3"], [*WHOLE, "auto "])
FAILURE: Values = (["0.05", "0.5"], REAL)
PROCESSES: Values = (["1"], [value for value in WHOLE if value != "1"])
FILE: Values = (OUT_FILES, BAD_OUTS)
FOLDER: Values = (OUT_FOLDERS, [out for out in BAD_OUTS if out not in ("folder", "..", "folder/")])

COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "describe": (["MODEL"], {"--episodes": EPISODES, "--seed": SEED}),
    "plan": (["MODEL"], {"--gap": (["0.1", "0.01"], REAL), "--time-limit": (["5"], REAL), "--out": FILE}),
    "explore": (["MODEL"], {
        "--episodes": EPISODES, "--threshold": (["0.9"], REAL), "--out": FILE, "--episodes-out": FILE,
        "--confidence": (["practical", "theory", "paper"], WORDS), "--counts": (["all_pairs", "selected"], WORDS),
        "--strategy": (["optimistic", "uniformly", "first_order"], WORDS), "--growth": (["1", "1.1", "2"], REAL),
        "--failure": FAILURE, "--seed": SEED, "--checkpoint": FOLDER, "--order": (["2", "3"], WHOLE),
    }),
    "theory": ([], {
        "--states": (["3", "1"], WHOLE), "--actions": (["2"], WHOLE), "--horizon": (["4"], WHOLE),
        "--accuracy": (["0.1", "2"], REAL), "--separation": (["0.2", "0"], REAL), "--failure": FAILURE,
    }),
    "recover": (["DATA"], {
        "--contexts": (["2", "auto"], WHOLE), "--weights": (["uniform", "0.3,0.7"], WEIGHTS),
        "--method": (["best", "paper", "spectral"], WORDS), "--prior": (["1", "0"], REAL), "--failure": FAILURE,
        "--accuracy": (["0.1"], REAL), "--deviations": (["3"], REAL), "--seed": SEED, "--rows": (["0", "5"], WHOLE),
        "--out": FILE,
    }),
    "export": (["EXPORTED"], {
        "--format": (["pomdp", "pomdpx", "json"], WORDS), "--out": FILE, "--discount": (["0.9"], REAL),
        "--model": (["shop:horizon=3", "@model.safetensors"], BAD_PROBLEMS), "--player": FILE,
    }),
    "report": (["RUN"], {"--out": FILE}),
    "evaluate": (["POLICY", "WORLD"], {
        "--episodes": EPISODES, "--failure": FAILURE, "--seed": SEED,
        "--import": (["json", "math,json"], ["../x", "nowhere", ".", "json,", "a b", "\udcff", "1"]),
    }),
    "simulate": (["MODEL"], {
        "--out": FILE, "--policy": (["uniform", "@plan.safetensors"], ["", "x", "@binary", "@model.safetensors"]),
        "--episodes": EPISODES, "--seed": SEED,
    }),
    "fit": (["LOG"], {
        "--contexts": (["2"], [*WHOLE, "auto "]), "--horizon": (["3", "5"], WHOLE), "--weights": (["0.3,0.7"], WEIGHTS),
        "--columns": (["", "state=state"], COLUMNS),
        "--rewards": (["0,1"], ["", "x", "nan", "1", "0,0", "1e400,0", "0,1," + ",".join(map(str, range(2, 300)))]),
        "--skip-bad": None, "--seed": SEED, "--resamples": (["0", "2"], WHOLE), "--processes": PROCESSES,
        "--out": FOLDER,
    }),
    "learn": (["WORLD"], {
        "--episodes": (["100"], WHOLE), "--accuracy": (["0.1"], REAL), "--failure": FAILURE, "--contexts": CONTEXTS,
        "--weights": (["uniform", "0.3,0.7"], WEIGHTS), "--seed": SEED,
        "--setting": (["practical", "theory", "paper"], WORDS), "--method": (["best", "paper"], WORDS),
        "--refine": (["0", "0.5"], REAL), "--validate": (["0", "5"], WHOLE), "--horizon": (["3"], WHOLE),
        "--order": (["2", "3"], WHOLE), "--import": (["json"], ["../x", "nowhere", "\udcff"]),
        "--config": (["@good.toml"], ["@bad.toml", "@odd.toml", "@folder"]), "--out": FOLDER, "--resume": None,
    }),
    "earn": (["WORLD"], {
        "--episodes": (["1", "20", "60"], WHOLE), "--contexts": (["2", "3", "auto"], WHOLE),
        "--memory": (["64", "1000"], WHOLE),
        "--weights": (["0.5,0.5"], WORDS), "--seed": (["0", "7"], WHOLE), "--horizon": (["3"], WHOLE), 
        "--import": (["json"], ["../x", "nowhere"]), "--out": FOLDER, "--resume": None,
    }),
    "serve": (["POLICY"], {
        "--store": (["new.sqlite"], [*BAD_OUTS, "@log.parquet", "@text", "postgresql://127.0.0.1:1/x", "postgresql://["]),
        "--port": (["0"], WHOLE), "--host": (["127.0.0.1", "localhost", "::1"], [*WORDS, "0.0.0.0", "256.1.1.1"]),
        "--token-file": (["@good.toml"], ["@text", "@binary", "@folder", "@nowhere", ""]),
        "--explore": (["0", "0.5"], REAL), "--holdout": (["0", "1"], REAL), "--default-action": (["0", "1"], WORDS),
        "--most-open": (["5"], WHOLE), "--keep-days": (["30", "0.5"], REAL), "--rate": (["10"], REAL), "--learn": None,
        "--learn-every": (["10"], WHOLE),
    }),
    "envs": ([], {}),
}  # fmt: skip
OFTEN = {"learn": 2, "envs": 1}
"""Of thirty tries; other commands get their share of the rest."""
NEEDED = {"explore": ["--episodes"], "simulate": ["--out"], "export": ["--format"], "learn": ["--episodes", "--out"]}
NEEDED |= {"earn": ["--episodes", "--out"]}
NEEDED |= {"theory": ["--states", "--actions", "--horizon"], "fit": ["--out", "--resamples"]}
NEEDED |= {"describe": ["--episodes"], "evaluate": ["--episodes"]}


def command_line(seed: int, number: int, workshop: Path) -> list[str]:
    """The arguments of one try."""
    rng = random.Random(f"{seed}/{number}")
    names = [name for name in COMMANDS for _ in range(OFTEN.get(name, 3))]
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
    """A model, a file or an environment, good or bad."""
    bad = rng.random() < wrong
    if kind == "EXPORTED":
        kind = rng.choice(["MODEL", "POLICY"])
    if kind == "WORLD" and rng.random() < 0.2:
        return rng.choice(BAD_GYM if bad else GYM)
    if kind in ("MODEL", "WORLD") and rng.random() < 0.8:
        if not bad:
            return rng.choice(PROBLEMS)
        if rng.random() < 0.3:
            return rng.choice(BAD_PROBLEMS)
        problem = rng.choice(list(OPTIONS))
        some = rng.sample(OPTIONS[problem], rng.randint(1, min(3, len(OPTIONS[problem]))))
        return f"{problem}:{','.join(f'{option}={rng.choice(LITERALS)}' for option in some)}"
    kind = "MODEL" if kind == "WORLD" else kind
    others = [name for other, names in GOOD_FILES.items() if other != kind for name in names]
    return str(workshop / (rng.choice([*BAD_FILES, *others]) if bad else rng.choice(GOOD_FILES[kind])))


# ---------------------------------------------------------------------------------------------------------------------
# The workshop


def furnish(workshop: Path) -> None:
    """Put good and bad files into a folder."""
    import numpy as np

    from rewardmix import logs, problems, save, simulate, uniform
    from rewardmix.moments import Moments
    from rewardmix.planning import plan

    model, three = problems.make("shop", horizon=3), problems.make("random", states=2, actions=2, horizon=3, contexts=3)
    found = plan(model, gap=0.1)
    episodes = simulate(uniform(model), model, 200, 1)
    nouns = {"model": model, "three": three, "plan": found, "uniform": uniform(model), "controller": found.policy}
    for name, noun in {**nouns, "episodes": episodes, "moments": Moments.of(episodes)}.items():
        save(workshop / f"{name}.safetensors", noun)
    (workshop / "logs").mkdir()
    for name in ("log.parquet", "log.csv", "logs/one.parquet", "logs/two.parquet"):
        logs.write(workshop / name, [episodes], state_names=model.state_names, action_names=model.action_names)
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
        "good.toml": "accuracy = 0.2\nseed = 3\n",
        "bad.toml": "accuracy = \n",
        "odd.toml": 'episodes = "many"\nnothing = 1\n',
    }
    for name, text in texts.items():
        (workshop / name).write_text(text)


def _runs(workshop: Path) -> None:
    """The folder of a run, one whose result was edited, and one whose result is too deep."""
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(["learn", "shop:horizon=3", "--episodes=100", f"--out={workshop / 'run'}"])[0]
    assert code == 0
    result = json.loads((workshop / "run" / "result.json").read_text())
    for name, text in {"deep": "[" * 50_000, "edited": json.dumps({**result, "world": {"states": "x"}})}.items():
        (workshop / name).mkdir()
        (workshop / name / "result.json").write_text(text)


def desk(folder: Path) -> None:
    """What a command finds in the folder it runs in."""
    (folder / "folder").mkdir()
    (folder / "folder" / "inner").write_text("kept")
    (folder / "file").write_text("kept")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")


def snapshot(folder: Path) -> dict[str, Any]:
    """Every path in a folder with its size and time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[os.fsencode(path.relative_to(folder)).hex()] = (status.st_mode, status.st_size, status.st_mtime_ns)
        if path.name == "report.html":  # report writes beside what it reads
            found.popitem()
        elif path.is_dir():
            found[os.fsencode(path.relative_to(folder)).hex()] = status.st_mode
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The worker


def run(line: list[str]) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command line, in this process."""
    from rewardmix.cli.app import main

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    code: Any = None
    kept = sys.argv, sys.stdout, sys.stderr
    sys.argv, sys.stdout, sys.stderr = ["rewardmix", *line], *streams
    try:
        main(line)
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv, sys.stdout, sys.stderr = kept
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return int(code), texts[0], texts[1]


def _serve_nobody() -> None:
    """Let a server end as soon as it would answer: what comes before that is what people can type wrong."""
    with contextlib.suppress(ImportError):
        import uvicorn

        uvicorn.Server.run = lambda self, sockets=None: None  # type: ignore[method-assign]


def work(workshop: Path) -> None:
    """Run the command lines that come in, one a line, and tell how each ended."""
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    _serve_nobody()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    before = snapshot(workshop)
    for text in sys.stdin:
        line = json.loads(text)
        answer = tried(line)
        if snapshot(workshop) != before:
            answer["left"] = "the workshop has changed"
            before = snapshot(workshop)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def tried(line: list[str]) -> dict[str, Any]:
    """How a command line ended in a folder of its own: code, messages, and what a refusal left behind."""
    home = Path.cwd()
    began = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        desk(folder)
        before = snapshot(folder)
        os.chdir(folder)
        try:
            code, said, complained = run(line)
        except BaseException as error:
            code, said, complained = -1, "", f"Traceback: {type(error).__name__}: {error}"
        os.chdir(home)
        after = snapshot(folder)
    left = sorted(bytes.fromhex(path).decode("utf-8", "replace") for path in after if after[path] != before.get(path))
    seconds = time.process_time() - began
    return {
        "code": code,
        "said": said[-500:],
        "told": complained[:300] + complained[300:][-800:],
        "left": str(left) if left and code == 2 else "",
        "seconds": seconds,
    }


# ---------------------------------------------------------------------------------------------------------------------
# The master


class Worker:
    """A process that runs command lines; a new one takes the place of one that crashed or hangs."""

    def __init__(self, workshop: Path) -> None:
        self.workshop = workshop
        self.process: subprocess.Popen[str] | None = None

    def ask(self, line: list[str]) -> dict[str, Any]:
        """How a command line ended."""
        if self.process is None:
            self.process = self._start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        answer = self.process.stdout.readline() if ready else ""
        if answer:
            return dict(json.loads(answer))
        end = "hung" if not ready else "crashed"
        self.stop()
        return {"end": end, "code": None, "told": end, "said": "", "left": "", "seconds": 0.0}

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()  # waits, and closes the pipes
            self.process = None

    def _start(self) -> subprocess.Popen[str]:
        own = [sys.executable, str(Path(__file__).resolve()), "--work", str(self.workshop)]
        environment = {**os.environ, **LIMITS, "PYTHONWARNINGS": "error::RuntimeWarning:rewardmix"}
        return subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def end_of(answer: dict[str, Any]) -> str:
    """ok, refused, or what must not be."""
    if "end" in answer:
        return str(answer["end"])
    told = answer["told"]
    if "Traceback" in told or answer["code"] == -1:
        return "traceback"
    if answer["code"] == 70:
        return "exit 70"
    if "out of memory" in told:
        return "memory"
    if answer["left"]:
        return "left behind"
    if answer["code"] in (1, 2):
        plain = told.startswith("rewardmix: ") and told.count("\n") == 1
        usage = told.startswith(("Usage: ", "\u256d\u2500 Error "))  # typer's own
        return "refused" if plain or usage else "more than a line"
    return "ok" if answer["code"] == 0 else f"exit {answer['code']}"


def fuzz(tries: int, seed: int, show: bool = True, first: int = 0) -> tuple[Counter[str], list[str]]:
    """How many tries ended in which way, and the story of each that ended badly."""
    ends: Counter[str] = Counter()
    bad: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        workshop = Path(name)
        furnish(workshop)
        worker = Worker(workshop)
        try:
            for number in range(first, first + tries):
                line = command_line(seed, number, workshop)
                answer = worker.ask(line)
                end = end_of(answer)
                ends[end] += 1
                if end not in GOOD_ENDS:
                    shown = " ".join(part if len(part) < 120 else part[:100] + "..." for part in line)
                    bad.append(f"{number}: {end}: {shown}\n    {answer['told'][-600:]} {answer['left']}")
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
    """The ends as a line."""
    yield f"tried {tries}"
    for end in (
        "ok",
        "refused",
        "traceback",
        "exit 70",
        "crashed",
        "hung",
        "memory",
        "left behind",
        "more than a line",
    ):
        yield f"{end} {ends[end]}"
    known = {"ok", "refused", "traceback", "exit 70", "crashed", "hung", "memory", "left behind", "more than a line"}
    yield from (f"{end} {count}" for end, count in ends.items() if end not in known)


def main() -> None:
    """Fuzz, and exit with 1 if anything ended badly."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=Path)
    asked = parser.parse_args()
    if asked.work is not None:
        work(asked.work)
        return
    ends, bad = fuzz(asked.tries, asked.seed, first=asked.first)
    print("command lines: " + ", ".join(table(asked.tries, ends)))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
