"""What a receiver checks: issue 4's webhooks."""

import base64
import datetime as dt

import pytest
from django.http import HttpRequest
from standardwebhooks import Webhook

from alkstore_django import InvalidOptions
from alkstore_django.deliveries.webhooks import verify
from alkstore_django.exceptions import InvalidSignature

SECRET = "whsec_" + base64.b64encode(b"a secret of 32 bytes, not a byte").decode()
OTHER = "whsec_" + base64.b64encode(b"another of 32 bytes, not a byte.").decode()
BODY = b'{"order":7}'


def signed(body=BODY, secret=SECRET, ago_s=0):
    """The headers of a webhook, as anyone's library makes them."""
    at = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=ago_s)
    return {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign("evt_1", at, body.decode()),
    }


def test_good():
    """The id of the event comes back, whatever the case of the headers' names."""
    assert verify(BODY, signed(), SECRET) == "evt_1"
    assert verify(BODY, {n.title(): v for n, v in signed().items()}, [OTHER, SECRET]) == "evt_1"


def test_request_of_django():
    """Django's own request headers will do."""
    request = HttpRequest()
    request.META.update({f"HTTP_{n.upper().replace('-', '_')}": v for n, v in signed().items()})
    assert verify(BODY, request.headers, SECRET) == "evt_1"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b'{"order":8}', signed()),
        (b"\xff", signed()),
        (BODY, signed(secret=OTHER)),
        (BODY, signed(ago_s=301)),
        (BODY, signed(ago_s=-3_600)),
        (BODY, {}),
        (BODY, {**signed(), "webhook-id": "evt_2"}),
        (BODY, {**signed(), "webhook-timestamp": "now"}),
        (BODY, {**signed(), "webhook-timestamp": "nan"}),
        (BODY, {**signed(), "webhook-timestamp": "9" * 400}),
        (BODY, {**signed(), "webhook-signature": "v1"}),
        (BODY, {**signed(), "webhook-signature": "v1,ä"}),
        (BODY, {**signed(), "webhook-signature": "v1,a"}),
        (BODY, {**signed(), "webhook-signature": "a,b,c d"}),
        (BODY, {**signed(), "webhook-signature": "v2,"}),
    ],
)
def test_refused(body, headers):
    """Whatever is not right is ``InvalidSignature``, and no other error."""
    with pytest.raises(InvalidSignature) as refused:
        verify(body, headers, SECRET)
    assert refused.value.reason and SECRET not in str(refused.value)


@pytest.mark.parametrize("secret", ["", [], None, "whsec_"])
def test_no_secret(secret):
    """A receiver without a secret is a mistake of its own, never a pass."""
    with pytest.raises(InvalidOptions):
        verify(BODY, signed(), secret)
