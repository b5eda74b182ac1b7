//! Requests in flight, and the frames that answer them.
//!
//! Pure: what leaves is told, bytes come in, and out come answers with the reply that each is for. `R` is
//! how a caller is replied to; nothing here replies.

use crate::frames::{Input, body_of};
use crate::throttle::throttle_ms;
use crate::{Deadline, Error, Response};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::Instant;
use wire::ApiKey;

/// The first correlation id; lower ones are of the requests that make a connection.
const FIRST_CORRELATION_ID: i32 = 1 << 8;

/// A request whose answer has not come.
#[derive(Debug)]
pub(crate) struct InFlight<R> {
    /// As [`Pipeline::take_correlation_id`] gave it.
    pub(crate) correlation_id: i32,
    /// What it asks.
    pub(crate) api: ApiKey,
    /// The version of request and answer.
    pub(crate) version: i16,
    /// When it is to be answered.
    pub(crate) deadline: Deadline,
    /// Whom to reply to.
    pub(crate) reply: R,
}

/// The requests in flight, oldest first, and what has arrived for them.
#[derive(Debug)]
pub(crate) struct Pipeline<R> {
    address: Arc<str>,
    input: Input,
    in_flight: VecDeque<InFlight<R>>,
    next_correlation_id: i32,
    /// The longest time that answers since the last look ask for nothing more to be sent.
    throttle_ms: u64,
}

/// The requests whose deadlines have come.
#[derive(Debug)]
pub(crate) struct Late<R> {
    /// Whom to reply to, and what.
    pub(crate) replies: Vec<(R, Error)>,
    /// What it means for all others: the connection ends.
    pub(crate) end: Error,
}

impl<R> Pipeline<R> {
    /// Nothing is in flight; `input` may hold bytes that have arrived already.
    pub(crate) const fn new(address: Arc<str>, input: Input) -> Self {
        Self {
            address,
            input,
            in_flight: VecDeque::new(),
            next_correlation_id: FIRST_CORRELATION_ID,
            throttle_ms: 0,
        }
    }

    /// The bytes that have arrived.
    pub(crate) const fn input(&mut self) -> &mut Input {
        &mut self.input
    }

    /// How many requests are in flight.
    pub(crate) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// The id of the next request that leaves, with an answer or without.
    pub(crate) fn take_correlation_id(&mut self) -> i32 {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
        correlation_id
    }

    /// Takes a request that is about to be written and will be answered.
    pub(crate) fn handle_sent(&mut self, sent: InFlight<R>) {
        self.in_flight.push_back(sent);
    }

    /// The next answer that has arrived whole, and whom it is for.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a frame that is not the answer to the oldest request in flight.
    pub(crate) fn poll_answer(&mut self) -> Result<Option<(R, Response)>, Error> {
        let malformed = |reason: String| Error::Malformed {
            address: self.address.to_string(),
            reason,
        };
        let Some(frame) = self.input.next_frame().map_err(malformed)? else {
            return Ok(None);
        };
        let Some(oldest) = self.in_flight.front() else {
            return Err(malformed("an answer that nothing was asked for".to_owned()));
        };
        let body: Bytes =
            body_of(frame, oldest.api, oldest.version, oldest.correlation_id).map_err(malformed)?;
        let throttle_ms = throttle_ms(oldest.api, oldest.version, &body);
        self.throttle_ms = self.throttle_ms.max(throttle_ms);
        let oldest = self.in_flight.pop_front().expect("it is the front");
        let answer = Response::new(self.address.clone(), oldest.version, body);
        Ok(Some((oldest.reply, answer)))
    }

    /// How long nothing more is to be sent, in ms, as the answers since the last call say.
    pub(crate) const fn take_throttle_ms(&mut self) -> u64 {
        std::mem::replace(&mut self.throttle_ms, 0)
    }

