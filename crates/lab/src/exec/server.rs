//! The exec server: runs in the emulated host (TCP behind QEMU's user network) and in guests (vsock; in a
//! Xen world TCP).

use super::guest::{self, Guests};
use super::link::{Link, copy};
use super::protocol::{Alive, Command, Frame, Hello, PORT, Request};
use super::run;
use crate::error::{Error, Result};
use crate::kind::Kind;
use std::convert::Infallible;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST, VsockAddr, VsockListener, VsockStream};

/// Where a server listens, and how it knows its clients.
#[derive(Debug, Clone)]
pub enum Listen {
    /// In the emulated host, and in guests of Xen: an address, and the file with the secret.
    Tcp {
        /// Address and port.
        address: String,
        /// The file with the secret that clients must know.
        token_file: PathBuf,
    },
    /// In a guest: a vsock port; only the host is served.
    Vsock {
        /// The port.
        port: u32,
    },
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { address, .. } => f.write_str(address),
            Self::Vsock { port } => write!(f, "vsock port {port}"),
        }
    }
}

/// Serves commands until the domain ends.
///
/// # Errors
///
/// [`Error::Serve`]: it returns only with one.
pub fn serve(listen: &Listen) -> Result<Infallible> {
    let Err(source) = accept(listen);
    Err(Error::Serve { at: listen.to_string(), source })
}

fn accept(listen: &Listen) -> io::Result<Infallible> {
    match listen {
        Listen::Tcp { address, token_file } => {
            let token = std::fs::read_to_string(token_file)?;
            if Guests::of_this_host().is_some_and(|guests| guests.kind == Kind::Kvm)
                && let Err(error) = guest::hold_static_keys()
            {
                // Commands and guests work without; only resets are less sure.
                eprintln!("xweave lab serve: cannot keep KVM from patching its code: {error}");
            }
            let listener = TcpListener::bind(address)?;
            loop {
                let (stream, _) = listener.accept()?;
                let Some(stranger) = Stranger::admit() else { continue };
                let token = token.clone();
                std::thread::spawn(move || {
                    // Small frames both ways: waiting to fill packets would only add delays.
                    let _ = stream.set_nodelay(true);
                    serve_one(stream, |stream| known_connection(stream, token.trim(), stranger));
                });
            }
        }
        Listen::Vsock { port } => {
            let listener = VsockListener::bind(&VsockAddr::new(VMADDR_CID_ANY, *port))?;
            loop {
                let (stream, peer) = listener.accept()?;
                if peer.cid() != VMADDR_CID_HOST {
                    continue;
                }
                std::thread::spawn(move || serve_one(stream, vsock_connection));
            }
        }
    }
}

fn serve_one<L: Link>(link: L, connection: impl FnOnce(L) -> io::Result<()>) {
    let last = link.again();
    report(connection(link));
    if let Ok(last) = last {
        last.linger();
    }
}

/// The server's own messages go to the domain's console.
fn report(result: io::Result<()>) {
    let Err(error) = result else { return };
    // A client that goes away is nothing to tell.
    if !matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
    ) {
        eprintln!("xweave lab serve: {error}");
    }
}

