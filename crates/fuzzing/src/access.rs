//! Target `access`: any machine code with any debug information can be indexed, any file is an index or an error, and
//! any text is a pointcut or an error. Nothing panics or hangs, and the sites of an index are consistent. The first byte
//! of the input selects one of the three.

use xweave_access::{Index, question, unknown_names};
use xweave_code::dwarf;
use xweave_code::image::Image;
use xweave_code::types::KernelTypes;

use crate::compile::CompileFolder;

/// Runs the target.
pub fn run(input: &[u8]) {
    let Some((mode, data)) = input.split_first() else { return };
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
                run_queries(&index);
            }
        }
        _ => index_program(data),
    }
}

fn index_program(data: &[u8]) {
    let Some(index) = make_index(data) else { return };
    let coverage = index.coverage();
    assert_eq!(coverage.typed + coverage.unresolved(), coverage.memory_instructions);
    run_queries(&index);
}

/// Makes the index of a program. `None` if the data is no program.
fn make_index(data: &[u8]) -> Option<Index> {
    let image = Image::from_bytes("fuzz", data.to_vec()).ok()?;
    let mut types = KernelTypes::default();
    let debug = dwarf::read("fuzz", |name| image.debug_section(name), &mut types.types).ok();
    Some(Index::new(&image, &types, debug.as_ref()))
}

fn run_queries(index: &Index) {
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

/// Makes seeds: a pointcut, an index and a program, each after the byte that selects it.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let program = CompileFolder::new().compile("gcc -O2 -g -shared -fPIC -nostdlib -o out source.c");
    let index = make_index(&program).expect("a program made by gcc").bytes().to_vec();
    let pointcut = b"access(list.number, read) AND target(l) AND local_var(o, p) AND NOT (within_function(o%) || within_file(a/%.c))".to_vec();
    [(0, pointcut), (1, index), (2, program)].map(|(mode, bytes)| [vec![mode], bytes].concat()).into()
}
