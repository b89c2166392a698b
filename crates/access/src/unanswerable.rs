//! Questions that an index has no answer to, told before they are asked: names that nothing has are most likely mistyped.

use std::collections::HashSet;

use crate::{Index, Pointcut};

/// Why no site can be what a pointcut asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswerable {
    /// There is no such variable.
    #[error(
        "no function of {what} has a variable `{name}` that could be read; {}",
        or_else(near, "without debug information, parameters are known only, as they are declared")
    )]
    Variable {
        /// The program.
        what: String,
        /// The variable.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// No instruction touches such a structure.
    #[error(
        "no instruction of {what} is known to touch a `{name}`; {}",
        or_else(near, "`access(%.%)` shows all that is touched")
    )]
    Structure {
        /// The program.
        what: String,
        /// The structure.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// No instruction touches such a member.
    #[error(
        "no instruction of {what} is known to touch `{name}` of `{structure}`; {}",
        or_else(near, "`access(%.%)` shows all that is touched")
    )]
    Member {
        /// The program.
        what: String,
        /// The structure.
        structure: String,
        /// The member.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// Files are asked for, and none is known.
    #[error(
        "within_file needs debug information, and {what} has none, or it is left aside: use within_function, or a file \
         with DWARF"
    )]
    Files {
        /// The program.
        what: String,
    },
}

fn or_else(near: &[String], otherwise: &str) -> String {
    if near.is_empty() { otherwise.to_owned() } else { format!("did you mean {}?", near.join(", ")) }
}

fn near(name: &str, names: HashSet<&str>) -> Vec<String> {
    xweave_text::nearest(name, names.into_iter(), 4)
}

impl Index {
    /// Whether a pointcut asks for what the index of a program, which messages call `what`, has.
    ///
    /// # Errors
    ///
    /// [`Unanswerable`]
    pub fn can_answer(&self, pointcut: &Pointcut, what: &str) -> Result<(), Unanswerable> {
        let what = || what.to_owned();
        for variable in pointcut.variables() {
            let names: HashSet<&str> = self.variables().collect();
            if !names.contains(variable) {
                let near = near(variable, names);
                return Err(Unanswerable::Variable { what: what(), name: variable.to_owned(), near });
            }
        }
        let levels = || self.paths().iter().flat_map(|path| &path.levels);
        for (structure, member) in pointcut.accesses() {
            if structure.contains('%') {
                continue;
            }
            let mut of_structure = levels().filter(|level| level.name() == structure).peekable();
            if of_structure.peek().is_none() {
                let near = near(structure, levels().map(|level| level.name()).collect());
                return Err(Unanswerable::Structure { what: what(), name: structure.to_owned(), near });
            }
            let members: HashSet<&str> = of_structure
                .flat_map(|level| &level.members)
                .flat_map(|path| path.match_indices('.').map(|(at, _)| &path[..at]).chain([&**path]))
                .collect();
            if !member.contains('%') && !members.contains(member) {
                let (structure, name) = (structure.to_owned(), member.to_owned());
                let near = near(member, members);
                return Err(Unanswerable::Member { what: what(), structure, name, near });
            }
        }
        if pointcut.names_files() && !self.has_lines() {
            return Err(Unanswerable::Files { what: what() });
        }
        Ok(())
    }
}
