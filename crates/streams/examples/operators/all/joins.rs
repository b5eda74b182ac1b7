//! Joins: of streams within a time, of a stream with tables, and of tables by key and by foreign key.

use super::{Example, stream, table, write};
use riverrun_streams::dsl::{JoinWindows, Joined, Materialized, Named, StreamJoined, TableJoined};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::topology::Consumed;

pub(crate) const EXAMPLES: &[&[Example]] = &[
    OF_STREAMS,
    OF_STREAMS_NAMED,
    OF_STREAM_AND_TABLE,
    OF_STREAM_AND_GLOBAL_TABLE,
    OF_TABLES,
    OF_TABLES_KEPT,
];

const WINDOWS: JoinWindows = JoinWindows::of_time_difference_with_no_grace(10);

fn both(left: Option<&String>, right: Option<&String>) -> String {
    let shown = |side: Option<&String>| side.map_or("-", String::as_str).to_owned();
    shown(left) + "+" + &shown(right)
}

const OF_STREAMS: &[Example] = &[
    Example {
        operator: "join (two streams)",
        build: |b| {
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            left.join(&right, |l, r| format!("{l}+{r}"), WINDOWS)
                .to("out");
        },
        ran: &[
            "left a x 0 ->",
            "right a y 10 -> a=x+y@10",
            "right a z 11 ->",
        ],
    },
    Example {
        operator: "left_join (two streams)",
        build: |b| {
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            left.left_join(&right, |l, r| both(Some(l), r), WINDOWS)
                .to("out");
        },
        // That there is no partner is known when the window has passed.
        ran: &["left a x 0 ->", "left b y 20 -> a=x+-@0"],
    },
    Example {
        operator: "outer_join (two streams)",
        build: |b| {
            stream(b, "left")
                .outer_join(&stream(b, "right"), both, WINDOWS)
                .to("out")
        },
        ran: &["right a x 0 ->", "left b y 20 -> a=-+x@0"],
    },
];

/// With names, serdes and stores of the application's own; those with `_key` make the result of the key too.
const OF_STREAMS_NAMED: &[Example] = &[
    Example {
        operator: "join_with (two streams)",
        build: |b| {
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            let joined = StreamJoined::named("pairs").with_store_name("waiting");
            left.join_with(&right, |l, r| format!("{l}+{r}"), WINDOWS, joined)
                .to("out");
        },
        ran: &["left a x 0 ->", "right a y 10 -> a=x+y@10"],
    },
    Example {
        operator: "join_with_key (two streams)",
        build: |b| {
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            let joined = StreamJoined::named("pairs");
            left.join_with_key(
                &right,
                |key, l, r| format!("{key}:{l}+{r}"),
                WINDOWS,
                joined,
            )
            .to("out");
        },
        ran: &["left a x 0 ->", "right a y 10 -> a=a:x+y@10"],
    },
    Example {
        operator: "left_join_with (two streams)",
        build: |b| {
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            let joined = StreamJoined::named("pairs");
            left.left_join_with(&right, |l, r| both(Some(l), r), WINDOWS, joined)
                .to("out");
        },
        ran: &["left a x 0 ->", "left b y 20 -> a=x+-@0"],
    },
    Example {
        operator: "left_join_with_key (two streams)",
        build: |b| {
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            let joined = StreamJoined::default();
            let pair =
                |key: &String, l: &String, r: Option<&String>| key.clone() + &both(Some(l), r);
            left.left_join_with_key(&right, pair, WINDOWS, joined)
                .to("out");
        },
        ran: &["left a x 0 ->", "left b y 20 -> a=ax+-@0"],
    },
    Example {
        operator: "outer_join_with (two streams)",
        build: |b| {
            let joined = StreamJoined::named("pairs");
            stream(b, "left")
                .outer_join_with(&stream(b, "right"), both, WINDOWS, joined)
                .to("out");
        },
        ran: &["right a x 0 ->", "left b y 20 -> a=-+x@0"],
    },
    Example {
        operator: "outer_join_with_key (two streams)",
        build: |b| {
            let joined = StreamJoined::default();
            let pair =
                |key: &String, l: Option<&String>, r: Option<&String>| key.clone() + &both(l, r);
            stream(b, "left")
                .outer_join_with_key(&stream(b, "right"), pair, WINDOWS, joined)
                .to("out");
        },
        ran: &["right a x 0 ->", "left b y 20 -> a=a-+x@0"],
    },
];

