//! Compiled programs that fit many kernels, and which of them fit one.
//!
//! Aspects of the library are compiled when xweave is built, and aspects of users by `xweave check --compile`. Such an
//! object has a program for each function, known by what is woven there ([`ProgramKey`]); the words in which a kernel
//! passes the arguments, and the recording's filter, are put into it for each domain ([`ObjectEditor`]).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xweave_aspect::{Aspects, Source};
use xweave_code::Kernel;
use xweave_code::bpf::{ObjectEditor, ObjectError, Relocations};
use xweave_wire::plan::Hook;

use crate::event_object::EventObject;
use crate::independent::Groups;
use crate::point::JoinPoint;
use crate::resolve::{Applied, Point};
use crate::selection;

/// What is woven at a function and how it is hooked: the same in all kernels where a program can be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProgramKey([u8; 16]);

/// A compiled program in an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectProgram {
    /// What it is compiled from.
    pub key: ProgramKey,
    /// Its name.
    pub name: String,
    /// The name of the program that saves the arguments for it, for [`Hook::ProbeReturn`].
    pub saver: Option<String>,
    /// The number by which it finds its cookie, for [`Hook::Tracepoint`].
    pub tracepoint: u32,
    /// Whether it calls `bpf_rdonly_cast`, which kernels have from 6.2 on.
    pub casts: bool,
}

/// A BPF object of aspects, compiled for more than one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramObject {
    /// The BPF object (ELF), with CO-RE relocations.
    pub elf: Vec<u8>,
    /// Its programs.
    pub programs: Vec<ObjectProgram>,
    /// Hashes of the sources, in the order in which the object's lines count them.
    pub sources: Vec<[u8; 32]>,
    /// Enumerators that its C names, which are numbers in it, with their values.
    pub enumerators: Vec<(String, u64)>,
}

/// Objects that were compiled before a recording.
#[derive(Clone, Copy, Debug)]
pub struct Library<'l> {
    /// Of the library's aspects.
    pub objects: &'l [ProgramObject],
    /// Of the user's.
    pub own: &'l [ProgramObject],
    /// Of the built-in probes of events.
    pub events: &'l EventObject,
}

/// A program that was found for a join point: the object's number in the library, and its own in that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundProgram<'l> {
    pub object: usize,
    pub program: &'l ObjectProgram,
}

/// What tells the verifier of a pointer's type: a function of the kernel that programs may call.
const CAST: &str = "bpf_rdonly_cast";

impl ProgramObject {
    /// By the number that the object's lines have for a source: its place among those of aspects.
    pub(crate) fn sources_in(&self, aspects: &Aspects) -> Vec<Option<usize>> {
        let known = source_hashes(aspects);
        self.sources.iter().map(|hash| known.iter().position(|known| known == hash)).collect()
    }
}

/// The hash by which a source is known.
pub(crate) fn source_hash(source: &Source) -> [u8; 32] {
    Sha256::digest(&source.text).into()
}

/// Hashes of all sources, by their numbers.
pub(crate) fn source_hashes(aspects: &Aspects) -> Vec<[u8; 32]> {
    aspects.sources.iter().map(source_hash).collect()
}

impl ProgramKey {
    /// That of a join point's program, where the items of a point are all in one of the [`Groups`]. `sources` are the hashes
    /// of the aspects' sources.
    pub(crate) fn new(sources: &[[u8; 32]], point: &Point<'_>) -> Self {
        Self::of_part(sources, &point.at, point.applied.iter())
    }

    /// That of a join point's program for a part of what is woven there.
    fn of_part<'p, 'a: 'p>(
        sources: &[[u8; 32]],
        at: &JoinPoint<'_>,
        applied: impl Iterator<Item = &'p Applied<'a>>,
    ) -> Self {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(&format!("{:?}", at.hook));
        // One program serves all instructions; a function's has the function's own arguments.
        if at.hook != Hook::Instruction {
            add(at.name());
        }
        for applied in applied {
            let span = applied.item.span();
            let source = sources.get(span.file).map_or(String::new(), |hash| xweave_text::hex(hash));
            add(&format!("{source}:{}:{} {}", span.line, span.column, applied.condition.key()));
            for binding in &applied.bound.bindings {
                add(&binding.declaration);
                // A table says where variables of instructions are, and the code at which place of the table.
                if at.hook == Hook::Instruction {
                    add(&binding.word.to_string());
                }
            }
        }
        let hash: [u8; 32] = hash.finalize().into();
        Self(std::array::from_fn(|nth| hash[nth]))
    }
}

