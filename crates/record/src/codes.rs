//! What the instructions of a domain's kernel touch: from the cache, from a file of this kernel, or from the
//! code that runs.

use std::path::{Path, PathBuf};

use xweave_access::{Index, Kept, Source};
use xweave_code::{
    Kernel,
    image::{self, LiveCode},
    types::KernelTypes,
};
use xweave_weave::CodeIndex;
use xweave_wire::message::{CodeParts, Facts, ModuleFacts, Reply, Request};

use crate::{Error, capture::Capture};

/// The indices of a domain's kernel and of its modules that have types.
///
/// `file` is one of this kernel that the user named. Of others on this machine one with debug information is
/// taken. What is in none of these and was not looked into before is asked of the agent.
pub(crate) fn codes(
    capture: &mut Capture<'_>,
    of: usize,
    kernel: &Kernel,
    file: Option<&Path>,
    cache: &Path,
) -> Result<Vec<CodeIndex>, Error> {
    let kept = Kept(cache);
    let facts = &capture.sessions[of].facts.clone();
    let base = facts.build_id.as_str();
    let of_kernel = match file {
        Some(file) => Some(of_file(capture.sessions[of].name(), base, file, cache)?),
        None => kept.open(&[base], true).or_else(|| of_any_file(facts, cache)).or_else(|| kept.find(&[base])),
    };
    let mut codes = Vec::new();
    let mut missing = CodeParts { kernel: of_kernel.is_none(), modules: Vec::new() };
    codes.extend(of_kernel.map(|index| CodeIndex { module: None, index }));
    for module in &facts.modules {
        match kept.find(&[base, identity(module)]) {
            Some(index) => codes.push(CodeIndex { module: Some(module.name.clone()), index }),
            None => missing.modules.push(module.name.clone()),
        }
    }
    if missing.kernel || !missing.modules.is_empty() {
        codes.extend(of_running(capture, of, kernel, missing, kept)?);
    }
    codes.sort_by(|a, b| a.module.cmp(&b.module));
    Ok(codes)
}

fn of_file(domain: &str, build_id: &str, file: &Path, cache: &Path) -> Result<Index, Error> {
    let wrong = |reason| Error::Symbols { file: file.to_owned(), domain: domain.to_owned(), reason };
    match image::build_id(file) {
        None => {
            return Err(wrong(
                "has no build ID, or is compressed, so that it is not known what it is of".to_owned(),
            ));
        }
        Some(id) if hex(&id) != build_id => {
            let (theirs, ours) = (hex(&id), build_id);
            return Err(wrong(format!(
                "is of another kernel: its build ID is {theirs}, the running one's {ours}"
            )));
        }
        Some(_) => {}
    }
    let source = Source { file: Some(file.to_owned()), base: None, btf_only: false };
    source.index(Some(cache), || {}).map_err(|error| wrong(error.to_string()))
}

/// Of a file with debug information where distributions put such.
fn of_any_file(facts: &Facts, cache: &Path) -> Option<Index> {
    let (release, id) = (&facts.kernel, &facts.build_id);
    // From another machine: a release is no path.
    if release.contains('/') || id.len() < 3 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (first, rest) = id.split_at(2);
    let places = [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/usr/lib/debug/usr/lib/modules/{release}/vmlinux"),
        format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"),
    ];
    let of_it = |path: &PathBuf| {
        image::build_id(path).is_some_and(|found| hex(&found) == *id) && image::has_debug_info(path)
    };
    let file = places.map(PathBuf::from).into_iter().find(of_it)?;
    // Debug information may be apart from the code, which is not there then.
    let index = Source { file: Some(file), base: None, btf_only: false }.index(Some(cache), || {}).ok()?;
    (index.coverage().instructions > 0).then_some(index)
}

/// Of the code that runs, as the agent sends it.
fn of_running(
    capture: &mut Capture<'_>,
    of: usize,
    kernel: &Kernel,
    parts: CodeParts,
    kept: Kept<'_>,
) -> Result<Vec<CodeIndex>, Error> {
    let Reply::Code(packed) = capture.call(of, Request::Code(parts.clone()))? else {
        return Err(capture.unexpected(of));
    };
    let session = &capture.sessions[of];
    let (domain, facts) = (session.name().to_owned(), &session.facts);
    let code = LiveCode::unpack(&packed).map_err(|error| Error::Code { domain, error })?;
    let types = KernelTypes::new(kernel);
    let there: Vec<&str> = code.modules().collect();
    let modules = facts.modules.iter().filter(|module| there.contains(&module.name.as_str()));
    let of_modules =
        modules.map(|module| (Some(&module.name), vec![facts.build_id.as_str(), identity(module)]));
    let of_kernel = parts.kernel.then(|| (None, vec![facts.build_id.as_str()]));
    Ok(of_kernel
        .into_iter()
        .chain(of_modules)
        .map(|(module, ids)| {
            let index = Index::new(&code.image(module.map(String::as_str)), &types, None);
            kept.keep(&ids, false, &index);
            CodeIndex { module: module.cloned(), index }
        })
        .collect())
}

/// What tells a module from others of the same kernel: its build ID, which some distributions' lack; else its types.
fn identity(module: &ModuleFacts) -> &str {
    if module.build_id.is_empty() { &module.btf_sha256 } else { &module.build_id }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
