"""The fixtures that all tests share, and the ground that they stand on."""

import atexit
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections
from django.test.utils import setup_databases

from alkstore_django import Outbox, Queue, handlers
from alkstore_django.testing import FrozenClock, frozen_time
from tests.support import leaks
from tests.support.ground import Ground
from tests.support.statements import SqlLog, recorded_sql

ENGINES = ("sqlite", "postgres")
FROZEN_AT = 1_800_000_000

ground = Ground()


def pytest_configure(config: pytest.Config) -> None:
    """Start the server before any test module is imported; without one there is no run."""
    _heed_signals()
    unknown = _required() - set(ENGINES)
    if unknown:
        raise pytest.UsageError(f"ALKSTORE_TEST_REQUIRE names no engine: {', '.join(unknown)}")
    atexit.register(ground.remove)
    try:
        ground.make()
    except (OSError, RuntimeError) as error:
        raise pytest.UsageError(
            f"the tests need PostgreSQL, and it does not start: {error}"
        ) from error


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server, also when collection has failed."""
    connections.close_all()
    ground.remove()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where engines are required, a skipped test is a failed run: nothing is left out quietly."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _required() and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("skipped tests count as failures here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _heed_signals() -> None:
    """Undo what a shell or ``nohup`` did for a run in the background: every process that a test
    starts would ignore the signals that the test sends."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def _required() -> set[str]:
    return set(filter(None, os.environ.get("ALKSTORE_TEST_REQUIRE", "").split(",")))


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_modify_db_settings: None, django_db_blocker: Any
) -> None:
    """Make the databases of all aliases, by migrations. The ground's end takes them away."""
    with django_db_blocker.unblock():
        setup_databases(verbosity=0, interactive=False)


@pytest.fixture(params=ENGINES)
def alias(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[str]:
    """A database alias, one of each engine: real commits, and empty tables after the test."""
    using: str = request.param
    registered = dict(handlers._handlers)
    with django_db_blocker.unblock():
        yield using
        handlers._handlers.clear()
        handlers._handlers.update(registered)
        threads = leaks.running_threads()
        was_open = leaks.end_open_transaction(using)
        leaks.empty_tables(using)
    assert not threads, f"the test left threads running: {threads}"
    assert not was_open, "the test left a transaction open"


@pytest.fixture
def clock(alias: str) -> Iterator[FrozenClock]:
    """The alias's clock, which stands still until the test moves it."""
    with frozen_time(alias, FROZEN_AT) as frozen:
        yield frozen


@pytest.fixture
def make_queue(alias: str) -> Callable[..., Queue]:
    """Make a queue on the alias: ``make_queue(name="jobs", **options)``."""

    def make(name: Any = "jobs", **options: Any) -> Queue:
        return Queue(name, using=alias, **options)

    return make


@pytest.fixture
def make_outbox(alias: str) -> Callable[..., Outbox]:
    """Make an outbox on the alias: ``make_outbox(name="events", **options)``."""

    def make(name: Any = "events", **options: Any) -> Outbox:
        return Outbox(name, using=alias, **options)

    return make


@pytest.fixture
def sql_log(alias: str) -> Iterator[SqlLog]:
    """The statements that this thread sends on the alias while the test runs."""
    with recorded_sql(alias) as log:
        yield log


@pytest.fixture
def business() -> Any:
    """The model of a business row: ``business.objects.using(alias).create(text=...)``."""
    from tests.testapp.models import Note

    return Note
