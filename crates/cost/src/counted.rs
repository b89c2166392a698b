//! What a hypervisor did with a form, counted by itself: KVM's exits by reason (the tracepoint `kvm:kvm_exit`), and
//! Xen's emulations and faults (`xentrace`). The image runs each form between marks that the trace shows.

use std::collections::BTreeMap;

use xweave_bytes::each_le;

/// The copies that the image runs; `minios/measure.c` has the same.
const COPIES: f64 = 20.0;
const MARK_BITS: u32 = 2;
const EMPTY: u32 = 0;
const FULL: u32 = 1;
/// The port of marks; `minios/machine.c` has the same.
const PORT: &str = "pio_write at 0x560 ";
/// The marks' hypercall; `minios/xen.h` has the same.
const SCHED_OP: u32 = 29;
const SCHED_MARK: u32 = 0x1_0000;

/// Of one instruction of a form: how many times each thing happened.
pub type Counted = BTreeMap<String, f64>;

/// Less is not one's own: an interrupt that came in between.
const LEAST: f64 = 0.25;

/// Events between marks, while they are read.
#[derive(Default)]
struct Between {
    /// The mark that was seen last.
    mark: Option<u32>,
    since: BTreeMap<String, f64>,
    forms: BTreeMap<usize, Counted>,
}

impl Between {
    fn event(&mut self, what: String) {
        *self.since.entry(what).or_default() += 1.0;
    }

    fn mark(&mut self, value: u32) {
        let since = std::mem::take(&mut self.since);
        if let Some(last) = self.mark.filter(|last| last >> MARK_BITS == value >> MARK_BITS) {
            // What the set-up alone does is taken off; so is the mark's own exit, of which either has one.
            let sign = match last & ((1 << MARK_BITS) - 1) {
                EMPTY => -1.0,
                FULL => 1.0,
                _ => 0.0,
            };
            let counted = self.forms.entry((value >> MARK_BITS) as usize).or_default();
            for (what, count) in since {
                *counted.entry(what).or_default() += sign * count / COPIES;
            }
        }
        self.mark = Some(value);
    }

    fn done(mut self) -> BTreeMap<usize, Counted> {
        for counted in self.forms.values_mut() {
            counted.retain(|_, count| *count >= LEAST);
        }
        self.forms
    }
}

/// Reads a trace of `kvm:kvm_exit` and `kvm:kvm_pio`, as tracefs gives it.
pub fn kvm(trace: &str) -> BTreeMap<usize, Counted> {
    let mut between = Between::default();
    for line in trace.lines() {
        if let Some((_, rest)) = line.split_once("kvm_exit: ") {
            let reason = rest.split_once("reason ").and_then(|(_, rest)| rest.split_once(" rip "));
            if let Some((reason, _)) = reason {
                between.event(reason.trim_start_matches("EXIT_").to_owned());
            }
        } else if let Some((_, rest)) = line.split_once(PORT) {
            let value = rest.rsplit_once("val 0x").and_then(|(_, value)| {
                let end = value.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(value.len());
                u32::from_str_radix(&value[..end], 16).ok()
            });
            if let Some(value) = value {
                between.mark(value);
            }
        }
    }
    between.done()
}

/// Reads a file of `xentrace` with the events of paravirtual guests: Xen 4.17, xen/include/public/trace.h.
pub fn xen(file: &[u8]) -> BTreeMap<usize, Counted> {
    let words: Vec<u32> = each_le(file).collect();
    let mut between = Between::default();
    let mut at = 0;
    while let Some(&header) = words.get(at) {
        let extra = (header >> 28 & 7) as usize;
        let begin = at + 1 + if header >> 31 == 1 { 2 } else { 0 };
        let Some(data) = words.get(begin..begin + extra) else { break };
        at = begin + extra;
        // TRC_PV_ENTRY, and TRC_64_FLAG, which addresses of 64 bits have.
        let event = header & 0x0fff_ffff;
        // The image lies low; dom0's kernel, which runs in between, is at the top.
        let of_image = event & 0x100 != 0 && data.get(1).is_some_and(|high| high >> 15 == 0);
        match event & !0x100 {
            0x0020_100d if data.first().is_some_and(|op| op & 0xf_ffff == SCHED_OP) => {
                if let Some(value) = data.get(1).filter(|value| **value & SCHED_MARK != 0) {
                    between.mark(value & !SCHED_MARK);
                }
            }
            0x0020_1003 if of_image => between.event("trap".into()),
            0x0020_1004 if of_image => between.event("page fault".into()),
            0x0020_1005 if of_image => between.event("forced emulation".into()),
            0x0020_1006 if of_image => between.event("privileged instruction emulated".into()),
            _ => {}
        }
    }
    between.done()
}

/// Whether what was counted says that the hypervisor was at work once for each instruction, or more.
pub fn involved(counted: &Counted) -> bool {
    counted.values().sum::<f64>() >= 0.5
}

/// For people: `1.0 cr4 write`.
pub fn text(counted: &Counted) -> String {
    if counted.is_empty() {
        return "none".into();
    }
    let one = |(what, count): (&String, &f64)| format!("{count:.1} {what}");
    counted.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_between_marks_less_those_of_the_set_up() {
        let exit = |reason: &str| {
            format!(" qemu-1 [000] d.... 1.0: kvm_exit: vcpu 0 reason {reason} rip 0x1 info1 0x0\n")
        };
        let mark = |value: u32| {
            let pio = format!(
                " qemu-1 [000] ..... 1.0: kvm_pio: pio_write at 0x560 size 4 count 1 val {value:#x} \n"
            );
            exit("io") + &pio
        };
        let trace = [
            exit("hlt"),
            mark(7 << 2),
            exit("msr"),
            mark(7 << 2 | 1),
            exit("msr"),
            exit("read_cr4").repeat(20),
            exit("interrupt"),
            mark(7 << 2 | 2),
            exit("npf").repeat(50),
            mark(8 << 2),
            mark(8 << 2 | 1),
            mark(8 << 2 | 2),
        ]
        .concat();
        let forms = kvm(&trace);
        assert_eq!(forms[&7], [("read_cr4".to_owned(), 1.0)].into());
        assert!(involved(&forms[&7]) && !involved(&forms[&8]), "{forms:?}");
        assert_eq!((text(&forms[&7]), text(&forms[&8])), ("1.0 read_cr4".into(), "none".into()));
    }

    #[test]
    fn emulations_of_the_image_and_not_of_dom0() {
        let record = |event: u32, data: &[u32]| {
            let mut words = vec![1 << 31 | u32::try_from(data.len()).unwrap() << 28 | event, 1, 2];
            words.extend(data);
            words
        };
        let mark = |value| record(0x0020_100d, &[1 << 20 | SCHED_OP, SCHED_MARK | value]);
        let privileged = record(0x0020_1106, &[0x20_0000, 0]);
        let of_dom0 = record(0x0020_1106, &[0x8100_0000, 0xffff_ffff]);
        let words =
            [mark(12), mark(13), privileged.repeat(20), of_dom0.repeat(9), mark(14), vec![7 << 28, 1]]
                .concat();
        let file: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let forms = xen(&file);
        assert_eq!(forms[&3], [("privileged instruction emulated".to_owned(), 1.0)].into());
        assert_eq!(forms.len(), 1, "a record that is cut is passed over");
    }
}
