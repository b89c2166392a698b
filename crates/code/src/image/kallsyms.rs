//! The symbols that a kernel has of itself (`kernel/kallsyms.c`), as `scripts/kallsyms.c` writes them
//! into its read-only data. A stripped kernel has no others.
//!
//! Nothing tells where its tables are, but they are told by their shape. They lie in this order, each
//! at a multiple of 8 bytes (of 4 in newer kernels), with offsets and base either after the rest or, in older kernels,
//! before:
//!
//! - `num_syms`, 32 bits;
//! - `names`: for each symbol its length, then as many numbers of tokens, which together are a letter
//!   for its type and its name. Lengths from 128 on take two bytes, with seven bits each.
//! - `markers`: for each 256th symbol, where it begins in the names, 32 bits;
//! - `token_table`: 256 texts, each with a zero after it;
//! - `token_index`: where each of them begins, 16 bits;
//! - `offsets`: for each symbol, 32 bits: its distance from the base. Where per-CPU variables are
//!   linked at 0 (until 6.14), those from 0 on are no distances, but addresses, and a distance `d`
//!   is written as `-1 - d`.
//! - `relative_base`: an address, 64 bits. A kernel without it has each distance from where that lies.

use xweave_bytes::{each_le, read_le};

use super::Section;
use super::symbols::{Entry, section_at};

/// Ten tokens that are in every kernel, since no other is shorter than these or contains only digits.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";

/// A name in characters, with its type; kernels have 512 at most.
const MAX_NAME: usize = 1024;

/// Before the tokens, names are looked for only as far back as the largest kernels have any.
const MAX_NAMES: usize = 64 << 20;

/// What looks like a table and is none costs time: so many steps are taken at most, and as many for each
/// byte. The tables of a kernel are found in less than one for each.
const STEPS: usize = 16;
const MIN_STEPS: usize = 1 << 20;

const TOKENS: usize = 256;

/// What the tables are aligned to, in bytes.
const ALIGNMENTS: [usize; 2] = [8, 4];

/// The symbols of the kernel in these sections, which are sorted; none if they hold no kernel.
pub(super) fn read(sections: &[Section]) -> Vec<Entry> {
    let is_code = |address: u64| section_at(sections, address).is_some_and(|section| section.executable);
    // Without sections, but segments, code and constants are together.
    let (code, data): (Vec<_>, Vec<_>) = sections.iter().partition(|section| section.executable);
    data.into_iter()
        .chain(code)
        .find_map(|section| find(section.data(), section.address, &is_code))
        .unwrap_or_default()
}

/// The symbols of the tables in what lies at `address`, if they are a kernel's that has its code where
/// `is_code` says.
fn find(data: &[u8], address: u64, is_code: &dyn Fn(u64) -> bool) -> Option<Vec<Entry>> {
    let mut steps = data.len().saturating_mul(STEPS).max(MIN_STEPS);
    let mut from = 0;
    while let Some(found) = data.get(from..)?.windows(DIGITS.len()).position(|there| there == DIGITS) {
        let digits = from + found;
        for align in ALIGNMENTS {
            if let Some(tokens) = Tokens::read(data, digits, align)
                && let Some(names) = Names::before(data, &tokens, &mut steps)
                && let Some(entries) = entries(data, address, &tokens, &names, is_code)
            {
                return Some(entries);
            }
        }
        steps = steps.checked_sub(TOKENS)?;
        from = digits + 1;
    }
    None
}

/// What names are made of.
struct Tokens<'a> {
    texts: Vec<&'a [u8]>,
    start: usize,
    /// After their index.
    end: usize,
    /// What this table, and so all others, is aligned to.
    align: usize,
}

impl<'a> Tokens<'a> {
    /// Those among which are the digits there: the index after them tells where they begin, and all
    /// must be where the index says.
    fn read(data: &'a [u8], digits: usize, align: usize) -> Option<Self> {
        let mut end = digits;
        for _ in usize::from(b'0')..TOKENS {
            end += text(data, end)?.len() + 1;
        }
        let index_start = end.checked_next_multiple_of(align)?;
        let index_end = index_start + 2 * TOKENS;
        let index: Vec<usize> = each_le::<u16>(data.get(index_start..index_end)?).map(usize::from).collect();
        let start = digits.checked_sub(*index.get(usize::from(b'0'))?)?;
        let mut next = 0;
        let mut texts = Vec::with_capacity(TOKENS);
        for at in index {
            let text = text(data, start + at).filter(|_| at == next)?;
            next = at + text.len() + 1;
            texts.push(text);
        }
        (start + next == end).then_some(Self { texts, start, end: index_end, align })
    }
}

fn text(data: &[u8], at: usize) -> Option<&[u8]> {
    let rest = data.get(at..)?;
    let rest = rest.get(..MAX_NAME).unwrap_or(rest);
    rest.get(..rest.iter().position(|byte| *byte == 0)?)
}

