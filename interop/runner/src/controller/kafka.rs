//! A controller of Apache Kafka without any broker, and its log.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ::controller::ControllerRequest;
use ::wire::{ApiKey, RequestHeader, ResponseHeader, begin_frame, finish_frame};
use anyhow::{Context as _, Result, ensure};
use harness::free_port;
use harness::java::Java;
use harness::process::run_quietly;
use metadata::{BatchContentError, MetadataRecord, Provenance, read_metadata_records};
use model::Reader;
use record::Batches;

use super::wire::{Answer, Asked, CLUSTER_ID, answer_of, asked};

const START_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What Kafka has written since the log was read last.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Each batch with the place of its end.
    pub(super) batches: Vec<(Vec<MetadataRecord>, Provenance)>,
}

impl Written {
    /// Whether there is no record of metadata.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.iter().all(|(records, _)| records.is_empty())
    }

    /// All records, without the borders of metadata transactions.
    pub(super) fn records(&self) -> Vec<MetadataRecord> {
        let records = self.batches.iter().flat_map(|(records, _)| records);
        records.cloned().collect()
    }
}

/// The process, dropped with its end.
#[derive(Debug)]
pub(super) struct KafkaController {
    child: Child,
    connection: TcpStream,
    correlation_id: i32,
    log: PathBuf,
    read_bytes: u64,
}

impl KafkaController {
    /// Starts one in the directory `dir`, which is cleared first.
    pub(super) fn start(java: &Java, dir: &Path, features: &[&str]) -> Result<Self> {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        fs::create_dir_all(dir)?;
        let port = free_port(0)?;
        let data = dir.join("data");
        let properties = dir.join("controller.properties");
        fs::write(&properties, properties_of(port, &data))?;
        let mut format = java.command("kafka.tools.StorageTool");
        format.args(["format", "-t", CLUSTER_ID]);
        for feature in features {
            format.args(["--feature", feature]);
        }
        run_quietly(format.arg("-c").arg(&properties)).context("Kafka's StorageTool failed")?;
        let mut command = java.command_with("kafka.Kafka", &["-Xms256m", "-Xmx512m"]);
        let output = File::create(dir.join("controller.log"))?;
        let mut child = command
            .arg(&properties)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let connection = connect(port);
        if connection.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let mut controller = Self {
            connection: connection?,
            child,
            correlation_id: 0,
            log: data.join("__cluster_metadata-0/00000000000000000000.log"),
            read_bytes: 0,
        };
        controller.wait_until_active()?;
        Ok(controller)
    }

    /// It writes what a new cluster begins with, and its own registration.
    fn wait_until_active(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        let mut is_registered = false;
        while !is_registered {
            ensure!(Instant::now() < deadline, "the controller is not active");
            thread::sleep(POLL_INTERVAL);
            self.read_bytes = 0;
            let written = self.read_log().unwrap_or_default();
            let mut records = written.records().into_iter();
            is_registered =
                records.any(|record| matches!(record, MetadataRecord::RegisterController(_)));
        }
        self.read_bytes = 0;
        Ok(())
    }

    /// Sends a request and gives its answer.
    pub(super) fn ask(&mut self, request: &ControllerRequest) -> Result<Answer> {
        let Asked { api, version, body } = asked(request);
        let response = self.call(api, version, &body)?;
        answer_of(request, version, &response)
    }

    fn call(&mut self, api: ApiKey, version: i16, body: &[u8]) -> Result<Vec<u8>> {
        self.correlation_id += 1;
        let header = RequestHeader {
            api_key: api as i16,
            api_version: version,
            correlation_id: self.correlation_id,
            client_id: Some("interop"),
        };
        let mut frame = Vec::new();
        let start = begin_frame(&mut frame);
        header.encode(api.is_request_flexible(version), &mut frame);
        frame.extend_from_slice(body);
        finish_frame(&mut frame, start, 0);
        self.connection.write_all(&frame)?;
        let mut size = [0; 4];
        self.connection.read_exact(&mut size)?;
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(size))?];
        self.connection.read_exact(&mut answer)?;
        let mut reader = Reader::new(&answer);
        let header = ResponseHeader::decode(&mut reader, api.response_header_version(version))?;
        ensure!(
            header.correlation_id == self.correlation_id,
            "an answer to another request"
        );
        Ok(reader.remaining().to_vec())
    }

    /// What is in the log beyond what was read before.
    pub(super) fn read_log(&mut self) -> Result<Written> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut written = Written::default();
        for batch in Batches::new(&bytes) {
            // Beyond the end the file is preallocated, or a batch is being written.
            let Ok(batch) = batch else { break };
            self.read_bytes += batch.bytes().len() as u64;
            let mut records = Vec::new();
            if !batch.is_control() {
                read_metadata_records(&batch, |_, record| {
                    records.push(record);
                    Ok::<_, BatchContentError>(())
                })?;
            }
            let at = Provenance {
                last_offset: batch.last_offset(),
                last_epoch: batch.partition_leader_epoch(),
                last_timestamp_ms: batch.max_timestamp(),
            };
            written.batches.push((records, at));
        }
        Ok(written)
    }

    /// Ends the process.
    pub(super) fn stop(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for KafkaController {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(port: u16) -> Result<TcpStream> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + START_LIMIT;
    loop {
        match TcpStream::connect_timeout(&address, ANSWER_LIMIT) {
            Ok(connection) => {
                connection.set_nodelay(true)?;
                connection.set_read_timeout(Some(ANSWER_LIMIT))?;
                return Ok(connection);
            }
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Nothing happens by the clock.
fn properties_of(port: u16, data: &Path) -> String {
    format!(
        "process.roles=controller\nnode.id=3000\n\
         controller.listener.names=CONTROLLER\n\
         controller.quorum.voters=3000@127.0.0.1:{port}\n\
         listeners=CONTROLLER://127.0.0.1:{port}\n\
         log.dirs={}\n\
         metadata.max.idle.interval.ms=0\n\
         broker.session.timeout.ms={}\n\
         broker.heartbeat.interval.ms=1000\n\
         auto.leader.rebalance.enable=false\n\
         unclean.leader.election.interval.ms=36000000\n\
         controller.quorum.append.linger.ms=0\n",
        data.display(),
        super::SESSION.as_millis(),
    )
}
