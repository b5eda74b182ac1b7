//! What somebody gets who starts the binary for the first time: it runs, or says what to do.

use crate::process::BINARY;
use std::path::Path;
use std::process::Command;

/// Runs `riverrun` in `directory` with these arguments and variables, expects it to fail, and
/// expects each of `words` to be said.
#[track_caller]
fn check(directory: &Path, arguments: &[&str], variables: &[(&str, &str)], words: &[&str]) {
    let mut command = Command::new(BINARY);
    command.args(arguments).current_dir(directory);
    command.env_clear().envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?} {text}");
    for word in words {
        assert!(
            text.contains(word),
            "{arguments:?}: no `{word}` in:\n{text}"
        );
    }
    assert!(!text.contains("panicked"), "{text}");
    let data = directory.join("riverrun-data");
    assert!(!data.exists(), "{arguments:?} leaves {}", data.display());
}

/// The same for one configuration key.
#[track_caller]
fn check_key(pair: &str, words: &[&str]) {
    let directory = trials::directory();
    let listeners = "listeners=PLAINTEXT://127.0.0.1:0";
    let arguments = ["server", "--set", listeners, "--set", pair];
    check(directory.path(), &arguments, &[], words);
}

#[test]
fn what_is_mistyped_is_told() {
    let directory = trials::directory();
    let root = directory.path();
    std::fs::write(root.join("passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    std::fs::write(root.join("few.properties"), "num.partitions=5\n").unwrap();
    let zookeeper = "broker.id=0\nzookeeper.connect=localhost:2181\nlog.dirs=d\n";
    std::fs::write(root.join("old.properties"), zookeeper).unwrap();
    for (arguments, words) in [
        (&["sever"][..], &["sever", "'server'"][..]),
        (&["server", "--prot", "5"], &["--prot", "Usage"]),
        (&["server", "--set"], &["--set <KEY=VALUE>"]),
        (&["server", "a", "b"], &["'b'", "Usage"]),
        (
            &["topic", "create", "a", "-p", "x"],
            &["'x'", "'--partitions <COUNT>'", "it is not a whole number"],
        ),
        (
            &["topic", "create", "a", "-p", "-99999999999"],
            &["it is not from -2147483648 to 2147483647"],
        ),
        (&["consume", "a", "-n", "-1"], &["'-1'", "'--num <COUNT>'"]),
        (
            &["topic", "list", "-b", "somewhere"],
            &["`--brokers` = `somewhere`", "`localhost:9092`"],
        ),
        (
            &["server", "num.partitions=5"],
            &["cannot read `num.partitions=5`", "`--set num.partitions=5`"],
        ),
        (
            &["server", "passwd"],
            &["process.roles", "`passwd` is not", "--set"],
        ),
        (
            &["server", "few.properties"],
            &[
                "node.id",
                "process.roles=broker,controller",
                "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
                "controller.quorum.voters=1@localhost:9093",
                "without a file",
            ],
        ),
        (
            &["server", "old.properties"],
            &["there is no ZooKeeper", "process.roles=broker,controller"],
        ),
    ] {
        check(root, arguments, &[], words);
    }
}

#[test]
fn listeners_that_cannot_be_are_told_with_a_way_out() {
    for (pair, words) in [
        (
            "listeners=127.0.0.1:9092",
            &["127.0.0.1:9092", "NAME://host:port"][..],
        ),
        ("listeners=PLAINTEXT://127.0.0.1", &["NAME://host:port"]),
        (
            "listeners=http://127.0.0.1:0",
            &["`HTTP`", "listener.security.protocol.map", "HTTP:PLAINTEXT"],
        ),
        (
            "listeners=PLAINTEXT://no-such-host.invalid:0",
            &["no-such-host.invalid", "set `listeners` to an address"],
        ),
        (
            "listeners=PLAINTEXT://192.0.2.7:0",
            &["192.0.2.7", "no interface of this machine"],
        ),
        (
            "listeners=SSL://127.0.0.1:0",
            &["SSL://127.0.0.1:0", "PLAINTEXT listeners only"],
        ),
        (
            "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
            &["0.0.0.0", "an address that clients reach"],
        ),
        (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            &[
                "`authorizer.class.name`",
                "not supported yet; without it every client may do everything",
            ],
        ),
        (
            "remote.log.storage.system.enable=true",
            &["remote.log.storage.system.enable"],
        ),
    ] {
        check_key(pair, words);
    }
}

#[test]
fn directories_that_cannot_be_had_are_told_with_a_way_out() {
    let directory = trials::directory();
    let root = directory.path().display().to_string();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let lock = directory.path().join("locked").join(".lock");
    // No user can write a directory, whatever they may do to files.
    std::fs::create_dir_all(&lock).unwrap();
    for (path, words) in [
        (format!("{root}/file"), &["File exists", "`log.dirs`"][..]),
        (
            format!("{root}/file/below"),
            &["Not a directory", "`log.dirs`"],
        ),
        (
            "/proc/riverrun".to_owned(),
            &["`/proc/riverrun`", "`log.dirs`"],
        ),
        (
            format!("{root}/locked"),
            &[
                "locked/.lock",
                "`log.dirs` to a directory that this user can write",
            ],
        ),
    ] {
        check_key(&format!("log.dirs={path}"), words);
    }
}

#[test]
fn variables_of_containers_are_understood() {
    let directory = trials::directory();
    let several = [
        (
            "KAFKA_LISTENERS",
            "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        ),
        (
            "KAFKA_ADVERTISED_LISTENERS",
            "INTERNAL://kafka:29092,EXTERNAL://localhost:9092",
        ),
        ("KAFKA_INTER_BROKER_LISTENER_NAME", "INTERNAL"),
        // A value that is wrong on purpose, the only one.
        ("KAFKA_NUM_PARTITIONS", "0"),
        ("KAFKA_HEAP_OPTS", "-Xmx1g"),
        ("CLUSTER_ID", "MkU3OEVBNTcwNTJENDM2Qk"),
    ];
    let map = (
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
        "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    );
    let words = ["environment variable KAFKA_NUM_PARTITIONS"];
    check(
        directory.path(),
        &["server"],
        &[&several[..], &[map]].concat(),
        &words,
    );
    let right: Vec<_> = several
        .into_iter()
        .filter(|(name, _)| *name != "KAFKA_NUM_PARTITIONS")
        .collect();
    check(
        directory.path(),
        &["server"],
        &right,
        &["`INTERNAL`", "INTERNAL:PLAINTEXT"],
    );
}
