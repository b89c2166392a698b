//! Where what the registers held when a function was entered is later on: its parameters, and the stack
//! pointer, which debug information counts from.
//!
//! A fact is kept only while it holds on every way; what is not understood ends it.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::cfg::{Cfg, to_u32, to_usize};
use crate::location::Place;
use crate::program_facts::{CFA, ProgramFacts};
use crate::registers::{ARGUMENTS, CLOBBERED, RSP, number};

const RBP: u8 = 5;

/// What a register held at the entry, and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryValue {
    origin: u8,
    /// So many of the low bytes are it.
    bytes: u8,
    add: i32,
}

impl EntryValue {
    fn plus(self, add: i64) -> Option<Self> {
        let add = i32::try_from(i64::from(self.add).checked_add(add)?).ok()?;
        Some(Self { add, ..self })
    }

    fn low(self, bytes: usize) -> Option<Self> {
        let bytes = u8::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
        Some(Self { bytes: self.bytes.min(bytes), ..self })
    }

    /// What holds of both.
    fn meet(self, other: Option<Self>) -> Option<Self> {
        let other = other.filter(|other| other.origin == self.origin && other.add == self.add)?;
        Some(Self { bytes: self.bytes.min(other.bytes), ..self })
    }
}

/// What is known before one instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    registers: [Option<EntryValue>; 16],
    /// Parameters on the stack, by the distance from where the return address lies.
    slots: Vec<(i32, EntryValue)>,
}

/// No more parameters and copies of them are kept in mind.
const SLOTS: usize = 32;

impl State {
    fn entry() -> Self {
        let value = |origin| Some(EntryValue { origin, bytes: 8, add: 0 });
        Self {
            registers: std::array::from_fn(|nth| value(u8::try_from(nth).unwrap_or(0))),
            slots: Vec::new(),
        }
    }

    fn nothing() -> Self {
        Self { registers: [None; 16], slots: Vec::new() }
    }

    /// A register, and how far from it the return address lies.
    fn frame(&self) -> Option<(u8, i32)> {
        let of = |register: u8| {
            let value = self.registers[usize::from(register)]?;
            (value.origin == RSP && value.bytes == 8).then_some((register, value.add.checked_neg()?))
        };
        of(RSP).or_else(|| of(RBP))
    }

    /// A register, and how far from it the canonical frame address is.
    pub(crate) fn cfa(&self) -> Option<(u8, i32)> {
        let (register, add) = self.frame()?;
        Some((register, add.checked_add(CFA)?))
    }

    /// Where the low bytes are of what a register held at the entry.
    pub(crate) fn place(&self, origin: u8, bytes: u8) -> Option<Place> {
        let fits = |value: &EntryValue| value.origin == origin && value.bytes >= bytes;
        let register = (0u8..).zip(&self.registers).find_map(|(register, value)| {
            let add = value.filter(fits)?.add.checked_neg()?;
            Some(Place::Register { register, add })
        });
        register.or_else(|| {
            let (offset, _) = self.slots.iter().find(|(_, value)| fits(value) && value.add == 0)?;
            let (register, add) = self.frame()?;
            Some(Place::Memory { register, add: add.checked_add(*offset)? })
        })
    }

    fn of(&self, register: Register) -> Option<EntryValue> {
        self.registers[usize::from(number(register)?)]
    }

    fn set(&mut self, register: u8, value: Option<EntryValue>) {
        self.registers[usize::from(register)] = value;
    }

    /// The distance from the return address of what lies in the frame, or begins there.
    fn in_frame(&self, base: Register, index: Register, displacement: u64) -> Option<i32> {
        let fixed = [base, index].into_iter().find_map(|register| {
            let value = self.of(register).filter(|value| value.origin == RSP && value.bytes == 8)?;
            value.plus(displacement.cast_signed())
        });
        fixed.map(|value| value.add)
    }

    /// The memory operand's, where it has no index.
    fn slot(&self, instruction: &Instruction) -> Option<i32> {
        let plain = instruction.memory_index() == Register::None;
        let (base, displacement) = (instruction.memory_base(), instruction.memory_displacement64());
        self.in_frame(base, Register::None, displacement).filter(|_| plain)
    }

