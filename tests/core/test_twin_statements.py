"""Two databases, kept apart, and read side by side."""

import re
from types import ModuleType

import pytest

from alkstore_django.engines.postgres import outbox_sql as postgres_outbox
from alkstore_django.engines.postgres import schedule_sql as postgres_schedules
from alkstore_django.engines.postgres import sql as postgres_jobs
from alkstore_django.engines.postgres import upkeep_sql as postgres_upkeep
from alkstore_django.engines.sqlite import outbox_sql as sqlite_outbox
from alkstore_django.engines.sqlite import schedule_sql as sqlite_schedules
from alkstore_django.engines.sqlite import sql as sqlite_jobs
from alkstore_django.engines.sqlite import upkeep_sql as sqlite_upkeep

TWINS = [
    pytest.param(postgres_jobs, sqlite_jobs, id="jobs"),
    pytest.param(postgres_schedules, sqlite_schedules, id="schedules"),
    pytest.param(postgres_outbox, sqlite_outbox, id="outbox"),
    pytest.param(postgres_upkeep, sqlite_upkeep, id="upkeep"),
]
MODULES = tuple(module for twins in TWINS for module in twins.values)
PARAMETER = re.compile(r"%\((\w+)\)s")


def constants(module: ModuleType) -> dict[str, str]:
    """The UPPER-CASE constants of a module in the order of their definition, as one text each.

    A name that starts with an underscore is a fragment of one engine's own statements.
    """
    return {
        name: " ".join(value) if isinstance(value, tuple) else value
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_")
    }


# What only one database has any use for, and why.
ONLY_POSTGRES = {
    "NOTIFY", "BACKEND_PID", "IN_RECOVERY",  # SQLite has neither server, pooler nor standby,
    "CLAIM_AHEAD",  # no dead entries in its indexes,
    "ACK_FREE",  # and no locks on single rows,
    "LOCK_KEYS",  # nor turns for producers
}  # fmt: skip
# What SQLite takes as one JSON text, and the arrays that it stands for.
IN_JSON = {
    "claims": {"ids", "tokens"},
    "fires": {"boundaries", "names"},
    "advances": {"names", "froms", "nexts", "fireds", "skippeds", "lasts"},
}
ONLY_SQLITE = {"HAS_READY", "HAS_READY_IN_ORDER"}  # so that an idle claimant takes no write lock


@pytest.mark.parametrize(("postgres", "sqlite"), TWINS)
def test_the_statements_have_the_same_names_in_the_same_order(postgres, sqlite):
    """1.1 Both sql.py hold the same statements, in the same order."""
    theirs = [name for name in constants(postgres) if name not in ONLY_POSTGRES]
    ours = [name for name in constants(sqlite) if name not in ONLY_SQLITE]
    assert theirs == ours


@pytest.mark.parametrize(("postgres", "sqlite"), TWINS)
def test_the_statements_have_the_same_parameters(postgres, sqlite):
    """1.1 Each statement takes the same parameters on both engines."""
    differing = {}
    for name in constants(postgres).keys() & constants(sqlite).keys():
        theirs, ours = (
            set(PARAMETER.findall(constants(module)[name])) for module in (postgres, sqlite)
        )
        for name_in_json, arrays in IN_JSON.items():
            if name_in_json in ours:
                ours = ours - {name_in_json} | arrays
        if theirs != ours:
            differing[name] = theirs ^ ours
    assert differing == {}


def test_every_statement_can_be_found_in_a_server_log():
    """1.1 A statement starts with its name as a comment; a fragment has none."""
    for module in MODULES:
        for name, text in constants(module).items():
            if "/* alkstore:" in text:
                assert text.startswith(f"/* alkstore:{name.lower()} */\n"), name


def test_every_instant_comes_from_the_database():
    """1.4 No statement takes an instant of Python's clock: the test clock is NULL in use."""
    for module in MODULES:
        for name, text in constants(module).items():
            assert "CURRENT_TIMESTAMP" not in text.upper(), name
            assert not re.search(r"(?<![\w.])now\(\)", text), name
