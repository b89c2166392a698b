//! What an instruction's operands are.

use iced_x86::{Instruction, InstructionInfoOptions, OpAccess, OpKind, Register};

use super::{SsaBuilder, string_operands, touches};
use crate::cfg::to_usize;
use crate::registers::{RDI, RSI, number};
use crate::value::{Access, Kind, Ref, Store};

impl SsaBuilder<'_> {
    /// The memory operand, without an index.
    pub(super) fn address(&mut self, instruction: &Instruction) -> (Ref, u8) {
        let displacement = instruction.memory_displacement64();
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            if instruction.segment_prefix() == Register::GS {
                return (self.per_cpu(address), 0);
            }
            return (self.make(Kind::Constant(address)), 0);
        }
        let scale = u8::try_from(instruction.memory_index_scale()).unwrap_or(1);
        let (base, index) = (number(instruction.memory_base()), number(instruction.memory_index()));
        let signed = displacement.cast_signed();
        let gs = instruction.segment_prefix() == Register::GS;
        match (base, index) {
            (None, None) if gs => (self.per_cpu(displacement), 0),
            (None, None) => (self.make(Kind::Constant(displacement)), 0),
            (Some(base), None) => (self.based(base, signed), 0),
            (None, Some(index)) if scale == 1 => (self.based(index, signed), 0),
            (None, Some(_)) => (self.make(Kind::Constant(displacement)), scale),
            (Some(base), Some(index)) => {
                let (base, index) = (self.get(base), self.get(index));
                if let Some(displaced) = self.displaced(base, index).filter(|_| scale == 1) {
                    return (displaced.plus(signed), 0);
                }
                // A table at a constant address, or an object on the stack, is the base of what is in it.
                let fixed = |value: Ref| {
                    matches!(self.values.kinds[to_usize(value.value)], Kind::Frame | Kind::Constant(_))
                };
                if fixed(base) {
                    return (base.plus(signed), scale);
                }
                if scale == 1 && fixed(index) {
                    return (index.plus(signed), scale);
                }
                (self.sum(base, index, scale).plus(signed), scale)
            }
        }
    }

    /// The sum of what a processor's variables are displaced by and the address of one.
    pub(super) fn displaced(&self, a: Ref, b: Ref) -> Option<Ref> {
        let kind = |value: Ref| self.values.kinds[to_usize(value.value)];
        match (kind(a), kind(b)) {
            (Kind::PerCpu, Kind::Constant(at)) => Some(a.plus(at.cast_signed().wrapping_add(b.add.into()))),
            (Kind::Constant(_), Kind::PerCpu) => self.displaced(b, a),
            _ => None,
        }
    }

    pub(super) fn sum(&mut self, a: Ref, b: Ref, scale: u8) -> Ref {
        let constant = i64::from(a.add) + i64::from(b.add) * i64::from(scale);
        let whole = |value: Ref| Ref { add: 0, ..value };
        self.make(Kind::Sum(whole(a), whole(b), scale)).plus(constant)
    }

    /// A register plus a displacement, which may be the address of a table.
    fn based(&mut self, register: u8, displacement: i64) -> Ref {
        let base = self.get(register);
        let of_table = base.value != Ref::FRAME.value
            && (self.facts.is_code_or_data(displacement.cast_unsigned())
                && !matches!(self.values.kinds[to_usize(base.value)], Kind::PerCpu));
        if of_table {
            return self.make(Kind::Constant(displacement.cast_unsigned()));
        }
        base.plus(displacement)
    }

    /// A variable of this processor.
    fn per_cpu(&mut self, address: u64) -> Ref {
        match i32::try_from(address.cast_signed()) {
            Ok(add) => Ref { add, ..Ref::PER_CPU },
            Err(_) => self.make(Kind::Constant(address)),
        }
    }

    /// Notes what memory an instruction touches.
    pub(super) fn accesses(&mut self, nth: u32, instruction: &Instruction) {
        let string = string_operands(instruction);
        if let Some((reads, writes, size)) = string {
            if reads {
                let at = self.get(RSI);
                self.access(nth, at, 0, size, true, false);
            }
            if writes {
                let at = self.get(RDI);
                self.access(nth, at, 0, size, false, true);
            }
            return;
        }
        if !touches(instruction) {
            return;
        }
        let (at, scale) = self.address(instruction);
        let (mut reads, mut writes) = (false, false);
        let info = self.info.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        for used in info.used_memory() {
            // What a push, a pop or a call does to the stack besides is not its operand.
            if used.base() == Register::RSP && instruction.memory_base() != Register::RSP {
                continue;
            }
            let (read, write) = match used.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                _ => (false, false),
            };
            reads |= read;
            writes |= write;
        }
        let size = u8::try_from(instruction.memory_size().size()).unwrap_or(0);
        self.access(nth, at, scale, size, reads, writes);
    }

    fn access(&mut self, instruction: u32, at: Ref, scale: u8, size: u8, reads: bool, writes: bool) {
        self.values.accesses.push(Access { instruction, at, scale, size, reads, writes });
    }

    /// The value of an operand, if it is one of 64 bits.
    pub(super) fn operand(&mut self, instruction: &Instruction, nth: u32) -> Ref {
        match instruction.op_kind(nth) {
            OpKind::Register => {
                let register = instruction.op_register(nth);
                match number(register) {
                    Some(number) if register.is_gpr64() => self.get(number),
                    _ => Ref::UNKNOWN,
                }
            }
            OpKind::Memory if instruction.memory_size().size() < 8 => {
                let (at, scale) = self.address(instruction);
                match scale {
                    0 => self.make(Kind::Number(at)),
                    _ => Ref::UNKNOWN,
                }
            }
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                let (at, scale) = self.address(instruction);
                self.load(at, scale)
            }
            OpKind::Immediate32to64 | OpKind::Immediate64 | OpKind::Immediate8to64 => {
                let constant = instruction.immediate(nth);
                self.make(Kind::Constant(constant))
            }
            _ => Ref::UNKNOWN,
        }
    }

    pub(super) fn load(&mut self, at: Ref, scale: u8) -> Ref {
        if at.value == Ref::FRAME.value
            && scale == 0
            && let Some(known) = self.get_slot(at.add)
        {
            return known;
        }
        if at.value == Ref::PER_CPU.value && self.facts.is_this_cpu_offset(at.add) {
            return Ref::PER_CPU;
        }
        if let Kind::Constant(address) = self.values.kinds[to_usize(at.value)]
            && scale == 8
            && self.facts.is_per_cpu_offset(address.wrapping_add_signed(at.add.into()))
        {
            return Ref::PER_CPU;
        }
        self.make(Kind::Load(at))
    }

    pub(super) fn store(&mut self, at: Ref, scale: u8, size: usize, value: Ref) {
        if at.value == Ref::FRAME.value {
            let size = i32::try_from(size).unwrap_or(8);
            // Somewhere in an array: what else lies around it is not changed.
            if scale == 0 {
                self.set_slot(at.add, size, (size == 8 && value != Ref::UNKNOWN).then_some(value));
            }
        } else if value.value == Ref::FRAME.value {
            self.escaped.push(value.add);
        }
        if size == 8 && value.value > Ref::PER_CPU.value {
            self.values.stores.push(Store { at, value });
        }
    }
}
