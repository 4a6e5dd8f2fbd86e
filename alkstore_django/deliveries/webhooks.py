"""Events as webhooks, signed by Standard Webhooks: send them, and verify them.

The form of the requests is that of https://www.standardwebhooks.com.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from django.core.exceptions import ImproperlyConfigured

from ..core.events import Event
from ..core.instants import Length
from ..exceptions import DeliveryFailed, FailJob, InvalidOptions, InvalidSignature, RetryJob
from .events import checked_source, message_id

try:
    import httpcore
    import httpx
    from standardwebhooks import Webhook, WebhookVerificationError

    from .bounded_http import bounded_client, time_limit
    from .webhook_arguments import (
        HIDDEN,
        checked_headers,
        checked_secrets,
        checked_timeout_s,
        checked_url,
    )
except ImportError as error:
    raise ImproperlyConfigured(
        f'webhooks need another package ({error}): pip install "alkstore-django[webhooks]"'
    ) from error

__all__ = ["WebhookDelivery", "verify", "webhook_client"]

MAX_RETRY_AFTER_S = 3_600
BODY_BYTES = 16_384
BODY_S = 1.0
SHOWN_CHARACTERS = 200
PIECE_CHARACTERS = 12
TELLING_CHARACTERS = 4

_NETWORK_ERRORS = (
    httpx.HTTPError,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
)


class WebhookDelivery:
    """Posts each event to one URL: ``events.deliver(WebhookDelivery(url, secret))``.

    The body is the payload as stored. A 2xx answer is success, whatever its body does. 410
    means that the receiver is gone: the event is dead at once. 429 and 503 with a
    ``Retry-After`` are obeyed, from a second up to an hour. Every other answer, redirects
    included, and every fault on the way raise ``DeliveryFailed``: again by the curve. May be
    shared between threads.

    Args:
        secret: ``whsec_`` and base64 of 24 to 64 bytes; of a list, each signs.
        timeout_s: the limit of the whole exchange, connecting included.
        headers: sent with every event; a ``content-type`` here wins over ours.
        source: names this store, if other stores send to the same receiver.
        client: one of your own, for a proxy or a client certificate; you close it, and its
            own rules bound the time: ``timeout_s`` is that of every single step then.

    Raises:
        InvalidOptions: an argument breaks its rule; no secret is shown.
    """

    def __init__(
        self,
        url: str,
        secret: str | Sequence[str],
        *,
        timeout_s: Length = 10,
        headers: Mapping[str, str] | None = None,
        source: str = "",
        client: httpx.Client | None = None,
    ) -> None:
        self._url = checked_url(url)
        self._signers = [Webhook(each) for each in checked_secrets(secret)]
        self._timeout_s = checked_timeout_s(timeout_s)
        self._headers = checked_headers({} if headers is None else headers)
        self._source = checked_source(source)
        if client is not None and not isinstance(client, httpx.Client):
            raise InvalidOptions("client", "must be an httpx.Client", client)
        self._owns_client = client is None
        self._client = bounded_client() if client is None else client
        if self._owns_client:  # whoever forgets to close it leaves no socket open at exit
            weakref.finalize(self, self._client.close)

    @property
    def receiver(self) -> str:
        """The host, with the port if one was given: all that errors say of the URL."""
        return self._url.netloc.decode("ascii")

    def __repr__(self) -> str:
        return f"<WebhookDelivery to {self.receiver}>"

    def __call__(self, event: Event) -> None:
        """Deliver one event, or raise: ``DeliveryFailed``, ``RetryJob`` or ``FailJob``."""
        request = self._client.build_request(
            "POST",
            self._url,
            content=event.payload_bytes,
            headers=self._signed_headers(event),
            timeout=self._timeout_s,
        )
        try:
            with time_limit(self._timeout_s):
                response = self._client.send(request, stream=True, follow_redirects=False)
                try:
                    body = _beginning(response)
                finally:
                    response.close()
        except _NETWORK_ERRORS as error:
            reason = f"was not reached or broke off: {_described(error)}"
            raise DeliveryFailed(self.receiver, reason) from None
        if not response.is_success:
            hidden = [event.payload_bytes.decode("utf-8", "replace"), *self._headers.values()]
            self._refuse(response, shown_text(body.decode("utf-8", "replace"), hidden))

    def close(self) -> None:
        """Close the connections, unless the client was given: then they are its owner's."""
        if self._owns_client:
            self._client.close()

    def _signed_headers(self, event: Event) -> dict[str, str]:
        try:
            text = event.payload_bytes.decode()
        except UnicodeDecodeError:
            raise FailJob("a webhook's body must be UTF-8 text to be signed") from None
        now = dt.datetime.now(dt.UTC)
        name = message_id(event, self._source)
        return {
            "content-type": "application/json" if _is_json(text) else "application/octet-stream",
            "accept-encoding": "identity",
            "user-agent": "alkstore-django",
            **self._headers,
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(each.sign(name, now, text) for each in self._signers),
        }

    def _refuse(self, response: httpx.Response, said: str) -> NoReturn:
        status = response.status_code
        reason = f"answered {status}" + (f": {said}" if said else "")
        if status == httpx.codes.GONE:
            raise FailJob(f"{self.receiver} {reason}")
        if status in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE):
            delay_s = _retry_after_s(response.headers.get("retry-after", ""))
            if delay_s is not None:
                raise RetryJob(delay=delay_s, error=f"{self.receiver} {reason}")
        raise DeliveryFailed(self.receiver, reason)


