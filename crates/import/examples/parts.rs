//! What the parts of an import cost, for benches/import: only making events of records, and only reading the events of
//! a trace. Prints how many events there were.
//!
//! ```text
//! parts decode FILE…
//! parts read DIR
//! ```

use std::{error::Error, path::PathBuf};

use xweave_import::{Input, Options, Sink};
use xweave_trace::{
    Event, Trace,
    event::{Name, Names},
};

/// Looks at events, and keeps none.
#[derive(Default)]
struct Seen {
    names: Names,
    all: i64,
}

impl Sink for Seen {
    fn name(&mut self, text: &str) -> Name {
        self.names.give(text)
    }

    fn event(&mut self, event: Event) -> Result<(), xweave_import::Error> {
        self.all ^= event.time_ns;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let what = args.next().unwrap_or_default();
    let files: Vec<PathBuf> = args.map(PathBuf::from).collect();
    let (count, all) = match (what.to_str(), files.as_slice()) {
        (Some("decode"), [_, ..]) => {
            let mut seen = Seen::default();
            let inputs = files.into_iter().map(|path| Input::open(&path).map(|input| (path, input)));
            let outcome =
                xweave_import::decode(inputs.collect::<Result<_, _>>()?, &Options::default(), &mut seen)?;
            (outcome.events, seen.all)
        }
        (Some("read"), [dir]) => {
            let trace = Trace::open(dir)?;
            trace.events().fold((0, 0), |(count, all), event| (count + 1, all ^ event.time_ns))
        }
        _ => return Err("parts decode FILE… | parts read DIR".into()),
    };
    println!("{count} events ({all:x})");
    Ok(())
}
