"""Section 2.4, the pure rules of payloads."""

import datetime as dt
import enum
import json
import math
from collections import namedtuple
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_django import BYTES, JSON, BytesCodec, InvalidOptions, InvalidPayload, JSONCodec
from alkstore_django.core.payloads import checked_codec, decode_payload, encode_payload
from tests.core.hostile import cases

ANY_TEXT = st.text(st.characters(codec=None, categories=None)) | st.text(
    st.sampled_from("a\0\ud83d\ude00😀"), max_size=6
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
) | ANY_TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner), max_leaves=20
)
Pair = namedtuple("Pair", "left right")


class Colour(enum.Enum):
    RED = "red"


def same(one, other):
    """Equal in value and in type, all the way down; -0.0 is not 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and repr(one) == repr(other)


def nested(depth, kind):
    value = []
    for _ in range(depth):
        value = [value] if kind is list else {"k": value}
    return value


def cyclic(kind):
    value = kind()
    value.append(value) if kind is list else value.__setitem__("self", value)
    return {"in": value}


BAD_PAYLOADS = {
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "nan inside": {"a": [1, {"b": math.nan}]},
    "tuple": (1, 2),
    "empty tuple": (),
    "tuple inside": {"a": (1,)},
    "named tuple": Pair(1, 2),
    "set": {1},
    "frozenset": frozenset(),
    "bytes": b"raw",
    "bytearray": bytearray(b"raw"),
    "datetime": dt.datetime(2030, 1, 1, tzinfo=dt.UTC),
    "date": dt.date(2030, 1, 1),
    "timedelta": dt.timedelta(1),
    "decimal": Decimal("1.5"),
    "complex": 1j,
    "enum": Colour.RED,
    "object": object(),
    "generator": (n for n in range(3)),
    "int key": {1: "a"},
    "bool key": {True: "a"},
    "none key": {None: "a"},
    "float key": {1.5: "a"},
    "tuple key": {(1, 2): "a"},
    "int key beside its text": {1: "a", "1": "b"},
    "key inside": [{"a": {2: "b"}}],
    "list cycle": cyclic(list),
    "dict cycle": cyclic(dict),
    "lists too deep": nested(200_000, list),
    "dicts too deep": nested(200_000, dict),
    "int of 5,000 digits": 10**5_000,
}


@given(VALUES)
def test_json_returns_what_went_in_or_refuses(payload):
    """2.4 What comes back equals what went in, or InvalidPayload."""
    try:
        data = JSON.encode(payload)
    except InvalidPayload:
        return
    assert type(data) is bytes
    assert same(JSON.decode(data), payload)


@given(st.recursive(SCALARS, lambda inner: st.lists(inner), max_leaves=5))
def test_stored_json_is_json_to_everybody(payload):
    """2.4 The stored bytes are plain JSON in UTF-8."""
    try:
        data = JSON.encode(payload)
    except InvalidPayload:
        return
    assert json.loads(data.decode("utf-8")) == payload


@pytest.mark.parametrize(
    "payload",
    ["", None, {}, [], 0, False, -0.0, 10**300, "a\0b", "\ud800", {"\udfff": "\0"}, "é😀", 5e-324],
)
def test_json_keeps_legal_values(payload):
    """2.4 FR-062 Empty values stay apart; NUL and lone surrogates survive."""
    assert same(JSON.decode(JSON.encode(payload)), payload)


@pytest.mark.parametrize("payload", ["\ud83d\ude00", ["\ud83d\ude00"], {"\ud83d\ude00": 1}])
def test_a_pair_of_lone_surrogates_is_not_turned_into_one_character(payload):
    """2.4 Never a silent conversion: two lone surrogates come back as two, or are refused."""
    try:
        data = JSON.encode(payload)
    except InvalidPayload:
        return
    assert JSON.decode(data) == payload


def test_json_keeps_the_order_of_keys():
    """2.4 Stored bytes are exact: no jsonb."""
    assert list(JSON.decode(JSON.encode({"b": 1, "a": 2}))) == ["b", "a"]


@pytest.mark.parametrize("payload", cases(BAD_PAYLOADS))
def test_json_refuses_what_would_not_come_back(payload):
    """2.4 FR-060 NaN, non-string keys, tuples, datetimes, cycles, depth: InvalidPayload."""
    with pytest.raises(InvalidPayload):
        JSON.encode(payload)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"a": [1, {"b": math.nan}]}, "$.a[1].b"),
        ([0, (1,)], "$[1]"),
        ({"order": {"at": dt.date(2030, 1, 1)}}, "$.order.at"),
        ({"a": {"b": {3: "c"}}}, "$.a.b"),
        ({"a": [b"raw"]}, "$.a[0]"),
        (math.inf, "$"),
    ],
)
def test_the_refusal_says_which_path_is_at_fault(payload, path):
    """2.4 The path is named."""
    with pytest.raises(InvalidPayload) as caught:
        JSON.encode(payload)
    assert path in str(caught.value).split()


@pytest.mark.parametrize("fault", [math.nan, (1,), b"S3CR3T", {1: "S3CR3T"}, {"S3CR3T"}])
def test_the_refusal_never_shows_a_value(fault):
    """2.4 FR-156 InvalidPayload names the path, not the value."""
    with pytest.raises(InvalidPayload) as caught:
        encode_payload(JSON, {"token": "S3CR3T", "x": fault}, queue="jobs", max_bytes=1000)
    assert "S3CR3T" not in str(caught.value) + repr(caught.value)
    assert caught.value.queue == "jobs"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe\xfa", b"nope", b"[" * 200_000])
def test_bytes_that_are_no_json_raise_when_decoded(data):
    """2.4 Bytes that do not decode: InvalidPayload."""
    with pytest.raises(InvalidPayload):
        JSON.decode(data)


@given(st.binary())
def test_bytes_are_kept_exactly(payload):
    """2.4 BytesCodec keeps bytes exactly."""
    assert BYTES.decode(BYTES.encode(payload)) == payload


@pytest.mark.parametrize("payload", ["text", None, 5, [], bytearray(b"a"), memoryview(b"a")])
def test_bytes_refuse_all_else(payload):
    """2.4 What would not come back equal in type is refused."""
    with pytest.raises(InvalidPayload):
        BYTES.encode(payload)


class Own:
    name = "own"

    def encode(self, payload):
        return payload.encode()

    def decode(self, data):
        return data.decode()


class Broken(Own):
    def encode(self, payload):
        raise KeyError("S3CR3T")

    def decode(self, data):
        raise KeyError("S3CR3T")


class NoBytes(Own):
    def encode(self, payload):
        return "text"


@pytest.mark.parametrize("codec", [JSON, BYTES, JSONCodec(), BytesCodec(), Own()])
def test_a_codec_is_whoever_has_name_encode_and_decode(codec):
    """2.4 JSON and BYTES are the ready codecs; one's own is welcome."""
    assert checked_codec(codec) is codec


