//! Requests over UDP and their answers: an open-loop client, and a server that works for each of them, in one thread or in
//! one made for each.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{Answered, HEADER, load_error, pace, payload, resolve, send, sequence, set_buffer, work};
use crate::error::{Error, Result};

/// Room for datagrams that wait to be read, in bytes of memory.
const ROOM: i32 = 8 << 20;

/// Bytes of the smallest page.
const PAGE: usize = 4096;

/// What [`udp_serve`] serves.
#[derive(Debug, Clone, Copy, Default)]
pub struct UdpServe {
    /// The port.
    pub port: u16,
    /// Processor time that an answer takes.
    pub work: Duration,
    /// Whether each request has a thread of its own, made for it.
    pub thread_per_request: bool,
    /// Of so many requests, one is read and not answered; none: of none.
    pub ignore_every: Option<u64>,
    /// Of so many requests, one takes as much more processor time.
    pub slow_every: Option<(u64, Duration)>,
    /// Another thread holds the lock that each answer needs for so long, and lets go of it for as long as the second says.
    pub lock: Option<(Duration, Duration)>,
    /// Bytes of memory that each answer writes to, page by page.
    pub memory: usize,
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
    /// How many come one at a time between two bursts.
    pub singles: u64,
    /// Bytes of each, 18 at least.
    pub size: usize,
    /// After how long a request that is not answered is sent again, as it was; then after twice as long, and so on, as SIP has
    /// it (RFC 3261, 17.1.1.2). None: never.
    pub retry: Option<Duration>,
    /// So many requests in turn are a call, of four that are under way, or as many as a burst has: each has its call's number in a line
    /// `Call-ID: call=7@xweave:5060`, as in SIP. None: they have no such line.
    pub per_call: Option<u64>,
}

/// Calls that are under way at once, whose requests follow each other one call after the other: so many, or as many as a burst
/// has requests, each of which is another call's.
const AT_ONCE: u64 = 4;

impl UdpAsk {
    /// When a request is sent, in those that would have been sent by then one at a time.
    fn turn(&self, number: u64) -> u64 {
        let place = number % self.singles.saturating_add(self.burst);
        number - place + place.min(self.singles)
    }

    /// What a request is.
    fn message(&self, number: u64) -> Vec<u8> {
        let mut message = payload(number, 0, self.size);
        if let Some(per_call) = self.per_call {
            let at_once = AT_ONCE.max(self.burst);
            let round = number / (per_call * at_once);
            let line = format!("\r\nCall-ID: call={}@xweave:5060\r\n", round * at_once + number % at_once);
            message[HEADER..HEADER + line.len()].copy_from_slice(line.as_bytes());
        }
        message
    }

    /// How many bytes it has at least.
    fn least(&self) -> usize {
        HEADER + self.per_call.map_or(0, |_| "\r\nCall-ID: call=18446744073709551615@xweave:5060\r\n".len())
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
    let (lock, over) = (Mutex::new(()), AtomicBool::new(false));
    let held = || lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let memory: Vec<AtomicU8> = std::iter::repeat_with(AtomicU8::default).take(options.memory).collect();
    let answer = |data: &[u8], to, takes| {
        let _own = options.lock.map(|_| held());
        for page in memory.chunks(PAGE) {
            page[0].fetch_add(1, Ordering::Relaxed);
        }
        work(takes);
        // A client that is gone is not waited for.
        let _ = socket.send_to(data, to);
    };
    std::thread::scope(|scope| {
        let _ended = Ended(&over);
        if let Some((hold, free)) = options.lock {
            let (held, over) = (&held, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let own = held();
                    std::thread::sleep(hold);
                    drop(own);
                    std::thread::sleep(free);
                }
            });
        }
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
            let nth_of = |every: u64| served % every.max(1) == 0;
            if options.ignore_every.is_some_and(nth_of) {
                continue;
            }
            let more = options
                .slow_every
                .filter(|(every, _)| nth_of(*every))
                .map_or(Duration::ZERO, |(_, more)| more);
            let takes = options.work + more;
            if options.thread_per_request {
                let (data, answer) = (buffer[..length].to_vec(), &answer);
                scope.spawn(move || answer(&data, from, takes));
            } else {
                answer(&buffer[..length], from, takes);
            }
        }
        Ok(())
    })
}