    fn store(&mut self, offset: i32, size: usize, value: Option<EntryValue>) {
        let end = offset.saturating_add(i32::try_from(size).unwrap_or(i32::MAX));
        self.slots.retain(|(at, known)| at.saturating_add(known.bytes.into()) <= offset || *at >= end);
        if let Some(value) = value.and_then(|value| value.low(size))
            && ARGUMENTS.contains(&value.origin)
            && self.slots.len() < SLOTS
        {
            self.slots.push((offset, value));
        }
    }

    /// Something is written to an address that is not known: there or above in the frame, or to any object.
    fn store_around(&mut self, base: Register, index: Register, displacement: u64, escaped: i32) {
        let from = self.in_frame(base, index, displacement).unwrap_or(escaped);
        self.slots.retain(|(at, _)| *at < from);
    }

    fn load(&self, offset: i32, size: usize) -> Option<EntryValue> {
        let (_, value) = self.slots.iter().find(|(at, _)| *at == offset)?;
        value.low(size)
    }

    /// Keeps what holds of both; whether anything was lost.
    fn meet(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (value, other) in self.registers.iter_mut().zip(&other.registers) {
            *value = value.and_then(|value| value.meet(*other));
        }
        self.slots.retain_mut(|(at, value)| {
            let same = other.slots.iter().find(|(other, _)| other == at).map(|(_, value)| *value);
            let met = value.meet(same);
            *value = met.unwrap_or(*value);
            met.is_some()
        });
        *self != before
    }
}

/// What `tell` takes of the states before instructions, which are wanted by their numbers, in order.
pub(crate) fn entry_values<T>(
    facts: &ProgramFacts<'_>,
    cfg: &Cfg,
    wanted: &[u32],
    tell: impl FnMut(&State) -> T,
) -> Vec<T> {
    let mut propagation = Propagation {
        facts,
        cfg,
        entries: Vec::new(),
        escaped: i32::MAX,
        info: InstructionInfoFactory::new(),
    };
    propagation.entries.resize(cfg.blocks.len(), None);
    if !propagation.settle() {
        propagation.entries.fill(None);
    }
    propagation.states(wanted, tell)
}

struct Propagation<'a> {
    facts: &'a ProgramFacts<'a>,
    cfg: &'a Cfg,
    /// What is known where each block begins; none as long as no way leads there.
    entries: Vec<Option<State>>,
    /// The lowest place of the frame whose address is used for more than to load and store there: objects
    /// begin there or above, which others may write to. Compilers keep spilled registers below.
    escaped: i32,
    info: InstructionInfoFactory,
}

/// How often a block is gone over on average, at most: loops within loops within loops take fewer.
const ROUNDS: usize = 32;

