//! Following values through a function: what every register and stack slot holds at each instruction.
//!
//! Values are numbered as they are made (static single assignment, after Braun et al., "Simple and
//! Efficient Construction of SSA Form", 2013): where ways meet, a join is made only for what is read
//! behind it, so that dead registers join nothing.

mod execute;
mod operand;

use iced_x86::{Code, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register};
use iced_x86::{FlowControl, Instruction};
use rustc_hash::FxHashMap;

use crate::cfg::{Cfg, to_u32, to_usize};
use crate::program_facts::ProgramFacts;
use crate::registers::{CLOBBERED, REGISTERS, RSP, number};
use crate::value::{Kind, Ref, Told, Values};

/// A register of 64 bits by its number, or a stack slot by its distance from [`Ref::FRAME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Register(u8),
    Slot(i32),
}

/// What a block leaves behind.
#[derive(Clone, Default)]
struct State {
    registers: [Option<Ref>; REGISTERS],
    /// What was stored to the stack here; `None` if it may have been changed since.
    slots: Vec<(i32, Option<Ref>)>,
    /// Behind this block all slots may have been changed that were not stored since.
    done: bool,
}

impl State {
    /// What is in a place, if the block says: [`Ref::UNKNOWN`] where it may have been changed.
    fn get(&self, place: Place) -> Option<Ref> {
        match place {
            Place::Register(register) => self.registers[usize::from(register)],
            Place::Slot(offset) => {
                let found = self.slots.iter().find(|(at, _)| *at == offset);
                found.map(|(_, known)| known.unwrap_or(Ref::UNKNOWN))
            }
        }
    }
}

/// Follows a function's values.
pub(crate) fn follow(facts: &ProgramFacts<'_>, cfg: &Cfg) -> Values {
    let mut follower = SsaBuilder::new(facts, cfg);
    for &block in &cfg.order {
        follower.block(block);
    }
    follower.seal();
    follower.values
}

struct SsaBuilder<'a> {
    facts: &'a ProgramFacts<'a>,
    cfg: &'a Cfg,
    values: Values,
    /// By block.
    states: Vec<State>,
    /// The stack pointer at the beginning of each block, from [`Ref::FRAME`].
    stack: Vec<Option<i32>>,
    /// What was found to be in a place at the beginning of a block.
    entries: FxHashMap<(u32, Place), Ref>,
    /// Joins whose inputs are not all known yet: the value, its block, the place.
    open: Vec<(u32, u32, Place)>,
    /// Registers that are written in the loop that begins with a block.
    changed_in_loop: FxHashMap<u32, u16>,
    /// Stack addresses that others know of.
    escaped: Vec<i32>,
    info: InstructionInfoFactory,
    // The block that is being followed.
    block: u32,
    state: State,
    sp: i32,
    lives: Vec<crate::program_facts::LiveRegister>,
}

impl<'a> SsaBuilder<'a> {
    fn new(facts: &'a ProgramFacts<'a>, cfg: &'a Cfg) -> Self {
        let mut values = Values::default();
        values.kinds.extend([Kind::Unknown, Kind::Frame, Kind::PerCpu]);
        let count = cfg.blocks.len();
        let mut follower = Self {
            facts,
            cfg,
            values,
            states: vec![State::default(); count],
            stack: vec![None; count],
            entries: FxHashMap::default(),
            open: Vec::new(),
            changed_in_loop: FxHashMap::default(),
            escaped: Vec::new(),
            info: InstructionInfoFactory::new(),
            block: 0,
            state: State::default(),
            sp: 0,
            lives: Vec::new(),
        };
        follower.find_loops();
        follower
    }

    /// For every loop, which registers change in it: the others need no join at its beginning.
    fn find_loops(&mut self) {
        let cfg = self.cfg;
        let mut heads: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (from, block) in (0u32..).zip(&cfg.blocks) {
            for &to in &block.after {
                if cfg.rank[to_usize(to)] <= cfg.rank[to_usize(from)] {
                    heads.entry(to).or_default().push(from);
                }
            }
        }
        if heads.is_empty() {
            return;
        }
        let written: Vec<u16> = cfg
            .blocks
            .iter()
            .map(|block| {
                let instructions = &cfg.instructions[to_usize(block.first)..to_usize(block.end)];
                instructions.iter().fold(0, |mask, instruction| mask | self.writes(instruction))
            })
            .collect();
        for (head, ends) in heads {
            let mut inside = vec![false; cfg.blocks.len()];
            inside[to_usize(head)] = true;
            let mut mask = written[to_usize(head)];
            let mut left = ends;
            while let Some(block) = left.pop() {
                // A way into the middle of the loop leads back to before it.
                if cfg.rank[to_usize(block)] < cfg.rank[to_usize(head)] {
                    continue;
                }
                if !std::mem::replace(&mut inside[to_usize(block)], true) {
                    mask |= written[to_usize(block)];
                    left.extend(&cfg.blocks[to_usize(block)].before);
                }
            }
            self.changed_in_loop.insert(head, mask);
        }
    }

