//! Whether the modules that kprobes were put into are still the ones they were put into.
//!
//! A kprobe does not hold the module that it lies in: when that is unloaded, the kernel ends the probe without a
//! word (`kprobes_module_callback` of kernel/kprobes.c, 6.1 and 6.12), and when it is loaded again, its code lies
//! elsewhere. Hooks at functions and tracepoints do hold it, on both kernels: it cannot be unloaded under them
//! (`bpf_trampoline_module_get`, from 6.3 `bpf_check_attach_target`; `bpf_get_raw_tracepoint`).

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use xweave_wire::{
    message::{SkippedSite, Unloaded},
    plan::{Hook, Plan},
};

/// Where the kernel shows loaded modules, a folder each.
const FOLDER: &str = "/sys/module";

/// The modules that a plan puts kprobes into, as they were when this was made.
#[derive(Default)]
pub(crate) struct ModuleWatch {
    folder: PathBuf,
    modules: Vec<Module>,
}

struct Module {
    name: String,
    /// Which loading of it this is; none if it was not there.
    instance: Option<u64>,
    sites: Vec<u32>,
}

impl ModuleWatch {
    /// To be made before addresses are looked up: what holds of the same loading afterwards held in between.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::in_folder(FOLDER.into(), plan)
    }

    fn in_folder(folder: PathBuf, plan: &Plan) -> Self {
        let mut modules: Vec<Module> = Vec::new();
        let is_kprobe = |hook| matches!(hook, Hook::Probe | Hook::ProbeReturn | Hook::Instruction);
        let hooked = plan.programs.iter().filter(|program| is_kprobe(program.hook));
        for site in hooked.flat_map(|program| &program.sites) {
            let Some(name) = &site.module else { continue };
            let sites = site.site..site.site + site.clauses;
            match modules.iter_mut().find(|module| module.name == *name) {
                Some(module) => module.sites.extend(sites),
                None => modules.push(Module {
                    name: name.clone(),
                    instance: instance(&folder, name),
                    sites: sites.collect(),
                }),
            }
        }
        Self { folder, modules }
    }

    /// Forgets sites that could not be hooked.
    pub(crate) fn skip(&mut self, skipped: &[SkippedSite]) {
        for module in &mut self.modules {
            module.sites.retain(|site| !skipped.iter().any(|skipped| skipped.site == *site));
        }
    }

    /// The modules that are not there any more, or are there again.
    pub(crate) fn unloaded(&self) -> Vec<Unloaded> {
        self.modules
            .iter()
            .filter(|module| !module.sites.is_empty())
            .filter(|module| instance(&self.folder, &module.name) != module.instance)
            .map(|module| Unloaded {
                module: module.name.clone(),
                sites: u32::try_from(module.sites.len()).unwrap_or(u32::MAX),
            })
            .collect()
    }
}

/// Tells one loading of a module from the next: sysfs makes a folder for each, whose inode number no other has had
/// (`kernfs_new_node` of fs/kernfs/dir.c counts upwards, with a generation when it begins anew).
fn instance(folder: &Path, module: &str) -> Option<u64> {
    fs::metadata(folder.join(module)).ok().map(|folder| folder.ino())
}

#[cfg(test)]
mod tests {
    use xweave_wire::plan::{PlanProgram, PlanSite};

    use super::*;

    fn program(hook: Hook, sites: &[(u32, u32, Option<&str>)]) -> PlanProgram {
        let site = |&(site, clauses, module): &(u32, u32, Option<&str>)| PlanSite {
            optional: true,
            site,
            clauses,
            function: "f".into(),
            module: module.map(str::to_owned),
            btf_id: 0,
            offset: 1,
            places: Vec::new(),
            arguments: 0,
        };
        let sites = sites.iter().map(site).collect();
        PlanProgram {
            object: 0,
            name: String::new(),
            hook,
            saver: None,
            tracepoint: 0,
            sites,
            origin: String::new(),
        }
    }

    fn plan() -> Plan {
        Plan {
            domain: 1,
            objects: Vec::new(),
            programs: vec![
                program(Hook::Instruction, &[(1, 2, Some("dummy")), (3, 1, None), (4, 1, Some("tun"))]),
                program(Hook::ProbeReturn, &[(5, 1, Some("dummy"))]),
                program(Hook::Entry, &[(6, 1, Some("held"))]),
                program(Hook::User, &[(7, 1, Some("/bin/true"))]),
            ],
            buffer: 4096,
            flow_table: 1,
            serial_attach: false,
            events: None,
        }
    }

    #[test]
    fn modules_that_go_or_come_again_are_told_with_their_sites() {
        let sys = tempfile::tempdir().unwrap();
        let path = |name: &str| sys.path().join(name);
        for module in ["dummy", "tun", "held"] {
            fs::create_dir(path(module)).unwrap();
        }
        let mut watch = ModuleWatch::in_folder(sys.path().into(), &plan());
        assert_eq!(watch.unloaded(), []);
        for module in ["tun", "held"] {
            fs::remove_dir(path(module)).unwrap();
        }
        // Loaded again: made before the old one goes, so that no file system gives it the same number.
        fs::create_dir(path("dummy2")).unwrap();
        fs::rename(path("dummy2"), path("dummy")).unwrap();
        let unloaded = |module: &str, sites| Unloaded { module: module.into(), sites };
        assert_eq!(watch.unloaded(), [unloaded("dummy", 3), unloaded("tun", 1)]);
        watch.skip(&[2, 4].map(|site| SkippedSite { site, reason: String::new() }));
        assert_eq!(watch.unloaded(), [unloaded("dummy", 2)]);
    }

    #[test]
    fn sysfs_numbers_its_folders() {
        // Any module or built-in one with parameters; each has a number of its own.
        let folders = fs::read_dir(FOLDER).unwrap().flatten();
        let mut numbers: Vec<_> =
            folders.map(|folder| instance(Path::new(FOLDER), folder.file_name().to_str().unwrap())).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(count > 0 && numbers.len() == count && numbers.iter().all(Option::is_some));
    }
}
