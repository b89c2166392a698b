//! Events as lines of text.

use std::{collections::BTreeMap, fmt::Write};

use xweave_trace::event::{Event, Kind, Names, State};

use super::compose::{Asked, Span};

/// A request with more events than this is cut.
const MOST: usize = 160;

/// Events of the first request that was delayed, and of the first other one.
pub(super) fn list(events: &[Event], names: &Names, asked: &Asked) -> String {
    let threads: BTreeMap<(u8, u32), &str> = events
        .iter()
        .filter(|event| event.kind == Kind::Thread)
        .map(|event| ((event.domain, event.other), names.text(event.name)))
        .collect();
    let mut text = String::new();
    for (what, spans) in [("delayed", &asked.struck), ("typical", &asked.typical)] {
        let Some(span) = spans.first() else { continue };
        let _ = writeln!(text, "A {what} request, from its send to its answer:");
        list_span(&mut text, events, &threads, *span);
    }
    text
}

fn list_span(text: &mut String, events: &[Event], threads: &BTreeMap<(u8, u32), &str>, (from, to): Span) {
    let name = |domain: u8, tid: u32| match threads.get(&(domain, tid)) {
        _ if tid == 0 => "idle".to_owned(),
        Some(name) => format!("{name}/{tid}"),
        None => tid.to_string(),
    };
    // What is a little before says who had which CPU.
    let first = events.partition_point(|event| event.time_ns < from - 60_000);
    let all = events[first..].iter().take_while(|event| event.time_ns <= to + 2_000);
    for (nth, event) in all.enumerate() {
        if nth == MOST {
            let _ = writeln!(text, "  …");
            return;
        }
        let Event { domain, cpu, tid, other, code, object, bytes, .. } = *event;
        let more = match event.kind {
            Kind::Switch => format!("→ {}, {:?}", name(domain, other), State::of(code)),
            Kind::Wake => format!("{}, code {code}", name(domain, other)),
            Kind::Send | Kind::Receive => format!("{bytes} bytes, code {code}"),
            Kind::VmExit => format!("vCPU {object}, {code:#x}"),
            Kind::VmHalt => format!("vCPU {object}, {bytes} ns, code {code}"),
            _ => format!("{object:#x}"),
        };
        let at = (event.time_ns - from) as f64 / 1_000.0;
        let place = format!("{}/{cpu}", if domain == 1 { "host" } else { "vm1" });
        let _ = writeln!(
            text,
            "{at:>10.1} µs  {place:<7} {:<20} {:<14} {more}",
            name(domain, tid),
            event.kind.name()
        );
    }
}
