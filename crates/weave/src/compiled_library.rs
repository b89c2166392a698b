//! The compiled programs of the library: all aspects of it, on either side of a boundary, and the probes of events.

use std::path::Path;

use serde::{Deserialize, Serialize};
use xweave_aspect::{Aspects, Diagnostic, library, library_names, parse};
use xweave_code::Kernel;

use crate::compile::Compiler;
use crate::drafting::PortableText;
use crate::error::Error;
use crate::event_object::EventObject;
use crate::events::EventSource;
use crate::program_object::{Library, ProgramObject};
use crate::{Domain, Peer, compile_c};

/// The programs of the library, and other objects that are compiled with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CompiledLibrary {
    objects: Vec<ProgramObject>,
    events: EventObject,
    /// Of C files, by name.
    files: Vec<(String, Vec<u8>)>,
}

/// Why the library does not compile.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// An aspect has mistakes, or cannot be woven into one of the kernels.
    #[error("the aspect {aspect} is not compiled: {}", said.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Aspect {
        /// Its name.
        aspect: &'static str,
        /// What is wrong.
        said: Vec<Diagnostic>,
    },
    /// An object is damaged.
    #[error(transparent)]
    Damaged(#[from] Error),
    /// The compiler refuses the C of one.
    #[error("{what} does not compile (`make kernels` writes down what it needs of kernels): {reason}")]
    Refused {
        /// An aspect's name, or another.
        what: String,
        /// What the compiler says.
        reason: Error,
    },
}

/// All aspects of the library, by name.
///
/// # Errors
///
/// Mistakes in one.
pub fn library_aspects() -> Result<Vec<(&'static str, Aspects)>, LibraryError> {
    let parsed = |aspect: &'static str| {
        let source = library(aspect).into_iter().collect();
        Ok((aspect, parse(source).map_err(|said| LibraryError::Aspect { aspect, said })?))
    };
    library_names().map(parsed).collect()
}

impl CompiledLibrary {
    /// Compiles all of it for these kernels (see [`crate::prune`]), the oldest first, and `files` of C, by name. `work` is a
    /// folder for the compiler's work, where results are kept, too.
    ///
    /// # Errors
    ///
    /// [`LibraryError`]
    pub fn compile(
        kernels: &[&Kernel],
        files: &[(&str, &str)],
        compiler: &Compiler,
        work: &Path,
    ) -> Result<Self, LibraryError> {
        let refused = |what: &str| {
            let what = what.to_owned();
            move |reason| LibraryError::Refused { what, reason }
        };
        let peers = Peer::of_each_role();
        let mut compiled = Self::default();
        for (name, aspects) in library_aspects()? {
            for peer in &peers {
                let domain = |kernel| Domain {
                    name: peer.name.clone(),
                    role: peer.role,
                    number: 0,
                    kernel,
                    code: &[],
                };
                let domains: Vec<_> = kernels.iter().map(|kernel| domain(kernel)).collect();
                let text = PortableText::new(&aspects, &peers, &domains);
                let text = text.map_err(|said| LibraryError::Aspect { aspect: name, said })?;
                if let Some(text) = text {
                    let object = text.compile(&aspects, compiler, work).map_err(refused(name))?;
                    compiled.objects.push(object);
                }
            }
        }
        let events = EventSource::new(kernels).and_then(|source| source.compile(compiler, work));
        compiled.events = events.map_err(refused("the probes of events"))?;
        for (name, text) in files {
            let object = compile_c(text, work).map_err(refused(name))?;
            compiled.files.push(((*name).to_owned(), object));
        }
        Ok(compiled)
    }

    /// The programs.
    pub fn library(&self) -> Library<'_> {
        Library { objects: &self.objects, own: &[], events: &self.events }
    }

    /// The object of a C file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(known, _)| known == name).map(|(_, object)| object.as_slice())
    }
}
