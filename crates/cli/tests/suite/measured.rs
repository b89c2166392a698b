//! Runs of the program whose memory is measured, and limited.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::peak::take_end;

/// How long a run may take, in a quiet machine a few seconds at most.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a run of the program ended.
pub struct Ran {
    /// Its exit status.
    pub status: i32,
    /// Standard output.
    pub printed: String,
    /// Standard error.
    pub said: String,
    /// The most memory that it, or a process of its, had at once, in bytes.
    pub peak: u64,
}

/// Runs the program in a folder, with so much memory at most, in bytes. Leaves the files `printed` and `said` there. Panics if
/// it is ended by a signal, does not end, or prints what is no UTF-8.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it, and tells its memory")]
pub fn run(folder: &Path, arguments: &str, memory: u64) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    command.args(arguments.split_whitespace()).current_dir(folder);
    let (printed, said) = (folder.join("printed"), folder.join("said"));
    command.stdout(fs::File::create(&printed).unwrap()).stderr(fs::File::create(&said).unwrap());
    let limit = libc::rlimit { rlim_cur: memory, rlim_max: memory };
    // SAFETY: a system call on a structure of integers.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    };
    let mut child = command.spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    let (status, peak) = loop {
        if let Some(ended) = take_end(child.id(), libc::WNOHANG) {
            break ended;
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("xweave {arguments}: does not end");
        }
        thread::sleep(Duration::from_millis(1));
    };
    let [printed, said] = [printed, said].map(|file| String::from_utf8(fs::read(file).unwrap()).unwrap());
    let Some(status) = status.code() else { panic!("xweave {arguments}: {status}: {said}") };
    Ran { status, printed, said, peak }
}
