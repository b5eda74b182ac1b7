//! A broker that misbehaves on demand: a relay in front of a server that answers some requests wrongly,
//! or never, and behaves again when it is told to.
//!
//! ```text
//!   client ──> Proxy ──> a listener of the server, which advertises the proxy
//!                └── fail(apis, Fault)   behave()
//! ```
//!
//! One server serves many proxies, each over a listener of its own: a client that starts at a proxy
//! never meets the server but through it.

use crate::TestServer;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use wire::ApiKey;

/// What is wrong with a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing listens at its address.
    Missing,
    /// It takes the request and never answers.
    Hangs,
    /// It closes the connection instead of an answer.
    Closes,
    /// It sends half of the answer, then nothing more.
    HalfAnswer,
    /// It sends these bytes instead of an answer.
    Sends(&'static [u8]),
    /// It answers another request.
    WrongCorrelationId,
    /// The answer's last bytes are missing, in a frame that is whole.
    ShortBody,
    /// The answer's body is this byte, many times.
    Nonsense,
    /// One byte of the answer is another one, as far from its end.
    Damaged(usize),
}

impl Fault {
    /// Every fault that can befall any answer.
    pub const ALL: &[Self] = &[
        Self::Missing,
        Self::Hangs,
        Self::Closes,
        Self::HalfAnswer,
        Self::Sends(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
        Self::Sends(&[0x15, 3, 3, 0, 2, 2, 70]),
        Self::Sends(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        Self::Sends(&[0xff, 0xff, 0xff, 0xfe, 9, 9, 9, 9]),
        Self::WrongCorrelationId,
        Self::ShortBody,
        Self::Nonsense,
    ];
}

/// What a proxy does at the moment.
#[derive(Debug, Clone, Default)]
struct Orders {
    fault: Option<Fault>,
    /// The requests that it concerns; empty for all.
    apis: Vec<ApiKey>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    orders: watch::Sender<Orders>,
    /// Requests of the APIs that met a fault.
    failed_count: Mutex<usize>,
}

/// A relay to one listener of a server; see the module.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Ends the relay with the last proxy of the server.
    _runtime: Arc<Relays>,
}

/// The threads of the proxies of one server.
#[derive(Debug)]
struct Relays(Option<Runtime>);

impl Drop for Relays {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Proxy {
    /// A server with `keys`, and `count` proxies of it.
    #[track_caller]
    pub fn start(count: usize, keys: &[(&str, &str)]) -> (TestServer, Vec<Self>) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let runtime = Arc::new(Relays(Some(runtime)));
        let ports: Vec<Port> = (0..count).map(|_| Port::reserve()).collect();
        let names: Vec<String> = (0..count).map(|index| format!("PROXY{index}")).collect();
        let each = |text: &dyn Fn(usize, &str) -> String| {
            let parts = names.iter().enumerate();
            let parts: Vec<String> = parts.map(|(index, name)| text(index, name)).collect();
            parts.join(",")
        };
        let listeners = each(&|_, name| format!("{name}://127.0.0.1:0"));
        let listeners = format!("PLAINTEXT://127.0.0.1:0,{listeners}");
        let advertised = each(&|index, name| {
            let address = ports[index].address;
            format!("{name}://{address}")
        });
        let advertised = format!("PLAINTEXT://127.0.0.1:1,{advertised}");
        let protocols = each(&|_, name| format!("{name}:PLAINTEXT"));
        let protocols = format!("PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}");
        let mut all = vec![
            ("listeners", &*listeners),
            ("advertised.listeners", &*advertised),
            ("listener.security.protocol.map", &*protocols),
        ];
        all.extend(keys);
        let server = TestServer::start(&all);
        let proxies = ports.into_iter().zip(&names).map(|(port, name)| {
            let address = port.address;
            let shared = Arc::new(Shared {
                server: server.address_of(name),
                orders: watch::Sender::default(),
                failed_count: Mutex::default(),
            });
            let running = runtime.0.as_ref().expect("it runs until it is dropped");
            let _entered = running.enter();
            let listener = port.listen();
            running.spawn(listen(port, listener, shared.clone()));
            Self {
                address,
                shared,
                _runtime: runtime.clone(),
            }
        });
        let proxies = proxies.collect();
        (server, proxies)
    }

