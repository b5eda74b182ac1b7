//! Why a server does not start: it says what is wrong and what to change, and changes nothing.

use crate::directory::{assert_unchanged, change, contents};
use rustix::fs::OFlags;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use testkit::{TestServer, wait_until};
use tokio::net::TcpSocket;

/// A directory that a server has used and left in order.
fn used(directory: &Path) {
    let server = TestServer::start_in(directory, &[]).unwrap();
    server.connect().create_topic("topic", 1, &[]);
    server.stop();
}

/// Expects that no server starts in `directory`, that it says all of `words`, and that it leaves
/// everything below `root` as it is.
#[track_caller]
fn assert_refused(root: &Path, directory: &Path, keys: &[(&str, &str)], words: &[&str]) {
    let before = contents(root);
    let Err(error) = TestServer::start_in(directory, keys) else {
        panic!("the server starts; expected: {words:?}");
    };
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
    assert_unchanged(root, &before);
}

#[test]
fn a_port_in_use_is_named_with_the_key_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listeners = format!("PLAINTEXT://{address}");
    let root = trials::directory();
    let directory = root.path().join("data");
    let keys = [("listeners", listeners.as_str())];
    assert_refused(root.path(), &directory, &keys, &[&address, "`listeners`"]);
    assert!(
        !directory.exists(),
        "nothing is made before the port is had"
    );
    drop(taken);
    TestServer::start_in(&directory, &keys)
        .unwrap()
        .assert_serves();
}

#[test]
fn an_address_of_another_machine_cannot_be_had() {
    let root = trials::directory();
    let keys = [("listeners", "PLAINTEXT://192.0.2.1:0")];
    let words = ["192.0.2.1:0", "`listeners`"];
    assert_refused(root.path(), &root.path().join("data"), &keys, &words);
}

#[test]
fn a_directory_of_a_running_server_is_left_alone() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let name = directory.path().display().to_string();
    let Err(error) = TestServer::start_in(directory.path(), &[]) else {
        panic!("two servers share a directory");
    };
    let message = error.to_string();
    for word in [&*name, "in use", "`log.dirs`"] {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
    server.assert_serves();
    server.stop();
    TestServer::start_in(directory.path(), &[])
        .unwrap()
        .assert_serves();
}

#[test]
fn a_metadata_directory_has_one_server_too() {
    let root = trials::directory();
    let metadata = root.path().join("metadata").display().to_string();
    let keys = [("metadata.log.dir", metadata.as_str())];
    let server = TestServer::start_in(&root.path().join("one"), &keys).unwrap();
    let Err(error) = TestServer::start_in(&root.path().join("two"), &keys) else {
        panic!("two servers share {metadata}");
    };
    let message = error.to_string();
    for word in [&metadata, "another process"] {
        assert!(message.contains(word), "no `{word}` in: {message}");
    }
    server.assert_serves();
}

#[test]
fn two_names_of_one_directory_are_no_other_process() {
    let root = trials::directory();
    let directory = root.path().join("data");
    used(&directory);
    let name = directory.display().to_string();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&directory, &link).unwrap();
    let link = link.display().to_string();
    let (slash, detour) = (format!("{name}/./"), format!("{name}/../data"));
    for other in [&slash, &detour, &link] {
        let dirs = format!("{name},{other}");
        let words = [&*name, other, "one directory", "`log.dirs`"];
        assert_refused(root.path(), &directory, &[("log.dirs", &dirs)], &words);
    }
    for other in [&detour, &link] {
        let metadata = [("log.dirs", &*name), ("metadata.log.dir", other)];
        let words = [&*name, other, "one directory", "`metadata.log.dir`"];
        assert_refused(root.path(), &directory, &metadata, &words);
    }
    // One name is enough, whichever it is; the same name twice is one, as in Kafka.
    let twice = format!("{name},{name}");
    for (dirs, metadata) in [(&link, &link), (&name, &slash), (&twice, &name)] {
        let keys = [("log.dirs", &**dirs), ("metadata.log.dir", &**metadata)];
        let server = TestServer::start_in(&directory, &keys).unwrap();
        server.assert_serves();
        server.stop();
    }
}

#[test]
fn a_directory_that_is_missing_is_made() {
    let root = trials::directory();
    let directory = root.path().join("a/b/c");
    TestServer::start_in(&directory, &[])
        .unwrap()
        .assert_serves();
    assert!(directory.join("meta.properties").exists());
}

#[test]
fn a_file_is_no_directory() {
    let root = trials::directory();
    let file = root.path().join("file");
    std::fs::write(&file, "something of somebody").unwrap();
    for directory in [file.clone(), file.join("below")] {
        let name = file.display().to_string();
        assert_refused(root.path(), &directory, &[], &[&name, "`log.dirs`"]);
    }
}

