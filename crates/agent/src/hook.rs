//! Hooks: programs at their places.

use std::{io, os::fd::OwnedFd, sync::Arc};

use xweave_wire::plan::{Hook, Plan, PlanProgram, PlanSite};

use crate::{error::Error, probe};

/// Names a function as libbpf and the kernel expect it.
pub(crate) fn name_in_module(module: Option<&str>, function: &str) -> String {
    match module {
        Some(module) => format!("{module}:{function}"),
        None => function.to_owned(),
    }
}

/// A program to be run at a place: one of the two at a function or tracepoint, or a probe's.
pub(crate) struct Hooked<'p> {
    pub(crate) what: &'p PlanProgram,
    pub(crate) site: &'p PlanSite,
    /// The first clause's, in the plan's order of sites.
    pub(crate) place: u32,
    pub(crate) part: Part,
    pub(crate) program: Arc<OwnedFd>,
    /// The place of a probe; none of other hooks.
    pub(crate) probe: Option<probe::Place>,
}

/// The role of a program at its function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The program itself.
    Main,
    /// A stand-in that records where the kernel leaves the program out (`bpf/program.h`).
    Spare,
    /// The one that saves arguments.
    Saver,
}

impl Hooked<'_> {
    /// Bits 32 to 62: the place; 63: the spare; low half: the number. `XW_RUN` of the prelude.
    pub(crate) fn cookie(&self) -> u64 {
        cookie(self.part, self.place, self.site)
    }

    pub(crate) fn failed(&self, error: io::Error) -> Error {
        Error::Attach { origin: self.what.origin.clone(), place: self.name(), error }
    }

    /// The place for people.
    pub(crate) fn name(&self) -> String {
        match (&self.what.hook, &self.site.module) {
            (Hook::User | Hook::UserReturn, Some(path)) => format!("{} of {path}", self.site.function),
            (Hook::Instruction, _) => format!("{}+{:#x}", self.site.function, self.site.offset),
            (Hook::Tracepoint, _) => format!("tracepoint {}", self.site.function),
            _ => self.site.function.clone(),
        }
    }
}

/// Makes the cookie of a program at a site, for [`Hooked::cookie`].
pub(crate) fn cookie(part: Part, place: u32, site: &PlanSite) -> u64 {
    u64::from(part == Part::Spare) << 63 | u64::from(place) << 32 | u64::from(site.site)
}

/// Reports hooks whose programs are bound to one place when they are loaded.
pub(crate) fn is_bound(hook: Hook) -> bool {
    matches!(hook, Hook::Entry | Hook::Return | Hook::Tracepoint)
}

/// Counts the programs that a plan hooks, with all their parts.
pub(crate) fn count(plan: &Plan) -> u32 {
    let of_each = |program: &PlanProgram| match is_bound(program.hook) {
        true => 2,
        false => 1 + usize::from(program.saver.is_some()),
    };
    let all: usize = plan.programs.iter().map(|program| of_each(program) * program.sites.len()).sum();
    u32::try_from(all).unwrap_or(u32::MAX)
}

/// The kernel's attach type of a hook.
pub(crate) fn attach_type(hook: Hook) -> libbpf_sys::bpf_attach_type {
    match hook {
        Hook::Entry => libbpf_sys::BPF_TRACE_FENTRY,
        Hook::Return => libbpf_sys::BPF_TRACE_FEXIT,
        Hook::Tracepoint => libbpf_sys::BPF_TRACE_RAW_TP,
        Hook::Probe | Hook::ProbeReturn | Hook::Instruction | Hook::User | Hook::UserReturn => {
            libbpf_sys::BPF_PERF_EVENT
        }
    }
}
