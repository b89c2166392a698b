//! What recording events costs: loads, and the probes of events limited to one process, drained as the agent
//! does. `benches/recording/run` and `benches/stamps/run` run them beside other recorders, or none.
//!
//! ```text
//! recording load            reads lines `switches N` and `syscalls N`; for each it makes N of them and prints
//!                           how many nanoseconds one took
//! recording requests CLIENT SERVER WORK
//!                           reads lines `requests N`; for each it sends N datagrams from one network namespace (a file of
//!                           ip-netns) to another, each a millisecond after the one before it, which are answered after
//!                           WORK nanoseconds of work; prints the median time and the 99th percentile, in nanoseconds
//! recording PID GROUPS PROGRAMS
//!                           records the events of these programs of the groups, until its input ends; says
//!                           `ready`, and at the end how many there were and how many were lost
//! ```

mod common;

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io::{self, Read, Write},
    net::UdpSocket,
    os::fd::{AsFd, AsRawFd, FromRawFd},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, RingBufferBuilder};
use xweave_wire::plan::{EventPlan, Hook};

use common::Error;

/// As the agent's: `crates/agent/src/drain.rs`.
const TICK: Duration = Duration::from_millis(10);
const BATCH: usize = 256 << 10;

/// Of each processor.
const RING: u32 = 8 << 20;

fn main() -> ExitCode {
    common::main("recording", |words| match *words {
        ["load"] => load(),
        ["requests", client, server, work] => requests(client, server, work),
        [process, groups, programs] => record(process, groups, programs),
        _ => Err("which of `load`, `requests CLIENT SERVER WORK` and `PID GROUPS PROGRAMS`?".into()),
    })
}

/// Makes what is asked for, on one processor.
fn load() -> Result<(), Error> {
    common::stay_on_one_cpu();
    common::answer(|what, count| {
        let took = if what == "switches" { switches(count)? } else { syscalls(count) };
        Ok(took.as_secs_f64() * 1e9 / f64::from(count))
    })
}

