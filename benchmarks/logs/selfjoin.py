"""The same pair moments as a data engineer would get them: the log joined with itself."""

from __future__ import annotations

from typing import Any

import numpy as np

COLUMNS = "x, y, z, w, count(*) AS n"
QUERY = f"""
WITH steps AS (
  SELECT episode, step, state * {{actions}} + action AS x, CAST(reward AS INTEGER) AS z FROM '{{path}}'
), visits AS (
  SELECT *, row_number() OVER (PARTITION BY episode, x ORDER BY step) AS visit FROM steps
), once AS (SELECT * FROM visits WHERE visit = 1), twice AS (SELECT * FROM visits WHERE visit = 2)
SELECT {COLUMNS} FROM (
  SELECT a.x AS x, b.x AS y, a.z AS z, b.z AS w FROM once a JOIN once b ON a.episode = b.episode AND a.x < b.x
  UNION ALL
  SELECT a.x AS x, b.x AS y, a.z AS z, b.z AS w FROM once a JOIN twice b ON a.episode = b.episode AND a.x = b.x
) GROUP BY x, y, z, w
"""


def with_duckdb(path: str, actions: int) -> Any:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        return connection.execute(QUERY.format(path=path, actions=actions)).fetchnumpy()


def with_polars(path: str, actions: int) -> Any:
    import polars as pl

    steps = pl.scan_parquet(path).select(
        "episode",
        "step",
        (pl.col("state") * actions + pl.col("action")).alias("x"),
        pl.col("reward").cast(pl.Int8).alias("z"),
    )
    visits = steps.with_columns(pl.col("step").rank("ordinal").over("episode", "x").alias("visit"))
    once, twice = visits.filter(pl.col("visit") == 1), visits.filter(pl.col("visit") == 2)
    second = {"x": "y", "z": "w"}
    apart = once.join(once.rename(second), on="episode").filter(pl.col("x") < pl.col("y"))
    again = once.join(twice.rename(second), left_on=["episode", "x"], right_on=["episode", "y"]).with_columns(
        pl.col("x").alias("y")
    )
    keys = ["x", "y", "z", "w"]
    both = pl.concat([apart.select(keys), again.select(keys)])
    return both.group_by(keys).agg(pl.len().alias("n")).collect().to_dict(as_series=False)


def tables(rows: Any, num_state_actions: int) -> np.ndarray:
    """(X, X, 2, 2) outcome counts of unordered pairs."""
    out = np.zeros((num_state_actions, num_state_actions, 2, 2), np.int64)
    np.add.at(out, tuple(np.asarray(rows[name], np.int64) for name in "xyzw"), np.asarray(rows["n"], np.int64))
    return out
