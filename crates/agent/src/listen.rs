//! Taking connections from the host, by vsock.

use std::{
    io,
    os::fd::OwnedFd,
    process::{Command, Stdio},
    thread,
};

use vsock::{VMADDR_CID_ANY, VMADDR_CID_HOST, VsockListener};

use crate::settings;

/// Serves controllers on the host until it is killed. Each connection gets a process of its own, so
/// that whatever happens to one, its probes go with it and the others stay.
///
/// # Errors
/// When the port cannot be bound: no vsock device, or the port is taken.
pub fn listen(port: u32) -> io::Result<std::convert::Infallible> {
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, port)?;
    loop {
        let (stream, peer) = listener.accept()?;
        // Only whoever runs this machine may trace it: not its own users (CID 1, local), nor its
        // neighbours.
        if peer.cid() != VMADDR_CID_HOST {
            eprintln!(
                "xweave agent: refused a connection from CID {}: only the host (CID 2) may connect",
                peer.cid()
            );
            continue;
        }
        let input = OwnedFd::from(stream);
        let output = input.try_clone()?;
        let mut child = Command::new("/proc/self/exe")
            .args(["agent", "--stdio"])
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .spawn()?;
        thread::spawn(move || {
            let ended = child.wait();
            // If it was killed while it wove.
            settings::put_back();
            ended
        });
    }
}
