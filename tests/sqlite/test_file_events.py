"""Being told of writes by the kernel: 6.3, issue 3, "Wake"."""

import contextlib
import fcntl
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from alkstore_django.engines.sqlite import file_events, wake
from alkstore_django.engines.sqlite.file_events import FileEvents
from tests.sqlite.conftest import direct_connection
from tests.support.processes import run_python

PATIENCE_S = 20
AT_ONCE_S = 0.5
HAS_INOTIFY = sys.platform.startswith("linux")
ELSEWHERE = """
import sqlite3, sys
connection = sqlite3.connect({file!r}, isolation_level=None)
connection.execute("PRAGMA journal_mode = {mode}")
connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
connection.execute("INSERT INTO t VALUES (1)")
connection.close()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a database file in it, whose name SQLite accepts and shells do not like."""
    made = tmp_path / "a folder; of 'mine'"
    made.mkdir()
    (made / "café.sqlite3").touch()
    return made


@pytest.fixture
def events(folder):
    """The events of that file."""
    watched = FileEvents(str(folder / "café.sqlite3"))
    yield watched
    watched.close()


def descriptors() -> set[str]:
    """This process's descriptors of inotify."""
    if not HAS_INOTIFY:
        return set()
    numbers = os.listdir("/proc/self/fd")
    return {number for number in numbers if "inotify" in _target(number)}


def _target(number: str) -> str:
    with contextlib.suppress(FileNotFoundError):  # the one that has read the folder
        return os.readlink(f"/proc/self/fd/{number}")
    return ""


def test_available_where_the_kernel_offers_it(events):
    """6.3 Issue 3: on Linux the kernel tells."""
    assert events.available is HAS_INOTIFY


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
def test_a_write_to_the_file_or_its_companions(folder, events, suffix):
    """6.3 Issue 3: a write ends the wait at once, whichever of the files it goes to."""
    (folder / f"café.sqlite3{suffix}").write_bytes(b"x")
    assert events.wait(PATIENCE_S) is HAS_INOTIFY


@pytest.mark.parametrize("name", ["other.sqlite3", "café.sqlite3-shm", "café", "café.sqlite3-wal2"])
def test_foreign_files_in_the_folder(folder, events, name):
    """6.3 Issue 3: what others write beside it is nobody's wake."""
    (folder / name).write_bytes(b"x")
    assert events.wait(0) is False


def test_ours_among_foreign_ones(folder, events):
    """6.3 Issue 3: in a folder full of other writes, ours is still told of."""
    for number in range(200):
        (folder / f"{number}").write_bytes(b"x")
    (folder / "café.sqlite3-wal").write_bytes(b"x")
    assert events.wait(0) is HAS_INOTIFY


def test_a_file_that_is_moved_into_place(folder, events):
    """6.3 Issue 3: a database restored by a rename is a write, too."""
    while events.wait(0):
        continue
    (folder / "restored").write_bytes(b"x")
    (folder / "restored").rename(folder / "café.sqlite3")
    assert events.wait(0) is HAS_INOTIFY


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_write_by_another_process(folder, events, mode):
    """6.3 Issue 3: commits of other processes are told of, in either journal mode."""
    run_python(ELSEWHERE.format(file=str(folder / "café.sqlite3"), mode=mode))
    assert events.wait(PATIENCE_S) is HAS_INOTIFY


def test_a_write_that_comes_during_the_wait(folder, events):
    """6.3 Issue 3: it ends the wait long before its time is over."""
    writer = threading.Timer(0.05, (folder / "café.sqlite3-wal").write_bytes, [b"x"])
    writer.start()
    began = time.monotonic()
    told = events.wait(PATIENCE_S if events.available else 0)
    assert told is HAS_INOTIFY
    assert time.monotonic() - began < PATIENCE_S / 2
    writer.join()


def test_nothing_is_told_of_twice(folder, events):
    """6.3 Issue 3: what was told of is over; the next wait is for the next write."""
    (folder / "café.sqlite3").write_bytes(b"x")
    events.wait(0)
    assert events.wait(0) is False


