//! Weaving: from aspects, and what each domain's kernel is, to what each domain's agent is to load
//! and where it is to hook it.
//!
//! ```no_run
//! use xweave_weave::{Domain, Library, Options, Role, weave};
//! let source = xweave_aspect::Source {
//!     name: "read.aspect".into(),
//!     text: "advice reads execution(vfs_read) { STORE_DATA1(count); }".into(),
//! };
//! let aspects = xweave_aspect::parse(vec![source]).unwrap();
//! let kernel = xweave_code::Kernel::live()?;
//! let host = Domain { name: "host".into(), role: Role::Host, number: 1, kernel: &kernel, code: &[] };
//! let cache = "/tmp/cache".into();
//! let options = Options { first_site: 1, buffer: 1 << 20, flow_table: 1 << 16, cache, ..Options::default() };
//! let weaving = weave(&aspects, &[host], &options, &Library::EMPTY).unwrap();
//! println!("{} join points", weaving.domains[0].sites.len());
//! # Ok::<(), xweave_code::Error>(())
//! ```
//!
//! Modules, in the order of the work: `item` is what is woven, a clause of a flow or a piece of advice; `anchor` are the
//! parts of its pointcut that select places; `point` is a join point, with the `value`s of its variables, and
//! `instruction` one that the access index found; `choose` says how many of those, `unhookable` what must not be one;
//! `condition` is what is left of a pointcut where a join point does not decide it; `bind` finds the values of the
//! variables that the C code uses; `resolve` puts these together: candidates, of them those selected, and
//! their bindings; `emit` writes the C program of a domain around the `prelude`, and `selection` which frames it follows; `draft`
//! is all that came of a domain up to here, which `drafting` makes, and puts together with those of other domains;
//! `compile` has clang make an object of the C, or says why not (`error`);
//! `lines` are those of aspects in it, by which `refusal` tells what a verifier says of it. `events` are the built-in probes, which go beside. `kernel_files`
//! reads kernels that are not asked themselves, `clauses` tells what was resolved, and [`unseen_calls`]
//! what of it is not seen; [`check`] does all that to kernels given as files, without weaving.

mod anchor;
mod bind;
mod bundle;
mod cache;
pub mod check;
mod choose;
mod clauses;
mod compile;
mod compiled_library;
mod condition;
mod coverage;
mod draft;
mod drafting;
mod emit;
mod error;
mod event_object;
mod events;
mod independent;
mod instruction;
mod item;
mod kernel_files;
mod lines;
mod payload;
mod point;
mod prelude;
mod program_object;
mod reference;
mod refusal;
mod resolve;
mod safe;
mod selection;
mod unhookable;
pub mod unseen_calls;
mod value;

pub use bundle::{AspectInput, BundleError, InputError, read_aspects, write_bundle};
pub use cache::{CacheError, cache_directory};
pub use clauses::Clause;
pub use compile::{Compiled, Compiler, WorkFolder, compile_c, compile_in, find_clang, unused};
pub use compiled_library::{CompiledLibrary, LibraryError, library_aspects};
pub use coverage::{Coverage, CoveredPart, Verdict, coverage};
pub use draft::{
    AbsentDraft, Draft, DraftError, EventsDraft, Files, Inlined, ItemDraft, SiteDraft, SkippedDraft, Text,
    fit,
};
pub use drafting::{PortableText, complaints, draft, each_once, judge};
pub use error::Error;
pub use event_object::{EventConstants, EventObject, ProbeParameters};
pub use events::{EventChoice, EventSource, Events, events};
pub use kernel_files::{CodeError, KernelFiles};
pub use payload::{NoKey, PayloadKey};
pub use program_object::{Library, ObjectProgram, ProgramKey, ProgramObject};
pub use reference::prune;
pub use refusal::refusal;
pub use xweave_event::{Group, UnknownGroup};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xweave_access::Index;
use xweave_aspect::syntax::Pointcut;
use xweave_aspect::{Aspects, Diagnostic};
use xweave_code::Kernel;
use xweave_wire::message::DropReason;
use xweave_wire::plan::{Hook, Plan};

/// A kernel to weave into.
#[derive(Clone)]
pub struct Domain<'a> {
    /// What pointcuts call it after `@`.
    pub name: String,
    /// What pointcuts may call it too.
    pub role: Role,
    /// The top byte of the flow IDs that it makes: from 1, and no other domain's.
    pub number: u8,
    /// What it runs.
    pub kernel: &'a Kernel,
    /// What its instructions touch: may be empty where [`needs_code`] says so.
    pub code: &'a [CodeIndex],
}

impl Domain<'_> {
    /// What the others know of it.
    pub fn peer(&self) -> Peer {
        Peer { name: self.name.clone(), role: self.role }
    }

    /// Where messages say that there is no such function.
    pub(crate) fn in_type_information(&self) -> String {
        format!(" in the type information (BTF) of domain `{}`, kernel {}", self.name, self.kernel.release())
    }
}

/// A domain of the recording, as pointcuts may name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// See [`Domain::name`].
    pub name: String,
    /// See [`Domain::role`].
    pub role: Role,
}

