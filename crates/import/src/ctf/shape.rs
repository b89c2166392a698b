//! Which tracepoint an event is one of, and its fields as the bytes of a record: as the kernel would have written it.

use super::line::{Pairs, half, inside, number, text, unescaped};
use crate::format::{Field, Format, Place};
use crate::input::shown;

/// `common_type`, two more short fields and `common_pid`.
const HEADER: usize = 8;

/// The most fields of an event that are told: no tracepoint has as many. Each field of a line is looked for among them.
const FIELDS: usize = 256;

/// The number of a system call, which LTTng does not tell.
const CALL: &str = "__syscall_nr";

/// How the events of a name are told.
pub(crate) struct Shape {
    pub format: Format,
    slots: Vec<Slot>,
    size: usize,
    /// Where a number is that nothing tells: all its bits are set.
    unknown: Option<usize>,
}

/// A field's place in the record.
struct Slot {
    /// As the lines call it.
    name: Vec<u8>,
    offset: usize,
    size: usize,
    content: Content,
}

/// What a field holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Number,
    Text,
    /// An IP address: numbers, or what perf makes a text of.
    Address,
    /// What an access does: letters, or LTTng's flags.
    How,
    /// An array of 64 bits each.
    Words,
}

impl Shape {
    /// Of events of that name, the first of which has these fields.
    pub(crate) fn of(id: u16, name: &str, perf: bool, fields: &[u8]) -> Self {
        let (system, known) = tracepoint(name, perf);
        let (system, known) = (shown(system.as_bytes()), shown(known.as_bytes()));
        let format = Format { system, name: known, id, fields: Vec::new() };
        let mut shape = Self { format, slots: Vec::new(), size: HEADER, unknown: None };
        for (field, value) in Pairs(fields) {
            if shape.slots.len() == FIELDS {
                break;
            }
            let Some(called) = std::str::from_utf8(field).ok().and_then(|name| called(name, perf)) else {
                continue;
            };
            let (content, size) = match called {
                _ if called.ends_with("comm") => (Content::Text, 16),
                "filename" => (Content::Text, 256),
                "rwbs" => (Content::How, 8),
                "saddr" | "daddr" => (Content::Address, 4),
                "saddr_v6" | "daddr_v6" => (Content::Address, 16),
                "args" => (Content::Words, 48),
                _ if number(value).is_none() => continue,
                _ => (Content::Number, 8),
            };
            let offset = shape.add(called, size);
            shape.slots.push(Slot { name: field.to_vec(), offset, size, content });
        }
        if !perf && shape.format.system == "syscalls" {
            shape.unknown = Some(shape.add(CALL, 8));
        }
        shape
    }

    fn add(&mut self, name: &str, size: usize) -> usize {
        let offset = self.size;
        self.size += size;
        let name = name.to_owned();
        self.format.fields.push(Field { name, offset, size, signed: true, place: Place::Here });
        offset
    }

    /// Makes the record of an event.
    pub(crate) fn record(&self, tid: u32, fields: &[u8], record: &mut Vec<u8>) {
        record.clear();
        record.extend(self.format.id.to_le_bytes());
        record.extend([0; 2]);
        record.extend(tid.to_le_bytes());
        record.resize(self.size, 0);
        for (name, value) in Pairs(fields) {
            let Some(slot) = self.slots.iter().find(|slot| slot.name == name) else { continue };
            let bytes = slot.content.bytes(value);
            for (to, from) in record.iter_mut().skip(slot.offset).take(slot.size).zip(bytes) {
                *to = from;
            }
        }
        if let Some(at) = self.unknown {
            record[at..].fill(u8::MAX);
        }
    }
}

impl Content {
    fn bytes(self, value: &[u8]) -> Vec<u8> {
        let elements = || Pairs(inside(value)).map(|(_, element)| number(element).unwrap_or(0));
        match self {
            Self::Number => number(value).unwrap_or(0).to_le_bytes().to_vec(),
            Self::Text => text(value),
            Self::Address if value.starts_with(b"[") => elements().map(|byte| (byte & 0xff) as u8).collect(),
            // perf writes what is no letter as `\x7f`, and babeltrace2 that backslash as two.
            Self::Address => unescaped(&text(value)),
            Self::How => number(value).map_or_else(|| text(value), how),
            Self::Words => elements().flat_map(u64::to_le_bytes).collect(),
        }
    }
}

/// What an access does, in the kernel's letters: `enum rwbs_flag` of lttng-modules.
fn how(flags: u64) -> Vec<u8> {
    const WRITE: u64 = 1;
    const DISCARD: u64 = 1 << 1;
    const READ: u64 = 1 << 2;
    let letter = match flags {
        _ if flags & DISCARD != 0 => b'D',
        _ if flags & WRITE != 0 => b'W',
        _ if flags & READ != 0 => b'R',
        _ => b'N',
    };
    vec![letter]
}

