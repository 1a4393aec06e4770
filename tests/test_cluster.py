"""Work on Dask's workers, which come, go and die: each result once, whatever happens."""

import os

import pytest

from purgegate.workers import Watch, worker_map
from tests.tasks import HERE, Dask, end, nap, needy, steps

pytest.importorskip("distributed", reason="needs dask.distributed: pip install 'purgegate[cluster]'")


@pytest.fixture(scope="module")
def local():
    """Two workers for light tasks."""
    from distributed import LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
    with LocalCluster(n_workers=2, **options) as cluster:
        yield cluster.scheduler_address


@pytest.mark.parametrize(("ordered", "expected"), [(True, [1.5, 0.0, 0.1]), (False, [0.0, 0.1, 1.5])])
def test_results_come_in_order_or_as_they_are_known(local, ordered: bool, expected: list[float]):
    with worker_map(1, cluster=local, ordered=ordered) as run:
        list(run(nap, [0.0, 0.0]))
        assert list(run(nap, [1.5, 0.0, 0.1])) == expected


def test_what_a_worker_lacks_is_sent_and_shared_once(local):
    shared = []

    def provide(task: int, share):
        if not shared:
            shared.append(share("abc"))
        return shared[0], [share(task)]

    with worker_map(1, cluster=local, ordered=False) as run:
        assert sorted(run(needy, range(6), provide=provide)) == [(n, n + 3) for n in range(6)]
    with pytest.raises(Exception, match="nothing there"), worker_map(1, cluster=local, ordered=False) as run:
        list(run(needy, [1]))


def test_long_tasks_report_how_far_they_are(local):
    heard = []
    with worker_map(1, cluster=local, ordered=False, watch=Watch(heard=heard.append)) as run:
        assert sorted(run(steps, [7, 8])) == [7, 8]
    assert {(7, 1), (8, 1)} <= {tuple(message) for message in heard}


def test_a_task_that_ends_its_workers_is_given_up_and_the_others_are_done_once(local):
    lost = []
    watch = Watch(lost=lambda task, reason: lost.append((task, reason)))
    with worker_map(1, cluster=local, ordered=False, watch=watch) as run:
        assert sorted(run(end, [0, 1, -1, 2, 3, 4])) == [0, 1, 2, 3, 4]
    ((task, reason),) = lost
    assert task == -1
    assert "on 4 different workers, but all those workers died" in reason


def test_workers_are_counted_as_they_join(tmp_path):
    dask, counts = Dask(tmp_path), []
    try:
        dask.worker()

        def joined(workers: int, page: str) -> None:
            if not counts and workers == 1:
                dask.worker()
            if workers:
                counts.append(workers)

        def tasks():
            while 2 not in counts:
                yield 0.1

        with worker_map(1, cluster=dask.address, ordered=False, watch=Watch(joined=joined)) as run:
            assert set(run(nap, tasks())) == {0.1}
        assert set(counts) == {1, 2}
    finally:
        dask.close()


def kill_in_the_middle(dask: Dask) -> None:
    with worker_map(1, cluster=dask.address, ordered=False) as run:
        for _ in run(nap, [0.1] * 1000):
            dask.scheduler.kill()


def test_a_scheduler_that_dies_is_told_in_words(tmp_path):
    dask = Dask(tmp_path)
    try:
        dask.worker()
        with worker_map(1, cluster=dask.address, ordered=False) as run:
            assert list(run(nap, [0.1])) == [0.1]
        with pytest.raises(ConnectionError, match=r"is gone: start it again, and give the same command"):
            kill_in_the_middle(dask)
    finally:
        dask.close()


SBATCH = """#!/bin/sh
for script; do :; done  # the last argument
sh "$script" >/dev/null 2>&1 &
echo $! >>{folder}/jobs
echo Submitted batch job $!
"""
QUEUE = {"jobqueue.slurm.cores": 1, "jobqueue.slurm.memory": "1GB", "jobqueue.slurm.interface": "lo"}


def test_jobs_of_a_queue_are_workers(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: pip install 'purgegate[cluster]'")
    import dask

    for name, text in (("sbatch", SBATCH.format(folder=tmp_path)), ("scancel", "#!/bin/sh\nkill $1\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.chdir(tmp_path)
    with dask.config.set(QUEUE), worker_map(1, cluster="slurm:2", ordered=False) as run:
        assert sorted(run(nap, [0.1, 0.2, 0.3])) == [0.1, 0.2, 0.3]
    assert len((tmp_path / "jobs").read_text().split()) == 2


@pytest.mark.parametrize("where", ["local:0", "local:two", "slurm:-1"])
def test_a_cluster_that_cannot_be_is_refused(where: str):
    with (
        pytest.raises(ValueError, match=r"must be ADDRESS of a running scheduler"),
        worker_map(1, cluster=where),
    ):
        pass


def test_an_address_where_nobody_answers_is_told_in_words(monkeypatch):
    monkeypatch.setattr("purgegate.cluster.PATIENCE", 1)
    with (
        pytest.raises(
            ConnectionError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9: start one with `dask"
        ),
        worker_map(1, cluster="tcp://127.0.0.1:9"),
    ):
        pass
