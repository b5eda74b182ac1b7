//! A network of two hosts on this machine: the servers are in the machine's own network namespace,
//! the load generator is in another one, and a pair of virtual Ethernet devices joins them.
//!
//! A child process holds the other namespace and ends when this process does, however it ends. The
//! kernel then removes the namespace, both devices and the routes over them.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result, ensure};

use harness::process::run_quietly;

const POLL_INTERVAL: Duration = Duration::from_millis(2);
const LIMIT: Duration = Duration::from_secs(5);

/// The other namespace; dropping it removes it.
#[derive(Debug)]
pub(super) struct Network {
    holder: Child,
    device: String,
    /// The addresses of the servers and of the load generator.
    pub(super) server: Ipv4Addr,
    client: Ipv4Addr,
}

impl Network {
    /// Makes the namespace and the devices.
    ///
    /// # Errors
    /// Above all, that this user may not.
    pub(super) fn make() -> Result<Self> {
        let id = std::process::id();
        let own = namespace_of("self")?;
        let mut holder = Command::new("unshare");
        holder.args(["--net", "cat"]).stdin(Stdio::piped());
        let holder = holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let holder = holder.context("cannot run `unshare`")?;
        // Addresses that are set aside for benchmarks (RFC 2544).
        let address = |last| Ipv4Addr::new(198, 18, (id % 256) as u8, last);
        let network = Self {
            holder,
            device: format!("rr{id}"),
            server: address(1),
            client: address(2),
        };
        let deadline = Instant::now() + LIMIT;
        while namespace_of(&network.holder.id().to_string()).is_ok_and(|other| other == own) {
            ensure!(
                Instant::now() < deadline,
                "`unshare --net` is not permitted"
            );
            thread::sleep(POLL_INTERVAL);
        }
        network.join_hosts()?;
        Ok(network)
    }

    fn join_hosts(&self) -> Result<()> {
        let (device, server, client) = (&self.device, self.server, self.client);
        let holder = self.holder.id();
        ip(&format!(
            "link add {device} type veth peer name {device} netns {holder}"
        ))?;
        ip(&format!("address add {server}/24 dev {device}"))?;
        ip(&format!("link set {device} up"))?;
        for command in [
            format!("address add {client}/24 dev {device}"),
            format!("link set {device} up"),
            "link set lo up".to_owned(),
        ] {
            run_quietly(self.inside("ip").args(command.split_whitespace()))?;
        }
        Ok(())
    }

    /// Chooses the congestion control of connections that begin from now on, at both ends.
    ///
    /// # Errors
    /// The kernel does not have it.
    pub(super) fn set_congestion_control(&self, name: &str) -> Result<()> {
        let route = |source: Ipv4Addr| {
            let subnet = Ipv4Addr::from(u32::from(self.server) & !0xff);
            let device = &self.device;
            format!("route replace {subnet}/24 dev {device} src {source} congctl {name}")
        };
        ip(&route(self.server))?;
        run_quietly(
            self.inside("ip")
                .args(route(self.client).split_whitespace()),
        )
    }

    /// Whether the kernel has this congestion control.
    pub(super) fn has_congestion_control(&self, name: &str) -> bool {
        let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        names.is_ok_and(|names| names.split_whitespace().any(|one| one == name))
    }

    /// A command that runs in the other namespace.
    pub(super) fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        command
            .args(["--net", "--target", &holder, "--"])
            .arg(program);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn ip(arguments: &str) -> Result<()> {
    run_quietly(Command::new("ip").args(arguments.split_whitespace()))
}

/// Which network namespace a process is in.
fn namespace_of(process: &str) -> Result<std::path::PathBuf> {
    let path = format!("/proc/{process}/ns/net");
    fs::read_link(&path).with_context(|| format!("no {path}"))
}
