"""Schedulers as real processes: killed, stopped, overtaken, handed over. 4.4, 4.5, FR-114, issue 4."""

import io
import os
import signal
import time

import pytest
from django.core.management import call_command
from django.db import connections

from alkstore_django import schedule, unschedule
from alkstore_django.engines.registry import engine_for
from tests.support import ground
from tests.support.processes import started_python
from tests.support.rows import live_rows, schedule_row
from tests.support.waiting import eventually

LEASE_S = 3
"""Short, but not so short that a busy machine costs a leader its lease."""

# What a scheduler is to do in the middle of a tick is in its arguments.
RUN = """
import os, signal, sys, time
from django.conf import settings
alias, after, blow, lease_s, *options = sys.argv[1:]
store = {"LEASE_S": float(lease_s), "POLL_INTERVAL_S": 0.2}
settings.ALKSTORE = {name: {**settings.ALKSTORE[name], **store} for name in settings.ALKSTORE}

from alkstore_django.scheduling import ticking
from alkstore_django.engines.registry import engine_for

def strike():
    print("struck", flush=True)
    os.kill(os.getpid(), getattr(signal, blow))

schedules = engine_for(alias).schedules
real_visit, real_advance = ticking.Ticker._visit, schedules.advance

def visit(self, visit, *args, **kwargs):
    real_visit(self, visit, *args, **kwargs)
    if after == "visit" and visit.done:
        strike()

def advance(advances):
    done = real_advance(advances)
    if after == "advance" and done:
        strike()
    return done

ticking.Ticker._visit, schedules.advance = visit, advance
from django.core.management import execute_from_command_line
import alkstore_django.management.commands.alkstore_schedules
print("loaded", flush=True)
sys.stdin.readline()
execute_from_command_line(["m", "alkstore_schedules", "--database", alias, *options])
"""
PRELUDE = "import django; django.setup()\n"


@pytest.fixture
def start(alias):
    """Load a scheduler, which begins when it is told to ``go``; with ``after`` and ``blow``, one
    that sends itself a signal in a tick."""

    def run(*options, after="never", blow="SIGKILL", lease_s=LEASE_S):
        return started_python(["-c", PRELUDE + RUN, alias, after, blow, str(lease_s), *options])

    return run


def go(*children):
    """Let loaded schedulers begin."""
    for child in children:
        child.wait_for_line("loaded")
        child.say("go")


@pytest.fixture(autouse=True)
def new_connection(alias):
    yield
    connections[alias].close()


def n_fired(alias, name="s"):
    return schedule_row(alias, name)["n_fired"]


def audit(alias, *names):
    """All adds up, and the jobs that are there are those of the ledger, none twice."""
    call_command("alkstore_schedules", "--audit", database=alias, stdout=io.StringIO())
    rows = live_rows(alias)
    for name in names:
        line = next(line for line in engine_for(alias).schedules.audit() if line.name == name)
        boundaries = [row["run_at"] for row in rows if row["queue"] == name]
        assert len(boundaries) == len(set(boundaries)) == line.n_fired
        assert line.n_skipped == 0
        first = schedule_row(alias, name)["first_boundary_at"]
        interval = schedule_row(alias, name)["interval_s"]
        assert boundaries == list(range(first, line.next_boundary_at, interval))


def add(alias, name="s", spec="@every 1s"):
    schedule(name, spec, name, None, using=alias)


@pytest.mark.parametrize("after", ["advance", "visit"])
def test_killed_in_a_tick(alias, start, after):
    """4.5 Issue 4: kill -9 in the middle of a tick, and between tick and commit: fired by the next
    one, once, within the lease time."""
    add(alias)
    with start(after=after) as doomed, start() as heir:
        go(doomed)
        doomed.wait_for_line("struck")
        go(heir)
        heir.wait_for_line("Leading", timeout_s=20)
        eventually(lambda: n_fired(alias) >= 2)
        heir.terminate()
        heir.wait()
        doomed.wait(code=-signal.SIGKILL)
    audit(alias, "s")


def leads(child):
    """Whether a scheduler has said that it leads."""
    return "Leading" in child.stdout


def test_the_stand_by_takes_over_after_a_kill(alias, start):
    """4.4 Issue 4: within the lease time, and a poll; the rest is for a busy machine."""
    add(alias)
    with start() as first, start() as second:
        go(first)
        first.wait_for_line("Leading")
        go(second)
        second.wait_for_line("standing by")
        first.kill()
        killed_at = time.monotonic()
        eventually(lambda: leads(second))
        assert time.monotonic() - killed_at < LEASE_S + 0.2 + 5
        eventually(lambda: n_fired(alias) >= 3)
        second.terminate()
        second.wait()
    audit(alias, "s")


def test_the_stand_by_takes_over_after_a_clean_stop(alias, start):
    """4.4 Issue 4: at once, by the wake, and not when the lease would have expired."""
    add(alias)
    with start(lease_s=60) as first, start(lease_s=60) as second:
        go(first)
        first.wait_for_line("Leading")
        go(second)
        second.wait_for_line("standing by")
        first.terminate()
        second.wait_for_line("Leading", timeout_s=10)
        first.wait()
        eventually(lambda: n_fired(alias) >= 1)
        second.terminate()
        second.wait()
    audit(alias, "s")


