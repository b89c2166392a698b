//! The operations on the flow table (the paper's table 1) beside the kernel's own maps, in this machine's
//! kernel, by BPF_PROG_TEST_RUN. `benches/flow-table/run` makes a table of what this prints: JSON.
//!
//! All that is compared runs in turns. What a call takes in a round is the median of its runs, less that of the loop
//! around the calls. The first run of each round is not counted: it fetches into the processor's cache what
//! the other maps have put out of it.

mod common;

use std::{arch::x86_64::__cpuid, collections::HashMap, process::ExitCode};

use libbpf_rs::{MapCore, MapFlags, MapType, Object, ObjectBuilder, ProgramInput};
use serde_json::{Value, json};
use xweave_wire::message::SHARED_PAGES;

use common::Error;

const CALLS: f64 = 2000.0;
const ROUNDS: usize = 25;
const RUNS: usize = 4;
const BUCKETS: u32 = 32768;
const PAGE: usize = 4096;
const ARENA_START: usize = 1 << 44;

const KINDS: [(&str, MapType, u32); 5] = [
    ("hash", MapType::Hash, 0),
    ("hash, no prealloc", MapType::Hash, libbpf_sys::BPF_F_NO_PREALLOC),
    ("LRU hash", MapType::LruHash, 0),
    ("LRU hash, per-CPU lists", MapType::LruHash, libbpf_sys::BPF_F_NO_COMMON_LRU),
    ("per-CPU hash", MapType::PercpuHash, 0),
];

