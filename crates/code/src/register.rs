//! The registers of x86-64.

use std::fmt::{self, Display};

/// A general-purpose register, of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
#[allow(missing_docs, reason = "the processor's own names")]
pub enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Register {
    /// All of them, by their numbers in machine code.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The register with this number in machine code.
    pub fn numbered(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// As assemblers call it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_disassembler() {
        for (number, register) in (0..).zip(Register::ALL) {
            let name = format!("{:?}", iced_x86::Register::RAX + number).to_lowercase();
            assert_eq!(register.name(), name);
            assert_eq!(u8::try_from(number).ok().and_then(Register::numbered), Some(*register));
        }
        assert_eq!(Register::numbered(16), None);
    }
}
