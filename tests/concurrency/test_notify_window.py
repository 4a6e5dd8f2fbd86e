"""At most one NOTIFY per queue in some 20 ms, and nobody waits for it: 6.2, issue 3, "Wake"."""

import random
import threading
import time
from contextlib import ExitStack

import pytest
from django.db import connections, transaction

from alkstore_django.engines.postgres.notify import LINGER_S, PATIENCE_S, WINDOW_S
from tests.postgres.conftest import direct_connection, ear
from tests.support.processes import run_python, started_python
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

JOBS = 200
WITHIN_S = 1.0
SERVE = """
import sys, time
from alkstore_django import Queue
from django.core.management import call_command
queue = Queue("timed", using="postgres")

@queue.handler
def handle(job):
    print("late", time.time() - job.payload, flush=True)

call_command("alkstore_worker", "--database", "postgres", "--queue", "timed",
             "--poll-interval", "60", "--threads", "1")
"""
WRITE = """
import random, time
from alkstore_django import Queue
queue = Queue("timed", using="postgres")
random.seed({seed})
queue.get_job(1)  # connected, and all imported: from here on only the commits count
for _ in range({count}):
    time.sleep(random.uniform(0, 0.04))
    queue.enqueue(time.time())
print("written")
"""
FLAT_OUT = """
import time
from alkstore_django import Queue
queue = Queue("busy", using="postgres")
began = time.monotonic()
count = 0
while time.monotonic() - began < {seconds}:
    queue.enqueue(None)
    count += 1
print(count)
"""
TWICE = """
from alkstore_django import Queue
queue = Queue("twice", using="postgres")
queue.enqueue(None)
queue.enqueue(None)
"""
FORK = """
import warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # by 3.12
import os, time
from alkstore_django import Queue
from alkstore_django.engines.postgres import notify
notify.WINDOW_S = 0.3  # long enough for the child to connect within it
queue = Queue("forked", using="postgres")
queue.enqueue("parent")
queue.enqueue("parent")
child = os.fork()
if child == 0:
    from django.db import connections
    connections["postgres"].connection = None  # the socket is the parent's
    queue.enqueue("child")
    time.sleep(0.6)
    queue.enqueue("child, later")
    connections["postgres"].close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
time.sleep(0.4)
queue.enqueue("parent, later")
"""


def sessions():
    """How many sessions there are on the database besides the asking one."""
    with direct_connection() as connection:
        return connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()[0]


def notify_threads():
    """The threads of this process that send what was held back."""
    return [thread for thread in threading.enumerate() if thread.name == "alkstore-notify"]


