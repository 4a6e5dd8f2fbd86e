"""Other schemas: FR-137, FR-040."""

import gc
import io
import threading
from importlib import import_module

import pytest
from django.core.management import call_command
from django.db import ProgrammingError, connections, transaction
from django.test import override_settings
from psycopg import sql

from alkstore_django import Queue, Store
from alkstore_django.engines.postgres.engine import PostgresEngine
from alkstore_django.engines.registry import engine_for
from alkstore_django.models import DeadJob, Job
from alkstore_django.testing import frozen_time
from tests.postgres.conftest import direct_connection, ear
from tests.support.fresh import engine_objects, fresh_database, migrate

SCHEMAS = [
    "alkstore",
    "My-Schema",
    "ünï",
    'a"b',
    "per%cent",
    "{x}",
    "$job",
    "%s",
    "a.b",
    "s" * 63,
    "it's",
    "select",
]


@pytest.fixture
def fresh(django_db_setup, django_db_blocker, tmp_path):
    """Make an empty database with a schema name and connection options."""
    with django_db_blocker.unblock():

        def make(schema, **options):
            return fresh_database("postgres", tmp_path, options, SCHEMA=schema)

        yield make


def use_everything(alias):
    """Run every operation, and read through the mirrors."""
    queue = Queue("jobs", using=alias, dead_letter_retention_s=1)
    with frozen_time(alias, 1_800_000_000) as clock:
        with transaction.atomic(using=alias):
            first = Store(alias).enqueue_tx("jobs", {"n": 1})
        ids = [first, *queue.enqueue_many(range(6), expires=1_000)]
        handles = queue.claim_batch("worker", 6)
        assert [handle.job.id for handle in handles] == ids[:6]
        assert handles[0].heartbeat(60) and handles[0].retry("again", delay=0)
        assert handles[1].fail("broken") and handles[2].ack()
        assert queue.ack_batch([handles[3], handles[4].job.id]) == 2
        assert queue.get_job(ids[1]).last_error == "broken"
        assert Store(alias).get_job_tx("jobs", ids[0]).state == "pending"
        assert queue.cancel(ids[6])
        assert Job.objects.using(alias).filter(queue="jobs").count() == 2
        assert DeadJob.objects.using(alias).get().last_error == "broken"
        clock.advance(2_000)
        assert queue.sweep_expired() == (1, 1)
    with queue.listen() as listener:
        queue.enqueue({})
        assert listener.wait(30)
    call_command("flush", database=alias, verbosity=0, interactive=False)
    assert not Job.objects.using(alias).exists()


def foreign_objects(alias, schema):
    """What exists outside the schema, Django's own tables excepted."""
    return {name for name in engine_objects(alias) if not name.startswith(f"{schema}.")}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_any_schema_name_serves(fresh, schema):
    """FR-137 Migrate, use, reverse, migrate again; no object outside the schema."""
    with fresh(schema) as alias:
        migrate(alias)
        assert engine_objects(alias) and foreign_objects(alias, schema) == set()
        use_everything(alias)
        call_command("makemigrations", "--check", "--dry-run", verbosity=0)
        shown = io.StringIO()
        call_command("sqlmigrate", "alkstore_django", "0001", database=alias, stdout=shown)
        assert schema.replace('"', '""') in shown.getvalue()
        migrate(alias, "zero")
        assert engine_objects(alias) == set()
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", [schema])
            assert cursor.fetchone() == (0,)
        migrate(alias)
        use_everything(alias)


def test_an_alias_that_goes_away_leaves_no_connection(fresh, monkeypatch):
    """6.2 FR-106 The thread that sends what a burst held back closes what it opened."""
    monkeypatch.setattr("alkstore_django.engines.postgres.notify.LINGER_S", 2)
    sent = threading.Event()
    real_notify = PostgresEngine._notify

    def notify(engine, queue):
        real_notify(engine, queue)
        if threading.current_thread().name == "alkstore-notify":
            sent.set()

    monkeypatch.setattr(PostgresEngine, "_notify", notify)
    with fresh("alkstore") as alias:
        migrate(alias)
        for _ in range(5):
            Queue("jobs", using=alias).enqueue({})
        notifying = [t for t in threading.enumerate() if t.name == "alkstore-notify"]
        assert notifying
        assert sent.wait(20)
    for thread in notifying:
        thread.join(20)
    gc.collect()  # a connection that was left open warns here, which is an error


