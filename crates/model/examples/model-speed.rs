//! How fast the model takes in events and breaks transactions down: of a simulated host with two guests, so many
//! millions of events (20 by default). Prints one JSON document. The making of the events is not measured.
//!
//!     cargo run --release --package xweave-model --example model-speed -- 20
//!
//! Of a trace's directory, for benches/import: takes in its events, breaks nothing down, and prints how many there were.

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use xweave_model::{Guest, Machine, ThreadId, breakdown, guests::Guests};
use xweave_synthetic::{Config, Simulation};
use xweave_trace::Trace;

/// Events that are made at a time.
const CHUNK: usize = 1 << 18;

fn main() -> Result<(), Box<dyn Error>> {
    let what = std::env::args().nth(1).unwrap_or_else(|| "20".to_owned());
    match what.parse::<usize>() {
        Ok(millions) => simulated(millions * 1_000_000),
        Err(_) => recorded(&Trace::open(Path::new(&what))?),
    }
    Ok(())
}

fn recorded(trace: &Trace) {
    let mut machine = Machine::new(Guests::of(trace).all);
    let mut count = 0;
    for event in trace.events() {
        machine.feed(&event);
        count += 1;
        if count % CHUNK == 0 {
            machine.forget_before(event.time_ns);
        }
    }
    println!("{count} events");
}

fn simulated(wanted: usize) {
    let mut world = Simulation::new(&Config { transactions: usize::MAX, ..Config::virtualized(1) });
    let guests = world.guests().map(|(domain, process)| Guest { domain, host: 1, process });
    let mut machine = Machine::new(guests.collect());
    let (mut events, mut transactions, mut pieces) = (0, 0, 0);
    let (mut feeding, mut breaking) = (Duration::ZERO, Duration::ZERO);
    while events < wanted {
        let begin = world.oldest();
        let chunk: Vec<_> = world.by_ref().take(CHUNK).collect();
        let ended = world.take_transactions();
        let start = Instant::now();
        machine.forget_before(begin);
        chunk.iter().for_each(|event| machine.feed(event));
        feeding += start.elapsed();
        let start = Instant::now();
        for one in &ended {
            let thread = ThreadId { domain: one.who.domain, tid: one.who.tid };
            pieces += breakdown(&machine, thread, one.from, one.to).len();
        }
        breaking += start.elapsed();
        (events, transactions) = (events + chunk.len(), transactions + ended.len());
    }
    let seconds = (feeding + breaking).as_secs_f64();
    println!(
        "{{\"events\": {events}, \"transactions\": {transactions}, \"pieces\": {pieces}, \"feeding_s\": {:.3}, \
         \"breaking_down_s\": {:.3}, \"events_per_s\": {:.0}, \"peak_memory_bytes\": {}}}",
        feeding.as_secs_f64(),
        breaking.as_secs_f64(),
        events as f64 / seconds,
        peak_memory()
    );
}

/// The most memory that this process had; 0 where the kernel does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}
