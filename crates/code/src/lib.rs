//! What a kernel is, as far as weaving needs to know: its functions and their prototypes, and its
//! types as C that an eBPF program can be compiled with. All of that comes from BTF, the type
//! information that a stock kernel carries. What BTF does not tell, where variables are in the code and
//! which lines it is from, comes from DWARF, where there is any; of programs, all of it. Besides, the
//! machine code itself, for those who read instructions.
//!
//! ```no_run
//! use std::collections::HashSet;
//! let kernel = xweave_code::Kernel::live()?;
//! let function = kernel.function("do_filp_open").unwrap();
//! println!("{} takes {} parameters", function.name, function.params.len());
//! let roots: Vec<_> = function.params.iter().map(|param| param.type_).collect();
//! println!("{}", kernel.declare(&roots, &HashSet::from(["uptr"])));
//! # Ok::<(), xweave_code::Error>(())
//! ```
//!
//! Modules: [`btf`] reads the type information of one image or module, [`kernel`] holds those of a
//! kernel together and finds functions in them, [`declare`] writes types as C, `prune` keeps the part of them that programs ask for (with `btf_builder`), [`types`] has them as
//! tables that tell what lies at an offset, [`dwarf`] reads where variables of these types are.
//! [`bpf`] reads and changes compiled BPF objects, [`image`] loads machine code with its symbols, and knows nothing of the others; `clones` knows which symbols are
//! functions that no type information tells of. `regular` opens files.

pub mod abi;
pub mod bpf;
pub mod btf;
mod btf_builder;
mod clones;
pub mod declare;
pub mod dwarf;
pub mod image;
pub mod kernel;
mod prune;
pub mod register;
mod regular;
mod spelling;
pub mod types;

pub use clones::{clone_of, is_part};
pub use kernel::{Function, Kernel, Param, TypeRef};
pub use prune::Kept;
pub use register::Register;

/// Why a kernel's type information, or a file's machine code, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// {what} holds no usable type information (BTF): {reason}
    #[error("{what} holds no usable type information (BTF): {reason}")]
    Invalid {
        /// The file, or what the bytes were said to be.
        what: String,
        /// What libbpf found wrong.
        #[source]
        reason: std::io::Error,
    },
    /// {what} has no usable debug information (DWARF): {section}: {reason}
    #[error("{what} has no usable debug information (DWARF): {section}: {reason}")]
    Dwarf {
        /// The file.
        what: String,
        /// The section that it was looked for in.
        section: &'static str,
        /// What is wrong with it.
        #[source]
        reason: dwarf::Flaw,
    },
    /// {path} cannot be read: {reason}
    #[error("{path} cannot be read: {reason}")]
    Read {
        /// The file or folder.
        path: String,
        /// Why.
        #[source]
        reason: std::io::Error,
    },
    /// {what} is not readable as machine code: {part} {reason}
    #[error("{what} is not readable as machine code: {part} {reason}")]
    Malformed {
        /// The file, or what the bytes were said to be.
        what: String,
        /// The section, or what else of the file.
        part: String,
        /// What is wrong with it.
        reason: String,
        /// What the library that reads it says, if that is why.
        source: Option<object::Error>,
    },
    /// {what} cannot be unpacked, it is compressed with {packing}: {reason}
    #[error("{what} cannot be unpacked, it is compressed with {packing}: {reason}")]
    Packed {
        /// The file, or the section of a file.
        what: String,
        /// The compression's name.
        packing: &'static str,
        /// What the decompressor found wrong.
        #[source]
        reason: std::io::Error,
    },
    /// the running kernel's code cannot be read: {reason}; {advice}
    #[error("the running kernel's code cannot be read: {reason}; {advice}")]
    Hidden {
        /// What the kernel does not show.
        reason: String,
        /// What the system says, if that is why.
        source: Option<std::io::Error>,
        /// What to do about it.
        advice: &'static str,
    },
}
