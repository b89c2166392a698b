//! Target `cost`: any console output can be searched for lines of the measuring image, and any text is a table of forms,
//! a table of figures or an error: nothing panics. The first byte of the input selects one of them.

use xweave_cost::line::{Line, scan, write};
use xweave_cost::measured::Collected;
use xweave_cost::{assembly, published, table};

/// Runs the target.
pub fn run(input: &[u8]) {
    let Some((mode, data)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(data);
    match mode {
        0 => check_console(data),
        // No checksum is right by chance.
        1 => check_console(write(&text).as_bytes()),
        2 => check_forms(&text),
        _ => drop(published::read(&text)),
    }
}

fn check_console(bytes: &[u8]) {
    let found = scan(bytes);
    let ended = matches!(found.lines.last(), Some(Line::End { .. }));
    let mut collected = Collected::default();
    collected.add(found);
    assert!(!ended || collected.finished);
    let _ = (collected.culprit(), collected.ticks_per_cycle(), collected.outcomes(None));
    let _ = collected.outcomes(Some(0.7));
}

fn check_forms(text: &str) {
    let Ok(forms) = table::parse(text) else { return };
    let _ = assembly::file(text, &forms);
    for form in &forms {
        let _ = assembly::listing(form, assembly::Purpose::Latency);
    }
}

/// Makes seeds: lines of the measuring image, a table of forms and one of figures, each after the byte that selects it.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let seed = |mode: u8, text: &str| [&[mode], text.as_bytes()].concat();
    let rounds = "R 0 4c c1c 1d 0 0 68 57c 15a54 86e 86e 86e 86e 888 2f28b 30084 30084 30084 309c7";
    let console: String = ["H bare 1 2fd 7d0 1", rounds, "S 2", "F 2 53 d 0 10002a", "E 2fd"]
        .iter()
        .map(|line| write(line))
        .collect();
    vec![
        seed(0, &console),
        seed(1, rounds),
        seed(
            2,
            "setup x = nop\ngroup g needs:avx\nadd r#, r# | add {a#}, {b#} | - | for:8,64 setup:x counts:2",
        ),
        seed(3, "add r8, r8 | 1.0 | - | 70 ADD r8, r8 | theirs waits"),
    ]
}
