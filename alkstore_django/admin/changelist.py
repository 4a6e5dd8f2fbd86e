"""Lists that stay quick: ordered by an index, counted up to a bound, wide only where shown.

A list is always in the order of an index that serves its filters; nobody can ask for another.
A page is found by the keys alone, and only its own rows are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.functional import cached_property

COUNTED_AT_MOST = 10_000
"""How far a list is counted; further only as far as the page asked for reaches."""

REACH = 1_000_000
"""The last row that a page can be asked for."""

PAGES_AHEAD = 3

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator


class BoundedCount(int):
    """A count that may have stopped before the end; then its text ends in a plus sign."""

    goes_on = False

    @classmethod
    def of(cls, counted: int, bound: int) -> BoundedCount:
        """Return the count of rows, of which one more than ``bound`` may have been counted."""
        count = cls(min(counted, bound))
        count.goes_on = counted > bound
        return count

    def __str__(self) -> str:
        if not self.goes_on or settings.USE_THOUSAND_SEPARATOR:
            return str(int(self))  # which Django groups itself, and a sign would be in its way
        return number_format(int(self), force_grouping=True) + "+"


class BoundedPaginator(_Paginator):
    """Counts no further than it has to, and finds a page by an index alone."""

    def __init__(self, keys: Any, rows: QuerySet[Any], per_page: int, page_asked_for: int) -> None:
        super().__init__(keys, per_page)
        self._rows = rows
        ahead = (page_asked_for + PAGES_AHEAD) * per_page
        self._bound = min(max(COUNTED_AT_MOST, ahead), REACH)

    @cached_property
    def count(self) -> BoundedCount:
        """How many rows there are, up to the bound."""
        # In order: so that the rows are counted in the index, and not looked for in the table.
        keys = self.object_list.values("pk")  # type: ignore[attr-defined]
        counted = keys[: self._bound + 1].count()
        return BoundedCount.of(counted, self._bound)

    def page(self, number: Any) -> Any:
        """Return one page, its rows whole but for the columns of any size."""
        number = self.validate_number(number)
        bottom = (number - 1) * self.per_page
        keys = self.object_list.values("pk")[bottom : bottom + self.per_page]  # type: ignore[attr-defined]
        order = self.object_list.query.order_by  # type: ignore[attr-defined]
        return Page(self._rows.filter(pk__in=keys).order_by(*order), number, self)


class BoundedChangeList(ChangeList):
    """A change list in the order of an index, whatever is asked for."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the model admin's order; columns cannot be sorted by."""
        return list(self.model_admin.order(request))  # type: ignore[attr-defined]

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of the page, without what is of any size."""
        super().get_results(request)
        self.result_list = self.model_admin.list_rows(self.result_list)  # type: ignore[attr-defined]


def page_asked_for(request: HttpRequest) -> int:
    """Return the number of the page in a request, 1 for anything odd."""
    text = request.GET.get(PAGE_VAR, "1")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1
