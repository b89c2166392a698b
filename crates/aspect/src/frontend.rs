//! The front ends: each source is read in its form.

use crate::diagnostic::Source;
use crate::parse_state::ParseState;
use crate::syntax::Aspects;
use crate::{parse, xml};

/// Reads sources.
pub(crate) fn read_all(sources: Vec<Source>) -> ParseState {
    let aspects = Aspects { sources, ..Aspects::default() };
    let mut reading = ParseState { aspects, ..ParseState::default() };
    for file in 0..reading.aspects.sources.len() {
        let source = reading.aspects.sources[file].clone();
        if source.is_xml() {
            xml::file(&source, file, &mut reading);
        } else {
            parse::file(&source, file, &mut reading);
        }
    }
    if reading.errors.is_empty() {
        reading.adopt();
    }
    reading
}
