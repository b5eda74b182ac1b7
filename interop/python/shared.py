"""Scenarios that every Python client runs through its own adapter.

An adapter has `name`, `create_topic(name, partitions, configs)`, `produce(topic, records, codec)`
with further settings, `read(topic, partitions, count)`, `offset_at(topic, partition, timestamp_ms)`,
`commit(group, topic, partition, offset)`, `committed(group, topic, partition)` and
`member(group, topic)`, which has `poll()`, `owned()` and `close()`. `sends_every_null` tells whether
the client takes a record without key and value, and a header without value.

`transactional(id)` makes a producer that has its epoch, with `begin()`, `send(topic, value)`, which
waits for the acknowledgement, `offsets(group, topic, partition, offset)`, `commit()`, `abort()` and
`close()`; a fenced one raises `client.fenced`. `read_committed(topic, count)` gives the values of
partition 0, and gives up waiting for more when `QUIET_S` seconds have brought none.
"""

import threading
import time

from records import Record
from runner import Check

# So long nothing more has come for a reader to be at the end.
QUIET_S = 3


def plain(count, partitions=1, value=lambda i: str(i).encode()):
    """Numbered records over the partitions, of the present time."""
    now_ms = int(time.time() * 1000)
    return [
        Record(i % partitions, i // partitions, now_ms, None, value(i), []) for i in range(count)
    ]


def produce_with(codec):
    def scenario(client):
        topic = f"{client.name}-produce-{codec}"
        client.create_topic(topic, 2)
        sent = plain(1000, 2, lambda i: b"a text that compresses " * (i % 20) + str(i).encode())
        client.produce(topic, sent, codec=codec)
        Check.equal(sorted(sent), sorted(client.read(topic, 2, 1000)), "records")

    return scenario


def nulls_and_headers(client):
    topic = f"{client.name}-nulls"
    client.create_topic(topic, 1)
    headers = [("twice", b"first"), ("null", None), ("größe", b""), ("twice", b"second")]
    contents = [None, b"", b"\0"]
    now_ms = int(time.time() * 1000)
    pairs = [(key, value) for key in contents for value in contents]
    if not client.sends_every_null:
        pairs.remove((None, None))
        headers.remove(("null", None))
    sent = [Record(0, i, now_ms, key, value, headers) for i, (key, value) in enumerate(pairs)]
    client.produce(topic, sent)
    Check.equal(sent, client.read(topic, 1, len(sent)), "records")


def many_small_records(client):
    topic = f"{client.name}-small"
    client.create_topic(topic, 8)
    client.produce(topic, plain(100_000, 8))
    for record in client.read(topic, 8, 100_000):
        Check.equal(str(record.offset * 8 + record.partition).encode(), record.value, "value")


def offsets_by_time(client):
    topic = f"{client.name}-by-time"
    client.create_topic(topic, 1)
    start_ms = int(time.time() * 1000) - 1_000_000
    client.produce(topic, [Record(0, i, start_ms + i * 10, None, b"v", []) for i in range(1000)])
    for i in [0, 1, 500, 999]:
        for before_ms in [0, 9]:
            offset = client.offset_at(topic, 0, start_ms + i * 10 - before_ms)
            Check.equal(i, offset, f"offset at {i}")


def manual_commit(client):
    topic = f"{client.name}-commit"
    client.create_topic(topic, 1)
    client.produce(topic, plain(10))
    Check.equal(None, client.committed("py-" + topic, topic, 0), "committed offset at first")
    client.commit("py-" + topic, topic, 0, 7)
    Check.equal(7, client.committed("py-" + topic, topic, 0), "committed offset")


def acks(client):
    topic = f"{client.name}-acks"
    client.create_topic(topic, 1)
    client.produce(topic, plain(50), acks=0)
    client.produce(topic, plain(50), acks=1)
    client.read(topic, 1, 100)


def group(client):
    """Members join and leave while records come; each record is delivered."""
    topic = f"{client.name}-group"
    client.create_topic(topic, 6)
    seen, written, stop = set(), [0], threading.Event()

    def write():
        while not stop.is_set():
            first = written[0]
            client.produce(topic, plain(50, 6, lambda i: str(first + i).encode()))
            written[0] = first + 50

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    members = []
    try:
        for step in ["join", "join", "join", "leave", "leave", "join"]:
            if step == "join":
                members.append(Member(client, topic, seen))
            else:
                members.pop(0).leave()
            share = 6 // len(members)
            Check.eventually(
                lambda: all(m.owned == share for m in members), f"{share} partitions each"
            )
        stop.set()
        writer.join()
        Check.eventually(lambda: len(seen) >= written[0], f"all {written[0]} records delivered")
        Check.equal(written[0], len(seen), "records")
    finally:
        stop.set()
        for member in members:
            member.leave()


def transactions(client):
    """What is committed is read, once; what is aborted is not."""
    topic = f"{client.name}-transactions"
    client.create_topic(topic, 1)
    producer = client.transactional(topic)
    for i in range(4):
        producer.begin()
        producer.send(topic, b"%d-first" % i)
        producer.send(topic, b"%d-second" % i)
        producer.commit() if i % 2 else producer.abort()
    producer.begin()
    producer.send(topic, b"open")
    expected = [b"1-first", b"1-second", b"3-first", b"3-second"]
    Check.equal(expected, client.read_committed(topic, 5), "records before the commit")
    producer.commit()
    producer.close()
    Check.equal([*expected, b"open"], client.read_committed(topic, 5), "committed records")


def transactional_offsets(client):
    """A group's offset counts when its transaction does."""
    topic = f"{client.name}-transactional-offsets"
    client.create_topic(topic, 1)
    client.produce(topic, plain(10))
    producer = client.transactional(topic)
    for offset, ends, expected in [(3, "abort", None), (4, "commit", 4), (5, "abort", 4)]:
        producer.begin()
        producer.offsets("py-" + topic, topic, 0, offset)
        getattr(producer, ends)()
        Check.equal(expected, client.committed("py-" + topic, topic, 0), f"after {offset}")
    producer.close()


def fenced_producer(client):
    """A second instance ends what the first has begun, and shuts it out."""
    topic = f"{client.name}-fenced"
    client.create_topic(topic, 1)
    first = client.transactional(topic)
    first.begin()
    first.send(topic, b"first")
    second = client.transactional(topic)
    try:
        first.send(topic, b"zombie")
        first.commit()
    except client.fenced:
        client.end(first)
    else:
        raise AssertionError("a fenced producer has committed")
    second.begin()
    second.send(topic, b"second")
    second.commit()
    second.close()
    Check.equal([b"second"], client.read_committed(topic, 1), "committed records")


class Member:
    """A group's member that polls on a thread of its own."""

    def __init__(self, client, topic, seen):
        self.owned = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(client, topic, seen), daemon=True)
        self.thread.start()

    def run(self, client, topic, seen):
        consumer = client.member(topic, topic)
        while not self.stop.is_set():
            seen.update(consumer.poll())
            self.owned = consumer.owned()
        consumer.close()

    def leave(self):
        self.stop.set()
        self.thread.join()


SCENARIOS = {
    **{
        f"produce-{codec}": (60, produce_with(codec))
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"]
    },
    "nulls-and-headers": (60, nulls_and_headers),
    "100000-small-records": (120, many_small_records),
    "offsets-by-time": (60, offsets_by_time),
    "manual-commit": (60, manual_commit),
    "acks-0-and-1": (60, acks),
    "group": (90, group),
    "transactions": (60, transactions),
    "transactional-offsets": (60, transactional_offsets),
    "transactional-producer-fenced": (60, fenced_producer),
}
