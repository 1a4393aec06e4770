"""What `--cluster` names: what is no cluster is refused, and jobs of a queue are workers."""

import os
import signal
import time
from pathlib import Path

import pytest

from purgegate.schedulers import read_where
from purgegate.workers import worker_map
from tests.slurm import Slurm
from tests.tasks import HERE, nap

QUEUE = {
    "jobqueue.slurm.cores": 1,
    "jobqueue.slurm.memory": "1GB",
    "jobqueue.slurm.interface": "lo",
    "distributed.deploy.lost-worker-timeout": "300ms",
}


@pytest.mark.parametrize(
    "where", ["", "head", "local:", "local:0", "local:two", "local:2/3", "slurm:-1", "tcp://head", "a b:1"]
)
def test_a_cluster_that_cannot_be_is_refused(where: str):
    with (
        pytest.raises(ValueError, match=r"must be ADDRESS of a running scheduler .* got '" + where),
        worker_map(1, cluster=where),
    ):
        pass


def test_what_to_start_and_how_many_are_read():
    assert [tuple(read_where(each)) for each in ("local", "local:3", "slurm:64")] == [
        ("local", None),
        ("local", 3),
        ("slurm", 64),
    ]
    for address in ("tcp://head:8786", "head:8786", "tls://[::1]:8786"):
        assert read_where(address) == ("", None)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: pip install 'purgegate[cluster]'")
    import dask
    import dask_jobqueue  # noqa: F401 (brings the defaults of its configuration)

    found = Slurm(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.chdir(tmp_path)
    with dask.config.set(QUEUE):
        yield found
    found.close()


def ended(job: int) -> bool:
    """Whether no process of a job is left, soon."""
    for _ in range(100):
        if not any(
            f" {job} " in stat.read_text().split(")")[-1] for stat in Path("/proc").glob("[0-9]*/stat")
        ):
            return True
        time.sleep(0.1)
    return False


def test_jobs_of_a_queue_are_workers_until_the_work_is_done(slurm):
    before = signal.getsignal(signal.SIGINT)
    with worker_map(1, cluster="slurm:2", ordered=False) as run:
        assert sorted(run(nap, [0.1, 0.2, 0.3])) == [0.1, 0.2, 0.3]
    assert len(slurm.jobs()) == 2
    assert all(ended(job) for job in slurm.jobs())
    assert signal.getsignal(signal.SIGINT) is before


def test_every_core_of_a_job_is_a_worker_unless_its_description_says_otherwise(slurm):
    import dask

    with dask.config.set({"jobqueue.slurm.cores": 3}), worker_map(1, cluster="slurm:1", ordered=False) as run:
        list(run(nap, [0.1]))
    (script,) = slurm.scripts()
    assert "--nthreads 1" in script
    assert "--nworkers 3" in script
    assert "#SBATCH --cpus-per-task=3" in script


def test_a_job_whose_time_is_over_is_given_in_again(slurm, monkeypatch):
    monkeypatch.setattr("purgegate.cluster.RENEWAL", 0.5)
    done = 0
    with worker_map(1, cluster="slurm:1", ordered=False) as run:
        for _ in run(nap, [0.1] * 6):
            done += 1
            if done == 2:
                slurm.end(*slurm.jobs())
    assert done == 6
    assert len(slurm.jobs()) == 2


def test_a_queue_that_does_not_take_the_jobs_is_told_in_its_words(slurm):
    import dask

    with (
        dask.config.set({"jobqueue.slurm.queue": "none"}),
        pytest.raises(OSError, match=r"give its jobs to sbatch: .*Invalid partition name specified"),
        worker_map(1, cluster="slurm:1"),
    ):
        pass


def test_a_queue_that_is_not_described_is_told_in_words(slurm):
    import dask

    with (
        dask.config.set({"jobqueue.slurm.memory": None}),
        pytest.raises(
            ValueError, match=r"needs the cores and memory of a job in ~/\.config/dask/jobqueue\.yaml"
        ),
        worker_map(1, cluster="slurm:1"),
    ):
        pass
