"""The SQL that the documents show runs."""

from typing import Any

import pytest
from django.db import connections

from tests.docs.pages import Block, all_blocks


@pytest.mark.parametrize("block", all_blocks("sql"), ids=str)
def test_sql_runs(block: Block, django_db_setup: None, django_db_blocker: Any) -> None:
    """FR-101 Each statement for PostgreSQL runs as shown, the rebuilding of the indexes too."""
    with django_db_blocker.unblock(), connections["postgres"].cursor() as cursor:
        for statement in filter(str.strip, block.text.split(";\n")):
            cursor.execute(statement)
