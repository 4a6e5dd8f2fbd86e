"""Schedules: jobs that are enqueued again and again, by name and interval."""

from __future__ import annotations

from typing import Any

from .access import StoreAccess
from .core.instants import Length
from .core.names import checked_name
from .core.options import QueueOptions, ScheduleOptions
from .core.payloads import JSON, Codec, encode_payload
from .core.schedules import Registration
from .core.spec import interval_s
from .core.stop import StopToken
from .exceptions import InvalidOptions
from .queues import Queue
from .scheduling import declarations
from .scheduling.runner import Runner

LARGEST_PAYLOAD = 512 * 1024 * 1024
"""What any store can be set to take; a declaration knows no store yet."""


def schedule(
    name: str,
    spec: str,
    queue: str | Queue,
    payload: Any,
    *,
    priority: int | None = 0,
    max_attempts: int | None = None,
    expires: Length | None = None,
    using: str | None = None,
) -> None:
    """Enqueue ``payload`` again and again, as ``spec`` says; upserts by name.

    Joins the open transaction. It needs a runner to fire: ``run_schedules``. The first boundary
    is now + the interval. Registering again with the same interval takes everything else and
    keeps the next boundary; another interval starts anew at now + the new one.

    Args:
        name: the schedule's identity; 1 to 200 characters, like a queue's.
        spec: ``"@every 5m"``: a positive number and s, m, h or d; at most 3,650 days.
        queue: a ``Queue``, whose codec and options each job gets, or the name of one, for the
            defaults (300 s, 3 attempts, 5 s, JSON).
        payload: the same for every job; encoded now.
        priority: int32, higher is claimed first.
        max_attempts: overrides the queue's.
        expires: length after which a job is never claimed again; counted from its enqueue.
        using: the database alias; None is the queue's, or that of module-level queues.

    Raises:
        InvalidName, InvalidSpec, InvalidOptions, InvalidPayload: before any SQL.
    """
    access = access_for(queue, using)
    register_in(
        access, name, spec, queue, payload, ScheduleOptions(priority, max_attempts, expires)
    )


def unschedule(name: str, using: str | None = None) -> bool:
    """Delete the schedule of that name; return whether there was one. Joins the transaction."""
    return unregister_in(StoreAccess(using), name)


def run_schedules(stop: StopToken, using: str | None = None) -> None:
    """Lead, firing what is due, until ``stop`` is set; stand by while another runner leads.

    Returns after a stop, with the lease given back. While the database is away it waits, and
    goes on.

    Raises:
        LeadershipLost: the lease could not be renewed; nothing was fired since it was in doubt.
        django.db.transaction.TransactionManagementError: called inside a transaction.
    """
    run_in(StoreAccess(using), stop)


def declare_schedule(
    name: str,
    spec: str,
    queue: str | Queue,
    payload: Any,
    *,
    priority: int | None = 0,
    max_attempts: int | None = None,
    expires: Length | None = None,
    using: str | None = None,
) -> None:
    """Declare a schedule in an app's ``schedules.py``; runs no SQL.

    ``manage.py alkstore_schedules`` and ``alkstore_worker --with-schedules`` bring it into the
    database when they start. The arguments are those of ``schedule``.

    Raises:
        InvalidName, InvalidSpec, InvalidOptions, InvalidPayload: at once.
        ImproperlyConfigured: another one of that name is declared on the alias.
    """
    options = ScheduleOptions(priority, max_attempts, expires)
    registration = _registration(name, spec, queue, payload, options, LARGEST_PAYLOAD)
    using = access_for(queue, using).using
    declarations.declare(using, registration._replace(declared=True))


def register_in(
    access: StoreAccess,
    name: str,
    spec: str,
    queue: str | Queue,
    payload: Any,
    options: ScheduleOptions,
) -> None:
    """Check a schedule and store it in a store."""
    engine = access.jobs().engine
    if isinstance(queue, Queue):
        queue._access.jobs()  # raises StoreClosed
    limit = engine.settings.max_payload_bytes
    declarations.register(engine, _registration(name, spec, queue, payload, options, limit))


def unregister_in(access: StoreAccess, name: str) -> bool:
    """Delete a schedule of a store; return whether there was one."""
    engine = access.jobs().engine
    return declarations.unregister(engine, checked_name("schedule", name))


def run_in(access: StoreAccess, stop: StopToken) -> None:
    """Run the schedules of a store until stopped."""
    access.jobs()  # raises StoreClosed
    if not isinstance(stop, StopToken):
        raise InvalidOptions("stop", "must be a StopToken", stop)
    Runner(access.using, stop).run()


def _registration(
    name: object,
    spec: object,
    queue: str | Queue,
    payload: Any,
    options: ScheduleOptions,
    max_bytes: int,
) -> Registration:
    """Return the schedule as it is to be stored; raise for what breaks a rule."""
    checked = checked_name("schedule", name)
    interval = interval_s(spec)
    codec: Codec = JSON
    if isinstance(queue, Queue):
        queue_name, codec, queue_options = queue.name, queue.codec, queue.options
    else:
        queue_name, queue_options = checked_name("queue", queue), QueueOptions()
    stamps = options.stamps(queue_name, codec.name, queue_options)
    data = encode_payload(codec, payload, queue=queue_name, max_bytes=max_bytes)
    return Registration(checked, str(spec), interval, stamps, data)


def access_for(queue: object, using: str | None) -> StoreAccess:
    """Return the way to the alias: the one given, else the queue's; they must not differ."""
    if not isinstance(queue, Queue):
        return StoreAccess(using)
    if using is not None and using != queue.using:
        raise InvalidOptions("using", f"must be the alias of its queue, {queue.using!r}", using)
    return queue._access
