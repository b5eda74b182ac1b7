//! Operators of one record at a time.

use super::{Example, stream, write};
use riverrun_streams::dsl::{Branched, Printed, Repartitioned};
use riverrun_streams::topology::{Consumed, Produced};
use std::sync::Arc;

pub(crate) const EXAMPLES: &[&[Example]] = &[OF_VALUES, OF_KEYS, OF_TOPICS];

const OF_VALUES: &[Example] = &[
    Example {
        operator: "filter",
        build: |b| stream(b, "in").filter(|_, value| value.len() > 2).to("out"),
        ran: &["in a cat 0 -> a=cat@0", "in a ox 1 ->"],
    },
    Example {
        operator: "filter_not",
        build: |b| stream(b, "in").filter_not(|key, _| key == "a").to("out"),
        ran: &["in a x 0 ->", "in b x 1 -> b=x@1"],
    },
    Example {
        operator: "map_values",
        build: |b| {
            stream(b, "in")
                .map_values(|value| value.to_uppercase())
                .to("out")
        },
        // Time and headers stay.
        ran: &["in a x 5 p -> a=X@5[h=p]"],
    },
    Example {
        operator: "map_values_with_key",
        build: |b| {
            stream(b, "in")
                .map_values_with_key(|key, value| format!("{key}/{value}"))
                .to("out")
        },
        ran: &["in a x 0 -> a=a/x@0"],
    },
    Example {
        operator: "try_map_values",
        // A function that fails asks the processing handler; the default ends the application.
        build: |b| {
            stream(b, "in")
                .try_map_values(|_, value| {
                    value.parse::<i64>().map(|number| (number + 1).to_string())
                })
                .to("out");
        },
        ran: &["in a 41 0 -> a=42@0"],
    },
    Example {
        operator: "flat_map_values",
        build: |b| {
            stream(b, "in")
                .flat_map_values(|line| line.split('-').map(str::to_owned).collect::<Vec<_>>())
                .to("out");
        },
        ran: &["in a to-be 3 -> a=to@3 a=be@3"],
    },
    Example {
        operator: "flat_map_values_with_key",
        build: |b| {
            stream(b, "in")
                .flat_map_values_with_key(|key, value| [value.clone(), key.clone()])
                .to("out");
        },
        ran: &["in a x 0 -> a=x@0 a=a@0"],
    },
    Example {
        operator: "peek",
        build: |b| {
            stream(b, "in")
                .peek(|key, value| assert!(!key.is_empty() && !value.is_empty()))
                .to("out");
        },
        ran: &["in a x 0 -> a=x@0"],
    },
    Example {
        operator: "for_each",
        build: |b| stream(b, "in").for_each(|key, _| assert_eq!(key, "a")),
        ran: &["in a x 0 ->"],
    },
    Example {
        operator: "print",
        build: |b| {
            let shown = Printed::to(|_| ()).with_label("seen");
            stream(b, "in").print(shown);
        },
        ran: &["in a x 0 ->"],
    },
];

const OF_KEYS: &[Example] = &[
    Example {
        operator: "map",
        build: |b| {
            stream(b, "in")
                .map(|key, value| (value.clone(), key.clone()))
                .to("out")
        },
        ran: &["in a x 0 -> x=a@0"],
    },
    Example {
        operator: "flat_map",
        build: |b| {
            stream(b, "in")
                .flat_map(|key, value| [(key.clone(), value.clone()), (value.clone(), key.clone())])
                .to("out");
        },
        ran: &["in a x 0 -> a=x@0 x=a@0"],
    },
    Example {
        operator: "select_key",
        build: |b| {
            stream(b, "in")
                .select_key(|_, value| value[..1].to_owned())
                .to("out")
        },
        ran: &["in a xy 0 -> x=xy@0"],
    },
    Example {
        operator: "merge",
        build: |b| stream(b, "one").merge(&stream(b, "two")).to("out"),
        ran: &["one a x 0 -> a=x@0", "two a y 1 -> a=y@1"],
    },
    Example {
        operator: "split",
        build: |b| {
            let branches = stream(b, "in")
                .split_named("size-")
                .branch(|_, value| value.len() < 3, Branched::named("small"))
                .default_branch(Branched::named("large"));
            branches["size-small"]
                .map_values(|_| "small".to_owned())
                .to("out");
            branches["size-large"]
                .map_values(|_| "large".to_owned())
                .to("out");
        },
        ran: &["in a ox 0 -> a=small@0", "in a horse 1 -> a=large@1"],
    },
    Example {
        operator: "repartition",
        // A topic of the application's own, by the key as it is now. Operators that need one make it themselves.
        build: |b| {
            stream(b, "in")
                .select_key(|_, value| value.clone())
                .repartition_with(Repartitioned::named("by-value").with_number_of_partitions(3))
                .to("out");
        },
        ran: &["in a x 0 -> x=x@0"],
    },
];

const OF_TOPICS: &[Example] = &[
    Example {
        operator: "stream_with",
        build: |b| {
            let both =
                b.stream_with::<String, String>(&["one", "two"], Consumed::default().named("both"));
            both.to("out");
        },
        ran: &["one a x 0 -> a=x@0", "two a y 1 -> a=y@1"],
    },
    Example {
        operator: "to_with",
        build: |b| stream(b, "in").to_with("out", Produced::default().named("results")),
        ran: &["in a x 0 -> a=x@0"],
    },
    Example {
        operator: "to_extracted",
        // The topic is the record's value; only `out` is shown.
        build: |b| {
            let topic = Arc::new(|_: &String, value: &String, _: &_| value.clone());
            stream(b, "in").to_extracted(topic, Produced::default());
        },
        ran: &["in a elsewhere 0 ->", "in a out 1 -> a=out@1"],
    },
    Example {
        operator: "to_table",
        build: |b| write(&stream(b, "in").to_table::<String, String>()),
        ran: &["in a x 0 -> a=x@0", "in a y 1 -> a=y@1"],
    },
];
