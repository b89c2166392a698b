//! What a kernel's verifier says of a program, as a mistake in the aspect that the program was made of.

use xweave_aspect::{Aspects, Diagnostic, Span};
use xweave_wire::plan::PlanProgram;

use crate::{Woven, lines};

/// What the verifier complains of, and what to do about it.
const REMEDIES: [(&[&str], &str); 5] = [
    (
        &["invalid mem access", "access user memory", "untrusted_ptr"],
        "the kernel does not know what this pointer points to: read through it with READ(…), as in READ(p->member), \
         or with READ_USER(…) if it is an address of a process",
    ),
    (
        &["too many instructions", "program is too large", "infinite loop", "back-edge", "is too complex"],
        "the kernel cannot see that this ends soon: bound the loop by a constant, as in \
         for (int i = 0; i < 64 && i < n; i++)",
    ),
    (
        &["invalid access to map value", "min value is negative", "unbounded", "invalid variable-offset"],
        "the kernel cannot see that this stays within the array: compare the index with the size first, as in \
         if (i < 8)",
    ),
    (
        &["unknown func", "cannot use helper", "not allowed"],
        "this kernel does not allow that function at such a place: do without it, or hook another function",
    ),
    (
        &["stack", "invalid indirect read"],
        "a variable is read before it has a value, or more is stored than fits",
    ),
];

/// The mistake, in the line of the user's that the refused instruction is of, or else in the clause; none if what is
/// said is not of a program of this plan. It is an agent's words: anything.
pub fn refusal(aspects: &Aspects, woven: &Woven, release: &str, said: &str) -> Option<Diagnostic> {
    let program = program(woven, said)?;
    let site = program.sites.first()?;
    let info = woven.sites.iter().find(|info| info.site == site.site)?;
    let verdict = verdict(said)?;
    let message = format!(
        "the verifier of domain `{}` (kernel {release}) refuses `{}` at `{}`: {verdict}",
        woven.domain, info.clause, site.function
    );
    let nth = usize::try_from(program.object).ok()?;
    let object = woven.plan.objects.get(nth)?;
    let line = instruction(said).and_then(|nth| lines::of(object, &program.name, nth));
    let source = |file: usize| woven.line_sources.get(nth)?.get(file).copied().flatten();
    let span = match line.and_then(|place| Some((source(place.file)?, place))) {
        Some((file, place)) => Span { file, line: place.line, column: place.column, length: 1 },
        None => Span {
            file: aspects.sources.iter().position(|source| source.name == info.aspect)?,
            line: info.aspect_line,
            column: 1,
            length: 1,
        },
    };
    let diagnostic = aspects.error(span, message);
    let remedy = REMEDIES.iter().find(|(words, _)| words.iter().any(|word| verdict.contains(word)));
    Some(match remedy {
        Some((_, remedy)) => diagnostic.with_help(*remedy),
        None => diagnostic,
    })
}

/// The program that was refused: libbpf calls it by its name, and an agent by what it was made of.
fn program<'w>(woven: &'w Woven, said: &str) -> Option<&'w PlanProgram> {
    let named = said.lines().filter_map(|line| line.split_once("prog '")?.1.split_once('\''));
    let names: Vec<_> = named.map(|(name, _)| name).collect();
    let programs = &woven.plan.programs;
    let by_name = programs.iter().find(|of| {
        names.iter().any(|name| of.name == *name || of.saver.as_deref().is_some_and(|saver| saver == *name))
    });
    by_name
        .or_else(|| programs.iter().find(|of| said.contains(&format!("the program of {} for ", of.origin))))
}

/// The number of the last instruction that the verifier looked at: `68: (71) r1 = *(u8 *)(r1 +0)`.
fn instruction(said: &str) -> Option<usize> {
    said.lines().rev().find_map(|line| {
        let (number, rest) = line.trim_start().split_once(": ")?;
        rest.starts_with('(').then(|| number.parse().ok())?
    })
}

/// The verifier's reason: what it says last, before it shows the states of a loop and counts what it has done.
fn verdict(said: &str) -> Option<&str> {
    let is_reason = |line: &&str| {
        let frame = [
            "libbpf:",
            "-- ",
            "processed ",
            "verification time",
            "stack depth",
            ";",
            "mark_precise",
            // kernel/bpf/verifier.c, is_state_visited, since 6.3
            "cur state:",
            "old state:",
        ];
        !line.is_empty() && !frame.iter().any(|begin| line.starts_with(begin))
    };
    said.lines().rev().map(str::trim).find(is_reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_comes_before_the_states_of_a_loop() {
        let said = "the kernel refused the program of loop for f4:\n\
                    12: (05) goto pc-3\n\
                    infinite loop detected at insn 9\n\
                    cur state: R0=0 R1=ctx() R10=fp0\n\
                    old state: R0=0 R1=ctx() R10=fp0\n\
                    processed 41 insns (limit 1000000) max_states_per_insn 0 total_states 2\n\
                    -- END PROG LOAD LOG --\n";
        assert_eq!(verdict(said), Some("infinite loop detected at insn 9"));
        assert_eq!(instruction(said), Some(12));
    }
}
