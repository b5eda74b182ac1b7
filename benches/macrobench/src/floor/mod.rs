//! The floor: what serving produce and fetch costs when a server does nothing else.
//!
//! It reads the same frames as a broker, checks each batch's CRC-32C, gives it its offset, appends
//! it to a file with one write and replies; a fetch is answered by sendfile of the file's range.
//! No metadata, no indexes, no recovery, no limits on what a peer may ask for.
//!
//! ```text
//!   connection.rs  frames in, answers out      topics.rs  files and where their batches begin
//! ```

mod connection;
mod fetch;
mod topics;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;

use crate::affinity;
use crate::flags::Flags;
use topics::Topics;

/// Serves until the process is killed.
pub(crate) fn run(mut flags: Flags) -> Result<()> {
    let address: String = flags.or("listen", "127.0.0.1:9092".to_owned())?;
    let other: Option<String> = flags.optional("also-listen")?;
    let dir: PathBuf = flags.required("dir")?;
    affinity::stay_on(flags.optional("core")?)?;
    flags.finish()?;
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let topics = Arc::new(Topics::new(dir));
        if let Some(other) = other {
            tokio::spawn(listen(bind(&other).await?, topics.clone()));
        }
        let listener = bind(&address).await?;
        // As in riverrun: within a machine nothing has to be paced.
        rustix::net::sockopt::set_tcp_congestion(&listener, "reno")?;
        listen(listener, topics).await
    })
}

async fn bind(address: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}"))
}

async fn listen(listener: TcpListener, topics: Arc<Topics>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let topics = topics.clone();
        tokio::spawn(async move {
            if let Err(error) = connection::serve(stream, &topics).await {
                eprintln!("connection closed: {error:#}");
            }
        });
    }
}
