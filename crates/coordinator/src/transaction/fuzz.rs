//! Any bytes as a log: loading it, and living with what was loaded, must do no harm.

use super::{
    DecisionContext, EndTransaction, InitProducerId, ListTransactions, TransactionConfig,
    TransactionShard,
};
use model::{Now, ProducerId, Reader};

/// Replays a list of records, each a key and a value with a byte for its length; a length of 255
/// is a tombstone. Then markers are written, producers come and time passes.
pub fn fuzz_replay(bytes: &[u8]) {
    let mut shard = TransactionShard::new(TransactionConfig::default());
    let now = Now::at_ms(i64::MAX / 2);
    let mut reader = Reader::new(bytes);
    while let Some((key, value)) = next_record(&mut reader) {
        // A damaged record is an error, which is as good as none here.
        let _ = shard.replay(now, key, value);
    }
    let context = DecisionContext {
        now,
        transaction_version: 2,
        fresh_producer_id: Some(ProducerId(1)),
    };
    for prepared in shard.prepared() {
        let id = &prepared.transactional_id;
        let done = shard.complete(id, prepared.producer, &context);
        assert!(done.reply, "what is prepared can be completed");
    }
    let listed = shard.list(&ListTransactions::default(), now.wall_ms);
    for transaction in &listed {
        let transactional_id = &*transaction.transactional_id;
        let _ = shard.describe(transactional_id);
        let _ = shard.abort_timed_out(transactional_id, &context);
        let _ = shard.init_producer_id(
            &InitProducerId {
                transactional_id,
                timeout_ms: 1,
                enables_two_phase_commit: false,
                keeps_prepared_transaction: false,
                expected: None,
            },
            &context,
        );
        if let Some(entry) = shard.transactions.get(transactional_id) {
            let producer = entry.stored.producer();
            let _ = shard.end_transaction(
                &EndTransaction {
                    transactional_id,
                    producer,
                    committed: true,
                    client_transaction_version: 2,
                },
                &context,
            );
        }
    }
    let _ = shard.expire_ids(now);
}

fn next_record<'a>(reader: &mut Reader<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let key_length = reader.i8().ok()?.cast_unsigned();
    let key = reader.take(usize::from(key_length)).ok()?;
    let value = match reader.i8().ok()?.cast_unsigned() {
        u8::MAX => None,
        length => Some(reader.take(usize::from(length)).ok()?),
    };
    Some((key, value))
}
