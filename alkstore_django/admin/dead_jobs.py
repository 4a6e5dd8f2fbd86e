"""Dead letters: what died, why, and another life for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Right, Substr
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..core.names import shown_queue
from ..engines.upkeep import EnqueuedAgain
from ..models import DeadJob
from ..models import Job as JobMirror
from . import texts
from .filters import AttemptsFilter, DiedFilter, QueueFilter
from .job_columns import JobColumnsAdmin
from .store_admin import bound_shown

ERROR_LINE = 120
ERROR_PART = 400
ERROR_BYTES = 100_000
AGAIN_AT_ONCE = 1_000


class DeadJobAdmin(JobColumnsAdmin):
    """The dead of all queues, the latest first."""

    list_display = ("id", "queue_shown", "died", "attempts_shown", "error_line")
    list_filter = (QueueFilter, DiedFilter, AttemptsFilter)
    ordering = ("-died_at", "-id")
    actions = ("enqueue_again",)
    fieldsets = (
        (None, {"fields": ("id", "queue_shown", "key", "died_in_full", "error_in_full")}),
        (gettext_lazy("Payload"), {"fields": ("payload_shown",)}),
        *JobColumnsAdmin.option_fieldsets,
    )

    @property
    def search_help_text(self) -> str:  # type: ignore[override]
        """Say what a search finds."""
        return _(
            "A number finds the job with that id; other text is looked for in the errors of the "
            "latest %(bound)s dead jobs listed, which is also how far a list is counted."
        ) % {"bound": bound_shown()}

    def queue_names(self, *, at_most: int) -> list[str]:
        """Return the queues that have dead jobs."""
        return self.upkeep.dead_queue_names(at_most=at_most)

    def list_rows(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Read the beginning of the error only."""
        rows = super().list_rows(rows).defer("payload", "last_error")
        short: QuerySet[Any] = rows.annotate(
            error_start=Substr("last_error", 1, ERROR_PART),
            error_end=Right("last_error", ERROR_PART),
        )
        return short

    def holds(self, term: str) -> Q:
        """Look for a text in errors."""
        return Q(last_error__icontains=term)

    # -- columns --------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("error"))
    def error_line(self, row: Any) -> str:
        """The line of the error that says most: of a traceback the last one."""
        return texts.one_line(row.error_start, row.error_end, ERROR_LINE)

    @admin.display(description=gettext_lazy("error"))
    def error_in_full(self, row: Any) -> SafeString:
        """The error as it was kept."""
        return texts.preformatted(row.last_error, budget=ERROR_BYTES)

    @admin.display(description=gettext_lazy("died"))
    def died(self, row: Any) -> str:
        """When it died."""
        return texts.moment(row.died_at)

    @admin.display(description=gettext_lazy("died"))
    def died_in_full(self, row: Any) -> str:
        """When it died, and how long ago that was."""
        return texts.moment_in_full(row.died_at)

    # -- enqueue again --------------------------------------------------------------------

    def has_enqueue_again_permission(self, request: HttpRequest) -> bool:
        """Whether the user may give dead jobs another life."""
        return bool(request.user.has_perm("alkstore_django.enqueue_again_deadjob"))

    @admin.action(permissions=["enqueue_again"], description=gettext_lazy("Enqueue again"))
    def enqueue_again(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Enqueue the chosen jobs afresh; the dead rows go (CONTRACT 3.14).

        Only ids pass through here. They are read once, so that what dies meanwhile is left for
        the next look; then batch by batch is one transaction with its log entries, the oldest
        job first. What has vanished meanwhile is passed over.
        """
        ids = sorted(queryset.values_list("pk", flat=True))
        done = sum(
            self._enqueue_batch(request, ids[start : start + AGAIN_AT_ONCE])
            for start in range(0, len(ids), AGAIN_AT_ONCE)
        )
        self._report(request, done, len(ids) - done)

    def _enqueue_batch(self, request: HttpRequest, ids: Sequence[int]) -> int:
        jobs = JobMirror.objects.db_manager(self.alias)
        with transaction.atomic(using=self.alias):
            stored = jobs.enqueue_again(ids)
            LogEntry.objects.bulk_create(_log_entries(request.user.pk, stored), batch_size=500)
        return len(stored)

    def _report(self, request: HttpRequest, done: int, vanished: int) -> None:
        shown = {"n": number_format(done, force_grouping=True)}
        text = ngettext(
            "%(n)s dead job was enqueued again.", "%(n)s dead jobs were enqueued again.", done
        )
        self.message_user(request, text % shown, messages.SUCCESS if done else messages.WARNING)
        if vanished:
            shown = {"n": number_format(vanished, force_grouping=True)}
            text = ngettext(
                "%(n)s was not there any more.", "%(n)s were not there any more.", vanished
            )
            self.message_user(request, text % shown, messages.WARNING)


def _log_entries(user_id: Any, stored: Iterable[EnqueuedAgain]) -> list[LogEntry]:
    """One entry per job, so that the log tells who has run which job again, and as which."""
    content_type = ContentType.objects.get_for_model(DeadJob)
    return [
        LogEntry(
            user_id=user_id,
            content_type=content_type,
            object_id=str(job.dead_id),
            object_repr=f"{shown_queue(job.queue)} {job.dead_id}"[:200],
            action_flag=CHANGE,
            change_message=_("Enqueued again as job %(id)d.") % {"id": job.job_id},
        )
        for job in stored
    ]
