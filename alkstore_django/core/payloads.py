"""Codecs: how a payload becomes bytes and comes back (CONTRACT 2.4)."""

from __future__ import annotations

import json
from typing import Any, Protocol, runtime_checkable

from ..exceptions import InvalidOptions, InvalidPayload
from .names import checked_name


@runtime_checkable
class Codec(Protocol):
    """What a queue needs to store payloads.

    ``name`` is stamped on every row, and must tell this codec from every other for as long
    as rows live. ``decode(encode(x))`` must equal ``x``; what cannot is refused with
    ``InvalidPayload`` (any other error of a codec is turned into one by the queue).
    """

    name: str

    def encode(self, payload: Any) -> bytes:
        """Return the bytes to store."""
        ...

    def decode(self, data: bytes) -> Any:
        """Return the payload that the bytes hold."""
        ...


class JSONCodec:
    """Strict JSON: what comes back equals what went in, or ``InvalidPayload``.

    Refused: NaN and the infinities, keys that are no strings, tuples, sets, datetimes and
    all else that JSON would change on the way. NUL and lone surrogates in strings survive.
    """

    name = "json"

    def encode(self, payload: Any) -> bytes:
        """Return compact JSON, UTF-8 where possible, else ASCII with escapes."""
        try:
            data, text = _as_json(payload)
            faithful = _is_flat(payload, data) or _DECODER.decode(text) == payload
        except RecursionError:
            raise InvalidPayload("payload is nested too deep to encode") from None
        except (TypeError, ValueError) as error:
            raise InvalidPayload(_fault(payload) or _reason(error)) from None
        if not faithful:
            raise InvalidPayload(_fault(payload) or "payload does not survive JSON unchanged")
        return data

    def decode(self, data: bytes) -> Any:
        """Return the value; bytes that are no JSON raise ``InvalidPayload``."""
        try:
            return json.loads(data)
        except RecursionError:
            raise InvalidPayload("stored bytes are nested too deep to decode") from None
        except ValueError:
            raise InvalidPayload("stored bytes are not JSON") from None

    def __repr__(self) -> str:
        return "JSON"


class BytesCodec:
    """Bytes, kept exactly; ``bytearray`` and ``memoryview`` are refused, as they can change."""

    name = "bytes"

    def encode(self, payload: Any) -> bytes:
        """Return the payload itself."""
        if not isinstance(payload, bytes):
            raise InvalidPayload(f"payload must be bytes, not {type(payload).__name__}")
        return bytes(payload)

    def decode(self, data: bytes) -> bytes:
        """Return the bytes as stored."""
        return data

    def __repr__(self) -> str:
        return "BYTES"


# Made once: json.dumps and json.loads would make them anew for every payload.
_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
_ASCII_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()

JSON = JSONCodec()
BYTES = BytesCodec()

_BUILT_IN: dict[str, Codec] = {JSON.name: JSON, BYTES.name: BYTES}


def checked_codec(codec: object) -> Codec:
    """Return ``codec`` if it can serve as one, else raise ``InvalidOptions``."""
    if isinstance(codec, type) or not isinstance(codec, Codec):
        raise InvalidOptions("codec", "must have name, encode and decode", codec)
    checked_name("codec", codec.name)
    if codec.name in _BUILT_IN and type(codec) is not type(_BUILT_IN[codec.name]):
        raise InvalidOptions("codec", f"must not take the name {codec.name!r}", codec)
    return codec


def encode_payload(codec: Codec, payload: Any, *, queue: str, max_bytes: int) -> bytes:
    """Return the bytes to store for a payload of ``queue``, or raise ``InvalidPayload``."""
    try:
        data = codec.encode(payload)
    except InvalidPayload as error:
        raise InvalidPayload(error.reason, queue) from None
    except Exception as error:
        reason = f"codec {codec.name!r} cannot encode it: {type(error).__name__}"
        raise InvalidPayload(reason, queue) from error
    if not isinstance(data, bytes):
        reason = f"codec {codec.name!r} must return bytes, not {type(data).__name__}"
        raise InvalidPayload(reason, queue)
    check_size(data, queue=queue, max_bytes=max_bytes)
    return data


def check_size(data: bytes, *, queue: str, max_bytes: int) -> None:
    """Raise ``InvalidPayload`` for an encoded payload that is too large."""
    if len(data) > max_bytes:
        reason = f"payload must be at most {max_bytes} bytes, got {len(data)}"
        raise InvalidPayload(reason, queue)


def decode_payload(codec_name: str, own: Codec | None, data: bytes, *, queue: str) -> Any:
    """Return the payload of stored bytes by the codec that the row names.

    Args:
        own: the reading queue's codec, used when the row names it.
    """
    codec = own if own is not None and own.name == codec_name else _BUILT_IN.get(codec_name)
    if codec is None:
        raise InvalidPayload(f"no codec named {codec_name!r} is at hand", queue)
    try:
        return codec.decode(data)
    except InvalidPayload as error:
        raise InvalidPayload(error.reason, queue) from None
    except Exception as error:
        reason = f"codec {codec_name!r} cannot decode it: {type(error).__name__}"
        raise InvalidPayload(reason, queue) from error


def _as_json(payload: Any) -> tuple[bytes, str]:
    """Return the bytes to store, and the text that they hold."""
    text = _ENCODER.encode(payload)
    try:
        return text.encode(), text
    except UnicodeEncodeError:  # a lone surrogate: only the escaped form can carry it
        text = _ASCII_ENCODER.encode(payload)
        return text.encode(), text


_SCALARS = frozenset({str, int, bool, float, type(None)})


def _is_flat(payload: Any, data: bytes) -> bool:
    """Return whether JSON cannot have changed anything: a dict of exact scalars, as most are.

    What was encoded as UTF-8 holds no lone surrogates, and the encoder lets no NaN through.
    """
    if type(payload) is not dict or b"\\ud" in data:
        return False
    for key, value in payload.items():
        if type(key) is not str or type(value) not in _SCALARS:
            return False
    return True


def _fault(payload: Any) -> str | None:
    """Name the first place that JSON would refuse or change; ``None`` if none is found.

    Walks without recursion, so that depth and cycles cannot break the search.
    """
    seen: set[int] = set()
    places: list[tuple[str, Any]] = [("$", payload)]
    while places:
        path, value = places.pop()
        if isinstance(value, dict | list) and id(value) in seen:
            continue
        if isinstance(value, dict):
            seen.add(id(value))
            for key in value:
                if not isinstance(key, str):
                    return f"{path} has a key of type {type(key).__name__}; keys must be str"
                if (reason := _scalar_fault(key)) is not None:
                    return f"{path} has a key that {reason}"
            places += [(f"{path}.{key}", item) for key, item in reversed(value.items())]
        elif isinstance(value, list):
            seen.add(id(value))
            places += [(f"{path}[{i}]", value[i]) for i in reversed(range(len(value)))]
        elif (reason := _scalar_fault(value)) is not None:
            return f"{path} {reason}"
    return None


def _scalar_fault(value: Any) -> str | None:
    if isinstance(value, float):
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            return "is NaN or infinite"
        return None
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        try:
            return None if json.loads(json.dumps(value)) == value else "changes in JSON"
        except ValueError:
            return "is an int with too many digits"
    if isinstance(value, str):
        # Two lone surrogates side by side come back as one character.
        same = json.loads(json.dumps(value)) == value
        return None if same else "holds surrogates that JSON would join into one character"
    return f"is of type {type(value).__name__}, which JSON would change or refuse"


def _reason(error: Exception) -> str:
    return "payload holds a cycle" if "ircular" in str(error) else "payload is not JSON"
