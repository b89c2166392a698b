//! Weaving: from aspects, and what each domain's kernel is, to what each domain's agent is to load
//! and where it is to hook it.
//!
//! ```no_run
//! use xweave_weave::{Domain, Options, Role, weave};
//! let source = xweave_aspect::Source {
//!     name: "read.aspect".into(),
//!     text: "advice reads execution(vfs_read) { STORE_DATA1(count); }".into(),
//! };
//! let aspects = xweave_aspect::parse(vec![source]).unwrap();
//! let kernel = xweave_code::Kernel::live()?;
//! let host = Domain { name: "host".into(), role: Role::Host, number: 1, kernel: &kernel, code: &[] };
//! let cache = "/tmp/cache".into();
//! let options = Options { first_site: 1, buffer: 1 << 20, flow_table: 1 << 16, gently: false, cache };
//! let weaving = weave(&aspects, &[host], &options).unwrap();
//! println!("{} join points", weaving.domains[0].sites.len());
//! # Ok::<(), xweave_code::Error>(())
//! ```
//!
//! Rooms, in the order of the work: `item` is what is woven, a clause of a flow or a piece of
//! advice; `anchor` are the parts of its pointcut that select places; `point` is a join point, `instruction`
//! one that the access index found, and `unhookable` what must not be one; `condition` evaluates the pointcut as far as a join point decides it;
//! `resolve` puts these together; `bind` finds the values of the variables that the C code uses; `emit`
//! writes the C program of a domain around the prelude (`prelude`); `compile` has clang make an object of it.
//! `events` are the built-in probes, which go beside.

mod anchor;
mod bind;
mod cache;
mod compile;
mod condition;
mod emit;
mod events;
mod instruction;
mod item;
mod point;
mod prelude;
mod resolve;
mod safe;
mod unhookable;

pub use cache::{CacheError, cache_directory};
pub use compile::{compile_c, find_clang};
pub use events::{Events, Group, events};

use std::path::PathBuf;

use xweave_access::Index;
use xweave_aspect::syntax::Pointcut;
use xweave_aspect::{Aspects, Diagnostic};
use xweave_code::Kernel;
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

/// What the instructions of a kernel, or of a module, touch.
pub struct CodeIndex {
    /// The module; none for the kernel's image, or for all that runs.
    pub module: Option<String>,
    /// What is known of its code.
    pub index: Index,
}

/// Whether these aspects select instructions, so that domains need [`Domain::code`].
pub fn needs_code(aspects: &Aspects) -> bool {
    let pointcuts = aspects.xflows.iter().flat_map(|xflow| &xflow.clauses).map(|clause| &clause.pointcut);
    let mut needs = false;
    for pointcut in pointcuts.chain(aspects.advice.iter().map(|advice| &advice.pointcut)) {
        pointcut.atoms(&mut |atom| needs |= matches!(atom, Pointcut::Access(_) | Pointcut::WithinFile(_)));
    }
    needs
}

/// What a domain is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        match self {
            Self::Host => "host",
            Self::Guest => "guest",
        }
    }
}

/// What the aspects leave open.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of the first site.
    pub first_site: u32,
    /// What the ring buffers of all CPUs of a domain may take together, in bytes: a power of two, at least a page.
    pub buffer: u32,
    /// How many keys may carry flows at once in each domain.
    pub flow_table: u32,
    /// Whether to weave one hook after the other, and to leave the kernels' settings alone.
    pub gently: bool,
    /// The folder for compiled objects. It is made if it is missing; nothing in it need be kept.
    pub cache: PathBuf,
}

/// What is to be woven into all domains.
#[derive(Clone, Debug)]
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
    /// For its agent. Without programs, and with an empty object, where nothing is to be woven.
    pub plan: Plan,
    /// All join points, by their numbers.
    pub sites: Vec<SiteInfo>,
    /// What patterns matched, but no hook can reach.
    pub skipped: Vec<Skipped>,
    /// How many join points each choice of how exact to be would have, by clause.
    pub counts: Vec<Counts>,
}

/// How many join points a clause has, or would have, in a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// The join points of all domains, without the programs.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// In the order in which the domains were given.
    pub domains: Vec<Resolved>,
    /// What the user should know of.
    pub warnings: Vec<Diagnostic>,
}

/// The join points of a domain.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The domain's name.
    pub domain: String,
    /// All join points, by their numbers.
    pub sites: Vec<SiteInfo>,
    /// What patterns matched, but no hook can reach.
    pub skipped: Vec<Skipped>,
    /// How many join points each choice of how exact to be would have, by clause.
    pub counts: Vec<Counts>,
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
}

/// What is done at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        match self {
            Self::Start => "start",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::Quit => "quit",
            Self::Split => "split",
            Self::Merge => "merge",
            Self::Xin => "xin",
            Self::Xout => "xout",
            Self::Action => "action",
            Self::Advice => "advice",
        }
    }
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
) -> Result<Resolution, Vec<Diagnostic>> {
    let resolution = resolve::resolve(aspects, domains)?;
    let mut next = first_site;
    let domains = resolution.domains.into_iter().zip(domains).map(|(woven, domain)| {
        let programs = emit::programs(woven.points);
        let (sites, _) = emit::number(aspects, &programs, &mut next);
        Resolved { domain: domain.name.clone(), sites, skipped: woven.skipped, counts: woven.counts }
    });
    Ok(Resolution { domains: domains.collect(), warnings: resolution.warnings })
}

/// Finds the join points of all domains, and compiles what runs there.
///
/// # Errors
///
/// All mistakes that were found: those of C code only where there are no others.
pub fn weave(
    aspects: &Aspects,
    domains: &[Domain<'_>],
    options: &Options,
) -> Result<Weaving, Vec<Diagnostic>> {
    let resolution = resolve::resolve(aspects, domains)?;
    let mut warnings = resolution.warnings;
    let mut errors = Vec::new();
    let mut next = options.first_site;
    let mut result = Vec::new();
    for (woven, domain) in resolution.domains.into_iter().zip(domains) {
        let programs = emit::programs(woven.points);
        let (sites, plan) = emit::number(aspects, &programs, &mut next);
        let mut object = Vec::new();
        if !programs.is_empty() {
            let text = emit::emit(aspects, domain.kernel, &programs);
            match compile::compile(aspects, domain, &programs, &text, &options.cache) {
                Ok((bytes, more)) => {
                    object = bytes;
                    warnings.extend(more);
                }
                Err(more) => errors.extend(more),
            }
        }
        let plan = Plan {
            domain: domain.number,
            object,
            programs: plan,
            buffer: options.buffer,
            flow_table: options.flow_table,
            gently: options.gently,
            events: None,
        };
        let (domain, skipped, counts) = (domain.name.clone(), woven.skipped, woven.counts);
        result.push(Woven { domain, plan, sites, skipped, counts });
    }
    // Two domains with the same kernel have the same mistakes.
    for list in [&mut warnings, &mut errors] {
        let mut seen = Vec::new();
        list.retain(|diagnostic| {
            let new = !seen.contains(diagnostic);
            seen.extend(new.then(|| diagnostic.clone()));
            new
        });
    }
    if errors.is_empty() { Ok(Weaving { domains: result, warnings }) } else { Err(errors) }
}