    /// The registers that an instruction writes.
    fn writes(&mut self, instruction: &Instruction) -> u16 {
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            return self.clobbered(instruction);
        }
        let info = self.info.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        let mut mask = 0;
        for used in info.used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
            );
            if let Some(register) = number(used.register()).filter(|_| writes) {
                mask |= 1 << register;
            }
        }
        mask
    }

    fn clobbered(&self, call: &Instruction) -> u16 {
        match call.flow_control() {
            FlowControl::Call => self.facts.clobbers(call.near_branch_target()),
            _ if call.is_ip_rel_memory_operand() => self.facts.clobbers(call.ip_rel_memory_address()),
            _ => None,
        }
        .unwrap_or(CLOBBERED)
    }

    fn make(&mut self, kind: Kind) -> Ref {
        let value = to_u32(self.values.kinds.len());
        self.values.kinds.push(kind);
        Ref { value, add: 0 }
    }

    // ── Places ────────────────────────────────────────────────────────────────────────────────────

    fn get(&mut self, register: u8) -> Ref {
        if register == RSP {
            return Ref::FRAME.plus(self.sp.into());
        }
        let slot = &self.state.registers[usize::from(register)];
        if let Some(known) = slot {
            return *known;
        }
        let found = self.at_entry(self.block, Place::Register(register));
        self.state.registers[usize::from(register)] = Some(found);
        found
    }

    fn set(&mut self, register: u8, value: Ref) {
        if register != RSP {
            self.state.registers[usize::from(register)] = Some(value);
        }
    }

    fn get_slot(&mut self, offset: i32) -> Option<Ref> {
        if let Some((_, known)) = self.state.slots.iter().find(|(at, _)| *at == offset) {
            return *known;
        }
        let found = self.at_entry(self.block, Place::Slot(offset));
        (found != Ref::UNKNOWN).then_some(found)
    }

    fn set_slot(&mut self, offset: i32, size: i32, value: Option<Ref>) {
        for (at, known) in &mut self.state.slots {
            if *at < offset + size && offset < *at + 8 {
                *known = None;
            }
        }
        match self.state.slots.iter_mut().find(|(at, _)| *at == offset) {
            Some((_, known)) => *known = value,
            None => self.state.slots.push((offset, value)),
        }
    }

    /// What is in a place at the end of a block.
    fn at_end(&mut self, block: u32, place: Place) -> Ref {
        let known = self.states[to_usize(block)].get(place);
        known.unwrap_or_else(|| self.at_entry(block, place))
    }

    /// What is in a place at the beginning of a block.
    fn at_entry(&mut self, block: u32, place: Place) -> Ref {
        if let Some(known) = self.entries.get(&(block, place)) {
            return *known;
        }
        // Straight back, as far as there is but one way.
        let mut path = vec![block];
        let found = loop {
            let at = *path.last().unwrap_or(&block);
            if let Some(known) = self.entries.get(&(at, place)) {
                break *known;
            }
            let of = &self.cfg.blocks[to_usize(at)];
            if at == 0 && of.before.is_empty() {
                break self.initial(place);
            }
            let [only] = of.before[..] else { break self.join(at, place) };
            if !self.states[to_usize(only)].done || at == 0 {
                break self.join(at, place);
            }
            // A circle that nothing leads into.
            if path.contains(&only) {
                break Ref::UNKNOWN;
            }
            match self.states[to_usize(only)].get(place) {
                Some(known) => break known,
                None => path.push(only),
            }
        };
        for block in path {
            self.entries.insert((block, place), found);
        }
        found
    }

    /// What is in a place where the function begins.
    fn initial(&mut self, place: Place) -> Ref {
        match place {
            Place::Register(register) => self.make(Kind::Entry(register)),
            Place::Slot(_) => Ref::UNKNOWN,
        }
    }

    fn join(&mut self, block: u32, place: Place) -> Ref {
        let cfg = self.cfg;
        let before = &cfg.blocks[to_usize(block)].before;
        if before.is_empty() {
            return Ref::UNKNOWN;
        }
        let rank = cfg.rank[to_usize(block)];
        let back = |from: &u32| cfg.rank[to_usize(*from)] >= rank;
        let unchanged = match place {
            Place::Register(register) => {
                self.changed_in_loop.get(&block).is_some_and(|mask| mask & (1 << register) == 0)
            }
            Place::Slot(_) => false,
        };
        let open = before.iter().any(|from| back(from) && !unchanged);
        if open || block == 0 {
            let join = self.make(Kind::Join { first: 0, count: 0 });
            self.entries.insert((block, place), join);
            self.open.push((join.value, block, place));
            return join;
        }
        // In case a way leads back here through an orphan.
        self.entries.insert((block, place), Ref::UNKNOWN);
        let mut inputs: Vec<Ref> = Vec::with_capacity(before.len());
        for from in before.iter().filter(|from| !back(from)) {
            let input = self.at_end(*from, place);
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        }
        self.joined(&inputs)
    }

    fn joined(&mut self, inputs: &[Ref]) -> Ref {
        match inputs {
            [] => Ref::UNKNOWN,
            [only] => *only,
            _ => {
                let first = to_u32(self.values.inputs.len());
                self.values.inputs.extend(inputs);
                self.make(Kind::Join { first, count: to_u32(inputs.len()) })
            }
        }
    }

    /// Gives the open joins their inputs, when all blocks are done.
    fn seal(&mut self) {
        while let Some((value, block, place)) = self.open.pop() {
            let before = self.cfg.blocks[to_usize(block)].before.clone();
            let mut inputs = Vec::with_capacity(before.len() + 1);
            if block == 0 {
                inputs.push(self.initial(place));
            }
            for from in before {
                let input = self.at_end(from, place);
                if input.value != value && !inputs.contains(&input) {
                    inputs.push(input);
                }
            }
            let first = to_u32(self.values.inputs.len());
            let count = to_u32(inputs.len());
            self.values.inputs.extend(inputs);
            self.values.kinds[to_usize(value)] = Kind::Join { first, count };
        }
    }

    // ── Instructions ──────────────────────────────────────────────────────────────────────────────

    fn block(&mut self, number: u32) {
        let cfg = self.cfg;
        let block = &cfg.blocks[to_usize(number)];
        self.block = number;
        self.state = State::default();
        if block.orphan {
            // Only a function's entry has arguments.
            self.state.registers = [Some(Ref::UNKNOWN); REGISTERS];
        }
        self.sp = self.stack[to_usize(number)].unwrap_or(if number == 0 { 0 } else { self.sp });
        let first = cfg.instructions[to_usize(block.first)].ip();
        self.lives.clear();
        self.facts.lives_at(first, &mut self.lives);
        for nth in 0..self.lives.len() {
            self.tell(nth);
        }
        for nth in block.first..block.end {
            let instruction = &cfg.instructions[to_usize(nth)];
            if nth > block.first {
                self.begin_lives(instruction.ip());
            }
            self.accesses(nth, instruction);
            let before = self.state.registers;
            self.execute(instruction);
            self.tell_changed(&before, instruction.next_ip());
        }
        for &to in &block.after {
            self.stack[to_usize(to)].get_or_insert(self.sp);
        }
        let mut state = std::mem::take(&mut self.state);
        state.done = true;
        self.states[to_usize(number)] = state;
    }

    fn begin_lives(&mut self, address: u64) {
        if !self.facts.has_lives() {
            return;
        }
        self.lives.retain(|live| live.to > address);
        let known = self.lives.len();
        self.facts.lives_from(address, &mut self.lives);
        for nth in known..self.lives.len() {
            self.tell(nth);
        }
    }

    fn tell(&mut self, nth: usize) {
        let live = self.lives[nth];
        let value = self.get(live.register).plus(live.add.into());
        if value.value != Ref::UNKNOWN.value
            && !matches!(self.values.kinds[to_usize(value.value)], Kind::Constant(_))
        {
            self.values.told.push(Told { value, points_to: live.points_to });
        }
    }

    /// A variable's register was written, and is still the variable's.
    fn tell_changed(&mut self, before: &[Option<Ref>; REGISTERS], next: u64) {
        for nth in 0..self.lives.len() {
            let live = self.lives[nth];
            let register = usize::from(live.register);
            if live.to > next && self.state.registers[register] != before[register] {
                self.tell(nth);
            }
        }
    }
}

/// The register that an address is made of, and what is added to it.
pub(crate) fn register_of(instruction: &Instruction) -> Option<(u8, i32)> {
    if string_operands(instruction).is_some() || instruction.memory_index() != Register::None {
        return None;
    }
    let add = i32::try_from(instruction.memory_displacement64().cast_signed()).ok()?;
    number(instruction.memory_base()).map(|register| (register, add))
}

/// Whether an instruction has an operand in memory, and uses it as such.
pub(crate) fn touches(instruction: &Instruction) -> bool {
    let code = instruction.code();
    let address_only =
        matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Reservednop)
            || matches!(code, Code::INVALID);
    !address_only && (0..instruction.op_count()).any(|nth| instruction.op_kind(nth) == OpKind::Memory)
}

/// Of a string instruction: whether it reads at rsi and writes at rdi, and how much at once.
fn string_operands(instruction: &Instruction) -> Option<(bool, bool, u8)> {
    if !instruction.is_string_instruction() {
        return None;
    }
    let size = u8::try_from(instruction.memory_size().size()).unwrap_or(0);
    match instruction.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => Some((true, true, size)),
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => Some((false, true, size)),
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => Some((true, false, size)),
        _ => None,
    }
}
