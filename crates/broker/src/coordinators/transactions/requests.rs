//! What handlers ask the transaction coordinator.

use super::markers::EndAsker;
use super::{TransactionSlot, Transactions};
use crate::coordinators::Coordinators;
use crate::coordinators::runtime::{Borrowed, PendingResponse, QUICK_PARTITIONS};
use coordinator::transaction::{
    AddPartitions, DecisionContext, DescribedTransaction, EndTransaction, InitProducerId,
    ListTransactions, ListedTransaction, NeedsProducerId, PartitionsToAdd, PreparedTransaction,
    ProducerIdAndEpoch, TransactionDecision, TransactionShard,
};
use coordinator::{Decision, Reply};
use model::{BrokerId, ErrorCode, ProducerEpoch, ProducerId, TopicPartition};
use std::sync::Arc;

/// The version of the protocol in which the leaders of partitions add them.
const ENROLLED_BY_LEADERS: i16 = 2;

/// Who lets a shard decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Authority {
    /// A request, which waits for room.
    Request,
    /// The coordinator itself. It waits for no room: what requests hold may only be given back after it.
    Own,
}

impl Coordinators {
    /// Gives a transactional id to a producer.
    ///
    /// # Errors
    /// What the producer is told.
    pub(crate) async fn init_transactional_id(
        self: &Arc<Self>,
        request: &InitProducerId<'_>,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let id: Arc<str> = Arc::from(request.transactional_id);
        let InitProducerId {
            timeout_ms,
            enables_two_phase_commit,
            keeps_prepared_transaction,
            expected,
            ..
        } = *request;
        self.decide_about(&id.clone(), move |shard, context| {
            let request = InitProducerId {
                transactional_id: &id,
                timeout_ms,
                enables_two_phase_commit,
                keeps_prepared_transaction,
                expected,
            };
            shard.init_producer_id(&request, context)
        })
        .await?
    }

    /// Ends a transaction; gives the producer as it is from then on.
    ///
    /// # Errors
    /// What the producer is told.
    pub(crate) async fn end_transaction(
        self: &Arc<Self>,
        request: &EndTransaction<'_>,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let id: Arc<str> = Arc::from(request.transactional_id);
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let EndTransaction {
            producer,
            committed,
            client_transaction_version,
            ..
        } = *request;
        self.decide_about(&id.clone(), move |shard, context| {
            let request = EndTransaction {
                transactional_id: &id,
                producer,
                committed,
                client_transaction_version,
            };
            shard.end_transaction(&request, context)
        })
        .await?
    }

    /// A transaction whose end was decided in `slot` has all of its markers.
    ///
    /// # Errors
    /// Why the coordinator cannot take note of that.
    pub(super) async fn complete(
        &self,
        slot: &Arc<TransactionSlot>,
        prepared: &PreparedTransaction,
    ) -> Result<bool, ErrorCode> {
        let (id, producer) = (prepared.transactional_id.clone(), prepared.producer);
        let known = self.transactions.runtime.slot_of(&id)?;
        if !Arc::ptr_eq(&known, slot) {
            return Err(ErrorCode::NotCoordinator);
        }
        let (asker, asked) = slot.own_asker();
        let context = self.transactions.context(None);
        let quick_id = id.clone();
        slot.push_quick(&is_quick(&quick_id), move |_, served| {
            served.hosted.decide(asker, None, context.now, |shard, _| {
                Decision::from(shard.complete(&id, producer, &context))
            });
        });
        asked.answer().await
    }

    /// [`Coordinators::decide_for`] a request.
    async fn decide_about<R: Send + 'static>(
        self: &Arc<Self>,
        transactional_id: &str,
        decide: impl Fn(
            &mut TransactionShard,
            &DecisionContext,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>
        + Clone
        + Send
        + 'static,
    ) -> Result<R, ErrorCode> {
        self.decide_for(Authority::Request, transactional_id, decide)
            .await
    }

    /// Lets the shard of a transactional id decide, gives it a producer id if it needs one, and
    /// has the markers written if an end is prepared.
    pub(super) async fn decide_for<R: Send + 'static>(
        self: &Arc<Self>,
        authority: Authority,
        transactional_id: &str,
        decide: impl Fn(
            &mut TransactionShard,
            &DecisionContext,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>
        + Clone
        + Send
        + 'static,
    ) -> Result<R, ErrorCode> {
        let mut fresh_producer_id = None;
        loop {
            let slot = self.transactions.runtime.slot_of(transactional_id)?;
            let none = |_| Err(ErrorCode::UnknownServerError);
            let (asker, asked) = match authority {
                Authority::Request => slot.asker(transactional_id.len(), none).await,
                Authority::Own => slot.own_asker(),
            };
            let asker = EndAsker {
                coordinators: self.clone(),
                transactional_id: Arc::from(transactional_id),
                slot: slot.clone(),
                asker,
            };
            let (coordinators, decide) = (self.clone(), decide.clone());
            slot.push_quick(&is_quick(transactional_id), move |_, served| {
                let context = coordinators.transactions.context(fresh_producer_id);
                served.hosted.decide(asker, None, context.now, |shard, _| {
                    match decide(shard, &context) {
                        Ok(decision) => with_records(decision),
                        Err(needs) => Decision::reply(Err(needs)),
                    }
                });
            });
            match asked.answer().await? {
                Ok(reply) => return Ok(reply),
                Err(NeedsProducerId) => fresh_producer_id = Some(self.next_producer_id().await?),
            }
        }
    }

