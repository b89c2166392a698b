//! Reaching an agent: a child process's standard input and output, or a vsock stream.

use std::{
    fmt,
    fs::File,
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use xweave_system::background::in_own_session;
use xweave_wire::{LAST_RESERVED_PORT, VSOCK_PORT};

use crate::pace::SOON;

/// The first of the reserved ports that are tried.
const FIRST_PORT: u32 = 512;

/// How long a child that was killed is waited for.
const KILLED: Duration = Duration::from_millis(200);

/// How an agent is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// On this machine: `xweave agent --stdio` as a child.
    Local,
    /// An agent that listens in a guest of this machine.
    Vsock {
        /// The guest's context ID.
        cid: u32,
        /// The agent's port.
        port: u32,
    },
    /// Any command whose standard input and output speak the protocol, run by the shell.
    Command(String),
}

impl Transport {
    /// Parses `local`, `vsock:CID[:PORT]`, or else a command; none if it is empty or a malformed vsock address.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "" => None,
            "local" => Some(Self::Local),
            text => match text.strip_prefix("vsock:") {
                None => Some(Self::Command(text.to_owned())),
                Some(address) => {
                    let (cid, port) = match address.split_once(':') {
                        Some((cid, port)) => (cid, port.parse().ok()?),
                        None => (address, VSOCK_PORT),
                    };
                    Some(Self::Vsock { cid: cid.parse().ok()?, port })
                }
            },
        }
    }

    /// Opens the stream. What is at its other end is not known yet.
    pub(crate) fn open(&self) -> io::Result<Stream> {
        match self {
            Self::Local => {
                let mut command = Command::new("/proc/self/exe");
                command.args(["agent", "--stdio"]);
                Stream::of_child(in_own_session(&mut command))
            }
            Self::Command(text) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(text);
                // No session: it may ask at the terminal.
                Stream::of_child(command.process_group(0))
            }
            Self::Vsock { cid, port } => {
                let socket = connect(*cid, *port).map_err(|error| with_remedy(error, *cid, *port))?;
                Stream::of_socket(socket)
            }
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Self::Command(text) => f.write_str(text),
        }
    }
}

/// Connects from a reserved port: by it the agent knows that it is the host's root who wants to trace its kernel.
fn connect(cid: u32, port: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes and returns integers.
    let fd = unsafe { libc::socket(libc::AF_VSOCK, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    bind_reserved(&socket)?;
    let begun = address(cid, port, |address, size| {
        // SAFETY: the address lives in the caller's frame and has that size; the descriptor is open.
        done(unsafe { libc::connect(socket.as_raw_fd(), address, size) })
    });
    match begun {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => until_connected(&socket)?,
        outcome => outcome?,
    }
    // SAFETY: takes integers. From here on, threads wait for it.
    done(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, 0) })?;
    Ok(socket)
}

/// The same error, with what to do about it.
fn with_remedy(error: io::Error, cid: u32, port: u32) -> io::Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => "this kernel has no vsock: modprobe vhost_vsock".to_owned(),
        Some(libc::ENODEV) => format!(
            "no guest has CID {cid}, or vsock is not loaded here: modprobe vhost_vsock, and look for guest-cid={cid} in \
             the guest's QEMU command line (-device vhost-vsock-pci,guest-cid={cid})"
        ),
        Some(libc::ECONNRESET | libc::ECONNREFUSED) => {
            format!("nothing listens at port {port} of CID {cid}: run `xweave agent --vsock` there, as root")
        }
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH) => format!(
            "CID {cid} does not answer: it is booting or stopped, has no vsock driver (modprobe \
             vmw_vsock_virtio_transport in the guest), or no guest has this CID"
        ),
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {remedy}"))
}

/// Until the guest has answered: one that hangs takes the kernel two seconds to give up, and Ctrl-C ends the wait.
fn until_connected(socket: &OwnedFd) -> io::Result<()> {
    let patience = i32::try_from(SOON.as_millis()).unwrap_or(i32::MAX);
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    while polled.revents == 0 {
        if xweave_interrupt::pending() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // SAFETY: one structure, which lives in this frame. What came of it is seen in the structure.
        unsafe { libc::poll(&raw mut polled, 1, patience) };
    }
    let (mut error, mut size): (libc::c_int, _) =
        (0, libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0));
    // SAFETY: both live in this frame, and the second is the size of the first.
    done(unsafe {
        let (error, size) = (&raw mut error, &raw mut size);
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, error.cast(), size)
    })?;
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn bind_reserved(socket: &OwnedFd) -> io::Result<()> {
    // From anywhere: an agent may still be taking the connection down that a recording before had from a port.
    let count = LAST_RESERVED_PORT + 1 - FIRST_PORT;
    let start = u32::try_from(RandomState::new().hash_one(count) % u64::from(count)).unwrap_or_default();
    for port in (0..count).map(|nth| FIRST_PORT + (start + nth) % count) {
        let bound = address(libc::VMADDR_CID_ANY, port, |address, size| {
            // SAFETY: as above.
            done(unsafe { libc::bind(socket.as_raw_fd(), address, size) })
        });
        match bound {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let message = "agents take connections from the host's root only, by a reserved port: run this as root \
                               (or with CAP_NET_BIND_SERVICE)";
                return Err(io::Error::new(error.kind(), message));
            }
            outcome => return outcome,
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "all reserved vsock ports are in use"))
}

