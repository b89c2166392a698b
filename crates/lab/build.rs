//! Compiles QEMU's plugins (`qemu/*.c`), which are embedded: xweave stays one program.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLUGINS: [&str; 2] = ["patched_code", "deep_idle"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=qemu");
    println!("cargo:rerun-if-env-changed=CC");
    let compiler = env::var("CC").unwrap_or_else(|_| "gcc".into());
    let to = PathBuf::from(env::var("OUT_DIR")?);
    for plugin in PLUGINS {
        compile(&compiler, &format!("qemu/{plugin}.c"), &to.join(plugin).with_extension("so"))?;
    }
    Ok(())
}

fn compile(compiler: &str, source: &str, to: &Path) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]);
    command.args(["-ffreestanding", "-fPIC", "-shared", "-nostdlib", "-s", "-Wl,--build-id=none"]);
    command.arg(source).arg("-o").arg(to);
    let output =
        command.output().map_err(|e| format!("cannot start {compiler}: {e}; on Debian: apt install gcc"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}
