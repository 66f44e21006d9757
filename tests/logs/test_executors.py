"""The numbers are the same to the last bit: one process, several, two workers, four, or one that dies."""

import gc
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from oracles import log_statistics as oracles
from rewardmix import InputError, logs
from rewardmix.cli.app import exit_message
from rewardmix.logs import arrow_io, fitting
from rewardmix.logs.executors import KILLED_MESSAGE, SerialExecutor, connect_dask, iter_results, to_executor
from rewardmix.moments import Moments

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own

EPISODES = oracles.uniform_log(4000)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "a.parquet"
    logs.write_log(path, EPISODES, rows_per_group=3000)
    return path


@pytest.fixture(scope="module")
def alone(path):
    return fitted(path)


def fitted(path, **options):
    before, fitting.MAX_EPISODES_IN_MEMORY = fitting.MAX_EPISODES_IN_MEMORY, 1000
    try:
        return logs.fit(path, rows_per_partition=3000, num_resamples=0, held_out_fraction=0.0, **options)
    finally:
        fitting.MAX_EPISODES_IN_MEMORY = before


def agree(first, second):
    assert first.info.moments == second.info.moments == Moments.from_episodes(EPISODES)
    assert np.array_equal(first.model.rewards, second.model.rewards)
    assert np.array_equal(first.model.weights, second.model.weights)
    assert first.info.recovery.loglik == second.info.recovery.loglik


def test_several_processes(path, alone):
    with logs.process_pool(2) as executor:
        log = logs.read_log(path, rows_per_partition=3000, executor=executor)
        before, fitting.MAX_EPISODES_IN_MEMORY = fitting.MAX_EPISODES_IN_MEMORY, 1000
        try:
            agree(logs.fit(log, num_resamples=0, held_out_fraction=0.0), alone)
        finally:
            fitting.MAX_EPISODES_IN_MEMORY = before
        assert sorted(iter_results(executor, abs, [-3, -2])) == [2, 3]


def test_a_killed_process_costs_nothing_but_time(path, alone):
    """Its work, and what else was under way, is done again with the same bits."""
    with logs.process_pool(2) as executor:
        log = logs.read_log(path, rows_per_partition=3000, executor=executor)
        killed = []

        def kill(progress):
            if progress.stage == "em" and progress.done == 3 and not killed:
                killed.append(executor.submit(os.getpid).result())
                os.kill(killed[0], signal.SIGKILL)

        before, fitting.MAX_EPISODES_IN_MEMORY = fitting.MAX_EPISODES_IN_MEMORY, 1000
        try:
            agree(logs.fit(log, num_resamples=0, held_out_fraction=0.0, callback=kill), alone)
        finally:
            fitting.MAX_EPISODES_IN_MEMORY = before
        assert killed
        assert list(executor.map(abs, range(-3, 0))) == [3, 2, 1]
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()


def test_work_that_kills_every_process_ends_in_one_sentence():
    with logs.process_pool(1) as executor:
        with pytest.raises(ChildProcessError, match="processes: got processes that were killed, also when"):
            executor.submit(os._exit, 1).result()
        assert executor.submit(abs, -1).result() == 1
    message, code = exit_message(ChildProcessError(KILLED_MESSAGE))
    assert (message, code) == (KILLED_MESSAGE, 1)


@pytest.mark.parametrize("num_workers", [2, 4])
def test_a_cluster_and_one_that_loses_a_worker(path, alone, num_workers):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=num_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        agree(fitted(path, executor=client), alone)
        killed = []

        def kill(progress):
            if progress.stage == "em" and progress.done == 3 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        if num_workers == 2:
            agree(fitted(path, executor=client, callback=kill), alone)
            assert killed
            assert sorted(iter_results(to_executor(client), abs, [-3, -2])) == [2, 3]


def test_a_log_in_memory_moves_to_another_executor(alone):
    with logs.process_pool(1) as executor:
        log = logs.read_log(EPISODES).with_executor(executor)
        assert log.sum_int_over_partitions() == alone.info.moments


def test_no_scheduler_no_client():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="scheduler: got no answer from 'nonsense://'"):
        connect_dask("nonsense://")


@pytest.mark.parametrize("count", [1 << 31, 10_000, 0, -1, 1.5])
def test_more_processes_than_fit_are_refused_before_any_is_started(count):
    with pytest.raises(InputError, match=r"processes: got .*, expected"):
        logs.process_pool(count)


def test_a_part_is_made_again_where_its_file_is_not_seen(path):
    with ThreadPoolExecutor(2) as executor:
        log = logs.read_log(path, rows_per_partition=3000, executor=executor)
        folder = Path(log.partitions[0].path).parent
        shutil.rmtree(folder)  # as on another machine
        assert len(log.partitions) > 1
        assert log.sum_int_over_partitions() == Moments.from_episodes(EPISODES)
        table = logs.read_log(pa.table(oracles.rows_of(EPISODES)), executor=executor)
        os.remove(table.partitions[0].path)
        with pytest.raises(InputError, match=r"executor: got no partition of the log at .*, expected a temporary dir"):
            table.sum_int_over_partitions()
    shutil.rmtree(folder)


def test_threads_do_not_read_through_one_open_file(path):
    """Two that read one file at a time through one reader are told now and then that it is damaged."""
    in_this_thread = [arrow_io.open_parquet(str(path)) for _ in range(2)]
    with ThreadPoolExecutor(1) as executor:
        in_another_thread = executor.submit(arrow_io.open_parquet, str(path)).result()
    assert in_this_thread[0] is in_this_thread[1]
    assert in_another_thread is not in_this_thread[0]


def test_temporary_files_go_with_the_log(path):
    with ThreadPoolExecutor(1) as executor:
        log = logs.read_log(path, rows_per_partition=3000, executor=executor)
        folder = Path(log.partitions[0].path).parent
        assert folder.is_dir()
        del log
        gc.collect()
        assert not folder.exists()


def test_this_process_is_an_executor_like_others():
    with SerialExecutor() as executor:
        assert executor.submit(abs, -3).result() == 3
        with pytest.raises(TypeError):
            executor.submit(abs, "a").result()
        calls = []
        results = executor.map(calls.append, [1, 2])
        next(results)
        assert calls == [1]
