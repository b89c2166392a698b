//! What a debugger cannot make the confined commands do: the table of the lab's kernels is made by the same code.

#[path = "../taken_over/table.rs"]
mod table;

use std::{collections::BTreeSet, path::Path};

use table::Landlock;

#[test]
fn a_confined_command_that_is_taken_over_reaches_nothing_but_its_files() {
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIPPED: taking over commands: the debugger of another user's processes is root");
        return;
    }
    for landlock in [Landlock::AsItIs, Landlock::Without] {
        let rows = table::table(Path::new(env!("CARGO_BIN_EXE_xweave")), landlock);
        println!("{landlock:?}\n{}", table::shown(&rows));
        table::assert_refused(&rows);
        let calls: usize = table::victims(landlock).map(|victim| table::calls(victim).count()).sum();
        let victims: BTreeSet<_> = rows.iter().map(|row| row.victim).collect();
        // Of which docs/confinement.md tells.
        assert_eq!((rows.len(), table::CALLS.len()), (calls, 100));
        assert!(victims.len() >= 11, "{victims:?}");
    }
}
