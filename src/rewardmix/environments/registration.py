"""Gymnasium ids. Entry points are named, not imported, so that registering costs nothing.

Ids are announced while Gymnasium is imported, so the functions import it, not the file: it would be half imported then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rewardmix._core.errors import refuse


def announce(names: Iterable[str], entry_point: str, vector_entry_point: str) -> None:
    """Register ``rewardmix/<Name>-v0`` for each name; what is registered already is left as it is."""
    from gymnasium.envs import registration

    for name in names:
        identifier = identifier_of(name)
        if identifier not in registration.registry:
            registration.register(
                identifier, entry_point=entry_point, vector_entry_point=vector_entry_point, kwargs={"name": name}
            )


def identifier_of(name: str) -> str:
    """``shop`` -> ``rewardmix/Shop-v0``."""
    return f"rewardmix/{name.capitalize()}-v0"


def made(identifier: str, others: Iterable[str]) -> Any:
    """The environment of a Gymnasium id; an unknown one is refused, naming what ``others`` could have been meant."""
    from gymnasium import error
    from gymnasium.envs import registration

    try:
        return registration.make(identifier)
    except (error.Error, ModuleNotFoundError) as reason:
        refuse("PROBLEM_OR_ENV_ID", f"{identifier!r} ({reason})", f"a Gymnasium id, a saved model, {', '.join(others)}")
