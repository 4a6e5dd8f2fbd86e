"""Payloads: 2.4."""

import json
import math

import pytest

from alkstore_django import BYTES, InvalidOptions, InvalidPayload, Queue
from tests.core.hostile import cases
from tests.core.test_codecs import (
    BAD_PAYLOADS,
    Broken,
    JSONThief,
    NoBytes,
    Own,
    nested,
    same,
)
from tests.support.rows import count_live, dead_row, live_row
from tests.support.statements import no_sql
from tests.support.tampering import change_live_row

MEBIBYTE = 1024 * 1024
LEGAL_JSON = {
    "empty text": "",
    "none": None,
    "empty dict": {},
    "empty list": [],
    "zero": 0,
    "false": False,
    "minus zero": -0.0,
    "tiny float": 5e-324,
    "huge int": 10**300,
    "NUL": "a\x00b",
    "lone surrogates": {"\ud800": ["\udfff\ud800", "x"]},
    "astral": "😀 Ünï 队列",
    "key order": {"b": 1, "a": {"d": 2, "c": 3}},
    "placeholders": {"%s": "%(now_us)s", "$job": "${job}"},
    "empty key": {"": ""},
    "deep": nested(300, dict),
    "10 MiB": "x" * (10 * MEBIBYTE),
}
LEGAL_BYTES = {
    "empty": b"",
    "NUL": b"\x00",
    "no UTF-8": b"\x80\xff",
    "every byte": bytes(range(256)),
    "like JSON": b'{"a": 1.0}',
    "10 MiB": bytes(range(256)) * 40 * 1024,
}
UNDECODABLE = {"empty": b"", "no UTF-8": b"\xff\xfe\xfa", "cut off": b'{"a":'}


@pytest.mark.parametrize("payload", cases(LEGAL_JSON))
def test_json_comes_back_equal(alias, make_queue, payload):
    """2.4 FR-062 On the job, on the handle and on the dead; the stored bytes are exact JSON."""
    queue = make_queue()
    job_id = queue.enqueue(payload)
    handle = queue.claim_one("worker")
    assert same(queue.get_job(job_id).payload, payload)
    assert same(handle.job.payload, payload)
    assert json.loads(handle.job.payload_bytes) == payload
    assert bytes(live_row(alias, job_id)["payload"]) == handle.job.payload_bytes
    assert handle.fail()
    assert same(queue.get_job(job_id).payload, payload)


@pytest.mark.parametrize("payload", ["\ud83d\ude00", {"\ud83d\ude00": 1}])
def test_json_never_joins_two_surrogates(alias, make_queue, payload):
    """2.4 What cannot come back equal is refused; never stored as something else."""
    queue = make_queue()
    try:
        job_id = queue.enqueue(payload)
    except InvalidPayload:
        assert count_live(alias) == 0
    else:
        assert queue.get_job(job_id).payload == payload


@pytest.mark.parametrize("payload", cases(LEGAL_BYTES))
def test_bytes_come_back_exactly(alias, make_queue, payload):
    """2.4 FR-062 BytesCodec keeps bytes exactly, as bytes."""
    queue = make_queue(codec=BYTES)
    job_id = queue.enqueue(payload)
    job = queue.claim_one("worker").job
    for read in (job.payload, job.payload_bytes, queue.get_job(job_id).payload):
        assert type(read) is bytes and read == payload
    assert bytes(live_row(alias, job_id)["payload"]) == payload


def test_empty_payloads_stay_apart(make_queue):
    """2.4 FR-062 b'', '', None, {} and [] are five payloads."""
    queue, raw = make_queue(), make_queue(codec=BYTES)
    payloads = ["", None, {}, []]
    ids = [*queue.enqueue_many(payloads), raw.enqueue(b"")]
    read = [queue.get_job(job_id).payload for job_id in ids]
    assert all(map(same, read, [*payloads, b""]))


@pytest.mark.parametrize("payload", cases(BAD_PAYLOADS))
def test_json_refuses_what_would_not_come_back(alias, make_queue, payload):
    """2.4 FR-060 InvalidPayload naming the queue, no SQL, nothing stored."""
    queue = make_queue()
    with no_sql(alias):
        with pytest.raises(InvalidPayload) as caught:
            queue.enqueue(payload)
        with pytest.raises(InvalidPayload):
            queue.enqueue_many([{}, payload])
    assert caught.value.queue == "jobs"
    assert count_live(alias) == 0


@pytest.mark.parametrize("payload", ["text", None, 5, bytearray(b"a"), memoryview(b"a")], ids=repr)
def test_bytes_refuse_all_else(alias, make_queue, payload):
    """2.4 InvalidPayload, no SQL, nothing stored."""
    with no_sql(alias), pytest.raises(InvalidPayload):
        make_queue(codec=BYTES).enqueue(payload)
    assert count_live(alias) == 0