def test_a_watcher_at_a_high_descriptor(folder, events):
    """6.3 Issue 3: in a process with more than a thousand files open it works as well."""
    if events.available:
        low = events._descriptor
        events._descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 2_000)
        os.close(low)
    (folder / "café.sqlite3").write_bytes(b"x")
    assert events.wait(0) is HAS_INOTIFY


def test_it_is_not_inherited(events):
    """FR-104 Issue 3: a process that is started meanwhile does not hold the descriptor."""
    if events.available:
        assert os.get_inheritable(events._descriptor) is False
        assert os.get_blocking(events._descriptor) is False


# -- where there is nothing of the kind ----------------------------------------------------


class Refusing:
    """A C library whose kernel has no inotify instance, or no watch, to give."""

    def __init__(self, *, at):
        self._at = at

    def __call__(self, *args, **options):
        return self

    def inotify_init1(self, flags):
        return -1 if self._at == "init" else os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def inotify_add_watch(self, descriptor, folder, mask):
        return -1


@pytest.fixture(params=["init", "watch", "platform"])
def refused(request, monkeypatch):
    """No inotify: refused by the kernel at either step, or another system."""
    if request.param == "platform":
        monkeypatch.setattr(file_events.sys, "platform", "darwin")
    else:
        monkeypatch.setattr(file_events.ctypes, "CDLL", Refusing(at=request.param))


def test_without_inotify(folder, refused):
    """6.3 Issue 3: then ``available`` says so, a wait only waits, and nothing is left open."""
    before = os.listdir("/proc/self/fd") if HAS_INOTIFY else []
    events = FileEvents(str(folder / "café.sqlite3"))
    assert events.available is False
    assert events.wait(0) is False
    events.close()
    assert (os.listdir("/proc/self/fd") if HAS_INOTIFY else []) == before


def test_a_missing_folder(folder):
    """6.3 Issue 3: what is not there cannot be watched; that is no error."""
    events = FileEvents(str(folder / "nowhere" / "db.sqlite3"))
    assert events.available is False
    events.close()


# -- the wake upon it ----------------------------------------------------------------------


def quiet(listener):
    while listener.wait(0.4):
        pass


def commit_elsewhere():
    with direct_connection() as connection:
        connection.execute("INSERT INTO testapp_note (text) VALUES ('x')")


def test_the_fallback_wakes(alias, make_queue, refused):
    """6.3 Issue 3: without inotify a commit of another connection wakes as well."""
    with make_queue().listen() as listener:
        quiet(listener)
        commit_elsewhere()
        assert listener.wait(PATIENCE_S) is True


def test_the_wake_does_not_wait_for_the_next_look(alias, make_queue, monkeypatch):
    """6.3 Issue 3: with inotify an idle watcher is woken by the write, not by its clock."""
    if HAS_INOTIFY:
        monkeypatch.setattr(wake, "LAZY_POLL_S", 2.0)
    with make_queue().listen() as listener:
        quiet(listener)
        began = time.monotonic()
        commit_elsewhere()
        assert listener.wait(PATIENCE_S) is True
        assert time.monotonic() - began < AT_ONCE_S


def test_the_descriptors_are_closed(alias, make_queue):
    """6.3 Issue 3: the last listener's end leaves nothing open, however often it goes."""
    before = descriptors()
    for _ in range(5):
        with make_queue().listen(), make_queue("other").listen():
            assert len(descriptors() - before) == int(HAS_INOTIFY)
    assert descriptors() == before


def test_nothing_leaks_while_the_file_is_no_database(alias, tmp_path, monkeypatch):
    """6.3 FR-046 Issue 3: each vain try to open a spoilt file closes what it has opened."""
    spoilt = tmp_path / "spoilt.sqlite3"
    spoilt.write_bytes(b"no database at all" * 100)
    monkeypatch.setattr(wake, "database_file", lambda using: str(spoilt))
    before = descriptors()
    for _ in range(3):
        with pytest.raises(wake.sqlite3.DatabaseError):
            wake._Reader(alias)
    assert descriptors() == before