#[test]
fn a_directory_of_another_node_is_refused() {
    let directory = trials::directory();
    used(directory.path());
    let keys = [("node.id", "7")];
    let name = directory.path().display().to_string();
    let words = [&*name, "node 1", "7", "`node.id`"];
    assert_refused(directory.path(), directory.path(), &keys, &words);
}

#[test]
fn directories_of_different_clusters_are_refused() {
    let root = trials::directory();
    let (one, two) = (root.path().join("one"), root.path().join("two"));
    used(&one);
    used(&two);
    let dirs = format!("{},{}", one.display(), two.display());
    let words = [&*two.display().to_string(), "cluster", "`log.dirs`"];
    assert_refused(root.path(), &one, &[("log.dirs", &dirs)], &words);
}

#[test]
fn copies_of_one_directory_are_refused() {
    let root = trials::directory();
    let (one, two) = (root.path().join("one"), root.path().join("two"));
    used(&one);
    std::fs::create_dir(&two).unwrap();
    std::fs::copy(one.join("meta.properties"), two.join("meta.properties")).unwrap();
    let dirs = format!("{},{}", one.display(), two.display());
    let words = [&*two.display().to_string(), "directory.id"];
    assert_refused(root.path(), &one, &[("log.dirs", &dirs)], &words);
}

#[test]
fn a_meta_properties_that_cannot_be_read_is_left_as_it_is() {
    let directory = trials::directory();
    used(directory.path());
    let file = directory.path().join("meta.properties");
    let whole = std::fs::read_to_string(&file).unwrap();
    let without = |key: &str| {
        let lines = whole.lines().filter(|line| !line.starts_with(key));
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    };
    for (what, bytes) in [
        ("nothing", vec![]),
        ("noise", vec![0xff, 0xfe, 0, 1, 2]),
        ("text", b"hello world".to_vec()),
        ("no cluster", without("cluster.id")),
        ("no node", without("node.id")),
        ("no version", without("version")),
        (
            "an old version",
            whole.replace("version=1", "version=0").into_bytes(),
        ),
        (
            "a new version",
            whole.replace("version=1", "version=2").into_bytes(),
        ),
        (
            "a node that is no number",
            whole.replace("node.id=1", "node.id=one").into_bytes(),
        ),
        ("a megabyte", vec![b'#'; 1 << 20]),
    ] {
        println!("{what}");
        std::fs::write(&file, bytes).unwrap();
        let name = file.display().to_string();
        assert_refused(directory.path(), directory.path(), &[], &[&name]);
    }
    std::fs::write(&file, whole).unwrap();
    TestServer::start_in(directory.path(), &[])
        .unwrap()
        .assert_serves();
}

#[test]
fn a_quorum_state_that_cannot_be_read_is_left_as_it_is() {
    let directory = trials::directory();
    used(directory.path());
    let file = directory.path().join("__cluster_metadata-0/quorum-state");
    let whole = std::fs::read_to_string(&file).unwrap();
    for garbage in [
        "",
        "{",
        "[]",
        "\u{0}\u{0}\u{0}",
        &whole.replace("\"data_version\":", "\"data_version\":9"),
        &whole.replace("\"leaderEpoch\":", "\"leaderEpoch\":\"x\","),
    ] {
        assert_ne!(garbage, whole);
        std::fs::write(&file, garbage).unwrap();
        let name = file.display().to_string();
        println!("{garbage}");
        assert_refused(directory.path(), directory.path(), &[], &[&name]);
    }
    // Without the file the epochs of the log itself count.
    std::fs::remove_file(&file).unwrap();
    TestServer::start_in(directory.path(), &[])
        .unwrap()
        .assert_serves();
}

#[test]
fn a_metadata_log_that_is_damaged_is_left_as_it_is() {
    let directory = trials::directory();
    used(directory.path());
    let folder = directory.path().join("__cluster_metadata-0");
    let file = folder.join("00000000000000000000.log");
    let whole = std::fs::read(&file).unwrap();
    for at in (0..whole.len()).step_by(37) {
        change(&file, |bytes| bytes[at] ^= 0x20);
        // But for the leader's epoch no byte is without protection. The length of the last batch
        // may say that it is cut off.
        let mut batches = record::Batches::new(&whole).map(Result::unwrap);
        let is_unprotected = batches.any(|batch| {
            let start = batch.bytes().as_ptr() as usize - whole.as_ptr() as usize;
            let is_last = start + batch.size_in_bytes() == whole.len();
            (start + 12..start + 16).contains(&at)
                || is_last && (start + 8..start + 12).contains(&at)
        });
        if !is_unprotected {
            let name = file.display().to_string();
            assert_refused(directory.path(), directory.path(), &[], &[&name, "damaged"]);
        }
        std::fs::write(&file, &whole).unwrap();
    }
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    assert_eq!(server.connect().topics(), ["topic"]);
}