fn opening(link: &mut impl Link) -> io::Result<Hello> {
    match Frame::read(link)? {
        Some(Frame::Hello(hello)) => Ok(hello),
        Some(other) => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("{other:?} before a greeting")))
        }
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A connection whose client has not shown yet that it knows the secret: as long as it lives, it counts.
struct Stranger(&'static AtomicUsize);

/// So many of them may be there at once, and each for so long.
const STRANGERS: usize = 64;
const GREETS_WITHIN: Duration = Duration::from_secs(20);

impl Stranger {
    /// None if there are as many as may be.
    fn admit() -> Option<Self> {
        static THERE: AtomicUsize = AtomicUsize::new(0);
        Self::among(&THERE)
    }

    fn among(there: &'static AtomicUsize) -> Option<Self> {
        let one = Self(there);
        (there.fetch_add(1, Ordering::Relaxed) < STRANGERS).then_some(one)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// By TCP, of a client that knows the secret: for this domain, or for a guest of this host.
fn known_connection(mut link: TcpStream, token: &str, stranger: Stranger) -> io::Result<()> {
    // Whatever it dribbles.
    let (greeted, over) = mpsc::channel::<()>();
    let late = link.try_clone()?;
    std::thread::spawn(move || {
        if over.recv_timeout(GREETS_WITHIN) == Err(RecvTimeoutError::Timeout) {
            let _ = late.shutdown(Shutdown::Both);
        }
    });
    let hello = opening(&mut link)?;
    if !same(hello.token.as_bytes(), token.as_bytes()) {
        return Frame::Failed("wrong token".into()).write(&mut link);
    }
    drop((greeted, stranger));
    if hello.domain == std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim() {
        return requests(link);
    }
    let domain = hello.domain;
    let guests = Guests::of_this_host();
    let Some((guests, number)) = guests.and_then(|guests| Some((guests, guests.number(&domain)?))) else {
        return Frame::Failed(format!("there is no domain {domain}")).write(&mut link);
    };
    match guests.kind {
        Kind::Kvm => {
            let guest = VsockStream::connect(&VsockAddr::new(2 + number, PORT));
            pass_on(link, guest, Hello { token: String::new(), domain })
        }
        Kind::Xen => {
            let token = guest::token()?;
            pass_on(link, guest::connect(number), Hello { token, domain })
        }
    }
}

fn pass_on<G: Link>(mut client: TcpStream, guest: io::Result<G>, hello: Hello) -> io::Result<()> {
    match guest {
        Ok(mut guest) => {
            Frame::Hello(hello).write(&mut guest)?;
            relay(client, guest)
        }
        Err(e) => Frame::Failed(format!("{} does not answer: {e}", hello.domain)).write(&mut client),
    }
}

fn vsock_connection(mut link: VsockStream) -> io::Result<()> {
    opening(&mut link)?;
    requests(link)
}

/// Compares without telling by time where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

fn requests<L: Link>(mut link: L) -> io::Result<()> {
    match Frame::read(&mut link)? {
        Some(Frame::Request(Request::Ping)) => {
            let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
            Frame::Alive(Alive { boot_id }).write(&mut link)
        }
        Some(Frame::Request(Request::Reset { guest: name })) => {
            let guests = Guests::of_this_host();
            let done = guests
                .and_then(|guests| Some((guests, guests.number(&name)?)))
                .ok_or_else(|| io::Error::other(format!("there is no guest {name}")))
                .and_then(|(guests, number)| guests.reset(number));
            match done {
                Ok(()) => Frame::Alive(Alive { boot_id: String::new() }).write(&mut link),
                Err(e) => Frame::Failed(format!("cannot reset {name}: {e}")).write(&mut link),
            }
        }
        Some(Frame::Request(Request::Run(command))) => run_command(link, &command),
        Some(other) => Err(io::Error::new(io::ErrorKind::InvalidData, format!("{other:?} is not a request"))),
        None => Ok(()),
    }
}

fn run_command<L: Link>(mut link: L, command: &Command) -> io::Result<()> {
    match run::spawn(command) {
        Ok(child) => run::serve(child, link),
        // 127 and 126 are what a shell gives for a command that it cannot run.
        Err(e) => {
            let program = command.arguments.first().map_or("", String::as_str);
            Frame::Stderr(format!("{program}: {e}\n").into_bytes()).write(&mut link)?;
            let code = if e.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            Frame::Exit(super::protocol::Status::Code(code)).write(&mut link)
        }
    }
}

/// Copies both ways until either side ends.
fn relay<G: Link>(client: TcpStream, guest: G) -> io::Result<()> {
    // Without a limit, a guest that was reset and never answers would hold this thread for good.
    guest.limit(Duration::from_secs(60));
    let (mut from_client, mut to_client) = (client.again()?, client.again()?);
    let (mut from_guest, mut to_guest) = (guest.again()?, guest.again()?);
    let up = std::thread::spawn(move || {
        let _ = copy(&mut from_client, &mut to_guest);
        // The client is gone, or the guest is: the guest's server must see it.
        to_guest.end();
    });
    let _ = copy(&mut from_guest, &mut to_client);
    // Only this direction: the client closes the other one when it has read the end.
    let _ = client.shutdown(Shutdown::Write);
    let _ = up.join();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_who_have_not_greeted_are_admitted() {
        static THERE: AtomicUsize = AtomicUsize::new(0);
        let mut there: Vec<_> = (0..STRANGERS).map_while(|_| Stranger::among(&THERE)).collect();
        assert_eq!(there.len(), STRANGERS);
        assert!(Stranger::among(&THERE).is_none());
        there.pop();
        assert!(Stranger::among(&THERE).is_some());
        drop(there);
        assert_eq!(THERE.load(Ordering::Relaxed), 0);
    }
}
