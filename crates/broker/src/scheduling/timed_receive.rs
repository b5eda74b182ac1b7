//! Receiving on a thread of its own, until a time at most. It needs no runtime, which may end before the
//! thread does.

use super::clock::monotonic;
use model::MonotonicTime;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received<T> {
    /// A message.
    Message(T),
    /// Nothing, until the time.
    Nothing,
    /// Nothing any more: nobody can send.
    End,
}

/// Waits for a message, until a time at most if there is one. It may say a little early that nothing came.
pub(crate) fn receive_until<T>(
    messages: &mut Receiver<T>,
    at: Option<MonotonicTime>,
) -> Received<T> {
    let Some(at) = at else {
        let message = messages.blocking_recv();
        return message.map_or(Received::End, Received::Message);
    };
    let waker = Waker::from(Arc::new(Unparker(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match messages.poll_recv(&mut context) {
            Poll::Ready(Some(message)) => return Received::Message(message),
            Poll::Ready(None) => return Received::End,
            Poll::Pending => {}
        }
        let left_ms = at.ms_since(monotonic());
        match u64::try_from(left_ms) {
            Ok(left_ms @ 1..) => std::thread::park_timeout(Duration::from_millis(left_ms)),
            _ => return Received::Nothing,
        }
    }
}

struct Unparker(Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::channel;

    fn in_ms(ms: i64) -> Option<MonotonicTime> {
        Some(monotonic().plus_ms(ms))
    }

    #[test]
    fn a_message_ends_the_wait_and_so_does_the_time() {
        let (sender, mut messages) = channel(4);
        assert_eq!(receive_until(&mut messages, in_ms(1)), Received::Nothing);
        assert_eq!(receive_until(&mut messages, in_ms(-5)), Received::Nothing);
        let sending = sender.clone();
        let thread = std::thread::spawn(move || sending.blocking_send(7));
        let far = in_ms(3_600_000);
        assert_eq!(receive_until(&mut messages, far), Received::Message(7));
        let _ = thread.join();
        sender.try_send(8).expect("room");
        assert_eq!(receive_until(&mut messages, None), Received::Message(8));
        let thread = std::thread::spawn(move || drop(sender));
        assert_eq!(receive_until(&mut messages, far), Received::End);
        assert_eq!(receive_until(&mut messages, None), Received::End);
        let _ = thread.join();
    }
}
