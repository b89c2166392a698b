//! The side that keeps its rights. It reads nothing but requests.

use std::{
    ffi::OsStr,
    fs,
    io::{self, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, FromRawFd as _, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
    process::ExitStatus,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags, open, openat},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
    process::geteuid,
};

use super::{
    Root,
    client::{Client, uninterrupted},
    protocol::{LONGEST, Operation, Place, Request},
};
use crate::{
    confine::alone,
    private::{
        handle::{self, Handle},
        parent, temporary_name,
    },
};

/// Signals that end a command: passed on to the child, for whose end the broker waits.
const PASSED_ON: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

pub(super) fn divide(roots: Vec<Root>) -> io::Result<Client> {
    alone().map_err(io::Error::other)?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let user = geteuid().as_raw();
    // What is printed later is printed once.
    io::stdout().flush()?;
    // SAFETY: this process has one thread, so that the child has all that it knows of.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(ours);
            Ok(Client::new(theirs, roots, user))
        }
        child => {
            drop(theirs);
            let mut server = Server { roots, child, made: Vec::new() };
            let ended = server.serve(&ours);
            server.clean_up(ended.as_ref().is_ok_and(ExitStatus::success));
            end_as(ended)
        }
    }
}

struct Server {
    roots: Vec<Root>,
    child: libc::pid_t,
    /// Folders that were not there.
    made: Vec<PathBuf>,
}

impl Server {
    /// Answers until the child has ended.
    fn serve(&mut self, socket: &OwnedFd) -> io::Result<ExitStatus> {
        let signals = signals()?;
        let mut is_open = true;
        loop {
            let mut watched = vec![PollFd::new(&signals, PollFlags::IN)];
            if is_open {
                watched.push(PollFd::new(socket, PollFlags::IN));
            }
            uninterrupted(|| poll(&mut watched, None))?;
            let [signalled, asked] =
                [0, 1].map(|at| watched.get(at).is_some_and(|one| !one.revents().is_empty()));
            if signalled {
                pass_on(&signals, self.child)?;
                if let Some(status) = ended(self.child)? {
                    return Ok(status);
                }
            }
            if asked {
                is_open = self.answer_one(socket)?;
            }
        }
    }

    /// Answers a request; false when there will be none any more.
    fn answer_one(&mut self, socket: &OwnedFd) -> io::Result<bool> {
        let mut packet = [0; LONGEST + 1];
        let received = uninterrupted(|| {
            let parts = &mut [IoSliceMut::new(&mut packet)];
            // Descriptors that it sends are not taken.
            recvmsg(socket, parts, &mut RecvAncillaryBuffer::default(), RecvFlags::CMSG_CLOEXEC)
        });
        let bytes = match received {
            Ok(received) => received.bytes,
            Err(Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        if bytes == 0 {
            return Ok(false);
        }
        let answer = match Request::decode(&packet[..bytes]) {
            Some(request) => self.answer(&request),
            None => Err(Errno::INVAL.into()),
        };
        let code = match &answer {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        };
        let descriptor = answer.ok().flatten();
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let code = code.to_le_bytes();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match uninterrupted(|| sendmsg(socket, &[IoSlice::new(&code)], &mut ancillary, flags)) {
            Ok(_) => Ok(true),
            // It does not read what it asked for, or is gone.
            Err(Errno::PIPE | Errno::AGAIN | Errno::CONNRESET) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn answer(&mut self, request: &Request) -> io::Result<Option<OwnedFd>> {
        let Request { operation, place, names } = request;
        let root = self.roots.get(usize::from(place.root)).ok_or(Errno::INVAL)?;
        match operation {
            Operation::OpenFolder => self.folder(place, &[])?.open_again().map(Some),
            Operation::OpenFile => self.folder(place, names)?.open_file(&names[0]).map(Some),
            Operation::OpenNamed => match root {
                Root::Read(path) => handle::open_named(path).map(Some),
                _ => Err(Errno::ACCESS.into()),
            },
            Operation::LookAt => look(root.path(), OFlags::NOFOLLOW).map(Some),
            Operation::LookThrough => look(root.path(), OFlags::empty()).map(Some),
            Operation::Look => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Ok(Some(openat(self.folder(place, names)?.fd()?, &names[0], flags, Mode::empty())?))
            }
            Operation::OpenOther => match root {
                Root::File(path) => handle::open_other(path).map(Some),
                _ => Err(Errno::ACCESS.into()),
            },
            Operation::FindFolder => match root {
                Root::File(path) => Handle::open_for_file(parent(path), path).map(|_| None),
                _ => Err(Errno::ACCESS.into()),
            },
            Operation::MakeFolder => self.make_folder(place).map(|()| None),
            Operation::CreateFile => self.writable(place, names)?.create_file(&names[0]).map(Some),
            Operation::Rename => self.writable(place, names)?.rename(&names[0], &names[1]).map(|()| None),
            Operation::Unlink => self.writable(place, names)?.unlink(&names[0]).map(|()| None),
            Operation::Claim => self.writable(place, &[])?.claim().map(|()| None),
        }
    }

    /// Opens the folder of a place, in which these names are to be used.
    fn folder(&self, place: &Place, names: &[String]) -> io::Result<Handle> {
        let root = self.roots.get(usize::from(place.root)).ok_or(Errno::INVAL)?;
        if let Root::File(path) = root {
            // Of its folder, nothing but this file: not its other names either.
            let own = file_names(path, self.child);
            if names.is_empty() || !place.folders.is_empty() || !names.iter().all(|name| own.contains(name)) {
                return Err(Errno::ACCESS.into());
            }
            return Handle::open_for_file(parent(path), path);
        }
        place.folders.iter().try_fold(Handle::open(root.path())?, |folder, name| folder.open_folder(name))
    }

    fn writable(&self, place: &Place, names: &[String]) -> io::Result<Handle> {
        match self.roots.get(usize::from(place.root)) {
            Some(Root::Folder(_) | Root::File(_)) => self.folder(place, names),
            _ => Err(Errno::ACCESS.into()),
        }
    }

    fn make_folder(&mut self, place: &Place) -> io::Result<()> {
        let Some(Root::Folder(path)) = self.roots.get(usize::from(place.root)) else {
            return Err(Errno::ACCESS.into());
        };
        let Some((name, above)) = place.folders.split_last() else {
            if !path.exists() {
                self.made.push(path.clone());
            }
            return handle::make_path(path);
        };
        self.folder(&Place { root: place.root, folders: above.to_vec() }, &[])?.make_folder(name)
    }

    /// Removes what a child has left that did not come to its end.
    fn clean_up(&self, succeeded: bool) {
        for root in &self.roots {
            if let Root::File(path) = root
                && let [_, temporary] = &file_names(path, self.child)[..]
                && let Ok(folder) = Handle::open_for_file(parent(path), path)
            {
                let _ = folder.unlink(temporary);
            }
        }
        for made in self.made.iter().filter(|_| !succeeded) {
            // With anything in it, it stays.
            let _ = fs::remove_dir(made);
        }
    }
}

/// Names that a file to be written has: its own, and that of before it is whole.
fn file_names(path: &Path, child: libc::pid_t) -> Vec<String> {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return Vec::new() };
    vec![name.to_owned(), temporary_name(name, child.cast_unsigned())]
}

fn look(path: &Path, follow: OFlags) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty())?)
}

