//! What is known of one domain: what it said, what was kept of it, what it sent. Bytes, which nobody here looks into.

use std::{
    collections::VecDeque,
    fs::{self, File},
    path::{Path, PathBuf},
};

use xweave_code::image;
use xweave_weave::Peer;
use xweave_wire::message::{CodeParts, DomainInfo, ModuleInfo, Reply, Request};

use super::{
    analysis::{self, KeepGoing, NoIndex},
    indices::Indices,
    types::Types,
};
use crate::{DomainSpec, Error, Transport};

/// The most that a module's type information has: the largest module's is 2 MB.
const MODULE_TYPES: usize = 32 << 20;

/// The most that all of a domain's has: a kernel's is 6 MB, that of some hundred modules as much again.
const ALL_TYPES: usize = 128 << 20;

/// What is in a folder of this machine.
fn entries(folder: &str) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Whether a file is called as images of kernels with debug information are.
fn is_image(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinux-"))
}

/// What one domain is.
pub(crate) struct Input {
    pub(crate) peer: Peer,
    pub(crate) number: u8,
    /// `uname -r`, for messages.
    pub(crate) release: String,
    /// This machine itself, which may do anything to us.
    pub(crate) is_local: bool,
    facts: DomainInfo,
    transport: String,
    /// The image's, then the modules'.
    pub(crate) types: Vec<TypesOf>,
    /// What is known already of the instructions of the kernel's image, and of modules.
    pub(crate) indices: Vec<IndexOf>,
    /// What is to be analysed of the code that runs.
    pub(crate) missing: CodeParts,
    /// That code, as the agent packed it.
    pub(crate) code: Option<Vec<u8>>,
}

/// The type information of a kernel's image, or of a module.
pub(crate) struct TypesOf {
    /// None for the image.
    pub(crate) module: Option<String>,
    /// Once it is known.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Whether it is kept already.
    pub(crate) is_kept: bool,
}

/// An index that is known.
pub(crate) struct IndexOf {
    /// None for the kernel's image.
    pub(crate) module: Option<String>,
    pub(crate) file: File,
    /// Where it lies.
    pub(crate) path: PathBuf,
}

impl Input {
    pub(crate) fn new(spec: &DomainSpec, number: u8, facts: &DomainInfo, types: &Types) -> Self {
        let of = |module: Option<&ModuleInfo>| {
            let hash = module.map_or(&facts.btf_sha256, |module| &module.btf_sha256);
            let bytes = types.get(hash);
            let is_kept = bytes.is_some();
            TypesOf { module: module.map(|module| module.name.clone()), bytes, is_kept }
        };
        Self {
            peer: Peer { name: spec.name.clone(), role: spec.role() },
            number,
            release: facts.kernel.clone(),
            is_local: spec.transport == Transport::Local,
            transport: spec.transport.to_string(),
            types: std::iter::once(None).chain(facts.modules.iter().map(Some)).map(of).collect(),
            indices: Vec::new(),
            missing: CodeParts::default(),
            code: None,
            facts: facts.clone(),
        }
    }

    /// Finds what is known of its instructions. `file` is one of this kernel that the user named; of others on this
    /// machine one with debug information is taken. What is in none of these and was not looked into before is to be
    /// asked of the agent: of modules only where their code is `needed`.
    pub(crate) fn find_indices(
        &mut self,
        file: Option<&Path>,
        needed: bool,
        indices: &Indices,
        keep_going: KeepGoing<'_>,
    ) -> Result<(), Error> {
        let of_image = self.build_ids(None);
        let of_kernel = match file {
            Some(file) => {
                self.is_of(file)?;
                Some(self.of_file(file, indices, keep_going)?)
            }
            None => {
                let known = indices.of_file(&of_image, true);
                let known = match (known, self.debug_file()) {
                    (None, Some(file)) => Some(self.of_file(&file, indices, keep_going)?),
                    (known, _) => known,
                };
                let known = known.or_else(|| indices.of_file(&of_image, false));
                known.or_else(|| indices.open(&self.index_name(None)?))
            }
        };
        // What `sites --live` made is of the kernel and its modules in one.
        if of_kernel.is_none()
            && self.is_local
            && let Some((file, path)) = indices.of_this_machine()
        {
            self.indices.push(IndexOf { module: None, file, path });
            return Ok(());
        }
        self.missing.kernel = of_kernel.is_none();
        self.indices.extend(of_kernel.map(|(file, path)| IndexOf { module: None, file, path }));
        for module in &self.facts.modules {
            let ids = self.build_ids(Some(module));
            let known = [true, false].into_iter().find_map(|debug| indices.of_file(&ids, debug));
            match known.or_else(|| indices.open(&self.index_name(Some(module))?)) {
                Some((file, path)) => {
                    self.indices.push(IndexOf { module: Some(module.name.clone()), file, path });
                }
                None if needed => self.missing.modules.push(module.name.clone()),
                None => {}
            }
        }
        Ok(())
    }

