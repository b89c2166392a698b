//! The documents of `xweave sites`, and the lines of `--jsonl`.

use xweave_access::{self as access, Reason};
use xweave_document::sites::{
    AccessDirection, AccessLevel, AccessSite, BaseAddress, Binding, Coverage, Sites, UnresolvedSite,
    UnresolvedSites, ValueLocation,
};

/// Builds the document of the instructions that a pointcut selects.
pub fn build<'a>(coverage: access::Coverage, sites: &'a [access::Site<'a>]) -> Sites<'a> {
    Sites { coverage: build_coverage(coverage), sites: sites.iter().map(build_site).collect() }
}

/// Builds the document of the instructions that access memory of unknown type.
pub fn build_all_unresolved<'a>(
    coverage: access::Coverage,
    unresolved: &'a [access::Unresolved<'a>],
) -> UnresolvedSites<'a> {
    let unresolved = unresolved.iter().map(build_unresolved).collect();
    UnresolvedSites { coverage: build_coverage(coverage), unresolved }
}

/// Builds the share of a program that is understood.
pub fn build_coverage(of: access::Coverage) -> Coverage {
    Coverage {
        instructions: of.instructions,
        memory_instructions: of.memory_instructions,
        typed: of.typed,
        unresolved: of.unresolved(),
        reasons: Reason::ALL.iter().map(|reason| reason.name()).zip(of.unresolved).collect(),
    }
}

/// Builds the row of an instruction that a pointcut selects.
pub fn build_site<'a>(of: &'a access::Site<'a>) -> AccessSite<'a> {
    AccessSite {
        function: of.function,
        module: of.module,
        offset: of.offset,
        address: of.address,
        structure: of.path.structure(),
        member: of.path.member(),
        access: access_direction(of),
        certain: of.certain,
        levels: of.path.levels.iter().map(build_level).collect(),
        base: of.base.map(|(register, add)| BaseAddress { register: register.name(), add }),
        file: of.line.map(|(file, _)| file),
        line: of.line.map(|(_, line)| line),
        bindings: of.bindings.iter().map(build_binding).collect(),
    }
}

fn build_level(of: &access::Level) -> AccessLevel<'_> {
    AccessLevel { type_: &of.type_, start: of.start, end: of.end, overlay: of.overlay }
}

/// Builds the row of a name that a pointcut binds.
pub fn build_binding<'a>(of: &'a access::Binding<'a>) -> Binding<'a> {
    let place = match of.place {
        access::Place::Register { register, add } => {
            ValueLocation::Register { register: register.name(), add, dereference: false }
        }
        access::Place::Memory { register, add } => {
            ValueLocation::Register { register: register.name(), add, dereference: true }
        }
        access::Place::Constant(constant) => ValueLocation::Constant { constant },
    };
    Binding { name: of.name, type_: &of.type_, place }
}

/// Builds the row of an instruction that accesses memory of unknown type.
pub fn build_unresolved<'a>(of: &'a access::Unresolved<'a>) -> UnresolvedSite<'a> {
    UnresolvedSite { function: of.function, offset: of.offset, address: of.address, reason: of.reason.name() }
}

/// Returns whether an instruction reads or writes.
fn access_direction(site: &access::Site<'_>) -> AccessDirection {
    match (site.reads, site.writes) {
        (true, true) => AccessDirection::Both,
        (false, true) => AccessDirection::Write,
        _ => AccessDirection::Read,
    }
}

/// Returns the word for whether an instruction reads or writes.
pub(crate) fn access_name(site: &access::Site<'_>) -> &'static str {
    match access_direction(site) {
        AccessDirection::Both => "both",
        AccessDirection::Write => "write",
        AccessDirection::Read => "read",
    }
}
