"""Events to a real NATS server with JetStream: section 5, issue 4."""

import asyncio
import contextlib

import nats
import pytest
from asgiref.sync import async_to_sync
from nats.js.api import StreamConfig

from alkstore_django import FailJob, InvalidOptions, StopToken
from alkstore_django.deliveries.events import message_id
from alkstore_django.deliveries.nats import JetStreamDelivery
from alkstore_django.exceptions import DeliveryFailed
from alkstore_django.handlers import handlers_on, is_coroutine_function
from alkstore_django.models import Job
from alkstore_django.testing import drain
from alkstore_django.worker.loop import Worker
from alkstore_django.worker.options import WorkerOptions
from tests.deliveries.conftest import Event
from tests.support.nats_server import nats_server

SHORT_S = 0.5
STREAM = "shop"


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture
def server(shared_server):
    """A server with one empty stream, which takes ``shop.>``."""

    async def make_stream(js):
        with contextlib.suppress(nats.js.errors.NotFoundError):
            await js.delete_stream(STREAM)
        await js.add_stream(StreamConfig(name=STREAM, subjects=["shop.>"]))

    asyncio.run(looking(shared_server, make_stream))
    return shared_server


async def looking(server, look):
    """Do something with the server's JetStream, over a connection of its own."""
    client = await nats.connect(server.url)
    try:
        return await look(client.jetstream())
    finally:
        await client.close()


async def _messages(js):
    """All messages of the stream, as (subject, id, body)."""
    count = (await js.stream_info(STREAM)).state.last_seq
    found = [await js.get_msg(STREAM, seq) for seq in range(1, count + 1)]
    return [(each.subject, each.headers["Nats-Msg-Id"], each.data) for each in found]


def messages(server):
    return asyncio.run(looking(server, _messages))


def deliver(delivery, *events):
    """Deliver in one loop, one after the other, and close."""

    async def run():
        try:
            for event in events:
                await delivery(event)
        finally:
            await delivery.close()

    asyncio.run(run())


def refusal(delivery, event, error=DeliveryFailed):
    with pytest.raises(error) as raised:
        deliver(delivery, event)
    return raised.value


# -- what is published ---------------------------------------------------------------------


def test_message(server):
    """5.1 5.2 The payload as stored, and the event's id."""
    deliver(JetStreamDelivery(server.url, "shop.orders"), Event())
    assert messages(server) == [("shop.orders", message_id(Event()), Event().payload_bytes)]


def test_delivered_twice_is_one_message(server):
    """5.2 What is delivered again, as after a lost ack, is in the stream once."""
    delivery = JetStreamDelivery([server.url], "shop.orders", stream=STREAM)
    deliver(delivery, Event(attempts=1), Event(attempts=2), Event(id=8))
    deliver(delivery, Event(attempts=3))
    assert [name for _, name, _ in messages(server)] == [
        message_id(Event()),
        message_id(Event(id=8)),
    ]


def test_source_tells_stores_apart(server):
    """5.2 Two stores that publish to one stream do not take each other's events for seen."""
    for source in ("staging", "production"):
        deliver(JetStreamDelivery(server.url, "shop.orders", source=source), Event())
    assert len(messages(server)) == 2


@pytest.mark.parametrize(
    ("subject", "key", "published"),
    [
        ("shop.{outbox}.{key}", "customer-1", "shop.events.customer-1"),
        ("shop.{key}", "a.b *>\r\nPUB x 0", "shop.a%2Eb%20%2A%3E%0D%0APUB%20x%200"),
        ("shop.{key}", "{outbox}", "shop.%7Boutbox%7D"),
        ("shop.{key}.new", "ä", "shop.%C3%A4.new"),
        (lambda event: f"shop.by.{event.id}", None, "shop.by.7"),
    ],
)
def test_subject(server, subject, key, published):
    """A subject is made of the event; a key is one token, whatever is in it."""
    deliver(JetStreamDelivery(server.url, subject), Event(key=key))
    assert [name for name, _, _ in messages(server)] == [published]


def test_bytes(server):
    """The payload need not be text."""
    deliver(JetStreamDelivery(server.url, "shop.orders"), Event(payload_bytes=b"\xff\0\r\n"))
    assert messages(server)[0][2] == b"\xff\0\r\n"


# -- what fails ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "key"),
    [
        ("shop.{key}", None),
        ("shop.{key}", ""),
        (lambda event: "shop.*", "a"),
        (lambda event: "shop.a b\r\n", "a"),
        (lambda event: None, "a"),
        (lambda event: "$JS.API.STREAM.DELETE.shop", "a"),
        (lambda event: "shop." + "x" * 2000, "a"),
    ],
)
def test_no_subject(server, subject, key):
    """An event that makes no subject is dead at once, and nothing is published."""
    assert (
        "subject" in refusal(JetStreamDelivery(server.url, subject), Event(key=key), FailJob).reason
    )
    assert not messages(server)


def test_no_stream(server):
    """A subject that no stream takes is a failure: nobody would have it."""
    error = refusal(JetStreamDelivery(server.url, "nowhere"), Event())
    assert str(error) == f"127.0.0.1:{server.port} has no stream that takes the subject 'nowhere'"


def test_other_stream(server):
    """The stream that takes it must be the one that was named."""
    error = refusal(JetStreamDelivery(server.url, "shop.orders", stream="other"), Event())
    assert "did not acknowledge" in error.reason
    assert not messages(server)


def test_too_large(server):
    """What the server never takes is dead at once."""
    event = Event(payload_bytes=b"x" * 2_000_000)
    reason = refusal(JetStreamDelivery(server.url, "shop.orders"), event, FailJob).reason
    assert "2000000 bytes" in reason


