//! Requests over UDP and their answers: an open-loop client, and a server that works for each of them, in one thread or in
//! one made for each.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::Mutex,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{Answered, HEADER, load_error, pace, payload, resolve, send, sequence, set_buffer, work};
use crate::error::{Error, Result};

/// Room for datagrams that wait to be read, in bytes of memory.
const ROOM: i32 = 8 << 20;

/// What [`udp_serve`] serves.
#[derive(Debug, Clone, Copy)]
pub struct UdpServe {
    /// The port.
    pub port: u16,
    /// Processor time that an answer takes.
    pub work: Duration,
    /// Whether each request has a thread of its own, made for it.
    pub thread_per_request: bool,
    /// How many requests, after which it ends; none: never.
    pub requests: Option<u64>,
}

/// What [`udp_ask`] asks for.
#[derive(Debug, Clone)]
pub struct UdpAsk {
    /// The server, `ADDRESS:PORT`.
    pub to: String,
    /// How many requests.
    pub requests: u64,
    /// How many a second.
    pub rate: f64,
    /// How many at once: the bursts have the rate's mean.
    pub burst: u64,
    /// Bytes of each, 18 at least.
    pub size: usize,
    /// So many requests in turn are a call, of [`AT_ONCE`] that are under way: each has its call's number in a line
    /// `Call-ID: 7@xweave`, as in SIP. None: they have no such line.
    pub per_call: Option<u64>,
}

/// Calls that are under way at once, whose requests follow each other one call after the other.
const AT_ONCE: u64 = 4;

impl UdpAsk {
    /// What a request is.
    fn message(&self, number: u64) -> Vec<u8> {
        let mut message = payload(number, 0, self.size);
        if let Some(per_call) = self.per_call {
            let round = number / (per_call * AT_ONCE);
            let line = format!("\r\nCall-ID: {}@xweave\r\n", round * AT_ONCE + number % AT_ONCE);
            message[HEADER..HEADER + line.len()].copy_from_slice(line.as_bytes());
        }
        message
    }

    /// How many bytes it has at least.
    fn least(&self) -> usize {
        HEADER + self.per_call.map_or(0, |_| "\r\nCall-ID: 18446744073709551615@xweave\r\n".len())
    }
}

/// What came of requests by datagrams: times since each was to be sent, whenever it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// How many were sent.
    pub sent: u64,
    /// Those that were answered.
    #[serde(flatten)]
    pub answered: Answered,
}

/// Answers each datagram of [`udp_ask`] with itself, having worked for it.
///
/// # Errors
/// The port cannot be had, or the socket fails.
pub fn udp_serve(options: &UdpServe, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let socket =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, options.port)).map_err(load_error("bind the UDP port"))?;
    set_buffer(&socket, ROOM);
    ready(socket.local_addr().map_err(load_error("get the port's number"))?);
    let answer = |data: &[u8], to| {
        work(options.work);
        // A client that is gone is not waited for.
        let _ = socket.send_to(data, to);
    };
    std::thread::scope(|scope| {
        let mut served = 0;
        let mut buffer = vec![0; 65_536];
        while options.requests.is_none_or(|limit| served < limit) {
            let (length, from) = match socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused) =>
                {
                    continue;
                }
                Err(e) => return Err(load_error("receive")(e)),
            };
            if sequence(&buffer[..length]).is_none() {
                continue;
            }
            served += 1;
            if options.thread_per_request {
                let (data, answer) = (buffer[..length].to_vec(), &answer);
                scope.spawn(move || answer(&data, from));
            } else {
                answer(&buffer[..length], from);
            }
        }
        Ok(())
    })
}

