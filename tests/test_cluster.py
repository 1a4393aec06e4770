"""Work on Dask's workers, which come, go and die: each result once, whatever happens."""

import pytest

from purgegate.version import __version__
from purgegate.workers import Watch, worker_map
from tests.tasks import Dask, end, measure, nap, needy, shadow, steps

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


def test_a_task_that_ends_its_workers_is_given_up_after_three_retries(tmp_path):
    lost, deaths = [], tmp_path / "deaths"
    watch = Watch(lost=lambda task, reason: lost.append((task[0], reason)))
    tasks = [(number, str(deaths)) for number in (0, 1, -1, 2, 3, 4)]
    with worker_map(1, cluster="local:2", ordered=False, watch=watch) as run:
        assert sorted(run(end, tasks)) == [0, 1, 2, 3, 4]
    ((number, reason),) = lost
    assert number == -1
    assert "on 4 different workers, but all those workers died" in reason
    assert deaths.read_text().split() == ["-1"] * 4


def test_tasks_that_waited_where_another_ended_the_worker_are_not_given_up(tmp_path):
    lost, deaths = [], tmp_path / "deaths"
    watch = Watch(lost=lambda task, reason: lost.append(task[0]))
    tasks = [(number, str(deaths)) for number in (-1, 0, 1)]
    with worker_map(1, cluster="local:1", ordered=False, watch=watch) as run:
        run.crew.spare = 2  # all at once on one worker
        assert sorted(run(end, tasks)) == [0, 1]
    assert lost == [-1]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(("version", "named"), [("0.0.9", "purgegate 0.0.9"), (None, "no purgegate")])
def test_a_worker_with_another_version_or_none_is_refused_in_words(tmp_path, version, named, ordered: bool):
    dask = Dask(tmp_path)
    try:
        dask.worker(cwd=tmp_path, path=shadow(tmp_path, version=version))
        with (
            pytest.raises(ValueError, match=rf"has {named}, but {__version__} is wanted: install that there"),
            worker_map(1, cluster=dask.address, ordered=ordered) as run,
        ):
            list(run(nap, [0.1]))
    finally:
        dask.close()


def test_what_is_shared_reaches_each_worker_once(local):
    from distributed import Client

    with Client(local, set_as_default=False) as client:

        def received() -> list[int]:
            found = client.run(lambda dask_worker: dask_worker.state.transfer_incoming_count_total)
            return list(found.values())

        before = received()
        with worker_map(1, cluster=local, ordered=False) as run:
            shared = run.share(["x" * 1_000_000])
            assert set(run(measure, [(shared, 0.2)] * 8)) == {1_000_000}
            after = received()
    assert sum(after) - sum(before) == 1  # one of the two has had it from the beginning


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


def test_a_scheduler_that_dies_is_told_in_words_and_nothing_else_is_printed(tmp_path, caplog):
    dask = Dask(tmp_path)
    try:
        dask.worker()
        with worker_map(1, cluster=dask.address, ordered=False) as run:
            assert list(run(nap, [0.1])) == [0.1]
        with pytest.raises(ConnectionError, match=r"is gone: start it again, and give the same command"):
            kill_in_the_middle(dask)
        assert not [record for record in caplog.records if record.name == "distributed.client"]
    finally:
        dask.close()


def test_an_address_where_nobody_answers_is_told_in_words(monkeypatch):
    monkeypatch.setattr("purgegate.cluster.PATIENCE", 1)
    with (
        pytest.raises(
            ConnectionError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9: start one with `dask"
        ),
        worker_map(1, cluster="tcp://127.0.0.1:9"),
    ):
        pass
