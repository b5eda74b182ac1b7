//! Error handlers: whether a task goes on without a record, and what of it goes to a dead-letter topic (KIP-1034).

use super::{Origin, Partitioning, ProducedRecord, TaskId};
use crate::headers::Headers;
use crate::record::RecordContext;
use bytes::Bytes;
use riverrun_client::ErrorCode;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The record that something went wrong with, and where it was.
#[derive(Debug, Clone, Copy)]
pub struct ErrorContext<'a> {
    /// The task.
    pub task_id: TaskId,
    /// The node of the topology.
    pub node: &'a str,
    /// Topic, partition, offset; timestamp and headers of what was forwarded.
    pub record: &'a RecordContext,
    /// The key as it came; none in a punctuation.
    pub raw_key: Option<&'a Bytes>,
    /// The value as it came; none in a punctuation.
    pub raw_value: Option<&'a Bytes>,
}

/// What a handler decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandlerResponse {
    /// The task goes on without the record; else it fails.
    pub resume: bool,
    /// Records to write.
    pub dead_letters: Vec<ProducedRecord>,
}

impl HandlerResponse {
    /// Go on without the record.
    pub const fn resume() -> Self {
        Self {
            resume: true,
            dead_letters: Vec::new(),
        }
    }

    /// Fail.
    pub const fn fail() -> Self {
        Self {
            resume: false,
            dead_letters: Vec::new(),
        }
    }
}

/// What to do about a record that the producer could not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProductionResponse {
    /// As for any other error.
    Respond(HandlerResponse),
    /// The task reads its input again from its last commit; only for errors that may pass.
    Retry,
}

/// Asked about a record of an input topic that a serde cannot read.
pub trait DeserializationHandler: Send + Sync {
    /// Decides.
    fn handle(&self, context: &ErrorContext<'_>, error: &(dyn Error + 'static)) -> HandlerResponse;
}

/// Asked about a record that a node could not process (KIP-1033).
pub trait ProcessingHandler: Send + Sync {
    /// Decides.
    fn handle(&self, context: &ErrorContext<'_>, error: &(dyn Error + 'static)) -> HandlerResponse;
}