@pytest.mark.parametrize("writers", [1, 3])
def test_no_job_waits_for_the_poll(alias, make_queue, writers):
    """6.1 6.2 Issue 3: whatever falls into a window, of one process or of several, is handled within
    a second of its commit, the re-poll being a minute away."""
    queue = make_queue("timed")
    with started_python(SERVE) as worker:
        queue.enqueue(time.time())
        worker.wait_for_line("late")
        each = JOBS // writers
        with ExitStack() as stack:
            codes = [WRITE.format(seed=seed, count=each) for seed in range(writers)]
            for child in [stack.enter_context(started_python(code)) for code in codes]:
                child.wait(60)
        late = [float(worker.wait_for_line("late", 10).split()[1]) for _ in range(each * writers)]
        worker.terminate()
        worker.wait()
    assert len(late) >= JOBS - writers
    assert max(late) < WITHIN_S, sorted(late)[-5:]
    assert sorted(late)[len(late) // 2] < 0.1


def test_a_flat_out_writer(alias):
    """6.2 Issue 3: a process that does nothing but enqueue sends some fifty a second at most, and one
    after its last commit."""
    seconds = 1.0
    with ear("busy") as heard_by:
        done = run_python(FLAT_OUT.format(seconds=seconds))
        heard = heard_by.heard()
    count = int(done.stdout)
    assert count > 100
    assert seconds / WINDOW_S / 4 < len(heard) <= seconds / WINDOW_S * 1.2 + 2


def test_the_last_of_a_burst_is_told(alias, make_queue):
    """6.2 Issue 3: after the last commit of a burst one notification follows, in well under a second."""
    queue = make_queue("burst")
    with ear("burst") as heard_by:
        for _ in range(20):
            for _ in range(random.randint(2, 5)):
                queue.enqueue(None)
            before = heard_by.heard()
            time.sleep(WINDOW_S + PATIENCE_S + 0.1)
            after = heard_by.heard()
            assert len(before) + len(after) >= 2
            assert not before or after, "the last commits were not told of"
            time.sleep(random.uniform(0, 0.03))


def test_a_commit_after_a_pause_notifies_at_once(alias, make_queue):
    """6.2 Issue 3: outside of a window nothing is held back: it is there when enqueue returns."""
    queue = make_queue("calm")
    with ear("calm") as heard_by:
        for _ in range(5):
            queue.enqueue(None)
            assert heard_by.heard() == ["calm"]
            with transaction.atomic(using=alias):
                time.sleep(2 * WINDOW_S)
                queue.enqueue(None)
                assert heard_by.heard() == []
            assert heard_by.heard() == ["calm"]
            time.sleep(2 * WINDOW_S)


def test_each_queue_has_a_window_of_its_own(alias, make_queue):
    """6.2 Issue 3: what one queue sent holds no other's first notification back."""
    queues = [make_queue(f"queue {n}") for n in range(5)]
    with ear(*(f"queue {n}" for n in range(5))) as heard_by:
        for queue in queues:
            queue.enqueue(None)
        assert heard_by.heard() == [f"queue {n}" for n in range(5)]


def test_a_process_that_ends_at_once(alias):
    """6.2 Issue 3: what it held back is sent before it is gone."""
    with ear("twice") as heard_by:
        run_python(TWICE)
        assert heard_by.heard() == ["twice"] * 2


def test_a_fork_in_a_window(alias):
    """6.2 FR-104 Issue 3: a child forked within a window wakes on its own, its parent goes on."""
    with ear("forked") as heard_by:
        done = run_python(FORK)
        heard = heard_by.heard()
    assert done.stderr == ""
    assert heard == ["forked"] * 5


def test_many_threads(alias, make_queue):
    """6.2 Issue 3: the window is the process's, and the last commit of all is told of."""
    queue = make_queue("threads")
    began = time.monotonic()

    def write():
        for _ in range(50):
            queue.enqueue(None)
        connections[alias].close()

    with ear("threads") as heard_by:
        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        took = time.monotonic() - began
        before = heard_by.heard()
        time.sleep(WINDOW_S + PATIENCE_S + 0.1)
        after = heard_by.heard()
    assert len(before) + len(after) <= took / WINDOW_S + 3
    assert len(before) + len(after) >= 2
    assert len(after) <= 1


def test_nothing_of_it_stays(alias, make_queue):
    """6.2 FR-106 Issue 3: the thread and the connection of a burst are gone soon after it."""
    queue = make_queue("burst")
    queue.enqueue(None)
    before = sessions()
    for _ in range(50):
        queue.enqueue(None)
    assert notify_threads()
    eventually(lambda: not notify_threads(), within_s=2)
    eventually(lambda: sessions() <= before, within_s=2)


def test_bursts_come_and_go(alias, make_queue):
    """6.2 Issue 3: a burst that begins while the last one's thread is about to go is told of, too."""
    queue = make_queue("burst")
    with ear("burst") as heard_by:
        for turn in range(12):
            queue.enqueue(None)
            queue.enqueue(None)
            time.sleep(WINDOW_S + PATIENCE_S + LINGER_S + (turn - 6) * 0.004)
            assert heard_by.heard() == ["burst"] * 2, turn
