"""When a process makes room for another, and the file that shows its health: 7.1, 7.4."""

import os
import signal

import pytest
from django.core.management import CommandError

from alkstore_django import StopToken
from alkstore_django.management.commands._worker_plan import check_processes, health_file
from alkstore_django.worker import recycling
from alkstore_django.worker.health import HealthFile, at_most_every
from alkstore_django.worker.processes import _signal_name, fork_fault
from alkstore_django.worker.recycling import Recycler, RecyclingLimits, resident_memory_mb, settled
from alkstore_django.worker.tally import Tally


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def make():
    """Make a recycler: ``make(max_jobs=..) -> (recycler, tally, stop)``."""

    def build(resident_mb=lambda: 10, clock=None, **limits):
        tally, stop = Tally(), StopToken()
        recycler = Recycler(
            tally,
            RecyclingLimits(**limits),
            stop,
            resident_mb=resident_mb,
            clock=clock or Clock(),
        )
        return recycler, tally, stop

    return build


def test_after_so_many_jobs(make):
    """7.1 Settled jobs count, whatever their outcome; those given back do not."""
    recycler, tally, stop = make(max_jobs=4)
    for outcome in ("acked", "retried", "died", "given_back"):
        tally.add("jobs", outcome)
        recycler()
    assert not stop.stopped and settled(tally) == 3
    tally.add("others", "lost")
    recycler()
    assert stop.stopped and recycler.has_stopped


def test_over_so_much_memory(make):
    """7.1 More than the limit is over it, the limit itself is not."""
    size = [100]
    clock = Clock()
    recycler, tally, stop = make(lambda: size[0], clock, max_memory_mb=100)
    tally.add("jobs", "acked")
    recycler()
    size[0] = 101
    recycler()
    assert not stop.stopped  # looked at once a second
    clock.now += recycling.LOOK_AT_MEMORY_EVERY_S
    recycler()
    assert stop.stopped


def test_not_before_a_job(make):
    """7.1 A process that is large from the start does a job before it is replaced: no spin of forks."""
    recycler, tally, stop = make(lambda: 500, max_memory_mb=100)
    recycler()
    assert not stop.stopped
    tally.add("jobs", "acked")
    recycler()
    assert stop.stopped


def test_without_limits(make):
    """7.1 Without limits nobody is replaced and no memory is looked at."""
    recycler, tally, stop = make(lambda: 1 / 0)
    tally.add("jobs", "acked", 10**9)
    recycler()
    assert not stop.stopped
    assert not RecyclingLimits()
    assert RecyclingLimits(max_jobs=1) and RecyclingLimits(max_memory_mb=1)


def test_a_stop_that_was_asked_for_stays_that(make):
    """7.4 Who is already stopping does not call it making room."""
    recycler, tally, stop = make(max_jobs=1)
    stop.stop()
    tally.add("jobs", "acked")
    recycler()
    assert not recycler.has_stopped


def test_resident_memory(monkeypatch):
    """FR-107 The size is a plausible one, also where there is no /proc."""
    assert 10 < resident_memory_mb() < 4000
    assert 10 < recycling._peak_mb() < 4000

    def no_proc(*args):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", no_proc)
    assert resident_memory_mb() == recycling._peak_mb()


def test_a_limit_below_the_start(monkeypatch):
    """FR-007 A memory limit that is too low from the start is the user's mistake, told at once."""
    with pytest.raises(CommandError, match="--max-memory-mb 1 "):
        check_processes(RecyclingLimits(max_memory_mb=1))
    check_processes(RecyclingLimits(max_jobs=1))


def test_where_nothing_forks(monkeypatch):
    """FR-107 Where the system cannot fork, several processes are refused in one line."""
    monkeypatch.delattr(os, "fork")
    assert fork_fault() is not None
    with pytest.raises(CommandError, match="cannot fork"):
        check_processes(RecyclingLimits())


def test_names_of_signals():
    """7.4 A death is told by the signal's name, if it has one."""
    assert _signal_name(signal.SIGKILL) == "SIGKILL"
    assert _signal_name(200) == "signal 200"


# -- the health file ------------------------------------------------------------------------


def test_made_touched_removed(tmp_path):
    """7.4 The first beat makes the file, with the time of the beat; the end removes it."""
    path = tmp_path / "health"
    file = HealthFile(str(path))
    file.prepare()
    assert list(tmp_path.iterdir()) == []
    for at in (1_800_000_000, 1_800_000_007.5):
        file.touch(at)
        assert path.stat().st_mtime == at
        assert path.read_text() == f"{os.getpid()}\n"
    path.unlink()  # somebody's cleaning
    file.touch(1_800_000_009)
    assert [entry.name for entry in tmp_path.iterdir()] == ["health"]
    file.remove()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_worker_left(tmp_path):
    """7.4 A file of a worker that was killed does not make this one look well before it is."""
    path = tmp_path / "health"
    path.write_text("old")
    path.with_name(f"health.{os.getpid()}").write_text("half of it")
    health_file(str(path))
    assert list(tmp_path.iterdir()) == []
    assert health_file(None) is None


def test_a_link_is_not_followed(tmp_path):
    """7.4 A link in the file's place is replaced, and what it points to is left alone."""
    other, path = tmp_path / "other", tmp_path / "health"
    other.write_text("precious")
    path.symlink_to(other)
    HealthFile(str(path)).prepare()
    HealthFile(str(path)).touch(5)
    assert other.read_text() == "precious" and not path.is_symlink()


def test_a_place_where_nothing_can_be_made(tmp_path):
    """FR-007 A health file that cannot be written ends the command before it claims anything."""
    for path in (tmp_path / "missing" / "health", tmp_path):
        with pytest.raises(CommandError, match="--health-file"):
            health_file(str(path))


def test_a_place_that_goes_away(tmp_path, caplog):
    """FR-154 A beat that cannot be written is told once per loss, and stops no worker."""
    folder = tmp_path / "run"
    folder.mkdir()
    file = HealthFile(str(folder / "health"))
    folder.rmdir()
    for _ in range(3):
        file.touch(5)
    assert caplog.text.count("Health file cannot be written") == 1
    folder.mkdir()
    file.touch(6)
    file.remove()
    folder.rmdir()
    file.touch(7)
    assert caplog.text.count("Health file cannot be written") == 2


def test_not_more_often_than_that():
    """7.4 A beat per turn is a touch per second, the first at once."""
    clock, calls = Clock(), []
    call = at_most_every(1.0, lambda: calls.append(clock.now), clock)
    for now in (0.0, 0.5, 0.99, 1.0, 1.5, 7.0):
        clock.now = now
        call()
    assert calls == [0.0, 1.0, 7.0]
