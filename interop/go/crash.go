package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	crashTopic      = "crash"
	crashPartitions = 4
)

// crashProduce produces numbered records and commits a group's offset until standard input ends.
// What the server acknowledges becomes a line of the file before more is sent of the same kind:
// `record PARTITION OFFSET VALUE` or `commit OFFSET`.
func crashProduce(bootstrap, path string) error {
	ctx := context.Background()
	c := &cluster{bootstrap}
	c.createTopic(ctx, crashTopic, crashPartitions, nil)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	client := c.client(kgo.DefaultProduceTopic(crashTopic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.MaxBufferedRecords(2000), kgo.RecordDeliveryTimeout(5*time.Minute), kgo.AlwaysRetryEOF())
	defer client.Close()

	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	var lines sync.Mutex
	write := func(format string, values ...any) {
		lines.Lock()
		defer lines.Unlock()
		_ = must(fmt.Fprintf(file, format, values...))
	}
	committed := make(chan struct{})
	go func() {
		defer close(committed)
		commitUntil(ctx, c, stop, write)
	}()
	failed := make(chan error, 1)
	for i := 0; ; i++ {
		select {
		case <-stop:
			<-committed
			return client.Flush(ctx)
		case err := <-failed:
			return err
		default:
		}
		client.Produce(ctx, kgo.StringRecord(strconv.Itoa(i)), func(record *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- fmt.Errorf("a record failed: %w", err):
				default:
				}
				return
			}
			write("record %d %d %s\n", record.Partition, record.Offset, record.Value)
		})
	}
}

func commitUntil(ctx context.Context, c *cluster, stop chan struct{}, write func(string, ...any)) {
	client := c.client(kgo.AlwaysRetryEOF())
	defer client.Close()
	admin := kadm.NewClient(client)
	for offset := int64(1); ; offset++ {
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		var offsets kadm.Offsets
		offsets.AddOffset(crashTopic, 0, offset, -1)
		if response, err := admin.CommitOffsets(ctx, crashTopic, offsets); err == nil && response.Error() == nil {
			write("commit %d\n", offset)
		}
	}
}

// crashVerify checks that nothing acknowledged is missing, that every record is there once, and
// that each partition's records are in the order in which they were sent.
func crashVerify(bootstrap, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := &cluster{bootstrap}
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	ends := must(admin.ListEndOffsets(ctx, crashTopic))
	check(ends.Error() == nil, "no end offsets: %v", ends.Error())
	count := 0
	ends.Each(func(end kadm.ListedOffset) { count += int(end.Offset) })
	stored := map[string]string{}
	next := map[int32]int{}
	for _, record := range c.read(ctx, crashTopic, count) {
		stored[fmt.Sprint(record.Partition, " ", record.Offset)] = string(record.Value)
		value := must(strconv.Atoi(string(record.Value)))
		check(value >= next[record.Partition], "partition %d repeats or reorders %d", record.Partition, value)
		next[record.Partition] = value + 1
	}
	file := must(os.Open(path))
	defer file.Close()
	records, commits := 0, int64(0)
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var partition, offset int64
		var value string
		if n, _ := fmt.Sscanf(scanner.Text(), "record %d %d %s", &partition, &offset, &value); n == 3 {
			records++
			equal(value, stored[fmt.Sprint(partition, " ", offset)], "acknowledged record at "+scanner.Text())
		} else if n, _ := fmt.Sscanf(scanner.Text(), "commit %d", &offset); n == 1 {
			commits = max(commits, offset)
		}
	}
	check(records > 0 && commits > 0, "nothing was acknowledged")
	fetched := must(admin.FetchOffsets(ctx, crashTopic))
	committed, _ := fetched.Lookup(crashTopic, 0)
	check(committed.At >= commits, "offset %d was committed, %d is left", commits, committed.At)
	fmt.Println(records, "acknowledged records and commits up to", commits, "of", count, "records")
	return nil
}