def test_stopped_beyond_its_lease(alias, start):
    """4.4 FR-042 Issue 4: SIGSTOP past the lease, then CONT: another has led meanwhile; the first
    one fires nothing, and ends with one line and code 1."""
    add(alias)
    with start() as sleeper, start() as heir:
        go(sleeper)
        sleeper.wait_for_line("Leading")
        go(heir)
        heir.wait_for_line("standing by")
        os.kill(sleeper.pid, signal.SIGSTOP)
        heir.wait_for_line("Leading", timeout_s=20)
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.wait(code=1)
        assert "leadership of '__alkstore_scheduler' was lost" in sleeper.stderr
        assert "Traceback" not in sleeper.stderr
        fired = n_fired(alias)
        eventually(lambda: n_fired(alias) > fired)
        heir.terminate()
        heir.wait()
    audit(alias, "s")


def test_stopped_in_the_middle_of_a_tick(alias, start):
    """4.5 Issue 4: SIGSTOP within the transaction, beyond the lease. Whatever it holds meanwhile, each
    boundary has one job in the end."""
    add(alias)
    add(alias, "t", "@every 1s")
    with start(after="advance", blow="SIGSTOP") as sleeper, start("--on-lost", "stand-by") as heir:
        go(sleeper)
        sleeper.wait_for_line("struck")
        go(heir)
        if engine_for(alias).supports_parallel_writers:
            heir.wait_for_line("Leading", timeout_s=20)
        time.sleep(LEASE_S + 0.5)
        os.kill(sleeper.pid, signal.SIGCONT)
        eventually(lambda: n_fired(alias) >= 3 and n_fired(alias, "t") >= 3)
        heir.terminate()
        heir.wait()
    audit(alias, "s", "t")


def test_edited_while_running(alias, start):
    """4.3 FR-112 FR-114 Issue 4: registered again all the time, its interval changed, others added
    and removed, while two schedulers run."""
    add(alias, "kept")
    with start() as one, start() as other:
        go(one, other)
        eventually(lambda: n_fired(alias, "kept") >= 1)
        ends_at = time.monotonic() + 2.5
        turn = 0
        while time.monotonic() < ends_at:
            turn += 1
            add(alias, "kept")
            add(alias, "edited", f"@every {turn % 2 + 1}s")
            schedule("fleeting", "@every 1s", "fleeting", turn, using=alias)
            if turn % 3 == 0:
                assert unschedule("fleeting", using=alias)
            time.sleep(0.1)
        assert n_fired(alias, "kept") >= 2
        for child in (one, other):
            child.terminate()
            child.wait()
    audit(alias, "kept")


def test_twenty_register_at_once(alias):
    """FR-114 20 processes' worth of registrations at one barrier, then 10 with other payloads: one
    row, the last writer's payload whole."""
    code = (
        "import sys, threading\n"
        "from django.db import connections\n"
        "from alkstore_django import schedule\n"
        "alias, first, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "barrier = threading.Barrier(n)\n"
        "def register(number):\n"
        "    barrier.wait()\n"
        "    schedule('s', '@every 2s', f'q{number}', [number] * 1000, using=alias)\n"
        "    connections[alias].close()\n"
        "threads = [threading.Thread(target=register, args=(first + k,)) for k in range(n)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
    )
    arguments = ["-c", PRELUDE + code, alias]
    with (
        started_python([*arguments, "0", "10"]) as a,
        started_python([*arguments, "10", "10"]) as b,
    ):
        a.wait()
        b.wait()
        assert a.stderr + b.stderr == ""
    row = schedule_row(alias, "s")
    number = int(row["queue"].removeprefix("q"))
    assert bytes(row["payload"]) == str([number] * 1000).replace(" ", "").encode()
    assert row["revision"] == 20
    assert len(engine_for(alias).schedules.audit()) == 1


def test_on_time_under_load(alias, start):
    """FR-116 '@every 1s' while both processors are busy: each boundary once, on one grid, and at the
    end none is late."""
    burn = "import time\nend = time.time() + 8\nwhile time.time() < end: pass\n"
    add(alias)
    with started_python(["-c", burn]), started_python(["-c", burn]), start() as leader:
        go(leader)
        eventually(lambda: n_fired(alias) >= 4)
        eventually(lambda: engine_for(alias).schedules.audit()[0].n_due <= 1)
        late = [row["enqueued_at"] - row["run_at"] for row in live_rows(alias)]
        assert late[-1] <= 5, late  # the first ones had elapsed before there was a leader
        leader.terminate()
        leader.wait()
    audit(alias, "s")


@pytest.mark.parametrize("alias", ["postgres"], indirect=True)
def test_the_server_is_restarted(alias, start):
    """7.4 Issue 4: standing by, it waits; leading, it goes on while it may, or stands by anew.
    PostgreSQL only: a file does not go away."""
    add(alias)
    with start("--on-lost", "stand-by") as one, start("--on-lost", "stand-by") as other:
        go(one, other)
        eventually(lambda: n_fired(alias) >= 1)
        connections[alias].close()
        ground.postgres().restart("immediate")
        fired = n_fired(alias)
        eventually(lambda: n_fired(alias) > fired + 1, within_s=30)
        for child in (one, other):
            assert "Traceback" not in child.stderr
            child.terminate()
            child.wait()
    audit(alias, "s")


def test_beside_a_worker(alias, start_worker):
    """4.4 alkstore_worker --with-schedules: what it fires it does; several processes elect a leader."""
    schedule("s", "@every 1s", "plain", None, using=alias)
    options = ("--queue", "plain", "--with-schedules", "--processes", "2")
    with start_worker(*options) as worker:
        worker.wait_for_line("with_schedules=True")
        eventually(lambda: n_fired(alias) >= 2)
        eventually(lambda: live_rows(alias) == [])
        worker.terminate()
        worker.wait()
    (line,) = engine_for(alias).schedules.audit()
    assert line.adds_up
    assert engine_for(alias).schedules.is_lease_free("__alkstore_scheduler")