def test_nobody_there(tmp_path):
    """A server that is away fails the delivery within its time, and says why."""
    with nats_server(tmp_path) as server:
        pass
    delivery = JetStreamDelivery(
        f"nats://user:pa55@127.0.0.1:{server.port}", "a", timeout_s=SHORT_S
    )
    text = str(refusal(delivery, Event()))
    assert f"127.0.0.1:{server.port} did not acknowledge: " in text
    assert "pa55" not in text and "pa55" not in repr(delivery) and "refused" in text.lower()


def test_wrong_password(tmp_path):
    """A server that refuses us is told by name."""
    with nats_server(tmp_path, "--user", "shop", "--pass", "right") as server:
        delivery = JetStreamDelivery(server.url, "a", timeout_s=2, user="shop", password="wrong")
        assert "Authorization" in str(refusal(delivery, Event()))
        delivery = JetStreamDelivery(server.url, "a", user="shop", password="right")
        assert "no stream" in str(refusal(delivery, Event()))


def test_reconnects(tmp_path):
    """A server that comes back is used again; what failed meanwhile is there once."""

    async def run(server):
        await looking(server, lambda js: js.add_stream(name=STREAM, subjects=["shop.>"]))
        delivery = JetStreamDelivery(server.url, "shop.orders", timeout_s=SHORT_S)
        await delivery(Event(id=1))
        server.stop()
        with pytest.raises(DeliveryFailed):
            await delivery(Event(id=2))
        server.start()
        for _ in range(40):
            try:
                await delivery(Event(id=2))
                break
            except DeliveryFailed:
                continue
        await delivery(Event(id=3))
        await delivery.close()

    with nats_server(tmp_path) as server:
        asyncio.run(run(server))
        names = [name for _, name, _ in messages(server)]
    assert names == [message_id(Event(id=number)) for number in (1, 2, 3)]


# -- connections ---------------------------------------------------------------------------------


def test_one_connection_for_many(server, monkeypatch):
    """Deliveries at the same time share one connection, and each event is there once."""
    connected = counted_connections(monkeypatch)
    delivery = JetStreamDelivery(server.url, "shop.orders")

    async def run():
        await asyncio.gather(*(delivery(Event(id=number)) for number in range(100)))
        await delivery.close()

    asyncio.run(run())
    assert len(connected) == 1
    assert len(messages(server)) == 100


def counted_connections(monkeypatch):
    """Note each client that connects, to look whether it was closed."""
    connected = []
    connect = nats.NATS.connect

    async def noting(self, *args, **options):
        connected.append(self)
        return await connect(self, *args, **options)

    monkeypatch.setattr(nats.NATS, "connect", noting)
    return connected


def test_loop_that_ends_closes_its_connection(server, monkeypatch):
    """Without ``close``, too, nothing is left open: the connection ends with its loop."""
    connected = counted_connections(monkeypatch)
    delivery = JetStreamDelivery(server.url, "shop.orders")
    asyncio.run(delivery(Event(id=1)))
    async_to_sync(delivery)(Event(id=2))
    assert len(connected) == 2
    assert all(client.is_closed for client in connected)
    assert len(messages(server)) == 2


def test_cancelled_while_it_connects(server, monkeypatch):
    """A delivery that is cancelled while it connects keeps no other from connecting."""

    async def run():
        delivery = JetStreamDelivery(server.url, "shop.orders")
        first = asyncio.create_task(delivery(Event(id=1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await delivery(Event(id=2))
        with pytest.raises(asyncio.CancelledError):
            await first
        await delivery.close()

    asyncio.run(run())
    assert message_id(Event(id=2)) in [name for _, name, _ in messages(server)]


def test_in_the_worker(alias, make_queue, server, monkeypatch):
    """7.1 The worker runs it on its event loop, and closes the connection at its end."""
    connected = counted_connections(monkeypatch)
    delivery = JetStreamDelivery(server.url, "shop.orders")
    assert is_coroutine_function(delivery)
    queue = make_queue()

    @queue.handler
    async def send(job):
        await delivery(Event(id=job.id, payload_bytes=job.payload_bytes))

    queue.enqueue_many([{"n": n} for n in range(20)])
    options = WorkerOptions(drain=True)
    handlers = list(handlers_on(alias).values())
    jobs = Job.objects.db_manager(alias)
    Worker(jobs, handlers, options, stop=StopToken(), stop_now=StopToken()).run()
    assert len(connected) == 1 and connected[0].is_closed
    assert len(messages(server)) == 20
    queue.enqueue({"n": 20})
    assert drain(queue)
    assert len(messages(server)) == 21


# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("servers", s) for s in ("", [], None, "127.0.0.1:4222", "http://a", ["nats://"], [1],
                                   "nats://u:pa55@h:99999999", {"nats://a"})),
        *(("subject", s) for s in ("", "a.*", "a.>", "a b", ".a", "a.", "a..b", "a.{id}", "$JS.x",
                                   None, 1, "a\r\n", "x" * 2000)),
        *(("stream", s) for s in ("", 1)),
        *(("timeout_s", t) for t in (0, -1, None, True)),
        ("source", 1),
        ("pasword", "pa55"),
    ],
)  # fmt: skip
def test_arguments(field, value):
    """A wrong argument is refused when the delivery is made."""
    given = {"servers": "nats://127.0.0.1:4222", "subject": "a", field: value}
    with pytest.raises(InvalidOptions) as raised:
        JetStreamDelivery(**given)
    assert raised.value.field == field
    assert "pa55" not in str(raised.value)
