"""Webhooks, sent to a real server: section 5, issue 4."""

import base64
import datetime as dt
import email.utils
import socket
import threading
import time

import httpx
import pytest

from alkstore_django import AlkstoreError, FailJob, InvalidOptions, RetryJob
from alkstore_django.deliveries.events import message_id
from alkstore_django.deliveries.webhooks import WebhookDelivery, verify, webhook_client
from alkstore_django.exceptions import DeliveryFailed
from tests.deliveries.conftest import Event

SECRET = "whsec_" + base64.b64encode(b"a secret of 32 bytes, not a byte").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"the secret before that one, old").decode()
SHORT_S = 0.5
GRACE_S = 1.5


@pytest.fixture
def deliver(receiver):
    """Deliver an event to the receiver: ``deliver(event=..., **options of the delivery)``."""
    made = []

    def deliver(event=None, secret=SECRET, url=None, **options):
        delivery = WebhookDelivery(url or receiver.url, secret, **options)
        made.append(delivery)
        return delivery(event or Event())

    yield deliver
    for delivery in made:
        delivery.close()


def refusal(deliver, error=DeliveryFailed, **options):
    with pytest.raises(error) as raised:
        deliver(**options)
    return raised.value


# -- what is sent --------------------------------------------------------------------------


def test_request(receiver, deliver):
    """5.1 5.2 The payload as stored, the event's id, and a signature that holds."""
    deliver(headers={"X-Shop": "tea"})
    (request,) = receiver.requests
    assert request.path == "/hooks"
    assert request.body == Event().payload_bytes
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-shop"] == "tea"
    assert request.headers["webhook-id"] == message_id(Event())
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 60
    assert verify(request.body, request.headers, SECRET) == message_id(Event())


def test_every_delivery_has_the_same_id(receiver, deliver):
    """5.2 A receiver that was asked twice can tell."""
    deliver()
    deliver(Event(attempts=2))
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_source(receiver, deliver):
    """5.2 Two stores that send to one receiver are told apart."""
    deliver(source="staging")
    deliver(source="production")
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 2


@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET])
def test_rotation(receiver, deliver, secret):
    """While secrets change, both sign: a receiver that knows either is content."""
    deliver(secret=[SECRET, OLD_SECRET])
    (request,) = receiver.requests
    assert len(request.headers["webhook-signature"].split()) == 2
    assert verify(request.body, request.headers, secret)


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [
        (b"null", "application/json"),
        (b'"\\ud800"', "application/json"),
        ("naïve ☕".encode(), "application/octet-stream"),
        (b"", "application/octet-stream"),
        (b"[" * 100_000, "application/octet-stream"),
    ],
    ids=["null", "surrogate", "text", "empty", "deep"],
)
def test_content_type(receiver, deliver, payload, content_type):
    """What is JSON is called so, all else is bytes; both are signed."""
    deliver(Event(payload_bytes=payload))
    (request,) = receiver.requests
    assert request.body == payload
    assert request.headers["content-type"] == content_type
    assert verify(request.body, request.headers, SECRET)


def test_content_type_of_ones_own(receiver, deliver):
    """A content type among the headers wins."""
    deliver(headers={"Content-Type": "application/cloudevents+json"})
    assert receiver.requests[0].headers["content-type"] == "application/cloudevents+json"


def test_bytes_that_are_no_text(receiver, deliver):
    """What cannot be signed is dead at once, and not sent."""
    assert "UTF-8" in refusal(deliver, FailJob, event=Event(payload_bytes=b"\xff")).reason
    assert not receiver.requests


def test_large_payload(receiver, deliver):
    """A payload larger than any buffer arrives whole."""
    payload = b'"' + b"x" * 5_000_000 + b'"'
    deliver(Event(payload_bytes=payload))
    assert receiver.requests[0].body == payload


