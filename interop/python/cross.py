"""The records that every client writes and reads; interop/README.md defines them and their sum."""

import hashlib
import struct

from records import Record

START_MS = 1_700_000_000_000
KINDS = ["none", "gzip", "snappy", "lz4", "zstd", "small"]


def size(kind):
    """The count of records and of partitions."""
    return (100_000, 8) if kind == "small" else (1000, 4)


def record(kind, i):
    count, partitions = size(kind)
    key, value, headers = None, str(i).encode(), []
    if kind != "small":
        key = None if i % 3 == 0 and i % 5 != 0 else f"key-{i}".encode()
        value = None if i % 5 == 0 else f"value-{i};".encode() * (i % 50)
        headers = [(f"header-{h}", b"" if h == 1 else str(i * h).encode()) for h in range(i % 4)]
    return Record(i % partitions, i // partitions, START_MS + i, key, value, headers)


def write(client, writer):
    for kind in KINDS:
        topic = f"cross-{writer}-{kind}"
        count, partitions = size(kind)
        client.create_topic(topic, partitions, {"retention.ms": "-1"})
        records = [record(kind, i) for i in range(count)]
        client.produce(topic, records, codec="none" if kind == "small" else kind)
        print(topic, count, checksum(records))


def read(client, writer):
    for kind in KINDS:
        topic = f"cross-{writer}-{kind}"
        count, partitions = size(kind)
        records = client.read(topic, partitions, count)
        print(topic, len(records), checksum(records))


def checksum(records):
    hashed = hashlib.sha256()
    for r in sorted(records, key=lambda r: (r.partition, r.offset)):
        parts = [struct.pack(">iqq", r.partition, r.offset, r.timestamp_ms)]
        parts += [content(r.key), content(r.value), struct.pack(">i", len(r.headers))]
        for key, value in r.headers:
            parts += [content(key.encode()), content(value)]
        hashed.update(b"".join(parts))
    return hashed.hexdigest()


def content(value):
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
