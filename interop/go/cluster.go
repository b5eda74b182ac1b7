package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster is the server under test.
type cluster struct{ bootstrap string }

// client is a client with the options of the test added.
func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.bootstrap)}, opts...)...))
}

// createTopic makes a topic and waits until the broker leads its partitions.
func (c *cluster) createTopic(ctx context.Context, name string, partitions int32, configs map[string]*string) {
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	response := must(admin.CreateTopic(ctx, partitions, 1, configs, name))
	check(response.Err == nil, "cannot create %s: %v", name, response.Err)
	for {
		ends := must(admin.ListEndOffsets(ctx, name))
		if ends.Error() == nil && len(ends[name]) == int(partitions) {
			return
		}
		check(ctx.Err() == nil, "no leaders of %s", name)
	}
}

// read reads a topic from its start until count records have come.
func (c *cluster) read(ctx context.Context, topic string, count int, opts ...kgo.Opt) []*kgo.Record {
	opts = append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	client := c.client(opts...)
	defer client.Close()
	return poll(ctx, client, count)
}

// poll polls until count records have come.
func poll(ctx context.Context, client *kgo.Client, count int) []*kgo.Record {
	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			panic(fmt.Sprintf("%d of %d records, then %s-%d: %v", len(records), count, topic, partition, err))
		})
		records = append(records, fetches.Records()...)
	}
	equal(count, len(records), "records")
	return records
}
