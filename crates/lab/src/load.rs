//! Test loads that need nothing but this program: for guests without an interpreter.
//!
//! A UDP payload starts with [`MAGIC`], then the sequence number (64 bits, little endian), then the
//! sender (16 bits, little endian); the rest is the pattern 0, 1, 2, … 255, 0, …

mod datagram;
mod processor;
mod protocol;
mod queue;

use crate::error::{Error, Result};
use serde::Serialize;
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vsock::{VMADDR_CID_ANY, VsockAddr, VsockStream};
use xweave_bytes::read_le;

pub use datagram::{Asked, UdpAsk, UdpServe, udp_ask, udp_serve};
pub use processor::{spin, use_fifo};
pub use protocol::Protocol;
pub use queue::{QueueServe, queue_serve};

/// The first bytes of every datagram.
pub const MAGIC: [u8; 8] = *b"XWSEQ001";
/// Magic, sequence number, sender.
const HEADER: usize = 18;

/// What [`udp_send`] sends.
#[derive(Debug, Clone)]
pub struct UdpSend {
    /// The receiver, `ADDRESS:PORT`.
    pub to: String,
    /// Datagrams, over all senders.
    pub count: u64,
    /// Datagrams a second, over all senders; 0: as fast as it goes.
    pub rate: f64,
    /// Threads, each on a CPU and with a socket of its own.
    pub senders: u16,
    /// Payload bytes, at least 18.
    pub size: usize,
    /// The first sender's source port; the next senders have the next ports.
    pub bind_base: u16,
    /// Says of each datagram where it goes, on sockets that are not connected: so they have no address of their own.
    pub unconnected: bool,
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub sent: u64,
}

/// What was received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Received {
    /// Datagrams of ours.
    pub received: u64,
    /// Different sequence numbers among them.
    pub distinct: u64,
    /// The lowest sequence number.
    pub first: Option<u64>,
    /// The highest.
    pub last: Option<u64>,
}

/// What requests were answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// Requests with a whole answer.
    pub requests: u64,
    /// Bytes of the answers.
    pub bytes: u64,
    /// The shortest time from request to the answer's last byte.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Answered {
    /// Requests that took so many nanoseconds each, whose answers have so many bytes in all.
    fn of(times: &mut [u64], bytes: u64) -> Self {
        times.sort_unstable();
        let rank =
            |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
        let at = |percent| rank(percent).copied().unwrap_or(0);
        Self {
            requests: times.len() as u64,
            bytes,
            min_ns: at(0),
            p50_ns: at(50),
            p99_ns: at(99),
            max_ns: at(100),
        }
    }
}

/// Takes so much of a processor's time.
fn work(time: Duration) {
    let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let until = now(libc::CLOCK_THREAD_CPUTIME_ID).saturating_add(time);
    while now(libc::CLOCK_THREAD_CPUTIME_ID) < until {}
}

/// A clock's time, in nanoseconds.
fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time lives in this frame.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

fn load_error(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Load { doing, source }
}

fn resolve(to: &str) -> Result<SocketAddr> {
    to.to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.find(SocketAddr::is_ipv4))
        .ok_or_else(|| Error::LoadAddress(to.to_owned()))
}

/// A datagram's payload of `size` bytes (at least the header's).
fn payload(sequence: u64, sender: u16, size: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(size.max(HEADER));
    data.extend_from_slice(&MAGIC);
    data.extend_from_slice(&sequence.to_le_bytes());
    data.extend_from_slice(&sender.to_le_bytes());
    data.extend((0..=u8::MAX).cycle().take(size.saturating_sub(HEADER)));
    data
}

/// The sequence number of a datagram of ours.
fn sequence(data: &[u8]) -> Option<u64> {
    read_le(data.strip_prefix(&MAGIC)?, 0)
}

