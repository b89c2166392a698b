//! Target `dwarf`: any bytes in the debug sections lead to variables, functions and lines, or to an error. Nothing panics,
//! memory and time are bounded by the size of the input, and results are sorted.

use std::borrow::Cow;

use xweave_code::dwarf;
use xweave_code::image::Image;
use xweave_code::types::Types;

use crate::compile::CompileFolder;
use crate::parts::{join_parts, split_parts};

/// Runs the target.
pub fn run(input: &[u8]) {
    let sections: [&[u8]; 11] = split_parts(input);
    let section = |name: &str| {
        let at = DEBUG_SECTIONS.iter().position(|known| *known == name);
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
}

/// Debug sections, in the order of the parts of an input.
pub const DEBUG_SECTIONS: [&str; 11] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_addr",
    ".debug_loc",
    ".debug_loclists",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_line",
    ".debug_line_str",
];

/// Makes seeds: debug information of versions 3 to 5, by gcc and clang, with and without optimisation.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let compilers = [
        "gcc -gdwarf-5 -O2 -ffunction-sections",
        "gcc -gdwarf-4 -O2 -ffunction-sections",
        "gcc -gdwarf-4 -O0 -fdebug-types-section",
        "gcc -gdwarf-3 -O1",
        "gcc -gdwarf-5 -O1 -gdwarf64",
        "clang-14 -gdwarf-5 -O2",
        "clang-14 -gdwarf-4 -O1",
    ];
    let folder = CompileFolder::new();
    let sections = |compiler: &str| {
        let file = folder.compile(&format!("{compiler} -shared -fPIC -nostdlib -o out source.c"));
        let image = Image::from_bytes("seed", file).expect("a program made by a compiler");
        let section = |name: &&str| image.debug_section(name).unwrap_or_default().into_owned();
        join_parts(&DEBUG_SECTIONS.iter().map(section).collect::<Vec<_>>())
    };
    compilers.into_iter().map(sections).collect()
}
