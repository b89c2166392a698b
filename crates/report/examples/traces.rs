//! Writes traces for the tests of the page (`scripts/page-test`): of flows, of events, of both, of very many, and one in
//! which every name is hostile.
//!
//!     traces DIR FLOWS EVENTS

#[path = "../tests/suite/made_up/mod.rs"]
mod made_up;

use std::{error::Error, path::Path};

use xweave_synthetic::{Config, Simulation};
use xweave_trace::{Domain, Manifest, Role, Site, Writer};
use xweave_wire::record::{Kind, Record};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, flows, events] = &arguments[..] else { return Err("usage: traces DIR FLOWS EVENTS".into()) };
    let (dir, flows, events) = (Path::new(dir), flows.parse()?, events.parse()?);
    made_up::write(&dir.join("flows"), 300, true);
    only_events(&dir.join("events"), 20_000)?;
    both(&dir.join("both"), 40, 20_000)?;
    both(&dir.join("large"), flows, events)?;
    hostile(&dir.join("hostile"))?;
    Ok(())
}

fn only_events(dir: &Path, most: usize) -> Result<(), Box<dyn Error>> {
    let domain =
        |name: &str, number, role| Domain { name: name.into(), number, role, cpus: 3, ..Domain::default() };
    let domains =
        vec![domain("host", 1, Role::Host), domain("vm1", 2, Role::Guest), domain("vm2", 3, Role::Guest)];
    let mut writer =
        Writer::create(dir, Manifest { reference: "host".into(), domains, ..Manifest::default() })?;
    writer.sites(&[])?;
    simulated(&mut writer, most, 0)?;
    writer.finish()?;
    Ok(())
}

fn both(dir: &Path, flows: u64, events: usize) -> Result<(), Box<dyn Error>> {
    let mut writer = made_up::begin(dir, false);
    made_up::packets(&mut writer, flows);
    simulated(&mut writer, events, 1_000_000_000)?;
    writer.finish()?;
    Ok(())
}

/// So many events of a simulated machine, from a time on.
fn simulated(writer: &mut Writer, most: usize, from: i64) -> Result<(), Box<dyn Error>> {
    for mut event in
        Simulation::new(&Config { transactions: usize::MAX, ..Config::virtualized(1) }).take(most)
    {
        event.time_ns += from;
        writer.event(event)?;
    }
    Ok(())
}

/// Whatever a page might obey, wherever a name can be.
fn hostile(dir: &Path) -> Result<(), Box<dyn Error>> {
    const NAMES: [&str; 5] = [
        "</script><script>document.title='taken'</script>",
        "<img src=x onerror=\"document.title='taken'\">",
        "--><svg onload=document.title='taken'>",
        "javascript:document.title='taken'",
        "__proto__",
    ];
    let domain = |name: &str, number| Domain {
        name: name.into(),
        number,
        kernel: NAMES[0].into(),
        hostname: NAMES[1].into(),
        ..Domain::default()
    };
    let manifest = Manifest {
        reference: NAMES[0].into(),
        domains: vec![domain(NAMES[0], 1), domain(NAMES[4], 2)],
        command: NAMES.map(str::to_owned).to_vec(),
        warnings: NAMES.map(str::to_owned).to_vec(),
        ..Manifest::default()
    };
    let mut writer = Writer::create(dir, manifest)?;
    let site = |number: u8, name: &str| Site {
        site: number.into(),
        domain: NAMES[if number.is_multiple_of(2) { 4 } else { 0 }].into(),
        function: name.into(),
        module: Some(name.into()),
        file: Some(name.into()),
        line: Some(7),
        xflow: Some(name.into()),
        ..Site::default()
    };
    let sites: Vec<Site> = (1..).zip(NAMES).map(|(number, name)| site(number, name)).collect();
    writer.sites(&sites)?;
    for flow in 1..60 {
        for (site, name) in (1_u8..).zip(NAMES) {
            let mut comm = [0; 16];
            comm.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
            let kind = [Kind::Start, Kind::Hop, Kind::Hop, Kind::Hop, Kind::Quit][usize::from(site) - 1];
            let time_ns = flow * 10_000_000 + u64::from(site) * 1_000 * flow;
            let record = Record {
                time_ns,
                flow: 1 << 56 | flow,
                site: site.into(),
                pid: 7,
                tid: 7,
                cpu: 0,
                kind,
                comm,
                values: vec![flow],
            };
            writer.append(1, time_ns.cast_signed(), &record)?;
        }
    }
    let name = writer.name(NAMES[1]);
    for (tid, mut event) in (1_usize..).zip(Simulation::new(&Config::single(1)).take(3_000)) {
        if usize::is_multiple_of(tid, 3) {
            event.name = name;
        }
        writer.event(event)?;
    }
    writer.finish()?;
    Ok(())
}
