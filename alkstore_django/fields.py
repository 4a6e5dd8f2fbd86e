"""Instants kept as integer epoch seconds, met as aware datetimes.

``WHERE`` and ``ORDER BY`` use the bare integer column, so its indexes serve; only the select
list and the date transforms turn it into a timestamp.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import functions
from django.db.models.expressions import Func, RawSQL
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from .core.instants import MICROSECONDS, as_datetime
from .engines.registry import engine_for


class FromEpoch(Func):
    """An epoch column as the database's own timestamp expression."""

    arity = 1

    def __init__(self, expression: Any, **extra: Any) -> None:
        extra.setdefault("output_field", models.DateTimeField())
        super().__init__(expression, **extra)

    def as_postgresql(self, compiler: SQLCompiler, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template="to_timestamp(%(expressions)s)", **extra)

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **extra: Any) -> Any:
        template = "datetime(%(expressions)s, 'unixepoch')"
        return self.as_sql(compiler, connection, template=template, **extra)


class EpochNow(Func):
    """The database's present instant in epoch seconds, to compare epoch columns with."""

    arity = 0

    def __init__(self, **extra: Any) -> None:
        extra.setdefault("output_field", EpochField())
        super().__init__(**extra)

    def as_postgresql(self, compiler: SQLCompiler, connection: Any, **extra: Any) -> Any:
        return _clock(connection, "floor(extract(epoch FROM statement_timestamp()))::bigint")

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **extra: Any) -> Any:
        return _clock(connection, "unixepoch()")


if TYPE_CHECKING:
    _DateTimeField = models.DateTimeField[Any, dt.datetime | None]
else:
    _DateTimeField = models.DateTimeField


class EpochField(_DateTimeField):
    """A bigint of UTC epoch seconds in the table, an aware UTC ``datetime`` in Python.

    Its internal type stays DateTimeField, so the admin offers date filters and hierarchy.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "bigint"

    def cast_db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "bigint"

    def select_format(self, compiler: Any, sql: str, params: Any) -> Any:
        return compiler.compile(FromEpoch(RawSQL(sql, params)))

    def get_prep_value(self, value: Any) -> Any:
        if value is None or hasattr(value, "resolve_expression"):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        moment = self.to_python(value)
        if timezone.is_naive(moment):
            moment = timezone.make_aware(moment)
        return int(moment.timestamp() // 1)

    def get_db_prep_value(
        self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False
    ) -> Any:
        return value if prepared else self.get_prep_value(value)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return as_datetime(value)
        return super().to_python(value)


def _clock(connection: Any, expression: str) -> tuple[str, tuple[int, ...]]:
    """Return the database's clock, or the instant at which a test holds it."""
    frozen = engine_for(connection.alias).frozen_now_us
    return (expression, ()) if frozen is None else ("%s", (frozen // MICROSECONDS,))


def _over_epoch(transform: type[Func]) -> type[Func]:
    """Return the transform made to work on an epoch column."""

    def initialise(self: Any, expression: Any, **extra: Any) -> None:
        transform.__init__(self, FromEpoch(expression), **extra)

    return type(transform.__name__, (transform,), {"__init__": initialise})


for _lookup, _transform in {
    "year": functions.ExtractYear,
    "iso_year": functions.ExtractIsoYear,
    "month": functions.ExtractMonth,
    "day": functions.ExtractDay,
    "week": functions.ExtractWeek,
    "week_day": functions.ExtractWeekDay,
    "iso_week_day": functions.ExtractIsoWeekDay,
    "quarter": functions.ExtractQuarter,
    "hour": functions.ExtractHour,
    "minute": functions.ExtractMinute,
    "second": functions.ExtractSecond,
    "date": functions.TruncDate,
    "time": functions.TruncTime,
}.items():
    EpochField.register_lookup(_over_epoch(_transform), _lookup)
