//! A client of one connection that sends what it is told and reads what comes.

use model::{Message, Reader};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;
use wire::{ApiKey, RequestHeader, ResponseHeader, begin_frame, finish_frame};

use crate::LIMIT;

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    client_id: String,
    next_correlation_id: i32,
    /// Requests that have no answer yet, in order.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
}

/// The answer to a request, still encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The version that it is encoded in: the request's.
    pub version: i16,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The answer as a message, which must fill it.
    #[track_caller]
    pub fn read<'a, M: Message<'a>>(&'a self) -> M {
        self.read_as(self.version)
    }

    /// The answer as a message in another version than the request's.
    #[track_caller]
    pub fn read_as<'a, M: Message<'a>>(&'a self, version: i16) -> M {
        M::from_bytes(&self.body, version)
            .unwrap_or_else(|error| panic!("no {} v{version}: {error}", M::NAME))
    }
}

impl Client {
    /// Connects to `address`.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, LIMIT);
        Self::over(stream.unwrap_or_else(|error| panic!("{address}: {error}")))
    }

    /// Connects to `address` from a local address, such as 127.0.0.2.
    pub fn connect_from(local: IpAddr, address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(local, 0)).unwrap();
            socket.connect(address).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        Self::over(stream)
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            client_id: "testkit".to_owned(),
            next_correlation_id: 1,
            waiting: VecDeque::new(),
        }
    }

    /// Calls itself `client_id` from here on.
    #[must_use]
    pub fn named(mut self, client_id: &str) -> Self {
        client_id.clone_into(&mut self.client_id);
        self
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub fn call<'a, M: Message<'a>>(&mut self, version: i16, request: &M) -> Response {
        self.send(version, request);
        self.receive()
    }

    /// Sends a request; [`Client::receive`] reads its answer, after those of earlier requests.
    #[track_caller]
    pub fn send<'a, M: Message<'a>>(&mut self, version: i16, request: &M) {
        let frame = self.frame(version, request);
        self.waiting.push_back(Waiting {
            correlation_id: self.next_correlation_id - 1,
            api: api_of::<M>(),
            version,
        });
        self.send_bytes(&frame);
    }

    /// Sends a request that has no answer.
    #[track_caller]
    pub fn send_unanswered<'a, M: Message<'a>>(&mut self, version: i16, request: &M) {
        let frame = self.frame(version, request);
        self.send_bytes(&frame);
    }

    /// Sends a request to a server that may close the connection meanwhile.
    pub fn send_if_open<'a, M: Message<'a>>(&mut self, version: i16, request: &M) {
        let frame = self.frame(version, request);
        self.send_bytes_if_open(&frame);
    }

    /// The bytes of a request, its size included, which [`Client::send`] would send.
    pub fn frame<'a, M: Message<'a>>(&mut self, version: i16, request: &M) -> Vec<u8> {
        let api = api_of::<M>();
        let body = request.to_bytes(version);
        self.frame_of(api as i16, version, api.is_request_flexible(version), &body)
    }

    /// The bytes of a request whose header says what it likes.
    pub fn frame_of(&mut self, api: i16, version: i16, is_flexible: bool, body: &[u8]) -> Vec<u8> {
        let header = RequestHeader {
            api_key: api,
            api_version: version,
            correlation_id: self.next_correlation_id,
            client_id: Some(&self.client_id),
        };
        self.next_correlation_id += 1;
        let mut frame = Vec::new();
        let start = begin_frame(&mut frame);
        header.encode(is_flexible, &mut frame);
        frame.extend_from_slice(body);
        finish_frame(&mut frame, start, 0);
        frame
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends bytes to a server that may close the connection meanwhile.
    pub fn send_bytes_if_open(&mut self, bytes: &[u8]) {
        // The server need not read what it has no use for.
        let _ = self.stream.write_all(bytes);
    }

    /// Sends nothing more; the server sees the end of the stream.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Reads the answer to the earliest request that has none.
    #[track_caller]
    pub fn receive(&mut self) -> Response {
        let expected = self.waiting.pop_front().expect("a request waits");
        let frame = self.receive_frame();
        let mut reader = Reader::new(&frame);
        let header_version = expected.api.response_header_version(expected.version);
        let header = ResponseHeader::decode(&mut reader, header_version).unwrap();
        assert_eq!(
            header.correlation_id, expected.correlation_id,
            "answers come in the order of the requests"
        );
        Response {
            version: expected.version,
            body: reader.remaining().to_vec(),
        }
    }

    /// Reads one frame, without its size.
    #[track_caller]
    pub fn receive_frame(&mut self) -> Vec<u8> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).expect("an answer");
        let size = usize::try_from(i32::from_be_bytes(size)).expect("a size");
        let mut frame = vec![0; size];
        self.stream.read_exact(&mut frame).expect("a whole answer");
        frame
    }

    /// Reads one frame, unless the server closes the connection or lets `patience` pass.
    #[track_caller]
    pub fn receive_frame_if_any(&mut self, patience: Duration) -> Option<Vec<u8>> {
        if self.is_silent_for(patience) {
            return None;
        }
        match self.stream.peek(&mut [0]) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(self.receive_frame()),
        }
    }

    /// Whether nothing is there to be read within `time`.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let silent = matches!(
            self.stream.peek(&mut [0]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        );
        self.stream.set_read_timeout(Some(LIMIT)).unwrap();
        silent
    }

    /// Whether there is something to be read, or the end of the stream.
    pub fn has_something(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Whether the server has closed the connection, and sent nothing before.
    pub fn is_closed(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        match peeked {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Expects the server to close the connection without another byte.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => assert!(
                rest.is_empty(),
                "the server answers rather than closes: {rest:?}"
            ),
            // It closes with bytes unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the server does not close: {error}"),
        }
    }

    /// The local end.
    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }
}

/// The API of a request, by the name that both have.
fn api_of<'a, M: Message<'a>>() -> ApiKey {
    let name = M::NAME.strip_suffix("Request").expect("requests are sent");
    let facts = ApiKey::all().find(|facts| facts.name == name);
    facts.expect("every request has an API").key
}
