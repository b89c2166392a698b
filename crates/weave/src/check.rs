//! Checking aspects against kernels that are given as files: what would be woven into each, and which programs.
//!
//! Such files may have been made by anybody. What is derived from them has caches of its own, so that it is never loaded into a
//! kernel, and no recording weaves by it.

use std::path::{Path, PathBuf};

use xweave_access::IndexCache;
use xweave_aspect::{Aspects, Diagnostic, Source};
use xweave_code::Kernel;

use crate::{
    CodeError, CodeIndex, Compiler, Domain, Error, KernelFiles, Library, Options, Peer, PortableText, Role,
    Weaving, bundle::AspectInput, needs_code, resolve, unseen_calls, weave,
};

/// Why aspects cannot be checked. Mistakes in the aspects themselves are none of these.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A domain's argument has not the form `NAME=KERNEL`.
    #[error("--domain {0}: NAME=KERNEL is wanted, such as host=live")]
    Syntax(String),
    /// A kernel's type information cannot be read.
    #[error("--domain {0}: {1}")]
    Kernel(String, #[source] xweave_code::Error),
    /// A kernel's instructions cannot be analysed.
    #[error("--domain {0}: {1}")]
    Code(String, #[source] CodeError),
    /// The programs have no form that fits other kernels.
    #[error("{}", join(.0))]
    NotPortable(Vec<Diagnostic>),
    /// The programs cannot be compiled.
    #[error(transparent)]
    Compile(#[from] Error),
}

/// The diagnostics, a paragraph each.
fn join(diagnostics: &[Diagnostic]) -> String {
    let texts: Vec<_> = diagnostics.iter().map(Diagnostic::to_string).collect();
    texts.join("\n")
}

/// Folders of what is derived from files: not those of recordings.
#[derive(Clone, Debug)]
pub struct CheckCaches {
    /// Compiled programs.
    pub objects: PathBuf,
    /// Indices of instructions, also of the running kernel.
    pub indices: PathBuf,
    /// Indices that `xweave sites --live` has made; only read.
    pub live: PathBuf,
}

impl CheckCaches {
    /// The folders in xweave's cache folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            objects: folder.join("check"),
            indices: folder.join("sites"),
            live: folder.join(IndexCache::LIVE),
        }
    }
}

/// A domain and the files of its kernel, of an argument `NAME=KERNEL`.
#[derive(Clone, Debug)]
pub struct NamedKernel {
    argument: String,
    /// Name of the domain.
    pub name: String,
    /// Files of the kernel.
    pub files: KernelFiles,
}

impl NamedKernel {
    /// Parses `NAME=KERNEL`. Reads no file.
    ///
    /// # Errors
    /// [`CheckError::Syntax`].
    pub fn parse(argument: &str) -> Result<Self, CheckError> {
        let split = argument.split_once('=').filter(|(name, kernel)| !name.is_empty() && !kernel.is_empty());
        let (name, kernel) = split.ok_or_else(|| CheckError::Syntax(argument.to_owned()))?;
        Ok(Self { argument: argument.to_owned(), name: name.to_owned(), files: KernelFiles::named(kernel) })
    }

    /// Reads the kernel's type information.
    ///
    /// # Errors
    /// [`CheckError::Kernel`].
    pub fn read(&self) -> Result<Kernel, CheckError> {
        self.files.kernel().map_err(|error| CheckError::Kernel(self.argument.clone(), error))
    }
}

/// Aspects, and the kernels that they are checked against.
pub struct Check<'a> {
    /// The aspects.
    pub aspects: &'a Aspects,
    /// The domains.
    pub named: &'a [NamedKernel],
    /// The kernel of each domain.
    pub kernels: &'a [Kernel],
    /// Folders of what is derived.
    pub caches: &'a CheckCaches,
    /// Called with the name of a kernel or module before its instructions are analysed, which takes long.
    pub indexing: &'a dyn Fn(&str),
}

