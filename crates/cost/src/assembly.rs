//! From the table to assembly: for each form the machine code of one repetition or one round of registers,
//! which the image and the process copy as often as they measure it.

use std::fmt::Write;

use crate::table::{Form, fingerprint};

/// Written in turn where each repetition has a register of its own; `rax` also in chains.
const WRITTEN: [&str; 8] = ["rax", "rdx", "rdi", "rbp", "r8", "r9", "r10", "r11"];
/// A source that nothing writes.
const SOURCE: &str = "rbx";
/// A source that is what is written, in chains.
const CHAINED: &str = "rsi";
/// Of the sixteen vector registers, these are written in turn; 12 and 13 are the sources.
const VECTORS: usize = 12;
/// Of the eight of MMX.
const MMX: usize = 6;
/// Of the x87 stack, `st(1)` to `st(7)`.
const X87: usize = 7;

/// What repetitions are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Each repetition has registers of its own.
    Throughput,
    /// Each waits for the one before.
    Latency,
}

/// A form whose places for registers cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{form}`: {problem}")]
pub struct FormError {
    /// Its name.
    pub form: String,
    /// What is wrong with it.
    #[source]
    pub problem: Unfilled,
}

/// Why a place for a register is not filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfilled {
    /// It does not end.
    #[error("a `{{` without its `}}`")]
    Open,
    /// Nothing is called so.
    #[error("`{{{0}}}` is no place for an operand")]
    Unknown(String),
}

/// The whole assembly file, for GNU as.
///
/// It defines `forms`, an array of `struct form` (`minios/measure.h`), `form_count` and `form_fingerprint`.
/// Fails on a place for a register that does not exist.
pub fn file(text: &str, forms: &[Form]) -> Result<String, FormError> {
    let mut code = String::from("\t.intel_syntax noprefix\n\t.section .forms, \"aw\"\n");
    let mut rows = String::new();
    for (number, form) in forms.iter().enumerate() {
        let form_row = row(&mut code, number, form);
        rows.push_str(&form_row.map_err(|problem| FormError { form: form.name.clone(), problem })?);
    }
    let _ = writeln!(code, "\t.balign 16\n\t.globl forms, form_count, form_fingerprint\nforms:\n{rows}");
    let _ = writeln!(code, "form_count: .long {}", forms.len());
    let _ = writeln!(code, "form_fingerprint: .long {:#x}", fingerprint(text));
    code.push_str("\t.section .note.GNU-stack, \"\", @progbits\n");
    Ok(code)
}

/// What is repeated, as text: `None` where there is nothing of that purpose, or a function measures by itself.
/// With it, how many instructions of the form it holds.
pub fn listing(form: &Form, purpose: Purpose) -> Option<(String, usize)> {
    if form.probe {
        return None;
    }
    match purpose {
        Purpose::Throughput => unit(&form.code, purpose, form.serial).ok(),
        Purpose::Latency => unit(form.chain.as_ref()?, purpose, false).ok(),
    }
}

/// Flags of a form; `minios/measure.h` has the same.
const SERIAL: u32 = 1;
const FEW: u32 = 2;
const DOUBLES: u32 = 4;
const RING0: u32 = 8;
const XEN: u32 = 16;
const KVM: u32 = 32;
const BARE: u32 = 64;
const AVX: u32 = 128;

fn flags(form: &Form) -> u32 {
    let machine = |feature: &String| match feature.as_str() {
        "ring0" => RING0,
        "xen" => XEN,
        "kvm" => KVM,
        "bare" => BARE,
        "avx" | "avx2" | "fma" | "f16c" => AVX,
        _ => 0,
    };
    let needs = form.needs.iter().map(machine).fold(0, |all, one| all | one);
    needs
        | if form.serial { SERIAL } else { 0 }
        | if form.few { FEW } else { 0 }
        | if form.doubles { DOUBLES } else { 0 }
}

