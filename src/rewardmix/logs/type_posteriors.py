"""Infer the type of each session: posterior probabilities given all its rewards.

    P(m | episode) proportional to w_m * prod_t p_m(z_t | x_t)

with the weights w and the reward probabilities p of a model (Bayes' rule for a mixture, or soft assignment).
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np

from rewardmix.logs import arrow_io
from rewardmix.logs.episode_ids import ChunkOrigin
from rewardmix.logs.log import load_partition
from rewardmix.logs.log_reader import to_log
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.schema_match import check_schema_match, read_options_from_model, to_model
from rewardmix.recovery.bootstrap import model_to_mixture
from rewardmix.recovery.likelihood import Mixture, type_posteriors


def infer_types(model: Any, log: Any, *, executor: Executor | None = None, **read_options: Any) -> Any:
    """Compute the posterior probability of each type for each session of a log.

    Args:
        model: Model of the environment, or a result with one (``fit``, ``learn``).
        log: A ``Log``, ``Episodes``, or any source that ``read_log`` accepts.
        executor: A ``concurrent.futures.Executor`` or a Dask client. ``None`` uses that of the log, or this process.
        **read_options: Arguments of ``read_log``: columns, session_gap, ...; names, sizes and reward values come from
            the model.

    Returns:
        A pyarrow table with one row per session. Columns are the id (user and time of the first row too, if sessions
        were split), ``type`` (the most probable one, from 1), and ``prob_1``, ``prob_2``, ... If many sessions were
        dropped, the schema's metadata has a warning under ``left_out``.

    Raises:
        InputError: If the log does not match the states, actions or rewards of the model.
        ImportError: If pyarrow is not installed.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 1000)
        >>> table = rm.infer_types(model, episodes)
        >>> table.column_names, table.column("type").to_pylist()[:3]
        (['episode', 'type', 'prob_1', 'prob_2'], [2, 1, 1])
    """
    reward_model = to_model("model", model)
    data = to_log(log, executor, read_options_from_model(reward_model, log, read_options))
    check_schema_match("model", reward_model, data.schema)
    mixture = model_to_mixture(reward_model, data.schema)
    sizes = [len(partition) for partition in data.partitions]
    origins = data.origins or np.cumsum([0, *sizes])[:-1].tolist()
    # Episodes without ids are numbered through the whole log, so each partition starts at the sum of the sizes before
    # it.
    tables = data.executor_pool.map(_infer_partition, data.partitions, origins, common=(data.schema, mixture))
    result = arrow_io.import_pyarrow().concat_tables(list(tables), promote_options="permissive")
    headline = data.read_report.left_out.headline
    return result.replace_schema_metadata({"left_out": headline}) if headline else result


def _infer_partition(partition: Any, origin: ChunkOrigin | int, schema: LogSchema, mixture: Mixture) -> Any:
    """Compute the table of one partition; episodes without ids are numbered."""
    pa = arrow_io.import_pyarrow()
    posteriors = type_posteriors(load_partition(partition).reward_patterns(schema), mixture)
    if isinstance(origin, ChunkOrigin):
        table = origin.load_ids()
    else:
        table = pa.table({"episode": np.arange(origin, origin + len(posteriors))})
    new_columns = {"type": np.argmax(posteriors, axis=1) + 1}
    new_columns |= {f"prob_{m + 1}": np.ascontiguousarray(posteriors[:, m]) for m in range(mixture.num_types)}
    for name, values in new_columns.items():
        table = table.append_column(name, [values])
    return table
