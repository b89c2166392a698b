//! The recording itself.

use std::{
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use sha2::{Digest, Sha256};
use xweave_aspect::Aspects;
use xweave_flow::clock::{Exchange, Timeline};
use xweave_trace::{Aspect, Domain, DomainVm, Ended, Manifest, Writer};
use xweave_weave::{Role, Weaving};
use xweave_wire::{
    message::{Event, Facts, Loss, Reply, Request},
    record::{Record, decode_batch},
};

use crate::{
    Error,
    domain::{self, DomainSpec},
    events::{self, Waiting},
    interrupt, kernels,
    link::{Happening, Link},
    weaving::{self, add_events, compile, indices, sites, weave},
};

/// Exchanges of clock readings with each domain before weaving. The tightest counts.
const FIRST_EXCHANGES: usize = 16;

/// How often clock readings are exchanged and segments of the trace are closed, while recording.
const ROUND: Duration = Duration::from_secs(1);

/// How long flows under way may go on after no new ones begin.
const GRACE: Duration = Duration::from_millis(300);

/// What ends a recording.
#[derive(Clone, Debug)]
pub enum Until {
    /// Ctrl-C, or SIGTERM. These end the others too.
    Interrupted,
    /// So much time.
    Elapsed(Duration),
    /// The end of a command, which is started when all is woven.
    CommandEnds(Vec<String>),
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// Aspect files, or names of the library's aspects.
    pub aspects: Vec<PathBuf>,
    /// Aspect text from the command line.
    pub expressions: Vec<String>,
    /// The events to record besides, in all domains.
    pub events: Vec<xweave_weave::Group>,
    /// The domains besides this machine.
    pub domains: Vec<DomainSpec>,
    /// The trace directory.
    pub output: PathBuf,
    /// Whether an earlier trace there may be replaced.
    pub replace: bool,
    /// When to stop.
    pub until: Until,
    /// Ring buffer of each domain, in bytes: a power of two, at least 4096. Events have as much again, for all CPUs.
    pub buffer: u32,
    /// How many keys may carry flows at once in a domain.
    pub flow_table: u32,
    /// Whether to weave and unweave one hook after the other, and to leave the kernels' settings alone.
    pub gently: bool,
    /// Files of the kernels that domains run, with debug information: by the domains' names.
    pub symbols: Vec<(String, PathBuf)>,
    /// Where compiled advice, type information and indices are kept.
    pub cache: PathBuf,
    /// The command line, for the trace's manifest.
    pub command_line: Vec<String>,
}

/// What a recording is doing.
#[derive(Clone, Debug)]
pub enum Phase<'a> {
    /// Reaching a domain's agent.
    Connecting {
        /// The domain.
        domain: &'a str,
    },
    /// Asking what a domain's kernel is.
    Reading {
        /// The domain.
        domain: &'a str,
        /// `uname -r`.
        kernel: &'a str,
    },
    /// Finding out what the instructions of a domain's kernel touch.
    Indexing {
        /// The domain.
        domain: &'a str,
    },
    /// Resolving pointcuts and compiling advice.
    Compiling,
    /// Loading and attaching, in all domains.
    Weaving {
        /// Sites in all domains.
        sites: usize,
    },
    /// The same: how far one of them has come.
    Attaching {
        /// The domain.
        domain: &'a str,
        /// Hooks that are attached.
        done: u32,
        /// All of them.
        total: u32,
    },
    /// Records are coming in.
    Recording {
        /// Since the start.
        elapsed: Duration,
        /// Records so far.
        records: u64,
        /// Events so far.
        events: u64,
        /// Lost so far.
        lost: u64,
    },
    /// Letting flows under way end, detaching, collecting what is left.
    Stopping,
}

