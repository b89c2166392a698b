//! Where processors are that do not answer: what QEMU's monitor shows of them, with the kernel's names.
//!
//! Not an unwinder: every word of the stack that is an address within a function is named, so some names are of
//! calls that are over. It is for people, and for the order in which suspects are tried.

use std::collections::BTreeMap;

/// Words of a stack that are looked at. Interrupts have stacks of their own, of 16 KiB.
const WORDS: usize = 512;
/// So many names of a processor are kept.
const NAMES: usize = 40;
/// No function is so long: what is further behind a symbol is not it.
const LONGEST: u64 = 64 << 10;

/// The kernel's functions by their addresses.
#[derive(Debug, Default)]
pub struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    /// Reads `/proc/kallsyms`: `ffffffff81000000 T _text`, and behind it the module if it is in one.
    pub fn parse(kallsyms: &str) -> Self {
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let address = u64::from_str_radix(address, 16).ok()?;
            matches!(kind, "t" | "T" | "w" | "W").then(|| (address, name.to_owned()))
        };
        Self(kallsyms.lines().filter_map(symbol).collect())
    }

    /// `vfs_read+0x1f`; none for what is in no function that was known.
    fn name(&self, address: u64) -> Option<String> {
        let (begin, name) = self.0.range(..=address).next_back()?;
        let offset = address - begin;
        (offset < LONGEST).then(|| format!("{name}+{offset:#x}"))
    }
}

/// Where one processor was when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    instruction: u64,
    stack: u64,
}

impl Registers {
    /// What the monitor is asked for them.
    pub fn question(cpu: u32) -> Vec<String> {
        vec![format!("cpu {cpu}"), "info registers".into()]
    }

    /// Reads its answer.
    pub fn parse(answer: &str) -> Option<Self> {
        let register = |name: &str| {
            let (_, rest) = answer.split_once(name)?;
            hexadecimal(rest.get(..16)?)
        };
        Some(Self { instruction: register("RIP=")?, stack: register("RSP=")? })
    }

    /// What the monitor is asked for the stack.
    pub fn stack(self, cpu: u32) -> Vec<String> {
        vec![format!("cpu {cpu}"), format!("x /{WORDS}gx {:#x}", self.stack)]
    }

    /// The functions that the answer names: `native_queued_spin_lock_slowpath+0x1d < …`.
    pub fn told(self, answer: &str, symbols: &Symbols) -> String {
        // `ffffc90000003e00: 0x0000000000000000 0xffffffff81002010`
        let lines = answer.lines().filter_map(|line| line.split_once(": 0x").map(|(_, words)| words));
        let words = lines.flat_map(str::split_whitespace).filter_map(hexadecimal);
        let mut names: Vec<String> = Vec::new();
        for address in std::iter::once(self.instruction).chain(words) {
            if let Some(name) = symbols.name(address)
                && names.len() < NAMES
                && names.last() != Some(&name)
            {
                names.push(name);
            }
        }
        format!("{:#x}: {}", self.instruction, names.join(" < "))
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monitors_answer_is_told_in_the_kernels_names() {
        let symbols = Symbols::parse(
            "ffffffff81000000 T _text\nffffffff81001000 t spin_slow\nffffffff81002000 T ring_reserve\t[mod]\n\
             ffffffff81003000 D some_data\n",
        );
        let registers = Registers::parse(
            "QEMU 7.2.22 monitor - type 'help' for more information\r\n(qemu) cpu 1\r\n(qemu) info registers\r\n\
            RAX=0000000000000001 RBX=ffffffff81001040\r\nRSI=0000000000000000 RSP=ffffc90000003e00\r\n\
            RIP=ffffffff81001040 RFL=00000046 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=0\r\n",
        )
        .unwrap();
        assert_eq!(registers.stack(1), ["cpu 1", "x /512gx 0xffffc90000003e00"]);
        let answer = "(qemu) cpu 1\r\n(qemu) x /512gx 0xffffc90000003e00\r\n\
            ffffc90000003e00: 0x0000000000000000 0xffffffff81002010\r\n\
            ffffc90000003e10: 0xffffffff81002010 0x00007fffffffe000\r\n(qemu) ";
        assert_eq!(
            registers.told(answer, &symbols),
            "0xffffffff81001040: spin_slow+0x40 < ring_reserve+0x10"
        );
        assert_eq!(Registers::parse("(qemu) unknown command"), None);
        assert_eq!(symbols.name(0xffff_ffff_8200_0000), None, "too far behind the last function");
    }
}
