"""Filters of the lists: by what an index answers, or among the first rows of the list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import BigIntegerField, Q, QuerySet
from django.db.models.expressions import Combinable, RawSQL
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.translation import gettext_lazy as _

from ..core.names import shown_queue
from ..fields import EpochNow
from .window import LOOKED_AT, first_rows

QUEUES_AT_MOST = 200

HOUR, DAY = 3_600, 86_400


def seconds_ago(seconds: int) -> Combinable:
    """The database's present, so many seconds back, to compare an epoch column with."""
    return EpochNow(output_field=BigIntegerField()) - seconds


class QueueFilter(admin.SimpleListFilter):
    """By queue. The choices are found by walking from name to name in an index."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """Return the queues that have rows, and the one that is chosen."""
        names = set(model_admin.queue_names(at_most=QUEUES_AT_MOST))
        names |= {name for name in [self.value()] if name}
        return [(name, shown_queue(name)) for name in sorted(names, key=_order)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep one queue."""
        name = self.value()
        return queryset.filter(queue=name) if name and "\x00" not in name else queryset


def _order(queue: str) -> tuple[bool, str]:
    """Outboxes after the queues."""
    label = shown_queue(queue)
    return label != queue, label


class StateFilter(admin.SimpleListFilter):
    """By state. With a queue there is no list of all states: no index has that."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Return the states that a row may be in."""
        return (
            ("pending", _("pending")),
            ("processing", _("processing")),
            ("behind", _("behind another of its key")),
        )

    def value(self) -> str | None:
        """Return the state asked for, or the one that a queue shows at first."""
        given = super().value()
        if given in {"pending", "processing", "behind"}:
            return given
        return "pending" if self.request.GET.get(QueueFilter.parameter_name) else None

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the choices; all states together only where no queue is chosen."""
        choices = super().choices(changelist)
        everything = next(choices)
        if not changelist.params.get(QueueFilter.parameter_name):
            yield everything
        yield from choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep one state: written as a literal, which the condition of an index can be held to."""
        state = self.value()
        if state is None:
            return queryset
        queryset = queryset.filter(state=RawSQL(f"'{state}'", ()))  # noqa: S611  one of three words
        return queryset.filter(key__isnull=False) if state == "behind" else queryset


class DiedFilter(admin.SimpleListFilter):
    """By the time of death."""

    title = _("time of death")
    parameter_name = "died"
    WITHIN: ClassVar[dict[str, tuple[int, Any]]] = {
        "hour": (HOUR, _("in the last hour")),
        "day": (DAY, _("in the last 24 hours")),
        "week": (7 * DAY, _("in the last 7 days")),
        "month": (30 * DAY, _("in the last 30 days")),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Return the spans, and what lies before them."""
        spans = [(key, title) for key, (_length, title) in self.WITHIN.items()]
        return [*spans, ("older", _("before that"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep a range of the index."""
        span = self.value()
        if span == "older":
            return queryset.filter(died_at__lt=seconds_ago(30 * DAY))
        if span in self.WITHIN:
            return queryset.filter(died_at__gte=seconds_ago(self.WITHIN[span][0]))
        return queryset


class FirstRowsFilter(admin.SimpleListFilter):
    """Base of the filters that no index answers: they look at the first rows of the list."""

    conditions: ClassVar[dict[str, tuple[Any, Q]]]
    name: ClassVar[Any]

    @property
    def title(self) -> Any:  # type: ignore[override]
        """Tell how far the filter looks."""
        bound = number_format(LOOKED_AT, force_grouping=True)
        return _("%(name)s (among the first %(bound)s)") % {"name": self.name, "bound": bound}

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Return the conditions that there are."""
        self._order = model_admin.order(request)
        return [(key, title) for key, (title, _condition) in self.conditions.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep what meets the condition, among the first rows."""
        value = self.value()
        if value not in self.conditions:
            return queryset
        return first_rows(queryset, self._order).filter(self.conditions[value][1])


class AttemptsFilter(FirstRowsFilter):
    """By the number of attempts."""

    name = _("attempts")
    parameter_name = "attempts"
    conditions: ClassVar[dict[str, tuple[Any, Q]]] = {
        "0": (_("none"), Q(attempts=0)),
        "1": (_("1"), Q(attempts=1)),
        "2": (_("2"), Q(attempts=2)),
        "3": (_("3"), Q(attempts=3)),
        "4": (_("4 to 9"), Q(attempts__range=(4, 9))),
        "10": (_("10 and more"), Q(attempts__gte=10)),
    }


class DueFilter(FirstRowsFilter):
    """By what the clock says of a job."""

    name = _("time")
    parameter_name = "time"
    conditions: ClassVar[dict[str, tuple[Any, Q]]] = {
        "due": (_("due"), Q(run_at__lte=EpochNow())),
        "later": (_("due later"), Q(run_at__gt=EpochNow())),
        "lapsed": (_("claim lapsed"), Q(deadline__lte=EpochNow())),
        "expired": (_("expired"), Q(expires_at__lte=EpochNow())),
    }
