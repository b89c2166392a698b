//! A function's instructions and the ways between them.

use rustc_hash::FxHashMap;
use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess};

/// The code of one function, which may lie in several places: compilers move what is rarely executed
/// away (`.cold`).
pub(crate) struct Cfg {
    /// In the order of the pieces, then of addresses.
    pub(crate) instructions: Vec<Instruction>,
    /// In the same order.
    pub(crate) blocks: Vec<Block>,
    /// The blocks in reverse postorder: a block comes after those that lead to it, loops apart. Blocks
    /// that nothing is known to lead to come last.
    pub(crate) order: Vec<u32>,
    /// Where each block is in that order.
    pub(crate) rank: Vec<u32>,
}

/// A stretch of instructions that are executed one after the other.
#[derive(Default)]
pub(crate) struct Block {
    /// The number of its first instruction.
    pub(crate) first: u32,
    /// The number behind its last instruction.
    pub(crate) end: u32,
    pub(crate) before: Vec<u32>,
    pub(crate) after: Vec<u32>,
    /// Nothing is known to lead to it, and it is not the function's entry.
    pub(crate) orphan: bool,
}

/// Jumps that no instruction shows: from one address to others (`__jump_table`, `__ex_table`), or from code
/// that is no function's.
pub(crate) type HiddenJumps = FxHashMap<u64, Vec<u64>>;

impl Cfg {
    /// Disassembles `pieces` (address and bytes; the first is the function's entry).
    pub(crate) fn new(pieces: &[(u64, &[u8])], hidden: &HiddenJumps) -> Self {
        let mut instructions = Vec::with_capacity(pieces.iter().map(|(_, bytes)| bytes.len() / 4).sum());
        let mut at = Index::default();
        for (address, bytes) in pieces {
            let first = instructions.len();
            let mut decoder = Decoder::with_ip(64, bytes, *address, DecoderOptions::NONE);
            while decoder.can_decode() {
                instructions.push(decoder.decode());
            }
            at.0.push(first..instructions.len());
        }
        let mut cfg = Self { instructions, blocks: Vec::new(), order: Vec::new(), rank: Vec::new() };
        cfg.divide(&at, hidden);
        cfg.connect(&at, hidden);
        cfg.sort();
        cfg
    }

    /// An instruction's length in bytes, if the one behind it is executed after it and after no other, and finds
    /// this register as it was.
    pub(crate) fn length(&self, instruction: u32, register: Option<u8>) -> Option<u8> {
        let behind = instruction.checked_add(1)?;
        let at = self.blocks.partition_point(|block| block.first <= instruction).checked_sub(1)?;
        let of = self.instructions.get(to_usize(instruction))?;
        let plain = of.flow_control() == FlowControl::Next && behind < self.blocks[at].end;
        let changed = register.is_some_and(|register| changes(of, register));
        u8::try_from(of.len()).ok().filter(|_| plain && !changed)
    }

    fn divide(&mut self, at: &Index, hidden: &HiddenJumps) {
        let count = self.instructions.len();
        let mut leader = vec![false; count + 1];
        if let Some(first) = leader.first_mut() {
            *first = true;
        }
        for (nth, instruction) in self.instructions.iter().enumerate() {
            let jumps = ends_block(instruction);
            let targets = hidden_targets(hidden, instruction);
            for target in own_target(instruction).into_iter().chain(targets.into_iter().flatten().copied()) {
                if let Some(target) = at.get(&self.instructions, target) {
                    leader[target] = true;
                }
            }
            // A gap between two pieces ends a block too.
            let gap = self.instructions.get(nth + 1).is_none_or(|next| next.ip() != instruction.next_ip());
            if jumps || targets.is_some() || gap {
                leader[nth + 1] = true;
            }
        }
        let mut first = 0;
        for (end, leads) in leader.into_iter().enumerate().skip(1) {
            if leads || end == count {
                let block = Block { first: to_u32(first), end: to_u32(end), ..Block::default() };
                self.blocks.push(block);
                first = end;
            }
        }
    }

