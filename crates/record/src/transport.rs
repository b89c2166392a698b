//! Reaching an agent: a child process's standard input and output, or a vsock stream.

use std::{
    fmt,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use vsock::VsockStream;
use xweave_wire::VSOCK_PORT;

/// How long a child may take to go after its standard input was closed: it may have a thousand hooks to take
/// away, and settings of the kernel to put back then.
const FAREWELL: Duration = Duration::from_secs(20);

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
                Stream::of_child(command)
            }
            Self::Command(text) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(text);
                Stream::of_child(command)
            }
            Self::Vsock { cid, port } => {
                let stream = VsockStream::connect_with_cid_port(*cid, *port)?;
                Ok(Stream {
                    input: Box::new(stream.try_clone()?),
                    output: Box::new(stream.try_clone()?),
                    end: End::Socket(stream),
                })
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

/// An open stream.
pub(crate) struct Stream {
    pub(crate) input: Box<dyn Read + Send>,
    pub(crate) output: Box<dyn Write + Send>,
    pub(crate) end: End,
}

/// What has to be ended with a stream.
pub(crate) enum End {
    Child(Child),
    Socket(VsockStream),
}

impl Stream {
    /// In a process group of its own: Ctrl-C is for the controller, which then says good-bye to its
    /// agents, and must not cut the connection first.
    fn of_child(mut command: Command) -> io::Result<Self> {
        let mut child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("a pipe to the child is missing");
        let output = child.stdin.take().ok_or_else(missing)?;
        let input = child.stdout.take().ok_or_else(missing)?;
        Ok(Self { input: Box::new(input), output: Box::new(output), end: End::Child(child) })
    }
}

impl End {
    /// Ends the connection for good, so that a thread reading from it wakes up.
    pub(crate) fn cut(&mut self) {
        match self {
            Self::Socket(stream) => {
                // Fails if the other end was first.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            Self::Child(child) => {
                // Fails if it has ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    /// Waits for a child that has been told to go (its standard input is closed), and cuts what stays.
    pub(crate) fn farewell(&mut self) {
        if let Self::Child(child) = self {
            let deadline = Instant::now() + FAREWELL;
            while Instant::now() < deadline {
                if matches!(child.try_wait(), Ok(Some(_))) {
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.cut();
    }
}