/// Keeps the calling thread on one CPU, so that its packets take that CPU's queue.
fn pin(thread: usize) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: the set is initialised by zeroing, and CPU_SET stays within it for any number below 1024.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(thread % cpus.min(1024), &mut set);
        // Not pinned is slower to tell apart, not wrong.
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Sends numbered datagrams; sender `s` has the numbers `s`, `s + senders`, ….
pub fn udp_send(options: &UdpSend) -> Result<Sent> {
    let to = resolve(&options.to)?;
    if options.senders == 0 || options.size < HEADER || options.size > 65_507 {
        return Err(Error::LoadOptions(format!("at least 1 sender, and a size from {HEADER} to 65507")));
    }
    let mut sockets = Vec::new();
    for sender in 0..options.senders {
        let port = if options.bind_base == 0 { 0 } else { options.bind_base.saturating_add(sender) };
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
            .and_then(|socket| if options.unconnected { Ok(()) } else { socket.connect(to) }.map(|()| socket))
            .map_err(load_error("bind or connect a UDP socket"))?;
        sockets.push(socket);
    }
    let begun = Instant::now();
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.senders)
            .zip(&sockets)
            .map(|(sender, socket)| {
                let total = &total;
                scope.spawn(move || -> io::Result<()> {
                    pin(usize::from(sender));
                    for number in (u64::from(sender)..options.count).step_by(usize::from(options.senders)) {
                        pace(begun, number, options.rate);
                        send(
                            socket,
                            options.unconnected.then_some(to),
                            &payload(number, sender, options.size),
                        )?;
                        total.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or(Ok(())))
    })
    .map_err(load_error("send"))?;
    Ok(Sent { sent: total.into_inner() })
}

/// Waits for the time of datagram `number`.
fn pace(begun: Instant, number: u64, rate: f64) {
    if rate <= 0.0 {
        return;
    }
    // Any number that a test sends is exact as a floating-point number.
    #[allow(clippy::cast_precision_loss)]
    let due = begun + Duration::from_secs_f64(number as f64 / rate);
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

/// Sends one datagram, again if the receiver's "port unreachable" for an earlier one came back.
fn send(socket: &UdpSocket, to: Option<SocketAddr>, data: &[u8]) -> io::Result<()> {
    loop {
        match to.map_or_else(|| socket.send(data), |to| socket.send_to(data, to)) {
            Ok(_) => return Ok(()),
            Err(e)
                if e.kind() == io::ErrorKind::ConnectionRefused || e.kind() == io::ErrorKind::Interrupted => {
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => std::thread::sleep(Duration::from_millis(1)),
            Err(e) => return Err(e),
        }
    }
}

/// Receives datagrams until `count` different ones are there, or none came for `idle`.
///
/// The socket has room for so many bytes of memory: the kernel counts what it takes for a datagram, not its payload.
/// `ready` is called when the port is open.
pub fn udp_receive(
    port: u16,
    count: u64,
    idle: Duration,
    room: i32,
    ready: impl FnOnce(),
) -> Result<Received> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).map_err(load_error("bind the UDP port"))?;
    set_buffer(&socket, room);
    socket.set_read_timeout(Some(idle)).map_err(load_error("set a time limit (it must not be 0)"))?;
    ready();
    let mut seen = HashSet::new();
    let mut received = 0;
    let mut buffer = vec![0; 65_536];
    while (seen.len() as u64) < count {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                if let Some(number) = sequence(&buffer[..length]) {
                    received += 1;
                    seen.insert(number);
                }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => break,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(load_error("receive")(e)),
        }
    }
    Ok(Received {
        received,
        distinct: seen.len() as u64,
        first: seen.iter().min().copied(),
        last: seen.iter().max().copied(),
    })
}

/// As root, makes room for bursts: what the test measures is the network, not this socket's buffer.
fn set_buffer(socket: &UdpSocket, size: libc::c_int) {
    // SAFETY: the option's value is one int, and the length says so. Failing leaves the default.
    unsafe {
        let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
        let value = (&raw const size).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, length);
    }
}