/// What symbols are called, in numbers of tokens.
struct Names<'a> {
    /// Where their number is, before them.
    start: usize,
    names: Vec<&'a [u8]>,
}

impl<'a> Names<'a> {
    fn before(data: &'a [u8], tokens: &Tokens, steps: &mut usize) -> Option<Self> {
        let (first, align) = (tokens.start.saturating_sub(MAX_NAMES), tokens.align);
        let places = (first / align..tokens.start / align).rev().map(|at| at * align);
        for start in places {
            *steps = steps.checked_sub(1)?;
            let Some(count) = read_le::<u32>(data, start).and_then(|count| usize::try_from(count).ok())
            else {
                continue;
            };
            // Each name is two bytes at least; and the number, of four bytes, is followed by padding.
            let fits = count > 0 && count <= (tokens.start - start) / 2;
            if fits
                && (align == 4 || read_le(data, start + 4) == Some(0_u32))
                && let Some(names) = read_names(data, start + align, count, tokens, steps)
            {
                return Some(Self { start, names });
            }
        }
        None
    }
}

/// So many names from there on, if markers follow that agree, all before the tokens.
fn read_names<'a>(
    data: &'a [u8],
    start: usize,
    count: usize,
    tokens: &Tokens,
    steps: &mut usize,
) -> Option<Vec<&'a [u8]>> {
    let data = data.get(..tokens.start)?;
    let (mut names, mut markers) = (Vec::new(), Vec::new());
    let mut at = start;
    for nth in 0..count {
        *steps = steps.checked_sub(1)?;
        if nth % 256 == 0 {
            markers.push(u32::try_from(at - start).ok()?);
        }
        let short = *data.get(at)?;
        at += 1;
        let mut length = usize::from(short);
        if short & 0x80 != 0 {
            length = usize::from(short & 0x7f) | usize::from(*data.get(at)?) << 7;
            at += 1;
        }
        let name = data.get(at..at + length).filter(|name| !name.is_empty())?;
        names.push(name);
        at += length;
    }
    let at = at.checked_next_multiple_of(tokens.align)?;
    let agree = markers.iter().enumerate().all(|(nth, marker)| read_le(data, at + 4 * nth) == Some(*marker));
    agree.then_some(names)
}

fn entries(
    data: &[u8],
    address: u64,
    tokens: &Tokens,
    names: &Names,
    is_code: &dyn Fn(u64) -> bool,
) -> Option<Vec<Entry>> {
    let count = names.names.len();
    let size = (4 * count).checked_next_multiple_of(8)?;
    let after = tokens.end.checked_next_multiple_of(tokens.align)?;
    let mut budget = super::names::Names::of(data.len());
    let mut named = Vec::with_capacity(count);
    for name in &names.names {
        let mut text = Vec::new();
        for token in *name {
            text.extend_from_slice(tokens.texts.get(usize::from(*token))?);
            if text.len() > MAX_NAME {
                return None;
            }
        }
        let (type_, name) = text.split_first()?;
        named.push((*type_, budget.read(name)?));
    }
    let based_after = || based_addresses(data, after, after + size, count);
    let based_before = || {
        let base = names.start.checked_sub(8)?;
        based_addresses(data, base.checked_sub(size)?, base, count)
    };
    let unbased = || {
        let places = (address.checked_add(u64::try_from(after).ok()?)?..).step_by(4);
        let addresses = offsets(data, after, count)?.zip(places);
        Some(addresses.map(|(distance, place)| place.wrapping_add_signed(distance.into())).collect())
    };
    let fit = |addresses: &Vec<u64>| {
        let code = || named.iter().zip(addresses).filter(|((type_, _), _)| matches!(type_, b't' | b'T'));
        let good = code().filter(|(_, address)| is_code(**address)).count();
        good > 0 && good >= code().count() / 2
    };
    let addresses = based_after().filter(fit).or_else(|| based_before().filter(fit));
    let addresses = addresses.or_else(|| unbased().filter(fit))?;
    let entry = |((type_, name), address)| Entry::typed(type_, name, address, None);
    Some(named.into_iter().zip(addresses).map(entry).collect())
}

fn offsets(data: &[u8], at: usize, count: usize) -> Option<impl Iterator<Item = i32> + Clone> {
    Some(each_le(data.get(at..at.checked_add(count.checked_mul(4)?)?)?))
}

