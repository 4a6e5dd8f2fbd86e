"""The statements of upkeep: two databases, read side by side."""

import re

from alkstore_django.engines.postgres import upkeep_sql as postgres
from alkstore_django.engines.sqlite import upkeep_sql as sqlite
from tests.core.test_twin_statements import PARAMETER, constants

ONLY_POSTGRES = {"LOCK_KEYS"}  # SQLite has one writer at a time


def statements(module):
    return {name: text for name, text in constants(module).items() if "/* alkstore:" in text}


def test_the_statements_have_the_same_names_in_the_same_order():
    """1.1 Both upkeep_sql.py hold the same statements, in the same order."""
    theirs = [name for name in statements(postgres) if name not in ONLY_POSTGRES]
    assert theirs == list(statements(sqlite))


def test_the_statements_have_the_same_parameters():
    """1.1 Each statement takes the same parameters on both engines."""
    for name in statements(sqlite):
        theirs, ours = (
            set(PARAMETER.findall(statements(module)[name])) for module in (postgres, sqlite)
        )
        assert theirs == ours, name


def test_every_statement_can_be_found_in_a_server_log():
    """1.1 A statement starts with its name as a comment."""
    for module in (postgres, sqlite):
        for name, text in statements(module).items():
            assert text.startswith(f"/* alkstore:{name.lower()} */\n"), name
            assert not re.search(r"(?<![\w.])now\(\)", text), name
