//! Compiled BPF objects (ELF): what programs in them call, what they need of a kernel's types, and what can be put into
//! them after they were compiled.
//!
//! An object is compiled once and serves many kernels. Where a kernel keeps a member of a structure is left open by the
//! compiler, as relocations (CO-RE) that libbpf carries out when it loads the object; [`Relocations`] tells beforehand
//! whether a kernel has all that is asked for. Where a kernel passes a function's argument, and what a user wants, is
//! left open by the source, as marked loads and as constants: [`ObjectEditor`] puts those in.

mod edit;
mod elf;
mod relocation;

pub use edit::{MARK, MARKS, ObjectEditor};
pub use relocation::{Relocations, Unmet};

/// A BPF object that is not what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// It is no ELF file, or a damaged one.
    #[error("it is no BPF object: {0}")]
    Elf(#[from] object::Error),
    /// A program, section or constant is missing.
    #[error("it has no {0}")]
    Missing(String),
    /// Type information or relocations are damaged.
    #[error("its {0} is damaged")]
    Damaged(&'static str),
    /// Its type information is unusable.
    #[error("{0}")]
    Types(#[from] crate::Error),
    /// A program asks for an argument that it is not given.
    #[error("the program {program} asks for its argument {nth}, and is given {given}")]
    Argument {
        /// The program.
        program: String,
        /// The argument's number, from 0.
        nth: usize,
        /// The number of arguments.
        given: usize,
    },
    /// A constant does not fit its place.
    #[error("the constant {name} has {room} bytes, not {bytes}")]
    Constant {
        /// Its name.
        name: String,
        /// The bytes that it has.
        room: u64,
        /// The bytes that were to be put there.
        bytes: usize,
    },
}