    /// Makes partitions part of a transaction on behalf of their leaders (KIP-890): the outcome of
    /// each, in their order.
    pub(crate) async fn add_partitions(
        &self,
        transactional_id: &str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: &[TopicPartition],
    ) -> Vec<ErrorCode> {
        let request = AddPartitions {
            transactional_id,
            producer: ProducerIdAndEpoch {
                producer_id,
                producer_epoch,
            },
            partitions,
            client_transaction_version: ENROLLED_BY_LEADERS,
        };
        match self.transactions.coordinator_of(transactional_id) {
            Ok(coordinator) if coordinator == self.node.id => {
                let error = self.transactions.add(&request).await;
                vec![error; partitions.len()]
            }
            Ok(coordinator) => self.ask_coordinator(coordinator, &request, false).await,
            Err(error) => vec![error; partitions.len()],
        }
    }

    /// Whether partitions are part of a transaction: `TransactionAbortable` for one that is not,
    /// in their order.
    pub(crate) async fn verify_partitions(
        &self,
        transactional_id: &str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        partitions: &[TopicPartition],
    ) -> Vec<ErrorCode> {
        let request = AddPartitions {
            transactional_id,
            producer: ProducerIdAndEpoch {
                producer_id,
                producer_epoch,
            },
            partitions,
            client_transaction_version: 0,
        };
        match self.transactions.coordinator_of(transactional_id) {
            Ok(coordinator) if coordinator == self.node.id => {
                let verified = self.transactions.verify(&request).await;
                verified.unwrap_or_else(|error| vec![error; partitions.len()])
            }
            Ok(coordinator) => self.ask_coordinator(coordinator, &request, true).await,
            Err(error) => vec![error; partitions.len()],
        }
    }

    /// Asks another broker, which coordinates the transaction.
    async fn ask_coordinator(
        &self,
        coordinator: BrokerId,
        request: &AddPartitions<'_>,
        is_verify_only: bool,
    ) -> Vec<ErrorCode> {
        let asked = PartitionsToAdd {
            transactional_id: Box::from(request.transactional_id),
            producer: request.producer,
            is_verify_only,
            partitions: request.partitions.to_vec(),
        };
        self.peers().add_partitions(coordinator, asked).all().await
    }
}

/// A decision that says whether it has records.
fn with_records<R, N>(
    decision: TransactionDecision<R>,
) -> Decision<Result<(R, bool), N>, std::convert::Infallible> {
    let decision = Decision::from(decision);
    let has_records = !decision.records.is_empty();
    let Reply::Now(reply) = decision.reply else {
        unreachable!("no transaction waits for another one")
    };
    Decision {
        records: decision.records,
        is_atomic: decision.is_atomic,
        indivisible: decision.indivisible,
        reply: Reply::Now(Ok((reply, has_records))),
        released: decision.released,
    }
}

/// Whether a decision about a transactional id is quick: it writes all that the transaction has.
fn is_quick(transactional_id: &str) -> impl Fn(&TransactionShard) -> bool {
    |shard| shard.has_at_most(transactional_id, QUICK_PARTITIONS)
}

/// How much a request brings.
fn bytes_of(request: &AddPartitions<'_>) -> usize {
    let topics = request.partitions.iter().map(|one| one.topic.len());
    request.transactional_id.len() + size_of_val(request.partitions) + topics.sum::<usize>()
}

/// A request about partitions that outlives its handler.
struct KeptPartitions {
    transactional_id: Box<str>,
    producer: ProducerIdAndEpoch,
    partitions: Vec<TopicPartition>,
    client_transaction_version: i16,
}

impl KeptPartitions {
    fn of(request: &AddPartitions<'_>) -> Self {
        Self {
            transactional_id: Box::from(request.transactional_id),
            producer: request.producer,
            partitions: request.partitions.to_vec(),
            client_transaction_version: request.client_transaction_version,
        }
    }

    fn request(&self) -> AddPartitions<'_> {
        AddPartitions {
            transactional_id: &self.transactional_id,
            producer: self.producer,
            partitions: &self.partitions,
            client_transaction_version: self.client_transaction_version,
        }
    }
}