/// A name, our program, and the kernel's.
type Operation = (&'static str, &'static str, &'static str);

/// In an order in which each finds what it needs.
const OPERATIONS: [Operation; 7] = [
    ("get_flowid, empty", "empty_ours", "empty_kernels"),
    ("register_flowid, changing IDs", "register_ours", "register_kernels"),
    ("get_flowid, changing IDs", "lookup_ours", "lookup_kernels"),
    ("remove_flowid, changing IDs", "remove_ours", "remove_kernels"),
    ("register_flowid, same ID", "register_same_ours", "register_same_kernels"),
    ("get_flowid, same ID", "lookup_same_ours", "lookup_kernels"),
    ("remove_flowid, same ID", "remove_ours", "remove_kernels"),
];

const NEW: [Operation; 1] = [("get_new_flowid", "new_ours", "new_kernels")];

/// What each program does besides what it is for.
const PROGRAM: [Operation; 1] = [("a program that does nothing", "program_guarded", "program_bare")];

/// What is done with each buffer, beside its keys: on the host's side of a ring, and on the guest's.
const TOLD: [Operation; 2] = [
    ("reading which flow a guest says", "told_by_guest", "keys_of_ring"),
    ("saying it, in the guest", "told_to_host", "key_of_guest"),
];

/// Reading a bucket's first key, where the buckets are in an array map.
const IN_ARENA: [Operation; 1] = [("finding a bucket", "bucket_array", "bucket_arena")];

fn main() -> ExitCode {
    common::main("flow-table", |_| {
        println!("{}", measure()?);
        Ok(())
    })
}

/// A kind of map, what is compared with it, and what that took.
struct Compared {
    kind: &'static str,
    operations: &'static [Operation],
    /// In each round. An even number: ours is the first in half of them.
    runs: usize,
    object: Object,
    /// In the order of the rounds.
    took: Vec<Timings>,
}

impl Compared {
    fn new(kind: &'static str, operations: &'static [Operation], runs: usize, object: Object) -> Self {
        Self { kind, operations, runs, object, took: Vec::new() }
    }
}

fn measure() -> Result<Value, Error> {
    let symbols = if has_symbols()? { "" } else { "#define XW_WITHOUT_SYMBOLS\n" };
    let text = format!("{symbols}{}", include_str!("flow_table.c"));
    let cache = xweave_weave::cache_directory()?;
    let object = xweave_weave::compile_c(&text, &cache)?;
    // A new ID takes less than the loop around it: the difference is found in more runs only.
    let few = load(&object, MapType::Hash, 0, false)?;
    let mut all = vec![Compared::new("per-CPU array", &NEW, 16 * RUNS, few)];
    let program = load(&object, MapType::Hash, 0, false)?;
    all.push(Compared::new("without the guard", &PROGRAM, 4 * RUNS, program));
    for (kind, map, flags) in KINDS {
        all.push(Compared::new(kind, &OPERATIONS, RUNS, load(&object, map, flags, false)?));
    }
    let mut full = load(&object, MapType::Hash, 0, false)?;
    run(&mut full, "fill")?;
    all.push(Compared::new("hash, 60,000 more keys", &OPERATIONS, RUNS, full));
    let mut told = load(&object, MapType::Hash, 0, false)?;
    let guest = Guest::new();
    guest.believed_by(&told)?;
    run(&mut told, "know_ring")?;
    all.push(Compared::new("the ring's keys", &TOLD, 4 * RUNS, told));
    let arena = has_arena()?;
    if arena {
        all.push(Compared::new("arena", &IN_ARENA, 16 * RUNS, load(&object, MapType::Hash, 0, true)?));
    }
    for _ in 0..ROUNDS {
        for compared in &mut all {
            Timings::default().add(&mut compared.object, compared.operations, true)?;
            let mut took = Timings::default();
            for nth in 0..compared.runs {
                took.add(&mut compared.object, compared.operations, nth % 2 == 0)?;
            }
            compared.took.push(took);
        }
    }
    let rows: Vec<_> = all
        .iter()
        .flat_map(|compared| {
            compared.operations.iter().enumerate().map(|(nth, (name, ..))| {
                let [ours, peer] = [0, 1]
                    .map(|side| compared.took.iter().map(|took| took.call(nth, side)).collect::<Vec<_>>());
                json!({ "name": name, "peer": compared.kind, "ours": ours, "peer_value": peer })
            })
        })
        .collect();
    Ok(json!({ "hypervisor": hypervisor(), "arena": arena, "rows": rows }))
}

/// Who emulates or virtualises this machine, in the words of its processor; empty if nobody does.
fn hypervisor() -> String {
    if __cpuid(1).ecx >> 31 == 0 {
        return String::new();
    }
    let leaf = __cpuid(0x4000_0000);
    let name = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

fn has_arena() -> Result<bool, Error> {
    let supported = MapType::from(libbpf_sys::BPF_MAP_TYPE_ARENA).is_supported();
    Ok(supported.map_err(|error| format!("the kernel does not tell whether it has arenas: {error}"))?)
}

/// Whether this kernel has symbols of its per-CPU data: `bpf/percpu.h`. Without, a call is missing in what a
/// program's guard costs.
fn has_symbols() -> Result<bool, Error> {
    let symbols = std::fs::read_to_string("/proc/kallsyms")?;
    Ok(symbols.lines().any(|line| line.split_whitespace().nth(2) == Some("this_cpu_off")))
}

/// Loads the programs, with this kind of map as the kernel's.
fn load(object: &[u8], kind: MapType, flags: u32, arena: bool) -> Result<Object, Error> {
    let failed = |error| format!("the kernel does not load the programs, which needs root and BPF: {error}");
    let mut open = ObjectBuilder::default().open_memory(object).map_err(failed)?;
    for mut map in open.maps_mut() {
        let set = match map.name().to_str() {
            Some("xw_flow_ours") => map.set_max_entries(BUCKETS),
            Some("kernels") => map.set_type(kind).and_then(|()| map.set_map_flags(flags)),
            Some("arena") => map.set_autocreate(arena).and_then(|()| map.set_map_extra(ARENA_START as u64)),
            _ => Ok(()),
        };
        set.map_err(failed)?;
    }
    for mut program in open.progs_mut() {
        program.set_autoload(match program.name().to_str() {
            Some("xw_programs") => false,
            Some("bucket_arena") => arena,
            _ => true,
        });
    }
    let loaded = open.load().map_err(failed)?;
    let config = [1, BUCKETS - 1, 0, 0, 0].map(u32::to_le_bytes).concat();
    for map in loaded.maps().filter(|map| map.name() == "xw_config") {
        map.update(&0u32.to_le_bytes(), &config, MapFlags::ANY).map_err(failed)?;
    }
    if arena {
        // Pages of an arena are there when somebody has written to them.
        for page in 0..BUCKETS as usize * 128 / 4096 {
            // SAFETY: libbpf has mapped the arena at this address, which is the one the map asks for.
            unsafe { ((ARENA_START + page * 4096) as *mut u64).write_volatile(0) };
        }
    }
    Ok(loaded)
}

/// The table of a guest that has this process's memory: `struct xw_shared_slot` of the prelude, its number and its
/// buffer's name by turns.
struct Guest(Vec<u64>);

impl Guest {
    const RING: u64 = 0x1234_5000;

    fn new() -> Self {
        let mut words = vec![0; SHARED_PAGES * PAGE / size_of::<u64>()];
        // The prelude's xw_hash.
        let hash = (Self::RING.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) & 0xffff;
        for index in 0..1u64 << 16 {
            let slot = usize::try_from((hash + index) & 0xffff).unwrap_or(0);
            let at = PAGE / size_of::<u64>() + 2 * slot;
            let flow = 1 << 56 | index;
            (words[at], words[at + 1]) = (flow, (Self::RING << 4) ^ index ^ flow);
        }
        Self(words)
    }

    /// As domain 1, the first guest of `struct xw_guest`.
    fn believed_by(&self, object: &Object) -> Result<(), Error> {
        let pages = |page: usize| self.0.as_ptr() as u64 + (page * PAGE) as u64;
        let words = [1, 0, 0].into_iter().chain([0; SHARED_PAGES]).chain((0..SHARED_PAGES).map(pages));
        let value: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let table = object.maps().find(|map| map.name() == "xw_guests").ok_or("a map is missing")?;
        Ok(table.update(&0u32.to_le_bytes(), &value, MapFlags::ANY)?)
    }
}

/// What programs took, in nanoseconds for all calls of one run.
#[derive(Default)]
struct Timings {
    nothing: Vec<u32>,
    /// By operation, ours and the kernel's.
    calls: HashMap<(usize, usize), Vec<u32>>,
}

impl Timings {
    fn add(&mut self, object: &mut Object, operations: &[Operation], ours_first: bool) -> Result<(), Error> {
        self.nothing.push(run(object, "nothing")?);
        for (nth, (_, ours, kernels)) in operations.iter().enumerate() {
            let mut sides = [(0, ours), (1, kernels)];
            if !ours_first {
                sides.reverse();
            }
            for (side, program) in sides {
                self.calls.entry((nth, side)).or_default().push(run(object, program)?);
            }
        }
        Ok(())
    }

    /// Nanoseconds a call.
    fn call(&self, operation: usize, side: usize) -> f64 {
        let calls = self.calls.get(&(operation, side)).map_or(0.0, |calls| median(calls));
        (calls - median(&self.nothing)) / CALLS
    }
}

fn median(values: &[u32]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().map_or(0.0, f64::from)
}

fn run(object: &mut Object, name: &str) -> Result<u32, Error> {
    let program = object.progs_mut().find(|program| program.name() == name).ok_or("a program is missing")?;
    let ran = program
        .test_run(ProgramInput::default())
        .map_err(|error| format!("the kernel does not run {name} by BPF_PROG_TEST_RUN: {error}"))?;
    match ran.return_value {
        0 => Err(format!("{name} did not do what it is for: a key was lost, or found where none is").into()),
        nanoseconds => Ok(nanoseconds),
    }
}
