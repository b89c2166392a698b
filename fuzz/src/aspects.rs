//! What is asked of aspects, whatever form they are written in.

use xweave_aspect::code::TokenKind;
use xweave_aspect::{Aspects, Code, Diagnostic, Source, format, parse};

/// Every mistake can be shown.
pub fn shown(mistakes: &[Diagnostic]) {
    // A text of brackets only has thousands, each of which repeats its line.
    for mistake in mistakes.iter().take(32) {
        assert!(mistake.to_string().contains(&mistake.message));
    }
}

/// The text in canonical form; none if it has mistakes, or a comment that would be lost.
pub fn formatted(source: Source) -> Option<String> {
    format(source).ok().map(|formatted| formatted.text)
}

/// The aspects as they are read again, which must succeed, from what is printed of them.
pub fn printed(aspects: &Aspects) -> Aspects {
    let text = aspects.to_string();
    match parse(vec![Source { name: "printed.aspect".into(), text: text.clone() }]) {
        Ok(again) => {
            assert_eq!(again.to_string(), text, "printed again");
            again
        }
        Err(mistakes) => panic!("{text}\n{}", mistakes[0]),
    }
}

/// All pieces of C.
pub fn codes(aspects: &Aspects) -> Vec<&Code> {
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

/// What aspects mean, but for what the printer says of pointcuts: kinds, names, how exact, and C without blanks.
pub fn words(aspects: &Aspects) -> Vec<String> {
    let mut words = Vec::new();
    for clause in aspects.xflows.iter().flat_map(|flow| &flow.clauses) {
        let act = std::mem::discriminant(&clause.act);
        words.push(format!("{} {:?} {act:?} {}", clause.name, clause.exact, atoms(&clause.pointcut)));
    }
    for advice in &aspects.advice {
        let name = advice.named.then_some(&advice.name.text);
        words.push(format!("{name:?} {:?} {:?} {}", advice.exact, advice.when, atoms(&advice.pointcut)));
    }
    for code in codes(aspects) {
        words.push(code.words().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "));
        let comments = code.tokens.iter().filter(|token| token.kind == TokenKind::Space);
        words.extend(comments.flat_map(|token| token.text.split_whitespace()).map(str::to_owned));
    }
    words
}

fn atoms(pointcut: &xweave_aspect::syntax::Pointcut) -> usize {
    let mut count = 0;
    pointcut.atoms(&mut |_| count += 1);
    count
}
