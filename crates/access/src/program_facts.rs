//! What is known of the program around a function: its symbols, types and prototypes.

use rustc_hash::FxHashMap;
use std::ops::Range;

use xweave_code::types::{ProtoId, RecordId, Type, TypeId, Types};

use crate::cfg::HiddenJumps;
use crate::value::{Callee, Ref};

/// A function to analyse.
pub(crate) struct Function {
    pub(crate) name: Box<str>,
    /// Addresses of its pieces; the first has its entry.
    pub(crate) pieces: Vec<Range<u64>>,
    /// The symbols of the other pieces, in their order.
    pub(crate) apart: Vec<Box<str>>,
    /// The module it is in; none for the kernel's image, or a program.
    pub(crate) module: Option<Box<str>>,
    pub(crate) proto: Option<ProtoId>,
    /// What is in the buffer of a function of the tracing macros.
    pub(crate) buffer: Option<TypeId>,
}

/// A variable with a fixed address.
pub(crate) struct Object {
    pub(crate) address: u64,
    pub(crate) type_: TypeId,
}

/// A variable that is in a register, between two addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveRegister {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) register: u8,
    /// The register plus this is what points to the type.
    pub(crate) add: i32,
    pub(crate) points_to: TypeId,
}

/// A variable that lies on the stack, between two addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveSlot {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// From [`Ref::FRAME`].
    pub(crate) offset: i32,
    pub(crate) type_: TypeId,
}

/// What a call of an assembler routine leaves alone: registers that it does change.
pub(crate) const PRESERVING: &[(&str, u16)] = &[
    ("__fentry__", 0),
    ("preempt_schedule_thunk", 0),
    ("preempt_schedule_notrace_thunk", 0),
    ("__SCT__preempt_schedule", 0),
    ("__SCT__preempt_schedule_notrace", 0),
    ("entry_untrain_ret", 0),
    ("__warn_thunk", 0),
    // The result in rax and rdx (arch/x86/lib/getuser.S).
    ("__get_user_1", 0b0101),
    ("__get_user_2", 0b0101),
    ("__get_user_4", 0b0101),
    ("__get_user_8", 0b0101),
    ("__get_user_nocheck_1", 0b0101),
    ("__get_user_nocheck_2", 0b0101),
    ("__get_user_nocheck_4", 0b0101),
    ("__get_user_nocheck_8", 0b0101),
    // The result in rcx (arch/x86/lib/putuser.S).
    ("__put_user_1", 0b0010),
    ("__put_user_2", 0b0010),
    ("__put_user_4", 0b0010),
    ("__put_user_8", 0b0010),
    ("__put_user_nocheck_1", 0b0010),
    ("__put_user_nocheck_2", 0b0010),
    ("__put_user_nocheck_4", 0b0010),
    ("__put_user_nocheck_8", 0b0010),
    ("__sw_hweight32", 0b0001),
    ("__sw_hweight64", 0b0001),
    ("clear_page_rep", 0b1000_0011),
    ("clear_page_orig", 0b1000_0011),
    ("clear_page_erms", 0b1000_0011),
];

/// What every function's analysis may look at.
pub(crate) struct ProgramFacts<'a> {
    pub(crate) types: &'a Types,
    /// For each structure, those that have one as a member, and where.
    holders: FxHashMap<RecordId, Vec<(TypeId, u32)>>,
    /// By address of the entry.
    pub(crate) protos: FxHashMap<u64, ProtoId>,
    /// Symbols of functions that are treated in a way of their own.
    pub(crate) thunks: FxHashMap<u64, u8>,
    pub(crate) returns: Vec<u64>,
    pub(crate) preserving: FxHashMap<u64, u16>,
    /// Sorted by address.
    pub(crate) objects: Vec<Object>,
    /// Addresses and sizes of variables; sorted.
    pub(crate) symbols: Vec<(u64, u64)>,
    /// Per-CPU variables by their link address; sorted.
    pub(crate) per_cpu: Vec<Object>,
    /// Of what the program occupies.
    pub(crate) occupied: Vec<Range<u64>>,
    /// Where `this_cpu_off` lies among the per-CPU variables.
    pub(crate) this_cpu_off: Option<i32>,
    /// The table `__per_cpu_offset`.
    pub(crate) per_cpu_offset: Option<u64>,
    pub(crate) hidden: HiddenJumps,
    /// Sorted by their beginnings.
    pub(crate) live_registers: Vec<LiveRegister>,
    pub(crate) live_slots: Vec<LiveSlot>,
    /// The longest of [`ProgramFacts::live_registers`], in bytes.
    pub(crate) longest_live: u64,
    /// The longest of [`ProgramFacts::live_slots`].
    pub(crate) longest_slot: u64,
}