def webhook_client() -> httpx.Client:
    """Return a client as a ``WebhookDelivery`` makes it, to be shared by several of them.

    It keeps to their ``timeout_s`` as a whole. You close it.
    """
    return bounded_client()


def verify(request_body: bytes, headers: Mapping[str, str], secret: str | Sequence[str]) -> str:
    """Return the event's id if the request is signed with one of the secrets, and is fresh.

    The id is the same at every delivery of one event. Fresh means signed less than five
    minutes ago by this machine's clock.

    Args:
        request_body: the bytes as received (``request.body``), not parsed and written again.

    Raises:
        InvalidSignature: a header is missing or malformed, the time is too far off, or no
            signature matches.
        InvalidOptions: a secret is none.
    """
    given = {name.lower(): value for name, value in headers.items()}
    reason = ""
    for each in checked_secrets(secret):
        try:
            Webhook(each).verify(request_body, given, json_parse=False)
        except WebhookVerificationError as refused:
            reason = str(refused)
        except ValueError:  # the library trips over what is no base64, no UTF-8
            reason = "Malformed signature or body"
        else:
            return given["webhook-id"]
    raise InvalidSignature(reason)


def shown_text(text: str, hidden: Iterable[str]) -> str:
    """Return the beginning of what a receiver said, on one line, if it repeats nothing hidden.

    Some receivers answer with what they were sent.
    """
    one_line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    short = one_line[:SHOWN_CHARACTERS]
    return HIDDEN if any(_repeats(short, each) for each in hidden) else short


def _repeats(text: str, hidden: str) -> bool:
    """Return whether a piece of what is hidden is in the text; what is tiny tells nothing."""
    flat = " ".join(hidden.split())
    if len(flat) < PIECE_CHARACTERS:
        return len(flat) >= TELLING_CHARACTERS and flat in text
    last = len(text) - PIECE_CHARACTERS
    return any(text[at : at + PIECE_CHARACTERS] in flat for at in range(last + 1))


def _described(error: Exception) -> str:
    """Name a fault of the network; a protocol's fault may quote what was sent or received."""
    name = type(error).__name__
    if isinstance(error, httpx.ProtocolError | httpcore.ProtocolError) or not str(error):
        return name
    return f"{name}: {shown_text(str(error), ())}"


def _beginning(response: httpx.Response) -> bytes:
    """Read a little of the body: enough to use the connection again, and to say what it said.

    The answer is known already: what goes wrong here changes nothing.
    """
    body = b""
    ends_at = time.monotonic() + BODY_S  # for a client that knows no time_limit
    try:
        with time_limit(BODY_S):
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > BODY_BYTES or time.monotonic() > ends_at:
                    break
    except _NETWORK_ERRORS:
        pass
    return body[:BODY_BYTES]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _retry_after_s(value: str) -> int | None:
    """Return the pause that a receiver asks for: seconds or an HTTP date; ``None`` if neither."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        seconds = float(value[:20])
    else:
        try:
            until = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        if until.tzinfo is None:
            until = until.replace(tzinfo=dt.UTC)
        seconds = (until - dt.datetime.now(dt.UTC)).total_seconds()
    return int(max(1, min(seconds, MAX_RETRY_AFTER_S)))
