//! Functions of the running kernel, by address and by name.

use std::fs;

use xweave_wire::{limits, message::Symbol};

/// Maximum bytes of a function: an address farther from the nearest start belongs to a function that is not listed.
const LONGEST: u64 = 1 << 20;

/// Finds the functions that contain return addresses; none where kallsyms hides addresses from this process.
pub fn find_symbols(addresses: &[u64]) -> Vec<Symbol> {
    find_symbols_in(addresses, &fs::read_to_string("/proc/kallsyms").unwrap_or_default())
}

fn find_symbols_in(addresses: &[u64], symbols: &str) -> Vec<Symbol> {
    let mut functions: Vec<_> = parse_functions(symbols).filter(|(address, ..)| *address != 0).collect();
    functions.sort_unstable();
    let symbol = |&address: &u64| {
        // A call that never returns may be the last instruction of its function: its return address is in the next one.
        let after = functions.partition_point(|(begin, ..)| *begin < address);
        let (begin, name, module) = *functions.get(after.checked_sub(1)?)?;
        let offset = Some(address - begin).filter(|offset| *offset <= LONGEST)?;
        Some(Symbol { address, function: name.to_owned(), offset, module: module.map(str::to_owned) })
    };
    addresses.iter().take(limits::SYMBOLS).filter_map(symbol).collect()
}

/// Parses the functions in the text of kallsyms: address (0 if hidden), name, module.
pub fn parse_functions(symbols: &str) -> impl Iterator<Item = (u64, &str, Option<&str>)> {
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
    fn return_address_is_in_the_calling_function() {
        let symbols = "ffffffff81000100 T second\nffffffff81000000 t first\nffffffff81000080 d data\n\
                       ffffffffc0000000 t of_module\t[nf_tables]\nffffffffc0000200 D behind\t[nf_tables]\n";
        let told = |address: u64| {
            let found = find_symbols_in(&[address], symbols).pop()?;
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
        assert!(find_symbols_in(&[0xffff_ffff_8100_0090], hidden).is_empty());
        assert_eq!(find_symbols_in(&[0xffff_ffff_8100_0105; 2000], symbols).len(), limits::SYMBOLS);
    }
}
