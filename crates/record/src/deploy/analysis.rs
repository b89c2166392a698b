//! Confined processes that analyse code, and how long any may take.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use xweave_guard::{
    confine::{Job, Limits, job::Failed, run_all, share_of_memory},
    private,
};

use super::{indices::Indices, meter::Meter, work};
use crate::Phase;

/// Is told, again and again, what is being done; says whether to go on.
pub(super) type KeepGoing<'a> = &'a mut dyn FnMut(Phase<'_>) -> bool;

/// What analysing a kernel's code takes besides: some 2 GiB, and 20 s of a processor; emulated, minutes.
pub(super) const ANALYSER: Limits = Limits { memory: 6 << 30, seconds: 3600, file: 512 << 20 };

/// How long a job may take for each second of a processor that it may: side by side, processors are shared.
const TIMEOUT: u64 = 2;

/// How long a job with these limits is waited for.
pub(super) fn deadline(limits: Limits) -> Duration {
    Duration::from_secs(limits.seconds * TIMEOUT)
}

/// Why there is no index of a file: completes "that file …".
#[derive(Debug, thiserror::Error)]
pub(super) enum NoIndex {
    /// Nobody waits for it any more.
    #[error("interrupted")]
    Interrupted,
    /// It has no path that a process could be told.
    #[error("{0}")]
    Path(#[from] io::Error),
    /// There is no place for it.
    #[error("{0}")]
    Cache(#[from] private::Error),
    /// The process that was to make it did not.
    #[error("cannot be used: {0}")]
    Unusable(String),
    /// That process could not be started.
    #[error("{0}")]
    Process(#[source] Failed),
    /// Nothing tells whose it would be.
    #[error("has no build ID")]
    NoBuildId,
}

/// Makes the index of a file of this machine, which is a domain's kernel, and keeps it under the build ID that it has:
/// of the file, its build ID, and whether it has debug information.
///
/// # Errors
///
/// Why there is none.
pub(super) fn index(
    domain: &str,
    (file, build_id, debug): (&Path, &str, bool),
    indices: &Indices,
    keep_going: KeepGoing<'_>,
) -> Result<(File, PathBuf), NoIndex> {
    let file = std::path::absolute(file)?;
    let made = indices.begin()?;
    let handed: OwnedFd = made.file.try_clone()?.into();
    let meter = Meter::new()?;
    let (of_meter, number) = meter.hand()?;
    let limits = Limits { memory: share_of_memory(), ..ANALYSER };
    let mut job = Job::new("reading it", &["confined", "index"], limits, deadline(limits));
    job.arguments.extend([file.into(), "--to".into(), handed.as_raw_fd().to_string().into()]);
    job.arguments.extend(["--meter".into(), number.to_string().into()]);
    job.environment = work::environment();
    job.handed = vec![handed, of_meter];
    let mut going = || keep_going(Phase::Analysing { parts: &[meter.of(domain)] });
    match run_all(vec![job], &mut going).into_iter().next() {
        Some(Ok(_)) => {}
        Some(Err(Failed::Ended { how, .. })) => return Err(NoIndex::Unusable(how)),
        Some(Err(error @ Failed::Start { .. })) => return Err(NoIndex::Process(error)),
        Some(Err(Failed::Interrupted)) | None => return Err(NoIndex::Interrupted),
    }
    let name = xweave_access::IndexCache::name(&[build_id], debug).ok_or(NoIndex::NoBuildId)?;
    let kept = made.keep(&name);
    indices.prune();
    Ok(kept?)
}