impl Peer {
    /// A host and a guest, named by their roles: for what is to work in any recording.
    pub(crate) fn of_each_role() -> [Self; 2] {
        [Role::Host, Role::Guest].map(|role| Self { name: role.name().to_owned(), role })
    }
}

/// What the instructions of a kernel, or of a module, touch.
pub struct CodeIndex {
    /// The module; none for the kernel's image, or for all that runs.
    pub module: Option<String>,
    /// What is known of its code.
    pub index: Index,
}

/// Whether these aspects select instructions of a domain, so that its [`Domain::code`] is needed.
pub fn needs_code(aspects: &Aspects, peers: &[Peer], domain: &Peer) -> bool {
    let pointcuts = aspects.xflows.iter().flat_map(|xflow| &xflow.clauses).map(|clause| &clause.pointcut);
    let mut needs = false;
    for pointcut in pointcuts.chain(aspects.advice.iter().map(|advice| &advice.pointcut)) {
        pointcut.atoms(&mut |atom| {
            needs |= match atom {
                Pointcut::Access(access) => {
                    resolve::means(peers, access.domain.as_ref(), &domain.name, domain.role)
                }
                Pointcut::WithinFile(_) => true,
                _ => false,
            }
        });
    }
    needs
}

/// What a domain is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// Runs virtual machines, or stands alone.
    Host,
    /// Is a virtual machine.
    Guest,
}

impl Role {
    /// What a domain of this name is, where nothing else tells: `host`, and Xen's `dom0`, run the others.
    pub fn of(domain: &str) -> Self {
        if matches!(domain, "host" | "dom0") { Self::Host } else { Self::Guest }
    }

    /// The word after `@` that stands for all domains of this role, if no domain has it as its name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What the aspects leave open.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The number of the first site.
    pub first_site: u32,
    /// What the ring buffers of all CPUs of a domain may take together, in bytes: a power of two, at least a page.
    pub buffer: u32,
    /// How many keys may carry flows at once in each domain.
    pub flow_table: u32,
    /// Whether to weave one hook after the other, and to leave the kernels' settings alone.
    pub serial_attach: bool,
    /// The folder for compiled objects. It is made if it is missing; nothing in it need be kept.
    pub cache: PathBuf,
    /// The key of messages, if events tell it.
    pub key: Option<PayloadKey>,
}

/// What is to be woven into all domains.
#[derive(Clone, Debug, Default)]
pub struct Weaving {
    /// In the order in which the domains were given.
    pub domains: Vec<Woven>,
    /// What the user should know of.
    pub warnings: Vec<Diagnostic>,
}

/// What is to be woven into a domain.
#[derive(Clone, Debug)]
pub struct Woven {
    /// The domain's name.
    pub domain: String,
    /// For its agent. Without programs and objects where nothing is to be woven; of [`resolve()`], which compiles nothing,
    /// it has programs and no objects: no agent takes that.
    pub plan: Plan,
    /// By object of the plan, and by the number that its lines have for a source: the source's place among the aspects'.
    pub line_sources: Vec<Vec<Option<usize>>>,
    /// All join points, by their numbers.
    pub sites: Vec<SiteInfo>,
    /// Why the kernel drops packets, where a flow's end asks it (`flow_drop`).
    pub drop_reasons: Vec<DropReason>,
    /// What patterns matched, but no hook can reach.
    pub skipped: Vec<Skipped>,
    /// What the aspects name, and say that a kernel may lack, and this one does.
    pub absent: Vec<Absent>,
    /// How many join points each choice of how exact to be would have, by clause.
    pub counts: Vec<Counts>,
    /// What is inlined of the functions whose calls are woven, where debug information is at hand.
    pub inlined: Vec<Inlined>,
}

/// How many join points a clause has, or would have, in a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// As in [`SiteInfo::clause`].
    pub clause: String,
    /// Of [`xweave_aspect::syntax::Exact::Every`].
    pub every: usize,
    /// Of [`xweave_aspect::syntax::Exact::First`].
    pub first: usize,
    /// Of [`xweave_aspect::syntax::Exact::Function`].
    pub function: usize,
}

impl Counts {
    /// One that is the same for every choice.
    pub(crate) fn add_one(&mut self) {
        self.every += 1;
        self.first += 1;
        self.function += 1;
    }
}

/// One clause or piece of advice at one join point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteInfo {
    /// The number that its records carry.
    pub site: u32,
    /// The name of the file that the clause is in.
    pub aspect: String,
    /// Its line there.
    pub aspect_line: u32,
    /// The advice's name, or the flow's, the kind and a number: `packet.transit3`.
    pub clause: String,
    /// What it does.
    pub action: Action,
    /// How the function is hooked.
    pub hook: Hook,
    /// The function.
    pub function: String,
    /// The module it lives in, none for the kernel's image; or the path of the program.
    pub module: Option<String>,
    /// The instruction's distance from the function's beginning, in bytes.
    pub offset: u32,
    /// The source file of the join point, where debug information exists. BTF has none.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// The flow that the clause belongs to, or that the advice asks for.
    pub xflow: Option<String>,
    /// The carrier that the flow is put on or taken off.
    pub carrier: Option<String>,
    /// What the values that its records store are called, by their places.
    pub values: Vec<String>,
}

