//! A running `riverrun server`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use testkit::{Client, wait_until};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_riverrun");

/// A server process; it is killed with the value.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    address: SocketAddr,
}

impl Process {
    /// Starts a server with its data in `directory` and waits until it is ready.
    #[track_caller]
    pub(crate) fn start(directory: &Path, keys: &[(&str, &str)]) -> Self {
        Self::run(with_default_signals(), directory, keys)
    }

    /// Starts a server in a directory that its log directories are given from.
    #[track_caller]
    pub(crate) fn start_within(working: &Path, log_dirs: &str) -> Self {
        let mut command = with_default_signals();
        command.current_dir(working);
        Self::run(command, Path::new(log_dirs), &[])
    }

    /// Starts a server that logs as `levels` say.
    #[track_caller]
    pub(crate) fn start_with_log(directory: &Path, levels: &str) -> Self {
        let mut command = with_default_signals();
        command.env("RIVERRUN_LOG", levels);
        Self::run(command, directory, &[])
    }

    /// Starts a server that is told which cluster to make.
    #[track_caller]
    pub(crate) fn start_with_cluster_id(directory: &Path, id: &str) -> Self {
        let mut command = Command::new(BINARY);
        command.env("CLUSTER_ID", id);
        Self::run(command, directory, &[])
    }

    /// Starts a server that can write no file beyond so many bytes: for it the disk is full there.
    #[track_caller]
    pub(crate) fn start_with_file_limit(directory: &Path, limit_bytes: u64) -> Self {
        Self::run(command_with_file_limit(limit_bytes), directory, &[])
    }

    /// Starts a server that can have so many files and connections open.
    #[track_caller]
    pub(crate) fn start_with_descriptors(directory: &Path, count: usize) -> Self {
        Self::run(limited(&format!("ulimit -n {count}")), directory, &[])
    }

    /// Starts a server as `nohup` does.
    #[track_caller]
    pub(crate) fn start_without_hangup(directory: &Path) -> Self {
        Self::run(limited("trap '' HUP"), directory, &[])
    }

    #[track_caller]
    fn run(mut command: Command, directory: &Path, keys: &[(&str, &str)]) -> Self {
        let directory = directory.display().to_string();
        let mut all = vec![
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("log.dirs", &directory),
            ("offsets.topic.num.partitions", "1"),
        ];
        all.extend(keys);
        command.arg("server");
        for (key, value) in all {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        if !command.get_envs().any(|(name, _)| name == "RIVERRUN_LOG") {
            command.env_remove("RIVERRUN_LOG");
        }
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let written = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut process = Self {
            child,
            log,
            address: SocketAddr::from(([0; 4], 0)),
        };
        wait_until("the server is ready", || {
            let exited = process.child.try_wait().unwrap();
            assert_eq!(exited, None, "{}", process.log());
            process.log().contains("riverrun is ready")
        });
        process.address = address(&process.log());
        process
    }

    /// What it has written to its log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// A new connection.
    #[track_caller]
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Sets how many files and connections it can have open from here on.
    #[cfg(target_os = "linux")]
    #[track_caller]
    pub(crate) fn limit_descriptors(&self, count: usize) {
        let id = self.child.id().to_string();
        let limit = format!("--nofile={count}:");
        let set = Command::new("prlimit")
            .args(["--pid", &id, &limit])
            .status();
        assert!(set.unwrap().success());
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the server has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Stops it in order.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        assert!(self.wait().success(), "{}", self.log());
    }

    /// Ends it without warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.wait();
    }

    /// A number of bytes that the kernel knows of the process, such as `VmHWM`.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory_bytes(&self, name: &str) -> u64 {
        let kibibytes: u64 = self.status(name).parse().unwrap();
        kibibytes * 1024
    }

    /// What the process does, as a letter: `T` when it is stopped.
    #[cfg(target_os = "linux")]
    pub(crate) fn state(&self) -> char {
        self.status("State").chars().next().unwrap()
    }

    /// The names of its threads.
    #[cfg(target_os = "linux")]
    pub(crate) fn thread_names(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let names = tasks.filter_map(|task| {
            // One that ends has none.
            let name = std::fs::read_to_string(task.unwrap().path().join("comm")).ok()?;
            Some(name.trim_end().to_owned())
        });
        names.collect()
    }

    /// The first word that the kernel has for `name` of the process.
    #[cfg(target_os = "linux")]
    fn status(&self, name: &str) -> String {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    }
}

/// The binary as a terminal starts it: under `nohup`, tests hand on that SIGHUP is ignored.
fn with_default_signals() -> Command {
    if !cfg!(target_os = "linux") {
        return Command::new(BINARY);
    }
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,QUIT,XFSZ", BINARY]);
    command
}

/// The binary, to be run by a shell that sets a limit first.
fn limited(limit: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limit}; exec \"$0\" \"$@\""), BINARY]);
    shell
}

/// The binary, able to write so many bytes to a file.
pub(crate) fn command_with_file_limit(limit_bytes: u64) -> Command {
    let blocks = limit_bytes / 512;
    limited(&format!("ulimit -f {blocks}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in the line that tells of the listener for clients, or else for a controller's peers.
pub(crate) fn address(log: &str) -> SocketAddr {
    let address = address_of(log, "PLAINTEXT");
    address.or_else(|| address_of(log, "CONTROLLER")).unwrap()
}

/// The address in the line that tells of the listener of this name.
pub(crate) fn address_of(log: &str, listener: &str) -> Option<SocketAddr> {
    let told = format!("listener=\"{listener}\"");
    let line = log.lines().find(|line| line.contains(&told))?;
    let (_, address) = line.split_once("address=").unwrap();
    Some(address.trim().parse().unwrap())
}
