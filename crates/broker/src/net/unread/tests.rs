//! Answers that are read slowly, on a clock that goes only when the test says so.

use super::*;
use std::pin::Pin;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

const ANSWER_BYTES: usize = 8_000_000;
/// A little more than an answer takes.
const LARGE_BYTES: u64 = 10_000_000;
/// How much a slow client reads at a time, and how long it waits then: 160 KB a second.
const READ_BYTES: usize = 16 * 1024;
const PAUSE: Duration = Duration::from_millis(100);

/// A client, and the task that sends it an answer.
struct Reader {
    stream: TcpStream,
    sending: JoinHandle<Result<(), UnreadEnd>>,
}

/// Both ends of a connection; the server's keeps few bytes that are not read.
async fn connected() -> (TcpStream, TcpStream) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(READ_BYTES as u32).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap(), accepted.unwrap().0)
}

impl Reader {
    fn new((client, mut server): (TcpStream, TcpStream), memory: &Arc<AnswerMemory>) -> Self {
        let mut unread = Unread::new(memory, None);
        let sending = tokio::spawn(async move {
            let mut out = ResponseBuffer::default();
            out.head = vec![0; ANSWER_BYTES];
            unread.flush(&mut out, &mut server).await
        });
        Self {
            stream: client,
            sending,
        }
    }

    /// Reads so many bytes, or to the end, while the clock stands.
    async fn read(&self, mut left: usize) {
        let mut part = vec![0; READ_BYTES];
        while left > 0 {
            let part_bytes = left.min(READ_BYTES);
            match self.stream.try_read(&mut part[..part_bytes]) {
                Ok(0) => return,
                Ok(count) => left -= count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => yield_now().await,
                Err(_) => return,
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn slow_readers_give_way_to_those_that_wait_for_long() {
    let memory = Arc::new(AnswerMemory::new(Some(LARGE_BYTES)));
    let ends = [connected().await, connected().await];
    let mut readers: Vec<_> = ends.map(|ends| Reader::new(ends, &memory)).into();
    let begin = Instant::now();
    for reader in &readers {
        reader.read(1).await;
    }
    assert!(memory.is_spent());
    let waiting = memory.clone();
    let waiting = tokio::spawn(async move { waiting.room().await });
    while !waiting.is_finished() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "nobody gives way"
        );
        for reader in &readers {
            reader.read(READ_BYTES).await;
        }
        tokio::time::advance(PAUSE).await;
    }
    assert!(
        begin.elapsed() > Duration::from_secs(5),
        "they had their time"
    );
    let is_cut = |reader: &Reader| reader.sending.is_finished();
    let place = readers.iter().position(is_cut).expect("one is cut");
    let end = readers.swap_remove(place).sending.await.unwrap();
    assert!(matches!(end, Err(UnreadEnd::Slow { .. })), "{end:?}");
    // The other one goes on, however slowly.
    let other = readers.pop().expect("there were two");
    tokio::time::advance(Duration::from_mins(10)).await;
    other.read(ANSWER_BYTES).await;
    assert!(other.sending.await.unwrap().is_ok());
}

#[tokio::test]
async fn what_is_given_up_leaves_room_for_others() {
    let memory = AnswerMemory::new(Some(LARGE_BYTES));
    let mut unread = Unread::new(&memory, None);
    let mut out = ResponseBuffer::default();
    out.head = vec![0; LARGE_BYTES as usize];
    assert!(unread.count_large(&out));
    assert!(memory.is_spent());
    unread.give_up(&mut out);
    assert!(!memory.is_spent() && out.len() == 0);
}

/// It keeps its place while it waits for room: the next one has not begun.
#[tokio::test]
async fn large_answers_are_made_one_at_a_time_and_when_there_is_room() {
    let memory = AnswerMemory::new(None);
    let spent = memory.spend();
    let (mut first, mut second) = (pin!(memory.making()), pin!(memory.making()));
    assert!(polled(first.as_mut()).await.is_pending());
    assert!(polled(second.as_mut()).await.is_pending());
    drop(spent);
    let first = first.await;
    assert!(polled(second.as_mut()).await.is_pending());
    drop(first);
    let _second = second.await;
}

/// What comes of looking once.
async fn polled<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