/// Answers requests of [`tcp_get`] for ever, or until `connections` have come and gone.
///
/// `ready` is called with the address when the port is open.
pub fn tcp_serve(
    port: u16,
    protocol: Protocol,
    connections: Option<u64>,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let listener = protocol.listen(port).map_err(load_error("bind the TCP port"))?;
    ready(listener.local_addr().map_err(load_error("get the port's number"))?);
    std::thread::scope(|scope| {
        let mut served = 0;
        while connections.is_none_or(|limit| served < limit) {
            let (stream, _) = listener.accept().map_err(load_error("accept a connection"))?;
            served += 1;
            // A client that goes away ends its own connection only.
            scope.spawn(move || answer(stream, protocol));
        }
        Ok(())
    })
}

fn answer(mut stream: TcpStream, protocol: Protocol) -> io::Result<()> {
    protocol.begin(&stream)?;
    loop {
        let Request { answer_size } = Request::read(&mut stream)?;
        io::copy(&mut io::repeat(b'x').take(answer_size), &mut stream)?;
    }
}

/// A request of [`tcp_get`]: its own size and the answer's, two 32-bit numbers, little endian, and then the rest of it.
struct Request {
    answer_size: u64,
}

impl Request {
    /// Reads one, and throws away what it says nothing with.
    fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut head = [[0; 4]; 2];
        stream.read_exact(head.as_flattened_mut())?;
        let [size, answer_size] = head.map(|number| u64::from(u32::from_le_bytes(number)));
        io::copy(&mut stream.take(size.saturating_sub(8)), &mut io::sink())?;
        Ok(Self { answer_size })
    }
}

/// What [`tcp_get`] asks for.
#[derive(Debug, Clone)]
pub struct TcpGet {
    /// The server, `ADDRESS:PORT`.
    pub to: String,
    /// What the connections speak, as the server does.
    pub protocol: Protocol,
    /// Requests, over all connections.
    pub requests: u64,
    /// Connections at once, each in a thread on a CPU.
    pub concurrency: u16,
    /// Bytes of a request, at least 8.
    pub request_size: u32,
    /// Bytes of an answer, at least 1.
    pub answer_size: u32,
    /// One in so many requests is written in two calls, without TCP_NODELAY; none if 0.
    pub split_every: u64,
}

/// Sends requests, each after the answer to the one before on its connection.
pub fn tcp_get(options: &TcpGet) -> Result<Answered> {
    let to = resolve(&options.to)?;
    if options.concurrency == 0 || options.request_size < 8 || options.answer_size == 0 {
        return Err(Error::LoadOptions(
            "at least 1 connection, requests of at least 8 bytes and responses of at least 1".into(),
        ));
    }
    let next = AtomicU64::new(0);
    let mut times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.concurrency)
            .map(|thread| {
                let next = &next;
                scope.spawn(move || {
                    pin(usize::from(thread));
                    exchange(to, options, next)
                })
            })
            .collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().unwrap_or(Ok(Vec::new()))?);
        }
        io::Result::Ok(all)
    })
    .map_err(load_error("exchange data with the server"))?;
    let bytes = times.len() as u64 * u64::from(options.answer_size);
    Ok(Answered::of(&mut times, bytes))
}

fn exchange(to: SocketAddr, options: &TcpGet, next: &AtomicU64) -> io::Result<Vec<u64>> {
    let mut stream = options.protocol.connect(to)?;
    // So that the second half waits until the first is acknowledged.
    stream.set_nodelay(options.split_every == 0)?;
    let mut request = Vec::new();
    request.extend_from_slice(&options.request_size.to_le_bytes());
    request.extend_from_slice(&options.answer_size.to_le_bytes());
    request.resize(usize::try_from(options.request_size).map_err(io::Error::other)?, b'r');
    let mut times = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.requests {
            break;
        }
        let begun = Instant::now();
        let split = options.split_every > 0 && (number + 1).is_multiple_of(options.split_every);
        let (first, second) = request.split_at(if split { request.len() / 2 } else { request.len() });
        stream.write_all(first)?;
        stream.write_all(second)?;
        let expected = u64::from(options.answer_size);
        if io::copy(&mut (&mut stream).take(expected), &mut io::sink())? < expected {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        times.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(times)
}

/// What a system call on a socket came to.
fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How long an address or an option is, as such calls are told.
fn length<T: ?Sized>(of: &T) -> libc::socklen_t {
    libc::socklen_t::try_from(size_of_val(of)).unwrap_or(0)
}

/// What came of a connection that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Contact {
    /// The source port may not be bound: why.
    PortDenied(String),
    /// Nothing took it: why.
    NoConnection(String),
    /// It was taken, and closed without a word.
    Closed,
    /// It was taken, and nothing came in time.
    Silent,
    /// These first bytes came, as text.
    Heard(String),
}

