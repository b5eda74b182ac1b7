package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"time"
)

// The records that every client writes and reads; interop/README.md defines them and their sum.

const (
	crossStartMs         = 1_700_000_000_000
	crossCodecRecords    = 1000
	crossCodecPartitions = 4
	crossSmallRecords    = 100_000
	crossSmallPartitions = 8
)

var crossKinds = []string{"none", "gzip", "snappy", "lz4", "zstd", "small"}

func crossSize(kind string) (records int, partitions int32) {
	if kind == "small" {
		return crossSmallRecords, crossSmallPartitions
	}
	return crossCodecRecords, crossCodecPartitions
}

func crossRecord(kind string, topic string, i int) *kgo.Record {
	_, partitions := crossSize(kind)
	record := &kgo.Record{
		Topic:     topic,
		Partition: int32(i) % partitions,
		Timestamp: time.UnixMilli(crossStartMs + int64(i)),
		Value:     []byte(strconv.Itoa(i)),
	}
	if kind == "small" {
		return record
	}
	if i%3 != 0 || i%5 == 0 {
		record.Key = []byte("key-" + strconv.Itoa(i))
	}
	if i%5 == 0 {
		record.Value = nil
	} else {
		record.Value = []byte(strings.Repeat("value-"+strconv.Itoa(i)+";", i%50))
	}
	for h := range i % 4 {
		header := kgo.RecordHeader{Key: "header-" + strconv.Itoa(h), Value: []byte{}}
		if h != 1 {
			header.Value = []byte(strconv.Itoa(i * h))
		}
		record.Headers = append(record.Headers, header)
	}
	return record
}

func crossWrite(bootstrap, writer string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := &cluster{bootstrap}
	forever := "-1"
	for _, kind := range crossKinds {
		topic := "cross-" + writer + "-" + kind
		count, partitions := crossSize(kind)
		c.createTopic(ctx, topic, partitions, map[string]*string{"retention.ms": &forever})
		codec, compressed := codecs[kind]
		if !compressed {
			codec = kgo.NoCompression()
		}
		client := c.client(kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		records := make([]*kgo.Record, count)
		for i := range records {
			records[i] = crossRecord(kind, topic, i)
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		client.Close()
		fmt.Println(topic, count, crossSum(records))
	}
	return nil
}

func crossRead(bootstrap, writer string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := &cluster{bootstrap}
	for _, kind := range crossKinds {
		topic := "cross-" + writer + "-" + kind
		count, _ := crossSize(kind)
		records := c.read(ctx, topic, count)
		fmt.Println(topic, len(records), crossSum(records))
	}
	return nil
}

func crossSum(records []*kgo.Record) string {
	sort.Slice(records, func(a, b int) bool {
		if records[a].Partition != records[b].Partition {
			return records[a].Partition < records[b].Partition
		}
		return records[a].Offset < records[b].Offset
	})
	sum := sha256.New()
	for _, record := range records {
		number(sum, 4, int64(record.Partition))
		number(sum, 8, record.Offset)
		number(sum, 8, record.Timestamp.UnixMilli())
		bytesOrNull(sum, record.Key)
		bytesOrNull(sum, record.Value)
		number(sum, 4, int64(len(record.Headers)))
		for _, header := range record.Headers {
			bytesOrNull(sum, []byte(header.Key))
			bytesOrNull(sum, header.Value)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func number(sum hash.Hash, size int, value int64) {
	var bytes [8]byte
	binary.BigEndian.PutUint64(bytes[:], uint64(value))
	sum.Write(bytes[8-size:])
}

func bytesOrNull(sum hash.Hash, value []byte) {
	if value == nil {
		number(sum, 4, -1)
		return
	}
	number(sum, 4, int64(len(value)))
	sum.Write(value)
}
