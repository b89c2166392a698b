//! One command of the exec server: its process group, its pipes, and its end.

use super::link::Link;
use super::protocol::{CREDIT, Command, Frame, Status};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a command finds without asking for more.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a command whose client is gone may take to end well, before it is killed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the command in a process group of its own, with pipes.
pub fn spawn(command: &Command) -> io::Result<Child> {
    let (program, arguments) = command
        .arguments
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no command"))?;
    process::Command::new(program)
        .args(arguments)
        .env_clear()
        .envs([("PATH", PATH), ("HOME", "/root"), ("USER", "root"), ("LANG", "C.UTF-8")])
        .envs(command.environment.iter().map(|(k, v)| (k, v)))
        .current_dir(command.folder.as_deref().unwrap_or("/root"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// The command's process group; no signal is sent once its leader has been reaped, for then the
/// number may be another's.
struct Group {
    leader: i32,
    reaped: Mutex<bool>,
    ended: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    fn signal(&self, signal: i32) {
        let reaped = lock(&self.reaped);
        if !*reaped {
            // SAFETY: kill takes two numbers and touches no memory.
            unsafe { libc::kill(-self.leader, signal) };
        }
    }

    /// The client is gone: ask the command to end, then make it.
    fn abandon(&self) {
        self.signal(libc::SIGTERM);
        let reaped = lock(&self.reaped);
        let (reaped, _) = self
            .ended
            .wait_timeout_while(reaped, TIMEOUT, |reaped| !*reaped)
            .unwrap_or_else(PoisonError::into_inner);
        drop(reaped);
        self.signal(libc::SIGKILL);
    }
}

/// Carries the command's input and output over the link until it ends or the client goes away.
pub fn serve<L: Link>(mut child: Child, mut link: L) -> io::Result<()> {
    let missing = || io::Error::other("no pipe");
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
    let stderr = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
    let leader = i32::try_from(child.id()).map_err(io::Error::other)?;
    let group = Arc::new(Group { leader, reaped: Mutex::new(false), ended: Condvar::new() });
    let out = Arc::new(Mutex::new(link.again()?));

    // Credit bounds what waits in this queue to CREDIT bytes.
    let (input, queue) = mpsc::channel();
    let taken = Arc::clone(&out);
    std::thread::spawn(move || feed(stdin, &queue, &taken));

    // Closing the writing end tells both pumps that the command has ended.
    let (ended_read, ended_write) = io::pipe()?;
    let ended_read = Arc::new(OwnedFd::from(ended_read));
    let mut pumps = Vec::new();
    for (pipe, frame) in [(stdout, Frame::Stdout as fn(Vec<u8>) -> Frame), (stderr, Frame::Stderr)] {
        let (out, ended) = (Arc::clone(&out), Arc::clone(&ended_read));
        pumps.push(std::thread::spawn(move || pump(pipe, &ended, &out, frame)));
    }

    let waiter = {
        let (group, out) = (Arc::clone(&group), Arc::clone(&out));
        std::thread::spawn(move || {
            wait_unreaped(leader);
            drop(ended_write);
            for pump in pumps {
                let _ = pump.join();
            }
            let status = {
                let mut reaped = lock(&group.reaped);
                let status = child.wait();
                *reaped = true;
                status
            };
            group.ended.notify_all();
            let frame = match status {
                Ok(status) => Frame::Exit(
                    status.code().map_or_else(|| Status::Signal(status.signal().unwrap_or(0)), Status::Code),
                ),
                Err(e) => Frame::Failed(format!("cannot wait for the command: {e}")),
            };
            let _ = frame.write(&mut *lock(&out));
            // The client closes the channel when it has read this. Closing it here, with input still
            // unread, would reset the connection and could take the exit status with it.
        })
    };

    let mut pending = Some(input);
    loop {
        match Frame::read(&mut link) {
            Ok(Some(Frame::Stdin(data))) if data.len() <= CREDIT => {
                if let Some(input) = &pending {
                    // A command that reads no more has closed the queue: its input is dropped.
                    let _ = input.send(data);
                }
            }
            Ok(Some(Frame::StdinEnd)) => pending = None,
            Ok(Some(Frame::Signal(signal))) => group.signal(signal),
            Ok(Some(Frame::KeepAlive)) => {}
            Ok(Some(_) | None) | Err(_) => break,
        }
    }
    drop(pending);
    group.abandon();
    link.end();
    let _ = waiter.join();
    Ok(())
}

/// Waits for the command's end and leaves it a zombie, so that its number stays its own.
fn wait_unreaped(pid: i32) {
    loop {
        // SAFETY: an all-zero siginfo_t is valid, and waitid only writes into it.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let id = libc::id_t::try_from(pid).unwrap_or_default();
            libc::waitid(libc::P_PID, id, &raw mut info, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn feed(mut stdin: impl Write, queue: &mpsc::Receiver<Vec<u8>>, out: &Mutex<impl Write>) {
    while let Ok(data) = queue.recv() {
        let written = stdin.write_all(&data);
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if Frame::Taken(bytes).write(&mut *lock(out)).is_err() {
            return;
        }
        if written.is_err() {
            // Nobody reads: take the rest and drop it, so that the client is not held up.
            for data in queue.iter() {
                let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
                if Frame::Taken(bytes).write(&mut *lock(out)).is_err() {
                    return;
                }
            }
            return;
        }
    }
}

/// Sends what comes out of a pipe, to its end. Once the command has ended, what is in the pipe is
/// all that it wrote: a descendant that keeps the pipe open does not keep the channel open.
fn pump(pipe: OwnedFd, ended: &OwnedFd, out: &Mutex<impl Write>, frame: fn(Vec<u8>) -> Frame) {
    let mut buffer = vec![0; 1 << 16];
    let mut pipe = File::from(pipe);
    loop {
        let mut polls = [
            libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: ended.as_raw_fd(), events: libc::POLLIN, revents: 0 },
        ];
        // SAFETY: two valid pollfds, and the count says two.
        if unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) } < 0 {
            continue;
        }
        if polls[0].revents == 0 {
            if polls[1].revents == 0 {
                continue;
            }
            // The end came after this poll looked at the pipe, or before: look once more.
            // SAFETY: one valid pollfd, and the count says one.
            if unsafe { libc::poll(polls.as_mut_ptr(), 1, 0) } <= 0 {
                return;
            }
        }
        match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                if frame(buffer[..n].to_vec()).write(&mut *lock(out)).is_err() {
                    return;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
