"""What people type, as the things they mean; and where results go, looked at before any work is done for them."""

from __future__ import annotations

import ast
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardmix._core.errors import InputError, refuse
from rewardmix.cli import terminal

if TYPE_CHECKING:
    from rewardmix.model import RewardMixingMDP
    from rewardmix.report.saved_runs import SavedRun

WORTH_KEEPING = 1000
"""Episodes of a run that was refused that are kept; fewer are played again in a moment."""


def model_of(text: str) -> RewardMixingMDP:
    """The model that ``text`` names: a problem, a problem with options, or a file."""
    from rewardmix import problems
    from rewardmix.model import RewardMixingMDP

    name, _, options = text.partition(":")
    if name in problems.names():
        return problems.make(name, **options_of(options))
    if not os.path.exists(text):
        refuse("MODEL", repr(text), f"a saved model or one of {', '.join(problems.names())}")
    from rewardmix.io import load  # knows every noun, so it takes long to import: only where there is a file

    noun = load(text)
    if not isinstance(noun, RewardMixingMDP):
        refuse("MODEL", f"a {type(noun).__name__} in {text!r}", "a model")
    return noun


def model_of_run(option: str, text: str) -> RewardMixingMDP:
    """The model of a folder that ``fit`` or ``learn`` wrote, or whatever ``model_of`` takes."""
    if not os.path.isdir(text):
        return model_of(text)
    path = os.path.join(text, "model.safetensors")
    if not os.path.isfile(path):
        refuse(option, f"a folder {text!r} without model.safetensors", "a folder that fit or learn wrote")
    from rewardmix.report.folder import check_part

    return model_of(str(check_part(Path(text), "model.safetensors")))


def run_or_model(option: str, text: str) -> SavedRun | RewardMixingMDP:
    """Load a folder that ``fit`` or ``learn`` wrote, with its plan; or only a model, where there is no more."""
    model = model_of_run(option, text)
    if not all(os.path.isfile(os.path.join(text, name)) for name in ("result.json", "policy.safetensors")):
        return model
    from rewardmix.report.saved_runs import load_run

    return load_run(text)


def model_or_environment(text: str, modules: str | None = None) -> Any:
    """A model (as ``model_of``), or the environment that a Gymnasium id names.

    ``modules``: names of modules, separated by commas, to import first because they register environments.
    """
    from rewardmix import problems

    for module in (modules or "").split(","):
        if module:
            _import(module)
    if text.partition(":")[0] in problems.names() or os.path.exists(text):
        return model_of(text)
    from rewardmix.environments.registration import made

    return made(text, problems.names())


def _import(module: str) -> None:
    """Import a module of somebody else: whatever it does wrong is a wrong input here."""
    import importlib

    if not all(part.isidentifier() for part in module.split(".")):
        refuse("--import", repr(module), "names of modules, as in package.module, separated by commas")
    try:
        importlib.import_module(module)
    except Exception as error:
        refuse("--import", f"{module!r} that fails ({type(error).__name__}: {error})", "modules that can be imported")


def contexts_of(given: str | int) -> int | str:
    """``--contexts``: a whole number, or the word auto."""
    text = str(given)
    if text == "auto":
        return text
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        refuse("--contexts", repr(given), "a number, or auto")
    return int(text)


def numbers_of(option: str, text: str | None, *words: str) -> Any:
    """``0.3,0.7`` as numbers; one of ``words`` as it is, and None where nothing was typed."""
    if text is None or text in words:
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        refuse(option, repr(text), ", or ".join([*words, "numbers separated by commas"]))


def reading_of(typed: Mapping[str, Any]) -> dict[str, Any]:
    """How a log is to be read, from the options of a command that reads one."""
    columns = {role: None if name == "none" else str(name) for role, name in options_of(typed["columns"]).items()}
    columns |= {role: typed[role] for role in ("visitor", "time") if typed[role] is not None}
    named = {"horizon": "horizon", "gap": "session_gap", "bins": "bins", "fold": "fold"}
    values = numbers_of("--rewards", typed["rewards"])
    share = typed["skip_bad"]
    chosen = {name: typed[option] for option, name in named.items()}
    return {"columns": columns, "reward_values": values, "skip_bad": False if share is None else share, **chosen}


def names_of(text: str | None) -> list[str]:
    """``outdoor,reading`` as names; none where nothing was typed."""
    names = [] if text is None else [name.strip() for name in text.split(",")]
    if "" in names:
        refuse("--names", repr(text), "names separated by commas")
    return names


def check_names(text: str | None, contexts: int | str | None) -> None:
    """Refuse names for another number of types, or twice the same, before anything is learned."""
    names = names_of(text)
    if not names:
        return
    if isinstance(contexts, int) and len(names) != contexts:
        refuse("--names", f"{len(names)} names", f"{contexts}, one for each type")
    again = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if again is not None:
        refuse("--names", f"{again!r} twice", "a name of its own for each type")


def weights_of(text: str | None) -> Any:
    """Shares of the types: numbers, ``uniform``, or None if they are not known."""
    return numbers_of("--weights", text, "uniform")


def chosen(option: str, text: str, known: dict[str, Any]) -> Any:
    """What ``text`` is the name of."""
    if text not in known:
        refuse(option, repr(text), f"one of {', '.join(known)}")
    return known[text]


