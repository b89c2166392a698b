//! Writes a made-up trace to a directory and prints its tables:
//! `cargo run -p xweave-report --example tables DIR`.

#[path = "../tests/suite/made_up/mod.rs"]
mod made_up;

use xweave_flow::Flows;
use xweave_report::{View, closing, hops, segments};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: tables DIR")?;
    let flows = Flows::of(&made_up::write(dir.as_ref(), 500, true));
    let view = View::of_stdout(140);
    if let Some(flow) = flows.typical() {
        println!("{}", hops::table(&flows, flow, hops::Steps::OfPath, view));
    }
    println!("{}", segments::table(flows.segments(), view));
    print!("{}", closing::line(flows.summary(), view));
    Ok(())
}
