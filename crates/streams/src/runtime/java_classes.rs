//! What the names of Kafka Streams' own classes stand for in a configuration. There are no others here: a class of an
//! application is Java's.

use super::ConfigError;
use super::config_error::invalid;
use crate::processor::{DeadLetterTopic, DefaultTimestampExtractor, Handlers};
use crate::state::StoreType;
use std::collections::BTreeMap;
use std::sync::Arc;

const ERRORS: &str = "org.apache.kafka.streams.errors.";
const PROCESSOR: &str = "org.apache.kafka.streams.processor.";
const STATE: &str = "org.apache.kafka.streams.state.";

/// The class without its package, if it is one of Kafka Streams'; a name without a package is taken for one.
fn own_name<'a>(class: &'a str, package: &str) -> &'a str {
    let class = class.trim();
    class.strip_prefix(package).unwrap_or(class)
}

fn not_found(key: &str, class: &str) -> ConfigError {
    invalid(key, class, &format!("Class {class} could not be found."))
}

/// The exception handlers. What goes wrong goes to the dead-letter topic whether a handler goes on or fails.
pub(super) fn handlers(pairs: &BTreeMap<&str, &str>) -> Result<Handlers, ConfigError> {
    let topic = pairs.get("errors.dead.letter.queue.topic.name");
    let topic = topic.filter(|topic| !topic.is_empty());
    let dead_letters = DeadLetterTopic(topic.map(|topic| Arc::from(*topic)));
    let go_on = Handlers::log_and_continue(dead_letters.clone());
    let mut handlers = Handlers::log_and_fail(dead_letters);
    // The key without `default.` counts more.
    let goes_on = |keys: &[&str], to_go_on: Option<&str>, to_fail: &str| {
        let mut goes_on = false;
        for key in keys {
            let Some(class) = pairs.get(key) else {
                continue;
            };
            goes_on = match own_name(class, ERRORS) {
                name if Some(name) == to_go_on => true,
                name if name == to_fail => false,
                _ => return Err(not_found(key, class)),
            };
        }
        Ok(goes_on)
    };
    if goes_on(
        &[
            "default.deserialization.exception.handler",
            "deserialization.exception.handler",
        ],
        Some("LogAndContinueExceptionHandler"),
        "LogAndFailExceptionHandler",
    )? {
        handlers.deserialization = go_on.deserialization;
    }
    if goes_on(
        &["processing.exception.handler"],
        Some("LogAndContinueProcessingExceptionHandler"),
        "LogAndFailProcessingExceptionHandler",
    )? {
        handlers.processing = go_on.processing;
    }
    // Kafka Streams has no other one for records that cannot be written.
    goes_on(
        &[
            "default.production.exception.handler",
            "production.exception.handler",
        ],
        None,
        "DefaultProductionExceptionHandler",
    )?;
    Ok(handlers)
}

/// `default.timestamp.extractor`.
pub(super) fn timestamp_extractor(
    key: &str,
    class: &str,
) -> Result<DefaultTimestampExtractor, ConfigError> {
    DefaultTimestampExtractor::of_class(own_name(class, PROCESSOR))
        .ok_or_else(|| not_found(key, class))
}

/// `dsl.store.suppliers.class`.
pub(super) fn store_suppliers(key: &str, class: &str) -> Result<StoreType, ConfigError> {
    match own_name(class, STATE) {
        "BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers" => Ok(StoreType::Persistent),
        "BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers" => Ok(StoreType::InMemory),
        _ => Err(not_found(key, class)),
    }
}
