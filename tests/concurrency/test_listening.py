"""The connection that listens: FIELD's dbloss and wake. PostgreSQL only."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from tests.concurrency.another_route import environ
from tests.concurrency.test_outage import cpu_seconds
from tests.support.postgres_server import PORT
from tests.support.rows import count_live
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

REFUSED_S = 6


def test_wakes_while_subscribers_come_and_go(alias, make_queue):
    """FR-039 The listening connection runs LISTEN and UNLISTEN without a pause: each of a hundred
    enqueues is heard all the same."""
    queue, others = make_queue(), [make_queue(f"other-{number}") for number in range(5)]
    is_over = threading.Event()
    n_subscribed = 0

    def come_and_go():
        nonlocal n_subscribed
        while not is_over.is_set():
            for other in others:
                with other.listen():
                    n_subscribed += 1

    passers_by = threading.Thread(target=come_and_go)
    with queue.listen() as listener:
        passers_by.start()
        try:
            for number in range(100):
                queue.enqueue(number)
                assert listener.wait(1), f"enqueue {number} was not heard"
        finally:
            is_over.set()
            passers_by.join()
    assert n_subscribed > 100


@contextmanager
def refusing(folder):
    """Stand where a server's socket is, and close each connection at once; count them."""
    tries = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/.s.PGSQL.{PORT}")
        server.listen()
        server.settimeout(0.1)
        is_over = threading.Event()

        def serve():
            while not is_over.is_set():
                try:
                    server.accept()[0].close()
                except TimeoutError:
                    continue
                tries.append(time.monotonic())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield tries
        finally:
            is_over.set()
            thread.join()


def test_a_listener_that_is_refused(alias, queues, start_worker, notes, tmp_path_factory):
    """FR-046 LISTEN has no way in while all else has: few tries, next to no processor time, one line;
    the re-poll finds the jobs."""
    folder = tmp_path_factory.mktemp("no", numbered=True)
    env = environ({}, LISTEN={"OPTIONS": {"host": str(folder)}})
    with (
        refusing(folder) as tries,
        start_worker("--queue", "plain", "--poll-interval", "0.5", env=env) as worker,
    ):
        worker.wait_for_line("serves")
        eventually(lambda: tries)
        queues["plain"].enqueue(None)
        eventually(lambda: count_live(alias) == 0, within_s=3)
        spent, n_tries = cpu_seconds(worker.pid), len(tries)
        time.sleep(REFUSED_S)
        assert cpu_seconds(worker.pid) - spent < REFUSED_S / 10
        assert len(tries) - n_tries <= 8
        queues["plain"].enqueue(None)
        eventually(lambda: len(notes("plain")) == 2, within_s=3)
        worker.terminate()
        worker.wait()
        assert worker.stderr.count("Wake lost") == 1
