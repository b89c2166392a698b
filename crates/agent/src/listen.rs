//! Taking connections from the host's root, by vsock.
//!
//! Whose connection it is, its address tells: the host's root has CID 2 and a port that only root can bind. That
//! the host has more users than root, that a peer may say nothing, and that descriptors may run out must not keep
//! anyone else from being served.

use std::{
    collections::VecDeque,
    convert::Infallible,
    fs::File,
    io::{self, Read},
    net::Shutdown,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST, VsockAddr, VsockListener, VsockStream};
use xweave_system::background::in_own_session;
use xweave_wire::{LAST_RESERVED_PORT, frame};

use crate::{output::tell, settings_report::restore_settings};

/// How long a peer may take to say which protocol it speaks.
const GREETING_DEADLINE: Duration = Duration::from_secs(10);

/// Peers that have not said so yet. One more, and the one that has been silent for the longest has to go: so those
/// that say nothing do not keep those out that do.
const MOST_SILENT: usize = 8;

/// Sessions at a time, each of which is a process.
const MOST_SESSIONS: usize = 32;

/// After connections could not be taken, how long until that is tried again: at first, and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How often the same trouble is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Serves controllers on the host until it is killed. Each connection gets a process of its own, so
/// that whatever happens to one, its probes go with it and the others stay. `lease` is for how long an agent keeps
/// its probes without a word from its controller.
///
/// # Errors
/// When the port cannot be bound: no vsock device, or the port is taken.
pub fn listen(port: u32, lease: Duration) -> io::Result<Infallible> {
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, port)?;
    eprintln!("xweave agent: listening on vsock port {port}");
    restore_settings();
    let limits = Limits { greeting: GREETING_DEADLINE, silent: MOST_SILENT, sessions: MOST_SESSIONS };
    let door = Door::new(limits, Box::new(move |stream| agent(stream, lease)));
    let mut delay = BACK_OFF.0;
    loop {
        door.take(listener.accept(), &mut delay);
    }
}

/// A session's process. Its peer has been greeted.
fn agent(stream: VsockStream, lease: Duration) -> io::Result<Child> {
    let input = OwnedFd::from(stream);
    let output = input.try_clone()?;
    let mut command = Command::new("/proc/self/exe");
    command.args(["agent", "--stdio", "--greeted", "--lease", &format!("{}ms", lease.as_millis())]);
    // At a terminal, Ctrl-C is for the sessions, too.
    if File::open("/dev/tty").is_err() {
        in_own_session(&mut command);
    }
    command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).spawn()
}

type Start = Box<dyn Fn(VsockStream) -> io::Result<Child> + Send + Sync>;

struct Limits {
    greeting: Duration,
    silent: usize,
    sessions: usize,
}

/// Who is let in.
struct Door {
    limits: Limits,
    start: Start,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections whose peers have not been greeted yet, by number, the oldest first.
    silent: VecDeque<(u64, VsockStream)>,
    next: u64,
    sessions: usize,
    told: [Told; Trouble::COUNT],
}

/// What is told, and how often each is told apart.
#[derive(Clone, Copy)]
enum Trouble {
    Accept,
    Stranger,
    Silent,
    Full,
    Start,
}

impl Trouble {
    const COUNT: usize = 5;
}

#[derive(Default)]
struct Told {
    last: Option<Instant>,
    kept_back: u64,
}

/// Somebody else than root on the host.
#[derive(Debug, thiserror::Error)]
enum Stranger {
    #[error("refused a connection from CID {0}: only the host (CID 2) may connect")]
    Cid(u32),
    #[error(
        "refused a connection from the host's port {0}: only privileged ports (up to {LAST_RESERVED_PORT}) may connect"
    )]
    Port(u32),
}

/// Whether whoever connects from there is root on the host.
fn check_peer(cid: u32, port: u32) -> Result<(), Stranger> {
    if cid != VMADDR_CID_HOST {
        return Err(Stranger::Cid(cid));
    }
    if port > LAST_RESERVED_PORT {
        return Err(Stranger::Port(port));
    }
    Ok(())
}

