"""The catalogue: problems by name, as models and as environments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rewardmix._core.checks import quoted, refuse
from rewardmix.model import RewardMixingMDP
from rewardmix.problems.generated import random
from rewardmix.problems.worlds import branches, grid, hard, lock, parity, probe, riverswim, shop

if TYPE_CHECKING:
    from rewardmix.environments import RewardMixingEnv, RewardMixingVectorEnv

CATALOGUE: dict[str, Callable[..., RewardMixingMDP]] = {
    "hard": hard,
    "random": random,
    "lock": lock,
    "riverswim": riverswim,
    "grid": grid,
    "shop": shop,
    "branches": branches,
    "probe": probe,
    "parity": parity,
}


def names() -> tuple[str, ...]:
    """The names that ``make`` knows."""
    return tuple(CATALOGUE)


def make(name: str, **options: Any) -> RewardMixingMDP:
    """The problem called ``name``; each builder's own documentation tells its options."""
    if not isinstance(name, str) or name not in CATALOGUE:
        refuse("name", quoted(name), f"one of {', '.join(CATALOGUE)}")
    known = inspect.signature(CATALOGUE[name]).parameters
    for option in options:
        if option not in known:
            refuse("options", repr(option), f"an option of {name}: {', '.join(known)}")
    return CATALOGUE[name](**options)


def as_world(argument: str, world: Any) -> Any:
    """A model, the problem or the environment that a name stands for, or an environment; anything else is refused."""
    if isinstance(world, str):
        if world not in CATALOGUE:
            refuse(argument, quoted(world), f"one of {', '.join(CATALOGUE)}, or an environment")
        return make(world)
    if not isinstance(world, RewardMixingMDP) and not hasattr(world, "reset"):
        wanted = "a model, the name of a problem, or a Gymnasium environment with Discrete spaces"
        refuse(argument, f"{quoted(world)} ({type(world).__name__})", wanted)
    return world


def make_env(
    model_or_name: RewardMixingMDP | str, *, render_mode: str | None = None, **options: Any
) -> RewardMixingEnv:
    """Make a Gymnasium environment of a model, or of a problem by name."""
    from rewardmix.environments import RewardMixingEnv

    return RewardMixingEnv(_model(model_or_name, options), render_mode=render_mode)


def single(name: str, render_mode: str | None = None, **options: Any) -> RewardMixingEnv:
    """Entry point of the registered ids."""
    return make_env(name, render_mode=render_mode, **options)


def vector(
    name: str, num_envs: int = 1, render_mode: str | None = None, autoreset_mode: Any = "NextStep", **options: Any
) -> RewardMixingVectorEnv:
    """Vector entry point of the registered ids."""
    from rewardmix.environments import RewardMixingVectorEnv

    model = make(name, **options)
    return RewardMixingVectorEnv(model, num_envs, autoreset_mode=autoreset_mode, render_mode=render_mode)


def register() -> None:
    """Make every problem known to Gymnasium as ``rewardmix/<Name>-v0``."""
    from rewardmix.environments.registration import announce

    announce(names(), f"{__name__}:single", f"{__name__}:vector")


def identifiers() -> tuple[str, ...]:
    """The Gymnasium ids of ``register``."""
    from rewardmix.environments.registration import identifier_of

    return tuple(identifier_of(name) for name in names())


def _model(model_or_name: RewardMixingMDP | str, options: dict[str, Any]) -> RewardMixingMDP:
    if isinstance(model_or_name, str):
        return make(model_or_name, **options)
    if not isinstance(model_or_name, RewardMixingMDP):
        refuse("model_or_name", type(model_or_name).__name__, "a RewardMixingMDP or the name of a problem")
    if options:
        refuse("options", repr(next(iter(options))), "no options with a model; they are for problems by name")
    return model_or_name
