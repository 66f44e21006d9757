"""Measure the cost of checks: CPU seconds with them over CPU seconds without, for common operations.

python -m benchmarks.checks.run [--quick]

Without checks, objects are made by ``from_valid_*`` instead of their constructors, and files are read by the library
of their format without checksums. Simulation and exploration make their results without checks; their rows show what
the checks would cost.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open
from scipy.sparse import csr_array

from benchmarks.record import cpu_seconds, record, table
from rewardmix import explore, load, plan, problems, save, simulate, uniform_policy
from rewardmix.episodes import ARRAY_FIELDS, Episodes
from rewardmix.moments import Moments

LIMIT = 1.05
COUNTS = ("initial_counts", "reward_counts", "pair_keys", "pair_tables", "first_visit_keys", "first_visit_tables")


def tensors(path: Path) -> dict[str, Any]:
    """The arrays of a file, by the library."""
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def unchecked_episodes(path: Path, like: Episodes) -> Episodes:
    """Load episodes without checks."""
    arrays = tensors(path)
    return Episodes.from_valid_arrays(arrays, like.num_states, like.num_actions, arrays["reward_values"])


def unchecked_moments(path: Path, like: Moments) -> Moments:
    """Load moments without checks."""
    arrays = tensors(path)
    csr_arrays = tuple(arrays[f"transition_counts_{name}"] for name in ("data", "indices", "indptr"))
    transitions = csr_array(csr_arrays, shape=like.transition_counts.shape)
    sizes = {name: getattr(like, name) for name in ("num_states", "num_actions", "horizon", "num_episodes")}
    values = arrays["reward_values"]
    return Moments.from_valid_counts(
        **sizes, reward_values=values, transition_counts=transitions, **{name: arrays[name] for name in COUNTS}
    )


def checked_again(instance: Any) -> Any:
    """The same noun by its constructor."""
    return type(instance)(**{name: getattr(instance, name) for name in instance.__dataclass_fields__})


def cases(count: int, folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """With and without checks, by what is done."""
    model = problems.make_model("random", states=10, actions=4, horizon=8)
    policy, controller = uniform_policy(model), plan(model, gap=1e-2).policy
    episodes = simulate(policy, model, count)
    wide = problems.make_model("random", states=60, actions=5, horizon=10)
    large = Moments.from_episodes(simulate(uniform_policy(wide), wide, count // 4))
    paths = {name: folder / name for name in ("episodes", "moments")}
    save(paths["episodes"], episodes)
    save(paths["moments"], large)

    def explored(result: Any) -> Any:
        return checked_again(result), checked_again(result.moments)

    return {
        "simulate": (
            lambda: checked_again(simulate(policy, model, count)),
            lambda: simulate(policy, model, count),
        ),
        "simulate a controller": (
            lambda: simulate(checked_again(controller), model, count),
            lambda: simulate(controller, model, count),
        ),
        "make Episodes, count them": (
            lambda: Moments.from_episodes(checked_again(episodes)),
            lambda: Moments.from_episodes(
                Episodes.from_valid_arrays({n: getattr(episodes, n) for n in ARRAY_FIELDS}, *_sizes(episodes))
            ),
        ),
        "explore": (
            lambda: explored(explore(model, num_episodes=count // 10)),
            lambda: explore(model, num_episodes=count // 10),
        ),
        "load episodes": (
            lambda: load(paths["episodes"]),
            lambda: unchecked_episodes(paths["episodes"], episodes),
        ),
        "load episodes, count them": (
            lambda: Moments.from_episodes(load(paths["episodes"])),
            lambda: Moments.from_episodes(unchecked_episodes(paths["episodes"], episodes)),
        ),
        "load moments": (
            lambda: load(paths["moments"]),
            lambda: unchecked_moments(paths["moments"], large),
        ),
        "load moments, add them": (
            lambda: load(paths["moments"]) + large,
            lambda: unchecked_moments(paths["moments"], large) + large,
        ),
    }


def _sizes(episodes: Episodes) -> tuple[int, int, Any]:
    return episodes.num_states, episodes.num_actions, episodes.reward_values


def main() -> None:
    quick = "--quick" in sys.argv
    count, repeats = (200_000, 5) if quick else (2_000_000, 9)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (checked, unchecked) in cases(count, Path(folder)).items():
            checked(), unchecked()
            seconds = cpu_seconds(checked, repeats), cpu_seconds(unchecked, repeats)
            ratio = seconds[0] / seconds[1]
            rows.append({"what": name, "checked": seconds[0], "unchecked": seconds[1], "ratio": ratio})
    lines = [[*row.values(), "yes" if row["ratio"] <= LIMIT else "NO"] for row in rows]
    table(["what", "with checks", "without", "ratio", f"within {LIMIT}"], lines)
    if not quick:
        record("checks", "checks", rows)


if __name__ == "__main__":
    main()
