"""The admin's pages look and change nothing: FR-148, FR-150, FR-152, FR-156."""

import datetime as dt
import gzip
import json
import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import override_settings
from django.utils import timezone

from alkstore_django import BYTES
from alkstore_django.admin import DeadJobAdmin
from alkstore_django.core.errortext import MAX_ERROR_LENGTH
from alkstore_django.models import DeadJob, Job
from tests.conftest import FROZEN_AT
from tests.support.admin_site import rows_of, text_of
from tests.support.filling import fill_dead, fill_live, fill_schedules, stored
from tests.support.tampering import change_live_row

OUTBOX = "'__alkstore_outbox_mail'"
MAX_PAGE = 200 * 1024


def all_rows(alias):
    return [stored(alias, "job"), stored(alias, "dead_job"), stored(alias, "schedule", "name")]


@pytest.fixture
def some(alias, clock):
    """A few rows of each kind."""
    fill_dead(alias, 3)
    fill_live(alias, 3)
    fill_schedules(alias, 3)
    return alias


# -- who may look ----------------------------------------------------------------------------

PATHS = {
    "view_deadjob": ["deadjob/", "deadjob/-1/change/", "deadjob/-1/history/"],
    "view_job": ["job/", "job/?state=pending"],
    "view_schedule": ["schedule/", "schedule/s1/change/", "schedule/s1/history/"],
}


@pytest.mark.parametrize("permission", PATHS)
def test_viewing_is_a_permission(some, visitor, permission):
    """FR-152 With the permission to view, one may look at that page, and at no other."""
    staff = visitor(permission)
    for needed, paths in PATHS.items():
        for path in paths:
            assert staff.get(path).status_code == (200 if needed == permission else 403), path


def test_strangers_are_sent_to_the_login(some, visitor):
    """FR-152 Who is no member of the staff sees nothing."""
    staff = visitor("view_deadjob")
    staff.user.is_staff = False
    staff.user.save()
    assert staff.get("deadjob/").status_code == 302


# -- nothing is changed ----------------------------------------------------------------------


@pytest.mark.parametrize("page", ["deadjob/-1", "job/1", "schedule/s1"])
def test_nobody_adds_changes_or_deletes(some, root, page):
    """FR-152 Not even a superuser: the addresses answer 403, and the rows are as before."""
    model, key = page.split("/")
    if model == "job":
        key = str(stored(some, "job")[0]["id"])
    before = all_rows(some)
    assert root.get(f"{model}/add/").status_code == 403
    for path in ("add/", f"{key}/change/", f"{key}/delete/"):
        data = {"queue": "other", "attempts": "0", "_save": "Save", "post": "yes"}
        assert root.post(f"{model}/{path}", data).status_code == 403, path
    response = root.act(f"{model}/", [key], action="delete_selected")
    assert response.status_code == 200
    assert all_rows(some) == before


@pytest.mark.parametrize("page", ["deadjob/", "job/", "schedule/"])
def test_no_page_offers_a_form(some, root, page):
    """FR-148 No field to type into but the search; no payload in a form that is posted."""
    response = root.get(page)
    detail = root.get(
        re.search(rf'/{some}/alkstore_django/({page}[^"/]+/change/)', _html(response))[1]
    )
    assert detail.status_code == 200
    for each in (response, detail):
        names = set(re.findall(r'<(?:input|textarea|select)[^>]*name="(\w+)"', _html(each)))
        assert names <= {"csrfmiddlewaretoken", "q", "action", "select_across", "_selected_action"}


def test_writes_through_the_model_are_refused(some, root):
    """FR-152 The model admin's own way to save leads to the mirror's refusal."""
    page = DeadJobAdmin(DeadJob, admin.site)
    row = DeadJob.objects.using(some).first()
    for write in (
        lambda: page.save_model(None, row, None, change=True),
        lambda: page.delete_model(None, row),
        lambda: page.delete_queryset(None, DeadJob.objects.using(some)),
    ):
        with pytest.raises(Exception, match="refused"):
            write()