fn syscalls(count: u32) -> Duration {
    let begun = Instant::now();
    for _ in 0..count {
        // SAFETY: takes nothing.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
    begun.elapsed()
}

/// Two threads on one processor give each other a byte: each time, one switch to the other.
fn switches(count: u32) -> io::Result<Duration> {
    let ((mut here, mut to_there), (mut there, mut to_here)) = (pipe()?, pipe()?);
    let other = thread::spawn(move || -> io::Result<()> {
        let mut byte = [0];
        while here.read(&mut byte)? > 0 {
            to_here.write_all(&byte)?;
        }
        Ok(())
    });
    let mut byte = [1];
    let begun = Instant::now();
    for _ in 0..count / 2 {
        to_there.write_all(&byte)?;
        there.read_exact(&mut byte)?;
    }
    let took = begun.elapsed();
    drop(to_there);
    other.join().map_err(|_| io::Error::other("the other thread"))??;
    Ok(took)
}

/// Where the server is in its namespace.
const SERVER: &str = "10.78.0.2:5060";

/// Bytes of a request: about SIP's.
const REQUEST: usize = 540;

/// Times of requests between two threads of this process, of which each is in a namespace of its own.
fn requests(client: &str, server: &str, work: &str) -> Result<(), Error> {
    let work = Duration::from_nanos(work.parse()?);
    enter(server)?;
    let serving = UdpSocket::bind(SERVER)?;
    thread::spawn(move || -> io::Result<()> {
        let mut request = [0; REQUEST];
        loop {
            let (length, from) = serving.recv_from(&mut request)?;
            let begun = Instant::now();
            while begun.elapsed() < work {
                std::hint::spin_loop();
            }
            serving.send_to(&request[..length], from)?;
        }
    });
    enter(client)?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(SERVER)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    common::answer(|_, count| {
        let (mut request, mut took) = ([0; REQUEST], Vec::new());
        let begun = Instant::now();
        for nth in 0..count {
            // Not as soon as the one before it is answered: CPUs go idle between requests, as a server's do.
            thread::sleep(Duration::from_millis(nth.into()).saturating_sub(begun.elapsed()));
            let sent = Instant::now();
            socket.send(&request)?;
            socket.recv(&mut request)?;
            took.push(sent.elapsed().as_nanos());
        }
        took.sort_unstable();
        let rank = |percent: usize| took.get((took.len() * percent / 100).min(took.len() - 1));
        let (Some(p50), Some(p99)) = (rank(50), rank(99)) else { return Err("no requests".into()) };
        Ok(format!("{p50} {p99}"))
    })
}

/// Has this thread, and what it opens from now on, in a network namespace.
fn enter(namespace: &str) -> io::Result<()> {
    let namespace = File::open(namespace)?;
    // SAFETY: takes a descriptor.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: the array is as long as the call wants.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: descriptors that were just opened and belong to nobody else.
    Ok(ends.map(|end| unsafe { File::from_raw_fd(end) }).into())
}

fn record(process: &str, groups: &str, programs: &str) -> Result<(), Error> {
    let process: u32 = process.parse()?;
    let kernel = xweave_code::Kernel::live()?;
    let choice = xweave_weave::EventChoice::new(xweave_weave::Group::list(groups)?, None);
    let plan = xweave_weave::events(&kernel, &choice, RING, xweave_programs::library().events)?.plan;
    let mut plan = plan.ok_or("the kernel has no place for any of them")?;
    plan.programs.retain(|program| programs.split(',').any(|name| name == program.name));
    let object = open(&plan, process)?;
    let map = |name: &str| object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?)?;
    let mut rings = Vec::new();
    for cpu in 0..cpus {
        let ring = MapHandle::create(MapType::RingBuf, Some("ring"), 0, 0, RING, &options)?;
        let descriptor = ring.as_fd().as_raw_fd().to_le_bytes();
        let table = map("xw_rings").ok_or("no xw_rings")?;
        table.update(&cpu.to_le_bytes(), &descriptor, MapFlags::ANY)?;
        rings.push(ring);
    }
    let mut links = Vec::new();
    for program in
        object.progs_mut().filter(|found| plan.programs.iter().any(|p| found.name() == p.name.as_str()))
    {
        links.push(program.attach()?);
    }
    let one = 1u32.to_le_bytes();
    map(".data.state").ok_or("no state")?.update(&[0; 4], &one, MapFlags::ANY)?;
    println!("ready");
    let taken = drain(&rings, &thread::spawn(common::input_ends));
    drop(links);
    let counters = map(".bss.dropped").ok_or("no counters")?.lookup(&[0; 4], MapFlags::ANY)?;
    let counters = counters.unwrap_or_default();
    let lost: u64 =
        counters.chunks_exact(8).filter_map(|b| Some(u64::from_le_bytes(b.try_into().ok()?))).sum();
    println!("{} {lost}", taken?);
    Ok(())
}

/// Takes events out as the agent does, until the input has ended. Gives how many there were.
fn drain<T>(rings: &[MapHandle], input: &thread::JoinHandle<T>) -> Result<u64, libbpf_rs::Error> {
    let taken = Cell::new(0);
    let batch = RefCell::new(Vec::with_capacity(2 * BATCH));
    let mut builder = RingBufferBuilder::new();
    for ring in rings {
        builder.add(ring, |event| {
            taken.set(taken.get() + 1);
            let mut batch = batch.borrow_mut();
            batch.extend_from_slice(event);
            // What is full goes its way.
            if batch.len() >= BATCH {
                batch.clear();
            }
            0
        })?;
    }
    let buffer = builder.build()?;
    loop {
        let last = input.is_finished();
        buffer.consume()?;
        if last {
            return Ok(taken.get());
        }
        thread::sleep(TICK);
    }
}

/// With the probes of this process only.
fn open(plan: &EventPlan, process: u32) -> Result<Object, libbpf_rs::Error> {
    let mut object = ObjectBuilder::default().open_memory(&plan.object)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "xw_rings" {
            map.set_max_entries(u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(1))?;
        } else if name.ends_with(".rodata") {
            map.set_initial_value(&process.to_le_bytes())?;
        }
    }
    for mut loaded in object.progs_mut() {
        let name = loaded.name().to_string_lossy().into_owned();
        match plan.programs.iter().find(|program| program.name == name) {
            Some(program) if program.hook == Hook::Tracepoint => {
                loaded.set_attach_target(0, Some(program.function.clone()))?;
            }
            _ => loaded.set_autoload(false),
        }
    }
    object.load()
}