    fn connect(&mut self, at: &Index, hidden: &HiddenJumps) {
        for nth in 0..self.blocks.len() {
            let block = &self.blocks[nth];
            let Some(last) = self.instructions.get(to_usize(block.end).wrapping_sub(1)) else { continue };
            let mut after: Vec<u32> = Vec::new();
            let mut add = |target: u64| {
                let Some(first) = at.get(&self.instructions, target) else { return };
                if let Ok(block) = self.blocks.binary_search_by_key(&to_u32(first), |block| block.first)
                    && !after.contains(&to_u32(block))
                {
                    after.push(to_u32(block));
                }
            };
            // A jump that is in the table itself is one that is switched off, at times.
            if falls_through(last) || hidden.contains_key(&last.ip()) {
                add(last.next_ip());
            }
            own_target(last).into_iter().for_each(&mut add);
            for instruction in &self.instructions[to_usize(block.first)..to_usize(block.end)] {
                hidden_targets(hidden, instruction).into_iter().flatten().copied().for_each(&mut add);
            }
            for to in &after {
                self.blocks[to_usize(*to)].before.push(to_u32(nth));
            }
            self.blocks[nth].after = after;
        }
    }

    fn sort(&mut self) {
        let count = self.blocks.len();
        let mut seen = vec![false; count];
        let mut order = Vec::with_capacity(count);
        // The entry first; what it does not lead to is the beginning of something unknown.
        for root in 0..count {
            if seen[root] {
                continue;
            }
            self.blocks[root].orphan = root != 0;
            seen[root] = true;
            let mut post = Vec::new();
            let mut stack = vec![(root, 0)];
            while let Some((block, next)) = stack.pop() {
                match self.blocks[block].after.get(next) {
                    Some(&to) => {
                        stack.push((block, next + 1));
                        let to = to_usize(to);
                        if !seen[to] {
                            seen[to] = true;
                            stack.push((to, 0));
                        }
                    }
                    None => post.push(to_u32(block)),
                }
            }
            order.extend(post.into_iter().rev());
        }
        self.rank = vec![0; count];
        for (rank, block) in (0..).zip(&order) {
            self.rank[to_usize(*block)] = rank;
        }
        self.order = order;
    }
}

/// The numbers of each piece's instructions.
#[derive(Default)]
struct Index(Vec<Range<usize>>);

impl Index {
    /// The number of the instruction at an address.
    fn get(&self, instructions: &[Instruction], address: u64) -> Option<usize> {
        self.0.iter().find_map(|piece| {
            let found = instructions[piece.clone()].binary_search_by_key(&address, Instruction::ip);
            found.ok().map(|nth| piece.start + nth)
        })
    }
}

/// Where an instruction may lead besides, or what it jumps to does.
fn hidden_targets<'h>(hidden: &'h HiddenJumps, instruction: &Instruction) -> Option<&'h Vec<u64>> {
    let through = || own_target(instruction).and_then(|target| hidden.get(&target));
    hidden.get(&instruction.ip()).or_else(through)
}

/// Whether an instruction may write to a register.
fn changes(instruction: &Instruction, register: u8) -> bool {
    let mut info = InstructionInfoFactory::new();
    info.info(instruction).used_registers().iter().any(|used| {
        crate::registers::number(used.register()) == Some(register)
            && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
    })
}

/// Where a jump leads, if it says so itself.
fn own_target(instruction: &Instruction) -> Option<u64> {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            Some(instruction.near_branch_target())
        }
        _ => None,
    }
}

fn ends_block(instruction: &Instruction) -> bool {
    !matches!(instruction.flow_control(), FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall)
}

fn falls_through(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => false,
        // `ud2` is BUG or, with an entry in a table that is not read here, WARN, which goes on.
        FlowControl::Exception => instruction.code() == Code::Ud2,
        _ => true,
    }
}

pub(crate) fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Functions have no 2³² instructions: their bytes come from a file.
pub(crate) fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
