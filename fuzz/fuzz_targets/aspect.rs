//! Any text is a list of aspects or a list of mistakes: no panic, no endless nesting, every mistake can be shown,
//! nothing of a piece of C is lost, and what is printed of the aspects means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_aspect::{Code, Source, parse};
use xweave_fuzz::aspects;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data).into_owned();
    let code = Code::lex(&text).to_string();
    assert!(text.contains(&code), "{code:?} is not what was written");
    let source = Source { name: "a.aspect".into(), text };
    if let Some(formatted) = aspects::formatted(source.clone()) {
        let again = aspects::formatted(Source { text: formatted.clone(), ..source.clone() });
        assert_eq!(again, Some(formatted), "what is formatted stays so");
    }
    match parse(vec![source]) {
        Ok(aspects) => {
            let printed = aspects::printed(&aspects);
            for code in aspects::codes(&aspects) {
                let rendered = code.render(|special| special.text());
                assert_eq!(rendered, code.to_string());
                let _ = (code.variables().count(), code.tags().count());
            }
            assert_eq!(aspects::words(&aspects), aspects::words(&printed));
        }
        Err(mistakes) => aspects::shown(&mistakes),
    }
});
