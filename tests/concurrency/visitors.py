"""A web process at work: ``python -m tests.concurrency.visitors ALIAS SECONDS NUMBER``.

Each request is answered through Django's own handler with ATOMIC_REQUESTS: the view reads,
writes a business row and enqueues a job beside it; every fifth request fails after that, and
all that it wrote is rolled back. At its end the process says which jobs were committed.
"""

import json
import logging
import sys
import time

import django
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import path

FAILS_EVERY = 5


class ChangedMindError(Exception):
    """What every fifth view raises."""


def order(request):
    """Answer one request: the alias and the number of the request are in the query."""
    from alkstore_django import Queue
    from tests.testapp.models import Note

    alias, number = request.GET["alias"], int(request.GET["number"])
    Note.objects.using(alias).filter(text="no such order").count()
    Note.objects.using(alias).create(text=f"order {request.GET['visitor']}-{number}")
    job_id = Queue("ledger", using=alias, visibility_timeout_s=30).enqueue(0)
    if number % FAILS_EVERY == 0:
        raise ChangedMindError
    return HttpResponse(str(job_id))


urlpatterns = [path("order", order)]


def main():
    alias, seconds, visitor = sys.argv[1:]
    django.setup()
    from django.db import connections

    logging.getLogger("django.request").setLevel(logging.CRITICAL)
    connections[alias].settings_dict["ATOMIC_REQUESTS"] = True
    client = Client(raise_request_exception=False)
    committed, failed, number, slowest = [], 0, 0, 0.0
    print("ready", flush=True)
    sys.stdin.readline()
    ends_at = time.monotonic() + float(seconds)
    with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"]):
        while time.monotonic() < ends_at:
            number += 1
            asked_at = time.monotonic()
            query = {"alias": alias, "number": number, "visitor": visitor}
            response = client.get("/order", query)
            slowest = max(slowest, time.monotonic() - asked_at)
            if response.status_code == 200:
                committed.append(int(response.content))
            elif response.exc_info is None or response.exc_info[0] is not ChangedMindError:
                failed += 1
                print(f"request failed: {response.exc_info}", file=sys.stderr, flush=True)
            time.sleep(0.01)
    report = {"committed": committed, "failed": failed, "requests": number, "slowest": slowest}
    print("report " + json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
