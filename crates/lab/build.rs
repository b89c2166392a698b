//! Compiles QEMU's plugin (`qemu/patched_code.c`), and embeds it: xweave stays one program.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

const PLUGIN: &str = "qemu/patched_code.c";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PLUGIN}");
    println!("cargo:rerun-if-env-changed=CC");
    let compiler = env::var("CC").unwrap_or_else(|_| "gcc".into());
    let mut command = Command::new(&compiler);
    command.args(["-std=gnu11", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]);
    command.args(["-ffreestanding", "-fPIC", "-shared", "-nostdlib", "-s", "-Wl,--build-id=none"]);
    command.arg(PLUGIN).arg("-o").arg(PathBuf::from(env::var("OUT_DIR")?).join("patched_code.so"));
    let output =
        command.output().map_err(|e| format!("cannot start {compiler}: {e}; on Debian: apt install gcc"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}