/// Asked about a record that could not be written.
pub trait ProductionHandler: Send + Sync {
    /// Decides about a record that the producer could not send.
    fn handle(
        &self,
        context: &ErrorContext<'_>,
        record: &ProducedRecord,
        error: &(dyn Error + 'static),
    ) -> ProductionResponse;

    /// Decides about a record for `topic` that a serde could not write.
    fn handle_serialization(
        &self,
        context: &ErrorContext<'_>,
        topic: &str,
        error: &(dyn Error + 'static),
    ) -> HandlerResponse;
}

/// Where built-in handlers send what could not be processed: a topic, or nowhere.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterTopic(pub Option<Arc<str>>);

impl DeadLetterTopic {
    fn records(
        &self,
        context: &ErrorContext<'_>,
        error: &(dyn Error + 'static),
    ) -> Vec<ProducedRecord> {
        let Self(Some(topic)) = self else {
            return Vec::new();
        };
        let mut headers: Headers = context.record.headers.clone();
        let place = &context.record;
        // A punctuation has no topic.
        let origin = (!place.topic.is_empty()).then(|| place.topic.to_string());
        for (name, value) in [
            ("exception", Some(error_name(error))),
            ("message", Some(error.to_string())),
            ("stacktrace", Some(causes(error))),
            ("topic", origin),
            ("partition", Some(place.partition.to_string())),
            ("offset", Some(place.offset.to_string())),
        ] {
            let value = value.map(|value| Bytes::from(value.into_bytes()));
            headers.add(format!("__streams.errors.{name}"), value);
        }
        vec![ProducedRecord {
            topic: Arc::clone(topic),
            partitioning: Partitioning::ByKey,
            key: context.raw_key.cloned(),
            value: context.raw_value.cloned(),
            timestamp_ms: Some(context.record.timestamp_ms),
            headers,
            origin: Origin::DeadLetter,
            cause: context.record.clone(),
        }]
    }
}

/// The first word that an error's debug output has: the name of its type, as a rule.
fn error_name(error: &(dyn Error + 'static)) -> String {
    let debug = format!("{error:?}");
    let end = debug
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':')
        .unwrap_or(debug.len());
    match end {
        0 => "Error".to_owned(),
        end => debug[..end].to_owned(),
    }
}

fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str("\ncaused by: ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Whether a record that could not be written may be written later. A topic that is not there is told instead.
pub(crate) fn may_pass(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<riverrun_client::Error>();
    error.is_some_and(|error| {
        error.is_retriable()
            && !matches!(
                error,
                riverrun_client::Error::Refused {
                    code: ErrorCode::UnknownTopicOrPartition,
                    ..
                }
            )
    })
}

/// Fails at the first error: the default of every handler. A record that could not be written for a reason that may
/// pass is no such error: what was processed since the last commit is processed again (KIP-1065).
#[derive(Debug, Clone, Default)]
pub struct LogAndFail(pub DeadLetterTopic);

/// Goes on without what could not be read, processed or written.
#[derive(Debug, Clone, Default)]
pub struct LogAndContinue(pub DeadLetterTopic);

/// Says that the application goes on without a record.
fn log_left_out(context: &ErrorContext<'_>, what: &str, error: &(dyn Error + 'static)) {
    let record = context.record;
    tracing::warn!(
        task = %context.task_id,
        node = context.node,
        topic = &*record.topic,
        partition = record.partition,
        offset = record.offset,
        %error,
        "{what}; the application goes on without it"
    );
}

macro_rules! built_in_handler {
    ($($handler:ident: $resume:expr;)*) => {$(
        impl $handler {
            fn respond(
                &self,
                context: &ErrorContext<'_>,
                what: &str,
                error: &(dyn Error + 'static),
            ) -> HandlerResponse {
                // An error that ends the thread is logged by it.
                if $resume {
                    log_left_out(context, what, error);
                }
                HandlerResponse {
                    resume: $resume,
                    dead_letters: self.0.records(context, error),
                }
            }
        }

        impl DeserializationHandler for $handler {
            fn handle(
                &self,
                context: &ErrorContext<'_>,
                error: &(dyn Error + 'static),
            ) -> HandlerResponse {
                self.respond(context, "a record cannot be read", error)
            }
        }

        impl ProcessingHandler for $handler {
            fn handle(
                &self,
                context: &ErrorContext<'_>,
                error: &(dyn Error + 'static),
            ) -> HandlerResponse {
                self.respond(context, "a record cannot be processed", error)
            }
        }

        impl ProductionHandler for $handler {
            fn handle(
                &self,
                context: &ErrorContext<'_>,
                _: &ProducedRecord,
                error: &(dyn Error + 'static),
            ) -> ProductionResponse {
                if !$resume && may_pass(error) {
                    return ProductionResponse::Retry;
                }
                let what = "what came of a record cannot be written";
                ProductionResponse::Respond(self.respond(context, what, error))
            }

            fn handle_serialization(
                &self,
                context: &ErrorContext<'_>,
                _: &str,
                error: &(dyn Error + 'static),
            ) -> HandlerResponse {
                self.respond(context, "what came of a record cannot be written", error)
            }
        }
    )*};
}

built_in_handler! {
    LogAndFail: false;
    LogAndContinue: true;
}

/// The handlers of an application.
#[derive(Clone)]
pub struct Handlers {
    /// `deserialization.exception.handler`.
    pub deserialization: Arc<dyn DeserializationHandler>,
    /// `processing.exception.handler`.
    pub processing: Arc<dyn ProcessingHandler>,
    /// `production.exception.handler`.
    pub production: Arc<dyn ProductionHandler>,
}

impl Handlers {
    /// Handlers that fail at the first error, and send the record to `dead_letters`.
    pub fn log_and_fail(dead_letters: DeadLetterTopic) -> Self {
        let handler = Arc::new(LogAndFail(dead_letters));
        Self {
            deserialization: Arc::<LogAndFail>::clone(&handler),
            processing: Arc::<LogAndFail>::clone(&handler),
            production: handler,
        }
    }

    /// Handlers that go on, and send the record to `dead_letters`.
    pub fn log_and_continue(dead_letters: DeadLetterTopic) -> Self {
        let handler = Arc::new(LogAndContinue(dead_letters));
        Self {
            deserialization: Arc::<LogAndContinue>::clone(&handler),
            processing: Arc::<LogAndContinue>::clone(&handler),
            production: handler,
        }
    }
}

impl Default for Handlers {
    fn default() -> Self {
        Self::log_and_fail(DeadLetterTopic::default())
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use riverrun_client::{Error as ClientError, TopicPartition};
    use tracing::field::{Field, Visit};
    use tracing::{Event, Metadata, span};

    /// What is logged: level and fields.
    #[derive(Clone, Default)]
    struct Logged(Arc<Mutex<String>>);

    impl tracing::Subscriber for Logged {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut logged = self.0.lock();
            *logged += event.metadata().level().as_str();
            event.record(&mut Fields(&mut logged));
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            *self.0 += &format!(" {field}={value:?}");
        }
    }

    #[test]
    fn a_record_that_is_left_out_is_logged_with_its_place() {
        let record = RecordContext {
            topic: Arc::from("lines"),
            partition: 2,
            offset: 7,
            ..RecordContext::of_no_record(0)
        };
        let context = ErrorContext {
            task_id: TaskId {
                subtopology: 0,
                partition: 2,
            },
            node: "source",
            record: &record,
            raw_key: None,
            raw_value: None,
        };
        let logged = Logged::default();
        tracing::subscriber::with_default(logged.clone(), || {
            let handler = LogAndContinue::default();
            let response = DeserializationHandler::handle(&handler, &context, &fmt::Error);
            assert!(response.resume);
            let handler = LogAndFail::default();
            let response = DeserializationHandler::handle(&handler, &context, &fmt::Error);
            assert!(!response.resume);
        });
        assert_eq!(
            *logged.0.lock(),
            "WARN message=a record cannot be read; the application goes on without it task=0_2 node=\"source\" \
             topic=\"lines\" partition=2 offset=7 \
             error=an error occurred when formatting an argument"
        );
    }

    #[test]
    fn a_dead_letter_of_a_punctuation_has_no_topic() {
        let place = RecordContext::of_no_record(7);
        let context = ErrorContext {
            task_id: TaskId {
                subtopology: 0,
                partition: 1,
            },
            node: "node",
            record: &place,
            raw_key: None,
            raw_value: None,
        };
        let letters = DeadLetterTopic(Some(Arc::from("letters"))).records(&context, &fmt::Error);
        assert_eq!(letters[0].timestamp_ms, Some(7));
        let headers = letters[0].headers.iter().map(|header| {
            let value = header.value.as_deref().map(String::from_utf8_lossy);
            (&*header.key, value.map(String::from))
        });
        let headers: Vec<_> = headers.skip(3).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            headers,
            [
                ("__streams.errors.topic", None),
                ("__streams.errors.partition", text("-1")),
                ("__streams.errors.offset", text("-1")),
            ]
        );
    }

    #[test]
    fn a_dead_letter_has_the_headers_of_its_record() {
        let mut place = RecordContext::of_no_record(7);
        place.headers.add("own", Some(Bytes::from_static(b"1")));
        let raw = Bytes::from_static(b"raw");
        let context = ErrorContext {
            task_id: TaskId {
                subtopology: 0,
                partition: 1,
            },
            node: "node",
            record: &place,
            raw_key: Some(&raw),
            raw_value: None,
        };
        let letters = DeadLetterTopic(Some(Arc::from("letters"))).records(&context, &fmt::Error);
        let letter = &letters[0];
        assert_eq!((&letter.key, &letter.value), (&Some(raw.clone()), &None));
        let keys: Vec<&str> = letter.headers.iter().map(|header| &*header.key).collect();
        let added = [
            "exception",
            "message",
            "stacktrace",
            "topic",
            "partition",
            "offset",
        ];
        let added = added.map(|name| format!("__streams.errors.{name}"));
        assert_eq!(keys[0], "own");
        assert_eq!(keys[1..], added);
    }

    #[test]
    fn by_default_what_may_be_written_later_is_tried_again() {
        let refused = |code| ClientError::Refused {
            subject: String::new(),
            code,
            message: None,
        };
        let late = ClientError::DeliveryTimedOut {
            partition: TopicPartition::new("words", 0),
            record_count: 1,
            waited_ms: 120_000,
            timeout_ms: 120_000,
            attempts: 1,
            reason: String::new(),
        };
        assert!(may_pass(&late));
        assert!(may_pass(&refused(ErrorCode::NotLeaderOrFollower)));
        assert!(!may_pass(&refused(ErrorCode::UnknownTopicOrPartition)));
        assert!(!may_pass(&refused(ErrorCode::MessageTooLarge)));
        assert!(!may_pass(&fmt::Error));
    }
}