# -- payloads --------------------------------------------------------------------------------

BIG = bytes(range(256)) * (5 * 1024 * 1024 // 256)
PAYLOADS = {
    "binary": (b"\x80\xff", "hexadecimal", "80 ff"),
    "5 MiB": (BIG, "5,242,880 bytes", "00 01 02"),
    "JSON": (b'{"b":[1,{"c":"<i>"}]}', "JSON", '"c": "<i>"'),
    "JSON of 1 MiB": (b'["' + b"y" * 2**20 + b'"]', "text, its beginning only", "yyy"),
    "deep JSON": (b"[" * 30_000 + b"]" * 30_000, "text", "[[["),
    "steep JSON": (b"[" * 300 + b"1," * 20_000 + b"1" + b"]" * 300, "JSON", "["),
    "JSON with a surrogate": (b'["\\ud800"]', "JSON", "\\ud800"),
    "JSON with NUL": (b'["\\u0000"]', "JSON", "\\u0000"),
    "hostile text": (b"<script>alert(1)</script>" * 9_000, "text", "<script>alert(1)"),
    "quotes": (b'"' * 65_000, "text", '"""'),
    "UTF-8": ("é队列😀".encode(), "text", "é队列😀"),
    "UTF-8 at the cut": ("😀".encode() * 30_000, "text, its beginning only", "😀"),
    "UTF-16": ("text".encode("utf-16"), "hexadecimal", "ff fe"),
    "gzip": (gzip.compress(b"text"), "hexadecimal", "1f 8b"),
    "empty": (b"", "nothing", "0 bytes"),
}


@pytest.mark.parametrize("debug", [False, True], ids=["", "DEBUG"])
def test_payloads(alias, make_queue, root, debug):
    """FR-148 FR-064 Any payload is shown: its length, and as JSON, text or hexadecimal, cut; the
    page is small."""
    queue = make_queue(codec=BYTES)
    with override_settings(DEBUG=debug):
        for name, (payload, form, shown) in PAYLOADS.items():
            job_id = queue.enqueue(payload)
            pages = [root.get(f"job/{job_id}/change/")]
            assert queue.claim_one("w").fail("no")
            pages.append(root.get(f"deadjob/{job_id}/change/"))
            for page in pages:
                assert page.status_code == 200 and len(page.content) < MAX_PAGE, name
                text = text_of(page)
                assert form in text and shown in text, name
                assert f"{len(payload):,} bytes" in text, name
        for page in (root.get("job/"), root.get("deadjob/")):
            assert page.status_code == 200 and len(page.content) < MAX_PAGE
    kept = [bytes(row["payload"]) for row in stored(alias, "dead_job")]
    assert kept == [payload for payload, _, _ in PAYLOADS.values()]


def test_json_is_shown_indented_whatever_the_codec(alias, make_queue, root):
    """FR-148 JSON is recognised by itself; the codec is named."""
    job_id = make_queue().enqueue({"order": 7, "lines": ["é"]})
    change_live_row(alias, job_id, codec="our own")
    page = root.get(f"job/{job_id}/change/")
    assert "our own" in text_of(page)
    assert json.dumps({"order": 7, "lines": ["é"]}, indent=2, ensure_ascii=False) in _unescaped(
        page
    )


def test_a_hex_preview_is_capped(alias, make_queue, root):
    """FR-148 No more than 4 KiB in hexadecimal, and it says so."""
    job_id = make_queue(codec=BYTES).enqueue(b"\xff" * 10_000)
    text = text_of(root.get(f"job/{job_id}/change/"))
    assert len(re.findall(r"\bff\b", text)) == 4_096 and "The first 4,096 bytes." in text


def test_lists_read_no_payload(alias, make_queue, root, sql_log):
    """FR-146 FR-064 A list reads neither payload nor the whole error; a page but their beginning."""
    job_id = make_queue().enqueue("x")
    make_queue().claim_one("w").fail("e")
    fill_live(alias, 1)
    sql_log.clear()
    (
        root.get("deadjob/"),
        root.get("deadjob/?q=e&attempts=1"),
        root.get("job/"),
        root.get("job/?q=x"),
    )
    assert sql_log and not [sql for sql in sql_log if '"payload"' in sql]
    columns = [
        re.sub(r"(SUBSTR\w*|RIGHT)\([^)]*\)", "", sql.partition(" FROM ")[0]) for sql in sql_log
    ]
    assert not [each for each in columns if '"last_error"' in each]
    sql_log.clear()
    root.get(f"deadjob/{job_id}/change/")
    assert [
        re.sub(r"(SUBSTR|LENGTH)\w*\([^)]*\)", "", sql) for sql in sql_log if '"payload"' in sql
    ]
    assert '"payload"' not in re.sub(r"(SUBSTR|LENGTH)\w*\([^)]*\)", "", " ".join(sql_log))


# -- texts -----------------------------------------------------------------------------------

ERRORS = {
    "markup": ("<script>alert('x')</script>\n&amp;", "<script>alert('x')</script>"),
    "long": ("Traceback\n" + "x" * (MAX_ERROR_LENGTH - 20) + "THE END", "THE END"),
    "long markup": ("'<" * (MAX_ERROR_LENGTH // 2), "Cut: the first"),
    "emoji": ("😀" * MAX_ERROR_LENGTH, "Cut: the first"),
    "empty": ("", ""),
    "traceback": ("Traceback (most recent call last):\n" + "  File x\n" * 999 + "E: no", "E: no"),
    "no more than its head": ("Traceback (most recent call last):", "Traceback (most"),
    "odd": ("\x01\x85\u2028\u202e{{ x }} %s", "{{ x }} %s"),
}


@pytest.mark.parametrize(("error", "shown"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(alias, make_queue, root, error, shown):
    """FR-148 An error is shown whole, or cut with a word; escaped either way; a list shows a line."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    queue.claim_one("w").fail(error)
    page, rows = root.get(f"deadjob/{job_id}/change/"), root.get("deadjob/")
    assert shown in text_of(page)
    for each in (page, rows):
        assert len(each.content) < MAX_PAGE
        assert b"<script>alert" not in each.content
    assert len(text_of(rows)) < 3_000


NAMES = ["q" * 200, "a\"b'c<d>&", "Ünïcode 队列", " a ", "%s", "{x}", "UPPER", "upper", "a.b/c?d#e"]


def test_odd_names(alias, clock, make_queue, root):
    """FR-066 Any legal name can be filtered by, and each is told from the others."""
    for name in NAMES:
        queue = make_queue(name)
        queue.enqueue_many([None, None])
        queue.claim_one("w").fail()
    for model in ("job", "deadjob"):
        choices = root.get(f"{model}/").context["cl"].filter_specs[0].lookup_choices
        assert sorted(name for name, _ in choices) == sorted(NAMES)
        for name in NAMES:
            response = root.client.get(root.url(f"{model}/"), {"queue": name})
            assert [row.queue for row in response.context["cl"].result_list] == [name]


@pytest.mark.parametrize("big", [2**31, 2**40, 2**63 - 1])
def test_large_ids(alias, clock, root, big):
    """FR-069 Ids are 64 bits wide on every page, in the search too."""
    fill_dead(alias, 1, id=str(big))
    assert root.get(f"deadjob/{big}/change/").status_code == 200
    assert rows_of(root.get(f"deadjob/?q={big}")) == [big]


@pytest.mark.parametrize(
    "key", ["4", "0", "-7", "abc", "9" * 19, "9" * 30, "9" * 5_000, "_00", "1.5", "é"]
)
def test_what_is_not_there(some, root, key):
    """FR-069 A page for no row leads to the start, with a word; it never fails."""
    for model in ("deadjob", "job", "schedule"):
        assert root.get(f"{model}/{key}/change/").status_code == 302
        assert root.client.get(root.url(f"{model}/"), {"q": key}).status_code == 200


def test_times_are_local(alias, clock, make_queue, root):
    """1.4 Instants are shown in the current time zone, to the second, in UTC beside it."""
    queue = make_queue()
    job_id = queue.enqueue(None, delay=10)
    clock.advance(20)
    queue.claim_one("w").fail("no")
    with override_settings(TIME_ZONE="Asia/Kolkata"):
        zone = timezone.get_default_timezone()
        local = dt.datetime.fromtimestamp(FROZEN_AT + 20, zone).strftime("%Y-%m-%d %H:%M:%S")
        assert local in text_of(root.get("deadjob/"))
        page = text_of(root.get(f"deadjob/{job_id}/change/"))
    assert f"{local} IST" in page
    in_utc = dt.datetime.fromtimestamp(FROZEN_AT + 20, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert f'title="{in_utc}"' in _html(root.get("deadjob/"))


# -- lists -----------------------------------------------------------------------------------


def test_dead_jobs_are_listed_latest_first(alias, clock, root):
    """FR-146 By the time of death, ids second; sorting by a column is not offered."""
    fill_dead(alias, 120, died_at=f"{FROZEN_AT} - n / 2")
    by_death = [row["id"] for row in stored(alias, "dead_job", "died_at DESC, id DESC")]
    pages = [rows_of(root.get(f"deadjob/?p={page}")) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [50, 50, 20]
    assert sum(pages, []) == by_death
    assert rows_of(root.get("deadjob/?o=1")) == pages[0]
    assert "sortable" not in _html(root.get("deadjob/"))


def test_counts_stop_with_a_word(alias, clock, root):
    """FR-146 A list is counted up to a bound, and says when it goes on; deeper pages are there."""
    fill_dead(alias, 10_060)
    first = root.get("deadjob/")
    assert "10,000+ dead jobs" in text_of(first) and "Select all 10,000+" in text_of(first)
    assert len(rows_of(root.get("deadjob/?p=201"))) == 50
    assert len(rows_of(root.get("deadjob/?p=202"))) == 10
    assert root.get("deadjob/?p=203").status_code == 302
    assert root.get("deadjob/?p=999999999").status_code == 302
    with override_settings(USE_THOUSAND_SEPARATOR=True):
        assert "10,000 dead jobs" in text_of(root.get("deadjob/"))
    fill_live(alias, 70)
    assert "70 jobs" in text_of(root.get("job/"))


DEAD_FILTERS = {
    "queue=a": {1, 2, 3},
    "queue=__alkstore_outbox_mail": {5},
    "queue=none": set(),
    "died=hour": {1, 4, 5},
    "died=day": {1, 2, 4, 5},
    "died=week": {1, 2, 4, 5},
    "died=month": {1, 2, 4, 5},
    "died=older": {3},
    "died=nonsense": {1, 2, 3, 4, 5},
    "attempts=1": {1, 2, 3, 4},
    "attempts=4": {5},
    "attempts=10": set(),
    "queue=a&died=day&attempts=1": {1, 2},
    "q=boom": {1},
    "q=BOOM": {1},
    "q=4": {4},
    "q=404": {2},
    "q=%25": {3},
    "q=no%00thing": {1, 2, 3, 4, 5},
    "queue=a&q=boom": {1},
    "queue=b&q=boom": set(),
    "q=boom&died=older": set(),
}


@pytest.mark.parametrize(("query", "expected"), DEAD_FILTERS.items())
def test_dead_jobs_are_filtered_and_found(alias, clock, root, query, expected):
    """FR-146 By queue, time of death and attempts, each with each; by id, and by error text."""
    clock.move_to(FROZEN_AT)
    for n, queue, age, error, attempts in (
        (1, "a", 10, "Boom <b>", 1),
        (2, "a", 7_200, "HTTP 404", 1),
        (3, "a", 40 * 86_400, "100% wrong", 1),
        (4, "b", 20, "other", 1),
        (5, OUTBOX.strip("'"), 30, "other", 7),
    ):
        fill_dead(
            alias, 1, id=str(n), queue=f"'{queue}'", died_at=f"{FROZEN_AT - age}",
            last_error=f"'{error.replace('%', '%%')}'", attempts=str(attempts),
        )  # fmt: skip
    assert set(rows_of(root.get(f"deadjob/?{query}"))) == expected


def test_an_outbox_is_shown_under_its_own_name(alias, clock, root):
    """1.3 5.1 The backing name is nowhere to be read."""
    fill_dead(alias, 1, queue=OUTBOX)
    fill_live(alias, 1, queue=OUTBOX, key="'customer 7'")
    for path in ("deadjob/", "deadjob/-1/change/", "job/"):
        text = text_of(root.get(path))
        assert "outbox mail" in text and "__alkstore" not in text, path


def test_live_jobs(alias, clock, make_queue, root):
    """FR-146 All by id, the newest first; of one state or queue in the order of claims."""
    a, b = make_queue("a"), make_queue("b")
    late = a.enqueue(None, delay=1_000)
    low, high = a.enqueue(None), a.enqueue(None, priority=9)
    other = b.enqueue(None)
    held = b.enqueue(None, priority=1)
    assert b.claim_one("somebody").job.id == held
    fill_live(alias, 1, queue=OUTBOX, state="'behind'", key="'customer'")
    behind = held + 1
    found = {
        "": [behind, held, other, high, low, late],
        "state=pending": [high, low, late, other],
        "state=processing": [held],
        "state=behind": [behind],
        "queue=a": [high, low, late],
        "queue=b": [other],
        "queue=b&state=processing": [held],
        "queue=a&time=later": [late],
        "queue=a&time=due": [high, low],
        "time=lapsed": [],
        "attempts=1": [held],
        "attempts=0": [behind, other, high, low, late],
        "q=somebody": [held],
        "q=Custom": [behind],
        f"q={low}": [low],
        "state=nonsense": [behind, held, other, high, low, late],
    }
    for query, expected in found.items():
        assert rows_of(root.get(f"job/?{query}")) == expected, query
    clock.advance(400)
    assert rows_of(root.get("job/?time=lapsed")) == [held]


def test_schedules(alias, clock, root):
    """FR-146 By name, with ledger and payload; found by a part of the name."""
    fill_schedules(alias, 70)
    fill_schedules(alias, 1, first=100, declared="{true}", queue="'special'")
    names = sorted([f"s{n}" for n in range(1, 71)] + ["s100"])
    assert rows_of(root.get("schedule/")) == names[:50]
    assert rows_of(root.get("schedule/?declared=1")) == ["s100"]
    assert len(rows_of(root.get("schedule/?declared=0&p=2"))) == 20
    assert rows_of(root.get("schedule/?q=s7")) == ["s7"]
    assert rows_of(root.get("schedule/?q=SPEC")) == ["s100"]
    text = text_of(root.get("schedule/s7/change/"))
    assert "@every 5m" in text and '"n": 7' in text


def test_the_start_page_lists_the_three(some, root):
    """FR-152 The app has its place in the admin, under names that people know."""
    text = text_of(root.client.get(f"/{some}/"))
    for words in ("Durable jobs", "Dead jobs", "Jobs", "Schedules"):
        assert words in text


def test_the_default_site(clock, root):
    """1.1 A project's own site has the pages without a line of code."""
    models = apps.get_app_config("alkstore_django").get_models()
    assert all(admin.site.is_registered(model) for model in models)
    for model in ("deadjob", "job", "schedule"):
        assert root.client.get(f"/admin/alkstore_django/{model}/").status_code == 200
    assert not Job.objects.using("default").exists()


def _html(response):
    return response.content.decode()


def _unescaped(response):
    return _html(response).replace("&quot;", '"').replace("&#x27;", "'")
