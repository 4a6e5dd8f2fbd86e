"""The migration operation that runs an engine's frozen DDL."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from .conf import store_aliases
from .engines.registry import engine_for, supports


class RunEngineSQL(Operation):
    """Run ``schema/<name>.sql`` of the engine that serves the database being migrated.

    Backwards it runs ``schema/<name>.reverse.sql``. Obeys the project's routers. A database
    that no engine serves is passed over, unless the store is meant to live there.
    """

    reduces_to_sql = True
    reversible = True
    atomic = True

    def __init__(self, name: str) -> None:
        self.name = name

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__qualname__, [], {"name": self.name}

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """The engine's tables are no part of Django's state; the mirrors are unmanaged."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        self._run(app_label, schema_editor, self.name)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        self._run(app_label, schema_editor, f"{self.name}.reverse")

    def describe(self) -> str:
        return f"Run the engine's DDL {self.name}"

    def _run(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, name: str) -> None:
        connection = schema_editor.connection
        alias = connection.alias
        if not router.allow_migrate(alias, app_label, engine_ddl=name):
            return
        if not supports(alias) and alias not in store_aliases():
            return
        script = engine_for(alias).schema_script(name)
        for statement in connection.ops.prepare_sql_script(script):
            schema_editor.execute(statement, params=None)