/// Sends requests at their times, whether those before are answered or not, and takes the answers.
///
/// # Errors
/// Options that make no sense, an address that is none, or a socket that fails.
pub fn udp_ask(options: &UdpAsk) -> Result<Asked> {
    /// For what comes late.
    const PATIENCE: Duration = Duration::from_secs(2);
    let to = resolve(&options.to)?;
    let (least, some) = (options.least(), options.burst > 0 && options.per_call != Some(0));
    if options.rate <= 0.0 || !some || !(least..=65_507).contains(&options.size) {
        return Err(Error::LoadOptions(format!(
            "a rate above 0, bursts and calls of at least 1, and a size from {least} to 65507"
        )));
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect(to).map(|()| socket))
        .map_err(load_error("bind or connect a UDP socket"))?;
    set_buffer(&socket, ROOM);
    socket.set_read_timeout(Some(Duration::from_millis(50))).map_err(load_error("set a time limit"))?;
    let begun = Instant::now();
    let due = |number: u64| {
        let burst = number - number % options.burst;
        #[expect(clippy::cast_precision_loss, reason = "any number that a test sends is exact")]
        Duration::from_secs_f64(burst as f64 / options.rate)
    };
    let sent = Mutex::new(None);
    let (sending, mut times) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| -> io::Result<()> {
            let all = (0..options.requests).try_for_each(|number| {
                pace(begun, number - number % options.burst, options.rate);
                send(&socket, None, &options.message(number))
            });
            *sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
            all
        });
        let mut times: Vec<Option<u64>> = vec![None; usize::try_from(options.requests).unwrap_or(0)];
        let (mut buffer, mut missing) = (vec![0; 65_536], times.len());
        let over = || {
            let sent = *sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            sent.is_some_and(|sent| sent.elapsed() > PATIENCE)
        };
        while missing > 0 && !over() {
            let Ok(length) = socket.recv(&mut buffer) else { continue };
            let taken = begun.elapsed();
            let number = sequence(&buffer[..length]).unwrap_or(u64::MAX);
            let time = usize::try_from(number).ok().and_then(|at| times.get_mut(at));
            if let Some(time @ None) = time {
                let ns = taken.saturating_sub(due(number)).as_nanos();
                *time = Some(u64::try_from(ns).unwrap_or(u64::MAX));
                missing -= 1;
            }
        }
        (sender.join().unwrap_or(Ok(())), times.into_iter().flatten().collect::<Vec<u64>>())
    });
    sending.map_err(load_error("send"))?;
    let bytes = times.len() as u64 * options.size as u64;
    Ok(Asked { sent: options.requests, answered: Answered::of(&mut times, bytes) })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn requests_in_bursts_are_answered_by_one_thread_and_by_one_each() {
        for thread_per_request in [false, true] {
            let (sender, ready) = mpsc::channel();
            let options =
                UdpServe { port: 0, work: Duration::from_micros(50), thread_per_request, requests: Some(60) };
            let server =
                std::thread::spawn(move || udp_serve(&options, |address| sender.send(address).unwrap()));
            let port = ready.recv().unwrap().port();
            let to = format!("127.0.0.1:{port}");
            let asked =
                udp_ask(&UdpAsk { to, requests: 60, rate: 2000.0, burst: 6, size: 100, per_call: Some(2) })
                    .unwrap();
            assert_eq!((asked.sent, asked.answered.requests, asked.answered.bytes), (60, 60, 6000));
            assert!(asked.answered.min_ns >= 50_000 && asked.answered.p50_ns <= asked.answered.p99_ns);
            server.join().unwrap().unwrap();
        }
    }

    #[test]
    fn requests_of_a_call_have_its_number_and_calls_are_under_way_together() {
        let ask =
            UdpAsk { to: String::new(), requests: 24, rate: 1.0, burst: 1, size: 80, per_call: Some(3) };
        let call = |number| {
            let message = ask.message(number);
            assert_eq!((message.len(), sequence(&message)), (80, Some(number)));
            let text = String::from_utf8_lossy(&message).into_owned();
            let line = text.split("\r\n").find_map(|line| line.strip_prefix("Call-ID: ")).unwrap().to_owned();
            line.strip_suffix("@xweave").unwrap().parse::<u64>().unwrap()
        };
        let calls: Vec<u64> = (0..16).map(call).collect();
        assert_eq!(calls, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
