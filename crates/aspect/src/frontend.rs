//! The front ends: each source is read in its form.

use crate::diagnostic::Source;
use crate::parse_state::{Included, ParseState};
use crate::{parse, xml};

/// Reads sources, and what they include, if that is to be read.
pub(crate) fn read_all(sources: Vec<Source>, included: Included) -> ParseState {
    let mut reading = ParseState::of(sources, included);
    for file in 0..reading.aspects.sources.len() {
        if !reading.begin(file) {
            continue;
        }
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