@pytest.mark.parametrize("search_path", ["", "other", "pg_temp"])
def test_nothing_depends_on_the_search_path(fresh, search_path):
    """FR-137 All SQL is qualified, whatever the session's search_path is."""
    with fresh("alkstore") as alias:
        migrate(alias)
        # Django's own tables need a path, so it is changed after the migration.
        quoted = search_path or "''"
        with connections[alias].cursor() as cursor:
            cursor.execute(f"SET search_path = {quoted}")
        queue = Queue("jobs", using=alias)
        queue.enqueue_many([1, 2])
        assert queue.claim_one("worker").fail()
        assert queue.claim_one("worker").ack()
        assert Job.objects.using(alias).count() == 0 and DeadJob.objects.using(alias).count() == 1
        assert engine_for(alias).has_tables()
        ddl = import_module("alkstore_django.migrations.0001_initial").Migration.operations[0]
        with connections[alias].schema_editor() as editor:
            ddl.database_backwards("alkstore_django", editor, None, None)
            ddl.database_forwards("alkstore_django", editor, None, None)
        assert foreign_objects(alias, "alkstore") == set()
        assert queue.enqueue({})


def test_two_schemas_of_one_database_are_two_stores(fresh):
    """1.1 FR-137 The schema is a setting: jobs of one are unknown in the other, wakes too."""
    with fresh("one") as alias:
        migrate(alias)
        first = Queue("jobs", using=alias).enqueue_many([{}] * 9)[-1]
        with override_settings(ALKSTORE={alias: {"SCHEMA": "two"}}):
            migrate(alias, "zero")  # forgets the first; its schema stays, it is not this store's
            migrate(alias)
            queue = Queue("jobs", using=alias)
            assert queue.get_job(first) is None
            with ear("jobs", alias=alias, schema="one") as other:
                queue.enqueue({})
                assert other.heard() == []
            assert {name.partition(".")[0] for name in engine_objects(alias)} == {"one", "two"}
        assert Queue("jobs", using=alias).get_job(first).state == "pending"


def test_the_reverse_keeps_a_schema_that_others_use(fresh):
    """1.1 Reversible: only what is ours goes away."""
    with fresh("shared") as alias:
        with connections[alias].cursor() as cursor:
            cursor.execute("CREATE SCHEMA shared")
            cursor.execute("CREATE TABLE shared.theirs (id int)")
        migrate(alias)
        migrate(alias, "zero")
        assert engine_objects(alias) == {"shared.theirs"}


def test_a_role_without_create_migrates_into_a_ready_schema(fresh):
    """FR-137 No CREATE on the database nor on public is needed where the schema exists."""
    with fresh("ready") as alias:
        migrate_django_tables = ["contenttypes"]
        call_command("migrate", *migrate_django_tables, database=alias, verbosity=0)
        with direct_connection(alias) as owner:
            name = connections[alias].settings_dict["NAME"]
            owner.execute(f"CREATE ROLE {name} LOGIN")
            owner.execute(f"CREATE SCHEMA ready AUTHORIZATION {name}")
            owner.execute("REVOKE CREATE ON SCHEMA public FROM public")
            owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}")
            owner.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}")
        connections[alias].close()
        admin = connections[alias].settings_dict["USER"]
        connections[alias].settings_dict["USER"] = name
        try:
            migrate(alias)
            assert Queue("jobs", using=alias).enqueue({}) == 1
        finally:
            connections[alias].close()
            connections[alias].settings_dict["USER"] = admin
            with direct_connection(alias) as owner:
                owner.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
                owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_a_schema_that_the_server_refuses_is_told(fresh):
    """1.1 A name that PostgreSQL keeps for itself fails in migrate, and leaves nothing behind."""
    with fresh("pg_mine") as alias:
        with pytest.raises(ProgrammingError, match="pg_mine"):
            migrate(alias)
        assert engine_objects(alias) == set()