/// By a crash, or by a full disk before an orderly stop.
#[test]
fn a_metadata_log_that_is_cut_off_is_mended() {
    for stops_in_order in [false, true] {
        let directory = trials::directory();
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let mut client = server.connect();
        client.create_topic("first", 1, &[]);
        client.create_topic("second", 1, &[]);
        match stops_in_order {
            true => server.stop(),
            false => server.crash(),
        }
        let folder = directory.path().join("__cluster_metadata-0");
        let file = folder.join("00000000000000000000.log");
        // The batch of the second topic is not whole.
        let mut whole = Vec::new();
        change(&file, |bytes| {
            whole.clone_from(bytes);
            bytes.truncate(bytes.len() - 3);
        });
        if stops_in_order {
            // It had been there, and somebody was told.
            let note = crate::directory::names_ending(&folder, ".synced");
            assert_refused(directory.path(), directory.path(), &[], &[&note[0]]);
            std::fs::write(&file, &whole).unwrap();
        }
        let server = TestServer::start_in(directory.path(), &[]).unwrap();
        let topics = server.connect().topics();
        assert_eq!(
            topics,
            &["first", "second"][..1 + usize::from(stops_in_order)]
        );
        server.assert_serves();
    }
}

/// A start is held up in the middle by a file that is a pipe.
#[test]
fn nobody_can_connect_before_the_server_is_ready() {
    let directory = trials::directory();
    used(directory.path());
    let pipe = directory.path().join("topic-0/leader-epoch-checkpoint");
    std::fs::remove_file(&pipe).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    // Nobody else is given this port, and the server may have it. At this address no other test starts
    // a server again, which would ask for the port that it had.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.set_reuseaddr(true).unwrap();
    reserved.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let address = reserved.local_addr().unwrap();
    let listeners = format!("PLAINTEXT://{address}");
    std::thread::scope(|scope| {
        let start = || TestServer::start_in(directory.path(), &[("listeners", &listeners)]);
        let starting = scope.spawn(start);
        let mut writer = None;
        wait_until("the server reads the pipe", || {
            assert!(!starting.is_finished(), "it does not start");
            let mut open = std::fs::File::options();
            // Without this, who opens this end waits for the other one for ever.
            open.write(true)
                .custom_flags(OFlags::NONBLOCK.bits() as i32);
            writer = open.open(&pipe).ok();
            writer.is_some()
        });
        drop(reserved);
        let refused = std::net::TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        // Its port is taken all the same.
        let taken = TcpListener::bind(address).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
        std::fs::remove_file(&pipe).unwrap();
        drop(writer);
        let server = starting.join().unwrap().unwrap();
        server.assert_serves();
    });
}

#[test]
fn a_snapshot_that_is_damaged_is_left_as_it_is() {
    let directory = trials::directory();
    let keys = [("metadata.log.max.record.bytes.between.snapshots", "1000")];
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    for topic in ["a", "b", "c", "d", "e", "f"] {
        client.create_topic(topic, 3, &[]);
    }
    server.stop();
    let folder = directory.path().join("__cluster_metadata-0");
    let snapshots = crate::directory::names_ending(&folder, ".checkpoint");
    let newest = snapshots.last().unwrap();
    assert!(
        !newest.starts_with("00000000000000000000-"),
        "{snapshots:?}"
    );
    let file = folder.join(newest);
    let whole = std::fs::read(&file).unwrap();
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("a byte", |bytes| bytes[100] ^= 1),
        ("cut", |bytes| bytes.truncate(bytes.len() - 10)),
        ("empty", |bytes| bytes.clear()),
        ("noise after it", |bytes| bytes.extend([7; 100])),
    ];
    for (what, damage) in damages {
        change(&file, damage);
        println!("{what}");
        let words = [newest.trim_end_matches(".checkpoint")];
        assert_refused(directory.path(), directory.path(), &keys, &words);
        std::fs::write(&file, &whole).unwrap();
    }
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    assert_eq!(server.connect().topics().len(), 6);
}

/// The keys of a quorum whose voters the configuration names, and of one whose voters can change.
const FIXED_VOTERS: &[(&str, &str)] = &[("controller.quorum.voters", "1@127.0.0.1:9093")];
const RECORDED_VOTERS: &[(&str, &str)] = &[];

