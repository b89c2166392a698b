//! What a load's connections speak: TCP, Multipath TCP, or TCP with the kernel's TLS.

use super::{done, length};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A protocol of a load's connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Plain TCP.
    #[default]
    Tcp,
    /// Multipath TCP (RFC 8684).
    Mptcp,
    /// TCP whose data the kernel encrypts (kTLS). Both ends have the same key, known to everybody: it is for tests.
    Ktls,
}

/// `IPPROTO_MPTCP` of include/uapi/linux/in.h.
const IPPROTO_MPTCP: libc::c_int = 262;

/// `struct tls12_crypto_info_aes_gcm_128` of include/uapi/linux/tls.h: the protocol's version, the cipher's number,
/// initialization vector, key, salt and the first record's number.
#[repr(C)]
struct CryptoInfo {
    version: u16,
    cipher: u16,
    secrets: [u8; 36],
}

/// TLS 1.2 and `TLS_CIPHER_AES_GCM_128`.
const CRYPTO: CryptoInfo = CryptoInfo { version: 0x0303, cipher: 51, secrets: [7; 36] };

impl Protocol {
    /// Listens at a port of all addresses.
    pub fn listen(self, port: u16) -> io::Result<TcpListener> {
        if self != Self::Mptcp {
            return TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
        }
        let socket = mptcp_socket()?;
        let address = sockaddr(Ipv4Addr::UNSPECIFIED, port);
        // SAFETY: the address lives in this frame, and the length is its own.
        done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length(&address)) })?;
        // SAFETY: takes integers only.
        done(unsafe { libc::listen(socket.as_raw_fd(), 128) })?;
        Ok(TcpListener::from(socket))
    }

    /// Connects to an IPv4 address.
    pub fn connect(self, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = match (self, to) {
            (Self::Mptcp, SocketAddr::V4(to)) => {
                let socket = mptcp_socket()?;
                let address = sockaddr(*to.ip(), to.port());
                // SAFETY: the address lives in this frame, and the length is its own.
                done(unsafe {
                    libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length(&address))
                })?;
                TcpStream::from(socket)
            }
            _ => TcpStream::connect(to)?,
        };
        self.begin(&stream)?;
        Ok(stream)
    }

    /// Both ends do so before the first byte.
    pub fn begin(self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        if self != Self::Ktls {
            return Ok(());
        }
        set(stream, libc::SOL_TCP, libc::TCP_ULP, b"tls")?;
        // TLS_TX and TLS_RX.
        set(stream, libc::SOL_TLS, 1, &CRYPTO)?;
        set(stream, libc::SOL_TLS, 2, &CRYPTO)
    }
}

fn mptcp_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes integers only.
    let socket =
        unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, IPPROTO_MPTCP) };
    done(socket)?;
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn sockaddr(address: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    }
}

fn set<T: ?Sized>(stream: &TcpStream, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the value is borrowed for the call, and the length is its own.
    done(unsafe {
        libc::setsockopt(stream.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length(value))
    })
}
