//! Programs of tests, compiled with the prelude as advice is, in the kernel itself: by BPF_PROG_TEST_RUN.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

pub struct Programs {
    object: Object,
}

impl Programs {
    /// Compiles and loads them, with the flow tables of that many buckets and so many sites. None, said loudly,
    /// where loading programs is not allowed.
    pub fn load(text: &str, buckets: u32, sites: u32) -> Option<Self> {
        let cache = tempfile::tempdir().unwrap();
        let text = format!("{}{text}", if has_symbols() { "" } else { "#define XW_WITHOUT_SYMBOLS\n" });
        let object = xweave_weave::compile_c(&text, cache.path()).unwrap();
        let mut open = ObjectBuilder::default().open_memory(&object).unwrap();
        for mut map in open.maps_mut() {
            match map.name().to_str().unwrap() {
                "xw_tallies" => map.set_max_entries(sites).unwrap(),
                name if name.starts_with("xw_flow_") => map.set_max_entries(buckets).unwrap(),
                _ => {}
            }
        }
        for mut program in open.progs_mut().filter(|program| program.name() == "xw_programs") {
            program.set_autoload(false);
        }
        let object = match open.load() {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
                eprintln!("SKIPPED: loading BPF programs needs root; the prelude was not tested");
                return None;
            }
            loaded => loaded.unwrap(),
        };
        let programs = Self { object };
        let config = [1, buckets - 1, 0, 0, 0].map(u32::to_le_bytes).concat();
        programs.map("xw_config").update(&0u32.to_le_bytes(), &config, MapFlags::ANY).unwrap();
        Some(programs)
    }

    pub fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        self.object.maps().find(|map| map.name().to_str().unwrap().ends_with(name)).unwrap()
    }

    /// What a program returns, given these words.
    pub fn run(&self, program: &str, words: [u64; 2]) -> u32 {
        let program = self.object.progs().find(|found| found.name() == program).unwrap();
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
            ctx_in: words.as_ptr().cast(),
            ctx_size_in: u32::try_from(size_of_val(&words)).unwrap(),
            ..Default::default()
        };
        // SAFETY: the words and the options outlive the call.
        let result =
            unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &raw mut options) };
        assert_eq!(result, 0, "BPF_PROG_TEST_RUN");
        options.retval
    }

    /// A word of a site's tally, of all CPUs together.
    pub fn tally(&self, place: u32, word: usize) -> u64 {
        let cpus = self.map("xw_tallies").lookup_percpu(&place.to_le_bytes(), MapFlags::ANY);
        let of_cpu = |cpu: Vec<u8>| u64::from_le_bytes(cpu[8 * word..8 * word + 8].try_into().unwrap());
        cpus.unwrap().unwrap().into_iter().map(of_cpu).sum()
    }
}

/// Whether this kernel has symbols of its per-CPU data: `bpf/percpu.h`.
fn has_symbols() -> bool {
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let names = symbols.lines().filter_map(|line| line.split_whitespace().nth(2));
    names.into_iter().any(|name| name == "this_cpu_off")
}

pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}
