"""What checks cost: CPU-seconds with them over CPU-seconds without, for what people do with nouns and files.

python -m benchmarks.checks.run [--quick]

Without: nouns are made past their constructors (``trusted``), and files are read by the library of their format as
they were before there were checksums. Simulation and exploration make their nouns by ``trusted``; their rows have what
the checks would take if they did not.
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
from rewardmix import explore, load, plan, problems, save, simulate, uniform
from rewardmix.episodes import PARTS, Episodes
from rewardmix.moments import Moments

LIMIT = 1.05
COUNTS = ("starts", "outcomes", "pair_keys", "pair_tables", "selected_keys", "selected_tables")


def tensors(path: Path) -> dict[str, Any]:
    """The arrays of a file, by the library."""
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def unchecked_episodes(path: Path, like: Episodes) -> Episodes:
    """Episodes from a file, without a look."""
    arrays = tensors(path)
    return Episodes.trusted(arrays, like.num_states, like.num_actions, arrays["reward_values"])


def unchecked_moments(path: Path, like: Moments) -> Moments:
    """Moments from a file, without a look."""
    arrays = tensors(path)
    parts = tuple(arrays[f"moves_{name}"] for name in ("data", "indices", "indptr"))
    moves = csr_array(parts, shape=like.moves.shape)
    sizes = {name: getattr(like, name) for name in ("num_states", "num_actions", "horizon", "episodes")}
    values = arrays["reward_values"]
    return Moments.trusted(**sizes, reward_values=values, moves=moves, **{name: arrays[name] for name in COUNTS})


def checked_again(noun: Any) -> Any:
    """The same noun by its constructor."""
    return type(noun)(**{name: getattr(noun, name) for name in noun.__dataclass_fields__})


def cases(count: int, folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """With and without checks, by what is done."""
    model = problems.make("random", states=10, actions=4, horizon=8)
    policy, controller = uniform(model), plan(model, gap=1e-2).policy
    episodes = simulate(policy, model, count)
    wide = problems.make("random", states=60, actions=5, horizon=10)
    large = Moments.of(simulate(uniform(wide), wide, count // 4))
    paths = {name: folder / name for name in ("episodes", "moments")}
    save(paths["episodes"], episodes)
    save(paths["moments"], large)

    def explored(found: Any) -> Any:
        return checked_again(found), checked_again(found.moments)

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
            lambda: Moments.of(checked_again(episodes)),
            lambda: Moments.of(Episodes.trusted({n: getattr(episodes, n) for n in PARTS}, *_sizes(episodes))),
        ),
        "explore": (
            lambda: explored(explore(model, episodes=count // 10)),
            lambda: explore(model, episodes=count // 10),
        ),
        "load episodes": (
            lambda: load(paths["episodes"]),
            lambda: unchecked_episodes(paths["episodes"], episodes),
        ),
        "load episodes, count them": (
            lambda: Moments.of(load(paths["episodes"])),
            lambda: Moments.of(unchecked_episodes(paths["episodes"], episodes)),
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
