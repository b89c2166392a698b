//! The instructions that a pointcut selects.

use xweave_access::{Binding, Coverage, Place, Site, Unresolved};
use xweave_text as text;

use crate::document::sites::access_name;

/// Instructions that touch members of structures, and how much of the program is understood.
pub fn table(sites: &[Site<'_>], coverage: Coverage) -> String {
    let headings = ["Instruction", "Access", "Member", "", "Base", "Bindings", "Source"];
    columns(&headings, &sites.iter().map(row).collect::<Vec<_>>(), coverage)
}

/// Instructions of which it is not known what they touch, with the reason.
pub fn unresolved(unresolved: &[Unresolved<'_>], coverage: Coverage) -> String {
    let row = |of: &Unresolved<'_>| [place(of.function, of.offset), of.reason.name().to_owned()];
    let headings = ["Instruction", "Why it is not known"];
    columns(&headings, &unresolved.iter().map(row).collect::<Vec<_>>(), coverage)
}

/// Wide tables stay wide: names are looked for and cut out of lines, which must not be broken.
fn columns<const N: usize>(headings: &[&str; N], rows: &[[String; N]], coverage: Coverage) -> String {
    // Names are those of functions, files and variables of a program that anybody may have made.
    let fit = |row: &[String; N]| row.each_ref().map(|cell| text::printable(cell).into_owned());
    let rows: Vec<[String; N]> = rows.iter().map(fit).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    // A column in which nothing is, is left out.
    let filled = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<_> = (0..N).filter(filled).map(|column| (column, width(column))).collect();
    let mut text = String::new();
    let headings = headings.map(str::to_owned);
    for row in [&headings].into_iter().chain(&rows).filter(|_| !rows.is_empty()) {
        let cells = columns.iter().map(|(column, width)| format!("{:<width$}", row[*column]));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    if !rows.is_empty() {
        text.push('\n');
    }
    let typed = 100.0 * coverage.typed as f64 / coverage.memory_instructions.max(1) as f64;
    text.push_str(&format!(
        "{} of them; of the program's {} instructions that touch memory, {typed:.1} % are typed\n",
        rows.len(),
        coverage.memory_instructions,
    ));
    text
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

fn sum(register: &str, add: i32) -> String {
    match add {
        0 => register.to_owned(),
        add => format!("{register}{add:+}"),
    }
}

fn place(function: &str, offset: u32) -> String {
    format!("{function}+{offset:#x}")
}
