//! Target `aspect_xml`: any text in the XML form is a list of aspects or a list of mistakes, and the printed form of the
//! aspects, in the native form, means the same.

use xweave_aspect::{Source, parse};

use crate::aspect_checks::{check_diagnostics, format_source, print_and_parse, summarize};

/// Runs the target.
pub fn run(input: &[u8]) {
    let mut text = String::from_utf8_lossy(input).into_owned();
    if !text.trim_start().starts_with('<') {
        text.insert(0, '<');
    }
    let source = Source { name: "a.xml".into(), text };
    if let Some(text) = format_source(source.clone()) {
        let again = format_source(Source { text: text.clone(), name: "a.aspect".into() });
        assert_eq!(again, Some(text), "what is formatted is in canonical form");
    }
    match parse(vec![source]) {
        Ok(aspects) => {
            check_diagnostics(&aspects.warnings);
            assert_eq!(summarize(&aspects), summarize(&print_and_parse(&aspects)));
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            check_diagnostics(&mistakes);
        }
    }
}
