//! The instructions that a pointcut selects.

use std::io::{self, Write};

use xweave_access::{Binding, Coverage, Place, Register, Site, Unresolved};
use xweave_text as text;

use crate::document::sites::access_name;

/// Instructions that touch members of structures, and how much of the program is understood.
///
/// # Errors
///
/// What writing to `out` says.
pub fn table(out: &mut impl Write, sites: &[Site<'_>], coverage: Coverage) -> io::Result<()> {
    let headings = ["Instruction", "Access", "Member", "", "Base", "Bindings", "Source"];
    columns(out, &headings, sites, row, coverage)
}

/// Instructions of which it is not known what they touch, with the reason.
///
/// # Errors
///
/// As of [`table`].
pub fn unresolved(out: &mut impl Write, unresolved: &[Unresolved<'_>], coverage: Coverage) -> io::Result<()> {
    let row = |of: &Unresolved<'_>| [place(of.function, of.offset), of.reason.name().to_owned()];
    columns(out, &["Instruction", "Why it is not known"], unresolved, row, coverage)
}

/// Wide tables stay wide: names are looked for and cut out of lines, which must not be broken. A kernel has a million
/// rows, so each is made twice, for the columns' widths and to be written, and none is kept.
fn columns<T, const N: usize>(
    out: &mut impl Write,
    headings: &[&str; N],
    of: &[T],
    row: impl Fn(&T) -> [String; N],
    coverage: Coverage,
) -> io::Result<()> {
    // Names are those of functions, files and variables of a program that anybody may have made.
    let rows = || of.iter().map(|of| row(of).map(|cell| text::printable(&cell).into_owned()));
    let mut widths = [0; N];
    for row in rows() {
        for (width, cell) in widths.iter_mut().zip(&row) {
            *width = cell.chars().count().max(*width);
        }
    }
    // A column in which nothing is, is left out.
    let columns: Vec<_> = (0..N)
        .filter(|column| widths[*column] > 0)
        .map(|column| (column, widths[column].max(headings[column].chars().count())))
        .collect();
    let headings = headings.map(str::to_owned);
    for row in std::iter::once(headings).chain(rows()).filter(|_| !of.is_empty()) {
        let cells = columns.iter().map(|(column, width)| format!("{:<width$}", row[*column]));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    if !of.is_empty() {
        writeln!(out)?;
    }
    let typed = 100.0 * coverage.typed as f64 / coverage.memory_instructions.max(1) as f64;
    writeln!(
        out,
        "{} of them; of the program's {} instructions that touch memory, {typed:.1} % are typed",
        of.len(),
        coverage.memory_instructions,
    )
}

fn row(site: &Site<'_>) -> [String; 7] {
    [
        place(site.function, site.offset),
        access_name(site).to_owned(),
        format!("{}.{}", site.path.structure(), site.path.member()),
        if site.certain { "" } else { "possible" }.to_owned(),
        site.base.map_or_else(String::new, |(register, add)| sum(register, add)),
        site.bindings.iter().map(binding).collect::<Vec<_>>().join(", "),
        site.line.map_or_else(String::new, |(file, line)| format!("{file}:{line}")),
    ]
}

fn binding(binding: &Binding<'_>) -> String {
    let name = binding.name;
    match binding.place {
        Place::Register { register, add } => format!("{name} = {}", sum(register, add)),
        Place::Memory { register, add } => format!("{name} = *({})", sum(register, add)),
        Place::Constant(constant) => match i32::try_from(constant.cast_signed()) {
            Ok(small) => format!("{name} = {small}"),
            Err(_) => format!("{name} = {constant:#x}"),
        },
    }
}

fn sum(register: Register, add: i32) -> String {
    match add {
        0 => register.name().to_owned(),
        add => format!("{register}{add:+}"),
    }
}

fn place(function: &str, offset: u32) -> String {
    format!("{function}+{offset:#x}")
}
