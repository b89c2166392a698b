//! Makes the image and the process of `minios/` with Debian's gcc, and embeds them: xweave stays one program.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

// The library asks more of it.
#[allow(dead_code)]
#[path = "src/assembly.rs"]
mod assembly;
#[path = "src/table.rs"]
mod table;

/// Compiled for both; the very same objects.
const SHARED: [&str; 3] = ["measure.c", "report.c", "run.S"];
const PROCESS: [&str; 1] = ["process.c"];
const IMAGE: [&str; 7] =
    ["boot.S", "machine.c", "machine_probes.c", "pages.c", "xen.c", "xen_entry.S", "xen_probes.c"];

/// Freestanding, and no instruction that the machine might not have before the image has looked.
const COMPILE: [&str; 18] = [
    "-std=gnu11",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-pic",
    "-fno-pie",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-mno-red-zone",
    "-mgeneral-regs-only",
    "-mcmodel=small",
    "-fno-builtin",
    "-fno-tree-loop-distribute-patterns",
    "-c",
];

fn main() {
    if let Err(error) = make() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn make() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../minios").canonicalize()?;
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-env-changed=CC");

    let text = fs::read_to_string(sources.join("forms.table"))?;
    let forms = table::parse(&text)?;
    fs::write(out.join("forms.S"), assembly::file(&text, &forms)?)?;
    let forms = compile(&out.join("forms.S"), &sources, &out)?;
    let mut shared = vec![forms];
    for source in SHARED {
        shared.push(compile(&sources.join(source), &sources, &out)?);
    }
    link("process", &PROCESS, &shared, &sources, &out)?;
    link("image", &IMAGE, &shared, &sources, &out)
}

fn compiler() -> String {
    env::var("CC").unwrap_or_else(|_| "gcc".into())
}

fn compile(source: &Path, include: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let name = source.file_name().ok_or("a source without a name")?;
    let object =
        out.join(name).with_extension(format!("{}.o", source.extension().unwrap_or_default().display()));
    let mut command = Command::new(compiler());
    command.args(COMPILE).arg("-I").arg(include).arg(source).arg("-o").arg(&object);
    run(&mut command)?;
    Ok(object)
}

fn link(
    name: &str,
    own: &[&str],
    shared: &[PathBuf],
    sources: &Path,
    out: &Path,
) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(compiler());
    command.args(["-static", "-nostdlib", "-no-pie", "-Wl,--build-id=none", "-Wl,-z,max-page-size=4096"]);
    command.arg("-Wl,--no-warn-rwx-segments").arg("-s");
    command.arg("-T").arg(sources.join(format!("{name}.ld")));
    for source in own {
        command.arg(compile(&sources.join(source), sources, out)?);
    }
    run(command.args(shared).arg("-o").arg(out.join(name)))
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|e| format!("cannot start {}: {e}; on Debian: apt install gcc", compiler()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{shown}: {}\n{said}", output.status).into()) }
}