@pytest.mark.parametrize("codec", [Broken(), NoBytes()])
def test_a_failing_codec_is_an_invalid_payload(alias, make_queue, codec):
    """2.4 Whatever one's own codec raises or returns: InvalidPayload before any SQL."""
    with no_sql(alias), pytest.raises(InvalidPayload):
        make_queue(codec=codec).enqueue("text")
    assert count_live(alias) == 0


@pytest.mark.parametrize("codec", [None, "json", json, Own, JSONThief()], ids=repr)
def test_a_bad_codec_is_refused_at_construction(alias, codec):
    """2.3 InvalidOptions before any SQL."""
    with no_sql(alias), pytest.raises(InvalidOptions) as caught:
        Queue("jobs", using=alias, codec=codec)
    assert caught.value.field == "codec"


@pytest.mark.parametrize(("codec", "name"), [(None, "json"), (BYTES, "bytes"), (Own(), "own")])
def test_the_codecs_name_is_stamped_on_the_row(alias, make_queue, codec, name):
    """2.4 The row tells how it was encoded, for live and dead alike."""
    queue = make_queue(**({} if codec is None else {"codec": codec}))
    job_id = queue.enqueue(b"x" if codec is BYTES else "x")
    assert live_row(alias, job_id)["codec"] == name
    assert queue.get_job(job_id).codec == name
    queue.claim_one("worker").fail()
    assert dead_row(alias, job_id)["codec"] == name


def test_the_row_decides_how_it_is_read(make_queue):
    """2.4 A queue whose codec was changed still reads its old jobs."""
    job_id = make_queue().enqueue({"a": 1})
    raw_id = make_queue(codec=BYTES).enqueue(b"[1]")
    own_id = make_queue(codec=Own()).enqueue("text")
    assert make_queue(codec=BYTES).get_job(job_id).payload == {"a": 1}
    assert make_queue().get_job(raw_id).payload == b"[1]"
    assert make_queue(codec=Own()).get_job(own_id).payload == "text"
    unknown = make_queue().get_job(own_id)
    assert unknown.payload_bytes == b"text"
    with pytest.raises(InvalidPayload):
        unknown.payload


@pytest.mark.parametrize("stored", cases(UNDECODABLE))
def test_bytes_that_do_not_decode_break_no_claim_and_no_read(alias, make_queue, stored):
    """2.4 payload_bytes is always there, payload raises when asked; others are untouched."""
    queue = make_queue()
    bad, _ = queue.enqueue_many([1, 2])
    change_live_row(alias, bad, payload=stored)
    handle, other = queue.claim_batch("worker", 5)
    for job in (handle.job, queue.get_job(bad)):
        assert job.payload_bytes == stored
        with pytest.raises(InvalidPayload):
            job.payload
    assert other.job.payload == 2
    assert handle.fail()
    assert queue.get_job(bad).payload_bytes == stored


def test_a_payload_above_the_limit_is_refused(alias, make_queue, settings):
    """2.4 FR-064 The limit is a setting; at it a payload is stored, above it refused."""
    settings.ALKSTORE = {**settings.ALKSTORE, alias: {"MAX_PAYLOAD_BYTES": 10}}
    queue = make_queue(codec=BYTES)
    job_id = queue.enqueue(b"x" * 10)
    with no_sql(alias), pytest.raises(InvalidPayload):
        queue.enqueue(b"x" * 11)
    assert queue.get_job(job_id).payload == b"x" * 10
    assert count_live(alias) == 1


def test_no_text_of_ours_shows_a_payload(make_queue):
    """2.4 FR-156 Neither the errors nor the text forms of job and handle."""
    queue = make_queue()
    queue.enqueue({"token": "S3CR3T"})
    handle = queue.claim_one("worker")
    with pytest.raises(InvalidPayload) as caught:
        queue.enqueue({"token": "S3CR3T", "x": math.nan})
    texts = [repr(handle), repr(handle.job), str(handle.job), repr(queue), repr(caught.value)]
    assert not any("S3CR3T" in text for text in [*texts, str(caught.value)])


def test_many_large_payloads_come_through(make_queue):
    """2.4 FR-064 A batch of large payloads is stored and claimed whole."""
    queue = make_queue(codec=BYTES)
    payloads = [bytes([n]) * 3 * MEBIBYTE for n in range(5)]
    queue.enqueue_many(payloads)
    assert [handle.job.payload for handle in queue.claim_batch("worker", 5)] == payloads
