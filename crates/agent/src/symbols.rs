//! Which functions lie at addresses of the running kernel.

use std::fs;

use xweave_wire::{limits, message::Symbol};

/// No function is longer. What lies farther from the nearest one's beginning is of a function that is not listed.
const LONGEST: u64 = 1 << 20;

/// The functions at addresses to which calls return; none where kallsyms is hidden from us.
pub(crate) fn symbols(addresses: &[u64]) -> Vec<Symbol> {
    among(addresses, &fs::read_to_string("/proc/kallsyms").unwrap_or_default())
}

fn among(addresses: &[u64], symbols: &str) -> Vec<Symbol> {
    let mut functions: Vec<_> = functions(symbols).filter(|(address, ..)| *address != 0).collect();
    functions.sort_unstable();
    let symbol = |&address: &u64| {
        // A call that never returns may be the last of its function: what it would return to is the next one.
        let after = functions.partition_point(|(begin, ..)| *begin < address);
        let (begin, name, module) = *functions.get(after.checked_sub(1)?)?;
        let offset = Some(address - begin).filter(|offset| *offset <= LONGEST)?;
        Some(Symbol { address, function: name.to_owned(), offset, module: module.map(str::to_owned) })
    };
    addresses.iter().take(limits::SYMBOLS).filter_map(symbol).collect()
}

/// The functions that kallsyms lists: the address, 0 where it is hidden; the name; the module that it is in.
pub(crate) fn functions(symbols: &str) -> impl Iterator<Item = (u64, &str, Option<&str>)> {
    symbols.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        let module = words.next().map(|module| module.trim_matches(['[', ']']));
        let address = u64::from_str_radix(address, 16).unwrap_or(0);
        matches!(kind, "t" | "T" | "w" | "W").then_some((address, name, module))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_lies_in_the_function_that_called() {
        let symbols = "ffffffff81000100 T second\nffffffff81000000 t first\nffffffff81000080 d data\n\
                       ffffffffc0000000 t of_module\t[nf_tables]\nffffffffc0000200 D behind\t[nf_tables]\n";
        let told = |address: u64| {
            let found = among(&[address], symbols).pop()?;
            Some((found.function, found.offset, found.module))
        };
        let is =
            |name: &str, offset, module: Option<&str>| Some((name.into(), offset, module.map(Into::into)));
        assert_eq!(told(0xffff_ffff_8100_0090), is("first", 0x90, None), "data is no function");
        assert_eq!(
            told(0xffff_ffff_8100_0100),
            is("first", 0x100, None),
            "its last instruction was the call"
        );
        assert_eq!(told(0xffff_ffff_8100_0105), is("second", 5, None));
        assert_eq!(told(0xffff_ffff_c000_0210), is("of_module", 0x210, Some("nf_tables")));
        assert_eq!(told(0xffff_ffff_8000_0000), None, "nothing is before");
        assert_eq!(told(0xffff_ffff_d000_0000), None, "no function is so long");
        let hidden = "0000000000000000 T first\n";
        assert!(among(&[0xffff_ffff_8100_0090], hidden).is_empty());
        assert_eq!(among(&[0xffff_ffff_8100_0105; 2000], symbols).len(), limits::SYMBOLS);
    }
}
