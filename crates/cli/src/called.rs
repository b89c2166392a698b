//! What this process is called by its kernel, and so in what is recorded.

use std::fs;

/// Has it called so from now on; if it may not say so, it is called as before.
pub fn this_process(name: &str) {
    let _ = fs::write("/proc/self/comm", name);
}
