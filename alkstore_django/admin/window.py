"""Looking at the first rows of an index, and at no more.

What no index can answer (an error text, a number of attempts) is asked of the first rows in
the list's own order only. The list is then short at worst, and never slow.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import FullResultSet
from django.db.models import QuerySet
from django.db.models.sql import Query

from ..tables import EngineQuery, EngineTable, quoting_of

LOOKED_AT = 10_000
"""How many rows such a filter or search looks at."""

UNSEEN = {"payload"}
"""Columns that the rows of a window do not have: they may be of any size."""


class WindowTable(EngineTable):
    """The first rows of a query, in the place of the whole table."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        quote = connection.ops.quote_name
        inner = compiler.query.window
        inner_compiler = inner.get_compiler(connection=connection)
        table, params = inner_compiler.compile(inner.alias_map[inner.base_table])
        try:
            where, where_params = inner_compiler.compile(inner.where)
        except FullResultSet:
            where, where_params = "", []
        condition = f" WHERE {where}" if where else ""
        fields = [field for field in inner.get_meta().concrete_fields if field.name not in UNSEEN]
        columns = ", ".join(quote(field.column) for field in fields)
        order = ", ".join(_ordered(inner.get_meta(), term, quote) for term in inner.order_by)
        rows = f"SELECT {columns} FROM {table}{condition} ORDER BY {order} LIMIT {LOOKED_AT}"  # noqa: S608
        alias = quoting_of(compiler)(self.table_alias)
        return f"({rows}) {alias}", [*params, *where_params]


class WindowQuery(EngineQuery):
    """A query over the first rows of another one."""

    base_table_class = WindowTable
    window: Query


def first_rows(queryset: QuerySet[Any], order: tuple[str, ...]) -> QuerySet[Any]:
    """Return a queryset over the first rows of ``queryset`` in that order.

    What is filtered afterwards is asked of these rows alone. Done twice, it is done once.
    """
    if isinstance(queryset.query, WindowQuery):
        return queryset
    query = WindowQuery(queryset.model)
    query.window = queryset.order_by(*order).query
    query.window.get_initial_alias()
    made: QuerySet[Any] = type(queryset)(queryset.model, query, queryset.db)
    return made.order_by(*order)


def _ordered(meta: Any, term: str, quote: Any) -> str:
    column = quote(meta.get_field(term.removeprefix("-")).column)
    return f"{column} DESC" if term.startswith("-") else column
