//! The access index: for every instruction of a program that touches memory, which member of which
//! structure that is.
//!
//! A kernel's own type information (BTF) says what functions take and return and what structures are made
//! of. From there the types of all values are found: they go forward through moves, loads and calls,
//! backward from what is done with a value, and from function to function where no declaration tells them.
//! Debug information (DWARF) adds where variables are.
//!
//! ```no_run
//! use xweave_access::{Index, question};
//! use xweave_code::{Kernel, image::Image, types::KernelTypes};
//! let image = Image::open("/usr/lib/debug/vmlinux".as_ref())?;
//! let kernel = Kernel::new("vmlinux", image.btf().unwrap())?;
//! let index = Index::new(&image, &KernelTypes::new(&kernel), None);
//! let pointcut = question("access(sk_buff.len, write)")?;
//! for site in index.query(&pointcut, |_| true).sites() {
//!     println!("{}+{:#x}", site.function, site.offset);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Modules, in the order of work: `loader` gathers what is known of a program (its `program_facts`), `cfg` disassembles
//! a function, `ssa` numbers its values, `points_to` finds out what they point to, with what other functions tell
//! (`function_summaries`) and the kernel's macros say (`idioms`); `classify` says what is known of each access,
//! `access_path` puts it into words; `variables` says where variables are then, with what `entry_values` knows of
//! the stack and of parameters; `inlining` counts the calls that no entry sees; `analysis` does all of that, and `file`
//! keeps it. A pointcut ([`question()`]) is asked of
//! that by a [`Query`] and answered with [`Site`]s; `unknown` finds mistyped names.

mod access_path;
mod analysis;
mod cfg;
mod classify;
mod dominators;
mod entry_values;
mod file;
mod found;
mod function_summaries;
mod idioms;
mod index;
mod inlining;
mod loader;
mod location;
mod points_to;
mod program_facts;
mod query;
mod question;
mod registers;
mod site;
mod source;
mod ssa;
mod unknown;
mod value;
mod variables;
mod view;
mod weaving;

pub use access_path::{AccessPath, Level};
pub use analysis::Tell;
pub use classify::Reason;
pub use index::Index;
pub use query::{Query, in_file};
pub use question::question;
pub use site::{Binding, Coverage, InlinedCalls, Place, Site, Unresolved};
pub use source::{IndexCache, Keep, Source, index_kernel_file};
pub use xweave_code::Register;

pub use unknown::{Named, Unanswerable, UnknownName, unknown_names};

/// Belongs into the name of a file that an index is kept in: others cannot read it.
pub const VERSION: u32 = file::VERSION;

/// Why an index cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An index that was kept cannot be read or written, or somebody else may have written it.
    #[error(transparent)]
    Cache(#[from] xweave_guard::private::Error),
    /// Its code or type information cannot be read.
    #[error(transparent)]
    Code(#[from] xweave_code::Error),
    /// {what} has neither BTF nor DWARF, so nothing is known of its types: build it with `-g`, or take a
    /// kernel with CONFIG_DEBUG_INFO_BTF
    #[error(
        "{what} has neither BTF nor DWARF, so nothing is known of its types: build it with `-g`, or take a kernel with CONFIG_DEBUG_INFO_BTF"
    )]
    Untyped {
        /// The file.
        what: String,
    },
    /// {what} is no access index: {reason}
    #[error("{what} is no access index: {reason}")]
    Damaged {
        /// The file.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
}
