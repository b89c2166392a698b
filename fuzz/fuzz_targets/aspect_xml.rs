//! The same of the XML form: any text is a list of aspects or a list of mistakes, and what is printed of the
//! aspects, in the native form, means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_aspect::{Source, parse};
use xweave_fuzz::aspects;

fuzz_target!(|data: &[u8]| {
    let mut text = String::from_utf8_lossy(data).into_owned();
    if !text.trim_start().starts_with('<') {
        text.insert(0, '<');
    }
    let source = Source { name: "a.xml".into(), text };
    if let Some(text) = aspects::formatted(source.clone()) {
        let again = aspects::formatted(Source { text: text.clone(), name: "a.aspect".into() });
        assert_eq!(again, Some(text), "what is formatted is in canonical form");
    }
    match parse(vec![source]) {
        Ok(aspects) => {
            aspects::shown(&aspects.warnings);
            assert_eq!(aspects::words(&aspects), aspects::words(&aspects::printed(&aspects)));
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            aspects::shown(&mistakes);
        }
    }
});
