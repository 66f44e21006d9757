"""What people type, as the things they mean."""

from __future__ import annotations

import ast
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardmix._core.errors import refuse

if TYPE_CHECKING:
    from rewardmix.model import RewardMixingMDP

WORLD_HELP = "A problem (shop, random:states=10), coupons, any Gymnasium id, or a saved model."
MODEL_HELP = "A problem (shop), a problem with options (random:states=10,seed=3), or a saved model."


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


def world_of(text: str, modules: str | None = None) -> Any:
    """A model (as ``model_of``), or the environment that a Gymnasium id or ``coupons`` names.

    ``modules``: names of modules, separated by commas, to import first because they register environments.
    """
    from rewardmix import problems

    for module in (modules or "").split(","):
        if module:
            _import(module)
    name, _, options = text.partition(":")
    if name == "coupons":
        return problems.coupons(**options_of(options))
    if name in problems.names() or os.path.exists(text):
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


def count_of(option: str, text: str, expected: str) -> int:
    """A whole number that stands where a word may stand too."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        refuse(option, repr(text), expected)
    return int(text)


def weights_of(text: str | None) -> Any:
    """``0.3,0.7`` as numbers; ``uniform`` as it is; None for weights that are not known."""
    if text is None or text == "uniform":
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        refuse("--weights", repr(text), "uniform, or numbers separated by commas")


def confidence_of(text: str) -> Any:
    """A confidence setting by its name."""
    from rewardmix import exploration

    settings = {"practical": exploration.practical, "theory": exploration.theory, "paper": exploration.paper()}
    return _chosen("--setting", text, settings)


def method_of(text: str) -> Any:
    """A method of recovery by its name."""
    from rewardmix import recovery

    return _chosen("--method", text, {"best": recovery.best, "paper": recovery.algorithm_3})


def toml_of(option: str, path: Path) -> dict[str, Any]:
    """What a TOML file says; one that is not there or cannot be read is refused in the name of ``option``."""
    if not path.is_file():
        refuse(option, f"no file {str(path)!r}", "a TOML file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        refuse(option, f"{str(path)!r} unreadable ({error})", "a TOML file")


def _chosen(option: str, text: str, known: dict[str, Any]) -> Any:
    if text not in known:
        refuse(option, repr(text), f"one of {', '.join(known)}")
    return known[text]


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
