//! Gathering what is known of a program from its image, its type information and its debug information.

use std::collections::HashMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use xweave_bytes::read_le;
use xweave_code::Register;
use xweave_code::dwarf::{Debug, Place};
use xweave_code::image::Image;
use xweave_code::types::{KernelTypes, RecordId, Tag, Type, TypeId, Types};

use crate::cfg::HiddenJumps;
use crate::classify::innermost_array;
use crate::function_summaries::{self, FunctionSummaries, Subject};
use crate::idioms::{self, Laid, Overlays};
use crate::points_to::from_cfa;
use crate::program_facts::{Function, LiveRegister, LiveSlot, Object, PRESERVING, ProgramFacts};

/// What a program is made of.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) image: &'a Image,
    pub(crate) kernel: &'a KernelTypes,
    pub(crate) debug: Option<&'a Debug>,
}

/// The register for results, as in [`PRESERVING`].
const RAX: u16 = 1;

/// A program below this address is linked to run anywhere, so that a number in an instruction is no address.
const FIXED: u64 = 0x40_0000;

impl<'a> Sources<'a> {
    fn types(&self) -> &'a Types {
        &self.kernel.types
    }

    /// All functions with their parts, in the order of their addresses.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut apart: HashMap<Called<'_>, Vec<(Range<u64>, &str)>> = HashMap::new();
        let mut functions = Vec::new();
        for function in self.image.functions() {
            let range = function.address..function.address.saturating_add(function.size);
            // Padding in front of a function (CONFIG_FUNCTION_PADDING_CFI).
            if function.name.starts_with("__pfx_") {
                continue;
            }
            if range.is_empty() || range.end - range.start > MAX_FUNCTION {
                continue;
            }
            let module = function.module.as_deref();
            if let Some(of) = cold_of(&function.name) {
                apart.entry((of, module)).or_default().push((range, &function.name));
                continue;
            }
            functions.push((function, range));
        }
        // Several functions may have the same name: then their parts are in the same order as they are.
        let mut taken: HashMap<Called<'_>, usize> = HashMap::new();
        let mut count: HashMap<Called<'_>, usize> = HashMap::new();
        for (function, _) in &functions {
            *count.entry((&function.name, function.module.as_deref())).or_default() += 1;
        }
        functions
            .into_iter()
            .map(|(function, range)| {
                let module = function.module.as_deref();
                let key = (function.name.as_str(), module);
                let (mut pieces, mut names) = (vec![range], Vec::new());
                if let Some(parts) = apart.get(&key).filter(|parts| count.get(&key) == Some(&parts.len())) {
                    let nth = taken.entry(key).or_default();
                    if let Some((range, name)) = parts.get(*nth) {
                        pieces.push(range.clone());
                        names.push((*name).into());
                    }
                    *nth += 1;
                }
                let called = || std::iter::once(&function.name).chain(&function.aliases);
                let declared = called().find_map(|name| self.kernel.function(module, name));
                let told = self.debug.and_then(|debug| debug.function(function.address));
                let exact = told.filter(|told| told.exact).map(|told| told.proto);
                let buffer = idioms::buffer(&function.name).and_then(|name| self.structure(&name));
                Function {
                    name: function.name.as_str().into(),
                    pieces,
                    apart: names,
                    module: module.map(Into::into),
                    proto: declared.or(exact),
                    buffer,
                }
            })
            .collect()
    }

    fn structure(&self, name: &str) -> Option<TypeId> {
        self.types().find(Tag::Struct, name).and_then(|record| self.type_of(record))
    }

    fn type_of(&self, record: RecordId) -> Option<TypeId> {
        self.types().interned(Type::Record(record))
    }

    /// Everything around the functions.
    pub(crate) fn facts(&self, functions: &[Function]) -> ProgramFacts<'a> {
        let mut facts = ProgramFacts::new(self.types());
        for function in functions {
            if let Some(proto) = function.proto {
                facts.protos.insert(function.pieces[0].start, proto);
            }
        }
        for function in self.image.functions() {
            let names = std::iter::once(&function.name).chain(&function.aliases);
            for name in names {
                self.routine(&mut facts, name, function.address);
            }
        }
        for (address, name) in self.image.imports() {
            self.routine(&mut facts, name, *address);
            if let Some(proto) = self.kernel.function(None, name) {
                facts.protos.entry(*address).or_insert(proto);
            }
        }
        self.thunks(&mut facts);
        self.variables(&mut facts);
        self.callee_saved(&mut facts);
        self.lives(&mut facts);
        facts.hidden = self.hidden_jumps();
        let lowest =
            self.image.sections().iter().filter(|section| section.executable).map(|s| s.address).min();
        if lowest.is_some_and(|lowest| lowest >= FIXED) {
            let sections = self.image.sections().iter().filter(|section| section.address >= FIXED);
            facts.occupied = merge(sections.map(|section| section.address..section.end()).collect());
        }
        let this_cpu_off = self.image.symbol("this_cpu_off");
        facts.this_cpu_off = this_cpu_off.and_then(|address| i32::try_from(address).ok());
        facts.per_cpu_offset = self.image.symbol("__per_cpu_offset");
        facts
    }

    /// Assembler routines: some of their symbols are not said to be functions.
    fn thunks(&self, facts: &mut ProgramFacts<'_>) {
        for (register, name) in (0..).zip(Register::ALL) {
            if let Some(address) = self.image.symbol(&format!("__x86_indirect_thunk_{name}")) {
                facts.thunks.insert(address, register);
            }
        }
        facts.returns.extend(self.image.symbol("__x86_return_thunk"));
        for (name, mask) in PRESERVING {
            if let Some(address) = self.image.symbol(name) {
                facts.preserving.insert(address, *mask);
            }
        }
    }

    fn routine(&self, facts: &mut ProgramFacts<'_>, name: &str, address: u64) {
        // A static call's trampoline is what it leads to (include/linux/static_call_types.h).
        if let Some(key) = name.strip_prefix("__SCT__") {
            let traced = key.strip_prefix("tp_func_").map(|event| format!("__traceiter_{event}"));
            if let Some(proto) = self.kernel.function(None, traced.as_deref().unwrap_or(key)) {
                facts.protos.entry(address).or_insert(proto);
            }
        }
    }

    fn variables(&self, facts: &mut ProgramFacts<'_>) {
        let per_cpu = self.image.percpu().unwrap_or(0..0);
        let told = self.debug.map(Debug::objects).unwrap_or_default();
        let mut known: HashMap<u64, TypeId> =
            told.iter().map(|object| (object.address, object.type_)).collect();
        for symbol in self.image.objects() {
            if symbol.size > 0 {
                facts.symbols.push((symbol.address, symbol.size));
            }
            let declared = self.kernel.variable(None, &symbol.name).or_else(|| {
                let structure = idioms::variable(&symbol.name).and_then(|name| self.structure(name));
                // A variable that is called as its structure is, and as large.
                let namesake = || {
                    let of = self.structure(&symbol.name)?;
                    (u64::from(self.types().size(of)) == symbol.size).then_some(of)
                };
                structure.or_else(namesake)
            });
            if let Some(declared) = declared {
                known.entry(symbol.address).or_insert(declared);
            }
        }
        for (address, type_) in known {
            let objects = if per_cpu.contains(&address) { &mut facts.per_cpu } else { &mut facts.objects };
            objects.push(Object { address, type_ });
        }
        facts.objects.sort_by_key(|object| object.address);
        facts.per_cpu.sort_by_key(|object| object.address);
        facts.symbols.sort_unstable();
    }

    /// Whether that something is of this type can tell what is in memory: of a pointer, a structure or union,
    /// or an array of these.
    fn tells(&self, type_: TypeId) -> bool {
        let element = innermost_array(self.types(), type_).map(|element| self.types().get(element));
        matches!(element, Some(Type::Pointer(_) | Type::Record(_)))
    }

    /// Pointers to routines that leave all registers alone but the one with the result.
    fn callee_saved(&self, facts: &mut ProgramFacts<'_>) {
        let Some(routine) = self.types().find(Tag::Struct, idioms::CALLEE_SAVED.1) else { return };
        let Some(table) = self.image.symbol(idioms::CALLEE_SAVED.0) else { return };
        let Some((of, 0)) = facts.object(table) else { return };
        for at in (0..self.types().size(of)).step_by(8) {
            if self.types().levels(of, at, 8).iter().any(|level| level.record == routine) {
                facts.preserving.insert(table + u64::from(at), RAX);
            }
        }
    }

    fn lives(&self, facts: &mut ProgramFacts<'_>) {
        let Some(debug) = self.debug else { return };
        for live in debug.lives().iter().filter(|live| self.tells(live.type_)) {
            let (from, to) = (live.from, live.to);
            match live.place {
                Place::Register { register, add } => {
                    if let Some(points_to) = self.types().pointee(live.type_) {
                        facts.live_registers.push(LiveRegister { from, to, register, add, points_to });
                    }
                }
                Place::Memory { register, add } => {
                    let points_to = live.type_;
                    facts.live_registers.push(LiveRegister { from, to, register, add, points_to });
                }
                Place::Frame { add } => {
                    let (offset, type_) = (from_cfa(add), live.type_);
                    facts.live_slots.push(LiveSlot { from, to, offset, type_ });
                }
                Place::FrameAddress { .. } | Place::Address(_) | Place::Value(_) | Place::Hiding => {}
            }
        }
        facts.longest_live = facts.live_registers.iter().map(|live| live.to - live.from).max().unwrap_or(0);
        facts.longest_slot = facts.live_slots.iter().map(|live| live.to - live.from).max().unwrap_or(0);
    }

    /// The kernel's tables of jumps that are switched on and off, and of where faults lead: pairs of
    /// distances, from each number to what it stands for (struct jump_entry, struct exception_table_entry).
    fn hidden_jumps(&self) -> HiddenJumps {
        let mut hidden = HiddenJumps::default();
        for (table, each) in [("jump_table", 16), ("ex_table", 12)] {
            let start = self.image.symbol(&format!("__start___{table}"));
            let stop = self.image.symbol(&format!("__stop___{table}"));
            let (Some(start), Some(stop)) = (start, stop) else { continue };
            let length = usize::try_from(stop.saturating_sub(start)).unwrap_or(0);
            let Some(bytes) = self.image.bytes(start, length) else { continue };
            let mut at = start;
            for entry in bytes.chunks_exact(each) {
                let distance = |nth: usize| i64::from(read_le::<i32>(entry, nth).unwrap_or(0));
                let code = at.wrapping_add_signed(distance(0));
                let target = at.wrapping_add(4).wrapping_add_signed(distance(4));
                hidden.entry(code).or_default().push(target);
                at = at.wrapping_add(u64::try_from(each).unwrap_or(0));
            }
        }
        self.tests_of_features(&mut hidden);
        hidden
    }

    /// Code that functions jump to and that jumps back to one of two places: tests of the processor's
    /// features as they are before the kernel patches them away (`_static_cpu_has`, arch/x86).
    fn tests_of_features(&self, hidden: &mut HiddenJumps) {
        let apart = self.image.sections().iter().filter(|section| section.name == ".altinstr_aux");
        for section in apart {
            let mut decoder = Decoder::with_ip(64, section.data(), section.address, DecoderOptions::NONE);
            let (mut first, mut targets) = (section.address, Vec::new());
            for instruction in &mut decoder {
                match instruction.flow_control() {
                    FlowControl::ConditionalBranch => targets.push(instruction.near_branch_target()),
                    FlowControl::UnconditionalBranch => {
                        targets.push(instruction.near_branch_target());
                        hidden.insert(first, std::mem::take(&mut targets));
                        first = instruction.next_ip();
                    }
                    _ => {}
                }
            }
        }
    }

    /// What is laid over members by convention, in the structures themselves and in what has one as a member.
    pub(crate) fn overlays(&self) -> Overlays {
        let mut overlays = Overlays::default();
        for overlay in idioms::OVERLAYS {
            let Some(of) = self.structure(overlay.over.0) else { continue };
            let Some(structure) = self.structure(overlay.structure) else { continue };
            let holders = self.types().records().flat_map(|(holder, record)| {
                let parts = record.members.iter().filter(|member| member.type_ == of);
                parts.filter_map(move |part| Some((self.type_of(holder)?, part.offset)))
            });
            for (over, base) in holders.chain([(of, 0)]) {
                self.members(of, base, overlay.over.1, UNNAMED, &mut |bytes| {
                    let start = overlay.begins.map_or(base, |begins| bytes.start.saturating_add(begins));
                    let functions = overlay.functions;
                    overlays.0.push(Laid { over, bytes, start, functions, structure });
                });
            }
        }
        overlays
    }

    /// Where in a structure that lies at `base` the members of this name are, or those of unnamed ones in it.
    fn members(&self, of: TypeId, base: u32, name: &str, depth: u32, found: &mut impl FnMut(Range<u32>)) {
        let Type::Record(record) = self.types().get(of) else { return };
        for member in &self.types().record(record).members {
            let start = base.saturating_add(member.offset);
            if member.name.is_empty() && depth > 0 {
                self.members(member.type_, start, name, depth - 1, found);
            } else if xweave_text::matches(name, &member.name) {
                found(start..start.saturating_add(self.types().size(member.type_)));
            }
        }
    }

    /// What the kernel's macros say, as if a function had told it.
    pub(crate) fn state_idioms(&self, summaries: &mut FunctionSummaries) {
        for sum in idioms::SUMS {
            let Some(record) = self.types().find(Tag::Struct, sum.of) else { continue };
            let members = &self.types().record(record).members;
            let place = |name: &str| {
                let offset = members.iter().find(|of| &*of.name == name)?.offset;
                Some(function_summaries::Place::Member(self.type_of(record)?, i32::try_from(offset).ok()?))
            };
            let places = sum.members.map(place);
            if let ([Some(a), Some(b)], Some(to)) = (places, self.structure(sum.points_to)) {
                summaries.state(Subject::Sum(a.min(b), a.max(b)), to, 0);
            }
        }
    }
}

/// How deep unnamed structures and unions are nested; type information that is damaged may have circles.
const UNNAMED: u32 = 8;

/// A function's name and module.
type Called<'a> = (&'a str, Option<&'a str>);

/// Larger than any function that a compiler makes; what claims to be larger is damaged.
const MAX_FUNCTION: u64 = 4 << 20;

/// The function that `name` is the rarely executed part of.
fn cold_of(name: &str) -> Option<&str> {
    name.find(".cold").map(|at| &name[..at])
}

fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(0x1_0000) => {
                last.end = last.end.max(range.end)
            }
            _ => merged.push(range),
        }
    }
    merged
}
