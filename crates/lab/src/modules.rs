//! Kernel modules for an initramfs: which are needed, in which order, decompressed.
//!
//! Dependencies come from each module's own `.modinfo` section, so that no `depmod` is needed.

use crate::error::{At, Error, Result};
use crate::kernel::{BUILTIN, KernelFiles};
use crate::process::run;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A module ready to be inserted.
#[derive(Debug, Clone)]
pub struct Module {
    /// The name as `insmod` reports it, with `_`.
    pub name: String,
    /// The ELF object, decompressed.
    pub object: Vec<u8>,
}

/// The modules of one kernel.
pub struct Tree {
    /// Of each module, by name with `_`.
    files: HashMap<String, PathBuf>,
    builtin: HashSet<String>,
    kernel: String,
    /// The image of the kernel that they belong to.
    pub vmlinuz: PathBuf,
}

impl Tree {
    /// Reads the modules of a kernel.
    pub fn open(kernel: &KernelFiles) -> Result<Self> {
        let mut tree = Self::read(&kernel.modules, &kernel.kernel.package)?;
        tree.vmlinuz.clone_from(&kernel.vmlinuz);
        Ok(tree)
    }

    /// Reads `lib/modules/RELEASE` (`folder`). `kernel` names the package in errors.
    fn read(folder: &Path, kernel: &str) -> Result<Self> {
        let mut files = HashMap::new();
        let mut pending = vec![folder.join("kernel")];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(&dir).at("read", &dir)? {
                let path = entry.at("read", &dir)?.path();
                if path.is_dir() {
                    pending.push(path);
                } else if let Some(name) = module_name(&path) {
                    files.insert(name, path);
                }
            }
        }
        let list = folder.join(BUILTIN);
        let builtin = fs::read_to_string(&list)
            .at("read", &list)?
            .lines()
            .filter_map(|line| module_name(Path::new(line)))
            .collect();
        Ok(Self { files, builtin, kernel: kernel.to_owned(), vmlinuz: PathBuf::new() })
    }

    /// The modules `wanted` and all they depend on, each after those it needs. What is built into the kernel is left
    /// out, and so is a name with a `?` behind it that this kernel does not have.
    pub fn closure(&self, wanted: &[&str]) -> Result<Vec<Module>> {
        let mut done = HashSet::new();
        let mut order = Vec::new();
        for name in wanted {
            let (name, is_optional) = name.strip_suffix('?').map_or((*name, false), |name| (name, true));
            let name = name.replace('-', "_");
            if !is_optional || self.files.contains_key(&name) {
                self.visit(&name, &mut done, &mut order)?;
            }
        }
        Ok(order)
    }

    fn visit(&self, name: &str, done: &mut HashSet<String>, order: &mut Vec<Module>) -> Result<()> {
        if self.builtin.contains(name) || !done.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| Error::Kernel {
            package: self.kernel.clone(),
            missing: format!("module {name}"),
        })?;
        let object = decompressed(path)?;
        for dependency in depends(&object) {
            self.visit(&dependency, done, order)?;
        }
        order.push(Module { name: name.to_owned(), object });
        Ok(())
    }
}

fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (stem, rest) = file.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| stem.replace('-', "_"))
}

fn decompressed(path: &Path) -> Result<Vec<u8>> {
    let program = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).at("read", path),
    };
    let mut command = Command::new(program);
    command.arg("-dc").arg(path);
    run(&mut command, "decompressing a kernel module")
}

/// The dependencies in a module's `.modinfo`: `depends=a,b`, one NUL-terminated string.
///
/// A search for the string suffices: it is in every module exactly once (modpost writes it),
/// and always after a NUL or at the section's start.
fn depends(object: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = object.windows(KEY.len()).position(|w| w == KEY) else { return Vec::new() };
    let value = &object[at + KEY.len()..];
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end])
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_modinfo() {
        assert_eq!(
            depends(b"license=GPL\0depends=net-failover,failover\0name=x\0"),
            ["net_failover", "failover"]
        );
        assert!(depends(b"license=GPL\0depends=\0").is_empty());
        assert!(depends(b"").is_empty());
    }

    #[test]
    fn names_are_normal() {
        assert_eq!(module_name(Path::new("kernel/arch/x86/kvm/kvm-amd.ko.xz")).as_deref(), Some("kvm_amd"));
        assert_eq!(module_name(Path::new("modules.dep")), None);
    }

    #[test]
    fn closure_is_ordered_and_leaves_out_what_is_built_in() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("kernel");
        fs::create_dir(&kernel).unwrap();
        fs::write(kernel.join("a.ko"), b"x\0depends=b-b,c\0").unwrap();
        fs::write(kernel.join("b-b.ko"), b"x\0depends=d\0").unwrap();
        fs::write(kernel.join("d.ko"), b"x\0depends=\0").unwrap();
        fs::write(dir.path().join("modules.builtin"), "kernel/c.ko\n").unwrap();
        let tree = Tree::read(dir.path(), "test").unwrap();
        let names: Vec<_> = tree.closure(&["a", "d"]).unwrap().into_iter().map(|m| m.name).collect();
        assert_eq!(names, ["d", "b_b", "a"]);
        assert!(matches!(tree.closure(&["none"]), Err(Error::Kernel { .. })));
        assert_eq!(tree.closure(&["none?", "d?"]).unwrap().len(), 1);
    }
}
