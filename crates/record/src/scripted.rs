//! What tests of whole recordings share: agents that are scripts, each at the other end of a socket pair, and plans that
//! need no kernel.

use std::{
    io,
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::Mutex,
    thread::{self, JoinHandle},
    time::Instant,
};

use xweave_synthetic::agent::{self, Script};
use xweave_weave::{Action, Role, SiteInfo, Woven};
use xweave_wire::{
    event,
    message::{DomainInfo, Request},
    plan::{EventPlan, EventProgram, Hook, Plan, PlanProgram, PlanSite},
};

use crate::{
    Budget, DomainSpec, Error, Options, Outcome, Phase, Transport, Until,
    capture::Capture,
    deploy::Deployment,
    hypervisor::{Imported, place_file},
    pace::Pace,
    recording::{Means, record_by},
    transport::Stream,
};

/// The kinds of events that plans have.
pub(crate) const EVENTS: [event::Kind; 2] = [event::Kind::Switch, event::Kind::Fork];

/// The agent of a domain.
pub(crate) struct Agent {
    name: &'static str,
    /// Records that it sends where its script leaves that to it.
    records: u64,
    script: Box<dyn Script + Send>,
}

impl Agent {
    pub(crate) fn new(name: &'static str, records: u64, script: impl Script + Send + 'static) -> Self {
        Self { name, records, script: Box::new(script) }
    }
}

