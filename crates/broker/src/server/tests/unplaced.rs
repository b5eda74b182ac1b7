//! Partitions for which the metadata name no log directory, and of which there is no log.

use super::stuck::refused;
use super::*;
use std::path::PathBuf;

/// Two log directories, and the metadata of a topic of one partition whose log was never made, as after
/// a crash.
struct Unmade {
    _root: tempfile::TempDir,
    one: PathBuf,
    two: PathBuf,
}

impl Unmade {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| root.path().join(name));
        let running = Running::start(&[&one, &two]);
        for _ in 0..1000 {
            let source = std::io::Error::from_raw_os_error(28);
            let error = storage::StorageError {
                source,
                ..refused()
            };
            running.broker().logs.creations.refuse_next(error);
        }
        running.connect().create_topic("topic", 1, &[]);
        assert!(running.broker().logs.partitions.find("topic", 0).is_err());
        assert_eq!(noted(running.broker(), "topic"), None);
        running.stop();
        Self {
            _root: root,
            one,
            two,
        }
    }

    fn start(&self) -> Running {
        Running::start(&[&self.one, &self.two])
    }

    /// A start during which the second directory cannot be used.
    fn start_without_two(&self) -> Running {
        // The mark of the clean shutdown cannot be taken.
        let mark = self.two.join(CLEAN_SHUTDOWN_FILE);
        let _ = fs::remove_file(&mark);
        fs::create_dir(&mark).unwrap();
        let running = self.start();
        assert!(running.broker().logs.directories[1].is_offline());
        fs::remove_dir(&mark).unwrap();
        running
    }
}

fn produced(running: &Running) -> ErrorCode {
    running
        .connect()
        .produce("topic", 0, &batch(&["value"]))
        .error
}

#[test]
fn a_partition_that_was_not_made_is_made_when_a_directory_that_could_not_be_used_is_back() {
    let unmade = Unmade::new();
    for _ in 0..2 {
        let running = unmade.start_without_two();
        assert_eq!(produced(&running), ErrorCode::NotLeaderOrFollower);
        running.stop();
    }
    let running = unmade.start();
    assert_eq!(produced(&running), ErrorCode::None);
    running.stop();
    assert!(
        unmade.two.join("topic-0").exists(),
        "where it may have been"
    );
}

#[test]
fn a_partition_that_may_be_in_a_directory_that_has_failed_is_made_nowhere_without_it() {
    let unmade = Unmade::new();
    unmade.start_without_two().stop();
    // Its disk is taken away for good: nobody knows what was there.
    for _ in 0..2 {
        let running = Running::start(&[&unmade.one]);
        assert_eq!(produced(&running), ErrorCode::NotLeaderOrFollower);
        running.stop();
    }
    let running = unmade.start();
    assert_eq!(produced(&running), ErrorCode::None);
    running.stop();
}
