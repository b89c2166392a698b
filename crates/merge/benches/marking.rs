//! Marking memory of another process for KSM, beside the process that marks its own; and what a thread of it notices that takes
//! page faults meanwhile, as a vCPU does. `benches/marking/run` makes a table of what this prints: JSON.
//!
//! No page is merged: KSM does not run.

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use memmap2::{Advice, MmapMut};
use xweave_merge::mark::{Marker, Range};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PAGE: usize = 4096;

/// Ranges that are marked: as many as a guest has at most. Each is a page, and they lie that far apart.
const RANGES: usize = 20_000;
const APART: usize = 13;

/// Pages that are faulted in, again and again: in the same mapping, as QEMU has one for all of a guest's memory. They are
/// small ones: beside what it takes to clear a huge page, nothing would be seen.
const FAULTED: usize = 16_384;

/// Other mappings that a QEMU has: of its program, its libraries, its threads' stacks (`/proc/PID/maps` of QEMU 7.2).
const OTHERS: usize = 340;

/// How long faults are looked at where nothing is marked.
const QUIET: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).filter(|word| word != "--bench").collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["target"] => target(),
        [rounds] => measure(rounds),
        _ => Err("marking ROUNDS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("marking: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The process whose memory is marked: it answers each line with one.
fn target() -> Result<()> {
    let mut memory = MmapMut::map_anon((APART * RANGES + FAULTED) * PAGE)?;
    memory.advise(Advice::NoHugePage)?;
    memory.advise(Advice::DontFork)?;
    memory.advise(Advice::DontDump)?;
    let (marked, faulted) = memory.split_at_mut(APART * RANGES * PAGE);
    // Each page is there, as a guest's page cache is.
    marked.chunks_mut(PAGE).for_each(|page| page[0] = 1);
    // Every second one is of another kind, so that the kernel does not make one of them all.
    let others = (0..OTHERS).map(|nth| match nth % 2 {
        0 => MmapMut::map_anon(PAGE),
        _ => MmapMut::map_anon(PAGE).and_then(|page| page.advise(Advice::DontDump).map(|()| page)),
    });
    let _others = others.collect::<std::io::Result<Vec<MmapMut>>>()?;
    println!("{}", marked.as_ptr().addr());
    let of = (faulted.as_mut_ptr().expose_provenance(), faulted.len());
    let times = Arc::new(Mutex::new(Vec::new()));
    let looks = Arc::new(AtomicBool::new(false));
    let faults = std::thread::spawn({
        let (times, looks) = (Arc::clone(&times), Arc::clone(&looks));
        move || fault(of, &times, &looks)
    });
    for line in std::io::stdin().lines() {
        match &*line? {
            "look" => {
                looks.store(true, Ordering::Release);
                println!();
            }
            "tell" => {
                looks.store(false, Ordering::Release);
                let mut times =
                    std::mem::take(&mut *times.lock().map_err(|_| "the faults' thread has ended")?);
                if faults.is_finished() || times.is_empty() {
                    return Err("no page was faulted in".into());
                }
                times.sort_unstable();
                println!("{} {}", times[times.len() / 2], times[times.len() * 99 / 100]);
            }
            "mark" => {
                let begun = Instant::now();
                for range in 0..RANGES {
                    memory.advise_range(Advice::Mergeable, APART * range * PAGE, PAGE)?;
                }
                println!("{}", begun.elapsed().as_nanos());
            }
            _ => {
                memory.advise(Advice::Unmergeable)?;
                println!();
            }
        }
    }
    Ok(())
}

/// Touches pages that are not there, of so many bytes from an address on, and takes the time of each, in nanoseconds.
fn fault(
    (address, bytes): (usize, usize),
    times: &Mutex<Vec<u64>>,
    looks: &AtomicBool,
) -> std::io::Result<()> {
    let memory = std::ptr::with_exposed_provenance_mut::<u8>(address);
    loop {
        let mut taken = Vec::with_capacity(FAULTED);
        for at in (0..bytes).step_by(PAGE) {
            let begun = Instant::now();
            // SAFETY: it is mapped until the process ends, and nobody else looks at it.
            unsafe { memory.add(at).write_volatile(1) };
            let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            if looks.load(Ordering::Acquire) {
                taken.push(ns);
            }
        }
        if let Ok(mut times) = times.lock() {
            times.extend(taken);
        }
        // SAFETY: what the pages hold matters to nobody.
        if unsafe { libc::madvise(memory.cast(), bytes, libc::MADV_DONTNEED) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
}

struct Target {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Target {
    /// With where its memory is.
    fn start() -> Result<(Self, u64)> {
        let mut process = Command::new(env::current_exe()?)
            .arg("target")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = process.stdin.take().ok_or("no pipe")?;
        let from = BufReader::new(process.stdout.take().ok_or("no pipe")?);
        let mut target = Self { process, to, from };
        let address = target.line()?.parse()?;
        Ok((target, address))
    }

    fn ask(&mut self, what: &str) -> Result<String> {
        writeln!(self.to, "{what}")?;
        self.line()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err("the process whose memory is marked has ended".into());
        }
        Ok(line.trim().to_owned())
    }

    /// The median and the 99th percentile of the faults while something is done.
    fn faults<T>(&mut self, during: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, [u64; 2])> {
        self.ask("look")?;
        let done = during(self)?;
        let told = self.ask("tell")?;
        let (p50, p99) = told.split_once(' ').ok_or("no times")?;
        Ok((done, [p50.parse()?, p99.parse()?]))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It has ended, or ends now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn measure(rounds: &str) -> Result<()> {
    let rounds: u32 = rounds.parse()?;
    let (mut target, address) = Target::start()?;
    let range = |nth: usize| Range { start: address + (APART * nth * PAGE) as u64, length: PAGE as u64 };
    let ranges: Vec<Range> = (0..RANGES).map(range).collect();
    let mut marker = Marker::open(target.process.id())?;
    for _ in 0..rounds {
        let ((), quiet) = target.faults(|_| {
            std::thread::sleep(QUIET);
            Ok(())
        })?;
        let (ours, marking) = target.faults(|_| {
            let begun = Instant::now();
            let made = marker.mark(&ranges, &|| false)?;
            let took = begun.elapsed();
            match made.failed.first() {
                None => Ok(took.as_nanos()),
                Some((range, error)) => Err(format!("{range:?}: {error}").into()),
            }
        })?;
        target.ask("unmark")?;
        let (own, marking_own) = target.faults(|target| target.ask("mark"))?;
        target.ask("unmark")?;
        println!(
            "{{\"ranges\":{RANGES},\"ours_ns\":{ours},\"own_ns\":{own},\"faults\":{{\"quiet\":{quiet:?},\
             \"ours\":{marking:?},\"own\":{marking_own:?}}}}}"
        );
    }
    Ok(marker.close()?)
}
