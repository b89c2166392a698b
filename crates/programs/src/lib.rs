//! The library's programs for kernels: compiled when xweave is built, so that nobody who records needs a compiler.
//!
//! They are relocatable (CO-RE): one object serves all kernels that have what it asks for. [`xweave_weave::Library`]
//! tells for a kernel which do, and what is compiled there instead; [`coverage()`] what works on it.

pub mod modules;

use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;
use xweave_code::Kernel;
use xweave_code::bpf::Relocations;
use xweave_weave::{CompiledLibrary, Coverage, CoveredPart, Library, LibraryError, Role, Verdict};

include!("compiled_for.rs");

/// What `build.rs` compiled: a [`CompiledLibrary`] (postcard), compressed (zlib).
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/library"));

static COMPILED: LazyLock<CompiledLibrary> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    // It is part of this program, and tested: whoever damages the one damages the other.
    let read = ZlibDecoder::new(PACKED).read_to_end(&mut bytes).is_ok();
    read.then(|| postcard::from_bytes(&bytes).ok()).flatten().unwrap_or_default()
});

/// The programs of all aspects of the library, and the probes of events.
pub fn library() -> Library<'static> {
    COMPILED.library()
}

/// The object of `bpf/page-cache.c`: which files the page cache has pages of.
pub fn page_cache() -> &'static [u8] {
    COMPILED.file("page-cache.c").unwrap_or_default()
}

/// The object of `bpf/kvm-slots.c`: where the memory of guests is in their processes.
pub fn kvm_slots() -> &'static [u8] {
    COMPILED.file("kvm-slots.c").unwrap_or_default()
}

/// What works on a kernel: each aspect of the library, each group of events, and what `merge` reads.
///
/// # Errors
///
/// The library is damaged.
pub fn coverage(kernel: &Kernel) -> Result<Vec<Coverage>, LibraryError> {
    let aspects = xweave_weave::library_aspects()?;
    let mut all = xweave_weave::coverage(&aspects, &library(), kernel)?;
    for (role, object) in [(Role::Host, kvm_slots()), (Role::Guest, page_cache())] {
        let unmet = Relocations::read(object).map_err(xweave_weave::Error::from)?.unmet_of_all(kernel);
        let unmet: Vec<_> = unmet.iter().map(ToString::to_string).collect();
        let verdict = if unmet.is_empty() { Verdict::Whole } else { Verdict::Refused(unmet) };
        all.push(Coverage { part: CoveredPart::Merge(role), verdict });
    }
    Ok(all)
}

/// The kernel that runs, with those modules that the library weaves into though they are not loaded.
///
/// # Errors
///
/// Its type information cannot be read. A module's file that cannot be read is none.
pub fn live_with_modules() -> Result<Kernel, xweave_code::Error> {
    let mut kernel = Kernel::live()?;
    let folder = format!("/lib/modules/{}", kernel.release());
    for (name, path) in modules::find(Path::new(&folder)).unwrap_or_default() {
        if let Ok(types) = modules::read_types(&path)
            && !kernel.has_module(&name)
        {
            kernel.add_module(&name, &types)?;
        }
    }
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_there() {
        // Ten aspects, most of which have programs on both sides.
        assert!(library().objects.len() > 15, "{}", library().objects.len());
        for object in library().objects.iter().map(|object| &object.elf).chain([&library().events.elf]) {
            assert_eq!(object[..4], *b"\x7fELF");
        }
        assert_eq!(page_cache()[..4], *b"\x7fELF");
        assert_eq!(kvm_slots()[..4], *b"\x7fELF");
    }
}
