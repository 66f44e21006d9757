"""``posterior_types``: which session was probably of which type."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np

from rewardmix.logs import arrow
from rewardmix.logs.identities import Origin
from rewardmix.logs.log import loaded
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.reading import as_log
from rewardmix.logs.same_world import as_model, check_world, reading_like
from rewardmix.recovery.bootstrap import mixture_of_model
from rewardmix.recovery.likelihood import Mixture, posteriors


def posterior_types(model: Any, log: Any, *, executor: Executor | None = None, **reading: Any) -> Any:
    """Which episode of a log was probably of which type, given all its rewards.

    Args:
        model: a model of the same world, or what has one (``fit`` and ``learn`` return such).
        log: a ``Log``, or whatever ``read`` takes.
        executor: who works.
        **reading: handed on to ``read``: columns, session_gap, ...; names and values are those of the model.

    Returns:
        a pyarrow table with one row an episode: the column that names it (visitor and time of its first row too, if
        sessions were made of them), ``type``, the most probable from 1, and ``chance_1``, ``chance_2``, ...; if many
        episodes were left out, the metadata of its schema say so under ``left_out``.
    """
    world = as_model("model", model)
    data = as_log(log, executor, reading_like(world, log, reading))
    check_world("model", world, data.schema)
    mixture = mixture_of_model(world, data.schema)
    sizes = [len(part) for part in data.parts]
    origins = data.origins or np.cumsum([0, *sizes])[:-1].tolist()
    tables = data.workers.map(_types, data.parts, origins, common=(data.schema, mixture))
    whole = arrow.library().concat_tables(list(tables), promote_options="permissive")
    headline = data.notes.left_out.headline
    return whole.replace_schema_metadata({"left_out": headline}) if headline else whole


def _types(part: Any, origin: Origin | int, schema: LogSchema, mixture: Mixture) -> Any:
    """The table of one part; its episodes are numbered if nobody named them."""
    pa = arrow.library()
    chances = posteriors(loaded(part).patterns(schema), mixture)
    if isinstance(origin, Origin):
        table = origin.identities()
    else:
        table = pa.table({"episode": np.arange(origin, origin + len(chances))})
    found = {"type": np.argmax(chances, axis=1) + 1}
    found |= {f"chance_{m + 1}": np.ascontiguousarray(chances[:, m]) for m in range(mixture.num_contexts)}
    for name, values in found.items():
        table = table.append_column(name, [values])
    return table