/// Connects by vsock, from a given source port if there is one, says nothing, and waits for the first words.
pub fn vsock_connect(cid: u32, port: u32, from: Option<u32>, wait: Duration) -> Result<Contact> {
    // SAFETY: takes integers only.
    let socket = unsafe { libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(load_error("create a vsock socket")(io::Error::last_os_error()));
    }
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    if let Some(from) = from {
        let address = VsockAddr::new(VMADDR_CID_ANY, from);
        // SAFETY: the address lives in this frame, is a struct sockaddr_vm, and the length is its own.
        let bound =
            done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length(&address)) });
        if let Err(error) = bound {
            return Ok(Contact::PortDenied(error.to_string()));
        }
    }
    let address = VsockAddr::new(cid, port);
    // SAFETY: as above. The kernel gives up after two seconds.
    let connected =
        done(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length(&address)) });
    if let Err(error) = connected {
        return Ok(Contact::NoConnection(error.to_string()));
    }
    let mut stream = VsockStream::from(socket);
    stream.set_read_timeout(Some(wait)).map_err(load_error("set a time limit (it must not be 0)"))?;
    let mut words = [0; 64];
    match stream.read(&mut words) {
        Ok(0) => Ok(Contact::Closed),
        Ok(length) => Ok(Contact::Heard(words[..length].escape_ascii().to_string())),
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Ok(Contact::Closed),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Ok(Contact::Silent)
        }
        Err(e) => Err(load_error("read")(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn payload_layout() {
        let data = payload(0x0102_0304, 7, 20);
        assert_eq!(data, b"XWSEQ001\x04\x03\x02\x01\0\0\0\0\x07\0\0\x01");
        assert_eq!(sequence(&data), Some(0x0102_0304));
        assert_eq!(sequence(b"XWSEQ001\x04"), None);
        assert_eq!(sequence(b"other"), None);
    }

    #[test]
    fn every_datagram_has_its_number() {
        let (sender, ready) = mpsc::channel();
        let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = probe.local_addr().unwrap().port();
        drop(probe);
        let receiver = std::thread::spawn(move || {
            udp_receive(port, 101, Duration::from_secs(5), 8 << 20, || sender.send(()).unwrap()).unwrap()
        });
        ready.recv().unwrap();
        let options = UdpSend {
            to: format!("127.0.0.1:{port}"),
            count: 101,
            rate: 5000.0,
            senders: 2,
            size: 64,
            bind_base: 0,
            unconnected: false,
        };
        assert_eq!(udp_send(&options).unwrap(), Sent { sent: 101 });
        let expected = Received { received: 101, distinct: 101, first: Some(0), last: Some(100) };
        assert_eq!(receiver.join().unwrap(), expected);
    }

    #[test]
    fn requests_are_answered() {
        let (sender, ready) = mpsc::channel();
        let server =
            std::thread::spawn(move || tcp_serve(0, Protocol::Tcp, Some(3), |a| sender.send(a).unwrap()));
        let port = ready.recv().unwrap().port();
        let options = TcpGet {
            to: format!("127.0.0.1:{port}"),
            protocol: Protocol::Tcp,
            requests: 50,
            concurrency: 3,
            request_size: 100,
            answer_size: 70_000,
            split_every: 7,
        };
        let answered = tcp_get(&options).unwrap();
        assert_eq!((answered.requests, answered.bytes), (50, 3_500_000));
        assert!(answered.min_ns <= answered.p50_ns && answered.p50_ns <= answered.max_ns);
        server.join().unwrap().unwrap();
    }
}
