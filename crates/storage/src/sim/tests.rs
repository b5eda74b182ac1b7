//! What a simulated disk keeps, and what it loses.

use super::*;

fn written(disk: &SimDisk, path: &str, bytes: &[u8]) -> SimFile {
    let file = disk.open(Path::new(path), OpenMode::Create).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn content(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    disk.read(Path::new(path), 1000).ok()
}

#[test]
fn bytes_and_names_are_durable_apart() {
    let disk = SimDisk::default();
    written(&disk, "/a", b"one").sync().unwrap();
    written(&disk, "/b", b"two");
    disk.sync_directory(Path::new("/")).unwrap();
    written(&disk, "/c", b"three").sync().unwrap();
    disk.crash(Crash::LosesUnsynced);
    assert_eq!(content(&disk, "/a").as_deref(), Some(&b"one"[..]));
    assert_eq!(content(&disk, "/b").as_deref(), Some(&b""[..]));
    assert_eq!(content(&disk, "/c"), None);
}

#[test]
fn a_process_crash_keeps_everything_but_ends_open_files() {
    let disk = SimDisk::default();
    let file = written(&disk, "/a", b"one");
    disk.crash(Crash::KeepsAll);
    assert_eq!(content(&disk, "/a").as_deref(), Some(&b"one"[..]));
    assert!(file.write_at(b"x", 0).is_err());
}

#[test]
fn rename_is_atomic_and_removal_leaves_open_files_readable() {
    let disk = SimDisk::default();
    written(&disk, "/a", b"old").sync().unwrap();
    written(&disk, "/a.tmp", b"new").sync().unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    disk.rename(Path::new("/a.tmp"), Path::new("/a")).unwrap();
    assert_eq!(content(&disk, "/a").as_deref(), Some(&b"new"[..]));
    disk.crash(Crash::LosesUnsynced);
    assert_eq!(content(&disk, "/a").as_deref(), Some(&b"old"[..]));
    let file = disk.open(Path::new("/a"), OpenMode::Read).unwrap();
    disk.remove_file(Path::new("/a")).unwrap();
    let mut buffer = [0; 3];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 3);
    assert_eq!(&buffer, b"old");
}

#[test]
fn the_machine_stops_in_the_middle_of_a_write() {
    let disk = SimDisk::default();
    let file = written(&disk, "/a", b"");
    disk.stop_at(Some(disk.change_count()));
    assert!(file.write_at(b"12345678", 0).is_err());
    assert!(file.write_at(b"9", 8).is_err());
    assert!(file.sync().is_err());
    disk.crash(Crash::KeepsAll);
    assert_eq!(content(&disk, "/a").as_deref(), Some(&b"1234"[..]));
}

#[test]
fn a_write_may_lose_its_first_sector_and_keep_the_next() {
    let lost_first = [vec![0; SECTOR_BYTES], vec![b'x'; 88]].concat();
    let is_lost = |seed| {
        let disk = SimDisk::default();
        written(&disk, "/a", &[b'x'; SECTOR_BYTES + 88]);
        disk.sync_directory(Path::new("/")).unwrap();
        disk.crash(Crash::Random(seed));
        content(&disk, "/a").as_ref() == Some(&lost_first)
    };
    assert!(trials::seeds(0..400).any(is_lost));
}

#[test]
fn a_disk_that_lies_keeps_nothing() {
    let disk = SimDisk::default();
    let file = written(&disk, "/a.log", b"one");
    disk.sync_directory(Path::new("/")).unwrap();
    disk.ignore_syncs_of(Some(".log"));
    file.sync().unwrap();
    disk.crash(Crash::LosesUnsynced);
    assert_eq!(content(&disk, "/a.log").as_deref(), Some(&b""[..]));
}

#[test]
fn a_failed_sync_loses_the_bytes() {
    let disk = SimDisk::default();
    let file = written(&disk, "/a.log", b"one");
    disk.sync_directory(Path::new("/")).unwrap();
    disk.fail_syncs_of(Some(".log"));
    assert!(file.sync().is_err());
    disk.fail_syncs_of(None);
    file.write_at(b"two", 3).unwrap();
    disk.crash(Crash::LosesUnsynced);
    assert_eq!(content(&disk, "/a.log").as_deref(), Some(&b""[..]));
}
