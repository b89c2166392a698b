//! Any console is read for lines of the measuring image, and any text as a table of forms or of figures, or named
//! as none: no panic. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_cost::line::{Line, scan, write};
use xweave_cost::measured::Collected;
use xweave_cost::{assembly, published, table};
use xweave_fuzz::seeds;

fuzz_target!(init: seeds::write(seeds::cost), |data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(data);
    match mode {
        0 => console(data),
        // No checksum is right by chance.
        1 => console(write(&text).as_bytes()),
        2 => forms(&text),
        _ => drop(published::read(&text)),
    }
});

fn console(bytes: &[u8]) {
    let found = scan(bytes);
    let ended = matches!(found.lines.last(), Some(Line::End { .. }));
    let mut collected = Collected::default();
    collected.add(found);
    assert!(!ended || collected.finished);
    let _ = (collected.culprit(), collected.ticks_per_cycle(), collected.outcomes(None));
    let _ = collected.outcomes(Some(0.7));
}

fn forms(text: &str) {
    let Ok(forms) = table::parse(text) else { return };
    let _ = assembly::file(text, &forms);
    for form in &forms {
        let _ = assembly::listing(form, assembly::Purpose::Latency);
    }
}
