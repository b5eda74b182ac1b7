//! ListTransactions: v0–2. The transactional ids of this broker (KIP-664).
//!
//! - Version 1 lists those that run longer than so many milliseconds (KIP-994), version 2 those
//!   whose id is wholly of a pattern (KIP-1152).
//! - A state that is none is told apart; a pattern that is none is INVALID_REGULAR_EXPRESSION.
//! - Patterns know no Unicode classes (`\p{…}`); Kafka's do.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use coordinator::transaction::{ListTransactions, ListedTransaction};
use model::{DecodeError, ErrorCode};
use regex_lite::Regex;
use wire::messages::list_transactions_response::TransactionState;
use wire::messages::{ListTransactionsRequest, ListTransactionsResponse};

pub(crate) fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: ListTransactionsRequest<'_> = request.decode()?;
    let filter = ListTransactions {
        states: message.state_filters.iter().collect(),
        producer_ids: message.producer_id_filters.iter().collect(),
        duration_ms: message.duration_filter,
    };
    let unknown_states: Vec<&str> = filter.unknown_states().collect();
    let (listed, error) = match list(broker, &filter, message.transactional_id_pattern) {
        Ok(listed) => (listed, ErrorCode::None),
        Err(error) => (Vec::new(), error),
    };
    let states = listed.iter().map(|one| TransactionState {
        transactional_id: &one.transactional_id,
        producer_id: one.producer_id,
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

fn list(
    broker: &Broker,
    filter: &ListTransactions<'_>,
    pattern: Option<&str>,
) -> Result<Vec<ListedTransaction>, ErrorCode> {
    let mut listed = broker.transactions.list(filter)?;
    if let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) {
        let whole = Regex::new(pattern).and_then(|_| Regex::new(&format!("^(?:{pattern})$")));
        let whole = whole.map_err(|_| ErrorCode::InvalidRegularExpression)?;
        listed.retain(|one| whole.is_match(&one.transactional_id));
    }
    Ok(listed)
}
