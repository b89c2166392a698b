//! An agent without a kernel: it speaks the protocol of `xweave agent`, loads nothing, and records what its script says.
//!
//! By itself it is honest: it answers what it is asked, and sends so many records of the sites that it was told to weave, all
//! of them before the answer to `Stop`. A [`Script`] makes it any other agent: silent, flooding, lying.

use std::{
    io::{self, Read, Write},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use xweave_wire::{
    frame,
    knob::{Setting, State},
    message::{ClockSample, DomainInfo, Event, FromAgent, Loss, Reply, Request, Shared, SiteAddress, Woven},
    pages::LookedAt,
    plan::{Plan, PlanSite},
    record::{Kind, Record},
};

/// How often an agent looks whether there is something to send.
const TICK: Duration = Duration::from_millis(10);

/// Records of one batch.
const BATCH: u64 = 1000;

/// How a knob stands that was set.
fn as_set(setting: &Setting) -> State {
    let Setting { knob, vm, value } = setting.clone();
    State { knob, vm, value, choices: Vec::new(), unavailable: None }
}

/// When a script is asked.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// Before the preamble is sent.
    Hello,
    /// A request came.
    Asked(&'a Request),
    /// Nothing came for a while.
    Tick,
}

/// What a script has done with a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing that would keep the agent from doing what an honest one does.
    Nothing,
    /// All that will be done.
    All,
    /// Enough: the agent goes.
    Leave,
}

/// How an agent departs from an honest one. What it cannot send ends the agent.
pub trait Script {
    /// Does something at a moment, or leaves it to the honest agent.
    fn at(&mut self, moment: Moment<'_>, voice: &mut Voice) -> io::Result<Done>;
}

/// One that departs in nothing.
pub struct Honest;

impl Script for Honest {
    fn at(&mut self, _: Moment<'_>, _: &mut Voice) -> io::Result<Done> {
        Ok(Done::Nothing)
    }
}

/// A script that is a function.
struct By<F>(F);

impl<F: FnMut(Moment<'_>, &mut Voice) -> io::Result<Done>> Script for By<F> {
    fn at(&mut self, moment: Moment<'_>, voice: &mut Voice) -> io::Result<Done> {
        (self.0)(moment, voice)
    }
}

/// One that does what the function says.
pub fn by<F: FnMut(Moment<'_>, &mut Voice) -> io::Result<Done>>(script: F) -> impl Script {
    By(script)
}

/// One that answers requests as the function says, and those honestly to which it gives no answer.
pub fn answering(mut answer: impl FnMut(&Request, &mut Voice) -> Option<Reply>) -> impl Script {
    by(move |moment, voice| {
        let Moment::Asked(request) = moment else { return Ok(Done::Nothing) };
        match answer(request, voice) {
            None => Ok(Done::Nothing),
            Some(reply) => voice.reply(reply).map(|()| Done::All),
        }
    })
}

/// What an agent knows, and how it speaks.
pub struct Voice {
    output: Box<dyn Write + Send>,
    /// What it says it is.
    pub facts: DomainInfo,
    /// The types of its kernel; modules have the same.
    pub btf: Vec<u8>,
    /// What it was told to weave.
    pub plan: Option<Plan>,
    /// Records that it sends while it records.
    pub records: u64,
    /// Of these, how many it has sent.
    pub sent: u64,
    /// Whether it was told to start.
    pub recording: bool,
    next_clock: Instant,
}

impl Voice {
    /// Sends a message.
    pub fn say(&mut self, message: &FromAgent) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::write_message(&mut bytes, message).map_err(io::Error::other)?;
        self.raw(&bytes)
    }