/// Writes a form's code, and returns its row of the array.
fn row(code: &mut String, number: usize, form: &Form) -> Result<String, Unfilled> {
    let flags = flags(form);
    if form.probe {
        // Weak: the process has none of the image's functions.
        return Ok(format!(
            "\t.weak {0}\n\t.quad {0}, 0, 0, 0\n\t.short 0, 0, 0, 0, 0, 0\n\t.long {flags}\n",
            form.code
        ));
    }
    let (throughput, repetitions) = unit(&form.code, Purpose::Throughput, form.serial)?;
    let chain = form.chain.as_ref().map(|chain| unit(chain, Purpose::Latency, false)).transpose()?;
    let (chain, _) = chain.unwrap_or_default();
    for (name, part) in [("t", &throughput), ("l", &chain), ("s", &form.setup), ("a", &form.after)] {
        let _ = writeln!(code, "{name}{number}: {part}\ne{name}{number}:");
    }
    let size = |name: &str| format!("e{name}{number} - {name}{number}");
    Ok(format!(
        "\t.quad t{number}, l{number}, s{number}, a{number}\n\t.short {}, {}, {}, {}, {repetitions}, {}\n\t.long {flags}\n",
        size("t"),
        size("l"),
        size("s"),
        size("a"),
        form.counts
    ))
}

/// One round through all registers, as many repetitions as there are; in a chain, one.
fn unit(template: &str, purpose: Purpose, serial: bool) -> Result<(String, usize), Unfilled> {
    let repetitions = if purpose == Purpose::Latency || serial { 1 } else { registers(template) };
    let each: Result<Vec<String>, Unfilled> =
        (0..repetitions).map(|at| fill(template, purpose, at)).collect();
    Ok((each?.join("; "), repetitions))
}

/// How many registers are written in turn: the most of the kinds that occur.
fn registers(template: &str) -> usize {
    let has = |width: &str| template.contains(&format!("{{a{width}}}"));
    let any = |places: &[&str]| places.iter().any(|width| has(width));
    if any(&["s"]) {
        X87
    } else if any(&["m"]) {
        MMX
    } else if any(&["8", "16", "32", "64"]) || template.contains("{m}") || template.contains("{n}") {
        WRITTEN.len()
    } else if any(&["x", "y"]) {
        VECTORS
    } else {
        1
    }
}

/// Puts registers into the places of a template.
fn fill(template: &str, purpose: Purpose, at: usize) -> Result<String, Unfilled> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}').ok_or(Unfilled::Open)?;
        text.push_str(before);
        text.push_str(&operand(place, purpose, at)?);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn operand(place: &str, purpose: Purpose, at: usize) -> Result<String, Unfilled> {
    let chain = purpose == Purpose::Latency;
    match place {
        "m" => return Ok(format!("[r14+{:#x}]", 0x100 + 8 * at)),
        "n" => return Ok(if chain { "1".into() } else { at.to_string() }),
        _ => {}
    }
    let unknown = || Unfilled::Unknown(place.to_owned());
    let (role, width) = place.split_at_checked(1).ok_or_else(unknown)?;
    let pointer = |width| match width {
        "8" => Some("byte ptr"),
        "16" => Some("word ptr"),
        "32" => Some("dword ptr"),
        "64" => Some("qword ptr"),
        _ => None,
    };
    if role == "p" {
        return pointer(width).map(str::to_owned).ok_or_else(unknown);
    }
    // In a chain, the chained source is what is written, whatever the repetition.
    let role = if role == "c" && chain { "a" } else { role };
    let pick = |written: usize, source: usize, chained: usize| match role {
        "a" => Some(at % written),
        "b" => Some(source),
        "c" => Some(chained),
        _ => None,
    };
    match width {
        "8" | "16" | "32" | "64" => {
            let register = match role {
                "a" => WRITTEN[at % WRITTEN.len()],
                "b" => SOURCE,
                "c" => CHAINED,
                _ => return Err(unknown()),
            };
            narrow(register, width).ok_or_else(unknown)
        }
        "x" | "y" => pick(VECTORS, 12, 13).map(|register| format!("{width}mm{register}")).ok_or_else(unknown),
        "m" => pick(MMX, 6, 7).map(|register| format!("mm{register}")).ok_or_else(unknown),
        "s" => pick(X87, 0, 0).map(|register| format!("st({})", register + 1)).ok_or_else(unknown),
        _ => Err(unknown()),
    }
}

