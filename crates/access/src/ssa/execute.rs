//! What an instruction does to registers and stack slots.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

use super::{SsaBuilder, touches};
use crate::cfg::{to_u32, to_usize};
use crate::registers::{ARGUMENTS, RAX, RSP, number};
use crate::value::{Call, Callee, Kind, Ref};

/// What is added to an index and multiplied is no more than a structure is large.
const MAX_INDEX: i64 = 1 << 20;

impl SsaBuilder<'_> {
    pub(super) fn execute(&mut self, instruction: &Instruction) {
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => return self.call(instruction),
            FlowControl::Return => return self.returns(),
            FlowControl::UnconditionalBranch => return self.jump(instruction),
            FlowControl::IndirectBranch => {
                let callee = self.operand(instruction, 0);
                self.tail_call(Callee::Pointer(callee));
                return;
            }
            FlowControl::ConditionalBranch => return,
            _ => {}
        }
        let to = destination(instruction);
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let value = self.operand(instruction, 0);
                self.sp = self.sp.saturating_sub(8);
                self.set_slot(self.sp, 8, Some(value).filter(|value| *value != Ref::UNKNOWN));
            }
            Mnemonic::Pop => {
                let value = self.load(Ref::FRAME.plus(self.sp.into()), 0);
                self.sp = self.sp.saturating_add(8);
                if let Some(register) = to {
                    self.set(register, value);
                }
            }
            Mnemonic::Leave => {
                let frame = self.get(5);
                if frame.value == Ref::FRAME.value {
                    self.sp = frame.add;
                }
                let value = self.load(Ref::FRAME.plus(self.sp.into()), 0);
                self.sp = self.sp.saturating_add(8);
                self.set(5, value);
            }
            Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd
                if matches!(instruction.op1_kind(), OpKind::Memory)
                    || matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Movsxd) =>
            {
                self.moves(instruction, to)
            }
            Mnemonic::Lea => {
                let Some(register) = to else { return self.forget(instruction) };
                let (at, scale) = self.address(instruction);
                let whole = instruction.op0_register().is_gpr64();
                let value = match self.values.kinds[to_usize(at.value)] {
                    _ if !whole => self.arithmetic(at, 1),
                    // An element of an array that lies at a known place.
                    Kind::Constant(_) | Kind::Frame if scale > 0 => {
                        self.make(Kind::Sum(at, Ref::UNKNOWN, scale))
                    }
                    _ => at,
                };
                self.put(register, value);
            }
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => self.adds(instruction, to),
            Mnemonic::And => {
                // Taking low bits off a pointer leaves it one; these bits are flags in it.
                let flags =
                    matches!(instruction.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64)
                        && (-64..0).contains(&instruction.immediate(1).cast_signed());
                match to {
                    Some(register) if flags => {
                        let value = self.get(register);
                        self.put(register, value);
                    }
                    _ => self.forget(instruction),
                }
            }
            Mnemonic::Shl | Mnemonic::Sal if instruction.op1_kind() == OpKind::Immediate8 => {
                let Some(register) = to else { return self.forget(instruction) };
                let old = self.get(register);
                let value = self.arithmetic(old, 1 << (instruction.immediate8() & 31));
                self.set(register, value);
            }
            Mnemonic::Imul if instruction.op_count() == 3 => {
                let (Some(register), Some(source)) = (to, number(instruction.op1_register())) else {
                    return self.forget(instruction);
                };
                let old = self.get(source);
                let value = self.arithmetic(old, instruction.immediate(2).cast_signed());
                self.set(register, value);
            }
            Mnemonic::Xor if same_registers(instruction) => {
                let zero = self.make(Kind::Constant(0));
                if let Some(register) = to {
                    self.set(register, zero);
                }
            }
            Mnemonic::Xchg => {
                let (a, b) = (self.operand(instruction, 0), self.operand(instruction, 1));
                if instruction.op0_kind() == OpKind::Memory {
                    let (at, scale) = self.address(instruction);
                    self.store(at, scale, instruction.memory_size().size(), b);
                }
                if let Some(register) = to {
                    self.put(register, b);
                }
                if let Some(register) = number(instruction.op1_register()) {
                    self.put(register, a);
                }
            }
            mnemonic if conditional_move(mnemonic) => {
                let inputs = [self.operand(instruction, 0), self.operand(instruction, 1)];
                let whole = instruction.op0_register().is_gpr64();
                let value = if whole { self.joined(&inputs) } else { Ref::UNKNOWN };
                if let Some(register) = to {
                    self.put(register, value);
                }
            }
            _ => self.forget(instruction),
        }
    }

    /// Sets a register to a value, or to one that is new if it is not known.
    fn put(&mut self, register: u8, value: Ref) {
        let value = if value == Ref::UNKNOWN { self.make(Kind::Arithmetic) } else { value };
        self.set(register, value);
    }

    /// A number that was multiplied: what had been added to it before, as to an index, is multiplied too.
    fn arithmetic(&mut self, old: Ref, factor: i64) -> Ref {
        let add = i64::from(old.add).checked_mul(factor).unwrap_or(0);
        let is_number = matches!(
            self.values.kinds[to_usize(old.value)],
            Kind::Arithmetic | Kind::Number(_) | Kind::Entry(_) | Kind::Join { .. } | Kind::Result(_)
        );
        let new = self.make(Kind::Arithmetic);
        if is_number && add.abs() < MAX_INDEX { new.plus(add) } else { new }
    }

    /// All that the instruction writes is new.
    fn forget(&mut self, instruction: &Instruction) {
        let mask = self.writes(instruction);
        for register in 0..16u8 {
            if mask & (1 << register) != 0 && register != RSP {
                let value = self.make(Kind::Arithmetic);
                self.set(register, value);
            }
        }
        if instruction.op0_kind() == OpKind::Memory && touches(instruction) {
            let (at, scale) = self.address(instruction);
            if at.value == Ref::FRAME.value && scale == 0 {
                let size = i32::try_from(instruction.memory_size().size()).unwrap_or(8);
                self.set_slot(at.add, size, None);
            }
        }
    }

    fn moves(&mut self, instruction: &Instruction, to: Option<u8>) {
        if instruction.op0_kind() == OpKind::Memory {
            let value = self.operand(instruction, 1);
            let (at, scale) = self.address(instruction);
            return self.store(at, scale, instruction.memory_size().size(), value);
        }
        let Some(register) = to else { return };
        let target = instruction.op0_register();
        if register == RSP {
            let value = self.operand(instruction, 1);
            if value.value == Ref::FRAME.value {
                self.sp = value.add;
            }
            return;
        }
        let value = match instruction.op1_kind() {
            // The lower half of a number: an index, mostly.
            OpKind::Register if target.is_gpr32() && instruction.op1_register().is_gpr32() => {
                let old = number(instruction.op1_register()).map(|register| self.get(register));
                old.map_or(Ref::UNKNOWN, |old| self.arithmetic(old, 1))
            }
            OpKind::Immediate32 if target.is_gpr32() => {
                self.make(Kind::Constant(u64::from(instruction.immediate32())))
            }
            _ if target.is_gpr64() || target.is_gpr32() && instruction.op1_kind() == OpKind::Memory => {
                self.operand(instruction, 1)
            }
            _ => Ref::UNKNOWN,
        };
        self.put(register, value);
    }

    fn adds(&mut self, instruction: &Instruction, to: Option<u8>) {
        let Some(register) = to.filter(|_| instruction.op0_register().is_gpr64()) else {
            return self.forget(instruction);
        };
        let sign = if matches!(instruction.mnemonic(), Mnemonic::Sub | Mnemonic::Dec) { -1 } else { 1 };
        let constant = match instruction.op1_kind() {
            _ if matches!(instruction.mnemonic(), Mnemonic::Inc | Mnemonic::Dec) => Some(1),
            OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1).cast_signed()),
            _ => None,
        };
        if let Some(constant) = constant {
            if register == RSP {
                self.sp = self.sp.saturating_add(i32::try_from(sign * constant).unwrap_or(0));
                return;
            }
            let old = self.get(register);
            // An address that is added to what this processor's variables are displaced by.
            let value = old.plus(sign * constant);
            return self.put(register, value);
        }
        let (a, b) = (self.get(register), self.operand(instruction, 1));
        if register == RSP {
            return;
        }
        let value = match self.displaced(a, b) {
            _ if sign < 0 => self.make(Kind::Arithmetic),
            Some(displaced) => displaced,
            // A pointer to a variable of each processor, made one to that of this processor.
            None if a == Ref::PER_CPU => b,
            None if b == Ref::PER_CPU => a,
            None => self.sum(a, b, 1),
        };
        self.put(register, value);
    }

    fn arguments(&mut self) -> [Ref; 6] {
        ARGUMENTS
            .map(|register| self.state.registers[usize::from(register)].unwrap_or_else(|| self.get(register)))
    }

    fn call(&mut self, instruction: &Instruction) {
        let callee = match instruction.flow_control() {
            FlowControl::Call => {
                let target = instruction.near_branch_target();
                match self.facts.thunk(target) {
                    Some(register) => Callee::Pointer(self.get(register)),
                    None => Callee::At(target),
                }
            }
            _ => Callee::Pointer(self.operand(instruction, 0)),
        };
        let mask = self.clobbered(instruction);
        if mask == 0 {
            return;
        }
        let arguments = self.arguments();
        let proto = self.facts.proto_of(callee);
        for (nth, argument) in arguments.iter().enumerate() {
            if argument.value == Ref::FRAME.value {
                let size =
                    proto.and_then(|proto| self.facts.points_to(proto, nth)).map(|of| self.facts.size(of));
                self.change(argument.add, size.filter(|size| *size > 0).unwrap_or(64));
                self.escaped.push(argument.add);
            }
        }
        for nth in 0..self.escaped.len() {
            self.change(self.escaped[nth], 64);
        }
        let number = to_u32(self.values.calls.len());
        self.values.calls.push(Call { callee, arguments });
        for register in 0..16u8 {
            if mask & (1 << register) != 0 {
                self.state.registers[usize::from(register)] = Some(Ref::UNKNOWN);
            }
        }
        let result = self.make(Kind::Result(number));
        self.set(RAX, result);
    }

    /// Somebody may have written there.
    fn change(&mut self, offset: i32, size: i32) {
        for nth in 0..self.state.slots.len() {
            let at = self.state.slots[nth].0;
            if at < offset.saturating_add(size) && offset < at + 8 {
                self.state.slots[nth].1 = None;
            }
        }
        // What was stored in an earlier block, too.
        for at in (offset..offset.saturating_add(size.min(256))).step_by(8) {
            if !self.state.slots.iter().any(|(known, _)| *known == at) {
                self.state.slots.push((at, None));
            }
        }
    }

    fn jump(&mut self, instruction: &Instruction) {
        let target = instruction.near_branch_target();
        let own = |block: &u32| {
            let first = self.cfg.blocks[to_usize(*block)].first;
            self.cfg.instructions[to_usize(first)].ip() == target
        };
        if self.cfg.blocks[to_usize(self.block)].after.iter().any(own) {
            return;
        }
        if self.facts.hidden.contains_key(&target) {
            return;
        }
        if self.facts.is_return(target) {
            return self.returns();
        }
        match self.facts.thunk(target) {
            Some(register) => {
                let callee = self.get(register);
                self.tail_call(Callee::Pointer(callee));
            }
            None => self.tail_call(Callee::At(target)),
        }
    }

    fn tail_call(&mut self, callee: Callee) {
        let arguments = self.arguments();
        self.values.calls.push(Call { callee, arguments });
    }

    fn returns(&mut self) {
        let value = self.get(RAX);
        self.values.returned.push(value);
    }
}

fn destination(instruction: &Instruction) -> Option<u8> {
    match instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register {
        true => number(instruction.op0_register()),
        false => None,
    }
}

fn same_registers(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

fn conditional_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}