fn based_addresses(data: &[u8], at: usize, base: usize, count: usize) -> Option<Vec<u64>> {
    let base: u64 = read_le(data, base)?;
    let offsets = offsets(data, at, count)?;
    // No kernel is so large that a plain distance would be negative.
    let percpu_at_zero = offsets.clone().any(|offset| offset < 0);
    let address = |offset: i32| match u64::try_from(offset) {
        Ok(address) if percpu_at_zero => address,
        Ok(distance) => base.wrapping_add(distance),
        Err(_) => base.wrapping_add(i64::from(-1 - offset).cast_unsigned()),
    };
    Some(offsets.map(address).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::symbols::Kind;

    const BASE: u64 = 0xffff_ffff_8100_0000;

    /// Which of a kernel's tables come last, and how offsets are written.
    #[derive(Clone, Copy)]
    struct Layout {
        offsets_last: bool,
        percpu_at_zero: bool,
        without_base: bool,
        align: usize,
    }

    /// Where the tables are.
    const ADDRESS: u64 = BASE + 0x20_0000;

    fn pad(bytes: &mut Vec<u8>, align: usize) {
        bytes.resize(bytes.len().next_multiple_of(align), 0);
    }

    fn symbols() -> Vec<(String, u64)> {
        let code = (0..600).map(|nth| (format!("Tfunction_{nth}"), BASE + nth * 16));
        code.chain([("Dlist".repeat(40), BASE + 0x10_0000)]).collect()
    }

    /// Tables as a kernel has them, with one token for `function_`, and the others for characters.
    fn tables(symbols: &[(String, u64)], layout: Layout) -> Vec<u8> {
        let (mut names, mut markers, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        for (nth, (name, address)) in symbols.iter().enumerate() {
            if nth % 256 == 0 {
                markers.extend(u32::try_from(names.len()).unwrap().to_le_bytes());
            }
            let tokens: Vec<u8> = name.replace("function_", "\x01").bytes().collect();
            if tokens.len() < 128 {
                names.push(u8::try_from(tokens.len()).unwrap());
            } else {
                names.push(u8::try_from(tokens.len() & 0x7f | 0x80).unwrap());
                names.push(u8::try_from(tokens.len() >> 7).unwrap());
            }
            names.extend(tokens);
            let distance = i32::try_from(address.wrapping_sub(BASE)).unwrap_or(0);
            let offset = match (layout.percpu_at_zero, *address < BASE) {
                (true, true) => i32::try_from(*address).unwrap(),
                (true, false) => -1 - distance,
                (false, _) => distance,
            };
            offsets.extend(offset.to_le_bytes());
        }
        pad(&mut offsets, 8);
        offsets.extend(BASE.to_le_bytes());
        let mut bytes = vec![0xaa; 64];
        if !layout.offsets_last && !layout.without_base {
            bytes.extend(&offsets);
        }
        bytes.extend(u32::try_from(symbols.len()).unwrap().to_le_bytes());
        for table in [&[][..], &names, &markers] {
            pad(&mut bytes, layout.align);
            bytes.extend(table);
        }
        pad(&mut bytes, layout.align);
        let (mut texts, mut index) = (Vec::new(), Vec::<u8>::new());
        for token in 0..=255u8 {
            index.extend(u16::try_from(texts.len()).unwrap().to_le_bytes());
            texts.extend(if token == 1 { b"function_".to_vec() } else { vec![token.max(1)] });
            texts.push(0);
        }
        for table in [texts, index] {
            bytes.extend(table);
            pad(&mut bytes, layout.align);
        }
        if layout.without_base {
            for (_, address) in symbols {
                let place = ADDRESS + u64::try_from(bytes.len()).unwrap();
                bytes.extend(u32::try_from(address.wrapping_sub(place) & 0xffff_ffff).unwrap().to_le_bytes());
            }
            bytes.extend([0x12; 64]);
        } else if layout.offsets_last {
            bytes.extend(&offsets);
        }
        bytes
    }

    fn found(data: &[u8]) -> Option<Vec<Entry>> {
        find(data, ADDRESS, &|address| (BASE..BASE + 0x1_0000).contains(&address))
    }

    #[test]
    fn tables_of_all_times() {
        let layouts = [(false, true), (true, true), (true, false), (false, false)];
        let layout = |(offsets_last, percpu_at_zero)| Layout {
            offsets_last,
            percpu_at_zero,
            without_base: false,
            align: 8,
        };
        let without_base =
            |align| Layout { offsets_last: true, percpu_at_zero: false, without_base: true, align };
        for layout in layouts.map(layout).into_iter().chain(ALIGNMENTS.map(without_base)) {
            let mut symbols = symbols();
            if layout.percpu_at_zero {
                symbols.insert(0, ("Acpu_number".to_owned(), 0x20));
            }
            let entries = found(&tables(&symbols, layout)).unwrap();
            let named: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.address)).collect();
            let expected: Vec<_> = symbols.iter().map(|(name, address)| (&name[1..], *address)).collect();
            assert_eq!(named, expected);
            let last = entries.last().unwrap();
            assert_eq!((last.kind, last.name.len()), (Kind::Object, 199));
        }
    }

    #[test]
    fn damaged_tables_are_none() {
        let bytes = tables(
            &symbols(),
            Layout { offsets_last: true, percpu_at_zero: true, without_base: false, align: 8 },
        );
        for length in (0..bytes.len()).step_by(37) {
            assert!(found(&bytes[..length]).is_none(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x80;
            let _any = found(&bytes);
        }
        assert!(find(&bytes, ADDRESS, &|_| false).is_none());
    }
}