/// How a recording went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The trace directory.
    pub trace: PathBuf,
    /// The trace's manifest, as written.
    pub manifest: Manifest,
    /// Places that a pointcut selects but that cannot be hooked, per domain: what the kernels had to say only
    /// when they were asked is among the manifest's warnings.
    pub skipped: Vec<(String, xweave_weave::Skipped)>,
    /// What the checker wanted to be known.
    pub warnings: Vec<xweave_aspect::Diagnostic>,
    /// How the command ended, if there was one.
    pub command: Option<ExitStatus>,
    /// Sites woven, in all domains.
    pub sites: usize,
    /// How long loading and attaching took.
    pub weaving: Duration,
    /// How long detaching took, the domain's that took longest.
    pub unweaving: Duration,
}

/// Records, from connecting to the finished trace.
///
/// # Errors
/// When it cannot begin, or the trace cannot be written. A domain lost on the way is not an error:
/// the others go on, and the manifest says so.
pub fn record(options: &Options, progress: &mut dyn FnMut(Phase<'_>)) -> Result<Outcome, Error> {
    let sources = xweave_aspect::read(&options.aspects, &options.expressions)?;
    let aspects = xweave_aspect::parse(sources).map_err(Error::Aspects)?;
    let specs = domain::complete(&options.domains)?;
    interrupt::watch();

    let (events, happenings) = mpsc::channel();
    let mut members = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        progress(Phase::Connecting { domain: &spec.name });
        members.push(Member::join(spec, index, &events)?);
    }
    let mut kernels = Vec::new();
    for member in &mut members {
        progress(Phase::Reading { domain: &member.link.spec.name, kernel: &member.facts.kernel });
        kernels.push(kernels::kernel(&mut member.link, &member.facts, &options.cache)?);
    }
    let codes = indices(&aspects, &mut members, &kernels, options, progress)?;
    let timeline = timeline(&mut members)?;

    progress(Phase::Compiling);
    let Weaving { domains: mut woven, warnings: of_weaving } =
        compile(&aspects, &members, &kernels, &codes, options)?;
    let left_out = add_events(&mut woven, &members, &kernels, options)?;
    let warnings = aspects.warnings.iter().cloned().chain(of_weaving).collect();
    let mut manifest = manifest(options, &aspects, &members);
    describe_domains(&mut manifest, &members, &timeline);
    let mut writer = if options.replace {
        Writer::replace(&options.output, manifest)?
    } else {
        Writer::create(&options.output, manifest)?
    };

    progress(Phase::Weaving { sites: woven.iter().map(|woven| woven.sites.len()).sum() });
    let begun = Instant::now();
    let there = weave(&mut members, &woven, progress)?;
    let weaving = begun.elapsed();
    let skipped = woven
        .iter()
        .flat_map(|woven| woven.skipped.iter().map(|skipped| (woven.domain.clone(), skipped.clone())))
        .collect();
    let of_agents = weaving::warnings(&members, &woven, &there);
    writer.manifest_mut().warnings = left_out.into_iter().chain(of_agents).collect();
    let sites = sites(&woven, &there);
    writer.sites(&sites)?;

    let mut recording = Recording { members, timeline, writer, events: 0, happenings };
    let command = recording.run(options, progress)?;
    progress(Phase::Stopping);
    let (manifest, unweaving) = recording.finish()?;
    Ok(Outcome {
        trace: options.output.clone(),
        manifest,
        skipped,
        warnings,
        command,
        sites: sites.len(),
        weaving,
        unweaving,
    })
}

/// A domain that takes part.
pub(crate) struct Member {
    pub(crate) link: Link,
    pub(crate) facts: Facts,
    pub(crate) number: u8,
    /// Decoded, and waiting for the clocks to have been read after them.
    waiting: Vec<Record>,
    events: Waiting,
    loss: Loss,
    /// Whether it has been asked to weave.
    pub(crate) woven: bool,
    ended: Option<Ended>,
}

