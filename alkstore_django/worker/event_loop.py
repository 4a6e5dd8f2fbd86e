"""The event loop that runs ``async def`` handlers, many at a time, in one thread."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence

from asgiref.sync import sync_to_async

from .execution import execute_async, execute_batch_async
from .running import Outcome, RunningBatch, RunningJob, Unit
from .sessions import HandlerSession

logger = logging.getLogger("alkstore_django.worker")

JOIN_S = 5.0


class LoopPool:
    """Runs coroutine handlers as tasks of one event loop; its thread starts with the first.

    What such a handler does with the database runs, by Django's rules, in the one thread
    that all synchronous code called from the loop shares; that thread's connections are
    looked after like those of a handler thread.

    Args:
        on_start: called when a handler with a time limit begins.
        on_end: takes each job with its outcome, in the loop's thread.
        on_death: takes the error that ended the thread: a bug of ours.
    """

    def __init__(
        self,
        *,
        on_start: Callable[[], None],
        on_end: Callable[[RunningJob, Outcome], None],
        on_death: Callable[[BaseException], None],
    ) -> None:
        self._on_start = on_start
        self._on_end = on_end
        self._on_death = on_death
        self._session = HandlerSession()
        self._stopped = False
        self._epoch = 0
        self._tasks: dict[Unit, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, units: Sequence[Unit]) -> None:
        """Start jobs and batches; the caller sees to their number."""
        if self._loop is None:
            self._start()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._begin, list(units))

    def note_outage(self) -> None:
        """Have the database connections made anew before the next job."""
        self._epoch += 1

    def cancel(self, running: RunningJob) -> None:
        """Cancel a handler whose claim is over; of a batch, when all of its claims are."""
        if self._loop is None or (running.batch is not None and not running.batch.is_over):
            return
        self._loop.call_soon_threadsafe(self._cancel, running.batch or running)

    def stop(self) -> None:
        """Cancel what still runs, and end the thread; a handler that blocks dies with us."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._halt)
            self._thread.join(JOIN_S)

    # -- in the loop's thread -------------------------------------------------------------

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="alkstore-loop", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        try:
            while not self._stopped:
                self._run_until_stopped()
            self._loop.run_until_complete(self._finish())
        except BaseException as error:
            self._on_death(error)
        finally:
            self._loop.close()

    def _halt(self) -> None:
        assert self._loop is not None
        self._stopped = True
        self._loop.stop()

    def _run_until_stopped(self) -> None:
        """Run; an exit that a handler's own task raises ends that task, and not the loop.

        Whoever awaits the task gets it, too.
        """
        assert self._loop is not None
        try:
            self._loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            logger.warning("An exit raised by a handler's task was ignored: %r", error)

    async def _finish(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        # What handlers hold open for as long as the loop runs, such as a delivery's connection.
        await asyncio.get_running_loop().shutdown_asyncgens()
        await sync_to_async(self._session.close)()

    def _begin(self, units: list[Unit]) -> None:
        assert self._loop is not None
        for unit in units:
            task = self._tasks[unit] = self._loop.create_task(self._run(unit))
            task.add_done_callback(functools.partial(self._note_end, unit))

    def _note_end(self, unit: Unit, task: asyncio.Task[None]) -> None:
        """Give the place free, also of a task that was cancelled before it began."""
        del self._tasks[unit]
        for running in unit.jobs:
            if not running.ended:
                running.ended = True
                self._on_end(running, Outcome("retry", error="cancelled"))

    def _cancel(self, unit: Unit) -> None:
        if (task := self._tasks.get(unit)) is not None:
            task.cancel()

    async def _run(self, unit: Unit) -> None:
        try:
            if self._session.is_stale(self._epoch):
                await sync_to_async(self._session.prepare)(self._epoch)
            unit.start(time.monotonic())
            if unit.handler.timeout_s is not None:
                self._on_start()
            if isinstance(unit, RunningBatch):
                outcomes = await execute_batch_async(unit)
            else:
                outcomes = [await execute_async(unit)]
            if self._session.is_in_use:
                failed = any(outcome.verb != "ack" for outcome in outcomes)
                await asyncio.shield(sync_to_async(self._session.tidy)(failed=failed))
            unit.end(outcomes, self._on_end)
        except asyncio.CancelledError:
            raise  # between the handler's end and ours
        except BaseException as error:
            self._on_death(error)
