"""Running a worker inside a test: in the test's own thread, on real connections, without a sleep."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from alkstore_django import Queue, StopToken, signals
from alkstore_django.handlers import handlers_on
from alkstore_django.models import Job as JobMirror
from alkstore_django.worker.loop import Worker
from alkstore_django.worker.options import WorkerOptions
from alkstore_django.worker.tally import Tally

GIVE_UP_S = 40
JOB_SIGNALS = (
    "job_claimed", "job_acked", "job_retried", "job_died", "job_given_back", "claim_lost",
)  # fmt: skip
STORE_SIGNALS = ("store_lost", "store_restored")


class Events(list[tuple[str, int | None, dict[str, Any]]]):
    """What the signals told while the test ran: (name, job id or None, all that was sent)."""

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return what was sent with each signal of that name."""
        return [sent for told, _, sent in self if told == name]

    def ids(self, name: str) -> list[int | None]:
        """Return the job ids of the signals of that name, in the order of sending."""
        return [job_id for told, job_id, _ in self if told == name]


@pytest.fixture
def events() -> Iterator[Events]:
    """The domain events of the test."""
    told = Events()
    receivers = {}
    for name in JOB_SIGNALS + STORE_SIGNALS:

        def receive(sender: Any, *, name: str = name, **sent: Any) -> None:
            job = sent.get("job")
            told.append((name, job.id if job else None, sent))

        receivers[name] = receive
        getattr(signals, name).connect(receive)
    yield told
    for name, receive in receivers.items():
        getattr(signals, name).disconnect(receive)


@pytest.fixture
def new_worker(alias: str) -> Callable[..., Worker]:
    """Make a worker for some queues: one thread and draining, unless told otherwise."""

    def make(*queues: Queue, stop: Any = None, stop_now: Any = None, **options: Any) -> Worker:
        chosen = {"threads": 1, "drain": True, "poll_interval_s": 0.05, **options}
        handlers = [handlers_on(alias)[queue.name] for queue in queues]
        jobs = JobMirror.objects.db_manager(alias)
        return Worker(jobs, handlers, WorkerOptions(**chosen), stop=stop, stop_now=stop_now)

    return make


@pytest.fixture
def work(new_worker: Callable[..., Worker]) -> Callable[..., Tally]:
    """Run a worker in this thread to its end and return its tally; one that hangs fails."""

    def run(*queues: Queue, **options: Any) -> Tally:
        stop = options.pop("stop", StopToken())
        stop_now = options.pop("stop_now", StopToken())
        hung = threading.Event()

        def give_up() -> None:
            hung.set()
            stop.stop()
            stop_now.stop()

        timer = threading.Timer(GIVE_UP_S, give_up)
        timer.start()
        try:
            tally = new_worker(*queues, stop=stop, stop_now=stop_now, **options).run()
        finally:
            timer.cancel()
            timer.join()
        assert not hung.is_set(), "the worker did not come to its end"
        return tally

    return run
