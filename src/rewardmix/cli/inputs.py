"""Parse the arguments of commands, and check output paths before any work is done.

Modules are imported inside the functions: each command should only wait for the modules that it needs.
"""

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

from rewardmix._core.errors import InputError, raise_input_error
from rewardmix.cli import terminal

if TYPE_CHECKING:
    from rewardmix.model import RewardMixingMDP
    from rewardmix.report.saved_runs import SavedRun

MIN_EPISODES_TO_KEEP = 1000
"""Smallest number of episodes for which the checkpoint of a failed run is kept; fewer are quickly simulated again."""


def parse_model(text: str) -> RewardMixingMDP:
    """Load or make the model that ``text`` names: a problem, a problem with options, or a file."""
    from rewardmix import problems
    from rewardmix.model import RewardMixingMDP

    name, _, options = text.partition(":")
    if name in problems.list_problems():
        return problems.make_model(name, **parse_options("MODEL", options))
    if not os.path.exists(text):
        raise_input_error("MODEL", repr(text), f"a saved model or one of {', '.join(problems.list_problems())}")
    # The module imports every class that can be stored, which takes long; problems by name do not need it.
    from rewardmix.io import load

    content = load(text)
    if not isinstance(content, RewardMixingMDP):
        raise_input_error("MODEL", f"a {type(content).__name__} in {text!r}", "a model")
    return content


def load_run_model(option: str, text: str) -> RewardMixingMDP:
    """Load the model of a run folder, or what ``parse_model`` accepts."""
    if not os.path.isdir(text):
        return parse_model(text)
    path = os.path.join(text, "model.safetensors")
    if not os.path.isfile(path):
        raise_input_error(
            option, f"folder {text!r} without model.safetensors", "a run folder of learn, learn-online or fit"
        )
    from rewardmix.report.run_folder import check_run_file

    return parse_model(str(check_run_file(Path(text), "model.safetensors")))


def load_run_or_model(option: str, text: str) -> SavedRun | RewardMixingMDP:
    """Load a complete run folder with its plan, or else only a model."""
    model = load_run_model(option, text)
    if not all(os.path.isfile(os.path.join(text, name)) for name in ("result.json", "policy.safetensors")):
        return model
    from rewardmix.report.saved_runs import load_run

    return load_run(text)


def parse_model_or_env(text: str, modules: str | None = None) -> Any:
    """Return the model that ``text`` names, or the environment of a Gymnasium id.

    ``modules`` are names of modules, separated by commas, that are imported first because they register environments.
    """
    from rewardmix import problems

    for module in (modules or "").split(","):
        if module:
            _import(module)
    if text.partition(":")[0] in problems.list_problems() or os.path.exists(text):
        return parse_model(text)
    from rewardmix.environments.registration import make_registered_env

    return make_registered_env(text, problems.list_problems())


def _import(module: str) -> None:
    """Import a module of the user; any error in it is reported as wrong input."""
    import importlib

    # Checked first: an odd name such as "a..b" raises errors of its own kind in ``import_module``.
    if not all(name.isidentifier() for name in module.split(".")):
        raise_input_error("--import", repr(module), "module names such as package.module, separated by commas")
    try:
        importlib.import_module(module)
    except Exception as error:
        raise_input_error(
            "--import",
            f"{module!r}, whose import fails ({type(error).__name__}: {error})",
            "modules that can be imported",
        )


def parse_num_types(value: str | int) -> int | str:
    """Parse ``--num-types``: an integer or "auto"."""
    text = str(value)
    if text == "auto":
        return text
    # Plain digits only: ``int`` would also accept spaces, underscores and digits of other scripts.
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise_input_error("--num-types", repr(value), "a whole number or auto")
    return int(text)


def parse_numbers(option: str, text: str | None, *words: str) -> Any:
    """Parse numbers such as ``0.3,0.7``; one of ``words`` and ``None`` are returned as they are."""
    if text is None or text in words:
        return text
    try:
        return [float(token) for token in text.split(",")]
    except ValueError:
        raise_input_error(option, repr(text), " or ".join([*words, "numbers separated by commas"]))