    /// Finds the indices that there are of files with debug information, and makes none: what they tell of functions is
    /// worth no waiting.
    pub(crate) fn find_debug_indices(&mut self, indices: &Indices) {
        let modules = self.facts.modules.iter().map(Some);
        for module in std::iter::once(None).chain(modules) {
            let known = indices.of_file(&self.build_ids(module), true);
            let module = module.map(|module| module.name.clone());
            self.indices.extend(known.map(|(file, path)| IndexOf { module, file, path }));
        }
    }

    /// What the index of a file is kept by: the kernel's build ID, and what tells a module from its others.
    fn build_ids<'a>(&'a self, module: Option<&'a ModuleInfo>) -> Vec<&'a str> {
        std::iter::once(self.facts.build_id.as_str()).chain(module.map(identity)).collect()
    }

    /// The name that an index of what this domain sent is kept by; none if nothing tells it from others.
    pub(crate) fn index_name(&self, module: Option<&ModuleInfo>) -> Option<String> {
        let facts = &self.facts;
        let kernel = [facts.build_id.as_str(), facts.btf_sha256.as_str()];
        let module =
            module.map_or(["", "", ""], |module| [&module.name, &module.build_id, &module.btf_sha256]);
        // This machine's own stays the same when it boots again; but it is for itself, since it tells where in memory
        // its code lies.
        let whose = match self.is_local {
            true => ["local", "", ""],
            false => [self.transport.as_str(), &self.peer.name, &facts.boot_id],
        };
        let known = kernel.iter().all(|id| !id.is_empty());
        known.then(|| Indices::name(&[&whose[..], &kernel, &module].concat()))
    }

    /// As [`Input::index_name`], by the module's name.
    pub(crate) fn index_name_of(&self, module: Option<&str>) -> Option<String> {
        match module {
            None => self.index_name(None),
            Some(name) => {
                self.index_name(Some(self.facts.modules.iter().find(|module| module.name == name)?))
            }
        }
    }

    /// Whether a file that the user named is of this kernel. Its notes are read here: the file is the user's.
    fn is_of(&self, file: &Path) -> Result<(), Error> {
        let reason = match image::build_id(file).map(|id| xweave_text::hex(&id)) {
            None => "has no build ID, or is compressed, so that it is not known what it is of".to_owned(),
            Some(theirs) if theirs != self.facts.build_id => {
                let ours = &self.facts.build_id;
                format!("is of another kernel: its build ID is {theirs}, the running one's {ours}")
            }
            Some(_) => return Ok(()),
        };
        Err(Error::Symbols { file: file.to_owned(), domain: self.peer.name.clone(), reason: reason.into() })
    }

    /// The index of a file on this machine: kept, or made by a process that may read nothing else.
    fn of_file(
        &self,
        file: &Path,
        indices: &Indices,
        keep_going: KeepGoing<'_>,
    ) -> Result<(File, PathBuf), Error> {
        let debug = image::has_debug_info(file);
        if let Some(known) = indices.of_file(&[&self.facts.build_id], debug) {
            return Ok(known);
        }
        let (file, domain) = (file.to_owned(), self.peer.name.clone());
        let about = (file.as_path(), self.facts.build_id.as_str(), debug);
        analysis::index(&domain, about, indices, keep_going).map_err(|error| match error {
            NoIndex::Interrupted => Error::Interrupted { woven: false },
            error => Error::Symbols { file: file.clone(), domain: domain.clone(), reason: error.into() },
        })
    }

