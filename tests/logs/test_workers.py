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

from logs import oracles_logs as oracles
from rewardmix import InputError, logs
from rewardmix.cli.app import outcome
from rewardmix.logs import arrow, fitting
from rewardmix.logs.workers import KILLED, SerialExecutor, as_executor, as_finished, connected
from rewardmix.moments import Moments

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own

EPISODES = oracles.uniform_log(4000)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "a.parquet"
    logs.write(path, EPISODES, rows_per_group=3000)
    return path


@pytest.fixture(scope="module")
def alone(path):
    return fitted(path)


def fitted(path, **options):
    before, fitting.SAMPLE = fitting.SAMPLE, 1000
    try:
        return logs.fit(path, rows_per_part=3000, resamples=0, share_held_out=0.0, **options)
    finally:
        fitting.SAMPLE = before


def agree(one, two):
    assert one.info.moments == two.info.moments == Moments.of(EPISODES)
    assert np.array_equal(one.model.rewards, two.model.rewards)
    assert np.array_equal(one.model.weights, two.model.weights)
    assert one.info.recovery.loglik == two.info.recovery.loglik


def test_several_processes(path, alone):
    with logs.process_pool(2) as executor:
        log = logs.read(path, rows_per_part=3000, executor=executor)
        before, fitting.SAMPLE = fitting.SAMPLE, 1000
        try:
            agree(logs.fit(log, resamples=0, share_held_out=0.0), alone)
        finally:
            fitting.SAMPLE = before
        assert sorted(as_finished(executor, abs, [-3, -2])) == [2, 3]


def test_a_killed_process_costs_nothing_but_time(path, alone):
    """Its work, and what else was under way, is done again with the same bits."""
    with logs.process_pool(2) as executor:
        log = logs.read(path, rows_per_part=3000, executor=executor)
        killed = []

        def kill(progress):
            if progress.stage == "ascend" and progress.done == 3 and not killed:
                killed.append(executor.submit(os.getpid).result())
                os.kill(killed[0], signal.SIGKILL)

        before, fitting.SAMPLE = fitting.SAMPLE, 1000
        try:
            agree(logs.fit(log, resamples=0, share_held_out=0.0, on_update=kill), alone)
        finally:
            fitting.SAMPLE = before
        assert killed
        assert list(executor.map(abs, range(-3, 0))) == [3, 2, 1]
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()


def test_work_that_kills_every_process_ends_in_one_sentence():
    with logs.process_pool(1) as executor:
        with pytest.raises(ChildProcessError, match="processes: found the processes at work killed, and killed again"):
            executor.submit(os._exit, 1).result()
        assert executor.submit(abs, -1).result() == 1
    message, code = outcome(ChildProcessError(KILLED))
    assert (message, code) == (KILLED, 1)


@pytest.mark.parametrize("workers", [2, 4])
def test_a_cluster_and_one_that_loses_a_worker(path, alone, workers):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        agree(fitted(path, executor=client), alone)
        killed = []

        def kill(progress):
            if progress.stage == "ascend" and progress.done == 3 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        if workers == 2:
            agree(fitted(path, executor=client, on_update=kill), alone)
            assert killed
            assert sorted(as_finished(as_executor(client), abs, [-3, -2])) == [2, 3]


def test_a_log_in_memory_moves_to_another_executor(alone):
    with logs.process_pool(1) as executor:
        log = logs.read(EPISODES).moved(executor)
        assert log.count() == alone.info.moments


def test_no_scheduler_no_client():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="scheduler: found no answer from 'nonsense://'"):
        connected("nonsense://")


@pytest.mark.parametrize("count", [1 << 31, 10_000, 0, -1, 1.5])
def test_more_processes_than_fit_are_refused_before_any_is_started(count):
    with pytest.raises(InputError, match=r"processes: found .*, expected"):
        logs.process_pool(count)


def test_a_part_is_made_again_where_its_file_is_not_seen(path):
    with ThreadPoolExecutor(2) as executor:
        log = logs.read(path, rows_per_part=3000, executor=executor)
        folder = Path(log.parts[0].path).parent
        shutil.rmtree(folder)  # as on another machine
        assert len(log.parts) > 1
        assert log.count() == Moments.of(EPISODES)
        table = logs.read(pa.table(oracles.rows_of(EPISODES)), executor=executor)
        os.remove(table.parts[0].path)
        with pytest.raises(InputError, match=r"executor: found no part of the log at .*, expected a temporary dir"):
            table.count()
    shutil.rmtree(folder)


def test_threads_do_not_read_through_one_open_file(path):
    """Two that read one file at a time through one reader are told now and then that it is damaged."""
    here = [arrow.open_parquet(str(path)) for _ in range(2)]
    with ThreadPoolExecutor(1) as executor:
        there = executor.submit(arrow.open_parquet, str(path)).result()
    assert here[0] is here[1]
    assert there is not here[0]


def test_temporary_files_go_with_the_log(path):
    with ThreadPoolExecutor(1) as executor:
        log = logs.read(path, rows_per_part=3000, executor=executor)
        folder = Path(log.parts[0].path).parent
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
