//! The instructions that a pointcut selects.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use xweave_access::{Binding, Coverage, Place, Register, Site, Unresolved};
use xweave_text as text;

use crate::{View, document::sites::access_name, number};

/// What is told of an instruction. Of several that there is no room for, the last of these are left out first.
const COLUMNS: [&str; 7] = ["Instruction", "Access", "Member", "", "Base", "Bindings", "Source"];
const LEAST_WANTED: [usize; 3] = [4, 6, 5];

/// Instructions that touch members of structures, after what that says in a sentence, and how much of the program is
/// understood.
///
/// # Errors
///
/// What writing to `out` says.
pub fn table(out: &mut impl Write, sites: &[Site<'_>], coverage: Coverage, view: View) -> io::Result<()> {
    let untyped = untyped(coverage);
    writeln!(
        out,
        "{}",
        wrapped(
            &format!("{}; {untyped}: --unresolved lists them", sentence(sites.iter().map(Told::of))),
            view
        )
    )?;
    columns(out, COLUMNS, &LEAST_WANTED, sites, row, view)
}

/// Instructions of which it is not known what they touch, with the reason.
///
/// # Errors
///
/// As of [`table`].
pub fn unresolved(
    out: &mut impl Write,
    unresolved: &[Unresolved<'_>],
    coverage: Coverage,
    view: View,
) -> io::Result<()> {
    let row = |of: &Unresolved<'_>| [place(of.function, of.offset), of.reason.name().to_owned()];
    let here = number::counted(unresolved.len() as u64, "instruction touches", "instructions touch");
    let told = format!("{here} memory of unknown type; in all, {}", untyped(coverage));
    writeln!(out, "{}", wrapped(&told, view))?;
    columns(out, ["Instruction", "Why it is not known"], &[], unresolved, row, view)
}

/// What a sentence tells of an instruction.
struct Told<'a> {
    function: &'a str,
    structure: &'a str,
    member: &'a str,
    access: &'static str,
    certain: bool,
}

impl<'a> Told<'a> {
    fn of(site: &'a Site<'a>) -> Self {
        Self {
            function: site.function,
            structure: site.path.structure(),
            member: site.path.member(),
            access: access_name(site),
            certain: site.certain,
        }
    }
}

/// How many instructions do what, to which members, in how many functions.
fn sentence<'a>(sites: impl Iterator<Item = Told<'a>> + Clone) -> String {
    let Some(first) = sites.clone().next() else { return "no instruction is known to do that".to_owned() };
    let is = |access| sites.clone().any(|site| site.access == access);
    let verb = match (is("read"), is("write"), is("both")) {
        (true, false, false) => ["instruction reads", "instructions read"],
        (false, ..) => ["instruction writes", "instructions write"],
        (true, ..) => ["instruction accesses", "instructions access"],
    };
    let structures = sites.clone().map(|site| site.structure).collect::<BTreeSet<_>>().len();
    let members = sites.clone().map(|site| (site.structure, site.member)).collect::<BTreeSet<_>>().len();
    let what = match (structures, members) {
        (_, 1) => format!("{}.{}", first.structure, first.member),
        (1, many) => format!("{} members of {}", number::count(many as u64), first.structure),
        (many, _) => format!("members of {} structures", number::count(many as u64)),
    };
    let functions = match sites.clone().map(|site| site.function).collect::<BTreeSet<_>>().len() {
        1 => first.function.to_owned(),
        many => format!("{} functions", number::count(many as u64)),
    };
    let count = sites.clone().count() as u64;
    let mut told = format!("{} {what} in {functions}", number::counted(count, verb[0], verb[1]));
    let possible = sites.filter(|site| !site.certain).count() as u64;
    if possible > 0 {
        told.push_str(&format!(" ({} only possibly)", number::count(possible)));
    }
    text::printable(&told).into_owned()
}

/// How much of the program is not understood.
fn untyped(coverage: Coverage) -> String {
    let all = coverage.memory_instructions;
    let share = 100.0 * (all.saturating_sub(coverage.typed)) as f64 / all.max(1) as f64;
    format!("{share:.0} % of the program's {} memory instructions are untyped", number::count(all))
}

/// A sentence in lines that fit.
fn wrapped(sentence: &str, view: View) -> String {
    let mut lines = vec![String::new()];
    for word in sentence.split(' ') {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > usize::from(view.width) {
            lines.push(word.to_owned());
        } else if let Some(last) = lines.last_mut() {
            last.push_str(if line > 0 { " " } else { "" });
            last.push_str(word);
        }
    }
    lines.join("\n")
}