# -- what the answer means -----------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_success(receiver, deliver, status):
    """Every 2xx is success."""
    receiver.answers(status)
    deliver()
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("status", [304, 400, 401, 404, 409, 422, 429, 500, 502, 503])
def test_refusal(receiver, deliver, status):
    """Any other answer is a failure: again by the curve. Its text says who, what and why."""
    receiver.answers(status, b"" if status == 304 else b"out of\ntea")
    error = refusal(deliver)
    said = "" if status == 304 else ": out of tea"
    assert str(error) == f"{receiver.host} answered {status}{said}"
    assert isinstance(error, AlkstoreError)


def test_gone(receiver, deliver):
    """410 is dead at once."""
    receiver.answers(410, b"moved out")
    reason = refusal(deliver, FailJob).reason
    assert reason == f"{receiver.host} answered 410: moved out"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [("120", 120), ("0", 1), ("3600", 3600), ("86400", 3600), ("9" * 400, 3600), (" 7 ", 7)],
    ids=lambda value: str(value)[:8],
)
def test_retry_after(receiver, deliver, status, retry_after, delay):
    """429 and 503 say when: from a second up to an hour."""
    receiver.answers(status, b"busy", retry_after=retry_after)
    signal = refusal(deliver, RetryJob)
    assert signal.delay == delay
    assert signal.error == f"{receiver.host} answered {status}: busy"


@pytest.mark.parametrize(
    ("ahead_s", "at_least", "at_most"), [(600, 590, 600), (-600, 1, 1), (9e6, 3600, 3600)]
)
def test_retry_after_a_date(receiver, deliver, ahead_s, at_least, at_most):
    """The instant may be an HTTP date, too."""
    until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=ahead_s)
    receiver.answers(503, retry_after=email.utils.format_datetime(until, usegmt=True))
    assert at_least <= refusal(deliver, RetryJob).delay <= at_most


@pytest.mark.parametrize("value", ["", "soon", "-5", "1.5", "²", "Mon, 99 Foo 2026 99:99:99 GMT"])
def test_retry_after_nonsense(receiver, deliver, value):
    """What says no time is no wish: the curve decides."""
    receiver.answer = lambda exchange: exchange.send(
        f"HTTP/1.1 503 Busy\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")
    )
    assert f"{receiver.host} answered 503" in str(refusal(deliver))


def test_retry_after_elsewhere(receiver, deliver):
    """Only 429 and 503 are obeyed."""
    receiver.answers(500, retry_after="1")
    refusal(deliver)


def test_no_redirect_is_followed(receiver, deliver):
    """A redirect is an answer like any other that is not 2xx, also for a client that would go."""
    for status in (301, 302, 303, 307, 308):
        receiver.answers(status, location="/elsewhere")
        with httpx.Client(follow_redirects=True) as client:
            for options in ({}, {"client": client}):
                error = refusal(deliver, **options)
                assert str(error) == f"{receiver.host} answered {status}"
    assert {request.path for request in receiver.requests} == {"/hooks"}


# -- receivers that misbehave ----------------------------------------------------------------


def took_at_most(seconds):
    """Bound what the block may take."""

    class Bound:
        def __enter__(self):
            self.began = time.monotonic()

        def __exit__(self, *raised):
            taken = time.monotonic() - self.began
            assert taken < seconds, f"took {taken:.1f} s"

    return Bound()


def never(exchange):
    for _ in exchange.pauses():
        pass


def trickling_status(exchange):
    for _ in exchange.pauses():
        exchange.send(b"H")


def trickling_headers(exchange):
    exchange.send(b"HTTP/1.1 200 OK\r\n")
    for _ in exchange.pauses():
        exchange.send(b"x")


def endless_informing(exchange):
    for _ in exchange.pauses():
        exchange.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")


