"""Scenarios of librdkafka through confluent-kafka."""

import time

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from confluent_kafka.admin import AlterConfigOpType, OffsetSpec

import shared
from records import Record
from runner import Check, main


class Confluent:
    """The adapter that `shared` describes."""

    name = "confluent"
    sends_every_null = True
    fenced = KafkaException

    def __init__(self, bootstrap):
        self.settings = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.settings)

    def create_topic(self, name, partitions, configs=None):
        topic = NewTopic(name, partitions, 1, config=configs or {})
        for created in self.admin.create_topics([topic]).values():
            created.result()
        ends = {TopicPartition(name, p): OffsetSpec.latest() for p in range(partitions)}
        Check.eventually(lambda: self.leads(ends), f"the broker leads {name}")

    def leads(self, partitions):
        """Metadata may name a leader that does not know yet."""
        try:
            for end in self.admin.list_offsets(partitions).values():
                end.result()
        except KafkaException:
            return False
        return True

    def produce(self, topic, records, codec="none", **settings):
        settings.setdefault("enable.idempotence", settings.get("acks") is None)
        producer = Producer(
            {**self.settings, **settings, "compression.type": codec, "linger.ms": 5}
        )
        failures = []

        def done(error, _):
            if error is not None:
                failures.append(error)

        for r in records:
            content = dict(key=r.key, value=r.value, headers=r.headers, timestamp=r.timestamp_ms)
            try:
                producer.produce(topic, partition=r.partition, on_delivery=done, **content)
            except BufferError:
                producer.flush()
                producer.produce(topic, partition=r.partition, on_delivery=done, **content)
        producer.flush()
        if failures:
            raise KafkaException(failures[0])

    def consumer(self, group, **settings):
        defaults = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer({**self.settings, **defaults, **settings})

    def read(self, topic, partitions, count):
        consumer = self.consumer("reads-alone", **{"fetch.wait.max.ms": 100})
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        records = []
        while len(records) < count:
            for message in consumer.consume(1000, timeout=0.2):
                Check.that(message.error() is None, str(message.error()))
                records.append(self.record(message))
        consumer.close()
        return records

    def read_committed(self, topic, count):
        # Reading committed records is the client's default.
        consumer = self.consumer("reads-committed", **{"fetch.wait.max.ms": 100})
        consumer.assign([TopicPartition(topic, 0, 0)])
        values, quiet_from = [], time.monotonic()
        while len(values) < count and time.monotonic() < quiet_from + shared.QUIET_S:
            for message in consumer.consume(1000, timeout=0.2):
                Check.that(message.error() is None, str(message.error()))
                values.append(message.value())
                quiet_from = time.monotonic()
        consumer.close()
        return values

    def end(self, fenced):
        # It does nothing more by itself.
        pass

    def transactional(self, transactional_id):
        return Transactional(self, transactional_id)

    @staticmethod
    def record(message):
        content = (message.key(), message.value(), message.headers() or [])
        return Record(message.partition(), message.offset(), message.timestamp()[1], *content)

    def offset_at(self, topic, partition, timestamp_ms):
        consumer = self.consumer("asks-for-times")
        found = consumer.offsets_for_times(
            [TopicPartition(topic, partition, timestamp_ms)], timeout=10
        )
        consumer.close()
        return found[0].offset

    def commit(self, group, topic, partition, offset):
        consumer = self.consumer(group)
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()

    def committed(self, group, topic, partition):
        consumer = self.consumer(group)
        found = consumer.committed([TopicPartition(topic, partition)], timeout=10)
        consumer.close()
        return None if found[0].offset < 0 else found[0].offset

    def member(self, group, topic, **settings):
        return Member(
            self.consumer(
                group, **{"enable.auto.commit": True, "heartbeat.interval.ms": 200, **settings}
            ),
            topic,
        )


class Member:
    def __init__(self, consumer, topic):
        self.consumer = consumer
        consumer.subscribe([topic])

    def poll(self):
        return [m.value() for m in self.consumer.consume(500, timeout=0.05) if m.error() is None]

    def owned(self):
        return len(self.consumer.assignment())

    def close(self):
        self.consumer.close()


