"""Migrations: 1.1."""

import io
import threading
from importlib import resources

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from alkstore_django import Queue
from alkstore_django.engines import postgres, sqlite
from tests.support.fresh import engine_objects, migrate

PATIENCE_S = 60
TABLES = ("job", "dead_job", "schedule", "lease", "inbox")
INDEXES = ("job_claim", "job_lapse", "job_spent", "job_expires", "dead_job_died")


class Recorder:
    """A router that allows what it is told to, and notes what it is asked."""

    def __init__(self, allows=True):
        self.allows = allows
        self.asked = []

    def allow_migrate(self, db, app_label, **hints):
        if app_label == "alkstore_django":
            self.asked.append(db)
            return self.allows
        return None


def in_threads(count, alias, function):
    """Run a function in several threads that start together, on connections of their own."""
    start, errors = threading.Barrier(count), []

    def run():
        try:
            start.wait(PATIENCE_S)
            function()
        except BaseException as error:
            errors.append(error)
        finally:
            connections[alias].close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a migration hangs"
    assert errors == []


def names(alias):
    """The names of the package's objects, without what the engines put before them."""
    return {
        name.removeprefix("__alkstore_").removeprefix("alkstore.") for name in engine_objects(alias)
    }


def test_migrate_creates_everything(fresh):
    """1.1 All tables and indexes; then the queue works, and nothing is created at run time."""
    assert engine_objects(fresh) == set()
    migrate(fresh)
    made = names(fresh)
    assert made >= {*TABLES, *INDEXES}
    queue = Queue("jobs", using=fresh)
    job_id = queue.enqueue({"a": 1})
    assert queue.claim_one("worker").fail()
    assert queue.get_job(job_id).state == "dead"
    assert names(fresh) == made


def test_migrations_are_reversible(fresh):
    """1.1 FR-137 Back to nothing, with jobs in the tables, and forward again."""
    for _ in range(2):
        migrate(fresh)
        queue = Queue("jobs", using=fresh)
        queue.enqueue_many([1, 2])
        queue.claim_one("worker").fail()
        migrate(fresh, "zero")
        assert engine_objects(fresh) == set()


def test_migrate_is_safe_when_several_start_at_once(fresh):
    """1.1 Six at the same time: all succeed, and the tables are there once."""
    MigrationRecorder(connections[fresh]).ensure_schema()  # that one is Django's own
    target = [("alkstore_django", "0001_initial")]
    in_threads(6, fresh, lambda: MigrationExecutor(connections[fresh]).migrate(target))
    assert names(fresh) >= {*TABLES, *INDEXES}
    assert Queue("jobs", using=fresh).enqueue({}) == 1


def test_migrations_obey_a_router_that_refuses(fresh, settings):
    """1.1 Nothing is made where the router says no."""
    router = Recorder(allows=False)
    settings.DATABASE_ROUTERS = [router]
    migrate(fresh)
    assert engine_objects(fresh) == set()
    assert set(router.asked) == {fresh}
    migrate(fresh, "zero")


def test_migrations_obey_a_router_that_allows(fresh, settings):
    """1.1 And everything where it says yes."""
    settings.DATABASE_ROUTERS = [Recorder(allows=True)]
    migrate(fresh)
    assert names(fresh) >= set(TABLES)


def test_flush_obeys_the_router(fresh, settings):
    """1.1 7.6 flush does not fail on a database without the tables."""
    settings.DATABASE_ROUTERS = [Recorder(allows=False)]
    migrate(fresh)
    call_command("flush", database=fresh, verbosity=0, interactive=False)


class NoReads:
    """FR-144's router: whoever asks where to read from, fails."""

    def db_for_read(self, model, **hints):
        if model._meta.app_label == "alkstore_django":
            raise AssertionError("db_for_read was asked")

    def db_for_write(self, model, **hints):
        if model._meta.app_label == "alkstore_django":
            raise AssertionError("db_for_write was asked")


def test_no_router_is_asked_where_the_jobs_are(alias, clock, make_queue, settings):
    """FR-144 Our SQL goes to the alias by name, in every operation."""
    settings.DATABASE_ROUTERS = [NoReads()]
    queue = make_queue(dead_letter_retention_s=1)
    ids = [queue.enqueue({}), *queue.enqueue_many([{}] * 5)]
    handles = queue.claim_batch("worker", 5)
    assert handles[0].heartbeat(60) and handles[0].retry("again", delay=0)
    assert handles[1].fail() and handles[2].ack()
    assert queue.ack_batch([handles[3], handles[4].job.id]) == 2
    assert queue.get_job(ids[0]).state == "pending"
    assert queue.cancel(ids[5])
    clock.advance(5)
    assert queue.sweep_expired() == (0, 1)
    with queue.listen() as listener:
        queue.enqueue({})
        assert listener.wait(30)


def test_the_models_agree_with_the_migrations(fresh):
    """1.1 makemigrations --check is clean, whatever the database."""
    migrate(fresh)
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


def test_sqlmigrate_shows_the_ddl(fresh):
    """1.1 The statements can be read beforehand."""
    shown = io.StringIO()
    call_command("sqlmigrate", "alkstore_django", "0001", database=fresh, stdout=shown)
    assert "CREATE TABLE" in shown.getvalue() and "dead_job" in shown.getvalue()
    assert engine_objects(fresh) == set()


@pytest.mark.parametrize("engine", [postgres, sqlite], ids=["postgres", "sqlite"])
def test_every_ddl_file_is_a_migrations(engine):
    """1.1 Same numbers on both sides, each file used by one migration, each with its reverse."""
    files = {f.name for f in resources.files(engine).joinpath("schema").iterdir()}
    migrations = resources.files("alkstore_django").joinpath("migrations")
    used = {
        part
        for module in migrations.iterdir()
        if module.name.endswith(".py")
        for part in module.read_text().split('RunEngineSQL("')[1:]
    }
    numbers = {part.partition('"')[0] for part in used}
    assert files == {f"{n}.sql" for n in numbers} | {f"{n}.reverse.sql" for n in numbers}
