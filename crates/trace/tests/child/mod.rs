//! A test whose body runs in a process of its own, for what is a whole process's: limits, above all.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

use std::{env, process::Command};

/// Whether this is the process in which the test of that name is to be done. In the other, which is the test program,
/// that process is started, and has succeeded when this returns.
pub fn in_child(test: &str) -> bool {
    const ALONE: &str = "XWEAVE_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{}: {out}{err}", output.status);
    false
}
