package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// A scenario fails by returning an error or by panicking.
type scenario struct {
	name  string
	limit time.Duration
	body  func(context.Context, *cluster) error
}

var scenarios = []scenario{
	{"produce-none", time.Minute, codecScenario("none")},
	{"produce-gzip", time.Minute, codecScenario("gzip")},
	{"produce-snappy", time.Minute, codecScenario("snappy")},
	{"produce-lz4", time.Minute, codecScenario("lz4")},
	{"produce-zstd", time.Minute, codecScenario("zstd")},
	{"nulls-and-headers", time.Minute, nullsAndHeaders},
	{"record-too-large", time.Minute, recordTooLarge},
	{"100000-small-records", 2 * time.Minute, manySmallRecords},
	{"acks-none-and-leader", time.Minute, acksNoneAndLeader},
	{"offsets-by-time", time.Minute, offsetsByTime},
	{"manual-commit", time.Minute, manualCommit},
	{"delete-records", time.Minute, deleteRecords},
	{"group-range", 90 * time.Second, groupScenario("range")},
	{"group-cooperative-sticky", 90 * time.Second, groupScenario("cooperative-sticky")},
	{"regex-subscription", time.Minute, regexSubscription},
	{"topics", time.Minute, topics},
	{"configs", time.Minute, configs},
	{"groups", time.Minute, groups},
}

func list() {
	for _, s := range scenarios {
		fmt.Println(s.name, int(s.limit.Seconds()))
	}
}

func run(bootstrap string, names []string) {
	for _, name := range names {
		for _, s := range scenarios {
			if s.name == name {
				runOne(bootstrap, s)
			}
		}
	}
}

func runOne(bootstrap string, s scenario) {
	fmt.Println("start", s.name)
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	if err := guarded(ctx, s, &cluster{bootstrap}); err != nil {
		reason := strings.NewReplacer("\t", "    ", "\n", "\t").Replace(err.Error())
		fmt.Printf("FAILED %s: %s\n", s.name, reason)
		return
	}
	fmt.Println("ok", s.name)
}

func guarded(ctx context.Context, s scenario, c *cluster) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", s.name, panicked, debug.Stack())
			err = fmt.Errorf("%v", panicked)
		}
	}()
	return s.body(ctx, c)
}

// check panics unless the condition holds.
func check(condition bool, format string, values ...any) {
	if !condition {
		panic(fmt.Sprintf(format, values...))
	}
}

// must returns the value or panics with the error.
func must[T any](value T, err error) T {
	check(err == nil, "%v", err)
	return value
}

// equal panics unless both are equal.
func equal[T comparable](expected, actual T, what string) {
	check(expected == actual, "%s: expected %v, got %v", what, expected, actual)
}