class Nameless(Own):
    name = ""


class NulName(Own):
    name = "a\0b"


class JSONThief(Own):
    name = "json"


@pytest.mark.parametrize("codec", [None, "json", json, Own, object()], ids=repr)
def test_refuses_what_is_no_codec(codec):
    """2.3 A bad option is InvalidOptions, before any use."""
    with pytest.raises(InvalidOptions) as caught:
        checked_codec(codec)
    assert caught.value.field == "codec"


@pytest.mark.parametrize("codec", [Nameless(), NulName(), JSONThief()])
def test_refuses_a_codec_whose_name_cannot_be_stamped(codec):
    """2.4 The codec's name is stamped on the row: it must be storable and its own."""
    with pytest.raises(ValueError):
        checked_codec(codec)


@pytest.mark.parametrize("codec", [Broken(), NoBytes()])
def test_a_codec_that_fails_to_encode_is_an_invalid_payload(codec):
    """2.4 Whatever the codec raises or returns: InvalidPayload, without the value."""
    with pytest.raises(InvalidPayload) as caught:
        encode_payload(codec, "S3CR3T", queue="jobs", max_bytes=1000)
    assert "S3CR3T" not in str(caught.value)


def test_a_codec_that_fails_to_decode_is_an_invalid_payload():
    """2.4 Bytes that do not decode raise InvalidPayload when asked for."""
    with pytest.raises(InvalidPayload):
        decode_payload("own", Broken(), b"raw", queue="jobs")


def test_the_row_names_the_codec_that_decodes_it():
    """2.4 The stamped name decides, not the reading queue's codec."""
    assert decode_payload("json", BYTES, b"[1]", queue="jobs") == [1]
    assert decode_payload("bytes", JSON, b"[1]", queue="jobs") == b"[1]"
    assert decode_payload("own", Own(), b"[1]", queue="jobs") == "[1]"
    with pytest.raises(InvalidPayload):
        decode_payload("own", JSON, b"[1]", queue="jobs")


def test_the_size_limit_is_inclusive():
    """FR-064 A payload above the limit is refused, one at it is not."""
    assert encode_payload(BYTES, b"x" * 10, queue="jobs", max_bytes=10) == b"x" * 10
    with pytest.raises(InvalidPayload, match="10"):
        encode_payload(BYTES, b"x" * 11, queue="jobs", max_bytes=10)
