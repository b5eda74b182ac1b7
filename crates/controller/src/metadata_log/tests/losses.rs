//! A metadata log that is gone from a directory of a controller that has no partitions.

use super::*;

#[test]
fn a_controller_whose_metadata_log_is_gone_begins_no_other_cluster() {
    for stops_in_order in [false, true] {
        let disk = new_disk();
        let options = fixed_voter(&disk);
        let mut log = open_with(&disk, options.clone()).expect("new");
        log.append(&topic(1, 1), 2_000).expect("fits");
        if stops_in_order {
            log.close(3_000).expect("works");
        }
        drop(log);
        let folder = Path::new("/a/__cluster_metadata-0");
        for name in files(&disk, "/a/__cluster_metadata-0") {
            disk.remove_file(&folder.join(name)).expect("there");
        }
        disk.remove_directory(folder).expect("empty");
        let before = files(&disk, "/a");
        prepare(&disk, &["/a"], false).expect("nothing speaks of partitions");
        let refused = open_with(&disk, options).map(|_| ()).expect_err("lost");
        assert!(
            matches!(
                refused,
                OpenMetadataLogError::Quorum(OpenError::Missing { .. })
            ),
            "{refused:?}"
        );
        assert_eq!(files(&disk, "/a"), before);
    }
}

/// A crash before the first record of a new cluster leaves an epoch without records.
#[test]
fn a_first_start_that_was_cut_short_is_no_loss() {
    let disk = new_disk();
    let options = fixed_voter(&disk);
    disk.fail_syncs_of(Some(".log"));
    open_with(&disk, options.clone())
        .map(|_| ())
        .expect_err("not durable");
    disk.fail_syncs_of(None);
    disk.crash(Crash::LosesUnsynced);
    open_with(&disk, options).expect("a new cluster still");
}
