//! ListTransactions: v0–2. The transactional ids of this broker (KIP-664).
//!
//! - Version 1 lists those that run longer than so many milliseconds (KIP-994), version 2 those
//!   whose id is wholly of a pattern (KIP-1152).
//! - A state that is none is told apart; a pattern that is none is INVALID_REGULAR_EXPRESSION.
//! - Patterns know no Unicode classes (`\p{…}`); Kafka's do. One that takes much memory is refused.

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use coordinator::transaction::{ListTransactions, ListedTransaction};
use model::{DecodeError, ErrorCode, ProducerId};
use regex_lite::{Regex, RegexBuilder};
use wire::messages::list_transactions_response::TransactionState;
use wire::messages::{ListTransactionsRequest, ListTransactionsResponse};

/// What a pattern may take: the time that it takes for an id is in proportion to it. To match takes
/// as much again for each group, so one with many groups may take less itself.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ListTransactionsRequest<'_> = request.decode()?;
    let filter = ListTransactions {
        states: message.state_filters.iter().collect(),
        producer_ids: message.producer_id_filters.iter().map(ProducerId).collect(),
        duration_ms: message.duration_filter,
    };
    let unknown_states: Vec<&str> = filter.unknown_states().collect();
    let (listed, error) = match list(broker, &filter, message.transactional_id_pattern).await {
        Ok(listed) => (listed, ErrorCode::None),
        Err(error) => (Vec::new(), error),
    };
    request.room(broker).await;
    let states = listed.iter().map(|one| TransactionState {
        transactional_id: &one.transactional_id,
        producer_id: one.producer_id.0,
        transaction_state: one.state.name(),
    });
    let unknown_states = unknown_states.into_iter().filter(|_| error.is_none());
    let response = ListTransactionsResponse {
        error_code: error.code(),
        unknown_state_filters: unknown_states.collect(),
        transaction_states: states.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn list(
    broker: &Broker,
    filter: &ListTransactions<'_>,
    pattern: Option<&str>,
) -> Result<Vec<ListedTransaction>, ErrorCode> {
    let listed = broker.coordinators.transactions.list(filter).await?;
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
        return Ok(listed);
    };
    let whole = whole(pattern).map_err(|_| ErrorCode::InvalidRegularExpression)?;
    let mut matching = Vec::new();
    let mut turn = Turn::begin();
    for one in listed {
        if whole.is_match(&one.transactional_id) {
            matching.push(one);
        }
        turn.share().await;
    }
    Ok(matching)
}

/// The pattern, for whole ids.
fn whole(pattern: &str) -> Result<Regex, regex_lite::Error> {
    let build = |pattern: &str, bytes_max| {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(bytes_max).build()
    };
    // What is no pattern by itself is none in brackets either.
    let group_count = build(pattern, PATTERN_BYTES_MAX)?.captures_len();
    build(&format!("^(?:{pattern})$"), PATTERN_BYTES_MAX / group_count)
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn many_groups_and_a_large_pattern_do_not_go_together() {
        let many = "(a)".repeat(50);
        assert!(whole(&many).is_ok());
        assert!(whole(&"a".repeat(10_000)).is_ok());
        assert!(whole(&"()".repeat(4_000)).is_err());
        assert!(whole(&format!("{many}{}", "a".repeat(10_000))).is_err());
    }
}
