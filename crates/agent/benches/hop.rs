//! What a woven function costs where it is passed: what `benches/hop/measure.py` needs besides `xweave record`.
//!
//! ```text
//! hop load             reads lines, and answers each: `worker 1` begins a thread that passes from now on, and ends the
//!                      one before; `others N` begins so many that do not; `renames N` and `writes N` have the worker
//!                      pass `task_rename` or `write_full` so often, and print how many nanoseconds one took
//! hop empty HOOK COUNT attaches so many programs that do nothing, until its input ends; HOOK is `entry`, of
//!                      `write_full`, or `tracepoint`, of `task_rename`; says `ready`
//! hop stats COUNT      has the kernel count what programs take, until its input ends; then prints for each of ours that
//!                      ran so often at least, oldest first, how many nanoseconds a run took
//! ```
//!
//! Few but its own threads pass these places: nobody else writes to /dev/full, and others' threads are seldom renamed.

mod common;

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    os::fd::{FromRawFd, OwnedFd},
    process::ExitCode,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Instant,
};

use libbpf_rs::{
    Link, Object, ObjectBuilder,
    query::{ProgInfoIter, ProgramInfo},
};

use common::Error;

const EMPTY: &str = "#include \"types.h\"\n#include <bpf/bpf_helpers.h>\n\
    char _license[] SEC(\"license\") = \"GPL\";\n\
    SEC(\"fentry\") int empty_entry(u64 *ctx) { return 0; }\n\
    SEC(\"tp_btf\") int empty_tracepoint(u64 *ctx) { return 0; }\n";

fn main() -> ExitCode {
    common::main("hop", |words| match *words {
        ["load"] => load(),
        ["empty", hook, count] => empty(hook, count),
        ["stats", count] => stats(count),
        _ => Err("which of `load`, `empty HOOK COUNT` and `stats COUNT`?".into()),
    })
}

type Passes = (bool, u32);

/// A thread, which lives until it is dropped.
struct Worker {
    passes: Sender<Passes>,
    took: Receiver<Result<f64, Error>>,
}

impl Worker {
    fn new() -> Result<Self, Error> {
        let mut full = OpenOptions::new().write(true).open("/dev/full")?;
        // A place where nobody else passes with this file: a flow can begin here.
        full.seek(SeekFrom::Start(0))?;
        let (passes, asked) = mpsc::channel::<Passes>();
        let (answer, took) = mpsc::channel();
        thread::spawn(move || {
            for passes in asked {
                if answer.send(pass(&mut full, passes)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { passes, took })
    }

    fn pass(&self, renames: bool, count: u32) -> Result<f64, Error> {
        self.passes.send((renames, count))?;
        self.took.recv()?
    }
}

/// Nanoseconds of one.
fn pass(full: &mut File, (renames, count): Passes) -> Result<f64, Error> {
    let begun = Instant::now();
    for _ in 0..count {
        let as_expected = if renames {
            // SAFETY: the name is a string that ends.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"hop".as_ptr()) == 0 }
        } else {
            full.write(b"x").is_err_and(|error| error.raw_os_error() == Some(libc::ENOSPC))
        };
        if !as_expected {
            return Err("the place was not passed".into());
        }
    }
    Ok(begun.elapsed().as_secs_f64() * 1e9 / f64::from(count))
}

fn load() -> Result<(), Error> {
    common::stay_on_one_cpu();
    let (mut worker, mut others) = (Worker::new()?, Vec::new());
    common::answer(|what, count| {
        match what {
            "worker" => worker = Worker::new()?,
            "others" => others = (0..count).map(|_| Worker::new()).collect::<Result<Vec<_>, _>>()?,
            _ => return Ok(worker.pass(what == "renames", count)?.to_string()),
        }
        Ok(format!("{} threads", 1 + others.len()))
    })
}

fn empty(hook: &str, count: &str) -> Result<(), Error> {
    let target = match hook {
        "entry" => "write_full",
        "tracepoint" => "task_rename",
        _ => return Err(format!("{hook} is no hook").into()),
    };
    let cache = xweave_weave::cache_directory()?;
    let compiled = xweave_weave::compile_c(EMPTY, &cache)?;
    let count = count.parse()?;
    let attached = (0..count)
        .map(|_| attach(&compiled, &format!("empty_{hook}"), target))
        .collect::<Result<Vec<_>, _>>();
    let attached = attached.map_err(|error| format!("the kernel takes no program at {target}: {error}"))?;
    println!("ready");
    common::input_ends()?;
    drop(attached);
    Ok(())
}

fn attach(compiled: &[u8], name: &str, target: &str) -> Result<(Object, Vec<Link>), libbpf_rs::Error> {
    let mut object = ObjectBuilder::default().open_memory(compiled)?;
    for mut program in object.progs_mut() {
        if program.name() == name {
            program.set_attach_target(0, Some(target.to_owned()))?;
        } else {
            program.set_autoload(false);
        }
    }
    let object = object.load()?;
    let ours = object.progs_mut().filter(|program| program.name() == name);
    let links = ours.map(|program| program.attach()).collect::<Result<Vec<_>, _>>()?;
    Ok((object, links))
}

fn stats(count: &str) -> Result<(), Error> {
    let count: u64 = count.parse()?;
    // SAFETY: takes and returns integers.
    let counting = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if counting < 0 {
        return Err(format!("the kernel does not count: {}", io::Error::from_raw_os_error(-counting)).into());
    }
    // SAFETY: a descriptor that was just opened and belongs to nobody else. The kernel counts while it is open.
    let counting = unsafe { OwnedFd::from_raw_fd(counting) };
    let before: HashMap<_, _> = programs().map(|program| (program.id, program)).collect();
    println!("ready");
    common::input_ends()?;
    for program in programs() {
        let (time, runs) = before.get(&program.id).map_or((0, 0), |then| (then.run_time_ns, then.run_cnt));
        let (time, runs) = (program.run_time_ns - time, program.run_cnt - runs);
        if runs >= count {
            println!("{}", time as f64 / runs as f64);
        }
    }
    drop(counting);
    Ok(())
}

/// Those of this benchmark and of an agent: copies that an agent loads are called `xweave`.
fn programs() -> impl Iterator<Item = ProgramInfo> {
    ProgInfoIter::default().filter(|program| {
        let name = program.name.to_string_lossy();
        ["xw", "empty_"].iter().any(|ours| name.starts_with(ours))
    })
}
