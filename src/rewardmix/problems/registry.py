"""Make problems by name, as models and as environments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rewardmix._core.checks import quote_value, raise_input_error
from rewardmix.model import RewardMixingMDP
from rewardmix.problems.named_problems import (
    make_branches,
    make_grid,
    make_hard,
    make_lock,
    make_parity,
    make_probe,
    make_riverswim,
    make_shop,
)
from rewardmix.problems.random_problems import make_random

if TYPE_CHECKING:
    from rewardmix.environments import RewardMixingEnv, RewardMixingVectorEnv

PROBLEMS: dict[str, Callable[..., RewardMixingMDP]] = {
    "hard": make_hard,
    "random": make_random,
    "lock": make_lock,
    "riverswim": make_riverswim,
    "grid": make_grid,
    "shop": make_shop,
    "branches": make_branches,
    "probe": make_probe,
    "parity": make_parity,
}
"""Name -> function that makes the model."""


def list_problems() -> tuple[str, ...]:
    """Return the names that ``make_model`` accepts."""
    return tuple(PROBLEMS)


def make_model(name: str, **options: Any) -> RewardMixingMDP:
    """Make a built-in problem as a model.

    Args:
        name: Name of the problem: ``hard``, ``random``, ``lock``, ``riverswim``, ``grid``, ``shop``, ``branches``,
            ``probe`` or ``parity``.
        **options: Options of the problem, such as ``horizon``; the functions in ``problems`` describe them.

    Returns:
        The model.

    Raises:
        InputError: If the name or an option is unknown, or an option is invalid.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("riverswim", states=5)
        >>> model.num_states, model.num_types, model.horizon
        (5, 2, 20)
        >>> model.state_names
        ('left bank', 'water 1', 'water 2', 'water 3', 'right bank')
    """
    if not isinstance(name, str) or name not in PROBLEMS:
        raise_input_error("name", quote_value(name), f"one of {', '.join(PROBLEMS)}")
    parameters = inspect.signature(PROBLEMS[name]).parameters
    for option in options:
        if option not in parameters:
            raise_input_error("options", repr(option), f"an option of {name}: {', '.join(parameters)}")
    return PROBLEMS[name](**options)


def resolve_env_or_model(argument: str, env: Any) -> Any:
    """Return a model or an environment: the argument itself, or the problem with this name.

    Raises InputError for anything else; ``argument`` is the name that the message gives.
    """
    if isinstance(env, str):
        if env not in PROBLEMS:
            raise_input_error(argument, quote_value(env), f"one of {', '.join(PROBLEMS)}, or an environment")
        return make_model(env)
    if not isinstance(env, RewardMixingMDP) and not hasattr(env, "reset"):
        expected = "a model, the name of a problem, or a Gymnasium environment with Discrete spaces"
        raise_input_error(argument, f"{quote_value(env)} ({type(env).__name__})", expected)
    return env


def make_env(
    model_or_name: RewardMixingMDP | str, *, render_mode: str | None = None, **options: Any
) -> RewardMixingEnv:
    """Make a Gymnasium environment of a model or of a built-in problem.

    Args:
        model_or_name: A model, or the name of a problem.
        render_mode: ``ansi`` for text, ``rgb_array`` for images, or None.
        **options: Options of the problem; not allowed with a model.

    Returns:
        The environment.

    Raises:
        InputError: If the name or an option is unknown, or an option is invalid.

    Examples:
        >>> import rewardmix as rm
        >>> env = rm.make_env("shop", horizon=5)
        >>> env.observation_space, env.action_space, env.horizon
        (Discrete(4), Discrete(4), 5)
        >>> env.reset(seed=0)
        (0, {'step': 0})
    """
    from rewardmix.environments import RewardMixingEnv

    return RewardMixingEnv(_resolve_model(model_or_name, options), render_mode=render_mode)


def make_gym_env(name: str, render_mode: str | None = None, **options: Any) -> RewardMixingEnv:
    """Make the environment of a registered id (Gymnasium entry point)."""
    return make_env(name, render_mode=render_mode, **options)


def make_gym_vector_env(
    name: str, num_envs: int = 1, render_mode: str | None = None, autoreset_mode: Any = "NextStep", **options: Any
) -> RewardMixingVectorEnv:
    """Make the vector environment of a registered id (Gymnasium entry point)."""
    from rewardmix.environments import RewardMixingVectorEnv

    model = make_model(name, **options)
    return RewardMixingVectorEnv(model, num_envs, autoreset_mode=autoreset_mode, render_mode=render_mode)


def register() -> None:
    """Register every problem with Gymnasium as ``rewardmix/<Name>-v0``."""
    from rewardmix.environments.registration import register_envs

    register_envs(list_problems(), f"{__name__}:make_gym_env", f"{__name__}:make_gym_vector_env")


def list_env_ids() -> tuple[str, ...]:
    """Return the Gymnasium ids of all problems."""
    from rewardmix.environments.registration import env_id

    return tuple(env_id(name) for name in list_problems())


def _resolve_model(model_or_name: RewardMixingMDP | str, options: dict[str, Any]) -> RewardMixingMDP:
    """Return a model as it is, or make the problem with this name."""
    if isinstance(model_or_name, str):
        return make_model(model_or_name, **options)
    if not isinstance(model_or_name, RewardMixingMDP):
        raise_input_error("model_or_name", type(model_or_name).__name__, "a RewardMixingMDP or the name of a problem")
    if options:
        raise_input_error(
            "options", repr(next(iter(options))), "no options with a model; options are for problems by name"
        )
    return model_or_name
