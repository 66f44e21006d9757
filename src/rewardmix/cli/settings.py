"""The settings of a run of ``learn``: defaults, a TOML file, and what was typed, in that order."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardmix._core.errors import refuse
from rewardmix.cli import inputs

KINDS = {str: "a text", float: "a number", int: "a whole number"}


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result of a run; ``result.json`` keeps it."""

    world: str = ""
    episodes: int | None = None
    accuracy: float = 0.1
    failure: float = 0.05
    contexts: int = 2
    weights: str | None = None
    seed: int = 0
    setting: str = "practical"
    method: str = "best"
    refine: float = 0.5
    separation: float = 0.0
    validate: int | None = None
    horizon: int | None = None
    modules: str | None = None

    @staticmethod
    def of(typed: dict[str, Any], config: Path | None) -> Settings:
        """What was typed goes before what the file says, and that before the defaults."""
        settings = {
            **(_read(config) if config else {}),
            **{key: value for key, value in typed.items() if value is not None},
        }
        if not settings.get("world"):
            refuse(
                "PROBLEM_OR_ENV_ID", "nothing", "a problem, a Gymnasium id or a saved model (or `world` in --config)"
            )
        return Settings(**settings)


def _read(path: Path) -> dict[str, Any]:
    content = inputs.toml_of("--config", path)
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    for name, value in content.items():
        if name not in fields:
            refuse(f"--config {path}", f"{name!r}", f"one of {', '.join(fields)}")
        wanted = fields[name].type
        kind = str if "str" in str(wanted) else float if "float" in str(wanted) else int
        if isinstance(value, bool) or not isinstance(value, int | float if kind is float else kind):
            refuse(f"--config {path}: {name}", repr(value), KINDS[kind])
    return content
