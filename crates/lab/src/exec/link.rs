//! Connections of both kinds, by TCP and by vsock.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;
use vsock::VsockStream;

/// How long a client may take to close a connection that has been answered.
const LINGER: Duration = Duration::from_secs(10);

/// A connection of either kind.
pub(super) trait Link: Read + Write + Send + 'static {
    /// Another handle of the same connection.
    fn again(&self) -> io::Result<Self>
    where
        Self: Sized;
    /// Ends both directions, waking whoever reads.
    fn end(&self);
    /// Gives up when nothing that is sent has been taken for so long.
    fn limit(&self, time: Duration);
    /// Ends what is sent, and takes what still comes until the client closes. A connection closed with
    /// input unread is reset, and the reset may overtake the answer.
    fn linger(self);
}

/// Both streams have these methods, and no trait that they share names them.
macro_rules! link {
    ($stream:ty, $limit:expr) => {
        impl Link for $stream {
            fn again(&self) -> io::Result<Self> {
                self.try_clone()
            }
            fn end(&self) {
                let _ = self.shutdown(Shutdown::Both);
            }
            fn limit(&self, time: Duration) {
                $limit(self, time);
            }
            fn linger(mut self) {
                let _ = self.shutdown(Shutdown::Write);
                let _ = self.set_read_timeout(Some(LINGER));
                let _ = copy(&mut self, &mut io::sink());
            }
        }
    };
}
link!(TcpStream, limit_tcp);
link!(VsockStream, |stream: &VsockStream, time| {
    let _ = stream.set_write_timeout(Some(time));
});

/// TCP takes data for a peer that is gone, and would send it again for a quarter of an hour.
fn limit_tcp(stream: &TcpStream, time: Duration) {
    let limit = libc::c_uint::try_from(time.as_millis()).unwrap_or(libc::c_uint::MAX);
    // SAFETY: the option's value is one unsigned int, and the length says so. Failing leaves the default.
    unsafe {
        let length = libc::socklen_t::try_from(size_of_val(&limit)).unwrap_or(4);
        let value = (&raw const limit).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, value, length);
    }
}

pub(super) fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => to.write_all(&buffer[..n])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