    /// A file of this kernel with code and debug information, where distributions put such.
    fn debug_file(&self) -> Option<PathBuf> {
        // What a domain says of itself is no path: files are looked for by what is in them.
        let id = &self.facts.build_id;
        if id.len() < 3 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let (first, rest) = id.split_at(2);
        let by_id = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
        let images = entries("/usr/lib/debug/boot").filter(|path| is_image(path));
        let of_modules = ["/usr/lib/debug/lib/modules", "/usr/lib/debug/usr/lib/modules"];
        let of_modules = of_modules.into_iter().flat_map(entries).map(|folder| folder.join("vmlinux"));
        let of_it = |path: &PathBuf| {
            image::build_id(path).is_some_and(|found| xweave_text::hex(&found) == *id)
                && image::has_debug_info(path)
                // Debug information may be apart from the code, which is not there then.
                && image::has_code(path)
        };
        images.chain(of_modules).chain([by_id]).find(of_it)
    }

    /// What is to be asked of the agent.
    pub(crate) fn questions(&self) -> VecDeque<Request> {
        let unknown = self.types.iter().filter(|types| types.bytes.is_none());
        let mut questions: VecDeque<_> = unknown.map(|types| Request::Btf(types.module.clone())).collect();
        if self.missing.kernel || !self.missing.modules.is_empty() {
            questions.push_back(Request::Code(self.missing.clone()));
        }
        questions
    }

    /// Takes the answer to one of the questions.
    pub(crate) fn take(&mut self, request: &Request, reply: Reply) -> Result<(), Error> {
        let domain = self.peer.name.clone();
        let refuse = |message: String| Error::Agent { domain, message };
        match (request, reply) {
            (Request::Btf(module), Reply::Btf(bytes)) => {
                let known =
                    self.types.iter().filter_map(|types| types.bytes.as_ref()).map(Vec::len).sum::<usize>();
                if module.is_some() && bytes.len() > MODULE_TYPES
                    || known.saturating_add(bytes.len()) > ALL_TYPES
                {
                    return Err(refuse(format!(
                        "its type information is larger than any kernel's: {} bytes after {known}",
                        bytes.len()
                    )));
                }
                if let Some(types) = self.types.iter_mut().find(|types| types.module == *module) {
                    types.bytes = Some(bytes);
                }
                Ok(())
            }
            (Request::Code(_), Reply::Code(packed)) => {
                self.code = Some(packed);
                Ok(())
            }
            _ => Err(refuse("the agent's answer does not fit the question".to_owned())),
        }
    }
}