/// Agents that wait to be reached, and those that were.
pub(crate) struct Agents {
    waiting: Mutex<Vec<Agent>>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Agents {
    pub(crate) fn new(waiting: Vec<Agent>) -> Self {
        Self { waiting: Mutex::new(waiting), running: Mutex::default() }
    }

    /// Has an agent of that domain serve. Gives the other end of its connection.
    pub(crate) fn reach(&self, spec: &DomainSpec) -> io::Result<UnixStream> {
        let mut waiting = self.waiting.lock().unwrap();
        let place = waiting.iter().position(|agent| agent.name == spec.name);
        let mut agent = waiting.swap_remove(place.ok_or(io::ErrorKind::NotFound)?);
        let (ours, mut theirs) = UnixStream::pair()?;
        let (input, output) = (theirs.try_clone()?, theirs.try_clone()?);
        self.running.lock().unwrap().push(thread::spawn(move || {
            let facts = DomainInfo { boot_id: format!("boot of {}", agent.name), ..agent::facts("6.12.0") };
            // That the controller cuts it off may be what is tested.
            let _ = agent::serve(input, output, facts, Vec::new(), agent.records, &mut *agent.script);
            // One that leaves hangs up; a close with requests unread would be an error instead of an end.
            let _ = theirs.shutdown(Shutdown::Write);
            let _ = io::copy(&mut theirs, &mut io::sink());
        }));
        Ok(ours)
    }

    /// Waits until each that was reached has seen the end of its connection.
    pub(crate) fn join(self) {
        for agent in self.running.into_inner().unwrap() {
            agent.join().unwrap();
        }
    }
}

/// To record these domains into the folder `trace` in that folder.
pub(crate) fn options(folder: &Path, domains: &[&str], until: Until, budget: Budget) -> Options {
    let spec = |name: &&str| DomainSpec {
        name: (*name).to_owned(),
        transport: Transport::Command((*name).to_owned()),
    };
    Options {
        expressions: vec!["execution(f) { STORE_DATA1(1); }".to_owned()],
        domains: domains.iter().map(spec).collect(),
        replace: true,
        buffer: 4096,
        flow_table: 1,
        budget,
        ..Options::new(folder.join("trace"), until, folder.join("cache"))
    }
}

/// Records with these agents, and waits until each has seen the end of its connection.
pub(crate) fn record(
    options: &Options,
    pace: Pace,
    agents: Vec<Agent>,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Outcome, Error> {
    let connect = |ours: UnixStream| Stream::of_socket(OwnedFd::from(ours));
    record_over(options, pace, agents, &connect, progress).0
}

/// The same over connections that are made of one end of a socket pair each. Gives when the recording was over: its agents
/// may take longer.
pub(crate) fn record_over(
    options: &Options,
    pace: Pace,
    agents: Vec<Agent>,
    connect: &(dyn Fn(UnixStream) -> io::Result<Stream> + Sync),
    progress: &mut dyn FnMut(Phase<'_>),
) -> (Result<Outcome, Error>, Instant) {
    let agents = Agents::new(agents);
    let open = |spec: &DomainSpec| connect(agents.reach(spec)?);
    let import = &import_here;
    let means = Means { open: &open, deploy: &|capture, _, _, _| plans(capture), import, pace };
    let outcome = record_by(options, &means, progress);
    let over = Instant::now();
    agents.join();
    (outcome, over)
}

/// A plan of two sites and two kinds of events.
pub(crate) fn plan(domain: u8) -> Plan {
    let site = |site| PlanSite {
        site,
        clauses: 1,
        function: format!("f{site}"),
        module: None,
        btf_id: 0,
        offset: 0,
        places: Vec::new(),
        arguments: 0,
        optional: false,
    };
    let program = PlanProgram {
        object: 0,
        name: "p0".to_owned(),
        hook: Hook::Entry,
        saver: None,
        tracepoint: 0,
        sites: sites(domain).map(site).to_vec(),
        origin: "test".to_owned(),
    };
    let probe = |kind: event::Kind| EventProgram {
        name: kind.to_string(),
        hook: Hook::Tracepoint,
        function: kind.to_string(),
        module: None,
        kind,
    };
    let events = EventPlan { object: Vec::new(), programs: EVENTS.map(probe).to_vec(), buffer: 4096 };
    Plan {
        domain,
        objects: vec![vec![0; 10_000]],
        programs: vec![program],
        buffer: 4096,
        flow_table: 1,
        serial_attach: false,
        events: Some(events),
    }
}

/// The numbers of a domain's sites.
fn sites(domain: u8) -> [u32; 2] {
    [u32::from(domain) * 2 - 1, u32::from(domain) * 2]
}

/// Such a plan for each domain, as if it had been made of what they say of their kernels.
fn plans(capture: &mut Capture<'_>) -> Result<Deployment, Error> {
    let mut woven = Vec::new();
    for index in 0..capture.sessions.len() {
        capture.sessions[index].ask(Request::Btf(None));
        capture.until(|session| !session.owes())?;
        capture.answer(index)?;
        let number = capture.sessions[index].number;
        // Flows go from guests to hosts.
        let crosses = match capture.sessions[index].role() {
            Role::Guest => Action::Xin,
            Role::Host => Action::Xout,
        };
        let info = |site| SiteInfo {
            site,
            aspect: "test".to_owned(),
            aspect_line: 1,
            clause: "test".to_owned(),
            action: if site == sites(number)[1] { crosses } else { Action::Advice },
            hook: Hook::Entry,
            function: format!("f{site}"),
            module: None,
            offset: 0,
            file: None,
            line: None,
            xflow: None,
            carrier: None,
            values: Vec::new(),
        };
        woven.push(Woven {
            domain: capture.sessions[index].name().to_owned(),
            plan: plan(number),
            sites: sites(number).map(info).to_vec(),
            drop_reasons: Vec::new(),
            line_sources: Vec::new(),
            skipped: Vec::new(),
            absent: Vec::new(),
            counts: Vec::new(),
            inlined: Vec::new(),
        });
    }
    Ok(Deployment { woven, ..Deployment::default() })
}

/// Makes a file of xentrace part of a trace, in this process.
fn import_here(
    file: &Path,
    dir: &Path,
    dom0: &str,
    _goes_on: &mut dyn FnMut() -> bool,
) -> Result<Imported, String> {
    let answer = place_file(file, dir, dom0)?;
    Ok(postcard::from_bytes(&answer).unwrap())
}
