//! What registers and stack slots hold: values, each made once.

use crate::registers::ARGUMENTS;

/// A value plus a constant: what a register or a stack slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ref {
    /// The value's number.
    pub(crate) value: u32,
    pub(crate) add: i32,
}

impl Ref {
    pub(crate) const UNKNOWN: Self = Self { value: 0, add: 0 };
    /// The stack pointer at the function's entry, where the return address lies.
    pub(crate) const FRAME: Self = Self { value: 1, add: 0 };
    /// Where this processor's variables lie, relative to where they were linked.
    pub(crate) const PER_CPU: Self = Self { value: 2, add: 0 };

    pub(crate) fn plus(self, add: i64) -> Self {
        if self.value == Self::UNKNOWN.value {
            return self;
        }
        match i32::try_from(i64::from(self.add) + add) {
            Ok(add) => Self { add, ..self },
            Err(_) => Self::UNKNOWN,
        }
    }
}

/// How a value came to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Nothing is known of it.
    Unknown,
    /// [`Ref::FRAME`]
    Frame,
    /// [`Ref::PER_CPU`]
    PerCpu,
    /// What this register held at the function's entry.
    Entry(u8),
    /// A number, or the address of something.
    Constant(u64),
    /// 64 bits that were read from there.
    Load(Ref),
    /// Fewer bits that were read from there.
    Number(Ref),
    /// The result of a call, by the number of the [`Call`].
    Result(u32),
    /// One of several values, depending on the way to this point: a range of [`Values::inputs`].
    Join { first: u32, count: u32 },
    /// The sum of two values, of which one is a pointer; the second was multiplied by this, and its
    /// constant is accounted for where the sum is used.
    Sum(Ref, Ref, u8),
    /// The result of other arithmetic.
    Arithmetic,
}

/// A call, or a jump to another function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) callee: Callee,
    /// What the registers for arguments held: rdi, rsi, rdx, rcx, r8, r9.
    pub(crate) arguments: [Ref; 6],
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    /// The function at this address.
    At(u64),
    /// The function that this value points to.
    Pointer(Ref),
}

/// An instruction that touches memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The instruction's number.
    pub(crate) instruction: u32,
    /// Where, without what an index adds.
    pub(crate) at: Ref,
    /// What an index register is multiplied by; 0 without one.
    pub(crate) scale: u8,
    /// In bytes; 0 if it depends.
    pub(crate) size: u8,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// A 64-bit value that was written to memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) at: Ref,
    pub(crate) value: Ref,
}

/// What is known of a value from debug information: that a variable of this type is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) value: Ref,
    /// What the value points to.
    pub(crate) points_to: xweave_code::types::TypeId,
}

/// All values of a function, and what is done with them.
#[derive(Default)]
pub(crate) struct Values {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) inputs: Vec<Ref>,
    pub(crate) calls: Vec<Call>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) stores: Vec<Store>,
    pub(crate) returned: Vec<Ref>,
    pub(crate) told: Vec<Told>,
}

impl Values {
    /// The number of the argument that this is, from 0, as far as arguments come in registers.
    pub(crate) fn argument(&self, of: Ref) -> Option<u8> {
        match self.kinds.get(usize::try_from(of.value).ok()?)? {
            Kind::Entry(register) if of.add == 0 => {
                let nth = ARGUMENTS.iter().position(|other| other == register)?;
                u8::try_from(nth).ok()
            }
            _ => None,
        }
    }
}