/// What tells a module from others of the same kernel: its build ID, which some distributions' lack; else its types.
fn identity(module: &ModuleInfo) -> &str {
    if module.build_id.is_empty() { &module.btf_sha256 } else { &module.build_id }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const BUILD_ID: &str = "00112233445566778899aabbccddeeff00112233";

    fn input(domain: &str, boot: &str) -> Input {
        let module = ModuleInfo { name: "tun".into(), btf_sha256: "cd".repeat(32), build_id: String::new() };
        let facts = DomainInfo {
            kernel: "6.12.0".into(),
            build_id: BUILD_ID.into(),
            boot_id: boot.into(),
            btf_sha256: "ab".repeat(32),
            modules: vec![module],
            ..DomainInfo::default()
        };
        let types = Types::new("/nowhere".as_ref());
        Input::new(&DomainSpec::parse(domain).unwrap(), 1, &facts, &types)
    }

    fn found(input: &mut Input, indices: &Indices) -> Vec<Option<String>> {
        input.find_indices(None, true, indices, &mut |_| true).unwrap();
        input.indices.iter().map(|index| index.module.clone()).collect()
    }

    #[test]
    fn no_file_is_looked_for_by_what_a_domain_says() {
        let folder = tempfile::tempdir().unwrap();
        let up = format!("{}{}", "../".repeat(12), folder.path().join("vmlinux").display());
        // It would be found, were its name put together of this; a program has code, a build ID and maybe more.
        fs::copy(std::env::current_exe().unwrap(), folder.path().join("vmlinux")).unwrap();
        let mut input = input("vm1=vsock:3", "b");
        for of in [up.clone(), format!("00{up}"), String::new(), "0".to_owned()] {
            input.facts.kernel.clone_from(&up);
            input.facts.build_id = of;
            assert_eq!(input.debug_file(), None);
        }
    }

    #[test]
    fn an_index_of_what_a_domain_sent_is_for_that_domain_alone() {
        let cache = tempfile::tempdir().unwrap();
        let indices = Indices::new(cache.path());
        let all = ["vm1=vsock:3", "vm2=vsock:3", "vm1=vsock:4", "host=local"];
        for (domain, boot) in all.into_iter().flat_map(|domain| [(domain, "one"), (domain, "two")]) {
            let mut here = input(domain, boot);
            let others_boot = domain == "host=local" && boot == "two";
            // This machine trusts itself, whenever it made it.
            assert_eq!(found(&mut here, &indices).len(), if others_boot { 2 } else { 0 }, "{domain} {boot}");
            for module in [None, Some("tun")] {
                indices.begin().unwrap().keep(&here.index_name_of(module).unwrap()).unwrap();
            }
            let mut again = input(domain, boot);
            assert_eq!(found(&mut again, &indices), [None, Some("tun".to_owned())], "{domain} {boot}");
            assert!(again.questions().iter().all(|question| !matches!(question, Request::Code(_))));
        }
    }

    #[test]
    fn the_index_that_sites_made_of_the_running_kernel_is_this_machines_alone() {
        let cache = tempfile::tempdir().unwrap();
        let source = xweave_access::Source { file: None, base: None, btf_only: false };
        let Some(name) = source.identity() else { panic!("there is a boot ID") };
        let indices = Indices::new(cache.path());
        let keep = |folder: &str| {
            let folder = xweave_guard::private::Dir::create(&cache.path().join(folder)).unwrap();
            folder.replace(&name, b"an index").unwrap();
        };
        keep("sites");
        let asked = |input: &Input| input.questions().iter().any(|of| matches!(of, Request::Code(_)));
        let mut host = input("host=local", "one");
        assert!(found(&mut host, &indices).is_empty() && asked(&host), "what reads files may write there");
        keep("live");
        let mut host = input("host=local", "one");
        assert_eq!(found(&mut host, &indices), [None]);
        assert!(!asked(&host));
        let mut guest = input("vm1=vsock:3", "one");
        assert!(found(&mut guest, &indices).is_empty() && guest.missing.kernel);
    }

    #[test]
    fn an_index_of_a_file_is_for_whoever_has_the_build_id() {
        let cache = tempfile::tempdir().unwrap();
        let indices = Indices::new(cache.path());
        for ids in [&[BUILD_ID][..], &[BUILD_ID, &"cd".repeat(32)]] {
            indices.begin().unwrap().keep(&xweave_access::IndexCache::name(ids, false).unwrap()).unwrap();
        }
        for domain in ["vm1=vsock:3", "host=local"] {
            assert_eq!(found(&mut input(domain, "one"), &indices), [None, Some("tun".to_owned())]);
        }
        let debug = |indices: &Indices| {
            let mut guest = input("vm1=vsock:3", "one");
            guest.find_debug_indices(indices);
            assert!(guest.questions().iter().all(|question| !matches!(question, Request::Code(_))));
            guest.indices.into_iter().map(|index| index.module).collect::<Vec<_>>()
        };
        assert_eq!(debug(&indices), [], "these have none");
        let name = xweave_access::IndexCache::name(&[BUILD_ID], true).unwrap();
        indices.begin().unwrap().keep(&name).unwrap();
        assert_eq!(debug(&indices), [None]);
        let mut nameless = input("vm1=vsock:3", "one");
        nameless.facts.build_id.clear();
        assert_eq!(nameless.index_name(None), None);
        assert!(found(&mut nameless, &indices).is_empty());
        assert_eq!(fs::read_dir(cache.path().join("access")).unwrap().count(), 3);
    }

    #[test]
    fn types_larger_than_any_kernels_are_refused() {
        let mut guest = input("vm1=vsock:3", "one");
        let (image, module) = (Request::Btf(None), Request::Btf(Some("tun".into())));
        let questions: Vec<_> = guest.questions().into();
        assert!(matches!(&questions[..], [Request::Btf(None), Request::Btf(Some(_))]), "{questions:?}");
        let error = guest.take(&module, Reply::Btf(vec![0; MODULE_TYPES + 1])).unwrap_err();
        assert!(error.to_string().contains("larger than any kernel's"), "{error}");
        guest.take(&image, Reply::Btf(vec![0; 64 << 20])).unwrap();
        guest.types.extend((0..2).map(|_| TypesOf {
            module: None,
            bytes: Some(vec![0; 32 << 20]),
            is_kept: false,
        }));
        assert!(guest.take(&module, Reply::Btf(vec![0; 1])).is_err());
        assert!(guest.take(&image, Reply::Code(Vec::new())).is_err());
    }
}
