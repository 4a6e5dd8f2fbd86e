"""The system checks: 1.2."""

from typing import Any

import pytest
from django.core import checks
from django.core.management import CommandError, call_command
from django.db import connections

from alkstore_django import Queue, handlers
from tests.support.fresh import migrate
from tests.support.statements import no_sql

GOOD = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;",
}


def found(alias: str | None = None) -> dict[str, Any]:
    """Our messages by their id."""
    messages = checks.run_checks(databases=[alias] if alias else None)
    return {message.id: message for message in messages if message.id.startswith("alkstore.")}


@pytest.fixture
def options(monkeypatch):
    """Set the OPTIONS of the SQLite alias for one test."""

    def change(**changed):
        kept = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
        monkeypatch.setitem(connections["sqlite"].settings_dict, "OPTIONS", kept)

    return change


def test_the_settings_of_the_tests_are_without_fault():
    """1.2 Well configured databases are not complained of."""
    assert found() == {}


@pytest.mark.parametrize(
    ("changed", "id_"),
    [
        ({"init_command": None}, "alkstore.W001"),
        ({"init_command": "PRAGMA journal_mode=DELETE"}, "alkstore.W001"),
        ({"transaction_mode": None}, "alkstore.W002"),
        ({"transaction_mode": "DEFERRED"}, "alkstore.W002"),
        ({"timeout": 1}, "alkstore.W003"),
        ({"timeout": 0}, "alkstore.W003"),
    ],
)
def test_warns_of_a_sqlite_alias_that_is_not_set_up_for_it(options, changed, id_):
    """1.2 FR-131 No WAL, no IMMEDIATE or no busy timeout: a warning with a hint."""
    options(**changed)
    (message,) = found().values()
    assert message.id == id_ and "sqlite" in message.msg
    assert isinstance(message, checks.Warning) and message.hint


@pytest.mark.parametrize(
    "init_command",
    [
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=NORMAL; pragma journal_mode = wal;",
        "PRAGMA journal_mode('WAL')",
    ],
)
def test_knows_every_way_to_ask_for_wal(options, init_command):
    """1.2 No false alarm."""
    options(init_command=init_command)
    assert found() == {}


def test_the_checks_of_settings_run_no_sql(alias):
    """1.2 FR-141 Only the database-tagged check asks a database."""
    with no_sql(alias):
        checks.run_checks()


def test_warns_of_missing_tables(fresh):
    """1.2 alkstore.W004 where other things were migrated, with the command to run; nothing on a
    database that is still empty, and nothing after migrate."""
    assert "alkstore.W004" not in found(fresh)
    migrate(fresh)
    assert "alkstore.W004" not in found(fresh)
    migrate(fresh, "zero")
    message = found(fresh)["alkstore.W004"]
    assert fresh in message.msg and "migrate" in message.hint


def test_a_worker_says_that_the_tables_are_missing(fresh):
    """1.2 Before migrate every command says so in one line."""
    queue = Queue("jobs", using=fresh)
    queue.handler(lambda job: None)
    try:
        with pytest.raises(CommandError) as caught:
            call_command("alkstore_worker", database=fresh, drain=True)
    finally:
        handlers.unregister(queue)
    assert "migrate" in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_a_worker_refuses_a_database_in_memory(django_db_setup, django_db_blocker, monkeypatch):
    """1.2 :memory: is refused by the worker, in one line."""
    described = {**connections.settings["sqlite"], "NAME": ":memory:"}
    monkeypatch.setitem(connections.settings, "memory", described)
    queue = Queue("jobs", using="memory")
    queue.handler(lambda job: None)
    with django_db_blocker.unblock():
        try:
            migrate("memory")
            assert "alkstore.W005" not in found("memory")  # no store is configured there
            with pytest.raises(CommandError) as caught:
                call_command("alkstore_worker", database="memory", drain=True)
        finally:
            handlers.unregister(queue)
            connections["memory"].connection.close()  # Django keeps one in memory open
            del connections["memory"]
    assert "memory" in str(caught.value)
    assert "\n" not in str(caught.value).strip()
