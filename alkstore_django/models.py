"""Read-only mirrors of the engine-owned tables, for the ORM and the admin."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from .core.names import shown_queue
from .core.records import JobState
from .fields import EpochField
from .managers import DeadJobManager, JobManager, ScheduleManager
from .tables import EngineModel


class JobColumns(EngineModel):
    """What live and dead jobs have in common."""

    id = models.BigIntegerField(_("id"), primary_key=True)
    queue = models.TextField(_("queue"))
    priority = models.IntegerField(_("priority"))
    run_at = EpochField(_("run at"))
    expires_at = EpochField(_("expires at"), null=True)
    attempts = models.IntegerField(_("attempts"))
    max_attempts = models.IntegerField(_("max attempts"))
    visibility_timeout_s = models.BigIntegerField(_("visibility timeout (s)"))
    backoff_base_s = models.BigIntegerField(_("backoff base (s)"))
    enqueued_at = EpochField(_("enqueued at"))
    worker_id = models.TextField(_("worker"), null=True)
    claimed_at = EpochField(_("claimed at"), null=True)
    codec = models.TextField(_("codec"))
    key = models.TextField(_("key"), null=True)
    payload = models.BinaryField(_("payload"))

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{shown_queue(self.queue)} {self.pk}"


class Job(JobColumns):
    """A live job: pending, or claimed by a worker.

    A pending event of an outbox whose key has an earlier one still to deliver is ``behind``.
    """

    STATES: ClassVar[list[tuple[str, Any]]] = [
        (JobState.PENDING.value, _("pending")),
        (JobState.PROCESSING.value, _("processing")),
        ("behind", _("pending, behind another of its key")),
    ]

    state = models.TextField(_("state"), choices=STATES)
    deadline = EpochField(_("deadline"), null=True)
    claim_token = models.BigIntegerField(_("claim token"), null=True)

    objects: ClassVar[JobManager] = JobManager()

    class Meta:
        managed = False
        db_table = "alkstore_django_job"
        base_manager_name = "objects"
        default_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = _("job")
        verbose_name_plural = _("jobs")


class DeadJob(JobColumns):
    """A job in dead storage, with the reason of its death."""

    last_error = models.TextField(_("last error"))
    died_at = EpochField(_("died at"))

    objects: ClassVar[Any] = DeadJobManager()

    class Meta:
        managed = False
        db_table = "alkstore_django_dead_job"
        base_manager_name = "objects"
        default_manager_name = "objects"
        default_permissions = ("view",)
        permissions = (("enqueue_again_deadjob", _("Can enqueue dead jobs again")),)
        verbose_name = _("dead job")
        verbose_name_plural = _("dead jobs")


class Schedule(EngineModel):
    """A registered schedule, with its ledger: ``n_expected`` = ``n_fired`` + ``n_skipped``."""

    name = models.TextField(_("name"), primary_key=True)
    spec = models.TextField(_("spec"))
    interval_s = models.BigIntegerField(_("interval (s)"))
    queue = models.TextField(_("queue"))
    next_boundary_at = EpochField(_("next boundary"))
    first_boundary_at = EpochField(_("first boundary"))
    last_boundary_at = EpochField(_("last boundary"), null=True)
    last_fired_at = EpochField(_("last fired"), null=True)
    registered_at = EpochField(_("registered at"))
    changed_at = EpochField(_("changed at"))
    n_before = models.BigIntegerField(_("boundaries of earlier intervals"))
    n_fired = models.BigIntegerField(_("fired"))
    n_skipped = models.BigIntegerField(_("skipped"))
    expires_us = models.BigIntegerField(_("expires after (µs)"), null=True)
    priority = models.IntegerField(_("priority"))
    max_attempts = models.IntegerField(_("max attempts"))
    visibility_timeout_s = models.BigIntegerField(_("visibility timeout (s)"))
    backoff_base_s = models.BigIntegerField(_("backoff base (s)"))
    revision = models.IntegerField(_("revision"))
    declared = models.BooleanField(_("declared in code"))
    codec = models.TextField(_("codec"))
    payload = models.BinaryField(_("payload"))

    objects: ClassVar[Any] = ScheduleManager()

    class Meta:
        managed = False
        db_table = "alkstore_django_schedule"
        base_manager_name = "objects"
        default_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")

    def __str__(self) -> str:
        return self.name