static NO_EVENTS: EventObject = EventObject { elf: Vec::new(), parameters: Vec::new() };

impl Library<'static> {
    /// One without any object: all that aspects ask for is compiled, and events cannot be recorded.
    pub const EMPTY: Self = Self { objects: &[], own: &[], events: &NO_EVENTS };
}

impl<'l> Library<'l> {
    /// All objects of aspects: their order gives them their numbers.
    pub(crate) fn all_objects(&self) -> impl Iterator<Item = &'l ProgramObject> {
        self.objects.iter().chain(self.own)
    }

    /// The program with a key.
    pub(crate) fn program(&self, key: ProgramKey) -> Option<FoundProgram<'l>> {
        self.all_objects().enumerate().find_map(|(object, of)| {
            let program = of.programs.iter().find(|program| program.key == key)?;
            Some(FoundProgram { object, program })
        })
    }

    /// The programs of all join points; else the functions for which there is none, if there is one for others.
    pub(crate) fn find(
        &self,
        sources: &[[u8; 32]],
        groups: &Groups,
        points: &[Point<'_>],
    ) -> Result<Vec<FoundProgram<'l>>, Vec<String>> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for point in points {
            for part in groups.parts(point) {
                match self.program(ProgramKey::of_part(sources, &point.at, part.into_iter())) {
                    Some(program) => found.push(program),
                    None => missing.push(point.at.name().to_owned()),
                }
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        // Of aspects that were never compiled, nothing is missing.
        Err(if found.is_empty() { Vec::new() } else { missing })
    }

    /// Why programs that were found do not fit a kernel; nothing if they do.
    ///
    /// # Errors
    ///
    /// An object is damaged.
    pub(crate) fn unfit(
        &self,
        found: &[FoundProgram<'_>],
        kernel: &Kernel,
    ) -> Result<Vec<String>, ObjectError> {
        let mut reasons = Vec::new();
        for (nth, object) in self.all_objects().enumerate() {
            let programs: Vec<_> = found.iter().filter(|of| of.object == nth).collect();
            if programs.is_empty() {
                continue;
            }
            let relocations = Relocations::read(&object.elf)?;
            for of in &programs {
                let names = [Some(&of.program.name), of.program.saver.as_ref()];
                let unmet = names.into_iter().flatten().flat_map(|name| relocations.unmet(name, kernel));
                reasons.extend(unmet.map(|unmet| unmet.to_string()));
            }
            if programs.iter().any(|of| of.program.casts) && kernel.function(CAST).is_none() {
                reasons.push(format!("it has no `{CAST}`"));
            }
            for (name, here) in &object.enumerators {
                match kernel.enumerator(name) {
                    Some(there) if there == *here => {}
                    Some(there) => {
                        reasons.push(format!("its `{name}` is {there}, and {here} in what was compiled"))
                    }
                    None => reasons.push(format!("it has no `{name}`")),
                }
            }
        }
        reasons.sort();
        reasons.dedup();
        Ok(reasons)
    }
}

/// An object with the words in which a kernel passes each program's arguments, and with the aspects' filter.
///
/// # Errors
///
/// The object is damaged, or has no such program.
pub(crate) fn fitted<'p>(
    elf: Vec<u8>,
    programs: impl Iterator<Item = (&'p str, &'p [u8])>,
    aspects: &Aspects,
) -> Result<Vec<u8>, ObjectError> {
    let mut editor = ObjectEditor::new(elf);
    for (program, words) in programs {
        editor.set_arguments(program, words)?;
    }
    if let Some(selection) = &aspects.selection {
        match editor.set_constant(selection::CONSTANT, &selection::encode(&selection.filter)) {
            // Nothing in this object asks for it.
            Ok(()) | Err(ObjectError::Missing(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(editor.finish())
}
