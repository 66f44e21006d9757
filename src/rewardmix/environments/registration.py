"""Register Gymnasium ids. Entry points are given by name and not imported, so that registration costs little.

Ids are registered while Gymnasium is being imported. At that time a module-level import would find it incomplete, so
the functions import it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rewardmix._core.errors import raise_input_error


def register_envs(names: Iterable[str], entry_point: str, vector_entry_point: str) -> None:
    """Register ``rewardmix/<Name>-v0`` for each name; existing registrations are kept."""
    from gymnasium.envs import registration

    for name in names:
        identifier = env_id(name)
        if identifier not in registration.registry:
            registration.register(
                identifier, entry_point=entry_point, vector_entry_point=vector_entry_point, kwargs={"name": name}
            )


def env_id(name: str) -> str:
    """Return the Gymnasium id of a problem: ``shop`` -> ``rewardmix/Shop-v0``."""
    return f"rewardmix/{name.capitalize()}-v0"


def make_registered_env(identifier: str, problem_names: Iterable[str]) -> Any:
    """Make the environment of a Gymnasium id; raise InputError for an unknown one, listing ``problem_names``."""
    from gymnasium import error
    from gymnasium.envs import registration

    try:
        return registration.make(identifier)
    except (error.Error, ModuleNotFoundError) as reason:
        expected = f"a Gymnasium id, a saved model, {', '.join(problem_names)}"
        raise_input_error("PROBLEM_OR_ENV_ID", f"{identifier!r} ({reason})", expected)
