"""The mirrors: read-only models over the engine's tables."""

import datetime as dt

import pytest
from django.apps import apps
from django.db import NotSupportedError
from django.db.models import Count, F, Max

from alkstore_django.models import DeadJob, Job
from tests.support.statements import no_sql

NOW = 1_800_000_000


def at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


@pytest.fixture
def jobs(clock, make_queue):
    """A pending, a delayed, a running and a dead job of two queues; their ids by name."""
    mail, other = make_queue("mail", visibility_timeout_s=60), make_queue("other")
    ids = {"running": mail.enqueue({"n": 1}), "dead": mail.enqueue({"n": 2})}
    _, second = mail.claim_batch("worker", 2)
    assert second.fail("broken")
    ids["pending"] = mail.enqueue({"n": 3}, priority=5, expires=100)
    ids["delayed"] = other.enqueue({"n": 4}, delay=3_600)
    return ids


def test_a_mirror_shows_the_row(alias, jobs):
    """1.1 All columns, instants as aware UTC datetimes, the payload as bytes."""
    job = Job.objects.using(alias).get(pk=jobs["pending"])
    assert (job.queue, job.state, job.priority, job.attempts) == ("mail", "pending", 5, 0)
    assert (job.run_at, job.enqueued_at, job.expires_at) == (at(NOW), at(NOW), at(NOW + 100))
    assert (job.worker_id, job.claimed_at, job.deadline) == (None, None, None)
    assert bytes(job.payload) == b'{"n":3}' and job.codec == "json"
    running = Job.objects.using(alias).get(pk=jobs["running"])
    assert (running.worker_id, running.deadline) == ("worker", at(NOW + 60))
    dead = DeadJob.objects.using(alias).get(pk=jobs["dead"])
    assert (dead.last_error, dead.died_at) == ("broken", at(NOW))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"queue": "mail"}, {"running", "pending"}),
        ({"state": "processing"}, {"running"}),
        ({"queue__startswith": "oth"}, {"delayed"}),
        ({"run_at__gt": at(NOW)}, {"delayed"}),
        ({"run_at": at(NOW)}, {"running", "pending"}),
        ({"run_at__lte": NOW}, {"running", "pending"}),
        ({"run_at__range": (at(NOW + 1), at(NOW + 9_999))}, {"delayed"}),
        ({"expires_at__isnull": True}, {"running", "delayed"}),
        ({"deadline__gte": at(NOW + 60)}, {"running"}),
        ({"enqueued_at__year": at(NOW).year}, {"running", "pending", "delayed"}),
        ({"enqueued_at__date": at(NOW).date()}, {"running", "pending", "delayed"}),
        ({"run_at__hour": at(NOW + 3_600).hour}, {"delayed"}),
        ({"expires_at__gt": F("run_at")}, {"pending"}),
        ({"priority__gte": 5}, {"pending"}),
        ({"deadline__in": [at(NOW + 60)]}, {"running"}),
    ],
)
def test_a_mirror_can_be_filtered(alias, jobs, filters, expected):
    """1.1 By any column, instants by datetimes."""
    found = Job.objects.using(alias).filter(**filters)
    assert {job.pk for job in found} == {jobs[name] for name in expected}


def test_a_mirror_can_be_ordered_counted_and_summed_up(alias, jobs):
    """1.1 The ORM's reading side works whole."""
    rows = Job.objects.using(alias)
    assert rows.order_by("-run_at", "id").first().pk == jobs["delayed"]
    per_queue = rows.values("queue").annotate(n=Count("id")).order_by("queue")
    assert [(row["queue"], row["n"]) for row in per_queue] == [("mail", 2), ("other", 1)]
    assert rows.aggregate(last=Max("run_at"))["last"] == at(NOW + 3_600)
    assert rows.values_list("run_at", flat=True).get(pk=jobs["delayed"]) == at(NOW + 3_600)
    assert rows.only("queue").get(pk=jobs["pending"]).priority == 5
    assert list(rows.datetimes("enqueued_at", "day")) == [
        at(NOW).replace(hour=0, minute=0, second=0)
    ]
    assert rows.filter(queue="mail").exists() and rows.count() == 3
    assert [job.pk for job in rows.order_by("id")[1:2]] == [jobs["pending"]]
    assert rows.in_bulk([jobs["running"]])[jobs["running"]].attempts == 1
    assert DeadJob.objects.using(alias).for_queue("mail").count() == 1
    subquery = rows.filter(pk__in=rows.filter(queue="mail").values("pk"))
    assert subquery.count() == 2


WRITES = {
    "create": lambda rows: rows.create(queue="mail"),
    "update": lambda rows: rows.update(priority=1),
    "delete": lambda rows: rows.delete(),
    "bulk_create": lambda rows: rows.bulk_create([rows.model(queue="mail")]),
    "bulk_update": lambda rows: rows.bulk_update(list(rows), ["priority"]),
    "get_or_create": lambda rows: rows.get_or_create(queue="none"),
    "update_or_create": lambda rows: rows.update_or_create(queue="mail"),
    "instance.save": lambda rows: rows.first().save(),
    "instance.delete": lambda rows: rows.first().delete(),
    "new instance.save": lambda rows: rows.model(queue="mail").save(using=rows.db),
}


@pytest.mark.parametrize("model", [Job, DeadJob])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_a_mirror_refuses_every_write(alias, jobs, model, write):
    """1.1 FR-152 The engine owns the tables: NotSupportedError, and the rows are as before."""
    before = list(model.objects.using(alias).order_by("id").values())
    with pytest.raises(NotSupportedError):
        write(model.objects.using(alias))
    assert list(model.objects.using(alias).order_by("id").values()) == before


def test_the_admin_has_no_forms_for_the_mirrors():
    """FR-152 Only viewing is a permission; the models are unmanaged."""
    for model in apps.get_app_config("alkstore_django").get_models():
        assert model._meta.managed is False
        assert model._meta.default_permissions == ("view",)


def test_building_a_query_runs_no_sql(alias):
    """FR-141 Nothing is asked before the rows are."""
    with no_sql(alias):
        str(Job.objects.using(alias).filter(run_at__lte=at(NOW)).query.model)
        Job.objects.using(alias).filter(run_at__lte=at(NOW))
