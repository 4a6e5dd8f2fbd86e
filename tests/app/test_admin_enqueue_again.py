"""The admin's one action: enqueue again. 3.14, FR-150, FR-156."""

import os
import threading
from unittest import mock

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import connections
from django.test import override_settings

from alkstore_django.admin import dead_jobs
from alkstore_django.models import DeadJob
from tests.support.admin_site import Visitor, text_of
from tests.support.filling import fill_dead, fill_live, stored
from tests.support.rows import count_dead, count_live, dead_row
from tests.support.tampering import live_storage_refuses

SECRET = "S3CR3T"


def ids_of(alias, table="dead_job"):
    return [row["id"] for row in stored(alias, table)]


MANY = 50_000 if os.environ.get("ALKSTORE_TEST_FULL") == "1" else 12_000


def test_chosen_jobs_are_enqueued_again(alias, clock, make_queue, root):
    """3.14 Each chosen dead job becomes a fresh one, whose handler gets the same payload; the log
    tells who did it, and as which job it lives on; the page tells how many."""
    queue = make_queue(max_attempts=7)
    dead = queue.enqueue_many([{"n": n} for n in range(5)])
    for handle in queue.claim_batch("w", 5):
        handle.fail("no")
    response = root.act("deadjob/", dead[1:4])
    assert "3 dead jobs were enqueued again." in text_of(response)
    assert ids_of(alias) == [dead[0], dead[4]]
    jobs = [handle.job for handle in queue.claim_batch("w", 9)]
    assert [job.payload for job in jobs] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [(job.attempts, job.max_attempts) for job in jobs] == [(1, 7)] * 3
    entries = LogEntry.objects.order_by("id")
    assert [int(entry.object_id) for entry in entries] == dead[1:4]
    for entry, job in zip(entries, jobs, strict=True):
        assert entry.user == root.user and entry.is_change()
        assert entry.content_type == ContentType.objects.get_for_model(DeadJob)
        assert entry.object_repr == f"jobs {entry.object_id}"
        assert entry.get_change_message() == f"Enqueued again as job {job.id}."


def test_it_is_a_permission_of_its_own(alias, clock, visitor):
    """3.14 Who may only look is not offered the action, and cannot force it."""
    fill_dead(alias, 2)
    staff = visitor("view_deadjob")
    assert "Enqueue again" not in text_of(staff.get("deadjob/"))
    staff.act("deadjob/", [-1])
    staff.act("deadjob/", [-1], across=True)
    assert (count_dead(alias), count_live(alias)) == (2, 0)


def test_with_the_permission(alias, clock, visitor):
    """3.14 With it and the permission to view, no more is needed."""
    fill_dead(alias, 2)
    staff = visitor("view_deadjob", "enqueue_again_deadjob")
    assert "Enqueue again" in text_of(staff.get("deadjob/"))
    assert "1 dead job was enqueued again." in text_of(staff.act("deadjob/", [-1]))
    assert ids_of(alias) == [-2]


def test_without_the_permission_to_view(alias, clock, visitor):
    """3.14 The permission to enqueue again alone opens no page."""
    fill_dead(alias, 1)
    staff = visitor("enqueue_again_deadjob")
    assert staff.act("deadjob/", [-1]).status_code == 403
    assert count_dead(alias) == 1


def test_twice_is_once(alias, clock, root):
    """3.14 A second click finds nothing, and says so."""
    fill_dead(alias, 3)
    root.act("deadjob/", [-1, -2])
    text = text_of(root.act("deadjob/", [-1, -2]))
    assert "0 dead jobs were enqueued again." in text
    assert (count_dead(alias), count_live(alias)) == (1, 2)


def test_rows_that_vanish_meanwhile(alias, clock, root):
    """FR-150 What another one took away between the choice and the deed is passed over; the count
    is that of what was done."""
    fill_dead(alias, 30)
    enqueue_batch = dead_jobs.DeadJobAdmin._enqueue_batch

    def take_some_away_first(self, request, ids):
        with connections[alias].cursor() as cursor:
            table = '"alkstore"."dead_job"' if alias == "postgres" else '"__alkstore_dead_job"'
            cursor.execute(f"DELETE FROM {table} WHERE id > -6")
        return enqueue_batch(self, request, ids)

    with mock.patch.object(dead_jobs.DeadJobAdmin, "_enqueue_batch", take_some_away_first):
        text = text_of(root.act("deadjob/", range(-30, 0)))
    assert "25 dead jobs were enqueued again." in text and "5 were not there any more." in text
    assert (count_dead(alias), count_live(alias), LogEntry.objects.count()) == (0, 25, 25)


