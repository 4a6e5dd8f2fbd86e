"""Django's ``flush``, which also empties the engine's tables.

The mirrors are unmanaged, so Django's own command would leave the jobs in place, and every
``TransactionTestCase`` would hand them on to the next test.
"""

from __future__ import annotations

from typing import Any

from django.core.management.commands.flush import Command as FlushCommand
from django.db import router

from ...engines.registry import engine_for, supports


class Command(FlushCommand):
    """Flush the database, the jobs with it."""

    def handle(self, **options: Any) -> None:
        """Run Django's flush, then empty the engine's tables; ids go on from where they were."""
        super().handle(**options)
        alias = options["database"]
        if router.allow_migrate(alias, "alkstore_django") and supports(alias):
            engine = engine_for(alias)
            if engine.has_tables():
                engine.empty()
