//! Any machine code with any debug information can be indexed, any file is an index or an error, and any text a
//! pointcut or an error: no panic, no end that is not reached. What an index tells is in order and adds up. The
//! first byte chooses which of them the others are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_access::{Index, question, unknown_names};
use xweave_code::dwarf;
use xweave_code::image::Image;
use xweave_code::types::KernelTypes;
use xweave_fuzz::seeds;

fuzz_target!(init: seeds::write(seeds::access), |data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    match mode {
        0 => {
            let Ok(text) = std::str::from_utf8(data) else { return };
            if let Err(error) = question(text) {
                assert!(error.line > 0 && error.column as usize <= text.chars().count() + 1);
                let _ = error.to_string();
            }
        }
        1 => {
            if let Ok(index) = Index::from_bytes("fuzz", data.to_vec()) {
                ask(&index);
            }
        }
        _ => program(data),
    }
});

fn program(data: &[u8]) {
    let Ok(image) = Image::from_bytes("fuzz", data.to_vec()) else { return };
    let mut types = KernelTypes::default();
    let debug = dwarf::read("fuzz", |name| image.debug_section(name), &mut types.types).ok();
    let index = Index::new(&image, &types, debug.as_ref());
    let coverage = index.coverage();
    assert_eq!(coverage.typed + coverage.unresolved(), coverage.memory_instructions);
    ask(&index);
}

fn ask(index: &Index) {
    for text in [
        "access(%.%) AND target(t)",
        "access(list.number, write) OR NOT within_function(o%)",
        "within_file(%.c)",
        "local_var(o) OR local_var(x) AND NOT local_var(p)",
    ] {
        let pointcut = question(text).expect("a pointcut that is well formed");
        let query = index.query(&pointcut, |_| true);
        for site in query.sites() {
            let _ = (site.path.structure().len(), site.path.member().len(), site.base, site.line);
            assert!(site.bindings.iter().all(|binding| ["t", "o", "x"].contains(&binding.name)));
        }
        let _ = query.unresolved().len();
        let _ = unknown_names(&pointcut, |_| true, [index].into_iter());
    }
    let _ = index.variables().count();
    for name in index.function_names().take(64) {
        if let Some(inlined) = index.inlined(name, |_| true) {
            assert!(
                inlined.into.len() <= 4 && inlined.into.iter().all(|name| name.len() <= index.bytes().len())
            );
        }
    }
}