impl Transactions {
    /// Makes partitions part of a transaction, all or none.
    pub(crate) async fn add(&self, request: &AddPartitions<'_>) -> ErrorCode {
        match self.begin_to_add(request).await {
            Ok(asked) => asked.answer().await.unwrap_or_else(|error| error),
            Err(error) => error,
        }
    }

    /// The same; who asks awaits the answer when all has been asked for that is wanted.
    ///
    /// # Errors
    /// `NotCoordinator` when the partition of the transactional id is not here, and `InvalidRequest` without an
    /// id.
    pub(crate) async fn begin_to_add(
        &self,
        request: &AddPartitions<'_>,
    ) -> Result<PendingResponse<ErrorCode>, ErrorCode> {
        let id = request.transactional_id;
        let slot = self.slot_for(id)?;
        let room = slot.room_for(bytes_of(request)).await;
        let context = self.context(None);
        let question = Borrowed {
            decide: |shard: &mut TransactionShard, now| {
                let context = DecisionContext { now, ..context };
                shard.add_partitions(request, &context).into()
            },
            keep: || {
                let kept = KeptPartitions::of(request);
                move |shard: &mut TransactionShard, now| {
                    let context = DecisionContext { now, ..context };
                    shard.add_partitions(&kept.request(), &context).into()
                }
            },
        };
        Ok(room.decide_quickly(&is_quick(id), None, question))
    }

    /// The outcome for each partition, in their order, once it cannot be lost any more.
    ///
    /// # Errors
    /// The outcome for all.
    pub(crate) async fn verify(
        &self,
        request: &AddPartitions<'_>,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        self.begin_to_verify(request).await?.answer().await?
    }

    /// The same; who asks awaits the answer when all has been asked for that is wanted.
    ///
    /// # Errors
    /// As [`Self::begin_to_add`].
    pub(crate) async fn begin_to_verify(
        &self,
        request: &AddPartitions<'_>,
    ) -> Result<PendingResponse<Result<Vec<ErrorCode>, ErrorCode>>, ErrorCode> {
        let slot = self.slot_for(request.transactional_id)?;
        let room = slot.room_for(bytes_of(request)).await;
        let question = Borrowed {
            decide: |shard: &mut TransactionShard, _| {
                Decision::reply(shard.verify_partitions(request))
            },
            keep: || {
                let kept = KeptPartitions::of(request);
                move |shard: &mut TransactionShard, _| {
                    Decision::reply(shard.verify_partitions(&kept.request()))
                }
            },
        };
        Ok(room.decide_quickly(&|_| true, None, question))
    }

    fn slot_for(&self, transactional_id: &str) -> Result<Arc<TransactionSlot>, ErrorCode> {
        match transactional_id.is_empty() {
            true => Err(ErrorCode::InvalidRequest),
            false => self.runtime.slot_of(transactional_id),
        }
    }

    /// How a transactional id stands.
    ///
    /// # Errors
    /// What the administrator is told.
    pub(crate) async fn describe(
        &self,
        transactional_id: &str,
    ) -> Result<DescribedTransaction, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let slot = self.runtime.slot_of(transactional_id)?;
        let id = transactional_id.to_owned();
        let asked = slot.read(id.len(), move |shard, _| shard.describe(&id));
        asked.await.answer().await?
    }

    /// The transactional ids that pass the filter.
    ///
    /// # Errors
    /// `CoordinatorLoadInProgress` while they are not all known.
    pub(crate) async fn list(
        &self,
        filter: &ListTransactions<'_>,
    ) -> Result<Vec<ListedTransaction>, ErrorCode> {
        let states: Arc<[String]> = filter.states.iter().map(|&state| state.into()).collect();
        let (producer_ids, duration_ms) =
            (Arc::new(filter.producer_ids.clone()), filter.duration_ms);
        let mut asked = Vec::new();
        for slot in self.runtime.all_slots() {
            let (states, producer_ids) = (states.clone(), producer_ids.clone());
            let list = move |shard: &mut TransactionShard, now: model::Now| {
                let filter = ListTransactions {
                    states: states.iter().map(String::as_str).collect(),
                    producer_ids: (*producer_ids).clone(),
                    duration_ms,
                };
                shard.list(&filter, now.wall_ms)
            };
            asked.push(slot.read(0, list).await);
        }
        let mut listed = Vec::new();
        for one in asked {
            match one.answer().await {
                Ok(mut of_slot) => listed.append(&mut of_slot),
                Err(ErrorCode::CoordinatorLoadInProgress) => {
                    return Err(ErrorCode::CoordinatorLoadInProgress);
                }
                // What failed to load is not among the transactions of this coordinator.
                Err(_) => {}
            }
        }
        Ok(listed)
    }
}