/// The system and name of a tracepoint in tracefs. LTTng's names have no system, and differ here and there.
fn tracepoint(name: &str, perf: bool) -> (String, String) {
    let known = |system: &str, name: &str| (system.to_owned(), name.to_owned());
    if perf {
        return name.split_once(':').map_or_else(|| known("", name), |(system, name)| known(system, name));
    }
    if let Some(vector) = name.strip_prefix("x86_irq_vectors_") {
        return known("irq_vectors", vector);
    }
    // Calls of programs of 32 bits.
    let name = name.strip_prefix("compat_").unwrap_or(name);
    if let Some(call) = name.strip_prefix("syscall_entry_").or_else(|| call_begun(name)) {
        return ("syscalls".to_owned(), format!("sys_enter_{call}"));
    }
    if let Some(call) = name.strip_prefix("syscall_exit_") {
        return ("syscalls".to_owned(), format!("sys_exit_{call}"));
    }
    match name {
        "sched_switch" | "sched_waking" | "sched_wakeup" | "sched_wakeup_new" | "sched_process_fork"
        | "sched_process_exec" | "sched_process_exit" => known("sched", name),
        "irq_handler_entry" | "irq_handler_exit" => known("irq", name),
        // Without `irq_`, and `kvm_` without `x86_`: LTTng up to 2.3.
        "irq_softirq_entry" | "softirq_entry" => known("irq", "softirq_entry"),
        "irq_softirq_exit" | "softirq_exit" => known("irq", "softirq_exit"),
        "block_bio_queue"
        | "block_rq_issue"
        | "block_rq_complete"
        | "block_rq_merge"
        | "block_bio_backmerge"
        | "block_bio_frontmerge"
        | "block_bio_complete" => known("block", name),
        "kvm_x86_entry" | "kvm_entry" => known("kvm", "kvm_entry"),
        "kvm_x86_exit" | "kvm_exit" => known("kvm", "kvm_exit"),
        "kvm_x86_inj_virq" | "kvm_inj_virq" => known("kvm", "kvm_inj_virq"),
        "power_cpu_idle" => known("power", "cpu_idle"),
        "power_cpu_frequency" => known("power", "cpu_frequency"),
        _ => known("", name),
    }
}

/// The event by which LTTng up to 2.3 told the end of any system call.
pub(crate) const ANY_EXIT: &str = "exit_syscall";

/// The name of a system call of which LTTng up to 2.3 tells the beginning.
pub(crate) fn call_begun(name: &str) -> Option<&str> {
    name.strip_prefix("compat_").unwrap_or(name).strip_prefix("sys_")
}

/// What a field is called in tracefs, where `pid` is a thread. LTTng calls it `tid`, and its `pid` is a process.
fn called(name: &str, perf: bool) -> Option<&str> {
    if perf {
        // A CTF name that begins with underscores may have got or lost one.
        return Some(if name.trim_start_matches('_') == "syscall_nr" { CALL } else { name });
    }
    match name {
        "tid" => Some("pid"),
        "prev_tid" => Some("prev_pid"),
        "next_tid" => Some("next_pid"),
        "parent_tid" => Some("parent_pid"),
        "child_tid" => Some("child_pid"),
        "pid" | "parent_pid" | "child_pid" => None,
        _ => Some(name),
    }
}

/// A thread that a line tells of: its number, its process's (0: unknown) and its name.
pub(crate) fn thread(fields: &[u8], name: &[u8]) -> Option<(u32, u32, Vec<u8>)> {
    let field = |name: &[u8]| Pairs(fields).find_map(|(field, value)| (field == name).then_some(value));
    let process = field(b"pid").and_then(half).unwrap_or(0);
    Some((half(field(b"tid")?)?, process, text(field(name)?)))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_line_of_very_many_fields_takes_no_longer_than_many_lines() {
        const LINES: usize = 400;
        let line = |fields: std::ops::Range<usize>| {
            let fields: Vec<_> = fields.map(|field| format!("f{field} = 1")).collect();
            fields.join(", ").into_bytes()
        };
        let took = |lines: &[Vec<u8>]| {
            let begin = Instant::now();
            let mut record = Vec::new();
            for line in lines {
                Shape::of(1, "x", false, line).record(7, line, &mut record);
            }
            assert!(record.len() <= HEADER + 8 * FIELDS);
            begin.elapsed()
        };
        let hostile = took(&[line(0..200 * LINES)]);
        let honest = took(&vec![line(0..200); LINES]);
        assert!(hostile < 8 * honest + Duration::from_millis(100), "{hostile:?}, and {honest:?}");
    }
}
