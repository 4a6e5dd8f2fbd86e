"""The arguments of a ``WebhookDelivery``, checked before anything is sent.

What may be secret (a secret, a header's value, the user in a URL) is in no error.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

import httpx

from ..core.instants import MICROSECONDS, length_us
from ..exceptions import InvalidOptions

HIDDEN = "(not shown)"
SECRET_BYTES = range(24, 65)
PORTS = range(1, 65_536)

_OUR_HEADERS = {
    "webhook-id", "webhook-timestamp", "webhook-signature",
    "host", "content-length", "transfer-encoding", "connection",
}  # fmt: skip
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def checked_url(url: object) -> httpx.URL:
    rule = "must be an http or https URL with a host"
    if not isinstance(url, str):
        raise InvalidOptions("url", rule, url)
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        raise InvalidOptions("url", rule, HIDDEN) from None
    port = 443 if parsed.port is None else parsed.port
    if parsed.scheme not in ("http", "https") or not parsed.host or port not in PORTS:
        raise InvalidOptions("url", rule, HIDDEN)
    return parsed


def checked_secrets(secret: object) -> list[str]:
    """Return the secrets; none is in the error, nor is what it was made of."""
    secrets = [secret] if isinstance(secret, str) else secret
    if not isinstance(secrets, list | tuple) or not secrets:
        raise InvalidOptions("secret", "must be a str or a list of at least one", HIDDEN)
    for each in secrets:
        if not isinstance(each, str) or _key_length(each) not in SECRET_BYTES:
            raise InvalidOptions("secret", 'must be "whsec_" and base64 of 24 to 64 bytes', HIDDEN)
    return list(secrets)


def _key_length(secret: str) -> int:
    text = secret.removeprefix("whsec_")
    try:
        return len(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        return 0


def checked_timeout_s(value: object) -> float:
    seconds = length_us("timeout_s", value, at_least_s=0) / MICROSECONDS
    if not seconds:
        raise InvalidOptions("timeout_s", "must be above 0 s", value)
    return seconds


def checked_headers(headers: object) -> dict[str, str]:
    """Return headers with names in small letters; values may be secret, and are never shown."""
    if not isinstance(headers, Mapping):
        raise InvalidOptions("headers", "must be a mapping of names to values", HIDDEN)
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidOptions("headers", "must have names of HTTP headers", HIDDEN)
        if name.lower() in _OUR_HEADERS:
            raise InvalidOptions("headers", "must not have a header that is set for you", name)
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            raise InvalidOptions("headers", f"must have printable ASCII in {name!r}", HIDDEN)
    return {name.lower(): value for name, value in headers.items()}
