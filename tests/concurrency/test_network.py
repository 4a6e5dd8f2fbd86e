"""Packets that vanish between a worker and its server: issue 3. PostgreSQL only."""

import os
import time

import pytest
from django.db import connections

from tests.concurrency.another_route import environ
from tests.support.network import network
from tests.support.rows import count_dead, count_live
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

OUTAGE_S = float(os.environ.get("ALKSTORE_TEST_OUTAGE_S", "12"))
NOTICED_WITHIN_S = 12
# What the how-to guide recommends, with shorter times.
PATIENCE = {
    "connect_timeout": 2,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 3000,
}


@pytest.fixture
def wires(alias):
    """The network; the server moves there and back, so the test's own connection is anew."""
    connections[alias].close()
    with network() as made:
        yield made
        connections[alias].close()


def test_packets_that_vanish(alias, wires, queues, start_worker, notes):
    """7.4 Issue 3: what is sent between worker and server vanishes, with no socket closed: the
    worker notices within its time-outs, and when it can, goes on; nothing is lost or there twice."""
    env = environ({**wires.route, "OPTIONS": PATIENCE}, LISTEN={"OPTIONS": PATIENCE})
    options = ("--queue", "ledger", "--threads", "3", "--poll-interval", "1")
    with start_worker(*options, env=env, within=wires.worker.command) as worker:
        worker.wait_for_line("serves")
        ids = queues["ledger"].enqueue_many([0.01] * 400)
        eventually(lambda: len(notes("ledger")) > 30)
        wires.cut()
        cut_at = time.monotonic()
        eventually(lambda: "Database lost" in worker.stderr, within_s=NOTICED_WITHIN_S)
        eventually(lambda: "Wake lost" in worker.stderr, within_s=NOTICED_WITHIN_S)
        ids += queues["ledger"].enqueue_many([0.01] * 100)
        time.sleep(max(cut_at + OUTAGE_S - time.monotonic(), 0))
        handled = len(notes("ledger"))
        assert handled < len(ids)
        wires.mend()
        eventually(lambda: len(notes("ledger")) > handled, within_s=15)
        eventually(lambda: count_live(alias) == 0, within_s=40)
        eventually(lambda: "Wake restored" in worker.stderr)
        worker.terminate()
        worker.wait()
        assert worker.stderr.count("Database lost") == worker.stderr.count("Database restored")
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in ids)
    assert count_dead(alias) == 0


def test_an_idle_worker_whose_packets_vanish(alias, wires, queues, start_worker, notes):
    """7.4 FR-046 An idle worker, too, whose LISTEN connection has nothing to send, hears wakes again."""
    env = environ({**wires.route, "OPTIONS": PATIENCE}, LISTEN={"OPTIONS": PATIENCE})
    options = ("--queue", "plain", "--poll-interval", "600")
    with start_worker(*options, env=env, within=wires.worker.command) as worker:
        worker.wait_for_line("serves")
        queues["plain"].enqueue(None)
        eventually(lambda: len(notes("plain")) == 1)
        wires.cut()
        eventually(lambda: "Wake lost" in worker.stderr, within_s=NOTICED_WITHIN_S)
        queues["plain"].enqueue(None)  # its wake vanishes
        wires.mend()
        eventually(lambda: len(notes("plain")) == 2, within_s=15)
        queues["plain"].enqueue(None)
        eventually(lambda: len(notes("plain")) == 3, within_s=2)
        worker.terminate()
        worker.wait()