def parse_read_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of ``read_log`` from the arguments of a command; absent ones are ``None``."""
    from rewardmix.logs.schema_hints import USER_ROLE

    names = parse_options("--columns", arguments["columns"])
    columns = {role: None if name == "none" else str(name) for role, name in names.items()}
    for role, option in ((USER_ROLE, "user_column"), ("time", "time_column")):
        if arguments[option] is not None:
            columns[role] = arguments[option]
    fraction = arguments["drop_invalid"]
    return {
        "columns": columns,
        "reward_values": parse_numbers("--reward-values", arguments["reward_values"]),
        "drop_invalid": False if fraction is None else fraction,
        **{name: arguments.get(name) for name in ("horizon", "session_gap", "num_reward_bins", "min_state_count")},
    }


def parse_names(text: str | None) -> list[str]:
    """Parse names such as ``outdoor,reading``; an empty list if none were given."""
    names = [] if text is None else [name.strip() for name in text.split(",")]
    if "" in names:
        raise_input_error("--type-names", repr(text), "names separated by commas")
    return names


def check_names(text: str | None, num_types: int | str | None) -> None:
    """Check that type names are unique and as many as types, before anything is learned."""
    names = parse_names(text)
    if not names:
        return
    if isinstance(num_types, int) and len(names) != num_types:
        raise_input_error("--type-names", f"{len(names)} names", f"{num_types}, one for each type")
    duplicate = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if duplicate is not None:
        raise_input_error("--type-names", f"{duplicate!r} twice", "unique type names")


def parse_weights(text: str | None) -> Any:
    """Parse type weights: numbers, "uniform", or ``None`` if they are to be estimated."""
    return parse_numbers("--weights", text, "uniform")


def parse_choice(option: str, text: str, choices: dict[str, Any]) -> Any:
    """Return the object that ``text`` names; raise ``InputError`` with the valid names otherwise."""
    if text not in choices:
        raise_input_error(option, repr(text), f"one of {', '.join(choices)}")
    return choices[text]


def parse_bonus(option: str, text: str) -> Any:
    """Return an exploration bonus by its name."""
    from rewardmix import exploration

    bonuses = {
        "practical": exploration.practical_bonus,
        "theory": exploration.theory_bonus,
        "paper": exploration.paper_bonus(),
    }
    return parse_choice(option, text, bonuses)


def parse_method(text: str, *names: str) -> Any:
    """Return the recovery method ``text``, which must be one of ``names``."""
    from rewardmix import recovery

    return parse_choice("--method", text, {name: getattr(recovery, name) for name in names})


def materialize_log(source: Any, stack: ExitStack, drop_invalid: bool | float = True) -> Any:
    """Return the log to read: sessions of a store are exported to a temporary file, other logs are unchanged."""
    from rewardmix.service.databases import is_store
    from rewardmix.service.log_export import export_log

    if not isinstance(source, str) or not is_store(source):
        return source
    # The exit stack of the command removes the file, because the log is read more than once.
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sessions.parquet"
    export_report = export_log(source, path, drop_invalid=drop_invalid)
    for warning in export_report.warnings:
        terminal.print_text(warning)
    if export_report.num_dropped_rows and not export_report.warnings:
        terminal.print_text(
            f"dropped {export_report.num_dropped_rows} rows after a state that the policy does not know"
        )
    return str(path)


def load_policy(option: str, path: str | Path) -> tuple[Any, RewardMixingMDP | None]:
    """Load a policy, and the model that it was planned for if the file contains it."""
    from rewardmix.io import load
    from rewardmix.model import RewardMixingMDP
    from rewardmix.planning import Plan

    content = load(path)
    if isinstance(content, Plan):
        return content.policy, content.model
    if not hasattr(content, "observe"):
        kind = "model" if isinstance(content, RewardMixingMDP) else type(content).__name__
        expected = "a saved policy or plan, as written by rewardmix plan MODEL --out FILE"
        raise_input_error(option, f"a {kind} in {str(path)!r}", expected)
    return content, None


def load_toml(option: str, path: Path) -> dict[str, Any]:
    """Load a TOML file; errors name ``option``."""
    if not path.is_file():
        raise_input_error(option, f"no file {str(path)!r}", "a TOML file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    # Deeply nested brackets raise ``RecursionError``; bad encoding and bad TOML are kinds of ``ValueError``.
    except (ValueError, RecursionError, OSError) as error:
        raise_input_error(option, f"unreadable file {str(path)!r} ({error})", "a TOML file")


def parse_options(argument: str, text: str) -> dict[str, Any]:
    """Parse ``states=10,weights=(0.3,0.7)`` as keyword arguments; values are Python literals or plain words.

    Errors name ``argument``.
    """
    options: dict[str, Any] = {}
    for option in _split(text):
        key, equals, value = option.partition("=")
        if not equals or not key.isidentifier():
            raise_input_error(argument, repr(option), "key=value, separated by commas")
        try:
            # ``literal_eval`` evaluates literals only, so that an argument cannot run code.
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            options[key] = value
    return options


def _split(text: str) -> list[str]:
    """Split text at commas outside of brackets."""
    tokens, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            tokens.append("")
        else:
            tokens[-1] += character
    return [token.strip() for token in tokens if token.strip()]


def check_file(option: str, path: Path | None) -> None:
    """Check that a file can be written at a path, without changing it."""
    if path is None:
        return
    if not os.fspath(path.parent) or not path.parent.is_dir():
        raise_input_error(option, f"no folder {str(path.parent)!r}", "a file in an existing folder")
    if path.is_dir():
        raise_input_error(option, f"folder {str(path)!r}", "a file")
    # A device or a pipe cannot be replaced by a finished file, which is how results are written.
    if os.path.lexists(path) and not path.is_file():
        raise_input_error(option, f"{str(path)!r}, which is no regular file", "a file")
    _check_writable(option, path.parent, path.name)


def check_folder(option: str, path: Path | None) -> None:
    """Check that a folder can be made or written at a path."""
    if path is None:
        return
    ancestor = path
    # The nearest existing parent decides; missing folders in between can be made in it.
    while not os.path.lexists(ancestor) and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise_input_error(option, f"file {str(ancestor)!r}", "a folder")
    _check_writable(option, ancestor, path.name if ancestor != path else "")


def _check_writable(option: str, folder: Path, name: str) -> None:
    """Check that a folder is writable by a temporary file with a name of the required length."""
    # Trying is the only reliable test: permission bits say little on network drives and in containers.
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise_input_error(option, f"{str(folder / name)!r}, which cannot be written ({reason})", "a writable path")


def resolve_checkpoint(out: Path, resume: bool) -> Path:
    """Return the checkpoint folder of a run; an existing one requires ``--resume``."""
    folder = out / "checkpoint"
    if folder.exists() and not resume:
        raise_input_error(
            "--out", f"{str(out)!r} with an interrupted run", "another folder; --resume continues the run"
        )
    return folder


def check_run_complete(out: Path, settings: Mapping[str, Any]) -> bool:
    """Return whether a folder contains a complete run with these settings; other settings raise ``InputError``."""
    if (out / "checkpoint").exists() or not (out / "result.json").is_file():
        return False
    from rewardmix.report.policy_json import to_plain
    from rewardmix.report.run_folder import read_result

    summary = read_result(out)
    metadata, certificate = summary.get("metadata") or {}, summary.get("certificate") or {}
    # An interrupted run has a result of the episodes so far, but it is not complete: it can be resumed.
    if certificate.get("stop_reason") == "interrupted":
        return False
    stored_settings = metadata.get("settings") or {}
    # Compared as JSON, as they were stored. Settings that an older version did not store are not compared.
    for name, value in to_plain(dict(settings)).items():
        if name in stored_settings and stored_settings[name] != value:
            actual = f"{str(out)!r}, a complete run with {name} = {stored_settings[name]!r}"
            raise_input_error("--resume", actual, f"{name} = {value!r}, or another folder")
    return True


@contextmanager
def discard_checkpoint_on_error(checkpoint: Path) -> Iterator[None]:
    """Remove the checkpoint of a run that fails early with wrong input; after Ctrl-C, print how to resume."""
    # Only what this run has made may be removed: an older checkpoint and folders that existed stay.
    existed = checkpoint.exists()
    new_folders = [folder for folder in (checkpoint.parent, *checkpoint.parent.parents) if not folder.exists()]
    try:
        yield
    except InputError as error:
        exploration = getattr(error, "exploration", None)
        if not existed and (exploration is None or exploration.num_episodes < MIN_EPISODES_TO_KEEP):
            shutil.rmtree(checkpoint, ignore_errors=True)
            # ``rmdir`` fails on a folder with other files, which is intended; such folders stay.
            for folder in new_folders:
                with suppress(OSError):
                    folder.rmdir()
        raise
    except KeyboardInterrupt:
        if checkpoint.exists():
            terminal.echo("rewardmix: interrupted; --resume continues from the checkpoint", err=True)
        raise
