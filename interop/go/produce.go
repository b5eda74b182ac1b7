package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func codecScenario(codec string) func(context.Context, *cluster) error {
	return func(ctx context.Context, c *cluster) error {
		topic := "go-produce-" + codec
		c.createTopic(ctx, topic, 2, nil)
		client := c.client(kgo.ProducerBatchCompression(codecs[codec]), kgo.DefaultProduceTopic(topic))
		defer client.Close()
		sent := map[string]string{}
		var records []*kgo.Record
		for i := range 1000 {
			key, value := fmt.Sprint("key ", i), strings.Repeat("text that compresses ", i%20)
			sent[key] = value
			records = append(records, kgo.KeyStringRecord(key, value))
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		for _, record := range c.read(ctx, topic, 1000) {
			equal(sent[string(record.Key)], string(record.Value), string(record.Key))
			delete(sent, string(record.Key))
		}
		equal(0, len(sent), "records that did not come back")
		return nil
	}
}

func nullsAndHeaders(ctx context.Context, c *cluster) error {
	c.createTopic(ctx, "go-nulls", 1, nil)
	client := c.client(kgo.DefaultProduceTopic("go-nulls"))
	defer client.Close()
	contents := [][]byte{nil, {}, {0}}
	headers := []kgo.RecordHeader{{Key: "twice", Value: []byte("1")}, {Key: "", Value: nil}, {Key: "twice", Value: []byte{}}}
	var records []*kgo.Record
	for i := range 9 {
		records = append(records, &kgo.Record{Key: contents[i/3], Value: contents[i%3], Headers: headers})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	for i, record := range c.read(ctx, "go-nulls", 9) {
		check(same(contents[i/3], record.Key), "key of record %d: %v", i, record.Key)
		check(same(contents[i%3], record.Value), "value of record %d: %v", i, record.Value)
		equal(3, len(record.Headers), "headers")
		for j, header := range record.Headers {
			equal(headers[j].Key, header.Key, "header's key")
			check(same(headers[j].Value, header.Value), "header %d: %v", j, header.Value)
		}
	}
	return nil
}

func recordTooLarge(ctx context.Context, c *cluster) error {
	limit := "1000"
	c.createTopic(ctx, "go-too-large", 1, map[string]*string{"max.message.bytes": &limit})
	client := c.client(kgo.DefaultProduceTopic("go-too-large"),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	large := bytes.Repeat([]byte{'x'}, 1000)
	err := client.ProduceSync(ctx, &kgo.Record{Value: large}).FirstErr()
	check(errors.Is(err, kerr.MessageTooLarge), "expected MESSAGE_TOO_LARGE, got %v", err)
	return client.ProduceSync(ctx, &kgo.Record{Value: large[:500]}).FirstErr()
}

func manySmallRecords(ctx context.Context, c *cluster) error {
	const count, partitions = 100_000, 8
	c.createTopic(ctx, "go-small", partitions, nil)
	client := c.client(kgo.DefaultProduceTopic("go-small"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	for i := range count {
		record := &kgo.Record{Partition: int32(i % partitions), Value: []byte(strconv.Itoa(i))}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				fmt.Println("cannot produce:", err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	for _, record := range c.read(ctx, "go-small", count) {
		value := must(strconv.Atoi(string(record.Value)))
		equal(record.Offset*partitions+int64(record.Partition), int64(value), "value")
	}
	return nil
}

func acksNoneAndLeader(ctx context.Context, c *cluster) error {
	c.createTopic(ctx, "go-acks", 1, nil)
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck()} {
		client := c.client(kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.DefaultProduceTopic("go-acks"))
		for range 50 {
			if err := client.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
				return err
			}
		}
		client.Close()
	}
	c.read(ctx, "go-acks", 100)
	return nil
}
