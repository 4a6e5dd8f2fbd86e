"""Workers that stand still at a statement, as a stopped process does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from unittest import mock

from django.db import connections

from alkstore_django.engines.base import Engine
from alkstore_django.engines.registry import engine_for
from alkstore_django.worker.loop import Worker

Point: TypeAlias = tuple[str, int, str]
"""A statement's name, the how-manieth of that name, and ``before`` or ``after``."""

TIMEOUT_S = 20


class Standstill:
    """Records the points that a worker's statements pass, and stops the worker at one of them.

    From then on each thread of the worker stops at its next statement, so the database sees
    nothing more of it: like a process that was sent SIGSTOP. Threads of the test pass freely.
    """

    def __init__(self, at: Point | None = None) -> None:
        self.passed: list[Point] = []
        self.reached = threading.Event()
        self._at = at
        self._go_on = threading.Event()
        self._lock = threading.Lock()
        self._worker_threads: set[int] = set()
        if at is None:
            self._go_on.set()

    def resume(self) -> None:
        """Let the worker go on, for good."""
        self._go_on.set()

    def enlist(self) -> None:
        """Make the calling thread one of the worker's."""
        self._worker_threads.add(threading.get_ident())

    def pass_by(self, name: str, place: int, when: str) -> None:
        """Stop here, if this is the point or the worker stands still already."""
        point = (name, place, when)
        with self._lock:
            self.passed.append(point)
            if point == self._at:
                self.reached.set()
        if self.reached.is_set() and not self._go_on.wait(TIMEOUT_S):
            raise RuntimeError(f"nobody resumed the worker at {point}")

    def concerns_this_thread(self) -> bool:
        """Return whether the calling thread is one of the worker's."""
        thread = threading.current_thread()
        return thread.ident in self._worker_threads or thread.name.startswith("alkstore-")

    def next_place(self, name: str) -> int:
        """Return how many statements of that name have begun before."""
        with self._lock:
            return sum(found == name and when == "before" for found, _, when in self.passed)


@contextmanager
def standing_still(alias: str, at: Point | None = None) -> Iterator[Standstill]:
    """Within the block, workers of this process pass their statements through a ``Standstill``."""
    standstill = Standstill(at)
    engine = engine_for(alias)
    executed = type(engine)._executed

    @contextmanager
    def watched(self: Engine, statement: str, values: dict[str, Any]) -> Iterator[Any]:
        if self is not engine or not standstill.concerns_this_thread():
            with executed(self, statement, values) as cursor:
                yield cursor
            return
        name = statement.split()[1].removeprefix("alkstore:")
        place = standstill.next_place(name)
        standstill.pass_by(name, place, "before")
        with executed(self, statement, values) as cursor:
            yield cursor
        standstill.pass_by(name, place, "after")

    with mock.patch.object(type(engine), "_executed", watched):
        try:
            yield standstill
        finally:
            standstill.resume()


@contextmanager
def working(worker: Worker, standstill: Standstill) -> Iterator[threading.Thread]:
    """Run a worker in a thread for the block; what ended it wrongly is raised at the end."""
    errors: list[BaseException] = []

    def run() -> None:
        standstill.enlist()
        try:
            worker.run()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, name="the-worker")
    thread.start()
    try:
        yield thread
    finally:
        standstill.resume()
        worker._stop.stop()
        worker._stop_now.stop()
        thread.join(TIMEOUT_S)
    assert not thread.is_alive(), "the worker did not stop"
    assert not errors, f"the worker ended with {errors[0]!r}"
