package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func topics(ctx context.Context, c *cluster) error {
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	created := must(admin.CreateTopic(ctx, 3, 1, nil, "go-topic"))
	check(created.Err == nil, "cannot create: %v", created.Err)
	_, err := admin.CreateTopic(ctx, 3, 1, nil, "go-topic")
	check(errors.Is(err, kerr.TopicAlreadyExists), "expected TOPIC_ALREADY_EXISTS, got %v", err)
	details := must(admin.ListTopics(ctx, "go-topic"))
	equal(3, len(details["go-topic"].Partitions), "partitions")
	equal(created.ID, details["go-topic"].ID, "topic id")
	check(must(admin.UpdatePartitions(ctx, 5, "go-topic")).Error() == nil, "cannot add partitions")
	for len(must(admin.ListTopics(ctx, "go-topic"))["go-topic"].Partitions) != 5 {
		check(ctx.Err() == nil, "no more partitions")
	}
	metadata := must(admin.Metadata(ctx))
	equal(1, len(metadata.Brokers), "brokers")
	equal(int32(1), metadata.Controller, "controller")
	check(must(admin.DeleteTopics(ctx, "go-topic")).Error() == nil, "cannot delete")
	for must(admin.ListTopics(ctx)).Has("go-topic") {
		check(ctx.Err() == nil, "the topic is still listed")
	}
	return nil
}

func configs(ctx context.Context, c *cluster) error {
	c.createTopic(ctx, "go-configs", 1, nil)
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	value := func() string {
		described := must(must(admin.DescribeTopicConfigs(ctx, "go-configs")).On("go-configs", nil))
		for _, config := range described.Configs {
			if config.Key == "retention.bytes" {
				return config.MaybeValue()
			}
		}
		return "absent"
	}
	equal("-1", value(), "retention.bytes by default")
	bytes := "12345"
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: &bytes}}
	must(must(admin.AlterTopicConfigs(ctx, change, "go-configs")).On("go-configs", nil))
	for value() != "12345" {
		check(ctx.Err() == nil, "retention.bytes does not change")
	}
	check(len(must(admin.DescribeBrokerConfigs(ctx, 1))[0].Configs) > 100, "the broker's configurations")
	return nil
}

func groups(ctx context.Context, c *cluster) error {
	c.createTopic(ctx, "go-groups", 2, nil)
	member := c.client(kgo.ConsumerGroup("go-groups"), kgo.ConsumeTopics("go-groups"))
	admin := kadm.NewClient(member)
	for must(admin.DescribeGroups(ctx, "go-groups"))["go-groups"].State != "Stable" {
		check(ctx.Err() == nil, "the group does not settle")
	}
	described := must(admin.DescribeGroups(ctx, "go-groups"))["go-groups"]
	equal("consumer", described.ProtocolType, "protocol type")
	equal("cooperative-sticky", described.Protocol, "protocol")
	equal(1, len(described.Members), "members")
	equal(2, len(described.AssignedPartitions()["go-groups"]), "partitions")
	var offsets kadm.Offsets
	offsets.AddOffset("go-groups", 1, 7, -1)
	refused := must(admin.CommitOffsets(ctx, "go-groups", offsets))
	check(refused.Error() != nil, "a commit from outside a group with members is refused")
	member.Close()

	client := c.client()
	defer client.Close()
	admin = kadm.NewClient(client)
	check(must(admin.CommitOffsets(ctx, "go-groups", offsets)).Error() == nil, "cannot commit")
	fetched := must(admin.FetchOffsets(ctx, "go-groups"))
	committed, _ := fetched.Lookup("go-groups", 1)
	equal(int64(7), committed.At, "committed offset")
	lag := must(admin.Lag(ctx, "go-groups"))["go-groups"]
	check(lag.Error() == nil, "lag: %v", lag.Error())
	check(must(admin.DeleteGroups(ctx, "go-groups")).Error() == nil, "cannot delete")
	_, listed := must(admin.ListGroups(ctx))["go-groups"]
	check(!listed, "the group is still listed")
	return nil
}
