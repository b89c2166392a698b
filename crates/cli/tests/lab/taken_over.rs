//! What a debugger cannot make the confined commands do, on the lab's kernels.

#[path = "../taken_over/table.rs"]
mod table;

use std::{env, path::Path};

use crate::world::World;
use table::Landlock;

/// Names the program, for this test inside of the world.
const INSIDE: &str = "XWEAVE_TAKES_OVER";

/// It takes itself along: a debugger of processes there is a process there.
#[test]
#[ignore = "minutes: make lab-test"]
fn commands_that_are_taken_over_reach_nothing_on_this_kernel_either() {
    if let Some(program) = env::var_os(INSIDE) {
        for landlock in [Landlock::AsItIs, Landlock::Without] {
            let rows = table::table(Path::new(&program), landlock);
            println!("{landlock:?}\n{}", table::shown(&rows));
            table::assert_refused(&rows);
        }
        return;
    }
    let Some(world) = World::as_it_is("taking commands over") else { return };
    let own = env::current_exe().unwrap();
    world.push("host", &own, "/tmp/taken-over");
    let test = "taken_over::commands_that_are_taken_over_reach_nothing_on_this_kernel_either";
    let printed = world.run(
        "host",
        &format!(
            "{INSIDE}=$(command -v xweave) /tmp/taken-over --exact {test} --include-ignored --nocapture 2>&1"
        ),
    );
    let tables = printed.lines().filter(|line| line.starts_with("openat(/etc/shadow)")).count();
    assert_eq!(tables, 2, "{printed}");
    println!("{}\n{printed}", world.run("host", "uname -r").trim());
}