impl Member {
    fn join(spec: &DomainSpec, index: usize, events: &Sender<(usize, Happening)>) -> Result<Self, Error> {
        let mut link = Link::open(spec, index, events.clone())?;
        let Reply::Facts(facts) = link.call(&Request::Facts)? else {
            return Err(link.unexpected());
        };
        kernels::check(&spec.name, &facts)?;
        let number = u8::try_from(index + 1).map_err(|_| Error::TooManyDomains(index + 1))?;
        Ok(Self {
            link,
            facts: *facts,
            number,
            waiting: Vec::new(),
            events: Waiting::default(),
            loss: Loss::default(),
            woven: false,
            ended: None,
        })
    }

    fn exchange(&mut self) -> Result<Exchange, Error> {
        match self.link.timed_call(&Request::Clock)? {
            (sent_tsc, Reply::Clock(sample), received_tsc) => Ok(Exchange { sent_tsc, sample, received_tsc }),
            _ => Err(self.link.unexpected()),
        }
    }

    /// Learns what the domain has lost up to now: all that will be known if it is lost itself.
    fn ask_loss(&mut self) -> Result<(), Error> {
        match self.link.call(&Request::Loss)? {
            Reply::Loss(loss) => self.loss = loss,
            _ => return Err(self.link.unexpected()),
        }
        Ok(())
    }

    fn role(&self) -> xweave_trace::Role {
        match self.link.spec.role() {
            Role::Host => xweave_trace::Role::Host,
            Role::Guest => xweave_trace::Role::Guest,
        }
    }

    /// Recording, and with a connection.
    fn is_there(&self) -> bool {
        self.woven && self.ended.is_none()
    }

    fn lose(&mut self, reason: impl Into<String>) {
        self.ended.get_or_insert(Ended::Lost { reason: reason.into() });
    }
}

/// Relates the domains' clocks: domain 1 is the reference.
fn timeline(members: &mut [Member]) -> Result<Timeline, Error> {
    let mut timeline = Timeline::new(1);
    timeline.controller_hz(xweave_agent::tsc_hz());
    let vms = members.first().map(|host| host.facts.vms.clone()).unwrap_or_default();
    for member in members.iter() {
        timeline.facts(member.number, &member.facts);
        match member.link.spec.transport {
            crate::Transport::Local => timeline.controller_in(member.number),
            crate::Transport::Vsock { cid, .. } => {
                let mut named = vms.iter().filter(|vm| vm.cid == Some(cid));
                if let (Some(vm), None) = (named.next(), named.next()) {
                    timeline.pin_vm(member.number, vm.pid);
                }
            }
            crate::Transport::Command(_) => {}
        }
    }
    // In turns, so that the readings of two domains that are compared were taken close together.
    for _ in 0..FIRST_EXCHANGES {
        for member in members.iter_mut() {
            timeline.exchange(member.number, member.exchange()?);
        }
    }
    timeline.settle();
    Ok(timeline)
}

fn manifest(options: &Options, aspects: &Aspects, members: &[Member]) -> Manifest {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Manifest {
        schema: xweave_trace::SCHEMA,
        xweave: env!("CARGO_PKG_VERSION").to_owned(),
        created_ns: u64::try_from(created.as_nanos()).unwrap_or(0),
        command: options.command_line.clone(),
        reference: members.first().map(|m| m.link.spec.name.clone()).unwrap_or_default(),
        aspects: aspects
            .sources
            .iter()
            .map(|source| Aspect {
                name: source.name.clone(),
                file: source.name.clone(),
                sha256: Sha256::digest(&source.text).iter().map(|byte| format!("{byte:02x}")).collect(),
            })
            .collect(),
        ..Manifest::default()
    }
}

/// What may change while recording: which VM a domain is, how good its clock is, how it ended.
fn describe_domains(manifest: &mut Manifest, members: &[Member], timeline: &Timeline) {
    let host = manifest.reference.clone();
    manifest.domains = members
        .iter()
        .map(|member| {
            let name = &member.link.spec.name;
            let mut domain = Domain::new(name, member.number, member.role(), &member.facts);
            domain.vm = timeline.vm(member.number).map(|vm| DomainVm {
                host: host.clone(),
                pid: vm.pid,
                cid: vm.cid,
            });
            domain.ended = member.ended.clone();
            domain
        })
        .collect();
    manifest.clocks =
        members.iter().filter_map(|member| timeline.clock(member.number, &member.link.spec.name)).collect();
}

