//! The admin client against a server in this process, and against peers that are none.
//!
//! One file for each subject; they make one program. What is asked of a broker has short timeouts
//! where the test waits for them to pass.

mod broken;
mod cluster;
mod configs;
mod fake;
mod groups;
mod hooks;
mod hostile;
mod topics;
mod users;

use riverrun_client::admin::{Admin, AdminConfig};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

/// An admin of the server at `address`, with `keys` set.
fn admin(address: SocketAddr, keys: &[(&str, &str)]) -> Admin {
    let address = address.to_string();
    let mut pairs = vec![("bootstrap.servers", &*address)];
    pairs.extend(keys);
    Admin::new(AdminConfig::from_pairs(pairs).unwrap()).unwrap()
}

/// Runs a test on a runtime of its own, and fails it if it hangs.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, test)
            .await
            .expect("the test ends");
    });
}
