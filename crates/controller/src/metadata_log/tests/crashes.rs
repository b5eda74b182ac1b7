//! A crash at any change of the disk.

use super::*;

/// Opens `/a`, whose voters are in the log or are fixed by the configuration.
fn open_of(disk: &SimDisk, is_dynamic: bool) -> Result<MetadataLog<SimDisk>, OpenMetadataLogError> {
    let directories = prepare(disk, &["/a"], is_dynamic)?;
    let id = directories.id_of(Path::new("/a")).expect("prepared");
    let fixed_voters = (!is_dynamic).then(|| vec![NODE_ID]);
    let options = MetadataLogOptions {
        fixed_voters,
        config: MetadataLogConfig {
            retention_bytes: 0,
            ..config()
        },
        ..options("/a", id)
    };
    open_with(disk, options)
}

/// Does what a controller does, until the disk stops; returns the images that were acknowledged.
fn live(disk: &SimDisk, is_dynamic: bool) -> Vec<MetadataImage> {
    let mut acknowledged = Vec::new();
    let Ok(mut log) = open_of(disk, is_dynamic) else {
        return acknowledged;
    };
    acknowledged.push(content(log.image()));
    for number in 0..4 {
        let now_ms = 2_000 + number as i64;
        match log.append(&topic(number, 2), now_ms) {
            Ok(appended) => acknowledged.push(content(&appended.image)),
            Err(_) => return acknowledged,
        }
        if number % 2 == 1
            && let Some(job) = log.begin_snapshot(now_ms)
        {
            // A failure here shows at the next append, or does no harm.
            let _ = log.complete_snapshot(job.run(now_ms), now_ms);
        }
    }
    acknowledged
}

fn all_changes(is_dynamic: bool) -> u64 {
    let disk = new_disk();
    live(&disk, is_dynamic);
    disk.change_count()
}

fn check_crash(stop_at: u64, crash: Crash, is_dynamic: bool) {
    let disk = new_disk();
    disk.stop_at(Some(stop_at));
    let acknowledged = live(&disk, is_dynamic);
    disk.crash(crash);
    let found = open_of(&disk, is_dynamic);
    let found = found.unwrap_or_else(|error| panic!("stopped at {stop_at}: {error}"));
    let found_names = names(found.image());
    let least = acknowledged.last().map_or(0, |image| image.topics.len());
    assert!(
        found_names.len() == least || found_names.len() == least + 1,
        "stopped at {stop_at}: {found_names:?}, acknowledged {least}"
    );
    if found_names.len() == least
        && let Some(image) = acknowledged.last()
    {
        assert_eq!(content(found.image()), *image, "stopped at {stop_at}");
    }
    let properties = read_meta_properties(&disk, Path::new("/a")).expect("whole");
    assert!(properties.is_some());
}

#[test]
fn a_crash_at_any_change_loses_nothing_that_was_acknowledged() {
    let start = new_disk().change_count();
    for is_dynamic in [false, true] {
        for stop_at in start..all_changes(is_dynamic) {
            check_crash(stop_at, Crash::LosesUnsynced, is_dynamic);
        }
    }
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn a_crash_that_keeps_a_part_loses_nothing_that_was_acknowledged(
        share in 0.0..1.0f64, seed in any::<u64>(), is_dynamic in any::<bool>(),
    ) {
        let start = new_disk().change_count();
        let span = (all_changes(is_dynamic) - start) as f64;
        check_crash(start + (span * share) as u64, Crash::Random(seed), is_dynamic);
    }
}
