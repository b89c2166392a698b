//! The access index: for every instruction of a program that touches memory, which member of which
//! structure that is.
//!
//! A kernel's own type information (BTF) says what functions take and return and what structures are made
//! of. From there the types of all values are found: they go forward through moves, loads and calls,
//! backward from what is done with a value, and from function to function where no declaration tells them.
//! Debug information (DWARF) adds where variables are.
//!
//! ```no_run
//! use xweave_access::{Index, Pointcut};
//! use xweave_code::{Kernel, image::Image, types::KernelTypes};
//! let image = Image::open("/usr/lib/debug/vmlinux".as_ref())?;
//! let kernel = Kernel::new("vmlinux", image.btf().unwrap())?;
//! let index = Index::new(&image, &KernelTypes::new(&kernel), None);
//! for site in index.sites(&Pointcut::parse("access(sk_buff.len, write)")?) {
//!     println!("{}+{:#x}", site.function, site.offset);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Modules, in the order of work: `survey` gathers what is known of a program (a `world`), `graph` disassembles a
//! function, `follow` numbers its values, `views` finds out what they point to, with what other functions tell
//! (`lessons`) and the kernel's macros say (`idioms`); `answer` says what is known of each access, `way` puts
//! it into words; `variables` says where variables are then, with what `held` knows of the stack and of
//! parameters; `analysis` does all of that, and `file` keeps it. [`Pointcut`] asks for it, as `asked` does of the tables,
//! and is answered with `site`s.

mod analysis;
mod answer;
mod asked;
mod earlier;
mod file;
mod follow;
mod found;
mod graph;
mod held;
mod idioms;
mod index;
mod lessons;
mod location;
mod pointcut;
mod registers;
mod site;
mod source;
mod survey;
mod value;
mod variables;
mod view;
mod views;
mod way;
mod weaving;
mod world;

pub use answer::Reason;
pub use asked::in_file;
pub use index::Index;
pub use pointcut::{How, Pointcut};
pub use site::{Binding, Coverage, Place, Site, Unresolved};
pub use source::{IndexCache, Keep, Source};
pub use way::{Level, Way};

/// Belongs into the name of a file that an index is kept in: others cannot read it.
pub const VERSION: u32 = file::VERSION;

/// Why an index cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An index that was kept cannot be read or written, or somebody else may have written it.
    #[error(transparent)]
    Kept(#[from] xweave_guard::private::Error),
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