/// Names are looked for and cut out of lines, which must not be broken: where the view has no room for all columns, those
/// that are least wanted are left out, and what is left stays as wide as it is. A kernel has a million rows, so each is
/// made twice, for the columns' widths and to be written, and none is kept.
fn columns<T, const N: usize>(
    out: &mut impl Write,
    headings: [&str; N],
    least_wanted: &[usize],
    of: &[T],
    row: impl Fn(&T) -> [String; N],
    view: View,
) -> io::Result<()> {
    if of.is_empty() {
        return Ok(());
    }
    // Names are those of functions, files and variables of a program that anybody may have made.
    let rows = || of.iter().map(|of| row(of).map(|cell| text::printable(&cell).into_owned()));
    let mut widths = [0; N];
    for row in rows() {
        for (width, cell) in widths.iter_mut().zip(&row) {
            *width = cell.chars().count().max(*width);
        }
    }
    // A column in which nothing is, is left out.
    let mut columns: Vec<_> = (0..N)
        .filter(|column| widths[*column] > 0)
        .map(|column| (column, widths[column].max(headings[column].chars().count())))
        .collect();
    let left_out = narrow(&mut columns, least_wanted, usize::from(view.width));
    writeln!(out)?;
    for row in std::iter::once(headings.map(str::to_owned)).chain(rows()) {
        let cells = columns.iter().map(|(column, width)| format!("{:<width$}", row[*column]));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(GAP).trim_end())?;
    }
    if !left_out.is_empty() {
        let names: Vec<_> = left_out.iter().map(|column| headings[*column]).collect();
        writeln!(out, "\nnot shown in {} columns: {} (a pipe has all)", view.width, names.join(", "))?;
    }
    Ok(())
}

/// What stands between columns.
const GAP: &str = "  ";

/// Takes away columns that there is no room for, and says which.
fn narrow(columns: &mut Vec<(usize, usize)>, least_wanted: &[usize], width: usize) -> Vec<usize> {
    let wide = |columns: &[(usize, usize)]| {
        columns.iter().map(|(_, width)| width + GAP.len()).sum::<usize>().saturating_sub(GAP.len())
    };
    let mut left_out = Vec::new();
    for unwanted in least_wanted {
        if wide(columns) <= width {
            break;
        }
        if let Some(at) = columns.iter().position(|(column, _)| column == unwanted) {
            left_out.push(columns.remove(at).0);
        }
    }
    left_out
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: u16) -> String {
        let rows = [
            [
                "tcp_send_rcvq+0x91",
                "write",
                "sk_buff.len",
                "",
                "rbp",
                "skb = rbp",
                "net/ipv4/tcp_input.c:5249",
            ],
            [
                "tcp_data_queue+0x8b",
                "write",
                "sk_buff.len",
                "possible",
                "r12",
                "skb = r12",
                "include/linux/skbuff.h:2776",
            ],
        ];
        let mut text = Vec::new();
        let row = |row: &[&str; 7]| row.map(str::to_owned);
        columns(&mut text, COLUMNS, &LEAST_WANTED, &rows, row, View { width, color: false }).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_whole_names() {
        let narrow = "
Instruction          Access  Member                 Bindings
tcp_send_rcvq+0x91   write   sk_buff.len            skb = rbp
tcp_data_queue+0x8b  write   sk_buff.len  possible  skb = r12

not shown in 80 columns: Base, Source (a pipe has all)
";
        assert_eq!(shown(80), narrow);
        let wide = "
Instruction          Access  Member                 Base  Bindings   Source
tcp_send_rcvq+0x91   write   sk_buff.len            rbp   skb = rbp  net/ipv4/tcp_input.c:5249
tcp_data_queue+0x8b  write   sk_buff.len  possible  r12   skb = r12  include/linux/skbuff.h:2776
";
        assert_eq!(shown(160), wide);
    }

    #[test]
    fn what_is_selected_is_told_in_a_sentence() {
        let told = |function, member, access, certain| Told {
            function,
            structure: "sk_buff",
            member,
            access,
            certain,
        };
        let of = |all: &[Told<'_>]| sentence(all.iter().map(|one| Told { ..*one }));
        let writes = [told("tcp_ack", "len", "write", true), told("tcp_rcv", "len", "write", true)];
        assert_eq!(of(&writes), "2 instructions write sk_buff.len in 2 functions");
        assert_eq!(of(&writes[..1]), "1 instruction writes sk_buff.len in tcp_ack");
        let also = [told("tcp_ack", "len", "write", true), told("tcp_ack", "len", "both", true)];
        assert_eq!(of(&also), "2 instructions write sk_buff.len in tcp_ack");
        let both = [told("tcp_ack", "len", "read", true), told("tcp_ack", "data", "both", false)];
        assert_eq!(of(&both), "2 instructions access 2 members of sk_buff in tcp_ack (1 only possibly)");
        assert_eq!(of(&[]), "no instruction is known to do that");
    }

    #[test]
    fn a_sentence_is_in_lines_that_fit() {
        let text = wrapped("no word of it is broken", View { width: 10, color: false });
        assert_eq!(text, "no word of\nit is\nbroken");
    }
}
