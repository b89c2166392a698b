//! The side that has no rights.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    path::{Component, Path},
    sync::{Mutex, PoisonError},
};

use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg,
        sendmsg,
    },
};

use super::{
    Root,
    protocol::{Operation, Place, Request, is_name},
};

/// The broker, as its child sees it.
#[derive(Debug)]
pub(crate) struct Client {
    /// An answer follows each request, so only one is under way.
    socket: Mutex<OwnedFd>,
    roots: Vec<Root>,
    /// Who started the command.
    pub(super) user: u32,
}

impl Client {
    pub(super) fn new(socket: OwnedFd, roots: Vec<Root>, user: u32) -> Self {
        Self { socket: Mutex::new(socket), roots, user }
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).as_raw_fd()
    }

    /// Finds what a path is to the broker: a root, or below one.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Place> {
        let within = |root: &Root| match root {
            Root::Read(of) | Root::Folder(of) => path.strip_prefix(of).ok().and_then(names),
            Root::File(of) => (of == path).then(Vec::new),
        };
        let found = (0..).zip(&self.roots).find_map(|(root, of)| Some(Place { root, folders: within(of)? }));
        found.ok_or_else(|| Errno::ACCESS.into())
    }

    /// Finds the file that is to be written at a path: its place is the folder that it is in.
    pub(crate) fn find_file(&self, path: &Path) -> Option<Place> {
        let is = |root: &Root| matches!(root, Root::File(of) if of == path);
        let root = (0..).zip(&self.roots).find_map(|(root, of)| is(of).then_some(root))?;
        Some(Place { root, folders: Vec::new() })
    }

    /// Reports whether a folder at that path may be written in.
    pub(crate) fn writes_in(&self, path: &Path) -> bool {
        let place = self.find(path);
        place.is_ok_and(|place| matches!(self.roots[usize::from(place.root)], Root::Folder(_)))
    }

    pub(crate) fn open_folder(&self, place: &Place) -> io::Result<OwnedFd> {
        self.ask_for(Operation::OpenFolder, place, &[])
    }

    pub(crate) fn open_file(&self, place: &Place, name: &str) -> io::Result<OwnedFd> {
        self.ask_for(Operation::OpenFile, place, &[name])
    }

    pub(crate) fn look(&self, place: &Place, name: &str) -> io::Result<OwnedFd> {
        self.ask_for(Operation::Look, place, &[name])
    }

    pub(crate) fn make_folder(&self, place: &Place) -> io::Result<()> {
        self.ask(Operation::MakeFolder, place, &[]).map(|_| ())
    }

    pub(crate) fn create_file(&self, place: &Place, name: &str) -> io::Result<OwnedFd> {
        self.ask_for(Operation::CreateFile, place, &[name])
    }

    pub(crate) fn rename(&self, place: &Place, from: &str, to: &str) -> io::Result<()> {
        self.ask(Operation::Rename, place, &[from, to]).map(|_| ())
    }

    pub(crate) fn unlink(&self, place: &Place, name: &str) -> io::Result<()> {
        self.ask(Operation::Unlink, place, &[name]).map(|_| ())
    }

    pub(crate) fn claim(&self, place: &Place) -> io::Result<()> {
        self.ask(Operation::Claim, place, &[]).map(|_| ())
    }

    /// Finds the folder of a file that is to be written.
    pub(crate) fn find_folder(&self, place: &Place) -> io::Result<()> {
        self.ask(Operation::FindFolder, place, &[]).map(|_| ())
    }

    /// Opens a device or pipe that is to be written to.
    pub(crate) fn open_other(&self, path: &Path) -> io::Result<OwnedFd> {
        self.ask_for(Operation::OpenOther, &self.find(path)?, &[])
    }

    /// Looks at what a path is, a root or below one.
    pub(crate) fn look_at(&self, path: &Path, follow: bool) -> io::Result<OwnedFd> {
        let mut place = self.find(path)?;
        match place.folders.pop() {
            Some(name) => self.look(&place, &name),
            None if follow => self.ask_for(Operation::LookThrough, &place, &[]),
            None => self.ask_for(Operation::LookAt, &place, &[]),
        }
    }

    /// Opens a file by its path: a root, also through a link, or below one.
    pub(crate) fn open_named(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut place = self.find(path)?;
        match place.folders.pop() {
            Some(name) => self.open_file(&place, &name),
            None => self.ask_for(Operation::OpenNamed, &place, &[]),
        }
    }

    fn ask_for(&self, operation: Operation, place: &Place, names: &[&str]) -> io::Result<OwnedFd> {
        self.ask(operation, place, names)?.ok_or_else(|| Errno::BADF.into())
    }

    fn ask(&self, operation: Operation, place: &Place, names: &[&str]) -> io::Result<Option<OwnedFd>> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let request = Request { operation, place: place.clone(), names };
        let packet = request.encode().ok_or(Errno::INVAL)?;
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nothing = SendAncillaryBuffer::default();
        uninterrupted(|| sendmsg(&*socket, &[IoSlice::new(&packet)], &mut nothing, SendFlags::NOSIGNAL))?;
        let (mut answer, mut space) = ([0; 4], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = uninterrupted(|| {
            let parts = &mut [IoSliceMut::new(&mut answer)];
            recvmsg(&*socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        if received.bytes != answer.len() {
            return Err(Errno::PIPE.into());
        }
        let mut descriptor = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptor = descriptors.last().or(descriptor);
            }
        }
        match i32::from_le_bytes(answer) {
            0 => Ok(descriptor),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Does something again as long as a signal comes in between.
pub(super) fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// The names of a path's parts; none if one is no name of a file.
fn names(path: &Path) -> Option<Vec<String>> {
    path.components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str().filter(|name| is_name(name)).map(str::to_owned),
            _ => None,
        })
        .collect()
}