def confidence_of(option: str, text: str) -> Any:
    """A confidence setting by its name."""
    from rewardmix import exploration

    settings = {"practical": exploration.practical, "theory": exploration.theory, "paper": exploration.paper()}
    return chosen(option, text, settings)


def method_of(text: str, *names: str) -> Any:
    """A method of recovery: one of ``names``."""
    from rewardmix import recovery

    methods = {"best": recovery.best, "paper": recovery.algorithm_3, "spectral": recovery.spectral}
    return chosen("--method", text, {name: methods[name] for name in names})


def log_in(source: Any, stack: ExitStack, skip_bad: bool | float = True) -> Any:
    """The log that is meant: the sessions of a store as a temporary file, anything else as it is."""
    from rewardmix.service.databases import is_store
    from rewardmix.service.exporting import export_log

    if not isinstance(source, str) or not is_store(source):
        return source
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sessions.parquet"
    done = export_log(source, path, skip_bad=skip_bad)
    for warning in done.warnings:
        terminal.say(warning)
    if done.left_out and not done.warnings:
        terminal.say(f"left out: {done.left_out} rows behind a state that the policy did not know")
    return str(path)


def policy_of(option: str, path: str | Path) -> tuple[Any, RewardMixingMDP | None]:
    """A saved policy, and the model that it was planned for if the file holds that too."""
    from rewardmix.io import load
    from rewardmix.model import RewardMixingMDP
    from rewardmix.planning import Plan

    noun = load(path)
    if isinstance(noun, Plan):
        return noun.policy, noun.model
    if not hasattr(noun, "observe"):
        found = "model" if isinstance(noun, RewardMixingMDP) else type(noun).__name__
        expected = "a saved policy or plan (rewardmix plan MODEL --out FILE makes one)"
        refuse(option, f"a {found} in {str(path)!r}", expected)
    return noun, None


def toml_of(option: str, path: Path) -> dict[str, Any]:
    """What a TOML file says; one that is not there or cannot be read is refused in the name of ``option``."""
    if not path.is_file():
        refuse(option, f"no file {str(path)!r}", "a TOML file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        refuse(option, f"{str(path)!r} unreadable ({error})", "a TOML file")


def options_of(text: str) -> dict[str, Any]:
    """``states=10,weights=(0.3,0.7)`` as keyword arguments; values are Python literals, or plain words."""
    options: dict[str, Any] = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            refuse("options", repr(part), "key=value, separated by commas")
        try:
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            options[key] = value
    return options


def _split(text: str) -> list[str]:
    """At the commas that are outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def check_file(option: str, path: Path | None) -> None:
    """Refuse a path at which no file can be written: in no folder, in one that is closed, or that is something else."""
    if path is None:
        return
    if not os.fspath(path.parent) or not path.parent.is_dir():
        refuse(option, f"no folder {str(path.parent)!r}", "a file in a folder that is there")
    if path.is_dir():
        refuse(option, f"a folder {str(path)!r}", "a file")
    if os.path.lexists(path) and not path.is_file():
        refuse(option, f"{str(path)!r}, which is no regular file", "a file")
    _try(option, path.parent, path.name)


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a path at which no folder can be made or written into."""
    if path is None:
        return
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        refuse(option, f"a file {str(there)!r}", "a folder")
    _try(option, there, path.name if there != path else "")


def _try(option: str, folder: Path, name: str) -> None:
    """Write nothing into a folder, under a name as long as the one that is wanted."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse(option, f"{str(folder / name)!r} that cannot be written ({reason})", "a place to write to")


def checkpoint_of(out: Path, resume: bool) -> Path:
    """The folder of a run's checkpoint; one that is there belongs to a run that has to be gone on with."""
    folder = out / "checkpoint"
    if folder.exists() and not resume:
        refuse("--out", f"a run in {str(out)!r} that was stopped", "--resume to go on with it, or another folder")
    return folder


def is_finished(out: Path, settings: Mapping[str, Any]) -> bool:
    """Whether a folder holds a whole run with these settings; a whole one with others is refused."""
    if (out / "checkpoint").exists() or not (out / "result.json").is_file():
        return False
    from rewardmix.report.folder import read_result
    from rewardmix.report.playable import plain

    summary = read_result(out)
    record, certificate = summary.get("record") or {}, summary.get("certificate") or {}
    if certificate.get("stopped") == "interrupted":
        return False
    kept = record.get("settings") or {}
    for name, value in plain(dict(settings)).items():
        if name in kept and kept[name] != value:
            found = f"a whole run with {name} = {kept[name]!r} in {str(out)!r}"
            refuse("--resume", found, f"{name} = {value!r}, or another folder")
    return True


@contextmanager
def keeping(checkpoint: Path) -> Iterator[None]:
    """Remove the checkpoint of a run that is refused before it is worth keeping; tell that others can go on."""
    before = checkpoint.exists()
    absent = [folder for folder in (checkpoint.parent, *checkpoint.parent.parents) if not folder.exists()]
    try:
        yield
    except InputError as error:
        gathered = getattr(error, "exploration", None)
        if not before and (gathered is None or gathered.episodes < WORTH_KEEPING):
            shutil.rmtree(checkpoint, ignore_errors=True)
            for folder in absent:
                with suppress(OSError):
                    folder.rmdir()
        raise
    except KeyboardInterrupt:
        if checkpoint.exists():
            terminal.echo("rewardmix: interrupted; --resume goes on where this was", err=True)
        raise
