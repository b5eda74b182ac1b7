//! The controller of this workspace, over what Kafka's has written.

use ::controller::{ActiveController, ControllerContext, ControllerRequest, ControllerResponse};
use anyhow::{Context as _, Result};
use config::{ConfigMap, ServerConfig};
use metadata::{MetadataImage, MetadataLoader, MetadataRecord};
use model::MonotonicTime;
use std::sync::Arc;
use std::time::Instant;

use super::kafka::Written;
use super::wire::{Answer, our_answer};

/// How far apart the two may be in what they know of time.
const CLOCK_MS: i64 = 100;

/// What it has decided.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) answer: Answer,
    pub(super) records: Vec<MetadataRecord>,
}

/// The controller, which appends nothing: the log is Kafka's.
#[derive(Debug)]
pub(super) struct OurController {
    config: ServerConfig,
    loader: MetadataLoader,
    active: ActiveController<()>,
    started: Instant,
    now: MonotonicTime,
}

impl OurController {
    /// A controller of the cluster that Kafka has begun.
    pub(super) fn new(written: &Written) -> Result<Self> {
        let session_ms = super::SESSION.as_millis().to_string();
        let pairs = [
            ("process.roles", "controller"),
            ("node.id", "3000"),
            ("controller.listener.names", "CONTROLLER"),
            ("controller.quorum.voters", "3000@127.0.0.1:9093"),
            ("listeners", "CONTROLLER://127.0.0.1:9093"),
            ("log.dirs", "/nowhere"),
            ("auto.leader.rebalance.enable", "false"),
            ("unclean.leader.election.interval.ms", "36000000"),
            ("metadata.max.idle.interval.ms", "0"),
            ("broker.session.timeout.ms", &session_ms),
            ("broker.heartbeat.interval.ms", "1000"),
        ];
        let given: ConfigMap = pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let config = ServerConfig::read(&given)
            .map_err(|errors| anyhow::anyhow!("{errors:?}"))
            .context("the configuration")?;
        let mut loader = MetadataLoader::default();
        replay(&mut loader, written)?;
        let image = Arc::new(loader.image().clone());
        let end_offset = image.provenance.last_offset + 1;
        let context = ControllerContext::new(&config);
        let active =
            ActiveController::new(image, 0, end_offset, &context, MonotonicTime::from_ms(0));
        Ok(Self {
            config,
            loader,
            active,
            started: Instant::now(),
            now: MonotonicTime::MIN,
        })
    }

    /// What Kafka has made of its cluster.
    pub(super) fn image(&self) -> &MetadataImage {
        self.loader.image()
    }

    /// Decides about a request of which Kafka has made `written`, from which ids are drawn, and goes on over
    /// what that says.
    pub(super) fn decide(
        &mut self,
        request: &ControllerRequest,
        written: &Written,
    ) -> Result<Found> {
        let now = self.now();
        let context = ControllerContext::new(&self.config);
        let records = written.records();
        let mut ids = records.iter().filter_map(|record| match record {
            MetadataRecord::Topic { topic_id, .. } => Some(topic_id.to_bytes()),
            _ => None,
        });
        let mut drawn = 0_u128;
        let mut random = || {
            drawn += 1 << 70;
            ids.next().unwrap_or_else(|| drawn.to_be_bytes())
        };
        let proposal = self.active.propose(request, (), &context, now, &mut random);
        let answers = self.follow(written, !proposal.is_empty())?;
        let ((), response) = answers.into_iter().next_back().context("an answer")?;
        Ok(Found {
            answer: our_answer(&response),
            records: proposal.records,
        })
    }

    /// What is decided by itself, where Kafka has written something that changes the metadata, or nothing.
    pub(super) fn decide_task(
        &mut self,
        written: &Written,
        is_change: bool,
    ) -> Result<Vec<MetadataRecord>> {
        // Kafka has noted each contact a little later or earlier.
        let now = self.now().plus_ms(CLOCK_MS);
        let context = ControllerContext::new(&self.config);
        let proposal = match is_change {
            true => self.active.propose_task(&context, now),
            false => None,
        };
        self.follow(written, proposal.is_some())?;
        Ok(proposal
            .map(|proposal| proposal.records)
            .unwrap_or_default())
    }

    fn follow(
        &mut self,
        written: &Written,
        is_proposed: bool,
    ) -> Result<Vec<((), ControllerResponse)>> {
        replay(&mut self.loader, written)?;
        let image = Arc::new(self.loader.image().clone());
        let end_offset = image.provenance.last_offset + 1;
        self.active.appended(image, 0, end_offset);
        if is_proposed {
            self.active.accepted();
        }
        Ok(self.active.committed(end_offset))
    }

    /// Never twice the same: Kafka counts nanoseconds.
    fn now(&mut self) -> MonotonicTime {
        let elapsed = MonotonicTime::from_ms(self.started.elapsed().as_millis() as i64);
        self.now = elapsed.max(self.now.plus_ms(1));
        self.now
    }
}

/// What a reader of a difference wants to know of the image before it.
pub(super) fn describe(image: &MetadataImage) -> String {
    let mut text = String::new();
    for broker in image.cluster.brokers().values() {
        text += &format!(
            "broker {} epoch {} fenced {} shutting down {} directories {:?} cordoned {:?}\n",
            broker.id,
            broker.epoch,
            broker.is_fenced,
            broker.is_in_controlled_shutdown,
            broker.directories,
            broker.cordoned_directories
        );
    }
    for topic in image.topics.iter() {
        let configs = image.configs.of_topic(&topic.name);
        text += &format!("topic {} {} {configs:?}\n", topic.name, topic.id);
        for (id, partition) in topic.partitions.iter() {
            text += &format!("  {id} {partition:?}\n");
        }
    }
    text
}

fn replay(loader: &mut MetadataLoader, written: &Written) -> Result<()> {
    for (records, at) in &written.batches {
        for record in records {
            loader.replay(record, *at)?;
        }
        loader.advance(*at);
    }
    Ok(())
}
