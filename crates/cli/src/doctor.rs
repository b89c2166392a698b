//! `xweave doctor`: what this machine can do.

use std::process::ExitCode;

use serde_json::json;

use crate::failure::Failure;
use xweave_report::document::SCHEMA;

/// Check what this machine supports, and print the command that fixes what is missing
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo xweave doctor")]
pub struct Args {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let checks = xweave_record::doctor();
    if args.json {
        let rows: Vec<_> = checks
            .iter()
            .map(|check| {
                json!({
                    "name": check.name, "ok": check.ok, "needed": check.needed,
                    "found": check.found, "remedy": check.remedy,
                })
            })
            .collect();
        println!("{}", json!({ "schema": SCHEMA, "checks": rows }));
    } else {
        for check in &checks {
            let mark = match (check.ok, check.needed) {
                (true, _) => "ok     ",
                (false, true) => "MISSING",
                (false, false) => "note   ",
            };
            println!("{mark}  {:<24} {}", check.name, check.found);
            if !check.ok {
                println!("         {:<24} → {}", "", check.remedy);
            }
        }
    }
    let missing: Vec<_> = checks.iter().filter(|c| c.needed && !c.ok).map(|c| c.name).collect();
    if missing.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::Failed(format!("recording on this machine needs: {}", missing.join(", "))))
    }
}
