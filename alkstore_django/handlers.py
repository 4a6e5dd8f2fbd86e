"""Which function handles which queue. Filled by ``@queue.handler``, read by workers."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.exceptions import ImproperlyConfigured

from .core.instants import MICROSECONDS, length_us
from .core.names import described_queue, outbox_of
from .core.options import QueueOptions
from .core.payloads import Codec
from .exceptions import InvalidOptions

HandlerFunction = Callable[..., Any]


class DeclaredQueue(Protocol):
    """What is to be known here of a ``Queue``."""

    @property
    def name(self) -> str: ...
    @property
    def using(self) -> str: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def options(self) -> QueueOptions: ...


@dataclass(frozen=True, slots=True)
class Handler:
    """A function of one job, and how the worker runs it.

    Attributes:
        atomic: run it in one transaction with its ack.
        heartbeat: renew the job's deadline while it runs.
        timeout_s: seconds after which its claim ends; ``None`` for no limit.
        batch: it delivers so many events at a time: a function of a list; ``None`` for a
            function of one.
        on_event_loop: it is a coroutine function, run on the worker's event loop. An atomic
            one is not: it has a thread to itself, since a transaction belongs to a thread.
    """

    queue: DeclaredQueue
    function: HandlerFunction
    atomic: bool = False
    heartbeat: bool = True
    timeout_s: float | None = None
    on_event_loop: bool = False
    batch: int | None = None

    @property
    def is_delivery(self) -> bool:
        """Whether it delivers the events of an outbox, in order per key."""
        return outbox_of(self.queue.name) is not None

    @property
    def name(self) -> str:
        """The function's dotted name."""
        function = inspect.unwrap(self.function)
        module = getattr(function, "__module__", None) or type(function).__module__
        return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


_handlers: dict[tuple[str, str], Handler] = {}
_declared: weakref.WeakSet[DeclaredQueue] = weakref.WeakSet()


def declare(queue: DeclaredQueue) -> None:
    """Remember that the code has made this queue, to tell a queue without a handler from a typo."""
    _declared.add(queue)


def declared_on(using: str) -> list[DeclaredQueue]:
    """Return the queues that the code has made on an alias, by name; one name may be there twice."""
    return sorted((q for q in _declared if q.using == using), key=lambda queue: queue.name)


def declared_names(using: str) -> set[str]:
    """Return the names of the queues that the code has made on an alias."""
    return {queue.name for queue in declared_on(using)}


def register(
    queue: DeclaredQueue,
    function: object,
    *,
    atomic: object = False,
    heartbeat: object = True,
    timeout_s: object = None,
    batch: int | None = None,
    called: Callable[[HandlerFunction], HandlerFunction] = lambda function: function,
) -> None:
    """Make ``function`` the handler of ``queue``.

    Args:
        called: turns it into what a worker calls with a job, or with a list of them; keeps a
            coroutine function one.

    Raises:
        InvalidOptions: an option is of the wrong kind.
        ImproperlyConfigured: the queue already has another handler.
    """
    if not callable(function):
        raise InvalidOptions("handler", "must be callable", function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidOptions("handler", "must not be a generator: it would never run", function)
    for field, value in (("atomic", atomic), ("heartbeat", heartbeat)):
        if not isinstance(value, bool):
            raise InvalidOptions(field, "must be True or False", value)
    seconds = None
    if timeout_s is not None:
        seconds = length_us("timeout_s", timeout_s, at_least_s=0) / MICROSECONDS
        if not seconds:
            raise InvalidOptions("timeout_s", "must be above 0 s", timeout_s)
    on_event_loop = is_coroutine_function(function) and not atomic
    handler = Handler(
        queue, called(function), bool(atomic), bool(heartbeat), seconds, on_event_loop, batch
    )
    other = _handlers.get((queue.using, queue.name))
    if other is not None and not _is_same(other, handler):
        raise ImproperlyConfigured(
            f"{described_queue(queue.name)} has two handlers: {other.name} and {handler.name}"
        )
    _handlers[queue.using, queue.name] = handler


def _is_same(one: Handler, other: Handler) -> bool:
    """Return whether both are one function, which a module read twice may have made twice.

    Objects that can be called, of one class, are as many handlers as there are objects.
    """
    first, second = inspect.unwrap(one.function), inspect.unwrap(other.function)
    return first is second or (inspect.isroutine(first) and one.name == other.name)


def is_coroutine_function(function: HandlerFunction) -> bool:
    """Return whether a call of it gives a coroutine."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the method of an object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def unregister(queue: DeclaredQueue) -> None:
    """Forget the handler of ``queue``, if it has one."""
    _handlers.pop((queue.using, queue.name), None)


def handlers_on(using: str) -> dict[str, Handler]:
    """Return the handlers of an alias by queue name, in the order of registration."""
    return {name: handler for (alias, name), handler in _handlers.items() if alias == using}