impl Check<'_> {
    /// Resolves the aspects in each domain and, with a library, compiles them. Returns what would be woven, and the mistakes: if
    /// there are any, nothing would.
    ///
    /// # Errors
    /// [`CheckError::Code`].
    pub fn find(&self, library: Option<&Library<'_>>) -> Result<(Weaving, Vec<Diagnostic>), CheckError> {
        let code = self.read_code(&self.peers())?;
        let domains = self.domains(&code);
        let found = match library {
            None => resolve(self.aspects, &domains, 1),
            Some(library) => {
                // The sizes have no influence on what is compiled.
                let cache = self.caches.objects.clone();
                let options =
                    Options { first_site: 1, buffer: 4096, flow_table: 1, cache, ..Options::default() };
                weave(self.aspects, &domains, &options, library)
            }
        };
        let (mut found, mistakes) = match found {
            Ok(mut found) => {
                for (woven, named) in found.domains.iter().zip(self.named) {
                    let symbols = named.files.symbols();
                    let unseen = unseen_calls::diagnostics(woven, symbols.iter().map(String::as_str));
                    found.warnings.extend(unseen);
                }
                (found, Vec::new())
            }
            Err(mistakes) => (Weaving::default(), mistakes),
        };
        found.warnings.splice(0..0, self.aspects.warnings.iter().cloned());
        Ok((found, mistakes))
    }

    /// Compiles the aspects, whose texts are `sources`, into programs for these kernels and similar ones.
    ///
    /// # Errors
    /// [`CheckError`].
    pub fn compile(&self, sources: Vec<Source>) -> Result<AspectInput, CheckError> {
        let compiler = Compiler::find()?;
        let peers = self.peers();
        let code = self.read_code(&peers)?;
        let mut objects = Vec::new();
        for domain in self.domains(&code) {
            let text = PortableText::new(self.aspects, &peers, &[domain]).map_err(CheckError::NotPortable)?;
            let Some(text) = text else { continue };
            let object = text.compile(self.aspects, &compiler, &self.caches.objects)?;
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        Ok(AspectInput { sources, objects })
    }

    fn peers(&self) -> Vec<Peer> {
        self.named.iter().map(|of| Peer { name: of.name.clone(), role: Role::of(&of.name) }).collect()
    }

    /// Indices of each kernel's instructions; empty where the aspects do not need them.
    fn read_code(&self, peers: &[Peer]) -> Result<Vec<Vec<CodeIndex>>, CheckError> {
        let code = |(named, peer): (&NamedKernel, &Peer)| {
            // Debug information has lines, and which calls are inlined.
            let needed = needs_code(self.aspects, peers, peer) || named.files.have_debug_info();
            if !needed {
                return Ok(Vec::new());
            }
            let code = named.files.code(&self.caches.indices, &self.caches.live, self.indexing);
            code.map_err(|error| CheckError::Code(named.name.clone(), error))
        };
        self.named.iter().zip(peers).map(code).collect()
    }

    fn domains<'d>(&'d self, code: &'d [Vec<CodeIndex>]) -> Vec<Domain<'d>> {
        let parts = (1..=u8::MAX).zip(self.peers()).zip(self.kernels.iter().zip(code));
        parts
            .map(|((number, Peer { name, role }), (kernel, code))| Domain {
                name,
                role,
                number,
                kernel,
                code,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_named_with_their_kernels() {
        let live = NamedKernel::parse("host=live").unwrap();
        assert_eq!((&*live.name, live.files), ("host", KernelFiles::Live));
        for argument in ["host", "=live", "host=", ""] {
            let error = NamedKernel::parse(argument).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--domain {argument}: NAME=KERNEL is wanted")), "{error}");
        }
    }

    #[test]
    fn kernel_that_cannot_be_read_is_an_error_with_its_argument() {
        let error = NamedKernel::parse("vm1=/no/such/vmlinux").unwrap().read().err().unwrap().to_string();
        assert!(error.starts_with("--domain vm1=/no/such/vmlinux: "), "{error}");
    }

    #[test]
    fn nothing_derived_from_files_is_kept_where_recordings_look() {
        let caches = CheckCaches::new(Path::new("/cache"));
        for folder in [&caches.objects, &caches.indices] {
            assert!(*folder != caches.live && folder.parent() == Some(Path::new("/cache")));
        }
    }
}
