//! Operators of one record at a time.

use super::{Example, stream, write};
use riverrun_streams::dsl::{Branched, KStream, Materialized, Printed, Repartitioned};
use riverrun_streams::topology::{Consumed, Produced};
use std::sync::Arc;

pub(crate) const EXAMPLES: &[&[Example]] = &[OF_VALUES, OF_KEYS, OF_FALLIBLE, OF_NAMES, OF_TOPICS];

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
        operator: "split (with_function, with_consumer)",
        build: |b| {
            let shout = |small: KStream<String, String>| small.map_values(|v| v.to_uppercase());
            let branches = stream(b, "in")
                .split_named("size-")
                .branch(
                    |_, value| value.len() < 3,
                    Branched::with_function(shout).with_name("small"),
                )
                .branch(
                    |_, value| value.len() < 6,
                    Branched::with_consumer(|large| large.to("out")),
                )
                .no_default_branch();
            branches["size-small"].to("out");
        },
        ran: &[
            "in a ox 0 -> a=OX@0",
            "in a horse 1 -> a=horse@1",
            "in a elephant 2 ->",
        ],
    },
    Example {
        operator: "split (without names)",
        build: |b| {
            let small = Branched::with_consumer(|small: KStream<String, String>| small.to("out"));
            let _branches = stream(b, "in")
                .split()
                .branch(|_, value| value.len() < 3, small)
                .no_default_branch();
        },
        ran: &["in a ox 0 -> a=ox@0", "in a horse 1 ->"],
    },
    Example {
        operator: "repartition",
        // Operators that need a topic of the application's own make it themselves.
        build: |b| {
            stream(b, "in")
                .select_key(|_, value| value.clone())
                .repartition()
                .to("out");
        },
        ran: &["in a x 0 -> x=x@0"],
    },
    Example {
        operator: "repartition_with",
        // The topic has three partitions, whatever the input has.
        build: |b| {
            stream(b, "in")
                .select_key(|_, value| value.clone())
                .repartition_with(Repartitioned::named("by-value").with_number_of_partitions(3))
                .to("out");
        },
        ran: &["in a x 0 -> x=x@0"],
    },
];

/// A function that fails asks the processing handler; the default ends the application.
const OF_FALLIBLE: &[Example] = &[
    Example {
        operator: "try_map_values",
        build: |b| {
            stream(b, "in")
                .try_map_values(|_, value| number(value).map(|number| (number + 1).to_string()))
                .to("out");
        },
        ran: &["in a 41 0 -> a=42@0"],
    },
    Example {
        operator: "try_filter",
        build: |b| {
            stream(b, "in")
                .try_filter(|_, value| number(value).map(|number| number > 2))
                .to("out");
        },
        ran: &["in a 3 0 -> a=3@0", "in a 1 1 ->"],
    },
    Example {
        operator: "try_map",
        build: |b| {
            stream(b, "in")
                .try_map(|key, value| number(value).map(|number| (number.to_string(), key.clone())))
                .to("out");
        },
        ran: &["in a 07 0 -> 7=a@0"],
    },
    Example {
        operator: "try_select_key",
        build: |b| {
            stream(b, "in")
                .try_select_key(|_, value| number(value).map(|number| number.to_string()))
                .to("out");
        },
        ran: &["in a 07 0 -> 7=07@0"],
    },
    Example {
        operator: "try_flat_map",
        build: |b| {
            let both = |key: &String, number: i64| {
                [number, -number].map(|number| (key.clone(), number.to_string()))
            };
            stream(b, "in")
                .try_flat_map(move |key, value| number(value).map(|number| both(key, number)))
                .to("out");
        },
        ran: &["in a 1 0 -> a=1@0 a=-1@0"],
    },
    Example {
        operator: "try_flat_map_values",
        build: |b| {
            let both = |number: i64| [number, -number].map(|number| number.to_string());
            stream(b, "in")
                .try_flat_map_values(move |_, value| number(value).map(both))
                .to("out");
        },
        ran: &["in a 1 0 -> a=1@0 a=-1@0"],
    },
    Example {
        operator: "try_for_each",
        build: |b| stream(b, "in").try_for_each(|_, value| number(value).map(drop)),
        ran: &["in a 1 0 ->"],
    },
];

/// A node has the name that the application gives it: in `describe()`, in errors and in metrics.
const OF_NAMES: &[Example] = &[
    Example {
        operator: "filter_named, filter_not_named",
        build: |b| {
            stream(b, "in")
                .filter_named("long", |_, value| value.len() > 1)
                .filter_not_named("not-b", |key, _| key == "b")
                .to("out");
        },
        ran: &["in a xy 0 -> a=xy@0", "in b xy 1 ->", "in a x 2 ->"],
    },
    Example {
        operator: "map_named, map_values_named, select_key_named",
        build: |b| {
            stream(b, "in")
                .map_named("swap", |key, value| (value.clone(), key.clone()))
                .map_values_named("shout", |_, value| value.to_uppercase())
                .select_key_named("back", |_, value| value.to_lowercase())
                .to("out");
        },
        ran: &["in a x 0 -> a=A@0"],
    },
    Example {
        operator: "flat_map_named, flat_map_values_named",
        build: |b| {
            stream(b, "in")
                .flat_map_named("once", |key, value| [(key.clone(), value.clone())])
                .flat_map_values_named("twice", |_, value| [value.clone(), value.clone()])
                .to("out");
        },
        ran: &["in a x 0 -> a=x@0 a=x@0"],
    },
    Example {
        operator: "merge_named, peek_named, for_each_named",
        build: |b| {
            let merged = stream(b, "one").merge_named(&stream(b, "two"), "both");
            merged
                .peek_named("seen", |key, _| assert!(!key.is_empty()))
                .to("out");
            merged.for_each_named("done", |key, _| assert!(!key.is_empty()));
        },
        ran: &["one a x 0 -> a=x@0", "two a y 1 -> a=y@1"],
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
        operator: "stream_pattern",
        // Topics that are made later come by a rebalance.
        build: |b| {
            let all = b.stream_pattern::<String, String>("in-[0-9]+", Consumed::default());
            all.to("out");
        },
        ran: &["in-1 a x 0 -> a=x@0", "in-22 a y 1 -> a=y@1"],
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
        operator: "to_extracted_as",
        // As `to_extracted`; `describe()` shows this name.
        build: |b| {
            let topic = Arc::new(|_: &String, value: &String, _: &_| value.clone());
            stream(b, "in").to_extracted_as("by value", topic, Produced::default());
        },
        ran: &["in a out 0 -> a=out@0"],
    },
    Example {
        operator: "to_table",
        build: |b| write(&stream(b, "in").to_table::<String, String>()),
        ran: &["in a x 0 -> a=x@0", "in a y 1 -> a=y@1"],
    },
    Example {
        operator: "to_table_with",
        build: |b| {
            let kept = Materialized::named("kept");
            write(&stream(b, "in").to_table_with::<String, String>(kept));
        },
        ran: &["in a x 0 -> a=x@0"],
    },
];

fn number(text: &str) -> Result<i64, std::num::ParseIntError> {
    text.parse()
}
