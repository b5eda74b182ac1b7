//! Windows of all kinds: with tombstones, late records, final results, several groups, and headers.

use super::{Text, append, check, joined, rekeyed, shown, stream, write, write_windows};
use riverrun_streams::dsl::{
    BufferConfig, EmitStrategy, Grouped, KGroupedStream, Materialized, SessionWindows,
    SlidingWindows, StreamsBuilder, Suppressed, TimeWindows, UnlimitedWindows,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::StoreType;

fn grouped(b: &StreamsBuilder) -> KGroupedStream<Text, Text> {
    stream(b, "a").group_by_key()
}

const fn hopping() -> TimeWindows {
    TimeWindows::of_size_and_grace(60, 30).advance_by(25)
}

const fn sessions(grace_ms: i64) -> SessionWindows {
    SessionWindows::of_inactivity_gap_and_grace(25, grace_ms)
}

const fn sliding(grace_ms: i64) -> SlidingWindows {
    SlidingWindows::of_time_difference_and_grace(30, grace_ms)
}

fn until_closed<K: 'static>() -> Suppressed<riverrun_streams::serde::Windowed<K>> {
    Suppressed::until_window_closes(BufferConfig::unbounded())
}

fn loud(_: &Text, value: &Text, aggregate: String) -> String {
    aggregate + shown(Some(value)) + "!"
}

#[test]
fn of_several_groups() {
    check("cogroup-sliding", |b| {
        let this = grouped(b);
        let other = rekeyed(&stream(b, "b")).group_by_key();
        let both = this.cogroup(append).cogroup(&other, loud);
        let windowed = both.windowed_by_sliding(sliding(40));
        write_windows(&windowed.aggregate(String::new));
    });
    check("cogroup-sessions", |b| {
        let this = grouped(b);
        let other = stream(b, "b").group_by(|key, _| key.clone());
        let both = this.cogroup(append).cogroup(&other, loud);
        let kept = Materialized::named("cs").with_value_serde(String::serde());
        let windowed = both.windowed_by_sessions(sessions(60));
        write_windows(&windowed.aggregate_with(String::new, |_, p, q| p + &q, kept));
    });
}

#[test]
fn of_final_results() {
    check("suppress-sessions", |b| {
        let counted = grouped(b).windowed_by_sessions(sessions(20)).count();
        write_windows(&counted.suppress(until_closed()));
    });
    check("headers-sessions-suppress", |b| {
        let counted = grouped(b).windowed_by_sessions(sessions(20)).count();
        write_windows(&counted.suppress(until_closed()));
    });
    check("suppress-sessions-reduce", |b| {
        let reduced = grouped(b)
            .windowed_by_sessions(sessions(0))
            .reduce_with(joined, Materialized::named("red"));
        let suppressed = reduced.suppress(until_closed().with_name("sup"));
        write_windows(&suppressed.filter(|_, value| shown(Some(value)).len() > 1));
    });
    check("headers-suppress", |b| {
        let windows = TimeWindows::of_size_and_grace(60, 30);
        write_windows(
            &grouped(b)
                .windowed_by(windows)
                .count()
                .suppress(until_closed()),
        );
    });
    check("sliding-emit-close", |b| {
        let windowed = grouped(b).windowed_by_sliding(sliding(50));
        let windowed = windowed.emit_strategy(EmitStrategy::on_window_close());
        write_windows(&windowed.count_with(Materialized::named("c")));
    });
    check("session-emit-close", |b| {
        let grouped = stream(b, "a").group_by_with(|key, _| key.clone(), Grouped::default());
        let windowed = grouped.windowed_by_sessions(sessions(10));
        let windowed = windowed.emit_strategy(EmitStrategy::on_window_close());
        write_windows(&windowed.reduce(joined));
    });
}

#[test]
fn of_every_update() {
    check("hopping-tombstones", |b| {
        let windowed = grouped(b).windowed_by(hopping());
        let table = windowed.aggregate(
            || Some(String::new()),
            |_, value, aggregate: Text| match value.as_deref() {
                Some("4") => None,
                _ => Some(shown(Some(&aggregate)).to_owned() + shown(Some(value))),
            },
        );
        write_windows(&table);
    });
    check("sliding-reduce", |b| {
        write_windows(&grouped(b).windowed_by_sliding(sliding(50)).reduce(joined));
    });
    check("sliding-edges", |b| {
        let windowed = grouped(b).windowed_by_sliding(sliding(500));
        write_windows(&windowed.reduce(joined));
    });
    check("sessions-edges", |b| {
        write_windows(&grouped(b).windowed_by_sessions(sessions(20)).reduce(joined));
    });
    check("unlimited-count", |b| {
        let windows = UnlimitedWindows::of().start_on(30);
        write_windows(&grouped(b).windowed_by_unlimited(windows).count());
    });
    let of_sessions = |b: &StreamsBuilder| {
        write_windows(&grouped(b).windowed_by_sessions(sessions(20)).reduce(joined));
    };
    check("sessions", of_sessions);
    check("headers-sessions", of_sessions);
    check("headers-sessions-uncached", |b| {
        let uncached = Materialized::named("su").with_caching_disabled();
        let windowed = grouped(b).windowed_by_sessions(sessions(20));
        write_windows(&windowed.reduce_with(joined, uncached));
    });
    check("headers-windows", |b| {
        write_windows(&grouped(b).windowed_by(hopping()).count());
    });
    check("window-then-table-group", |b| {
        let windows = TimeWindows::of_size_with_no_grace(50);
        let counted = grouped(b).windowed_by(windows).count();
        let by_window =
            counted.group_by(|key, count| (format!("w{}", key.window.start_ms), *count));
        write(&by_window.reduce(|p, q| p + q, |p, q| p - q));
    });
}

#[test]
fn kept_in_other_stores() {
    check("in-memory", |b| {
        let windows = TimeWindows::of_size_and_grace(60, 30);
        let kept = Materialized::named("imw")
            .with_value_serde(String::serde())
            .with_store_type(StoreType::InMemory)
            .with_retention(120)
            .with_logging_disabled();
        let windowed = grouped(b).windowed_by(windows);
        write_windows(&windowed.aggregate_with(String::new, append, kept));
    });
    check("retention", |b| {
        let windows = TimeWindows::of_size_and_grace(20, 1000);
        let kept = Materialized::named("rt")
            .with_value_serde(String::serde())
            .with_retention(2000)
            .with_caching_disabled();
        let windowed = grouped(b).windowed_by(windows);
        write_windows(&windowed.aggregate_with(String::new, append, kept));
    });
}
