"""Whoever does the work, the numbers are the same: one process, several, two workers, four, or one that dies."""

import os
import signal

import numpy as np
import pytest

from logs import oracles_logs as oracles
from rewardmix import InputError, logs
from rewardmix.logs import fitting
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
    assert np.allclose(one.model.rewards, two.model.rewards, rtol=0, atol=1e-9)
    assert one.info.recovery.loglik == pytest.approx(two.info.recovery.loglik, rel=1e-12)


def test_several_processes(path, alone):
    with logs.Processes(2) as crew:
        log = logs.read(path, rows_per_part=3000, crew=crew)
        before, fitting.SAMPLE = fitting.SAMPLE, 1000
        try:
            agree(logs.fit(log, resamples=0, share_held_out=0.0), alone)
        finally:
            fitting.SAMPLE = before
        assert sorted(crew.as_done(abs, [-3, -2])) == [(0, 3), (1, 2)]


@pytest.mark.parametrize("workers", [2, 4])
def test_a_cluster_and_one_that_loses_a_worker(path, alone, workers):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        agree(fitted(path, client=client), alone)
        killed = []

        def kill(progress):
            if progress.stage == "climb" and progress.done == 3 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        if workers == 2:
            agree(fitted(path, client=client, on_update=kill), alone)
            assert killed
            assert sorted(logs.Cluster(client).as_done(abs, [-3, -2])) == [(0, 3), (1, 2)]


def test_a_log_in_memory_moves_to_another_crew(alone):
    with logs.Processes(1) as crew:
        log = logs.read(EPISODES).moved(crew)
        assert log.count() == alone.info.moments


def test_no_scheduler_no_client():
    pytest.importorskip("distributed")
    from rewardmix.logs.workers import connected

    with pytest.raises(InputError, match="scheduler: found no answer from 'nonsense://'"):
        connected("nonsense://")


@pytest.mark.parametrize("count", [1 << 31, 10_000, 0, -1, 1.5])
def test_more_processes_than_fit_are_refused_before_any_is_started(count):
    with pytest.raises(InputError, match=r"processes: found .*, expected"):
        logs.Processes(count)
