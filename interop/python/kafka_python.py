"""Scenarios of kafka-python, a client written in Python alone."""

import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError

import shared
from records import Record
from runner import Check, main


class KafkaPython:
    """The adapter that `shared` describes."""

    name = "kafka-python"
    sends_every_null = False
    fenced = KafkaError

    def __init__(self, bootstrap):
        self.settings = {"bootstrap_servers": bootstrap}

    def admin(self):
        return KafkaAdminClient(**self.settings)

    def create_topic(self, name, partitions, configs=None):
        admin = self.admin()
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
        admin.create_topics({name: options}, wait_for_metadata=True)
        admin.list_partition_offsets({TopicPartition(name, p): -1 for p in range(partitions)})
        admin.close()

    def produce(self, topic, records, codec="none", **settings):
        settings.setdefault("enable_idempotence", settings.get("acks") is None)
        codec = None if codec == "none" else codec
        producer = KafkaProducer(**self.settings, **settings, compression_type=codec, linger_ms=5)
        sent = [
            producer.send(topic, r.value, r.key, r.headers, r.partition, r.timestamp_ms)
            for r in records
        ]
        producer.flush()
        for future in sent:
            future.get(10)
        producer.close()

    def consumer(self, group=None, **settings):
        defaults = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        return KafkaConsumer(**{**self.settings, **defaults, "fetch_max_wait_ms": 100, **settings})

    def read(self, topic, partitions, count):
        consumer = self.consumer()
        consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
        records = []
        while len(records) < count:
            for batch in consumer.poll(200, max_records=5000).values():
                records += [self.record(message) for message in batch]
        consumer.close()
        return records

    def read_committed(self, topic, count):
        consumer = self.consumer(isolation_level="read_committed")
        consumer.assign([TopicPartition(topic, 0)])
        values, quiet_from = [], time.monotonic()
        while len(values) < count and time.monotonic() < quiet_from + shared.QUIET_S:
            for batch in consumer.poll(200).values():
                values += [message.value for message in batch]
                quiet_from = time.monotonic()
        consumer.close()
        return values

    def end(self, fenced):
        # It would take its transactional id back some time later.
        fenced.close()

    def transactional(self, transactional_id):
        return Transactional(self, transactional_id)

    @staticmethod
    def record(message):
        content = (message.key, message.value, [tuple(header) for header in message.headers])
        return Record(message.partition, message.offset, message.timestamp, *content)

    def offset_at(self, topic, partition, timestamp_ms):
        consumer = self.consumer()
        found = consumer.offsets_for_times({TopicPartition(topic, partition): timestamp_ms})
        consumer.close()
        return found[TopicPartition(topic, partition)].offset

    def commit(self, group, topic, partition, offset):
        consumer = self.consumer(group)
        consumer.assign([TopicPartition(topic, partition)])
        consumer.commit({TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)})
        consumer.close()

    def committed(self, group, topic, partition):
        consumer = self.consumer(group)
        consumer.assign([TopicPartition(topic, partition)])
        found = consumer.committed(TopicPartition(topic, partition))
        consumer.close()
        return found

    def member(self, group, topic):
        return Member(
            self.consumer(group, enable_auto_commit=True, heartbeat_interval_ms=200), topic
        )


class Member:
    def __init__(self, consumer, topic):
        self.consumer = consumer
        consumer.subscribe([topic])

    def poll(self):
        # kafka-python loses an assignment that comes right after a poll has ended while it joined;
        # with its metadata 100 ms old at the first chance, polls of 50 ms often end just then.
        return [message.value for batch in self.consumer.poll(500).values() for message in batch]

    def owned(self):
        return len(self.consumer.assignment())

    def close(self):
        self.consumer.close()


class Transactional:
    """A transactional producer."""

    def __init__(self, client, transactional_id):
        self.producer = KafkaProducer(**client.settings, transactional_id=transactional_id)
        self.producer.init_transactions()

    def begin(self):
        self.producer.begin_transaction()

    def send(self, topic, value):
        self.producer.send(topic, value, partition=0).get(30)

    def offsets(self, group, topic, partition, offset):
        offsets = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self.producer.send_offsets_to_transaction(offsets, group)

    def commit(self):
        self.producer.commit_transaction()

    def abort(self):
        self.producer.abort_transaction()

    def close(self):
        self.producer.close()


def record_too_large(client):
    client.create_topic("kafka-python-too-large", 1, {"max.message.bytes": "1000"})
    try:
        client.produce("kafka-python-too-large", shared.plain(1, value=lambda _: b"x" * 1000))
    except MessageSizeTooLargeError:
        client.produce("kafka-python-too-large", shared.plain(1))
        return
    raise AssertionError("a record that is too large was taken")


def admin(client):
    client.create_topic("kafka-python-admin", 2)
    admin = client.admin()
    try:
        admin.create_topics({"kafka-python-admin": {"num_partitions": 2, "replication_factor": 1}})
    except TopicAlreadyExistsError:
        pass
    else:
        raise AssertionError("a topic was made twice")
    admin.create_partitions({"kafka-python-admin": 3})
    described = lambda: admin.describe_topics(["kafka-python-admin"])[0]
    Check.eventually(lambda: len(described()["partitions"]) == 3, "3 partitions")
    Check.equal(1, len(admin.describe_cluster()["brokers"]), "brokers")
    client.commit("kafka-python-admin", "kafka-python-admin", 0, 4)
    offsets = admin.list_group_offsets({"kafka-python-admin": None})["kafka-python-admin"]
    Check.equal(4, offsets[TopicPartition("kafka-python-admin", 0)].offset, "offset")
    admin.delete_groups(["kafka-python-admin"])
    admin.delete_topics(["kafka-python-admin"])
    Check.eventually(lambda: "kafka-python-admin" not in admin.list_topics(), "no topic")
    admin.close()


if __name__ == "__main__":
    main(
        KafkaPython,
        {
            **shared.SCENARIOS,
            "record-too-large": (60, record_too_large),
            "admin": (60, admin),
        },
    )