    /// When the first of the requests in flight should have been answered.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.in_flight.iter().map(|sent| sent.deadline.at()).min()
    }

    /// The requests whose deadline has come by `now`, if there are any.
    pub(crate) fn handle_deadline(&mut self, now: Instant) -> Option<Late<R>> {
        let is_late = |sent: &InFlight<R>| sent.deadline.at() <= now;
        let first = self.in_flight.iter().find(|sent| is_late(sent))?;
        let end = Error::Disconnected {
            address: self.address.to_string(),
            reason: format!(
                "{} got no answer within {} ms, and so nothing after it",
                first.api,
                first.deadline.waited_ms_at(now)
            ),
        };
        let (late, rest) = self.in_flight.drain(..).partition(is_late);
        self.in_flight = rest;
        let late: VecDeque<InFlight<R>> = late;
        let replies = late.into_iter().map(|sent| {
            let operation = sent.api.to_string();
            let error = sent.deadline.error_at(now, operation, &*self.address);
            (sent.reply, error)
        });
        Some(Late {
            replies: replies.collect(),
            end,
        })
    }

    /// Whom to reply to of the requests in flight, which get no answer any more.
    pub(crate) fn handle_end(&mut self) -> impl Iterator<Item = R> {
        self.in_flight.drain(..).map(|sent| sent.reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SettingNames;
    use bytes::BufMut as _;

    const API: ApiKey = ApiKey::Heartbeat;

    fn pipeline() -> Pipeline<&'static str> {
        let names = SettingNames {
            addresses: "",
            request_timeout: "",
            setup_timeout: "",
            idle_max: "",
            response_bytes_max: "",
        };
        Pipeline::new("one:9092".into(), Input::new(1_000, names))
    }

    /// Tells of a request, and returns its correlation id.
    fn send(pipeline: &mut Pipeline<&'static str>, reply: &'static str, timeout_ms: u64) -> i32 {
        let correlation_id = pipeline.take_correlation_id();
        pipeline.handle_sent(InFlight {
            correlation_id,
            api: API,
            version: 1,
            deadline: Deadline::after_ms(timeout_ms, "timeout"),
            reply,
        });
        correlation_id
    }

    /// An answer arrives: its correlation id, how long to hold back, and a byte.
    fn arrive(
        pipeline: &mut Pipeline<&'static str>,
        correlation_id: i32,
        throttle_ms: i32,
        byte: u8,
    ) {
        let room = pipeline.input().room();
        room.put_u32(4 + 4 + 1);
        room.put_i32(correlation_id);
        room.put_i32(throttle_ms);
        room.put_u8(byte);
    }

    #[test]
    fn each_answer_is_for_the_oldest_request() {
        let mut pipeline = pipeline();
        let ids = ["a", "b", "c"].map(|reply| send(&mut pipeline, reply, 1_000));
        assert_eq!(ids, [256, 257, 258]);
        arrive(&mut pipeline, ids[0], 30, 1);
        arrive(&mut pipeline, ids[1], 20, 2);
        for (reply, byte) in [("a", 1), ("b", 2)] {
            let answered = pipeline.poll_answer().expect("is in order");
            let (to, answer) = answered.expect("has arrived");
            assert_eq!((to, answer.version(), answer.body()[4]), (reply, 1, byte));
        }
        assert!(pipeline.poll_answer().expect("is in order").is_none());
        assert_eq!(pipeline.in_flight_count(), 1);
        // The longest time that any of them asked for, once.
        assert_eq!(pipeline.take_throttle_ms(), 30);
        assert_eq!(pipeline.take_throttle_ms(), 0);
        assert_eq!(pipeline.handle_end().collect::<Vec<_>>(), ["c"]);
        assert_eq!(pipeline.in_flight_count(), 0);
    }

    #[test]
    fn an_answer_to_another_request_is_refused_and_so_is_one_to_none() {
        let mut later = pipeline();
        send(&mut later, "a", 1_000);
        let second = send(&mut later, "b", 1_000);
        arrive(&mut later, second, 0, 1);
        let error = later.poll_answer().expect_err("the first one was next");
        let text = error.to_string();
        assert!(
            text.ends_with("an answer with correlation id 257 where Heartbeat with 256 was next"),
            "{text}"
        );
        assert_eq!(later.handle_end().collect::<Vec<_>>(), ["a", "b"]);

        let mut unasked = pipeline();
        arrive(&mut unasked, 256, 0, 1);
        let error = unasked.poll_answer().expect_err("nothing was asked");
        assert!(
            error.to_string().contains("nothing was asked for"),
            "{error}"
        );
    }

    #[test]
    fn ids_begin_again_and_are_never_negative() {
        let mut pipeline = pipeline();
        pipeline.next_correlation_id = i32::MAX;
        let ids = [(); 3].map(|()| pipeline.take_correlation_id());
        assert_eq!(ids, [i32::MAX, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_late_is_told_that_it_is() {
        let mut pipeline = pipeline();
        send(&mut pipeline, "patient", 1_000);
        send(&mut pipeline, "late", 10);
        let due = pipeline.next_deadline().expect("requests are in flight");
        let just_before = due.checked_sub(std::time::Duration::from_millis(1));
        let just_before = just_before.expect("a time after the start");
        assert!(pipeline.handle_deadline(just_before).is_none());
        let late = pipeline.handle_deadline(due).expect("its time has come");
        let replies: Vec<_> = late
            .replies
            .iter()
            .map(|(to, error)| (*to, error.to_string()))
            .collect();
        let expect = "Heartbeat: no answer from one:9092 within 10 ms (`timeout`)";
        assert_eq!(replies, [("late", expect.to_owned())]);
        assert!(
            matches!(late.end, Error::Disconnected { .. }),
            "{}",
            late.end
        );
        assert_eq!(pipeline.handle_end().collect::<Vec<_>>(), ["patient"]);
    }
}