@pytest.mark.parametrize("answer", [never, trickling_status, trickling_headers, endless_informing])
def test_total_time(receiver, deliver, answer):
    """Whatever a receiver does, an exchange ends within the timeout."""
    receiver.answer = answer
    with took_at_most(SHORT_S + GRACE_S):
        error = refusal(deliver, timeout_s=SHORT_S)
    assert error.receiver == receiver.host and "Timeout" in error.reason


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_receiver_that_does_not_listen(deliver, scheme):
    """Neither a large payload that nobody reads nor a handshake that nobody answers takes longer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/"
        event = Event(payload_bytes=b"x" * 20_000_000)
        with took_at_most(SHORT_S + GRACE_S):
            assert "Timeout" in refusal(deliver, event=event, url=url, timeout_s=SHORT_S).reason


def test_receiver_that_reads_slowly(deliver):
    """Nor does a payload that is read bit by bit, each bit in time."""

    def read_slowly():
        connection, _ = slow.accept()
        with connection:
            while not done.wait(0.02) and connection.recv(8_192):
                pass

    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as slow:
        thread = threading.Thread(target=read_slowly)
        thread.start()
        event = Event(payload_bytes=b"x" * 20_000_000)
        url = f"http://127.0.0.1:{slow.getsockname()[1]}/"
        try:
            with took_at_most(SHORT_S + GRACE_S):
                assert "Timeout" in refusal(deliver, event=event, url=url, timeout_s=SHORT_S).reason
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("pace", ["pauses", "endlessly"])
def test_endless_body(receiver, deliver, status, pace):
    """A body without an end costs a second and a few bytes at most; the answer counts."""

    def answer(exchange):
        exchange.send(b"HTTP/1.1 %d Well\r\n\r\n" % status)
        for _ in getattr(exchange, pace)():
            exchange.send(b"x" * (1 if pace == "pauses" else 65_536))

    receiver.answer = answer
    with took_at_most(1 + GRACE_S):
        if status == 200:
            deliver()
        else:
            assert len(str(refusal(deliver))) < 300


def test_body_that_unpacks_to_more(receiver, deliver):
    """A body that calls itself compressed is not unpacked."""
    receiver.answers(500, b"\x1f\x8b" + b"\0" * 1_000, content_encoding="gzip")
    assert "answered 500" in str(refusal(deliver))


def test_endless_headers(receiver, deliver):
    """Headers without an end are cut off, too."""

    def answer(exchange):
        exchange.send(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in exchange.endlessly():
            exchange.send(b"x" * 65_536)

    receiver.answer = answer
    assert "broke off: RemoteProtocolError" in str(refusal(deliver))


@pytest.mark.parametrize(
    "sent",
    [b"", b"HTTP/1.1 20", b"tea for two\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"],
)
def test_closing_early(receiver, deliver, sent):
    """A receiver that hangs up or speaks no HTTP has not taken the event."""

    def answer(exchange):
        exchange.send(sent)
        exchange.hang_up()

    receiver.answer = answer
    text = str(refusal(deliver))
    assert text == f"{receiver.host} was not reached or broke off: RemoteProtocolError"


def test_closing_within_the_body(receiver, deliver):
    """Once a receiver has said 2xx, it has taken the event."""

    def answer(exchange):
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        exchange.hang_up()

    receiver.answer = answer
    deliver()


def test_nobody_there(receiver, deliver):
    """A host that is away is a failure like any other."""
    url = receiver.url
    receiver.close()
    assert "ConnectError" in refusal(deliver, url=url).reason
    assert "ConnectError" in refusal(deliver, url="http://no-such-host.invalid/").reason
    assert "ConnectError" in refusal(deliver, url=f"http://{'x' * 70}.invalid/").reason


def test_receiver_recovers(receiver, deliver):
    """After a broken connection, the next delivery makes a new one."""
    with webhook_client() as client:
        for answer in (lambda exchange: exchange.hang_up(), lambda exchange: exchange.answer(200)):
            receiver.answer = answer
            try:
                deliver(client=client)
            except DeliveryFailed:
                continue
    assert len(receiver.requests) == 2


# -- what is never told ------------------------------------------------------------------------


def test_nothing_secret_is_told(receiver, deliver):
    """No payload, no secret, no password and no header's value is in an error."""
    url = f"http://user:pa55word@{receiver.host}/hooks/t0ken?key=t0ken"
    for body in (Event().payload_bytes, b'wrong: {"order":7,"note":"tea...', b"sent: Bearer t0ken"):
        receiver.answers(500, body)
        error = refusal(deliver, url=url, headers={"X-Key": "Bearer t0ken"})
        assert str(error) == f"{receiver.host} answered 500: (not shown)"
    assert receiver.requests[0].headers["x-key"] == "Bearer t0ken"
    delivery = WebhookDelivery(url, SECRET)
    delivery.close()
    assert repr(delivery) == f"<WebhookDelivery to {receiver.host}>"