/// A descriptor of the signals that the broker waits for; they do nothing else to it from now on.
fn signals() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero set is one, and is emptied before it is used.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: all of them take the set, which is there.
    let descriptor = unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is new, and nobody else's.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // The child may have ended before.
    // SAFETY: takes an integer.
    unsafe { libc::raise(libc::SIGCHLD) };
    Ok(descriptor)
}

/// Passes signals on; not those of the terminal, which the child gets as well.
fn pass_on(signals: &OwnedFd, child: libc::pid_t) -> io::Result<()> {
    let mut buffer = [0; size_of::<libc::signalfd_siginfo>()];
    loop {
        match rustix::io::read(signals, &mut buffer) {
            Ok(read) if read == buffer.len() => {
                // SAFETY: the kernel has filled it; the structure has integers only.
                let about: libc::signalfd_siginfo =
                    unsafe { std::ptr::read_unaligned(buffer.as_ptr().cast()) };
                let signal = about.ssi_signo.cast_signed();
                if PASSED_ON.contains(&signal) && about.ssi_code <= 0 {
                    // SAFETY: takes integers.
                    unsafe { libc::kill(child, signal) };
                }
            }
            Ok(_) | Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How the child ended, if it has.
fn ended(child: libc::pid_t) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    // SAFETY: points to an integer of its own.
    match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(ExitStatus::from_raw(status))),
    }
}

