//! Checks of aspects, common to the native and the XML form.

use xweave_aspect::code::TokenKind;
use xweave_aspect::{Aspects, Code, Diagnostic, Source, format, parse};

/// Checks that every mistake can be shown.
pub fn check_diagnostics(mistakes: &[Diagnostic]) {
    // A text of brackets only has thousands, each of which repeats its line.
    for mistake in mistakes.iter().take(32) {
        assert!(mistake.to_string().contains(&mistake.message));
    }
}

/// Formats a text. `None` if the text has mistakes, or a comment that formatting would lose.
pub fn format_source(source: Source) -> Option<String> {
    format(source).ok().map(|formatted| formatted.text)
}

/// Prints aspects and parses the printed text, which must succeed.
pub fn print_and_parse(aspects: &Aspects) -> Aspects {
    let text = aspects.to_string();
    match parse(vec![Source { name: "printed.aspect".into(), text: text.clone() }]) {
        Ok(again) => {
            assert_eq!(again.to_string(), text, "printed again");
            again
        }
        Err(mistakes) => panic!("{text}\n{}", mistakes[0]),
    }
}

/// Lists all pieces of C.
pub fn list_code(aspects: &Aspects) -> Vec<&Code> {
    let mut codes = Vec::new();
    for clause in aspects.xflows.iter().flat_map(|flow| &flow.clauses) {
        codes.extend(clause.pointcut.codes());
        codes.extend(clause.act.codes());
    }
    for advice in &aspects.advice {
        codes.extend(advice.pointcut.codes());
        codes.push(&advice.body);
    }
    codes
}

/// Lists kinds, names, precisions and C without blanks: the meaning of aspects, except for details of pointcuts.
pub fn summarize(aspects: &Aspects) -> Vec<String> {
    let mut words = Vec::new();
    for clause in aspects.xflows.iter().flat_map(|flow| &flow.clauses) {
        let act = std::mem::discriminant(&clause.act);
        words.push(format!("{} {:?} {act:?} {}", clause.name, clause.exact, count_atoms(&clause.pointcut)));
    }
    for advice in &aspects.advice {
        let name = advice.named.then_some(&advice.name.text);
        words.push(format!(
            "{name:?} {:?} {:?} {}",
            advice.exact,
            advice.when,
            count_atoms(&advice.pointcut)
        ));
    }
    for code in list_code(aspects) {
        words.push(code.words().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "));
        let comments = code.tokens.iter().filter(|token| token.kind == TokenKind::Space);
        words.extend(comments.flat_map(|token| token.text.split_whitespace()).map(str::to_owned));
    }
    words
}

fn count_atoms(pointcut: &xweave_aspect::syntax::Pointcut) -> usize {
    let mut count = 0;
    pointcut.atoms(&mut |_| count += 1);
    count
}