def test_password_of_the_url(receiver, deliver):
    """A user and password in the URL are sent as such, and not as part of the URL."""
    deliver(url=f"http://user:pa55word@{receiver.host}/hooks")
    assert receiver.requests[0].headers["authorization"].startswith("Basic ")


def test_no_cookie_is_kept(receiver, deliver):
    """A receiver leaves nothing behind in the client that all deliveries share."""
    receiver.answers(200, set_cookie="a=b")
    with webhook_client() as client:
        deliver(client=client)
        deliver(client=client)
        assert not client.cookies
    assert "cookie" not in receiver.requests[1].headers


# -- the client ----------------------------------------------------------------------------------


def test_connection_is_used_again(receiver):
    """Deliveries in turn share one connection."""
    receiver.answers(200, b"thank you")
    delivery = WebhookDelivery(receiver.url, SECRET)
    for number in range(3):
        delivery(Event(id=number))
    delivery.close()
    assert len({request.port for request in receiver.requests}) == 1


def test_threads(receiver):
    """One delivery serves many threads; each event arrives once."""
    delivery = WebhookDelivery(receiver.url, SECRET)
    errors = []

    def deliver_some(start):
        try:
            for number in range(start, start + 25):
                delivery(Event(id=number))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=deliver_some, args=(n * 25,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    delivery.close()
    assert not errors
    ids = [verify(request.body, request.headers, SECRET) for request in receiver.requests]
    assert sorted(ids) == sorted(message_id(Event(id=number)) for number in range(200))


def test_client_of_ones_own(receiver, deliver):
    """A client that was given is used, and left open; each of its steps has the timeout."""
    with httpx.Client(headers={"x-from": "own"}) as client:
        deliver(client=client)
        receiver.answer = never
        with took_at_most(SHORT_S + GRACE_S):
            refusal(deliver, client=client, timeout_s=SHORT_S)
        delivery = WebhookDelivery(receiver.url, SECRET, client=client)
        delivery.close()
        assert not client.is_closed
    assert receiver.requests[0].headers["x-from"] == "own"


def test_environment_is_not_asked(receiver, deliver, monkeypatch):
    """No proxy of the environment sees the events."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    deliver()
    assert len(receiver.requests) == 1


# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("url", url) for url in ("", "shop.example", "ftp://shop.example/", "http://", "http:///x",
                                   "http://[::1", "http://a:pa55@b:99999999/", None, b"http://a/")),
        *(("secret", s) for s in ("", "whsec_", "short", "whsec_c2hvcnQ=", [], [SECRET, ""], None,
                                  SECRET.encode(), "whsec_" + "!" * 40, "ä" * 40, "A" * 200)),
        *(("timeout_s", t) for t in (0, -1, float("nan"), True, None, "10")),
        *(("headers", h) for h in ([], {"a b": "c"}, {"a": "b\nc"}, {"a": 1}, {"Webhook-Id": "x"},
                                   {1: "a"}, {"a": " b"}, {"a": "ä"}, {"HOST": "elsewhere"})),
        ("source", None),
        ("client", object()),
    ],
)  # fmt: skip
def test_arguments(field, value):
    """A wrong argument is refused when the delivery is made; what may be secret is not shown."""
    given = {"url": "https://shop.example/hooks", "secret": SECRET, field: value}
    with pytest.raises(InvalidOptions) as raised:
        WebhookDelivery(**given)
    assert raised.value.field == field
    if field in ("url", "secret") and isinstance(value, str):
        assert raised.value.value == "(not shown)"


def test_secret_without_its_prefix(receiver, deliver):
    """The prefix may be missing, the padding too, as in the library."""
    deliver(secret=SECRET.removeprefix("whsec_").rstrip("="))
    assert verify(receiver.requests[0].body, receiver.requests[0].headers, SECRET)