/// Ends this process as its child ended.
fn end_as(ended: io::Result<ExitStatus>) -> ! {
    let code = match ended {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => code,
            (None, Some(libc::SIGSYS)) => {
                eprintln!("xweave: it was ended for a system call that such work never makes");
                1
            }
            (None, signal) => {
                let signal = signal.unwrap_or(libc::SIGKILL);
                // SAFETY: takes integers, and a set that is filled before it is used.
                unsafe {
                    let mut all: libc::sigset_t = std::mem::zeroed();
                    libc::sigfillset(&raw mut all);
                    libc::signal(signal, libc::SIG_DFL);
                    libc::sigprocmask(libc::SIG_UNBLOCK, &raw const all, std::ptr::null_mut());
                    libc::raise(signal);
                }
                128 + signal
            }
        },
        Err(error) => {
            eprintln!("xweave: the process that does the work cannot be waited for: {error}");
            1
        }
    };
    // SAFETY: takes an integer. What the child has not written, this process must not write either.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    /// A broker of `trace`, to be read, `made`, to be written in, and `page.html`, to be written. Beside them is a secret.
    struct World {
        folder: tempfile::TempDir,
        server: Server,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            fs::create_dir_all(path("trace/events")).unwrap();
            fs::write(path("trace/trace.json"), "{}").unwrap();
            fs::write(path("trace/events/1.parquet"), "PAR1").unwrap();
            fs::write(path("secret"), "precious").unwrap();
            let roots =
                vec![Root::Read(path("trace")), Root::Folder(path("made")), Root::File(path("page.html"))];
            let child = std::process::id().cast_signed();
            Self { folder, server: Server { roots, child, made: Vec::new() } }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn ask(
            &mut self,
            operation: Operation,
            root: u16,
            folders: &[&str],
            names: &[&str],
        ) -> io::Result<Option<OwnedFd>> {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let place = Place { root, folders: owned(folders) };
            let request = Request { operation, place, names: owned(names) };
            // As it arrives: what cannot be sent cannot be asked.
            let packet = request.encode().ok_or(Errno::INVAL)?;
            self.server.answer(&Request::decode(&packet).ok_or(Errno::INVAL)?)
        }

        fn read(&mut self, root: u16, folders: &[&str], name: &str) -> io::Result<String> {
            let fd = self.ask(Operation::OpenFile, root, folders, &[name])?.ok_or(Errno::BADF)?;
            io::read_to_string(fs::File::from(fd))
        }
    }

    #[test]
    fn what_is_named_is_read_and_written() {
        let mut world = World::new();
        assert_eq!(world.read(0, &[], "trace.json").unwrap(), "{}");
        assert_eq!(world.read(0, &["events"], "1.parquet").unwrap(), "PAR1");
        assert!(world.ask(Operation::OpenFolder, 0, &["events"], &[]).unwrap().is_some());

        world.ask(Operation::MakeFolder, 1, &[], &[]).unwrap();
        world.ask(Operation::MakeFolder, 1, &["events"], &[]).unwrap();
        let file = world.ask(Operation::CreateFile, 1, &["events"], &["a"]).unwrap().unwrap();
        fs::File::from(file).write_all(b"new").unwrap();
        world.ask(Operation::Rename, 1, &["events"], &["a", "b"]).unwrap();
        assert_eq!(fs::read_to_string(world.path("made/events/b")).unwrap(), "new");

        let temporary = temporary_name("page.html", std::process::id());
        let file = world.ask(Operation::CreateFile, 2, &[], &[&temporary]).unwrap().unwrap();
        fs::File::from(file).write_all(b"<html>").unwrap();
        world.ask(Operation::Rename, 2, &[], &[&temporary, "page.html"]).unwrap();
        assert_eq!(fs::read_to_string(world.path("page.html")).unwrap(), "<html>");
    }

    #[test]
    fn nothing_else_is_within_reach() {
        let mut world = World::new();
        symlink(world.path("secret"), world.path("trace/link")).unwrap();
        symlink(world.path("."), world.path("trace/out")).unwrap();
        // A link itself may be looked at, not through.
        let link = world.ask(Operation::OpenFile, 0, &[], &["link"]);
        assert!(link.is_err() || io::read_to_string(fs::File::from(link.unwrap().unwrap())).is_err());
        assert!(world.read(0, &["out"], "secret").is_err());
        assert!(world.ask(Operation::OpenFolder, 0, &["out"], &[]).is_err());
        assert!(world.ask(Operation::OpenFolder, 9, &[], &[]).is_err());

        // What is to be read is not changed.
        for (operation, names) in [
            (Operation::CreateFile, &["new"][..]),
            (Operation::Unlink, &["trace.json"]),
            (Operation::Rename, &["trace.json", "gone"]),
            (Operation::Claim, &[]),
            (Operation::MakeFolder, &[]),
            (Operation::OpenOther, &[]),
        ] {
            assert!(world.ask(operation, 0, &[], names).is_err(), "{operation:?}");
        }
        // Beside a file that is to be written, nothing is read, written or removed.
        for (operation, names) in [
            (Operation::OpenFolder, &[][..]),
            (Operation::OpenFile, &["secret"]),
            (Operation::Look, &["secret"]),
            (Operation::CreateFile, &["new"]),
            (Operation::Unlink, &["secret"]),
            (Operation::Rename, &["secret", "page.html"]),
            (Operation::Rename, &["page.html", "secret"]),
        ] {
            assert!(world.ask(operation, 2, &[], names).is_err(), "{operation:?}");
        }
        assert_eq!(fs::read_to_string(world.path("secret")).unwrap(), "precious");
        assert_eq!(fs::read_to_string(world.path("trace/trace.json")).unwrap(), "{}");
    }

    #[test]
    fn a_pipe_in_a_trace_is_not_waited_for() {
        let mut world = World::new();
        let name = std::ffi::CString::new(world.path("trace/pipe").as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the name ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let pipe = world.ask(Operation::OpenFile, 0, &[], &["pipe"]).unwrap().unwrap();
        // As a place only: its kind is known, and nothing can be read.
        assert!(fs::File::from(pipe).metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_was_begun_is_removed() {
        let mut world = World::new();
        let temporary = temporary_name("page.html", std::process::id());
        world.ask(Operation::CreateFile, 2, &[], &[&temporary]).unwrap();
        world.ask(Operation::MakeFolder, 1, &[], &[]).unwrap();
        world.server.clean_up(false);
        assert!(!world.path(&temporary).exists());
        assert!(!world.path("made").exists());
    }
}