def test_very_many(alias, clock, root):
    """FR-150 Across all pages of a filtered list: that queue whole, no other, in batches, with a true
    count, and no limit on the fields of a form in the way."""
    fill_dead(alias, MANY, queue="'a'")
    fill_dead(alias, 10, queue="'b'", id="n")
    response = root.act("deadjob/?queue=a", range(-50, 0), across=True)
    assert f"{MANY:,} dead jobs were enqueued again." in text_of(response)
    assert ids_of(alias) == list(range(1, 11))
    assert count_live(alias) == LogEntry.objects.count() == MANY
    assert {row["queue"] for row in stored(alias, "job")} == {"a"}


def test_across_respects_filter_and_search(alias, clock, root):
    """FR-150 Across means what the list shows: its filters and its search."""
    fill_dead(alias, 120, queue="'a'", last_error="'boom'", attempts="n - n / 2 * 2")
    fill_dead(alias, 30, queue="'a'", id="n", last_error="'other'")
    root.act("deadjob/?queue=a&q=boom&attempts=1", [-1], across=True)
    assert (count_live(alias), count_dead(alias)) == (60, 90)
    root.act("deadjob/?q=-7", ["-8"], across=True)
    assert (count_live(alias), count_dead(alias)) == (60, 90)


def test_a_choice_is_no_more_than_the_choice(alias, clock, root):
    """FR-150 Without across, the rows that were ticked, and only if the filter shows them."""
    fill_dead(alias, 4, queue="'a'")
    fill_dead(alias, 4, queue="'b'", id="n")
    root.act("deadjob/?queue=a", [-1, -2, 1, 2])
    assert ids_of(alias) == [-4, -3, 1, 2, 3, 4]
    assert "Items must be selected" in text_of(root.act("deadjob/", []))


def test_two_admins_at_once(alias, clock, root):
    """3.14 Each dead job is enqueued once, whoever of two asks for all at the same time."""
    fill_dead(alias, 1_500)
    begin, texts = threading.Barrier(2, timeout=30), []

    def ask(visitor):
        begin.wait()
        try:
            texts.append(text_of(visitor.act("deadjob/", [-1], across=True)))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=ask, args=(Visitor(alias, root.user),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 2 and all("enqueued again" in text for text in texts)
    assert (count_dead(alias), count_live(alias), LogEntry.objects.count()) == (0, 1_500, 1_500)


def test_a_batch_that_fails(alias, clock, root):
    """FR-150 3.14 A batch that the database refuses leaves its dead jobs as they were, with no
    entry in the log; the batches before it are done."""
    fill_dead(alias, 3)
    root.client.raise_request_exception = False
    with live_storage_refuses(alias):
        assert root.act("deadjob/", [-1, -2]).status_code == 500
    assert (count_dead(alias), count_live(alias), LogEntry.objects.count()) == (3, 0, 0)


@override_settings(DEBUG=True)
def test_no_payload_on_the_page_of_an_error(alias, clock, make_queue, root):
    """FR-156 Neither the page of a failing action nor what is posted to it holds a payload."""
    queue = make_queue()
    job_id = queue.enqueue({"token": SECRET})
    queue.claim_one("w").fail("no")
    root.client.raise_request_exception = False
    with live_storage_refuses(alias):
        response = root.act("deadjob/", [job_id], across=True)
    assert response.status_code == 500 and len(response.content) > 10_000
    assert SECRET.encode() not in response.content
    assert SECRET.encode().hex().encode() not in response.content
    assert dead_row(alias, job_id) is not None
    assert SECRET.encode() not in root.get("deadjob/").content


def test_no_payload_on_the_page_of_a_failing_view(alias, clock, make_queue, root):
    """FR-156 A detail page that fails while it shows the payload reports to admins without it."""
    queue = make_queue()
    job_id = queue.enqueue({"token": SECRET})
    root.client.raise_request_exception = False
    with (
        mock.patch("alkstore_django.admin.payloads.preformatted", side_effect=RuntimeError("no")),
        mock.patch("django.utils.log.AdminEmailHandler.send_mail") as send,
        override_settings(ADMINS=[("root", "root@example.org")]),
    ):
        assert root.get(f"job/{job_id}/change/").status_code == 500
    sent = repr(send.call_args_list)
    assert "RuntimeError" in sent and SECRET not in sent


def test_events_keep_their_place(alias, clock, root):
    """5.2 An event of an outbox goes behind a live one of its key."""
    name = "'__alkstore_outbox_mail'"
    fill_live(alias, 1, queue=name, key="'k'")
    fill_dead(alias, 2, queue=name, key="'k'")
    assert "2 dead jobs were enqueued again." in text_of(root.act("deadjob/", [-1, -2]))
    assert [row["state"] for row in stored(alias, "job")] == ["pending", "behind", "behind"]
    assert {entry.object_repr for entry in LogEntry.objects.all()} == {
        "outbox mail -1", "outbox mail -2",
    }  # fmt: skip