impl<'a> ProgramFacts<'a> {
    pub(crate) fn new(types: &'a Types) -> Self {
        Self {
            types,
            holders: holders(types),
            protos: FxHashMap::default(),
            thunks: FxHashMap::default(),
            returns: Vec::new(),
            preserving: FxHashMap::default(),
            objects: Vec::new(),
            symbols: Vec::new(),
            per_cpu: Vec::new(),
            occupied: Vec::new(),
            this_cpu_off: None,
            per_cpu_offset: None,
            hidden: HiddenJumps::default(),
            live_registers: Vec::new(),
            live_slots: Vec::new(),
            longest_live: 0,
            longest_slot: 0,
        }
    }

    /// The variables that lie on the stack of a function at some time.
    pub(crate) fn slots_of(&self, function: &Function) -> Vec<LiveSlot> {
        let mut slots = Vec::new();
        for piece in &function.pieces {
            let first = piece.start.saturating_sub(self.longest_slot);
            let begin = self.live_slots.partition_point(|live| live.from < first);
            let candidates = self.live_slots[begin..].iter().take_while(|live| live.from < piece.end);
            slots.extend(candidates.filter(|live| live.to > piece.start));
        }
        slots
    }

    /// The register whose value a thunk jumps to (`__x86_indirect_thunk_rax`).
    pub(crate) fn thunk(&self, target: u64) -> Option<u8> {
        self.thunks.get(&target).copied()
    }

    /// Whether a jump there is a return (`__x86_return_thunk`).
    pub(crate) fn is_return(&self, target: u64) -> bool {
        self.returns.contains(&target)
    }

    /// The registers that a routine changes, or that the pointer at this address points to, if they are
    /// others than the calling convention says.
    pub(crate) fn clobbers(&self, target: u64) -> Option<u16> {
        self.preserving.get(&target).copied()
    }

    pub(crate) fn proto_of(&self, callee: Callee) -> Option<ProtoId> {
        match callee {
            Callee::At(address) => self.protos.get(&address).copied(),
            Callee::Pointer(_) => None,
        }
    }

    /// The register for arguments, by its number, that the first parameter is in: a structure that does not fit
    /// in two registers is returned where the caller says, by a pointer that comes before.
    pub(crate) fn first_register(&self, proto: ProtoId) -> usize {
        let returns = self.types.proto(proto).returns;
        usize::from(matches!(self.types.get(returns), Type::Record(_)) && self.types.size(returns) > 16)
    }

    /// What the nth register for arguments points to, by a prototype.
    pub(crate) fn points_to(&self, proto: ProtoId, nth: usize) -> Option<TypeId> {
        let mut register = self.first_register(proto);
        for param in &self.types.proto(proto).params {
            let size = self.types.size(param.type_);
            match self.types.get(param.type_) {
                Type::Record(_) if size > 16 => continue,
                Type::Record(_) => register += usize::from(size > 8),
                Type::Pointer(to) if register == nth => return Some(to),
                _ => {}
            }
            register += 1;
        }
        None
    }

    pub(crate) fn size(&self, of: TypeId) -> i32 {
        i32::try_from(self.types.size(of)).unwrap_or(i32::MAX)
    }

