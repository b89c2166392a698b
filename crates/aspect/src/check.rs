//! What can be found wrong with aspects without looking at a kernel.

mod pointcut;

use std::collections::HashMap;

use crate::code::{Code, TokenKind};
use crate::diagnostic::{Diagnostic, Span};
use crate::stored::arguments;
use crate::syntax::{Act, Advice, Aspects, ClauseKind, Ident, When, Xflow};
use pointcut::Where;

/// What `bpf/where.h` has for C that asks whether a frame is followed.
const ASKS_WHERE: [&str; 4] = ["frame_wanted", "socket_wanted", "virtio_net_wanted", "xen_net_wanted"];

/// Appends all mistakes to `errors`.
pub(crate) fn check(aspects: &Aspects, errors: &mut Vec<Diagnostic>) {
    let mut checker = Checker { aspects, errors };
    checker.duplicates("flow", aspects.xflows.iter().map(|xflow| &xflow.name));
    let named = aspects.advice.iter().filter(|advice| advice.named);
    checker.duplicates("advice", named.map(|advice| &advice.name));
    checker.selection();
    for xflow in &aspects.xflows {
        checker.beginnings(xflow);
        checker.carriers(xflow);
        for clause in &xflow.clauses {
            let selects_target = matches!(clause.act, Act::SelectTarget).then_some(clause.span);
            let (pointcut, exact, codes) = (&clause.pointcut, clause.exact, clause.act.codes());
            checker.place(&Where { pointcut, exact, when: When::Before, codes, selects_target });
        }
    }
    for advice in &aspects.advice {
        let Advice { pointcut, exact, when, body, .. } = advice;
        let codes = vec![body];
        checker.place(&Where { pointcut, exact: *exact, when: *when, codes, selects_target: None });
    }
}

struct Checker<'a> {
    aspects: &'a Aspects,
    errors: &'a mut Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    fn error(&mut self, span: Span, message: impl Into<String>, help: &str) {
        let message = message.into();
        let file = self.aspects.sources.get(span.file).map_or("", |source| &source.name);
        // A part of a pointcut may be judged several times, in different company.
        let same = |other: &Diagnostic| {
            (other.line, other.column) == (span.line, span.column)
                && other.file == file
                && other.message == message
        };
        if self.errors.iter().any(same) {
            return;
        }
        let error = self.aspects.error(span, message);
        self.errors.push(if help.is_empty() { error } else { error.with_help(help) });
    }

    fn place(&mut self, at: &Where<'a>) {
        self.pointcut(at);
        at.codes.iter().for_each(|code| self.stores(code));
    }

    fn duplicates(&mut self, what: &str, names: impl Iterator<Item = &'a Ident>) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for name in names {
            if let Some(first) = seen.get(name.text.as_str()) {
                let file = self.aspects.sources.get(first.file).map_or("", |source| &source.name);
                let message = format!(
                    "the name `{}` is used twice for {what}: first in {file}, line {}",
                    name.text, first.line
                );
                self.error(name.span, message, "");
            } else {
                seen.insert(&name.text, name.span);
            }
        }
    }

    /// A filter that nothing asks for would select nothing.
    fn selection(&mut self) {
        let Some(selection) = &self.aspects.selection else { return };
        let clauses = self.aspects.xflows.iter().flat_map(|xflow| &xflow.clauses);
        let mut codes =
            clauses.flat_map(|clause| clause.pointcut.codes().into_iter().chain(clause.act.codes()));
        if !codes.any(|code| code.names().any(|name| ASKS_WHERE.contains(&name))) {
            let message = "no flow of these aspects begins with a frame: `where` selects nothing";
            let help = "virtio-net, xen-net, tcp and udp of the library ask for it; a flow of your own does by `start … AND \
                        if(frame_wanted(skb, frame_header(skb)))`";
            self.error(selection.span, message, help);
        }
    }

    fn beginnings(&mut self, xflow: &Xflow) {
        let begins = xflow.clauses.iter().any(|clause| {
            clause.kind == ClauseKind::Start || matches!(clause.act, Act::Xout { .. } | Act::Action(_))
        });
        if !begins {
            let message = format!("the flow `{}` never begins", xflow.name.text);
            self.error(xflow.name.span, message, "give it a `start`, or an `xout_move` from a carrier");
        }
    }

    fn carriers(&mut self, xflow: &Xflow) {
        let mut ends: Vec<(&Ident, bool, bool)> = Vec::new();
        for clause in &xflow.clauses {
            let (carrier, xin) = match &clause.act {
                Act::Xin { carrier, .. } => (carrier, true),
                Act::Xout { carrier, .. } => (carrier, false),
                _ => continue,
            };
            match ends.iter_mut().find(|(other, ..)| other.text == carrier.text) {
                Some((_, has_xin, has_xout)) => {
                    *has_xin |= xin;
                    *has_xout |= !xin;
                }
                None => ends.push((carrier, xin, !xin)),
            }
        }
        for (carrier, has_xin, has_xout) in ends {
            let (name, flow) = (&carrier.text, &xflow.name.text);
            if !has_xout {
                let message =
                    format!("carrier `{name}` has no partner: nothing of flow `{flow}` comes off it");
                self.error(carrier.span, message, "give it an `xout_move` or `xout_copy`");
            } else if !has_xin {
                let message =
                    format!("carrier `{name}` has no partner: nothing of flow `{flow}` is put on it");
                self.error(carrier.span, message, "give it an `xin_move` or `xin_copy`");
            }
        }
    }

    /// `STORE_DATAn` takes n values, and n is at most 7.
    fn stores(&mut self, code: &Code) {
        let words: Vec<_> = code.words().collect();
        for (at, word) in words.iter().enumerate() {
            let Some(number) = word.text.strip_prefix("STORE_DATA") else { continue };
            if word.kind != TokenKind::Name {
                continue;
            }
            let wanted = number.parse().ok().filter(|n| (1..=7).contains(n));
            let Some(wanted) = wanted else {
                let message = format!("there is no `{}`: there are STORE_DATA1 to STORE_DATA7", word.text);
                self.error(word.span, message, "");
                continue;
            };
            let found = arguments(&words[at + 1..]).map(|all| match &all[..] {
                [one] if one.is_empty() => 0,
                all => all.len(),
            });
            if let Some(found) = found
                && found != wanted
            {
                let values = if wanted == 1 { "value" } else { "values" };
                let message = format!("`{}` stores {wanted} {values}, not {found}", word.text);
                self.error(word.span, message, "");
            }
        }
    }
}
