"""Ids on PostgreSQL: 1.5."""

from django.db import connections


def test_ids_go_on_beyond_32_bits(alias, make_queue):
    """1.5 FR-069 The sequence is a bigint's, and survives flush."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT pg_get_serial_sequence('\"alkstore\".\"job\"', 'id')")
        sequence = cursor.fetchone()[0]
        cursor.execute("SELECT last_value FROM " + sequence)
        before = cursor.fetchone()[0]
        cursor.execute("SELECT setval(%s, 3000000000)", [sequence])
    try:
        queue = make_queue()
        ids = [queue.enqueue({}), *queue.enqueue_many([{}, {}])]
        assert ids == [3_000_000_001, 3_000_000_002, 3_000_000_003]
        handles = queue.claim_batch("worker", 3)
        assert queue.ack_batch([handles[0], ids[1]]) == 2
        assert handles[2].fail() and queue.get_job(ids[2]).state == "dead"
    finally:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT setval(%s, %s)", [sequence, before + 10])
