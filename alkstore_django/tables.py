"""How an unmanaged mirror finds its engine-owned table: per connection, when SQL is built.

The model's ``db_table`` is a logical name, the same on every engine, so that migrations and
``makemigrations`` see one truth. ``FROM`` renders the physical table of the connection at
hand, under the logical name as its alias, so that every column reference stays valid.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import NotSupportedError, models
from django.db.models import DateTimeField, F
from django.db.models.functions import Trunc
from django.db.models.sql import Query
from django.db.models.sql.datastructures import BaseTable
from django.utils import timezone

from .engines.registry import engine_for
from .fields import FromEpoch

LOGICAL_PREFIX = "alkstore_django_"


def quoting_of(compiler: Any) -> Any:
    """Return how a compiler quotes a name, an alias left as it is."""
    # Django 6.1 calls it quote_name; 5.2 and 6.0 have only the older name.
    return getattr(compiler, "quote_name", None) or compiler.quote_name_unless_alias


class EngineTable(BaseTable):
    """The base table of a query, rendered as the engine's own."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        name = self.table_name.removeprefix(LOGICAL_PREFIX)
        physical = engine_for(connection.alias).table(name)
        return f"{physical} {quoting_of(compiler)(self.table_alias)}", []


class EngineQuery(Query):
    """A query whose base table is engine-owned."""

    base_table_class = EngineTable


def _refuse(name: str) -> Any:
    def refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotSupportedError(
            f"{name}() is refused: the engine owns this table; change jobs through their Queue"
        )

    refused.alters_data = True  # type: ignore[attr-defined]
    refused.__name__ = name
    return refused


class EngineQuerySet(models.QuerySet[Any, Any]):
    """Reads an engine-owned table; refuses every write."""

    def __init__(
        self, model: Any = None, query: Any = None, using: Any = None, hints: Any = None
    ) -> None:
        super().__init__(model, query or EngineQuery(model), using, hints)

    create = _refuse("create")
    update = _refuse("update")
    delete = _refuse("delete")
    bulk_create = _refuse("bulk_create")
    bulk_update = _refuse("bulk_update")
    get_or_create = _refuse("get_or_create")
    update_or_create = _refuse("update_or_create")

    def datetimes(self, field_name: str, kind: str, order: str = "ASC", tzinfo: Any = None) -> Any:
        """Like Django's, for epoch columns; the admin's date hierarchy asks for it."""
        zone = tzinfo or timezone.get_current_timezone()
        moment = Trunc(FromEpoch(F(field_name)), kind, output_field=DateTimeField(), tzinfo=zone)
        return (
            self.annotate(datetimefield=moment, plain_field=F(field_name))
            .values_list("datetimefield", flat=True)
            .distinct()
            .filter(plain_field__isnull=False)
            .order_by(("-" if order == "DESC" else "") + "datetimefield")
        )


class EngineModel(models.Model):
    """Base of the mirrors: instances are read, never saved or deleted."""

    class Meta:
        abstract = True

    save = _refuse("save")
    delete = _refuse("delete")