const OF_STREAM_AND_TABLE: &[Example] = &[
    Example {
        operator: "join_table",
        build: |b| {
            let users = table(b, "users");
            stream(b, "clicks")
                .join_table(&users, |click, user| format!("{click}-{user}"))
                .to("out");
        },
        ran: &[
            "clicks a x 0 ->",
            "users a anna 1 ->",
            "clicks a y 2 -> a=y-anna@2",
        ],
    },
    Example {
        operator: "left_join_table",
        build: |b| {
            let users = table(b, "users");
            stream(b, "clicks")
                .left_join_table(&users, |click, user| both(Some(click), user))
                .to("out");
        },
        ran: &["clicks a x 0 -> a=x+-@0"],
    },
    Example {
        operator: "join_table_with",
        build: |b| {
            let users = table(b, "users");
            let joined = Joined::named("with-user");
            stream(b, "clicks")
                .join_table_with(
                    &users,
                    |key, click, user| format!("{key}:{click}-{user}"),
                    joined,
                )
                .to("out");
        },
        ran: &["users a anna 1 ->", "clicks a y 2 -> a=a:y-anna@2"],
    },
    Example {
        operator: "left_join_table_with (grace)",
        // The table keeps versions; records wait for 10 ms, and meet the version of their own time.
        build: |b| {
            let kept = Materialized::versioned("prices", 1000);
            let prices = b.table_with::<String, String>("prices", Consumed::default(), kept);
            let joined = Joined::with(String::serde(), String::serde()).with_grace_period(10);
            stream(b, "orders")
                .left_join_table_with(&prices, |_, order, price| both(Some(order), price), joined)
                .to("out");
        },
        ran: &[
            "prices a 7 100 ->",
            "orders a x 110 ->",
            "prices a 8 120 ->",
            "orders a y 121 -> a=x+7@110",
        ],
    },
];

/// Each instance has the whole table; a record finds its row by any key.
const OF_STREAM_AND_GLOBAL_TABLE: &[Example] = &[
    Example {
        operator: "join_global_table",
        build: |b| {
            let countries = b.global_table::<String, String>("countries");
            stream(b, "in")
                .join_global_table(
                    &countries,
                    |_, value: &String| value.clone(),
                    |_, value: &String, country: &String| format!("{value}:{country}"),
                )
                .to("out");
        },
        ran: &[
            "countries de Germany 0 ->",
            "in a de 1 -> a=de:Germany@1",
            "in a fr 2 ->",
        ],
    },
    Example {
        operator: "left_join_global_table",
        build: |b| {
            let countries = b.global_table::<String, String>("countries");
            stream(b, "in")
                .left_join_global_table(
                    &countries,
                    |_, value: &String| value.clone(),
                    |_, value: &String, country| both(Some(value), country),
                )
                .to("out");
        },
        ran: &["in a fr 2 -> a=fr+-@2"],
    },
    Example {
        operator: "join_global_table_named",
        build: |b| {
            let countries = b.global_table::<String, String>("countries");
            stream(b, "in")
                .join_global_table_named(
                    "country",
                    &countries,
                    |_, value: &String| value.clone(),
                    |_, value: &String, country: &String| format!("{value}:{country}"),
                )
                .to("out");
        },
        ran: &["countries de Germany 0 ->", "in a de 1 -> a=de:Germany@1"],
    },
    Example {
        operator: "left_join_global_table_named",
        build: |b| {
            let countries = b.global_table::<String, String>("countries");
            stream(b, "in")
                .left_join_global_table_named(
                    "country",
                    &countries,
                    |_, value: &String| value.clone(),
                    |_, value: &String, country| both(Some(value), country),
                )
                .to("out");
        },
        ran: &["in a fr 2 -> a=fr+-@2"],
    },
    Example {
        operator: "global_table_with",
        build: |b| {
            let kept = Materialized::named("kept");
            let countries =
                b.global_table_with::<String, String>("countries", Consumed::default(), kept);
            stream(b, "in")
                .join_global_table(
                    &countries,
                    |_, value: &String| value.clone(),
                    |_, _: &String, country: &String| country.clone(),
                )
                .to("out");
        },
        ran: &["countries de Germany 0 ->", "in a de 1 -> a=Germany@1"],
    },
];