struct Recording {
    members: Vec<Member>,
    timeline: Timeline,
    writer: Writer,
    /// How many have been given to the writer.
    events: u64,
    happenings: Receiver<(usize, Happening)>,
}

impl Recording {
    fn run(
        &mut self,
        options: &Options,
        progress: &mut dyn FnMut(Phase<'_>),
    ) -> Result<Option<ExitStatus>, Error> {
        self.ask_all(&Request::Start);
        let begun = Instant::now();
        let mut command = match &options.until {
            Until::CommandEnds(words) => Some(start(words)?),
            _ => None,
        };
        let mut next_round = begun + ROUND;
        let status = loop {
            self.wait(Duration::from_millis(50))?;
            if Instant::now() >= next_round {
                self.round()?;
                next_round = Instant::now() + ROUND;
            }
            let records = self.writer.records();
            let waiting: usize = self.members.iter().map(|member| member.waiting.len()).sum();
            progress(Phase::Recording {
                elapsed: begun.elapsed(),
                records: records + waiting as u64,
                events: self.events
                    + self.members.iter().map(|member| member.events.len() as u64).sum::<u64>(),
                lost: self.lost(),
            });
            if let Some(child) = &mut command
                && let Ok(Some(status)) = child.try_wait()
            {
                break Some(status);
            }
            let over = match options.until {
                Until::Elapsed(duration) => begun.elapsed() >= duration,
                _ => false,
            };
            let nobody = !self.members.iter().any(Member::is_there);
            if over || nobody || interrupt::interrupted() {
                break command.as_mut().and_then(end);
            }
        };
        Ok(status)
    }

    fn lost(&self) -> u64 {
        let losses = || self.members.iter().map(|member| &member.loss);
        let records: u64 = losses().flat_map(|loss| &loss.sites).map(|site| site.dropped + site.missed).sum();
        let events: u64 = losses().flat_map(|loss| &loss.events).map(|kind| kind.dropped + kind.missed).sum();
        records + events
    }

    /// Asks all domains that are still there; one that does not answer is lost, and the others go on.
    fn ask_all(&mut self, request: &Request) {
        let there = self.members.iter_mut().filter(|member| member.is_there());
        thread::scope(|scope| {
            for member in there {
                scope.spawn(move || match member.link.call(request) {
                    Ok(Reply::Stopped(loss)) => {
                        member.loss = loss;
                        member.ended = Some(Ended::Stopped);
                    }
                    Ok(_) => {}
                    Err(error) => member.lose(error.to_string()),
                });
            }
        });
    }

    /// Takes in what has come, waiting a while for the first.
    fn wait(&mut self, patience: Duration) -> Result<(), Error> {
        match self.happenings.recv_timeout(patience) {
            Ok((index, happening)) => self.take(index, happening)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        }
        self.take_all()
    }

    fn take_all(&mut self) -> Result<(), Error> {
        while let Ok((index, happening)) = self.happenings.try_recv() {
            self.take(index, happening)?;
        }
        Ok(())
    }

    fn take(&mut self, index: usize, happening: Happening) -> Result<(), Error> {
        let member = &mut self.members[index];
        match happening {
            Happening::Event(Event::Records(bytes)) => {
                let (records, rest) = decode_batch(&bytes);
                member.waiting.extend(records);
                if rest > 0 {
                    member.lose(format!("{rest} bytes of records could not be understood"));
                }
            }
            Happening::Event(Event::Events(bytes)) => {
                let rest = member.events.take(&bytes);
                if rest > 0 {
                    member.lose(format!("{rest} bytes of events could not be understood"));
                }
            }
            Happening::Event(Event::Clock(sample)) => {
                self.timeline.sample(member.number, sample);
                member.events.clock(sample.mono_ns);
                self.write_settled(index, Waiting::settled)?;
            }
            // It is told to whoever waits for the weaving.
            Happening::Event(Event::Weaving { .. }) => {}
            Happening::Gone(reason) => member.lose(reason),
        }
        Ok(())
    }

    /// Writes the records whose place on the time line cannot change any more, and those events that are given
    /// until there.
    fn write_settled(
        &mut self,
        index: usize,
        events: impl Fn(&mut Waiting, u64) -> Vec<xweave_wire::event::Event>,
    ) -> Result<(), Error> {
        let member = &mut self.members[index];
        let Some(horizon) = self.timeline.horizon(member.number) else { return Ok(()) };
        let (settled, waiting) =
            std::mem::take(&mut member.waiting).into_iter().partition(|record| record.time_ns <= horizon);
        member.waiting = waiting;
        let settled: Vec<Record> = settled;
        for record in &settled {
            // Settled means that the clock is known.
            if let Some(stamp) = self.timeline.to_reference(member.number, record.time_ns) {
                self.writer.append(member.number, stamp.ns, record)?;
            }
        }
        for event in events(&mut member.events, horizon) {
            if let Some(stamp) = self.timeline.to_reference(member.number, event.time_ns) {
                let event = events::normal(&event, member.number, stamp.ns, &mut self.writer);
                self.writer.event(event)?;
                self.events += 1;
            }
        }
        Ok(())
    }

    /// Once a second: the clocks are compared, losses told, and what has been recorded becomes readable.
    fn round(&mut self) -> Result<(), Error> {
        for member in self.members.iter_mut().filter(|member| member.is_there()) {
            let told = member.exchange().and_then(|exchange| {
                self.timeline.exchange(member.number, exchange);
                member.ask_loss()
            });
            if let Err(error) = told {
                member.lose(error.to_string());
            }
        }
        self.describe();
        self.writer.flush()?;
        Ok(())
    }

    fn describe(&mut self) {
        let losses: Vec<_> =
            self.members.iter().map(|member| (member.link.spec.name.as_str(), &member.loss)).collect();
        let manifest = self.writer.manifest_mut();
        manifest.loss.set(&losses);
        describe_domains(manifest, &self.members, &self.timeline);
    }

    /// Gives the trace's manifest, and how long it took to take all hooks away.
    fn finish(mut self) -> Result<(Manifest, Duration), Error> {
        self.ask_all(&Request::Drain);
        let graceful = Instant::now() + GRACE;
        while let Some(left) = graceful.checked_duration_since(Instant::now()) {
            self.wait(left)?;
        }
        let begun = Instant::now();
        self.ask_all(&Request::Stop);
        let unweaving = begun.elapsed();
        // All events come before the answer to Stop, on the same stream.
        self.take_all()?;
        self.timeline.finish();
        for index in 0..self.members.len() {
            self.write_settled(index, Waiting::rest)?;
            // Without a single clock sample nothing has a place on the time line.
            let unplaced = (self.members[index].waiting.len() + self.members[index].events.len()) as u64;
            self.writer.manifest_mut().loss.unwritten += unplaced;
        }
        self.describe();
        Ok((self.writer.finish()?, unweaving))
    }
}

/// In a process group of its own, so that Ctrl-C reaches it by way of us, once.
fn start(words: &[String]) -> Result<Child, Error> {
    let (program, arguments) = words.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
    Command::new(program)
        .args(arguments)
        .process_group(0)
        .spawn()
        .map_err(|error| Error::Command { command: program.to_owned(), error })
}

/// Asks the command to end, and makes it end.
fn end(child: &mut Child) -> Option<ExitStatus> {
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: takes integers; the child has not been waited for, so the group is still its.
        unsafe { libc::kill(-group, libc::SIGTERM) };
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(20));
    }
    // Fails if it has just ended by itself.
    let _ = child.kill();
    child.wait().ok()
}
