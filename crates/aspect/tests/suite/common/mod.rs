//! What tests of the language have in common.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses some of it; helpers of tests are tests")]

use xweave_aspect::code::TokenKind;
use xweave_aspect::syntax::{Act, Pointcut};
use xweave_aspect::{Aspects, Code, Diagnostic, Source, parse};

pub fn read(text: &str) -> Result<Aspects, Vec<Diagnostic>> {
    parse(vec![Source { name: "x.aspect".into(), text: text.into() }])
}

/// Line, column and message of each mistake.
pub fn mistakes(text: &str) -> Vec<String> {
    shown(&read(text).err().unwrap_or_default())
}

pub fn shown(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(|of| format!("{}:{}: {}", of.line, of.column, of.message)).collect()
}

pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let source = Source { name: "x.aspect".into(), text: text.into() };
    xweave_aspect::format(source).map(|formatted| formatted.text)
}

/// What aspects mean: all but places and blanks. It is made without the printer.
pub fn meaning(aspects: &Aspects) -> String {
    let mut items = Vec::new();
    for xflow in &aspects.xflows {
        let clauses = xflow.clauses.iter().map(|clause| {
            let codes: Vec<_> = clause.act.codes().into_iter().map(code).collect();
            let act = match &clause.act {
                Act::Xin { copy, carrier, .. } => format!("xin {copy} {}", carrier.text),
                Act::Xout { copy, carrier, .. } => format!("xout {copy} {}", carrier.text),
                Act::Hand { copy, .. } => format!("hand {copy}"),
                other => format!("{:?}", std::mem::discriminant(other)),
            };
            format!("{} {:?} {} {act} {codes:?}", clause.name, clause.exact, pointcut(&clause.pointcut))
        });
        let clauses: Vec<_> = clauses.collect();
        items.push((xflow.name.span, format!("{} {clauses:#?}", xflow.name.text)));
    }
    for advice in &aspects.advice {
        let name = advice.named.then_some(&advice.name.text);
        let (exact, when) = (advice.exact, advice.when);
        let text =
            format!("{name:?} {exact:?} {} {when:?} {}", pointcut(&advice.pointcut), code(&advice.body));
        items.push((advice.name.span, text));
    }
    items.sort_by_key(|(place, _)| (place.line, place.column));
    items.into_iter().map(|(_, text)| text + "\n").collect()
}

fn pointcut(of: &Pointcut) -> String {
    let list = |parts: &[Pointcut]| parts.iter().map(pointcut).collect::<Vec<_>>().join(", ");
    match of {
        Pointcut::And(parts) => format!("all [{}]", list(parts)),
        Pointcut::Or(parts) => format!("any [{}]", list(parts)),
        Pointcut::Not(part) => format!("not [{}]", pointcut(part)),
        Pointcut::If(condition) => format!("if {}", code(condition)),
        Pointcut::Xflow(test) => {
            let id = test.id.as_ref().map(|id| &id.text);
            format!("xflow {} {} {id:?}", test.flow.text, code(&test.key))
        }
        atom => {
            let shown = format!("{atom:?}");
            let mut parts = shown.split("Span {");
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |text, part| text + part.split_once('}').map_or("", |(_, rest)| rest))
        }
    }
}

fn code(of: &Code) -> String {
    let tokens = of.tokens.iter().filter_map(|token| match token.kind {
        TokenKind::Space if token.text.trim().is_empty() => None,
        TokenKind::Space => Some(token.text.split_whitespace().collect::<Vec<_>>().join(" ")),
        _ => Some(token.text.clone()),
    });
    tokens.collect::<Vec<_>>().join(" ")
}