#[test]
fn a_directory_in_use_that_has_lost_its_meta_properties_is_not_a_new_one() {
    for keys in [FIXED_VOTERS, RECORDED_VOTERS] {
        let directory = trials::directory();
        let path = directory.path();
        let server = TestServer::start_in(path, keys).unwrap();
        server.connect().create_topic("topic", 1, &[]);
        server.stop();
        let file = path.join("meta.properties");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let id = text.lines().find(|line| line.starts_with("directory.id"));
        let name = path.display().to_string();
        let words = [
            "a metadata log",
            "meta.properties",
            "node.id=1",
            id.unwrap(),
        ];
        assert_refused(path, path, keys, &[&words[..], &[&*name]].concat());
        // Its metadata log is gone as well: the partitions are still somebody's.
        let (metadata, aside) = (path.join("__cluster_metadata-0"), path.join("aside"));
        std::fs::rename(&metadata, &aside).unwrap();
        let words = ["partitions", "meta.properties", &*name];
        assert_refused(path, path, keys, &words);
        std::fs::rename(&aside, &metadata).unwrap();
        std::fs::write(&file, &text).unwrap();
        let server = TestServer::start_in(path, keys).unwrap();
        assert_eq!(server.connect().topics().len(), 1);
    }
}

#[test]
fn a_second_directory_that_has_lost_its_meta_properties_is_not_a_new_one() {
    let root = trials::directory();
    let paths = [root.path().join("one"), root.path().join("two")];
    let dirs = paths.each_ref().map(|path| path.display().to_string());
    let joined = dirs.join(",");
    let keys = [("log.dirs", &*joined)];
    let server = TestServer::start_in(&paths[0], &keys).unwrap();
    server.connect().create_topic("topic", 4, &[]);
    server.stop();
    let file = paths[1].join("meta.properties");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap();
    let (id, cluster) = (line("directory.id"), line("cluster.id"));
    let words = [&*dirs[1], "holds partitions", "node.id=1", id, cluster];
    assert_refused(root.path(), &paths[0], &keys, &words);
    // What the message says is enough to restore it.
    let restored = format!("version=1\nnode.id=1\n{id}\n{cluster}\n");
    std::fs::write(&file, restored).unwrap();
    let server = TestServer::start_in(&paths[0], &keys).unwrap();
    server.assert_serves();
}

#[test]
fn a_directory_of_a_later_release_is_not_called_damaged() {
    let directory = trials::directory();
    TestServer::start_in(directory.path(), &[]).unwrap().stop();
    let file = directory.path().join("meta.properties");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("version=1", "version=2")).unwrap();
    let name = file.display().to_string();
    let words = [&*name, "version 2", "later release"];
    assert_refused(directory.path(), directory.path(), &[], &words);
}

/// `kafka-storage format --no-initial-controllers` leaves a node that waits for a quorum to take it in.
#[test]
fn a_directory_that_was_formatted_without_voters_is_refused_with_what_to_do() {
    let root = trials::directory();
    let (made, path) = (root.path().join("made"), root.path().join("formatted"));
    TestServer::start_in(&made, &[]).unwrap().stop();
    std::fs::create_dir(&path).unwrap();
    for name in ["meta.properties", "bootstrap.checkpoint"] {
        std::fs::copy(made.join(name), path.join(name)).unwrap();
    }
    let name = path.display().to_string();
    let words = ["--standalone", "`controller.quorum.voters`", &*name];
    assert_refused(root.path(), &path, RECORDED_VOTERS, &words);
    // So Kafka leaves it when it is stopped while it waits.
    let metadata = path.join("__cluster_metadata-0");
    std::fs::create_dir(&metadata).unwrap();
    std::fs::write(metadata.join("00000000000000000000.log"), b"").unwrap();
    let state = r#"{"clusterId":"","leaderId":-1,"leaderEpoch":0,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}"#;
    std::fs::write(metadata.join("quorum-state"), state).unwrap();
    assert_refused(root.path(), &path, RECORDED_VOTERS, &words);
    // Once it has been named as the voter, it is known.
    for keys in [FIXED_VOTERS, RECORDED_VOTERS] {
        let server = TestServer::start_in(&path, keys).unwrap();
        server.assert_serves();
        server.stop();
    }
}

#[test]
fn partitions_whose_metadata_log_is_gone_beside_them_wait_for_it() {
    let root = trials::directory();
    let (path, other) = (root.path().join("a"), root.path().join("b"));
    let log_dirs = format!("{},{}", other.display(), path.display());
    let metadata_directory = path.display().to_string();
    let keys = [
        ("log.dirs", &*log_dirs),
        ("metadata.log.dir", &*metadata_directory),
    ];
    let server = TestServer::start_in(&path, &keys).unwrap();
    server.connect().create_topic("topic", 4, &[]);
    server.stop();
    let (metadata, aside) = (path.join("__cluster_metadata-0"), root.path().join("aside"));
    std::fs::rename(&metadata, &aside).unwrap();
    let words = [
        &*format!("`{metadata_directory}` holds partitions"),
        "restore its folder `__cluster_metadata-0`",
    ];
    assert_refused(root.path(), &path, &keys, &words);
    std::fs::rename(&aside, &metadata).unwrap();
    let server = TestServer::start_in(&path, &keys).unwrap();
    assert_eq!(server.connect().topics().len(), 1);
}