    /// Sends bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)?;
        self.output.flush()
    }

    /// Sends a reply.
    pub fn reply(&mut self, reply: Reply) -> io::Result<()> {
        self.say(&FromAgent::Reply(reply))
    }

    /// Sends an event.
    pub fn event(&mut self, event: Event) -> io::Result<()> {
        self.say(&FromAgent::Event(event))
    }

    /// All sites of the plan.
    pub fn sites(&self) -> Vec<u32> {
        let sites = self.plan.iter().flat_map(|plan| &plan.programs).flat_map(|program| &program.sites);
        sites.flat_map(|site: &PlanSite| site.site..site.site + site.clauses).collect()
    }

    /// The number that its flows begin with.
    pub fn domain(&self) -> u64 {
        self.plan.as_ref().map_or(0, |plan| u64::from(plan.domain) << 56)
    }

    /// A record of one of its sites, as of now.
    pub fn record(&self, number: u64) -> Record {
        let sites = self.sites();
        let place = usize::try_from(number).unwrap_or(0) % sites.len().max(1);
        let mut comm = [0; 16];
        comm[..4].copy_from_slice(b"test");
        Record {
            time_ns: clock().mono_ns,
            flow: self.domain() | (number + 1),
            site: sites.get(place).copied().unwrap_or(0),
            pid: 1,
            tid: 1,
            cpu: 0,
            kind: Kind::Hop,
            comm,
            values: vec![number],
        }
    }

    /// Sends records that have not been sent, as many as that at most.
    pub fn send_records(&mut self, most: u64) -> io::Result<()> {
        let count = most.min(self.records - self.sent);
        if count == 0 || self.sites().is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        (self.sent..self.sent + count).for_each(|number| self.record(number).encode(&mut bytes));
        self.sent += count;
        self.event(Event::Records(bytes))
    }

    /// What an honest agent does.
    pub fn honest(&mut self, moment: Moment<'_>) -> io::Result<()> {
        match moment {
            Moment::Hello => {
                let mut bytes = Vec::new();
                frame::write_preamble(&mut bytes).map_err(io::Error::other)?;
                self.raw(&bytes)
            }
            Moment::Tick => {
                if self.recording {
                    self.send_records(BATCH)?;
                }
                if self.plan.is_some() && Instant::now() >= self.next_clock {
                    self.next_clock = Instant::now() + Duration::from_millis(100);
                    self.event(Event::Clock(clock()))?;
                }
                Ok(())
            }
            Moment::Asked(request) => self.answer(request),
        }
    }

    fn answer(&mut self, request: &Request) -> io::Result<()> {
        let reply = match request {
            Request::Alive => return Ok(()),
            Request::DomainInfo => Reply::DomainInfo(Box::new(self.facts.clone())),
            Request::Btf(_) => Reply::Btf(self.btf.clone()),
            Request::Code(_) => Reply::Code(Vec::new()),
            Request::Clock => Reply::Clock(clock()),
            Request::Vms => Reply::Vms(self.facts.vms.clone()),
            Request::Symbols(_) => Reply::Symbols(Vec::new()),
            Request::Weave(plan) => {
                self.plan = Some((**plan).clone());
                let address = |site| SiteAddress { site, address: 0xffff_ffff_8100_0000 };
                let sites = self.sites().into_iter().map(address).collect();
                Reply::Woven(Woven { sites, ..Woven::default() })
            }
            Request::XenMark(_) => Reply::XenMarked { reason: None },
            Request::XenGuests(marks) => Reply::XenGuests { domids: vec![None; marks.len()], reason: None },
            Request::Share { .. } => Reply::Shared(Shared::default()),
            Request::Start { .. } => {
                self.recording = true;
                Reply::Done
            }
            Request::Guests { .. } | Request::Xentrace | Request::Drain | Request::Off | Request::Unset => {
                Reply::Done
            }
            Request::Knobs => Reply::Knobs(Vec::new()),
            Request::Set(settings) => Reply::Knobs(settings.iter().map(as_set).collect()),
            Request::Cached(_) | Request::Changed => Reply::LookedAt(LookedAt::default()),
            Request::Watch { .. } => Reply::Watching { watches: true, reason: None },
            Request::Loss => Reply::Loss(Loss::default()),
            Request::Stop => {
                while self.sent < self.records && !self.sites().is_empty() {
                    self.send_records(BATCH)?;
                }
                self.recording = false;
                self.event(Event::Clock(clock()))?;
                Reply::Stopped(Loss::default())
            }
        };
        self.reply(reply)
    }
}

/// This machine's clocks.
pub fn clock() -> ClockSample {
    let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mono = monotonic();
    // Without a TSC that can be used: domains are related by exchanges then.
    ClockSample {
        tsc_before: 0,
        mono_ns: mono,
        tsc_after: 0,
        real_ns: u64::try_from(real.as_nanos()).unwrap_or(0),
    }
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// What a domain with a kernel of these types says of itself: new enough, and allowed to trace.
pub fn facts(kernel: &str) -> DomainInfo {
    DomainInfo {
        agent: env!("CARGO_PKG_VERSION").to_owned(),
        hostname: "synthetic".to_owned(),
        kernel: kernel.to_owned(),
        boot_id: "00000000-0000-4000-8000-000000000000".to_owned(),
        cpus: 1,
        privileged: true,
        btf: true,
        ..DomainInfo::default()
    }
}

/// Serves a controller until it goes, or the script does.
///
/// # Errors
/// When the stream fails: the controller has cut it, most likely.
pub fn serve(
    mut input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    facts: DomainInfo,
    btf: Vec<u8>,
    records: u64,
    script: &mut dyn Script,
) -> io::Result<()> {
    let mut voice = Voice {
        output: Box::new(output),
        facts,
        btf,
        plan: None,
        records,
        sent: 0,
        recording: false,
        next_clock: Instant::now(),
    };
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        if frame::read_preamble(&mut input).is_err() {
            return;
        }
        while let Ok(request) = frame::read_message::<Request>(&mut input)
            && sender.send(request).is_ok()
        {}
    });
    let mut at = |moment: Moment<'_>, voice: &mut Voice| -> io::Result<bool> {
        match script.at(moment, voice)? {
            Done::Nothing => voice.honest(moment).map(|()| true),
            Done::All => Ok(true),
            Done::Leave => Ok(false),
        }
    };
    if !at(Moment::Hello, &mut voice)? {
        return Ok(());
    }
    loop {
        let goes_on = match requests.recv_timeout(TICK) {
            Ok(request) => at(Moment::Asked(&request), &mut voice)?,
            Err(RecvTimeoutError::Timeout) => at(Moment::Tick, &mut voice)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if !goes_on {
            return Ok(());
        }
    }
}
