package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func offsetsByTime(ctx context.Context, c *cluster) error {
	c.createTopic(ctx, "go-by-time", 1, nil)
	client := c.client(kgo.DefaultProduceTopic("go-by-time"))
	defer client.Close()
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range 100 {
		record := &kgo.Record{Value: []byte{byte(i)}, Timestamp: start.Add(time.Duration(i) * time.Second)}
		client.Produce(ctx, record, nil)
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	admin := kadm.NewClient(client)
	for _, i := range []int64{0, 1, 50, 99} {
		found := must(admin.ListOffsetsAfterMilli(ctx, start.UnixMilli()+i*1000-500, "go-by-time"))
		offset, _ := found.Lookup("go-by-time", 0)
		equal(i, offset.Offset, "offset by time")
		equal(start.UnixMilli()+i*1000, offset.Timestamp, "timestamp")
	}
	after := kgo.NewOffset().AfterMilli(start.UnixMilli() + 89_500)
	reader := c.client(kgo.ConsumeTopics("go-by-time"), kgo.ConsumeResetOffset(after))
	defer reader.Close()
	equal(byte(90), poll(ctx, reader, 10)[0].Value[0], "first record after a time")
	return nil
}

func manualCommit(ctx context.Context, c *cluster) error {
	c.createTopic(ctx, "go-commit", 1, nil)
	producer := c.client(kgo.DefaultProduceTopic("go-commit"))
	defer producer.Close()
	for range 20 {
		producer.Produce(ctx, kgo.StringRecord("v"), nil)
	}
	if err := producer.Flush(ctx); err != nil {
		return err
	}
	member := func() *kgo.Client {
		return c.client(kgo.ConsumerGroup("go-commit"), kgo.ConsumeTopics("go-commit"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	first := member()
	records := poll(ctx, first, 20)
	if err := first.CommitRecords(ctx, records[11]); err != nil {
		return err
	}
	first.Close()
	second := member()
	defer second.Close()
	equal(int64(12), poll(ctx, second, 8)[0].Offset, "first record after the commit")
	return nil
}

func deleteRecords(ctx context.Context, c *cluster) error {
	c.createTopic(ctx, "go-trimmed", 1, nil)
	client := c.client(kgo.DefaultProduceTopic("go-trimmed"))
	defer client.Close()
	for range 10 {
		if err := client.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
			return err
		}
	}
	admin := kadm.NewClient(client)
	var offsets kadm.Offsets
	offsets.AddOffset("go-trimmed", 0, 4, -1)
	deleted := must(admin.DeleteRecords(ctx, offsets))
	equal(int64(4), deleted["go-trimmed"][0].LowWatermark, "low watermark")
	equal(int64(4), c.read(ctx, "go-trimmed", 6)[0].Offset, "first record")
	return nil
}

// groupScenario has members join and leave while records come; each record must be delivered.
func groupScenario(balancer string) func(context.Context, *cluster) error {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	return func(ctx context.Context, c *cluster) error {
		topic := "go-group-" + balancer
		c.createTopic(ctx, topic, 6, nil)
		seen := &seenRecords{values: map[string]bool{}}
		stop := make(chan struct{})
		written := make(chan int)
		go func() { written <- writeUntil(ctx, c, topic, stop) }()
		members := []*groupMember{}
		join := func() {
			members = append(members, startMember(ctx, c, topic, balancers[balancer], seen))
			awaitEvenShares(ctx, members, 6)
		}
		leave := func() {
			members[0].leave()
			members = members[1:]
			awaitEvenShares(ctx, members, 6)
		}
		for _, step := range []func(){join, join, join, leave, leave, join} {
			step()
		}
		close(stop)
		count := <-written
		for seen.count() < count {
			check(ctx.Err() == nil, "only %d of %d records were delivered", seen.count(), count)
			time.Sleep(20 * time.Millisecond)
		}
		for _, member := range members {
			member.leave()
		}
		return nil
	}
}

func writeUntil(ctx context.Context, c *cluster, topic string, stop chan struct{}) int {
	client := c.client(kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer client.Close()
	for i := 0; ; i++ {
		select {
		case <-stop:
			check(client.Flush(ctx) == nil, "cannot flush")
			return i
		case <-time.After(time.Millisecond):
			client.Produce(ctx, kgo.StringRecord(fmt.Sprint(i)), nil)
		}
	}
}

type seenRecords struct {
	lock   sync.Mutex
	values map[string]bool
}

func (s *seenRecords) add(records []*kgo.Record) {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, record := range records {
		s.values[string(record.Value)] = true
	}
}

func (s *seenRecords) count() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return len(s.values)
}

type groupMember struct {
	client *kgo.Client
	owned  atomic.Int32
	done   chan struct{}
}

func startMember(ctx context.Context, c *cluster, topic string, balancer kgo.GroupBalancer, seen *seenRecords) *groupMember {
	member := &groupMember{done: make(chan struct{})}
	count := func(sign int32) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.owned.Add(sign * int32(len(partitions[topic])))
		}
	}
	member.client = c.client(kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.Balancers(balancer),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1)))
	go func() {
		defer close(member.done)
		for {
			fetches := member.client.PollFetches(ctx)
			if fetches.IsClientClosed() || errors.Is(fetches.Err0(), context.DeadlineExceeded) {
				return
			}
			seen.add(fetches.Records())
		}
	}()
	return member
}

func (m *groupMember) leave() {
	m.client.Close()
	<-m.done
}

func awaitEvenShares(ctx context.Context, members []*groupMember, partitions int) {
	for {
		even := true
		for _, member := range members {
			even = even && int(member.owned.Load()) == partitions/len(members)
		}
		if even {
			return
		}
		check(ctx.Err() == nil, "%d members do not share the partitions evenly", len(members))
		time.Sleep(10 * time.Millisecond)
	}
}

func regexSubscription(ctx context.Context, c *cluster) error {
	client := c.client(kgo.ConsumerGroup("go-regex"), kgo.ConsumeRegex(), kgo.ConsumeTopics("^go-regex-[ab]$"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(200*time.Millisecond))
	defer client.Close()
	for _, name := range []string{"go-regex-a", "go-regex-b", "go-regex-c"} {
		c.createTopic(ctx, name, 1, nil)
		producer := c.client(kgo.DefaultProduceTopic(name))
		if err := producer.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
			return err
		}
		producer.Close()
	}
	poll(ctx, client, 2)
	return nil
}
