"""Make built-in problems: synthetic models, from the paper's hardest family to a web shop."""

from rewardmix.problems.registry import (
    list_env_ids,
    list_problems,
    make_env,
    make_model,
    register,
    resolve_env_or_model,
)

__all__ = ["list_env_ids", "list_problems", "make_env", "make_model", "register", "resolve_env_or_model"]
