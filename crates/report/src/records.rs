//! What advice stored: where, how much, and how the values lie.

use xweave_flow::{
    Stored,
    stored::{Group, StoredRecord},
};

use crate::{
    View,
    folded::{self, Column},
    number,
    segments::with_bars,
    table::{self, Heading},
};

/// Columns of a record that are never left out.
const NEEDED: usize = 4;

/// How many there are, where and for how long; how many were lost.
pub fn summary(stored: &Stored, lost: u64, span_ns: i64) -> String {
    let mut domains: Vec<&str> = stored.sites.iter().map(|site| site.domain.as_str()).collect();
    domains.sort_unstable();
    domains.dedup();
    format!(
        "{} of {} in {}, {}; {} lost\n",
        number::counted(stored.count, "record", "records"),
        number::counted(stored.sites.len() as u64, "place", "places"),
        domains.join(", "),
        number::span(u64::try_from(span_ns).unwrap_or(0)),
        number::count(lost),
    )
}

/// The places, those with the most records first, and how the values stored there lie; at most so many.
pub fn sites(stored: &Stored, most: usize, view: View) -> String {
    let mut cells: [Vec<String>; 9] = Default::default();
    for site in stored.sites.iter().take(most) {
        let at = if site.offset == 0 { String::new() } else { format!("+{:#x}", site.offset) };
        let place = [&site.domain, &site.advice, &format!("{}{at}", site.function)].map(String::clone);
        for (nth, of) in site.values.iter().enumerate() {
            let (place, records) = match nth {
                0 => (place.clone(), number::count(site.records)),
                _ => Default::default(),
            };
            let values = [of.min, of.p50, of.p99, of.max].map(value);
            let row = place.into_iter().chain([of.name.clone(), records]).chain(values);
            cells.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        }
    }
    let [domain, advice, function, name, records, min, p50, p99, max] = cells;
    let about = [
        Column::names("Domain", domain),
        Column::names("Advice", advice),
        Column::names("Function", function),
        Column::names("Value", name),
    ];
    let columns = [
        Column::numbers("Records", records),
        Column::numbers("min", min),
        Column::numbers("p50", p50),
        Column::numbers("p99", p99),
        Column::numbers("max", max),
    ];
    let mut text = folded::text(&about, &columns, view);
    let left = stored.sites.len().saturating_sub(most);
    if left > 0 {
        let left = number::counted(left as u64, "other place", "other places");
        text.push_str(&format!("… and {left}: --all shows them\n"));
    }
    text
}

/// How many records have what in common, with a bar for each one's share; at most so many.
pub fn groups(stored: &Stored, heading: &str, most: usize, view: View) -> String {
    let total: u64 = stored.groups.iter().map(|group| group.records).sum::<u64>() + stored.ungrouped;
    // Values come as numbers.
    let called = |of: &Group| of.is.parse().map_or_else(|_| of.is.clone(), value);
    let rows = stored.groups.iter().take(most).map(|group| (called(group), group.records));
    let mut text = shares(heading, rows, total, view);
    let left = stored.groups.iter().skip(most).map(|group| group.records).sum::<u64>() + stored.ungrouped;
    if left > 0 {
        let left = number::counted(left, "record", "records");
        text.push_str(&format!("… and {left} with others: --all shows them\n"));
    }
    text
}

/// How many values there are between powers of two.
pub fn histogram(bits: &[u64], name: &str, view: View) -> String {
    let first = bits.iter().position(|count| *count > 0).unwrap_or(0);
    let last = bits.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    let between = |at: usize| match at {
        0 => "0".to_owned(),
        1 => "1".to_owned(),
        64.. => format!("[{}, …)", power(63)),
        // As bpftrace writes it: the upper one is not among them.
        _ => format!("[{}, {})", power(at - 1), power(at)),
    };
    let used = bits.iter().enumerate().take(last).skip(first);
    shares(name, used.map(|(at, count)| (between(at), *count)), bits.iter().sum(), view)
}

/// A row for each of these, with how many records it has and a bar for its share of all.
fn shares(heading: &str, rows: impl Iterator<Item = (String, u64)>, total: u64, view: View) -> String {
    let headings = [Heading(heading, false), Heading("Records", true), Heading("Share", false)];
    let rows =
        rows.map(|(name, records)| (vec![name, number::count(records)], records as f64 / total as f64));
    with_bars(&headings, rows, view)
}

/// A power of two, as sizes are written.
fn power(of: usize) -> String {
    let unit = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(of / 10).copied().unwrap_or_default();
    format!("{}{unit}", 1u64 << (of % 10))
}

/// Records one by one, in the order of their times; these since `start_ns`. Columns that there is no room for are left out,
/// the least telling first.
pub fn list(records: &[StoredRecord], start_ns: i64, view: View) -> String {
    let cells = |of: &dyn Fn(&StoredRecord) -> String| records.iter().map(of).collect::<Vec<_>>();
    let values = |record: &StoredRecord| {
        let values =
            record.values.iter().map(|(name, of)| table::unbroken(&format!("{name}={}", value(*of))));
        values.collect::<Vec<_>>().join(" ")
    };
    let mut about = vec![
        Column::numbers("Time (µs)", cells(&|record| number::micros(record.t_ns - start_ns))),
        Column::names("Domain", cells(&|record| record.domain.clone())),
        Column::names("Process", cells(&|record| format!("{}/{}", record.comm, record.tid))),
        Column::names("Function", cells(&|record| record.function.clone())),
        Column::names("Advice", cells(&|record| record.advice.clone())),
        Column::numbers("CPU", cells(&|record| record.cpu.to_string())),
    ];
    let values = [Column::prose("Values", cells(&values))];
    let least_wanted = (NEEDED..about.len()).rev();
    folded::leave_out(&mut about, least_wanted, &values, view);
    folded::text(&about, &values, view)
}

/// A stored value: an error (-11), an address of the kernel, else a number.
fn value(of: u64) -> String {
    match of.cast_signed() {
        // include/linux/err.h: MAX_ERRNO.
        error @ -4095..=-1 => error.to_string(),
        // arch/x86: the upper half is the kernel's.
        address if address < 0 => format!("{:#x}", address.cast_unsigned()),
        _ => number::count(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_errors_addresses_or_numbers() {
        assert_eq!(value(11u64.wrapping_neg()), "-11");
        assert_eq!(value(0xffff_8881_0000_4000), "0xffff888100004000");
        assert_eq!((value(0), value(65_536)), ("0".into(), "65 536".into()));
        assert_eq!((power(0), power(12), power(63)), ("1".into(), "4Ki".into(), "8Ei".into()));
    }
}