    /// The one structure that a part of it must be in for so many bytes from the part's beginning to be in it
    /// too: its type, and where in it these bytes are. Not those around that one.
    pub(crate) fn only_holder(&self, part: TypeId, at: i32) -> Option<(TypeId, i32)> {
        let mut only = None;
        let mut left = vec![(part, at)];
        let mut looks = 0;
        while let Some((part, at)) = left.pop() {
            let Type::Record(record) = self.types.get(part) else { continue };
            for (holder, offset) in self.holders.get(&record).into_iter().flatten() {
                let Type::Record(record) = self.types.get(*holder) else { continue };
                looks += 1;
                if looks > HOLDERS {
                    return None;
                }
                let at = at.saturating_add(i32::try_from(*offset).unwrap_or(i32::MAX));
                let named = self.types.record(record).tag.named();
                if named && (0..self.size(*holder)).contains(&at) {
                    if only.is_some_and(|only| only != (*holder, at)) {
                        return None;
                    }
                    only = Some((*holder, at));
                } else {
                    left.push((*holder, at));
                }
            }
        }
        only
    }

    /// Whether there is something of the program at an address, so that it is not just a number.
    pub(crate) fn is_code_or_data(&self, address: u64) -> bool {
        self.occupied.iter().any(|range| range.contains(&address))
    }

    pub(crate) fn is_this_cpu_offset(&self, at: i32) -> bool {
        self.this_cpu_off == Some(at)
    }

    pub(crate) fn is_per_cpu_offset(&self, at: u64) -> bool {
        self.per_cpu_offset == Some(at)
    }

    /// The variable that an address lies in, and where in it.
    pub(crate) fn object(&self, address: u64) -> Option<(TypeId, u32)> {
        Self::find(&self.objects, self.types, address)
    }

    /// The per-CPU variable that lies there.
    pub(crate) fn per_cpu_object(&self, at: i32) -> Option<(TypeId, u32)> {
        Self::find(&self.per_cpu, self.types, i64::from(at).cast_unsigned())
    }

    fn find(objects: &[Object], types: &Types, address: u64) -> Option<(TypeId, u32)> {
        let nth = objects.partition_point(|object| object.address <= address).checked_sub(1)?;
        let object = &objects[nth];
        let offset = u32::try_from(address - object.address).ok()?;
        types.contains(object.type_, offset).then_some((object.type_, offset))
    }

    /// Where the variable's symbol begins that an address is in, and its size.
    pub(crate) fn symbol(&self, address: u64) -> Option<(u64, u64)> {
        let nth = self.symbols.partition_point(|symbol| symbol.0 <= address).checked_sub(1)?;
        Some(self.symbols[nth]).filter(|(start, size)| address - start < *size)
    }

    pub(crate) fn has_lives(&self) -> bool {
        !self.live_registers.is_empty()
    }

    /// Adds the variables that are in registers at an address.
    pub(crate) fn lives_at(&self, address: u64, lives: &mut Vec<LiveRegister>) {
        let first = address.saturating_sub(self.longest_live);
        let begin = self.live_registers.partition_point(|live| live.from < first);
        let candidates = self.live_registers[begin..].iter().take_while(|live| live.from <= address);
        lives.extend(candidates.filter(|live| live.to > address));
    }

    /// Adds those that begin to be there exactly at an address.
    pub(crate) fn lives_from(&self, address: u64, lives: &mut Vec<LiveRegister>) {
        let begin = self.live_registers.partition_point(|live| live.from < address);
        lives.extend(self.live_registers[begin..].iter().take_while(|live| live.from == address));
    }
}

/// What is in more structures, directly or not, tells nothing of the one that it is in.
const HOLDERS: u32 = 100;

fn holders(types: &Types) -> FxHashMap<RecordId, Vec<(TypeId, u32)>> {
    let mut holders: FxHashMap<RecordId, Vec<(TypeId, u32)>> = FxHashMap::default();
    for (record, holder) in types.records() {
        let Some(of) = types.interned(Type::Record(record)) else { continue };
        for member in &holder.members {
            if let Type::Record(part) = types.get(member.type_) {
                holders.entry(part).or_default().push((of, member.offset));
            }
        }
    }
    holders
}

/// The distance of the CFA, which DWARF counts from, to [`Ref::FRAME`]: the return address.
pub(crate) const CFA: i32 = 8;
const _: () = assert!(Ref::FRAME.add == 0);