/// A general register's name for so many bits.
fn narrow(register: &str, width: &str) -> Option<String> {
    let stem = register.strip_prefix('r')?;
    let numbered = stem.bytes().all(|byte| byte.is_ascii_digit());
    let name = match (width, numbered) {
        ("64", _) => register.to_owned(),
        ("32", true) => format!("{register}d"),
        ("16", true) => format!("{register}w"),
        ("8", true) => format!("{register}b"),
        ("32", false) => format!("e{stem}"),
        ("16", false) => stem.to_owned(),
        ("8", false) => match stem.strip_suffix('x') {
            Some(letter) => format!("{letter}l"),
            None => format!("{stem}l"),
        },
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parse;

    fn form(line: &str) -> Form {
        parse(&format!("group g\n{line}")).unwrap().remove(0)
    }

    #[test]
    fn independent_repetitions_have_registers_of_their_own() {
        let add = form("add | add {a64}, {b32} | ");
        let (code, repetitions) = listing(&add, Purpose::Throughput).unwrap();
        assert_eq!(repetitions, 8);
        assert!(
            code.starts_with("add rax, ebx; add rdx, ebx; add rdi, ebx; add rbp, ebx; add r8, ebx"),
            "{code}"
        );
        assert_eq!(listing(&add, Purpose::Latency).unwrap(), ("add rax, ebx".to_owned(), 1));
    }

    #[test]
    fn a_chained_source_is_what_is_written_in_a_chain_only() {
        let shuffle = form("pshufd | pshufd {ax}, {cx}, 1 | ");
        assert_eq!(listing(&shuffle, Purpose::Latency).unwrap().0, "pshufd xmm0, xmm0, 1");
        let (code, repetitions) = listing(&shuffle, Purpose::Throughput).unwrap();
        assert_eq!((repetitions, code.contains("pshufd xmm11, xmm13, 1")), (12, true));
        let memory = form("inc | inc {p16} {m} | ");
        assert!(listing(&memory, Purpose::Throughput).unwrap().0.contains("inc word ptr [r14+0x138]"));
        assert_eq!(listing(&memory, Purpose::Latency).unwrap().0, "inc word ptr [r14+0x100]");
    }

    #[test]
    fn what_serialises_is_one_repetition_and_a_probe_has_none() {
        assert_eq!(listing(&form("x | rdrand {a64} | - | serial"), Purpose::Throughput).unwrap().1, 1);
        assert_eq!(listing(&form("x | cld | -"), Purpose::Latency), None);
        assert_eq!(listing(&form("x | probe_x | - | probe"), Purpose::Throughput), None);
    }

    #[test]
    fn registers_have_a_name_for_each_width() {
        let names = |register| ["8", "16", "32", "64"].map(|width| narrow(register, width).unwrap());
        assert_eq!(names("rax"), ["al", "ax", "eax", "rax"]);
        assert_eq!(names("rsi"), ["sil", "si", "esi", "rsi"]);
        assert_eq!(names("r10"), ["r10b", "r10w", "r10d", "r10"]);
    }

    #[test]
    fn a_place_that_is_none_is_named() {
        for (line, problem) in [
            ("x | mov {q8}, 1 | -", "`{q8}` is no place for an operand"),
            ("x | mov {a128}, 1 | -", "`{a128}` is no place for an operand"),
            ("x | mov {a8, 1 | -", "a `{` without its `}`"),
        ] {
            assert_eq!(file("", &[form(line)]).unwrap_err().to_string(), format!("`x`: {problem}"));
        }
    }

    #[test]
    fn the_project_s_own_table_has_a_row_for_each_form() {
        let text = file(crate::TABLE, crate::forms()).unwrap();
        assert_eq!(text.matches("\t.quad ").count(), crate::forms().len());
        assert!(text.contains(&format!("form_fingerprint: .long {:#x}", crate::fingerprint())));
    }
}
