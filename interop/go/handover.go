package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// handoverWrite leaves a state that is more than records: topics with configurations, one with more
// partitions than it was made with, one deleted, and a group's offsets.
func handoverWrite(bootstrap, writer string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := &cluster{bootstrap}
	retention, policy := "123456789", "compact"
	prefix := "handover-" + writer
	c.createTopic(ctx, prefix+"-kept", 3, map[string]*string{"retention.ms": &retention, "cleanup.policy": &policy})
	c.createTopic(ctx, prefix+"-deleted", 1, nil)
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	check(must(admin.UpdatePartitions(ctx, 5, prefix+"-kept")).Error() == nil, "cannot add partitions")
	check(must(admin.DeleteTopics(ctx, prefix+"-deleted")).Error() == nil, "cannot delete")
	var offsets kadm.Offsets
	offsets.AddOffset(prefix+"-kept", 0, 7, -1)
	offsets.AddOffset(prefix+"-kept", 2, 9, -1)
	check(must(admin.CommitOffsets(ctx, prefix, offsets)).Error() == nil, "cannot commit")
	for len(must(admin.ListTopics(ctx, prefix+"-kept"))[prefix+"-kept"].Partitions) != 5 {
		check(ctx.Err() == nil, "no more partitions")
	}
	return nil
}

// handoverShow prints every topic with its id, partitions, ends and changed configurations, and
// every group with its offsets.
func handoverShow(bootstrap string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := (&cluster{bootstrap}).client()
	defer client.Close()
	admin := kadm.NewClient(client)
	metadata := must(admin.Metadata(ctx))
	lines := []string{"cluster " + metadata.Cluster}
	ends := must(admin.ListEndOffsets(ctx))
	for _, topic := range must(admin.ListTopics(ctx)).Sorted() {
		described := must(must(admin.DescribeTopicConfigs(ctx, topic.Topic)).On(topic.Topic, nil))
		changed := []string{}
		for _, config := range described.Configs {
			if config.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
				changed = append(changed, config.Key+"="+config.MaybeValue())
			}
		}
		sort.Strings(changed)
		lines = append(lines, fmt.Sprint("topic ", topic.Topic, " ", topic.ID, " ", strings.Join(changed, ",")))
		for _, partition := range topic.Partitions.Sorted() {
			end := ends[topic.Topic][partition.Partition]
			check(end.Err == nil, "no end of %s-%d: %v", topic.Topic, partition.Partition, end.Err)
			lines = append(lines, fmt.Sprint("  ", partition.Partition, " ", partition.Replicas, " ", end.Offset))
		}
	}
	for _, group := range must(admin.ListGroups(ctx)).Sorted() {
		for _, offset := range must(admin.FetchOffsets(ctx, group.Group)).Sorted() {
			lines = append(lines, fmt.Sprint("group ", group.Group, " ", offset.Topic, " ", offset.Partition, " ", offset.At))
		}
	}
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}
