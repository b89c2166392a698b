//! Confined processes that analyse code, and how long any may take.

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use xweave_guard::confine::{Job, Limits, half_of_memory, job::Failed, run_all};

use super::{indices::Indices, work};

/// Says, again and again, whether to go on.
pub(super) type KeepGoing<'a> = &'a mut dyn FnMut() -> bool;

/// What analysing a kernel's code takes besides: some 2 GiB, and 20 s of a processor; emulated, minutes.
pub(super) const ANALYSER: Limits = Limits { memory: 6 << 30, seconds: 3600, file: 512 << 20 };

/// How long a job may take for each second of a processor that it may: side by side, processors are shared.
const TIMEOUT: u64 = 2;

/// How long a job with these limits is waited for.
pub(super) fn deadline(limits: Limits) -> Duration {
    Duration::from_secs(limits.seconds * TIMEOUT)
}

/// Makes the index of a file of this machine, and keeps it under the build ID that it has.
///
/// # Errors
///
/// Why there is none; nothing if it was interrupted.
pub(super) fn index(
    file: &Path,
    build_id: &str,
    debug: bool,
    indices: &Indices,
    keep_going: KeepGoing<'_>,
) -> Result<(File, PathBuf), Option<String>> {
    let said = |error: &dyn std::fmt::Display| Some(error.to_string());
    let file = std::path::absolute(file).map_err(|error| said(&error))?;
    let made = indices.begin().map_err(|error| said(&error))?;
    let handed: OwnedFd = made.file.try_clone().map_err(|error| said(&error))?.into();
    let limits = Limits { memory: half_of_memory().max(ANALYSER.memory), ..ANALYSER };
    let mut job = Job::new("reading it", &["confined", "index"], limits, deadline(limits));
    job.arguments.extend([file.into(), "--to".into(), handed.as_raw_fd().to_string().into()]);
    job.environment = work::environment();
    job.handed = vec![handed];
    match run_all(vec![job], keep_going).into_iter().next() {
        Some(Ok(_)) => {}
        Some(Err(Failed::Ended { how, .. })) => return Err(Some(format!("cannot be used: {how}"))),
        Some(Err(error @ Failed::Start { .. })) => return Err(said(&error)),
        Some(Err(Failed::Interrupted)) | None => return Err(None),
    }
    let name =
        xweave_access::IndexCache::name(&[build_id], debug).ok_or(Some("has no build ID".to_owned()))?;
    let kept = made.keep(&name).map_err(|error| said(&error));
    indices.prune();
    kept
}
