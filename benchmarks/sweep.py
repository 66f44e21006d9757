"""Sweeps: methods on problems with many seeds, on one machine or a cluster, with results in Parquet.

    python -m benchmarks.sweep STUDY.toml [--out FILE] [--scheduler ADDRESS] [--processes N]

A study is a TOML file with lists of ``problems``, ``methods`` and ``episodes``, and a number of ``seeds``. The results
file is brought up to date after every cell, atomically; a sweep that was stopped goes on with what is not in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import InputError, as_count, check_callback, raise_input_error
from rewardmix.cli import inputs
from rewardmix.evaluation import controller_value
from rewardmix.exploration import ExplorationError
from rewardmix.learning import learn
from rewardmix.logs import arrow_io
from rewardmix.logs.executors import iter_results, open_executor, to_executor
from rewardmix.logs.fitting import fit
from rewardmix.logs.log_writer import check_target, write_to_temporary
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import default_max_operations, plan, plan_markov
from rewardmix.policy import Controller, uniform_policy
from rewardmix.recovery import algorithm_3, maximum_likelihood
from rewardmix.simulation import simulate

SweepMethod = Callable[[RewardMixingMDP, int, int], Controller]
"""(the true model, episodes, seed) -> a policy; of the model nothing is used but its episodes."""


def learn_policy(model: RewardMixingMDP, episodes: int, seed: int, method: Any = maximum_likelihood) -> Controller:
    """Explore pairs, recover, plan."""
    return learn(model, num_episodes=episodes, seed=seed, method=method, num_resamples=0).policy


def fit_policy(model: RewardMixingMDP, episodes: int, seed: int) -> Controller:
    """Fit a log of the uniform policy."""
    log = simulate(uniform_policy(model), model, episodes, seed)
    return fit(log, seed=seed, num_resamples=0, held_out_fraction=0.0).plan.policy


METHODS: dict[str, SweepMethod] = {
    "learn": learn_policy,
    "paper": partial(learn_policy, method=algorithm_3),
    "log": fit_policy,
}
"""Methods by name."""


CELL_BYTES = 1 << 10
"""About what a cell takes in memory."""

CELL_OPERATIONS = 1e7
"""The least that a cell takes."""


@dataclass(frozen=True)
class SweepRow:
    """One cell of a sweep and its result; NaN where the method failed, and ``error`` says why."""

    problem: str
    method: str
    episodes: int
    seed: int
    value: float = float("nan")
    best: float = float("nan")
    markov: float = float("nan")
    regret: float = float("nan")
    share: float = float("nan")
    seconds: float = float("nan")
    error: str = ""

    @property
    def cell(self) -> tuple[str, str, int, int]:
        """What was asked."""
        return self.problem, self.method, self.episodes, self.seed


@dataclass(frozen=True, eq=False)
class SweepCell:
    """What a worker is given."""

    row: SweepRow
    model: RewardMixingMDP
    method: SweepMethod
    best: float
    markov: float


def sweep(
    problems: Mapping[str, RewardMixingMDP],
    methods: Mapping[str, SweepMethod],
    episodes: Sequence[int],
    seeds: Sequence[int],
    out: str | os.PathLike[str],
    *,
    executor: Executor | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> list[SweepRow]:
    """Run every method on every problem with every budget and seed; rows that ``out`` holds already are not run again.

    Args:
        problems: true models by name.
        methods: by name.
        episodes: budgets.
        seeds: of the runs.
        out: Parquet file of the results.
        executor: who runs, a ``concurrent.futures.Executor`` (``process_pool(n)``) or a Dask client; left out, this
            process.
        callback: called with (cells done, cells in all).
    """
    pool = to_executor(executor)
    check_callback("callback", callback)
    _check_arguments(problems, methods, episodes, seeds, out)
    requested_rows = [
        SweepRow(problem, method, as_count("episodes", budget), as_count("seeds", seed, min_value=0))
        for problem in problems for method in methods for budget in episodes for seed in seeds
    ]  # fmt: skip
    rows = {row.cell: row for row in load_rows(out)}
    standing = {
        name: (plan(model, gap=1e-4, max_operations=default_max_operations(model)).lower, plan_markov(model).value)
        for name, model in problems.items()
        if any(row.problem == name and row.cell not in rows for row in requested_rows)
    }
    cells = [
        SweepCell(row, problems[row.problem], methods[row.method], *standing[row.problem])
        for row in requested_rows
        if row.cell not in rows
    ]
    done = len(requested_rows) - len(cells)
    for row in iter_results(pool, run_cell, cells):
        rows[row.cell] = row
        _write(out, list(rows.values()))
        done += 1
        if callback:
            callback(done, len(requested_rows))
    return [rows[row.cell] for row in requested_rows]


def _check_arguments(problems: Any, methods: Any, episodes: Any, seeds: Any, out: Any) -> None:
    """Refuse what cannot be swept over, and more cells than anybody could wait for."""
    for role, named in {"problems": problems, "methods": methods}.items():
        if not isinstance(named, Mapping):
            raise_input_error(role, type(named).__name__, "a mapping of names")
    for role, numbers in {"episodes": episodes, "seeds": seeds}.items():
        if not isinstance(numbers, Sequence) or isinstance(numbers, str | bytes):
            raise_input_error(role, type(numbers).__name__, "a sequence of whole numbers")
    cells = 1
    for role, values in {"problems": problems, "methods": methods, "episodes": episodes, "seeds": seeds}.items():
        try:
            cells *= len(values)
        except OverflowError:
            raise_input_error(role, "more than can be counted", "fewer")
        if not cells:
            raise_input_error(role, "none", "at least one")
    for name, model in problems.items():
        if not isinstance(model, RewardMixingMDP):
            raise_input_error(f"problems[{name!r}]", type(model).__name__, "a RewardMixingMDP")
    for name, method in methods.items():
        if not callable(method):
            raise_input_error(f"methods[{name!r}]", type(method).__name__, "a function of a model, episodes and a seed")
    check_budget(
        "sweep", memory=CELL_BYTES * cells, operations=CELL_OPERATIONS * cells, remedy="fewer seeds, budgets or methods"
    )
    check_target("out", out)


def run_cell(cell: SweepCell) -> SweepRow:
    """Run one cell."""
    began = time.process_time()
    row = asdict(cell.row)
    try:
        policy = cell.method(cell.model, cell.row.episodes, cell.row.seed)
    except (InputError, ExplorationError) as error:
        return SweepRow(**{**row, "error": str(error)})
    value = controller_value(policy, cell.model)
    gain = cell.best - cell.markov
    metrics = {
        "value": value,
        "best": cell.best,
        "markov": cell.markov,
        "regret": cell.best - value,
        "share": (value - cell.markov) / gain if gain > 1e-9 else float("nan"),
        "seconds": time.process_time() - began,
    }
    return SweepRow(**{**row, **metrics})


def load_rows(out: str | os.PathLike[str]) -> list[SweepRow]:
    """The rows of a results file; none if there is no file yet."""
    if not os.path.exists(out):
        return []
    with arrow_io.raise_read_errors(os.fspath(out)):
        table = arrow_io.import_pyarrow().parquet.read_table(out)
    expected = set(SweepRow.__dataclass_fields__)
    if set(table.column_names) != expected:
        raise_input_error(
            "out", f"{os.fspath(out)!r} with columns {table.column_names}", "the results of a sweep, or no file"
        )
    with arrow_io.raise_read_errors(os.fspath(out)):
        rows = [SweepRow(**row) for row in table.to_pylist()]
    kinds = {field.name: {"str": str, "int": int, "float": float}[str(field.type)] for field in fields(SweepRow)}
    for number, row in enumerate(rows):
        for name, kind in kinds.items():
            if type(getattr(row, name)) is not kind:
                actual = f"{getattr(row, name)!r} in row {number} of {os.fspath(out)!r}"
                raise_input_error(f"column {name!r}", actual, f"{kind.__name__}, as a sweep writes it")
    return rows


def _write(out: str | os.PathLike[str], rows: list[SweepRow]) -> None:
    pa = arrow_io.import_pyarrow()
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise_input_error(
            "out", f"that the folder of {os.fspath(out)!r} cannot be made ({error.strerror})", "a file to write"
        )
    with write_to_temporary("out", out) as temporary:
        pa.parquet.write_table(pa.Table.from_pylist([asdict(row) for row in rows]), temporary)


STUDY_FIELDS = {"problems": list, "methods": list, "episodes": list, "seeds": int}
"""What a study says: names of problems, of methods, budgets, and how many seeds."""


def read_study(path: Path) -> dict[str, Any]:
    """Read a study and check its fields."""
    content = inputs.load_toml("STUDY", path)
    for name, kind in STUDY_FIELDS.items():
        if not isinstance(content.get(name), kind) or isinstance(content.get(name), bool):
            raise_input_error(
                f"{path}: {name}", repr(content.get(name)), "a list" if kind is list else "a whole number"
            )
    for name in content:
        if name not in STUDY_FIELDS:
            raise_input_error(f"{path}", repr(name), f"one of {', '.join(STUDY_FIELDS)}")
    for name, kind in {"problems": str, "methods": str, "episodes": int}.items():
        for i, entry in enumerate(content[name]):
            if not isinstance(entry, kind) or isinstance(entry, bool):
                raise_input_error(f"{path}: {name}[{i}]", repr(entry), "a text" if kind is str else "a whole number")
    for name in content["methods"]:
        if name not in METHODS:
            raise_input_error(f"{path}: methods", repr(name), f"one of {', '.join(METHODS)}")
    as_count(f"{path}: seeds", content["seeds"])
    return content


def print_means(rows: Sequence[SweepRow]) -> None:
    """Print the mean regret and normalized score of every problem, method and budget."""
    groups: dict[tuple[str, str, int], list[SweepRow]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.method, row.episodes), []).append(row)
    print("problem | method | episodes | runs | regret | share of the gain")
    for (problem, method, episodes), seeds in groups.items():
        good = [row for row in seeds if not row.error]
        means = [np.mean([row.regret for row in good]), np.mean([row.share for row in good])] if good else [np.nan] * 2
        print(problem, method, episodes, f"{len(good)}/{len(seeds)}", f"{means[0]:.4f}", f"{means[1]:.3f}", sep=" | ")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a study; one that was stopped goes on where it was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--out", type=Path, help="results [the study's name with .parquet]")
    parser.add_argument("--scheduler", help="address of a Dask scheduler")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        study = read_study(options.study)
        target = options.out or options.study.with_suffix(".parquet")
        with open_executor(options.scheduler, as_count("--processes", options.processes)) as executor:
            rows = sweep(
                {name: inputs.parse_model(name) for name in study["problems"]},
                {name: METHODS[name] for name in study["methods"]},
                study["episodes"],
                range(study["seeds"]),
                target,
                executor=executor,
            )
    except InputError as error:
        sys.exit(f"sweep: {error}")
    print_means(rows)
    print(f"{len(rows)} results in {target}")


if __name__ == "__main__":
    main()