class Transactional:
    """A transactional producer."""

    def __init__(self, client, transactional_id):
        self.client = client
        settings = {"transactional.id": transactional_id, "linger.ms": 0}
        self.producer = Producer({**client.settings, **settings})
        self.producer.init_transactions(30)

    def begin(self):
        self.producer.begin_transaction()

    def send(self, topic, value):
        failures = []

        def done(error, _):
            if error is not None:
                failures.append(error)

        self.producer.produce(topic, value, partition=0, on_delivery=done)
        self.producer.flush()
        if failures:
            raise KafkaException(failures[0])

    def offsets(self, group, topic, partition, offset):
        consumer = self.client.consumer(group)
        offsets = [TopicPartition(topic, partition, offset)]
        self.producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        consumer.close()

    def commit(self):
        self.producer.commit_transaction(30)

    def abort(self):
        self.producer.abort_transaction(30)

    def close(self):
        self.producer.flush()


def cooperative_group(client):
    class Cooperative(Confluent):
        name = "confluent-cooperative"

        def member(self, group, topic, **settings):
            return super().member(
                group, topic, **{"partition.assignment.strategy": "cooperative-sticky"}
            )

    cooperative = Cooperative(client.settings["bootstrap.servers"])
    shared.group(cooperative)


def record_too_large(client):
    client.create_topic("confluent-too-large", 1, {"max.message.bytes": "1000"})
    try:
        client.produce("confluent-too-large", shared.plain(1, value=lambda _: b"x" * 1000))
    except KafkaException as failure:
        Check.equal(KafkaError.MSG_SIZE_TOO_LARGE, failure.args[0].code(), "error")
    else:
        raise AssertionError("a record that is too large was taken")
    client.produce("confluent-too-large", shared.plain(1))


def topics(client):
    client.create_topic("confluent-topic", 2)
    admin = client.admin
    metadata = admin.list_topics(timeout=10)
    Check.equal(2, len(metadata.topics["confluent-topic"].partitions), "partitions")
    Check.equal(1, len(metadata.brokers), "brokers")
    admin.create_partitions([NewPartitions("confluent-topic", 4)])["confluent-topic"].result()
    Check.eventually(
        lambda: len(admin.list_topics("confluent-topic", 10).topics["confluent-topic"].partitions)
        == 4,
        "4 partitions",
    )
    admin.delete_topics(["confluent-topic"])["confluent-topic"].result()
    Check.eventually(
        lambda: "confluent-topic" not in admin.list_topics(timeout=10).topics, "no topic"
    )
    cluster = admin.describe_cluster().result()
    Check.equal(1, cluster.controller.id, "controller")


def configs(client):
    client.create_topic("confluent-configs", 1)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "confluent-configs")
    described = client.admin.describe_configs([resource])[resource].result()
    Check.equal("604800000", described["retention.ms"].value, "retention.ms")
    change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    altered = ConfigResource(
        ConfigResource.Type.TOPIC, "confluent-configs", incremental_configs=[change]
    )
    client.admin.incremental_alter_configs([altered])[altered].result()
    value = (
        lambda: client.admin.describe_configs([resource])[resource].result()["retention.ms"].value
    )
    Check.eventually(lambda: value() == "5000", "retention.ms=5000")


def groups(client):
    client.create_topic("confluent-groups", 1)
    client.commit("confluent-groups", "confluent-groups", 0, 3)
    admin = client.admin
    listed = [g.group_id for g in admin.list_consumer_groups().result().valid]
    Check.that("confluent-groups" in listed, f"listed groups: {listed}")
    described = admin.describe_consumer_groups(["confluent-groups"])["confluent-groups"].result()
    Check.equal("EMPTY", described.state.name, "state")
    asked = [confluent_kafka.ConsumerGroupTopicPartitions("confluent-groups")]
    offsets = admin.list_consumer_group_offsets(asked)["confluent-groups"].result()
    Check.equal(3, offsets.topic_partitions[0].offset, "offset")
    admin.delete_consumer_groups(["confluent-groups"])["confluent-groups"].result()
    listed = [g.group_id for g in admin.list_consumer_groups().result().valid]
    Check.that("confluent-groups" not in listed, f"listed groups: {listed}")


def delete_records(client):
    client.create_topic("confluent-trimmed", 1)
    for _ in range(5):
        client.produce("confluent-trimmed", shared.plain(1))
    partition = TopicPartition("confluent-trimmed", 0, 3)
    low = client.admin.delete_records([partition])[partition].result().low_watermark
    Check.equal(3, low, "low watermark")


if __name__ == "__main__":
    main(
        Confluent,
        {
            **shared.SCENARIOS,
            "group-cooperative": (90, cooperative_group),
            "record-too-large": (60, record_too_large),
            "topics": (60, topics),
            "configs": (60, configs),
            "groups": (60, groups),
            "delete-records": (60, delete_records),
        },
    )
