//! Target `aspect`: any text is a list of aspects or a list of mistakes. Nothing panics, the nesting is limited, every
//! mistake can be shown, no piece of C is lost, and the printed form of the aspects means the same.

use xweave_aspect::{Code, Source, parse};

use crate::aspect_checks::{check_diagnostics, format_source, list_code, print_and_parse, summarize};

/// Runs the target.
pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    let code = Code::lex(&text).to_string();
    assert!(text.contains(&code), "{code:?} is not what was written");
    let source = Source { name: "a.aspect".into(), text };
    if let Some(formatted) = format_source(source.clone()) {
        let again = format_source(Source { text: formatted.clone(), ..source.clone() });
        assert_eq!(again, Some(formatted), "what is formatted stays so");
    }
    match parse(vec![source]) {
        Ok(aspects) => {
            let printed = print_and_parse(&aspects);
            for code in list_code(&aspects) {
                let rendered = code.render(|special| special.text());
                assert_eq!(rendered, code.to_string());
                let _ = (code.variables().count(), code.tags().count());
            }
            assert_eq!(summarize(&aspects), summarize(&printed));
        }
        Err(mistakes) => check_diagnostics(&mistakes),
    }
}
