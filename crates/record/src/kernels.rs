//! What each domain's kernel is: its type information, asked of the agent once and kept.

use std::path::{Path, PathBuf};

use xweave_code::Kernel;
use xweave_guard::private::{self, Dir, Trust};
use xweave_wire::{
    limits::LARGE_FRAME,
    message::{Facts, Reply, Request},
};

use crate::{Error, Phase, capture::Capture};

/// The oldest kernel with all that weaving uses (typed hooks with cookies in modules).
const OLDEST: (u32, u32) = (6, 1);

/// Refuses a domain that cannot be traced, with the reason.
pub(crate) fn check(domain: &str, facts: &Facts) -> Result<(), Error> {
    let (domain, kernel) = (domain.to_owned(), facts.kernel.clone());
    if !is_new_enough(&kernel) {
        return Err(Error::OldKernel { domain, kernel });
    }
    if !facts.btf {
        return Err(Error::NoBtf { domain, kernel });
    }
    if !facts.privileged {
        return Err(Error::NotPermitted { domain });
    }
    Ok(())
}

/// Whether a release (`uname -r`) is one that xweave traces.
pub(crate) fn is_new_enough(release: &str) -> bool {
    is_at_least(release, OLDEST)
}

/// Whether a release is this version or a later one.
pub(crate) fn is_at_least(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}

/// The kernels of all domains with their loaded modules. Type information seen before comes from the cache.
pub(crate) fn kernels(capture: &mut Capture<'_>, cache: &Path) -> Result<Vec<Kernel>, Error> {
    (0..capture.sessions.len()).map(|index| kernel(capture, index, cache)).collect()
}

fn kernel(capture: &mut Capture<'_>, index: usize, cache: &Path) -> Result<Kernel, Error> {
    let (domain, facts) = (capture.sessions[index].name().to_owned(), capture.sessions[index].facts.clone());
    capture.tell(Phase::Reading { domain: &domain, kernel: &facts.kernel });
    let code = |error| Error::Code { domain: domain.clone(), error };
    let store = Store { dir: cache.join("btf") };
    let base_key = (!facts.build_id.is_empty()).then(|| facts.build_id.clone());
    let base = store.get(base_key.as_deref(), || fetch(capture, index, None))?;
    let mut kernel = Kernel::new(facts.kernel.clone(), &base).map_err(code)?;
    for module in &facts.modules {
        // A module's types refer to its kernel's by number: the pair is the key.
        let key = base_key.as_ref().map(|base| format!("{base}-{}", module.btf_sha256));
        let btf = store.get(key.as_deref(), || fetch(capture, index, Some(&module.name)))?;
        kernel.add_module(&module.name, &btf).map_err(code)?;
    }
    Ok(kernel)
}

fn fetch(capture: &mut Capture<'_>, index: usize, module: Option<&str>) -> Result<Vec<u8>, Error> {
    match capture.call(index, Request::Btf(module.map(str::to_owned)))? {
        Reply::Btf(bytes) => Ok(bytes),
        _ => Err(capture.unexpected(index)),
    }
}

/// Files named by what they hold. The cache is a convenience: what cannot be kept is asked again.
struct Store {
    dir: PathBuf,
}

impl Store {
    fn get(&self, key: Option<&str>, ask: impl FnOnce() -> Result<Vec<u8>, Error>) -> Result<Vec<u8>, Error> {
        // What another user may have written is asked again, and replaced.
        let kept = |key| Dir::open(&self.dir, Trust::Owner)?.read(key, LARGE_FRAME.into());
        if let Some(bytes) = key.and_then(|key| kept(key).ok()) {
            return Ok(bytes);
        }
        let bytes = ask()?;
        if let Some(key) = key {
            // A full disk here must not stop a recording that goes elsewhere.
            let _ = self.keep(key, &bytes);
        }
        Ok(bytes)
    }

    fn keep(&self, key: &str, bytes: &[u8]) -> Result<(), private::Error> {
        let dir = Dir::create(&self.dir)?;
        dir.claim()?;
        dir.replace(key, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(kernel: &str) -> Facts {
        Facts { kernel: kernel.to_owned(), privileged: true, btf: true, ..Facts::default() }
    }

    #[test]
    fn what_cannot_be_traced_is_refused_with_the_reason() {
        assert!(check("vm1", &facts("6.1.0-56-cloud-amd64")).is_ok());
        assert!(check("vm1", &facts("7.0")).is_ok());
        for old in ["5.10.0-8", "6.0.19", "weird"] {
            assert!(matches!(check("vm1", &facts(old)), Err(Error::OldKernel { .. })), "{old}");
        }
        let blind = Facts { btf: false, ..facts("6.12") };
        assert!(matches!(check("vm1", &blind), Err(Error::NoBtf { .. })));
        let user = Facts { privileged: false, ..facts("6.12") };
        assert!(matches!(check("vm1", &user), Err(Error::NotPermitted { .. })));
    }
}
