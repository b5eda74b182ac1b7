//! Waits until every replica of a topic is in sync, as all brokers see it.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Target;
use super::client::Client;
use super::leaders::{self, Led};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Makes the topic unless it is there, and asks every broker again until each of them says that every
/// partition has a leader and as many replicas in sync as it has replicas. The result holds the time of the
/// day, and the ids of the leaders.
pub(super) fn run(target: &Target, config: Option<(&str, &str)>, limit: Duration) -> Result<Value> {
    let deadline = Instant::now() + limit;
    let mut brokers = target.addresses.iter().map(|address| Asked::new(*address));
    let mut brokers: Vec<Asked> = brokers.by_ref().collect();
    let mut is_there = false;
    loop {
        match attempt(target, config, &mut brokers, &mut is_there) {
            Ok(leaders) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
                let leaders: Vec<i32> = leaders.iter().map(|one| one.leader.0).collect();
                return Ok(json!({
                    "load": "in-sync",
                    "in_sync_at_seconds": now.as_secs_f64(),
                    "leaders": leaders,
                }));
            }
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("not in sync within {limit:?}")));
            }
            Err(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

/// A broker, with a connection while there is one.
#[derive(Debug)]
struct Asked {
    address: SocketAddr,
    client: Option<Client>,
}

impl Asked {
    const fn new(address: SocketAddr) -> Self {
        Self {
            address,
            client: None,
        }
    }

    /// Asks it; a connection that fails is made anew the next time.
    fn call<T>(&mut self, ask: impl FnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(self.address)?,
        };
        let answer = ask(&mut client)?;
        self.client = Some(client);
        Ok(answer)
    }
}

fn attempt(
    target: &Target,
    config: Option<(&str, &str)>,
    brokers: &mut [Asked],
    is_there: &mut bool,
) -> Result<Vec<Led>> {
    if !*is_there {
        let replicas = target.replication_factor;
        let make = |client: &mut Client| {
            client.create_topic(&target.topic, target.partitions, replicas, config)
        };
        brokers[0].call(make)?;
        *is_there = true;
    }
    let wanted = usize::try_from(target.replication_factor)?;
    let mut all = Vec::new();
    for broker in brokers {
        all = broker.call(|client| leaders::ask(client, target))?;
        let behind = all.iter().filter(|one| one.in_sync_count < wanted).count();
        ensure!(behind == 0, "{behind} partitions lack replicas in sync");
    }
    Ok(all)
}