fn address<R>(
    cid: u32,
    port: u32,
    call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> io::Result<R>,
) -> io::Result<R> {
    // SAFETY: all bits of the structure are integers.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::sa_family_t::try_from(libc::AF_VSOCK).unwrap_or_default();
    (address.svm_cid, address.svm_port) = (cid, port);
    let size = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    call((&raw const address).cast(), size)
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An open stream.
pub(crate) struct Stream {
    pub(crate) input: Box<dyn Read + Send>,
    pub(crate) output: Box<dyn Write + Send>,
    /// What a child says on its standard error: anybody's words.
    pub(crate) said: Option<Box<dyn Read + Send>>,
    pub(crate) end: End,
}

/// What has to be ended with a stream.
pub(crate) enum End {
    Child(Child),
    Socket(OwnedFd),
    /// A child that was left to end by itself.
    LetGo,
}

impl Stream {
    /// That is to be in a process group of its own: Ctrl-C is for the controller, which then says good-bye to its
    /// agents, and must not cut the connection first.
    fn of_child(command: &mut Command) -> io::Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe to the child is missing");
        let output = child.stdin.take().ok_or_else(missing)?;
        let input = child.stdout.take().ok_or_else(missing)?;
        let said = child.stderr.take().ok_or_else(missing)?;
        Ok(Self {
            input: Box::new(input),
            output: Box::new(output),
            said: Some(Box::new(said)),
            end: End::Child(child),
        })
    }

    pub(crate) fn of_socket(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            input: Box::new(File::from(socket.try_clone()?)),
            output: Box::new(Persistent(File::from(socket.try_clone()?))),
            said: None,
            end: End::Socket(socket),
        })
    }
}

/// Output to a guest that may be paused, until it goes on or the connection is cut.
///
/// Linux 6.12 queues what is sent to it. Linux 7.3 refuses each write with `EHOSTUNREACH` while the guest's device is stopped,
/// and the connection lasts (`vhost_transport_send_pkt` in drivers/vhost/vsock.c). Nothing tells when the guest goes on.
struct Persistent<W>(W);

impl<W: Write> Write for Persistent<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.raw_os_error() == Some(libc::EHOSTUNREACH) => thread::sleep(SOON),
                outcome => return outcome,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl End {
    /// Whether the other end has gone by itself, as a child does whose standard input was closed. A socket has nothing
    /// that is waited for.
    pub(crate) fn is_over(&mut self) -> bool {
        match self {
            Self::Socket(_) | Self::LetGo => true,
            Self::Child(child) => !matches!(child.try_wait(), Ok(None)),
        }
    }

    /// Asks a child to break off what it does, and not only to end when it has done it. An agent that has settings of the
    /// kernel to put back does that first; of any other the kernel takes back what it held.
    pub(crate) fn hurry(&mut self) {
        self.signal(libc::SIGTERM);
    }

    /// Leaves the other end to itself: it has been told to go, and needs nobody for that.
    pub(crate) fn let_go(&mut self) {
        match std::mem::replace(self, Self::LetGo) {
            // Waited for as long as this process lives: its end is nobody's business, its entry among the processes is.
            Self::Child(mut child) => drop(thread::spawn(move || child.wait())),
            mut socket => socket.cut(),
        }
    }

    /// Ends the connection for good, so that threads that read from it or write to it wake up. A child that is killed is
    /// waited for briefly: its kernel first takes its probes away, which can take many seconds.
    pub(crate) fn cut(&mut self) {
        match self {
            Self::Socket(socket) => {
                // SAFETY: takes integers; the descriptor is open. Fails if the other end was first.
                unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
            }
            Self::Child(_) => {
                self.signal(libc::SIGKILL);
                let deadline = Instant::now() + KILLED;
                while !self.is_over() && Instant::now() < deadline {
                    thread::sleep(Duration::from_millis(2));
                }
                if !self.is_over() {
                    self.let_go();
                }
            }
            Self::LetGo => {}
        }
    }

    /// Signals a child, and what it started, which holds the other ends of the pipes too.
    fn signal(&mut self, signal: libc::c_int) {
        let Self::Child(child) = self else { return };
        // The whole group, while its number is its own.
        if let (Ok(None), Ok(group)) = (child.try_wait(), libc::pid_t::try_from(child.id())) {
            // SAFETY: takes integers; the child has not been waited for, so the group is still its.
            unsafe { libc::kill(-group, signal) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vsock_cannot_do_is_told_with_a_remedy() {
        for (code, words) in [
            (
                libc::ENODEV,
                "No such device (os error 19); no guest has CID 7, or vsock is not loaded here: modprobe",
            ),
            (libc::ECONNRESET, "run `xweave agent --vsock` there"),
            (libc::ETIMEDOUT, "CID 7 does not answer"),
            (libc::EHOSTUNREACH, "CID 7 does not answer"),
            (libc::EAFNOSUPPORT, "modprobe vhost_vsock"),
        ] {
            let said = with_remedy(io::Error::from_raw_os_error(code), 7, 7390).to_string();
            assert!(said.contains(words), "{said}");
        }
    }

    /// A socket with an outcome for each write.
    struct Scripted(Vec<io::Result<usize>>);

    impl Write for Scripted {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0.remove(0)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn output_to_a_paused_guest_waits_until_it_goes_on() {
        let paused = || Err(io::Error::from_raw_os_error(libc::EHOSTUNREACH));
        let cut = || Err(io::Error::from_raw_os_error(libc::EPIPE));
        let mut output = Persistent(Scripted(vec![paused(), paused(), Ok(3), paused(), cut()]));
        output.write_all(b"abc").unwrap();
        assert_eq!(output.write_all(b"d").unwrap_err().raw_os_error(), Some(libc::EPIPE));
        assert!(output.0.0.is_empty());
    }
}
