//! Any bytes in the debug sections lead to variables, functions and lines, or to an error: no panic, and no memory
//! or time beyond what files of that size can honestly need. What is told is in order.
#![no_main]

use std::borrow::Cow;

use libfuzzer_sys::fuzz_target;
use xweave_code::dwarf;
use xweave_code::types::Types;
use xweave_fuzz::{parts, seeds};

fuzz_target!(init: seeds::write(seeds::debug), |data: &[u8]| {
    let sections: [&[u8]; 11] = parts(data);
    let section = |name: &str| {
        let at = seeds::DEBUG_SECTIONS.iter().position(|known| *known == name);
        at.map(|at| Cow::Borrowed(sections[at]))
    };
    let mut types = Types::default();
    let Ok(debug) = dwarf::read("fuzz", section, &mut types) else { return };
    assert!(debug.lives().iter().all(|live| live.from < live.to));
    assert!(debug.functions().is_sorted_by_key(|function| function.from));
    for live in debug.lives().iter().take(64) {
        let _ = (debug.name(live.name), types.size(live.type_), types.leaves(live.type_, 0, 8));
        assert!(debug.lives_in(live.from, live.to).any(|found| found == live));
    }
    for object in debug.objects().iter().take(64) {
        let _ = (debug.name(object.name), types.levels(object.type_, 0, 8));
    }
    for function in debug.functions().iter().take(64) {
        let _ = (debug.name(function.name), debug.unit(function.unit), types.proto(function.proto));
        let _ = (debug.line(function.from), debug.function(function.from));
        let inlined = function.definition.map_or(&[][..], |definition| debug.inlined(definition));
        assert!(inlined.is_sorted_by(|one, next| one.into < next.into));
        assert!(inlined.iter().all(|of| of.calls > 0 && Some(of.definition) == function.definition));
    }
    let _ = (debug.line(0), debug.line(u64::MAX), debug.within_files(|name| name.len() % 2 == 0).len());
    let _ = (debug.skipped().count(), debug.damaged().len() <= debug.damaged_units());
});