/// What is done at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Action {
    /// A flow begins.
    Start,
    /// A flow passes from one key to another.
    Move,
    /// A second key carries a flow.
    Copy,
    /// A flow ends.
    Quit,
    /// A part of a flow's data goes on as a flow.
    Split,
    /// Two flows' data go on as one.
    Merge,
    /// A flow is put on a carrier.
    Xin,
    /// A flow comes off a carrier.
    Xout,
    /// A clause's own C code.
    Action,
    /// Advice.
    Advice,
}

impl Action {
    /// The word for it in traces.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A function or tracepoint that an aspect names, and says that a kernel may lack (`?`), where the kernel does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The clause, as in [`SiteInfo::clause`].
    pub clause: String,
    /// The function or tracepoint.
    pub name: String,
}

/// A function that a pattern matched, but that cannot be hooked in this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The clause, as in [`SiteInfo::clause`].
    pub clause: String,
    /// The function.
    pub function: String,
    /// The module it lives in; none for the kernel's image.
    pub module: Option<String>,
    /// The instruction's distance from its beginning.
    pub offset: u32,
    /// Why.
    pub reason: String,
}

/// Finds the join points of all domains. Does not compile, so mistakes in C code are not found.
///
/// # Errors
///
/// All mistakes that were found.
pub fn resolve(
    aspects: &Aspects,
    domains: &[Domain<'_>],
    first_site: u32,
) -> Result<Weaving, Vec<Diagnostic>> {
    let options = Options { first_site, ..Options::default() };
    let library = Library::EMPTY;
    let (mut drafts, peers) = drafts(aspects, domains, &library)?;
    let warnings = judge(aspects, &peers, &mut drafts)?;
    let mut next = first_site;
    let mut woven = Vec::new();
    for (draft, domain) in drafts.into_iter().zip(domains) {
        let domain = (domain.name.as_str(), domain.number);
        woven.push(draft.woven(aspects, domain, None, &library, &options, &mut next).map_err(general)?);
    }
    Ok(Weaving { domains: woven, warnings })
}

/// Finds the join points of all domains, and the programs of the library for them, or compiles what runs there, in this
/// process: for domains that are trusted, or a process that has nothing to lose.
///
/// # Errors
///
/// All mistakes that were found: those of C code only where there are no others.
pub fn weave(
    aspects: &Aspects,
    domains: &[Domain<'_>],
    options: &Options,
    library: &Library<'_>,
) -> Result<Weaving, Vec<Diagnostic>> {
    let (mut drafts, peers) = drafts(aspects, domains, library)?;
    let mut warnings = judge(aspects, &peers, &mut drafts)?;
    let mut errors = Vec::new();
    let mut next = options.first_site;
    let mut woven = Vec::new();
    for (draft, domain) in drafts.into_iter().zip(domains) {
        if !draft.unfit.is_empty() {
            let (name, reasons) = (&domain.name, draft.unfit.join("; "));
            let message = format!("domain `{name}`: the compiled programs do not fit its kernel: {reasons}");
            let help = "they are compiled for this kernel, which takes clang wherever it is recorded";
            warnings.push(Diagnostic::general(message).as_warning().with_help(help));
        }
        let mut object = None;
        if let Some(text) = &draft.text {
            let compiled = text.files(aspects).and_then(|files| Ok((Compiler::find()?, files)));
            let compiled = compiled
                .and_then(|(compiler, files)| compiler.compile(&files, &options.cache, &mut warnings));
            // Why it had to be compiled is said as well.
            let failed_by = |error| each_once(warnings.drain(..).chain(general(error)).collect());
            let Compiled { object: made, log } = compiled.map_err(failed_by)?;
            let failed = made.is_none();
            if !log.is_empty() || failed {
                let said = complaints(aspects, &peers, domain, &log, failed);
                if failed { errors.extend(said) } else { warnings.extend(said) }
            }
            object = made;
        }
        // What did not compile has no plan.
        if draft.text.is_some() && object.is_none() {
            continue;
        }
        let domain = (domain.name.as_str(), domain.number);
        woven.push(draft.woven(aspects, domain, object, library, options, &mut next).map_err(general)?);
    }
    let (warnings, errors) = (each_once(warnings), each_once(errors));
    if errors.is_empty() { Ok(Weaving { domains: woven, warnings }) } else { Err(errors) }
}

fn drafts(
    aspects: &Aspects,
    domains: &[Domain<'_>],
    library: &Library<'_>,
) -> Result<(Vec<Draft>, Vec<Peer>), Vec<Diagnostic>> {
    let peers: Vec<_> = domains.iter().map(Domain::peer).collect();
    let nothing = EventChoice::default();
    let drafts = domains.iter().map(|domain| draft(aspects, &peers, domain, &nothing, library));
    Ok((drafts.collect::<Result<_, _>>().map_err(general)?, peers))
}

fn general(error: Error) -> Vec<Diagnostic> {
    vec![Diagnostic::general(error.to_string())]
}