    /// Where clients connect.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From here on `fault` befalls the requests of `apis`; of all for none.
    pub fn fail(&self, apis: &[ApiKey], fault: Fault) {
        *self.shared.failed_count.lock().unwrap() = 0;
        self.shared.orders.send_replace(Orders {
            fault: Some(fault),
            apis: apis.to_vec(),
        });
    }

    /// Relays everything from here on. What was not answered stays so.
    pub fn behave(&self) {
        self.shared.orders.send_replace(Orders::default());
    }

    /// How many requests have met the fault.
    pub fn failed_count(&self) -> usize {
        *self.shared.failed_count.lock().unwrap()
    }
}

/// A port that stays ours while nothing listens at it: the system would give it to the next server that
/// asks for any port, which would then answer for the missing broker.
struct Port {
    address: SocketAddr,
    /// Bound and never listening.
    _reservation: TcpSocket,
}

impl Port {
    fn reserve() -> Self {
        let reservation = Self::bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self {
            address: reservation.local_addr().unwrap(),
            _reservation: reservation,
        }
    }

    /// Must be called within a runtime.
    fn listen(&self) -> TcpListener {
        Self::bind(self.address).listen(64).unwrap()
    }

    fn bind(address: SocketAddr) -> TcpSocket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(address).unwrap();
        socket
    }
}

/// Accepts connections, but while the broker is missing.
async fn listen(port: Port, listener: TcpListener, shared: Arc<Shared>) {
    let mut listener = Some(listener);
    let mut orders = shared.orders.subscribe();
    loop {
        let is_missing = orders.borrow_and_update().fault == Some(Fault::Missing);
        if is_missing {
            listener = None;
        } else if listener.is_none() {
            listener = Some(port.listen());
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = orders.changed() => if changed.is_err() { return },
            accepted = accepted => {
                if let Ok((stream, _)) = accepted {
                    tokio::spawn(serve(stream, shared.clone()));
                }
            }
        }
    }
}

/// Serves one connection; ends it when the broker goes missing.
async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let mut orders = shared.orders.subscribe();
    let is_missing = orders.wait_for(|orders| orders.fault == Some(Fault::Missing));
    tokio::select! {
        _ = is_missing => {}
        _ = relay(&mut client, &shared) => {}
    }
}

/// Relays one request after the other.
async fn relay(client: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut server = TcpStream::connect(shared.server).await?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    loop {
        let request = read_frame(client).await?;
        let api = i16::from_be_bytes([request[4], request[5]]);
        let version = i16::from_be_bytes([request[6], request[7]]);
        let api = ApiKey::from_number(api).expect("a client asks for what there is");
        server.write_all(&request).await?;
        let mut answer = read_frame(&mut server).await?;
        let fault = {
            let orders = shared.orders.borrow();
            let is_meant = orders.apis.is_empty() || orders.apis.contains(&api);
            orders.fault.filter(|_| is_meant)
        };
        let Some(fault) = fault else {
            client.write_all(&answer).await?;
            continue;
        };
        *shared.failed_count.lock().unwrap() += 1;
        // The size, the correlation id and, from some version on, an empty list of fields.
        let header_bytes = 8 + usize::from(api.response_header_version(version) > 0);
        match fault {
            Fault::Missing | Fault::Closes => return Ok(()),
            Fault::Hangs => return hang(client).await,
            Fault::HalfAnswer => {
                client.write_all(&answer[..answer.len() / 2]).await?;
                return hang(client).await;
            }
            Fault::Sends(bytes) => {
                client.write_all(bytes).await?;
                return hang(client).await;
            }
            Fault::WrongCorrelationId => answer[7] ^= 1,
            Fault::ShortBody => {
                let half = header_bytes + (answer.len() - header_bytes) / 2;
                answer.truncate(half);
            }
            Fault::Nonsense => {
                answer.truncate(header_bytes);
                answer.resize(header_bytes + 64, 0xff);
            }
            Fault::Damaged(from_end) => {
                if let Some(at) = answer.len().checked_sub(from_end) {
                    answer[at] ^= 0x55;
                }
            }
        }
        let size = (answer.len() - 4) as u32;
        answer[..4].copy_from_slice(&size.to_be_bytes());
        client.write_all(&answer).await?;
    }
}

/// Takes what comes until the client gives up.
async fn hang(client: &mut TcpStream) -> std::io::Result<()> {
    let mut ignored = [0; 1024];
    while client.read(&mut ignored).await? > 0 {}
    Ok(())
}

/// A frame with its size.
async fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).await?;
    let size = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
    frame.resize(4 + size as usize, 0);
    stream.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}