/// Says, when it goes, that it is over.
struct Ended<'o>(&'o AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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
        #[expect(clippy::cast_precision_loss, reason = "any number that a test sends is exact")]
        Duration::from_secs_f64(options.turn(number) as f64 / options.rate)
    };
    let sent = Mutex::new(None);
    let (sending, mut times) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| -> io::Result<()> {
            let all = (0..options.requests).try_for_each(|number| {
                pace(begun, options.turn(number), options.rate);
                send(&socket, None, &options.message(number))
            });
            *sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
            all
        });
        let mut times: Vec<Option<u64>> = vec![None; usize::try_from(options.requests).unwrap_or(0)];
        // When each is sent again that has no answer yet, and how long after that.
        let mut again: Vec<(Duration, u64, Duration)> = Vec::new();
        let mut asked = 0;
        let (mut buffer, mut missing) = (vec![0; 65_536], times.len());
        let over = || {
            let sent = *sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            sent.is_some_and(|sent| sent.elapsed() > PATIENCE)
        };
        while missing > 0 && !over() {
            if let Some(retry) = options.retry {
                let now = begun.elapsed();
                let answered = |number: u64| {
                    usize::try_from(number).ok().and_then(|at| times.get(at)?.as_ref()).is_some()
                };
                while asked < options.requests && due(asked) <= now {
                    again.push((due(asked) + retry, asked, retry));
                    asked += 1;
                }
                again.retain(|(_, number, _)| !answered(*number));
                for (when, number, after) in again.iter_mut().filter(|(when, ..)| *when <= now) {
                    // What cannot be sent is tried again later.
                    let _ = send(&socket, None, &options.message(*number));
                    *after *= 2;
                    *when = now + *after;
                }
            }
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
            let serve = UdpServe { port: 0, work: Duration::from_micros(50), ..UdpServe::default() };
            let options = UdpServe { thread_per_request, requests: Some(60), ..serve };
            let server =
                std::thread::spawn(move || udp_serve(&options, |address| sender.send(address).unwrap()));
            let port = ready.recv().unwrap().port();
            let to = format!("127.0.0.1:{port}");
            let asked = udp_ask(&UdpAsk {
                to,
                requests: 60,
                rate: 2000.0,
                burst: 6,
                singles: 0,
                size: 100,
                retry: None,
                per_call: Some(2),
            })
            .unwrap();
            assert_eq!((asked.sent, asked.answered.requests, asked.answered.bytes), (60, 60, 6000));
            assert!(asked.answered.min_ns >= 50_000 && asked.answered.p50_ns <= asked.answered.p99_ns);
            server.join().unwrap().unwrap();
        }
    }

    #[test]
    fn bursts_come_between_requests_that_come_one_at_a_time() {
        let turns = |burst, singles| {
            let (to, retry, per_call) = (String::new(), None, None);
            let ask = UdpAsk { to, requests: 10, rate: 1.0, burst, singles, size: 18, retry, per_call };
            (0..10).map(|number| ask.turn(number)).collect::<Vec<_>>()
        };
        assert_eq!(turns(1, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(turns(4, 0), [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]);
        assert_eq!(turns(3, 2), [0, 1, 2, 2, 2, 5, 6, 7, 7, 7]);
    }

    #[test]
    fn requests_of_a_call_have_its_number_and_calls_are_under_way_together() {
        let ask = |burst| {
            let (to, retry, per_call) = (String::new(), None, Some(3));
            UdpAsk { to, requests: 24, rate: 1.0, burst, singles: 0, size: 80, retry, per_call }
        };
        let call = |ask: &UdpAsk, number| {
            let message = ask.message(number);
            assert_eq!((message.len(), sequence(&message)), (80, Some(number)));
            let text = String::from_utf8_lossy(&message).into_owned();
            let line = text.split("\r\n").find_map(|line| line.strip_prefix("Call-ID: ")).unwrap().to_owned();
            let number = line.strip_prefix("call=").unwrap().strip_suffix("@xweave:5060");
            number.unwrap().parse::<u64>().unwrap()
        };
        let calls = |burst| (0..16).map(|number| call(&ask(burst), number)).collect::<Vec<u64>>();
        assert_eq!(calls(1), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(calls(6), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3]);
    }

    #[test]
    fn what_is_not_answered_is_sent_again_and_a_lock_is_waited_for() {
        let (sender, ready) = mpsc::channel();
        let (hold, free) = (Duration::from_millis(20), Duration::from_millis(20));
        let options = UdpServe {
            ignore_every: Some(10),
            slow_every: Some((7, Duration::from_millis(1))),
            lock: Some((hold, free)),
            memory: 3 * PAGE + 1,
            // Of 33, each tenth is not answered and comes again.
            requests: Some(33),
            ..UdpServe::default()
        };
        let server = std::thread::spawn(move || udp_serve(&options, |address| sender.send(address).unwrap()));
        let to = format!("127.0.0.1:{}", ready.recv().unwrap().port());
        let retry = Some(Duration::from_millis(300));
        let asked = udp_ask(&UdpAsk {
            to,
            requests: 30,
            rate: 200.0,
            burst: 1,
            singles: 0,
            size: 100,
            retry,
            per_call: None,
        })
        .unwrap();
        assert_eq!((asked.sent, asked.answered.requests), (30, 30));
        assert!(asked.answered.max_ns >= 300_000_000, "{asked:?}");
        server.join().unwrap().unwrap();
    }
}
