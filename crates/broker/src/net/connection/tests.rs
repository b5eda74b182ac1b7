//! Requests that arrive slowly, on a clock that goes only when the test says so.

use super::*;
use crate::net::RequestMemory;
use crate::net::transport::LEFT_CHECK_INTERVAL;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, yield_now};

const FRAME_BYTES: usize = 300_000;
/// What all requests may take.
const BUDGET_BYTES: u64 = 20_000;
/// What is sent of a frame at first: more than that.
const BEGIN_BYTES: usize = 30_000;
/// How often a slow client sends a byte.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits while the clock stands.
async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < testkit::LIMIT,
            "waited in vain until {what}"
        );
        yield_now().await;
    }
}

/// Runs a test whose clock goes only when it says so. One that computes without an end, and lets nobody
/// look, fails as well.
fn ends(test: impl Future<Output = ()> + Send + 'static) {
    let (end, ended) = mpsc::channel::<()>();
    let running = thread::spawn(move || {
        let _end = end;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(test);
    });
    let ended = ended.recv_timeout(2 * testkit::LIMIT);
    assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "it hangs");
    if let Err(panic) = running.join() {
        resume_unwind(panic);
    }
}

/// Connections whose requests share memory.
struct Lab {
    listener: TcpListener,
    memory: Arc<RequestMemory>,
}

/// A client, and the task that reads a frame of it.
struct Sender {
    stream: TcpStream,
    arrived: Arc<AtomicUsize>,
    reading: JoinHandle<Result<(), End>>,
}

impl Lab {
    async fn new() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            memory: Arc::new(RequestMemory::new(Some(BUDGET_BYTES))),
        }
    }

    async fn connect(&self) -> Sender {
        let address = self.listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), self.listener.accept());
        let (memory, arrived) = (self.memory.clone(), Arc::new(AtomicUsize::new(0)));
        let reading = arrive(accepted.unwrap().0, memory, arrived.clone());
        let reading = tokio::spawn(reading);
        // It waits from here on.
        yield_now().await;
        Sender {
            stream: client.unwrap(),
            arrived,
            reading,
        }
    }
}

/// Reads one frame, as a connection does that has no answer to send.
async fn arrive(
    mut stream: TcpStream,
    memory: Arc<RequestMemory>,
    arrived: Arc<AtomicUsize>,
) -> Result<(), End> {
    let (mut buffer, mut idle) = (FrameBuffer::default(), Idle::new(None));
    let (mut turn, mut arriving) = (Turn::begin(), Arriving::new(&memory));
    while buffer.take_frame(i32::MAX).unwrap().is_none() {
        read_more(
            &mut buffer,
            &mut stream,
            &mut idle,
            &mut turn,
            &mut arriving,
        )
        .await?;
        arrived.store(buffer.arrived_bytes(), Ordering::Relaxed);
    }
    Ok(())
}

impl Sender {
    /// Sends the beginning of a frame, and waits until it has arrived.
    async fn begin(&mut self) {
        let mut begin = vec![0; BEGIN_BYTES];
        begin[..4].copy_from_slice(&(FRAME_BYTES as u32 - 4).to_be_bytes());
        let sent = self.stream.try_write(&begin);
        assert_eq!(sent.unwrap(), BEGIN_BYTES);
        wait_until("the beginning has arrived", || {
            self.arrived() == BEGIN_BYTES || self.reading.is_finished()
        })
        .await;
    }

    fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Sends the rest of a frame that has begun; returns what became of it.
    async fn end(self) -> Result<(), End> {
        let Self {
            mut stream,
            reading,
            ..
        } = self;
        let rest = vec![0; FRAME_BYTES - BEGIN_BYTES];
        let sending = tokio::spawn(async move {
            // It may be closed.
            let _ = stream.write_all(&rest).await;
            stream
        });
        wait_until("the frame has arrived", || reading.is_finished()).await;
        sending.abort();
        reading.await.unwrap()
    }
}

#[test]
fn who_sends_a_byte_now_and_then_holds_up_others_for_a_while_only() {
    ends(who_sends_a_byte_now_and_then());
}

async fn who_sends_a_byte_now_and_then() {
    let lab = Lab::new().await;
    let (mut slow, mut other) = (lab.connect().await, lab.connect().await);
    slow.begin().await;
    other.begin().await;
    wait_until("the other one waits", || lab.memory.budget().waiting() == 1).await;
    let (begin, mut sent_bytes) = (Instant::now(), BEGIN_BYTES);
    while !slow.reading.is_finished() {
        assert!(begin.elapsed() < Duration::from_mins(1), "it is not closed");
        tokio::time::advance(PAUSE).await;
        // It may have been closed.
        let _ = slow.stream.try_write(&[0]);
        sent_bytes += 1;
        wait_until("the byte has arrived", || {
            slow.arrived() == sent_bytes || slow.reading.is_finished()
        })
        .await;
    }
    assert!(begin.elapsed() > Duration::from_secs(2), "it had its time");
    let end = slow.reading.await.unwrap();
    assert!(matches!(end, Err(End::SlowRequest { .. })), "{end:?}");
    assert!(other.end().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_asked_for_nothing_for_long_is_not_slow_when_it_does() {
    let lab = Lab::new().await;
    let (mut quiet, mut other) = (lab.connect().await, lab.connect().await);
    tokio::time::advance(Duration::from_mins(1)).await;
    other.begin().await;
    quiet.begin().await;
    wait_until("it waits", || lab.memory.budget().waiting() == 1).await;
    for _ in 0..6 {
        tokio::time::advance(PAUSE).await;
        yield_now().await;
    }
    assert!(other.end().await.is_ok());
    let end = quiet.end().await;
    assert!(end.is_ok(), "{end:?}");
}

/// Whether a request is served to its end whose client leaves meanwhile.
async fn is_served(ends_with_client: bool) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let stream = accepted.unwrap().0;
    drop(client.unwrap());
    let serving = tokio::time::sleep(10 * LEFT_CHECK_INTERVAL);
    let served = while_connected(&stream, serving, ends_with_client);
    served.await.is_some()
}

#[test]
fn what_a_producer_has_sent_is_served_also_when_it_has_left() {
    ends(async {
        assert!(is_served(false).await);
        assert!(!is_served(true).await);
    });
}
