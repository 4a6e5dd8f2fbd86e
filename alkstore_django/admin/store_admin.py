"""What the three pages share: they look at one alias, and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ..conf import default_alias
from ..core.names import shown_queue
from ..engines.registry import engine_for
from ..engines.upkeep import Upkeep
from .changelist import BoundedChangeList, BoundedPaginator, page_asked_for
from .payloads import payload_shown, with_beginning
from .window import LOOKED_AT, first_rows

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class StoreAdmin(_ModelAdmin):
    """Read-only pages over one of the engine's tables.

    Attributes:
        using: the alias of the store; ``None`` is that of module-level queues.
    """

    using: ClassVar[str | None] = None
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    # A search shows this box; what it looks for is up to each page.
    search_fields = ("id",)

    class Media:
        css: ClassVar = {"all": ["alkstore_django/admin.css"]}

    # -- nothing is changed ---------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes."""
        return False

    # -- rows -----------------------------------------------------------------------------

    @property
    def alias(self) -> str:
        """The alias whose rows are shown."""
        return self.using or default_alias()

    @property
    def upkeep(self) -> Upkeep:
        """What the engine of the alias does for these pages."""
        return engine_for(self.alias).upkeep

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of the alias, in no order."""
        rows: QuerySet[Any] = self.model._default_manager.using(self.alias)
        return rows

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """Read one row, of its payload no more than the beginning."""
        rows = with_beginning(self.get_queryset(request))
        try:
            return rows.filter(pk=self.model._meta.pk.to_python(object_id)).first()
        except (ValueError, ValidationError):
            return None

    def list_rows(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Leave out of a list what is of any size."""
        return rows.defer("payload")

    # -- lists ----------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BoundedChangeList]:
        """Use lists that are bounded."""
        return BoundedChangeList

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **kwargs: Any
    ) -> Any:
        """Count the rows of a list up to a bound; a history has few entries."""
        if queryset.model is not self.model:
            return super().get_paginator(request, queryset, per_page, *args, **kwargs)
        rows = self.get_queryset(request)
        return BoundedPaginator(queryset, rows, per_page, page_asked_for(request))

    def order(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the order of the list, which is that of an index."""
        return tuple(map(str, self.get_ordering(request)))

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        """Refuse what is no filter of the page: an address cannot ask for a slow search."""
        return lookup in {each.parameter_name for each in self.list_filter}  # type: ignore[union-attr]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find a row by its key, else look for a text among the first rows of the list."""
        term = search_term.strip()
        if not term or "\x00" in term:
            return queryset, False
        by_key = self.row_of(term)
        if by_key is not None and self.get_queryset(request).filter(by_key).exists():
            return self.get_queryset(request).filter(by_key).order_by(*self.order(request)), False
        within = first_rows(queryset, self.order(request))
        return within.filter(self.holds(term)), False

    def row_of(self, term: str) -> Q | None:
        """Return the condition by which a search finds one row, if the term can be its id."""
        if term.isascii() and term.isdigit() and len(term) < 20:
            return Q(pk=int(term))
        return None

    def holds(self, term: str) -> Q:
        """Return the condition that a row holds a text."""
        raise NotImplementedError

    # -- columns --------------------------------------------------------------------------

    @admin.display(description=_("queue"))
    def queue_shown(self, row: Any) -> str:
        """The queue's name; an outbox under its own."""
        return shown_queue(row.queue)

    @admin.display(description=_("attempts"))
    def attempts_shown(self, row: Any) -> str:
        """Attempts made, of those there are."""
        return f"{row.attempts} / {row.max_attempts}"

    @admin.display(description=_("content"))
    def payload_shown(self, row: Any) -> SafeString:
        """The payload, as far as it is shown."""
        return payload_shown(row)


def bound_shown() -> str:
    """Return how many rows a search looks at, for its help text."""
    return number_format(LOOKED_AT, force_grouping=True)