impl Propagation<'_> {
    /// Finds what holds where blocks begin; false if that takes too long.
    fn settle(&mut self) -> bool {
        let cfg = self.cfg;
        let orphans: Vec<u32> =
            (0..to_u32(cfg.blocks.len())).filter(|nth| cfg.blocks[to_usize(*nth)].orphan).collect();
        let mut left = cfg.blocks.len().saturating_mul(ROUNDS);
        let mut waiting = vec![false; cfg.blocks.len()];
        if let (Some(entry), Some(waits)) = (self.entries.first_mut(), waiting.first_mut()) {
            (*entry, *waits) = (Some(State::entry()), true);
        }
        loop {
            let escaped = self.escaped;
            for &number in &cfg.order {
                let nth = to_usize(number);
                if !std::mem::replace(&mut waiting[nth], false) {
                    continue;
                }
                let Some(mut state) = self.entries[nth].clone() else { continue };
                let Some(less) = left.checked_sub(1) else { return false };
                left = less;
                let block = &cfg.blocks[nth];
                let instructions = &cfg.instructions[to_usize(block.first)..to_usize(block.end)];
                for instruction in instructions {
                    self.execute(&mut state, instruction);
                }
                for to in &block.after {
                    self.lead(&mut waiting, *to, &state);
                }
                let table = |last: &Instruction| last.flow_control() == FlowControl::IndirectBranch;
                if block.after.is_empty() && instructions.last().is_some_and(table) {
                    // Through a table to what nothing else leads to, with the frame as it is.
                    let frame = |value: &EntryValue| value.origin == RSP;
                    let mut same = State::nothing();
                    for register in [RSP, RBP] {
                        same.set(register, state.registers[usize::from(register)].filter(frame));
                    }
                    orphans.iter().for_each(|to| self.lead(&mut waiting, *to, &same));
                }
            }
            if self.escaped != escaped {
                // What was kept over calls until this was known, is not.
                for (waits, entry) in waiting.iter_mut().zip(&self.entries) {
                    *waits = entry.is_some();
                }
            }
            if !waiting.contains(&true) {
                return true;
            }
        }
    }

    fn lead(&mut self, waiting: &mut [bool], to: u32, state: &State) {
        let entry = &mut self.entries[to_usize(to)];
        waiting[to_usize(to)] |= match entry {
            Some(known) => known.meet(state),
            None => {
                *entry = Some(state.clone());
                true
            }
        };
    }

    fn states<T>(&mut self, wanted: &[u32], mut tell: impl FnMut(&State) -> T) -> Vec<T> {
        let cfg = self.cfg;
        let mut states = Vec::with_capacity(wanted.len());
        let mut wanted = wanted.iter().peekable();
        while let Some(first) = wanted.peek() {
            let nth = cfg.blocks.partition_point(|block| block.end <= **first);
            let Some(block) = cfg.blocks.get(nth) else { break };
            let mut state = self.entries[nth].take().unwrap_or_else(State::nothing);
            for number in block.first..block.end {
                if wanted.peek().is_none_or(|wanted| **wanted >= block.end) {
                    break;
                }
                while wanted.next_if(|wanted| **wanted == number).is_some() {
                    states.push(tell(&state));
                }
                self.execute(&mut state, &cfg.instructions[to_usize(number)]);
            }
        }
        states
    }

    fn execute(&mut self, state: &mut State, instruction: &Instruction) {
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => return self.call(state, instruction),
            FlowControl::Next | FlowControl::Interrupt | FlowControl::XbeginXabortXend => {}
            _ => return,
        }
        let to = (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register)
            .then(|| number(instruction.op0_register()))
            .flatten();
        let whole = to.is_some() && instruction.op0_register().is_gpr64();
        match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop | Mnemonic::Bt => {}
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => {
                self.moves(state, instruction, to)
            }
            Mnemonic::Lea => {
                let plain =
                    instruction.memory_index() == Register::None && !instruction.is_ip_rel_memory_operand();
                let value = state.of(instruction.memory_base()).filter(|_| plain && whole);
                let value =
                    value.and_then(|value| value.plus(instruction.memory_displacement64().cast_signed()));
                let (base, index) = (instruction.memory_base(), instruction.memory_index());
                if let Some(at) = state.in_frame(base, index, instruction.memory_displacement64()) {
                    self.escapes(to, at);
                }
                if let Some(register) = to {
                    state.set(register, value);
                }
            }
            Mnemonic::Add | Mnemonic::Sub
                if whole
                    && matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64) =>
            {
                let constant = instruction.immediate(1).cast_signed();
                let negative = instruction.mnemonic() == Mnemonic::Sub;
                let constant = if negative { constant.wrapping_neg() } else { constant };
                if let Some(register) = to {
                    let value = state.registers[usize::from(register)];
                    state.set(register, value.and_then(|value| value.plus(constant)));
                }
            }
            Mnemonic::Push => {
                let value = match instruction.op0_kind() {
                    OpKind::Register => state.of(instruction.op0_register()),
                    OpKind::Memory => state.slot(instruction).and_then(|at| state.load(at, 8)),
                    _ => None,
                };
                self.adjust(state, -8);
                if let Some(top) = state.registers[usize::from(RSP)].filter(|top| top.origin == RSP) {
                    state.store(top.add, 8, value);
                }
            }
            Mnemonic::Pop if whole => {
                let at = state.registers[usize::from(RSP)].filter(|value| value.origin == RSP);
                let value = at.and_then(|at| state.load(at.add, 8));
                self.adjust(state, 8);
                if let Some(register) = to {
                    state.set(register, value);
                }
            }
            Mnemonic::Leave => {
                let frame = state.registers[usize::from(RBP)];
                state.set(RSP, frame.and_then(|frame| frame.plus(8)));
                state.set(RBP, None);
            }
            _ => self.other(state, instruction),
        }
    }

    fn moves(&mut self, state: &mut State, instruction: &Instruction, to: Option<u8>) {
        if instruction.op0_kind() == OpKind::Memory {
            let register = instruction.op1_kind() == OpKind::Register;
            let source = instruction.op1_register();
            let value = register.then(|| state.of(source)).flatten();
            if let Some(value) = value.filter(|value| value.origin == RSP) {
                self.escaped = self.escaped.min(value.add);
            }
            let size = instruction.memory_size().size();
            return match state.slot(instruction) {
                Some(at) => state.store(at, size, value.filter(|_| !high_byte(source))),
                None => {
                    let (base, index) = (instruction.memory_base(), instruction.memory_index());
                    state.store_around(base, index, instruction.memory_displacement64(), self.escaped);
                }
            };
        }
        let Some(register) = to else { return };
        let target = instruction.op0_register();
        // Eight or sixteen bits leave the others as they are.
        if target.size() < 4 {
            return state.set(register, None);
        }
        let value = match instruction.op1_kind() {
            OpKind::Register => {
                let source = instruction.op1_register();
                let value = state.of(source).filter(|_| !high_byte(source) && source.is_gpr());
                value.and_then(|value| value.low(source.size().min(target.size())))
            }
            OpKind::Memory => {
                let size = instruction.memory_size().size().min(target.size());
                state.slot(instruction).and_then(|at| state.load(at, size))
            }
            _ => None,
        };
        if let Some(value) = value.filter(|value| value.origin == RSP) {
            self.escapes(to, value.add);
        }
        state.set(register, value);
    }

    /// An address of the frame is put into a register, which the compiler's own use of the frame is through
    /// as little as it can.
    fn escapes(&mut self, to: Option<u8>, at: i32) {
        if to != Some(RSP) && to != Some(RBP) {
            self.escaped = self.escaped.min(at);
        }
    }

    fn adjust(&mut self, state: &mut State, by: i64) {
        let value = state.registers[usize::from(RSP)];
        state.set(RSP, value.and_then(|value| value.plus(by)));
    }

    fn call(&mut self, state: &mut State, call: &Instruction) {
        let mask = match call.flow_control() {
            FlowControl::Call => self.facts.clobbers(call.near_branch_target()).unwrap_or(CLOBBERED),
            _ => CLOBBERED,
        };
        if mask == 0 {
            return;
        }
        for register in (0..16u8).filter(|register| mask & (1 << register) != 0) {
            state.set(register, None);
        }
        let escaped = self.escaped;
        state.slots.retain(|(at, _)| *at < escaped);
    }

    /// Any other instruction: what it writes is not known any more.
    fn other(&mut self, state: &mut State, instruction: &Instruction) {
        let by = instruction.stack_pointer_increment();
        let writes = |access| {
            matches!(
                access,
                OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
            )
        };
        let escaped = self.escaped;
        let info = self.info.info(instruction);
        for used in info.used_memory().iter().filter(|used| writes(used.access())) {
            // Of a string instruction one element is said, and any number may be written.
            let plain = used.index() == Register::None && !instruction.is_string_instruction();
            match state.in_frame(used.base(), Register::None, used.displacement()).filter(|_| plain) {
                Some(at) => state.store(at, used.memory_size().size(), None),
                None => state.store_around(used.base(), used.index(), used.displacement(), escaped),
            }
        }
        for used in info.used_registers().iter().filter(|used| writes(used.access())) {
            if let Some(register) = number(used.register()).filter(|register| *register != RSP || by == 0) {
                state.set(register, None);
            }
        }
        if by != 0 {
            self.adjust(state, by.into());
        }
    }
}

/// `ah` and its like are no low bytes.
fn high_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}