const OF_TABLES: &[Example] = &[
    Example {
        operator: "join (two tables)",
        build: |b| write(&table(b, "left").join(&table(b, "right"), |l, r| format!("{l}+{r}"))),
        ran: &[
            "left a x 0 ->",
            "right a y 1 -> a=x+y@1",
            "left a null 2 -> a=null@2",
        ],
    },
    Example {
        operator: "left_join (two tables)",
        build: |b| write(&table(b, "left").left_join(&table(b, "right"), |l, r| both(Some(l), r))),
        ran: &["left a x 0 -> a=x+-@0", "right a y 1 -> a=x+y@1"],
    },
    Example {
        operator: "outer_join (two tables)",
        build: |b| write(&table(b, "left").outer_join(&table(b, "right"), both)),
        ran: &["right a y 1 -> a=-+y@1", "right a null 2 -> a=null@2"],
    },
    Example {
        operator: "join_foreign_key",
        build: |b| {
            let (orders, users) = (table(b, "orders"), table(b, "users"));
            let user = |_: &String, order: &String| order[..1].to_owned();
            write(&orders.join_foreign_key(&users, user, |order, user| format!("{order}-{user}")));
        },
        ran: &[
            "orders 1 a-tea 0 ->",
            "users a anna 1 -> 1=a-tea-anna@1",
            "users a ann 2 -> 1=a-tea-ann@2",
        ],
    },
    Example {
        operator: "left_join_foreign_key",
        build: |b| {
            let (orders, users) = (table(b, "orders"), table(b, "users"));
            let user = |_: &String, order: &String| order[..1].to_owned();
            write(
                &orders.left_join_foreign_key(&users, user, |order, user| both(Some(order), user)),
            );
        },
        ran: &["orders 1 a-tea 0 -> 1=a-tea+-@0"],
    },
];

/// The table of the results is kept in a store that can be queried.
const OF_TABLES_KEPT: &[Example] = &[
    Example {
        operator: "join_with (two tables)",
        build: |b| {
            let (left, right) = (table(b, "left"), table(b, "right"));
            let settings = (Named::new("pair"), kept());
            write(&left.join_with(&right, |l, r| format!("{l}+{r}"), settings));
        },
        ran: &["left a x 0 ->", "right a y 1 -> a=x+y@1"],
    },
    Example {
        operator: "left_join_with (two tables)",
        build: |b| {
            let (left, right) = (table(b, "left"), table(b, "right"));
            write(&left.left_join_with(&right, |l, r| both(Some(l), r), kept()));
        },
        ran: &["left a x 0 -> a=x+-@0"],
    },
    Example {
        operator: "outer_join_with (two tables)",
        build: |b| write(&table(b, "left").outer_join_with(&table(b, "right"), both, kept())),
        ran: &["right a y 1 -> a=-+y@1"],
    },
    Example {
        operator: "join_foreign_key_with",
        build: |b| {
            let (orders, users) = (table(b, "orders"), table(b, "users"));
            write(&orders.join_foreign_key_with(
                &users,
                |_, order| order[..1].to_owned(),
                |order, user| format!("{order}-{user}"),
                TableJoined::named("user"),
                kept(),
            ));
        },
        ran: &["orders 1 a-tea 0 ->", "users a anna 1 -> 1=a-tea-anna@1"],
    },
    Example {
        operator: "left_join_foreign_key_with",
        build: |b| {
            let (orders, users) = (table(b, "orders"), table(b, "users"));
            write(&orders.left_join_foreign_key_with(
                &users,
                |_, order| order[..1].to_owned(),
                |order, user| both(Some(order), user),
                TableJoined::named("user"),
                kept(),
            ));
        },
        ran: &["orders 1 a-tea 0 -> 1=a-tea+-@0"],
    },
];

fn kept() -> Materialized<String, String> {
    Materialized::named("kept").with_value_serde(String::serde())
}
