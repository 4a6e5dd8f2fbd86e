"""Ready deliveries as an outbox's own, and the guide's receiver: section 5."""

import asyncio
import functools
import sys
import types

import nats
import pytest
from django.db import transaction
from django.test import RequestFactory, override_settings

from alkstore_django import Outbox, inbox
from alkstore_django.deliveries.events import message_id
from alkstore_django.deliveries.nats import JetStreamDelivery
from alkstore_django.deliveries.webhooks import WebhookDelivery
from alkstore_django.testing import drain
from tests.deliveries.test_verify import SECRET
from tests.docs.pages import blocks_of
from tests.support.nats_server import nats_server
from tests.testapp.models import Note


@pytest.fixture
def webhook(receiver):
    """A delivery to the receiver."""
    delivery = WebhookDelivery(receiver.url, SECRET)
    yield delivery
    delivery.close()


def test_webhooks_in_order(alias, receiver, webhook):
    """5.1 5.2 What was enqueued is posted, the events of a key in order."""
    events = Outbox("events", using=alias)
    events.deliver(webhook)
    for number in range(5):
        events.enqueue({"n": number}, key="a")
    assert drain(events).count("acked") == 5
    assert [request.body for request in receiver.requests] == [b'{"n":%d}' % n for n in range(5)]
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 5


def test_receiver_that_fails(alias, receiver, webhook, clock):
    """5.2 A failed event is delivered again, under the same id, when the receiver has asked for."""
    events = Outbox("events", using=alias)
    events.deliver(webhook)
    receiver.answers(503, b"busy", retry_after="120")
    events.enqueue({"n": 1})
    assert drain(events).count("retried") == 1
    receiver.answers(200)
    clock.advance(119)
    assert drain(events).count("acked") == 0
    clock.advance(1)
    assert drain(events).count("acked") == 1
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_receiver_in_trouble(alias, receiver, clock):
    """5.2 5.3 Issue 4: it hangs up, answers 500, is too slow, each for a minute: when it is back, all
    arrive, in order per key, each under the id of its first delivery."""
    events = Outbox("events", using=alias, backoff_base_s=1)
    delivery = WebhookDelivery(receiver.url, SECRET, timeout_s=0.3)
    events.deliver(delivery)
    for number in range(3):
        for key in "ab":
            events.enqueue({"key": key, "n": number}, key=key)

    def dawdle(exchange):
        for _ in exchange.pauses():
            pass

    troubles = [lambda exchange: exchange.hang_up(), lambda exchange: exchange.answer(500), dawdle]
    for trouble in troubles:
        receiver.answer = trouble
        tally = drain(events)
        assert (tally.count("acked"), tally.count("retried")) == (0, 2)  # the heads of two keys
        clock.advance(60)
    n_in_trouble = len(receiver.requests)
    receiver.answers(204)
    assert drain(events).count("acked") == 6
    delivery.close()
    arrived = [request.body for request in receiver.requests[n_in_trouble:]]
    for key in "ab":
        of_key = [body for body in arrived if b'"%s"' % key.encode() in body]
        assert of_key == [b'{"key":"%s","n":%d}' % (key.encode(), n) for n in range(3)]
    ids = {}
    for request in receiver.requests:
        ids.setdefault(request.body, set()).add(request.headers["webhook-id"])
    assert [len(of_one) for of_one in ids.values()] == [1] * 6


def test_receiver_that_is_gone(alias, receiver, webhook):
    """5.2 After 410 the event is dead, and says why."""
    events = Outbox("events", using=alias)
    events.deliver(webhook)
    receiver.answers(410)
    event_id = events.enqueue({"n": 1})
    assert drain(events).count("died") == 1
    assert events.get_job(event_id).last_error == f"{receiver.host} answered 410"


def test_jetstream(alias, tmp_path):
    """5.1 5.2 What was enqueued is in the stream, under the event's key and id."""
    seen = []

    async def looking(js):
        count = (await js.stream_info("shop")).state.messages
        return [await js.get_msg("shop", seq) for seq in range(1, count + 1)]

    async def with_js(url, act):
        client = await nats.connect(url)
        try:
            return await act(client.jetstream())
        finally:
            await client.close()

    with nats_server(tmp_path) as server:
        asyncio.run(with_js(server.url, lambda js: js.add_stream(name="shop", subjects=["shop.>"])))
        delivery = JetStreamDelivery(server.url, "shop.{outbox}.{key}")
        events = Outbox("events", using=alias)

        @events.deliver
        async def deliver(event):
            seen.append(message_id(event))
            await delivery(event)

        for number in range(3):
            events.enqueue({"n": number}, key="a.b")
        assert drain(events).count("acked") == 3
        found = asyncio.run(with_js(server.url, looking))
    assert [each.subject for each in found] == ["shop.events.a%2Eb"] * 3
    assert [each.headers["Nats-Msg-Id"] for each in found] == seen
    assert [each.data for each in found] == [b'{"n":%d}' % n for n in range(3)]


def test_guide_to_receiving(alias, receiver, webhook, monkeypatch):
    """5.2 The guide's view takes what is signed, and does it once, however often it comes."""
    (block,) = [b for b in blocks_of("how-to/webhooks.md", "python") if "def hooks" in b.text]
    models = types.ModuleType("billing.models")

    class Invoice:
        class objects:  # noqa: N801  stands for a model's manager
            @staticmethod
            def create(order):
                Note.objects.using(alias).create(text=f"invoice {order}")

    models.Invoice = Invoice
    monkeypatch.setitem(sys.modules, "billing", types.ModuleType("billing"))
    monkeypatch.setitem(sys.modules, "billing.models", models)
    scope = {}
    exec(compile(block.text, str(block), "exec"), scope)  # noqa: S102  our own page
    scope["inbox"] = functools.partial(inbox, using=alias)
    atomic = functools.partial(transaction.atomic, using=alias)
    scope["transaction"] = types.SimpleNamespace(atomic=atomic)
    events = Outbox("events", using=alias)
    events.deliver(webhook)
    events.enqueue({"order": 7})
    drain(events)
    (sent,) = receiver.requests

    def post(body):
        headers = {name: sent.headers[name] for name in sent.headers if name.startswith("webhook")}
        request = RequestFactory().post(
            "/hooks", body, content_type="application/json", headers=headers
        )
        return scope["hooks"](request).status_code

    with override_settings(WEBHOOK_SECRETS=[SECRET]):
        assert post(sent.body) == 204
        assert post(sent.body) == 204
        assert post(b'{"order":8}') == 401
    assert [note.text for note in Note.objects.using(alias).all()] == ["invoice 7"]