impl Door {
    fn new(limits: Limits, start: Start) -> Arc<Self> {
        Arc::new(Self { limits, start, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what came of accepting; waits a while if that failed: descriptors or memory ran out, or the peer has gone
    /// again. It may be better in a moment.
    fn take(self: &Arc<Self>, accepted: io::Result<(VsockStream, VsockAddr)>, delay: &mut Duration) {
        match accepted {
            Ok((stream, address)) => {
                *delay = BACK_OFF.0;
                self.admit(stream, address.cid(), address.port());
            }
            Err(error) => {
                self.tell(Trouble::Accept, &format!("could not accept a connection: {error}"));
                thread::sleep(*delay);
                *delay = (2 * *delay).min(BACK_OFF.1);
            }
        }
    }

    /// Lets a connection in, or closes it. Never waits.
    fn admit(self: &Arc<Self>, stream: VsockStream, cid: u32, port: u32) {
        if let Err(stranger) = check_peer(cid, port) {
            return self.tell(Trouble::Stranger, &stranger.to_string());
        }
        let number = match self.await_greeting(&stream) {
            Ok(number) => number,
            Err(error) => return self.tell(Trouble::Start, &format!("closed a connection: {error}")),
        };
        let door = Arc::clone(self);
        let served = thread::Builder::new().spawn(move || door.serve(stream, number));
        if let Err(error) = served {
            self.greeted(number);
            self.tell(
                Trouble::Start,
                &format!("closed a connection: could not start a thread for it: {error}"),
            );
        }
    }

    /// Notes a connection as silent; where there are too many, ends the oldest.
    fn await_greeting(&self, stream: &VsockStream) -> io::Result<u64> {
        let handle = stream.try_clone()?;
        let mut state = self.state();
        let oldest = if state.silent.len() >= self.limits.silent { state.silent.pop_front() } else { None };
        let number = state.next;
        state.next += 1;
        state.silent.push_back((number, handle));
        drop(state);
        if let Some((_, oldest)) = oldest {
            // Wakes whoever reads from it. It fails if the peer has gone.
            let _ = oldest.shutdown(Shutdown::Both);
            self.tell(Trouble::Silent, "closed a connection that had sent nothing, to make room for another");
        }
        Ok(number)
    }

    fn greeted(&self, number: u64) {
        self.state().silent.retain(|(silent, _)| *silent != number);
    }

    /// From the greeting to the end of the session.
    fn serve(&self, stream: VsockStream, number: u64) {
        let greeting = greet(&stream, self.limits.greeting);
        self.greeted(number);
        if let Err(error) = greeting {
            return self.tell(Trouble::Silent, &format!("closed a connection: {error}"));
        }
        if !self.begin_session() {
            let most = self.limits.sessions;
            return self.tell(
                Trouble::Full,
                &format!("refused a connection: the limit of {most} sessions is reached"),
            );
        }
        match (self.start)(stream) {
            Ok(mut child) => {
                // Fails if somebody else has waited for it: it has ended, too.
                let _ = child.wait();
                // If it was killed while it wove.
                restore_settings();
            }
            Err(error) => self.tell(Trouble::Start, &format!("could not start a session: {error}")),
        }
        self.state().sessions -= 1;
    }

    fn begin_session(&self) -> bool {
        let mut state = self.state();
        let room = state.sessions < self.limits.sessions;
        state.sessions += usize::from(room);
        room
    }

    /// Tells of trouble, and of each kind once in a while: whoever makes it must not fill a log.
    fn tell(&self, trouble: Trouble, line: &str) {
        let kept_back = {
            let told = &mut self.state().told[trouble as usize];
            if told.last.is_some_and(|last| last.elapsed() < TELL_EVERY) {
                told.kept_back += 1;
                return;
            }
            told.last = Some(Instant::now());
            std::mem::take(&mut told.kept_back)
        };
        match kept_back {
            0 => tell(line),
            more => tell(&format!("{line} ({more} similar messages were suppressed)")),
        }
    }
}

/// Says which protocol this is, and hears that it is the peer's.
fn greet(stream: &VsockStream, deadline: Duration) -> Result<(), frame::Error> {
    let deadline = Instant::now() + deadline;
    stream.set_write_timeout(Some(GREETING_DEADLINE))?;
    frame::write_preamble(&mut &*stream)?;
    frame::read_preamble(&mut Until { stream, deadline })?;
    // The session has its own ways.
    stream.set_write_timeout(None)?;
    stream.set_read_timeout(None)?;
    Ok(())
}

/// A stream that is read from until then, however slowly it comes.
struct Until<'s> {
    stream: &'s VsockStream,
    deadline: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no protocol version was received in time");
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::unix::net::UnixStream,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// Long enough for a busy machine, where something is expected to happen.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A door behind which `cat` serves, and how many sessions were started.
    fn door(greeting: Duration, silent: usize, sessions: usize) -> (Arc<Door>, Arc<AtomicUsize>) {
        let started = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&started);
        let cat = move |stream| {
            count.fetch_add(1, Ordering::Relaxed);
            let input = OwnedFd::from(stream);
            Command::new("cat").stdout(input.try_clone()?).stdin(input).spawn()
        };
        (Door::new(Limits { greeting, silent, sessions }, Box::new(cat)), started)
    }

    /// Connects; the socket's calls are the same for every family.
    fn connect(door: &Arc<Door>, cid: u32, port: u32) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(TIMEOUT)).unwrap();
        let accepted = (VsockStream::from(OwnedFd::from(theirs)), VsockAddr::new(cid, port));
        door.take(Ok(accepted), &mut BACK_OFF.0.clone());
        ours
    }

    fn connect_as_root(door: &Arc<Door>) -> UnixStream {
        connect(door, VMADDR_CID_HOST, 700)
    }

    fn greet(mut stream: &UnixStream) {
        frame::write_preamble(&mut stream).unwrap();
        frame::read_preamble(&mut stream).unwrap();
    }

    /// Whether there is a session at the other end: it gives back what it is given.
    fn is_served(mut stream: &UnixStream) -> bool {
        let mut byte = [0];
        // Fails where it was closed.
        let _ = stream.write_all(b"x");
        stream.read_exact(&mut byte).is_ok() && byte == *b"x"
    }

    /// All that is said before the end, which comes.
    fn heard(mut stream: &UnixStream) -> Vec<u8> {
        let mut heard = Vec::new();
        match stream.read_to_end(&mut heard) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            read => drop(read.unwrap()),
        }
        heard
    }

    fn until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !condition() {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn only_the_hosts_root_is_let_in() {
        let (door, started) = door(TIMEOUT, 8, 8);
        // This machine's own users, another guest, the host's users.
        for (cid, port) in [(1, 700), (4, 700), (VMADDR_CID_HOST, 1024), (VMADDR_CID_HOST, u32::MAX)] {
            assert_eq!(heard(&connect(&door, cid, port)), [], "{cid}:{port}");
        }
        for port in [1, LAST_RESERVED_PORT] {
            let root = connect(&door, VMADDR_CID_HOST, port);
            greet(&root);
            assert!(is_served(&root));
        }
        assert_eq!(started.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_peer_that_says_nothing_or_too_slowly_is_gone_in_time_and_costs_no_process() {
        let deadline = Duration::from_millis(300);
        let (door, started) = door(deadline, 8, 8);
        let begun = Instant::now();
        let mut preamble = Vec::new();
        frame::write_preamble(&mut preamble).unwrap();
        let (silent, mut slow) = (connect_as_root(&door), connect_as_root(&door));
        let slow_end = thread::spawn(move || {
            for byte in preamble.iter().cycle() {
                if slow.write_all(&[*byte]).is_err() {
                    return begun.elapsed();
                }
                thread::sleep(deadline / 6);
            }
            unreachable!()
        });
        assert_eq!(heard(&silent).len(), 8, "it was told what this is");
        assert!(begun.elapsed() >= deadline);
        assert!(slow_end.join().unwrap() >= deadline);
        assert_eq!(started.load(Ordering::Relaxed), 0);
        until(|| door.state().silent.is_empty());
    }

    #[test]
    fn another_protocol_is_shown_the_door() {
        let (door, started) = door(TIMEOUT, 8, 8);
        let mut other = connect_as_root(&door);
        other.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert_eq!(heard(&other).len(), 8);
        assert_eq!(started.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_silent_peers_do_not_keep_others_out() {
        let (door, _) = door(TIMEOUT, 3, 8);
        let silent: Vec<_> = (0..10).map(|_| connect_as_root(&door)).collect();
        let root = connect_as_root(&door);
        greet(&root);
        assert!(is_served(&root));
        // The last two of them may still say something.
        for gone in &silent[..8] {
            assert!(heard(gone).len() <= 8, "it may have been too fast for it to be told what this is");
        }
        greet(&silent[9]);
        assert!(is_served(&silent[9]));
    }

    #[test]
    fn sessions_beyond_the_most_are_refused_until_one_ends() {
        let (door, _) = door(TIMEOUT, 8, 2);
        let served: Vec<_> = (0..2)
            .map(|_| {
                let root = connect_as_root(&door);
                greet(&root);
                assert!(is_served(&root));
                root
            })
            .collect();
        let refused = connect_as_root(&door);
        greet(&refused);
        assert!(!is_served(&refused));
        drop(served);
        until(|| door.state().sessions == 0);
        let root = connect_as_root(&door);
        greet(&root);
        assert!(is_served(&root));
    }

    #[test]
    fn a_connection_that_cannot_be_taken_keeps_no_other_out() {
        let (door, _) = door(TIMEOUT, 8, 8);
        let mut delay = Duration::from_millis(1);
        for error in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ECONNABORTED] {
            door.take(Err(io::Error::from_raw_os_error(error)), &mut delay);
        }
        assert_eq!(delay, Duration::from_millis(16));
        let told = door.state().told[Trouble::Accept as usize].kept_back;
        assert_eq!(told, 3, "the first is told at once, the others with the next");
        let root = connect_as_root(&door);
        greet(&root);
        assert!(is_served(&root));
    }

    #[test]
    fn a_session_that_cannot_be_started_is_closed_and_the_next_is_served() {
        let failures = AtomicUsize::new(1);
        let start = move |stream| {
            if failures.fetch_sub(1, Ordering::Relaxed) == 1 {
                return Err(io::Error::from_raw_os_error(libc::EMFILE));
            }
            let input = OwnedFd::from(stream);
            Command::new("cat").stdout(input.try_clone()?).stdin(input).spawn()
        };
        let door = Door::new(Limits { greeting: TIMEOUT, silent: 8, sessions: 8 }, Box::new(start));
        for served in [false, true] {
            let root = connect_as_root(&door);
            greet(&root);
            assert_eq!(is_served(&root), served);
        }
    }
}
