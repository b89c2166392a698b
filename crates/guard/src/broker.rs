//! A process that keeps its rights, and opens files for one that has given them up.
//!
//! A command that root started on a file of a stranger parses it as a user whom nobody else is. That user cannot open the
//! file, nor write where root may. So the command becomes two processes before it opens anything:
//!
//! ```text
//! xweave explain TRACE ──fork──► child: another user, reads and parses
//!      │                             │  request: a root by its number, and names in it
//!      └─ serves until it ends ◄─────┘  answer: a descriptor, or an error
//! ```
//!
//! The roots are what the command line names; they are fixed before the child begins. Whatever a child that was taken over
//! asks for, it gets regular files and folders below them, to be read, and may write where the command was to write: in one
//! folder, or one file. Names have no slashes, and no link below a root is followed.
//!
//! [`private`](crate::private) asks the broker where there is one, so that those who read and write by it need not know.

mod client;
mod protocol;
mod server;

use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::process::geteuid;

pub(crate) use client::Client;
pub(crate) use protocol::{Place, is_name};

/// Something that a command was given by its path.
#[derive(Clone, Debug)]
pub enum Root {
    /// A file, or a folder with what is in it, to be read.
    Read(PathBuf),
    /// A folder to be written in: files and folders in it are made, read, renamed and removed.
    Folder(PathBuf),
    /// A file to be written, whole or not at all; or a device or pipe to be written to.
    File(PathBuf),
}

impl Root {
    fn path(&self) -> &Path {
        let (Self::Read(path) | Self::Folder(path) | Self::File(path)) = self;
        path
    }
}

static CLIENT: OnceLock<Client> = OnceLock::new();

/// Returns the broker of this process; none where it has its own rights.
pub(crate) fn client() -> Option<&'static Client> {
    CLIENT.get()
}

/// Returns the broker of a process that has one.
pub(crate) fn required() -> io::Result<&'static Client> {
    client().ok_or_else(|| io::Error::other("the process that opens files is not there"))
}

/// Returns the user whose files are trusted: who started the command, whoever this process is by now.
pub(crate) fn user() -> u32 {
    client().map_or_else(|| geteuid().as_raw(), |client| client.user)
}

/// Reports whether a command takes another user here, and so needs a broker: if root started it.
pub fn is_needed() -> bool {
    geteuid().is_root()
}

/// Makes a child of this process that goes on with the command, and serves it until it ends; this process ends with it,
/// as it ended. In the child it returns the number of the descriptor over which it talks to its broker.
///
/// # Errors
/// The process has several threads, or no other can be made.
pub fn divide(roots: Vec<Root>) -> io::Result<i32> {
    if CLIENT.get().is_some() {
        return Err(io::Error::other("the process has a broker already"));
    }
    server::divide(roots).map(|client| CLIENT.get_or_init(|| client).descriptor())
}
