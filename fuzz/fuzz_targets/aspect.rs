//! Any text is a list of aspects or a list of mistakes: no panic, no endless nesting, every mistake can be shown,
//! and nothing of a piece of C is lost.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_aspect::{Code, Source, parse};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data).into_owned();
    let code = Code::lex(&text).to_string();
    assert!(text.contains(&code), "{code:?} is not what was written");
    match parse(vec![Source { name: "a.aspect".into(), text }]) {
        Ok(aspects) => {
            let clauses = || aspects.xflows.iter().flat_map(|flow| &flow.clauses);
            let pointcuts = clauses().map(|clause| &clause.pointcut);
            let pointcuts = pointcuts.chain(aspects.advice.iter().map(|advice| &advice.pointcut));
            let codes = pointcuts.flat_map(|pointcut| pointcut.codes());
            for code in codes.chain(clauses().flat_map(|clause| clause.act.codes())) {
                let rendered = code.render(|special| special.text());
                assert_eq!(rendered, code.to_string());
                let _ = (code.variables().count(), code.tags().count());
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            // A text of brackets only has thousands, each of which repeats its line.
            for mistake in mistakes.iter().take(32) {
                assert!(mistake.to_string().contains(&mistake.message));
            }
        }
    }
});
