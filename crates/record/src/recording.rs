//! The recording itself, phase by phase: reach the domains, learn what they are, weave, record, unweave.

use std::{
    io,
    process::ExitStatus,
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use xweave_aspect::{Aspects, Diagnostic};
use xweave_flow::clock::Timeline;
use xweave_system::{Background, clock};
use xweave_trace::{Exit, Manifest, Site, Writer};
use xweave_weave::{AspectInput, Library, ProgramObject, Role, Skipped, Woven};
use xweave_wire::message::{Reply, Request};

use crate::{
    Error, Options, Outcome, Phase, Transport, Until, back_ends,
    budget::{Budget, free_space},
    capture::Capture,
    command::Command,
    deploy::{Deployment, deploy},
    describe,
    domain::{self, DomainSpec},
    hypervisor,
    identity::{self, Answered},
    kernels,
    link::Link,
    pace::{Pace, SOON},
    question::Question,
    remaining::{Remaining, Required},
    session::Session,
    settings::{self, Made},
    sharing,
    transport::Stream,
    weaving::{self, sites},
    xen,
};

/// Exchanges of clock readings with each domain before weaving. The tightest counts.
const FIRST_EXCHANGES: usize = 16;

/// Records, from connecting to the finished trace.
///
/// # Errors
/// When it cannot begin, or the trace cannot be written. A guest that is not there when it begins, or not as it should be, is
/// left out where it is not required and another is left. A domain lost on the way is not an error: the others go on, and the
/// manifest says so.
pub fn record(options: &Options, progress: &mut dyn FnMut(Phase<'_>)) -> Result<Outcome, Error> {
    record_by(options, &Means::usual(), progress)
}

/// By what a recording is made.
pub(crate) struct Means<'a> {
    /// How a domain is reached.
    pub(crate) open: &'a (dyn Fn(&DomainSpec) -> io::Result<Stream> + Sync),
    /// How plans are made.
    pub(crate) deploy: &'a Deploy,
    /// What Xen recorded is made part of the trace.
    pub(crate) import: &'a hypervisor::Import,
    pub(crate) pace: Pace,
}

/// Bytes that have to be free for a trace: less than its first files take.
const LEAST_SPACE: u64 = 128 << 10;

/// Makes plans of aspects, with programs that were compiled before.
pub(crate) type Deploy =
    dyn Fn(&mut Capture<'_>, &Aspects, &Library<'_>, &Options) -> Result<Deployment, Error>;

impl Means<'_> {
    /// By the domains' transports, of what their kernels are.
    pub(crate) fn usual() -> Self {
        Self {
            open: &|spec| spec.transport.open(),
            deploy: &deploy,
            import: &hypervisor::import,
            pace: Pace::default(),
        }
    }
}

/// The programs that were compiled before: `own` with an aspect of the user's, and those of the library, unless these are to
/// be compiled here.
pub(crate) fn library(own: &[ProgramObject], compile_here: bool) -> Library<'_> {
    let built_in = xweave_programs::library();
    Library { own, objects: if compile_here { &[] } else { built_in.objects }, ..built_in }
}

/// The same over any streams and with any plans.
pub(crate) fn record_by(
    options: &Options,
    means: &Means<'_>,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Outcome, Error> {
    Writer::check(&options.output, options.replace)?;
    let free = free_space(&options.output);
    if free < LEAST_SPACE {
        return Err(Error::Space { output: options.output.clone(), free });
    }
    let AspectInput { sources, objects } =
        xweave_weave::read_aspects(&options.aspects, &options.expressions, options.filter.as_deref())?;
    let aspects = xweave_aspect::parse(sources).map_err(Error::Aspects)?;
    let library = library(&objects, options.compile_here);
    let specs = domain::complete(&options.domains)?;
    domain::check_symbols(&options.symbols, &specs)?;
    xweave_interrupt::install(xweave_interrupt::Again::Waits, xweave_interrupt::Blocked::GoesOn);

    let settings = options.settings.of.iter().map(|(domain, _)| domain.clone());
    let required = match options.required.clone() {
        Required::Named(names) => Required::Named(names.into_iter().chain(settings).collect()),
        Required::All => Required::All,
    };
    let mut remaining = Remaining::of(specs, required, 1);
    let mut told = Vec::new();
    let preparation = Preparation { options, aspects: &aspects, library: &library, means };
    let Prepared { mut capture, woven, left_out, warnings, skipped, of_agents, sites, settings, weaving } = loop {
        let error = match preparation.prepare(remaining.domains(), Box::new(&mut *progress)) {
            Ok(prepared) => break prepared,
            Err(error) => error,
        };
        for line in remaining.leave_out(error)? {
            progress(Phase::Note { line: &line });
            told.push(line);
        }
    };
    // Where nothing can be woven, or the command not be started, nothing is written, and an earlier trace stays. What
    // is recorded meanwhile waits.
    let command = start(&mut capture, options)?;
    // After the command was started, which is not to be there.
    let background = options.background.then(Background::enter).transpose().map_err(Error::Background)?;
    if xweave_interrupt::pending() {
        return Err(Error::Interrupted { woven: true });
    }
    let mut manifest = describe::manifest(options, &aspects, &capture.sessions);
    describe::domains(&mut manifest, &capture.sessions, &capture.timeline);
    manifest.warnings = told.into_iter().chain(left_out).chain(of_agents).collect();
    let told = manifest.warnings.len();
    manifest.loss.uncounted = weaving::uncounted(&capture.sessions, &woven);
    let writer = if options.replace { Writer::replace } else { Writer::create };
    let mut writer = writer(&options.output, manifest)?;
    writer.sites(&sites)?;
    capture.begin(writer)?;

    let command = run(&mut capture, options, command)?;
    drop(background);
    let unweaving = stop(&mut capture, options)?;
    let manifest = finish(&mut capture)?;
    let manifest = hypervisor::place(&mut capture, &options.output, manifest, means.import);
    Ok(Outcome {
        trace: options.output.clone(),
        manifest,
        left_out: remaining.left_out().to_vec(),
        skipped,
        told,
        warnings,
        command,
        settings,
        sites: sites.len(),
        weaving,
        unweaving,
    })
}

/// How domains are prepared to record, whichever they are.
struct Preparation<'a> {
    options: &'a Options,
    aspects: &'a Aspects,
    library: &'a Library<'a>,
    means: &'a Means<'a>,
}

/// Domains that are woven and have not begun to record.
struct Prepared<'p> {
    capture: Capture<'p>,
    woven: Vec<Woven>,
    /// What of the aspects and events kernels have no place for.
    left_out: Vec<String>,
    /// What the checker wanted to be known.
    warnings: Vec<Diagnostic>,
    skipped: Vec<(String, Skipped)>,
    /// What is to be known of what was woven, beyond that.
    of_agents: Vec<String>,
    sites: Vec<Site>,
    settings: Vec<Made>,
    /// How long loading and attaching took.
    weaving: Duration,
}

impl Preparation<'_> {
    /// Reaches these domains, learns what they are, and weaves.
    fn prepare<'p>(
        &self,
        domains: &[DomainSpec],
        progress: Box<dyn FnMut(Phase<'_>) + 'p>,
    ) -> Result<Prepared<'p>, Error> {
        let Self { options, aspects, library, means } = self;
        let mut capture = connect(domains.to_vec(), &options.budget, means, progress)?;
        read_facts(&mut capture)?;
        hypervisor::check(&capture, options)?;
        let unidentified = xen::identify(&mut capture)?;
        introduce(&mut capture)?;
        unidentified.iter().for_each(|line| note(&mut capture, line));
        let Deployment { woven, left_out, notes, warnings: of_weaving } =
            (means.deploy)(&mut capture, aspects, library, options)?;
        let warnings: Vec<_> = aspects.warnings.iter().cloned().chain(of_weaving).collect();
        warnings.iter().for_each(|diagnostic| capture.tell(Phase::Diagnosed { diagnostic }));
        let skipped = skipped(&woven);
        skipped.iter().for_each(|(domain, skipped)| {
            let (function, clause, reason) = (&skipped.function, &skipped.clause, &skipped.reason);
            note(&mut capture, &format!("{domain}: {function} is not woven ({clause}): {reason}"));
        });
        left_out.iter().chain(&notes).for_each(|line| note(&mut capture, line));
        relate_clocks(&mut capture)?;

        let begun = Instant::now();
        let there = weave(&mut capture, aspects, &woven)?;
        let not_shared = sharing::share(&mut capture, &woven)?;
        for (session, woven) in capture.sessions.iter_mut().zip(&woven) {
            session.drops.reasons.clone_from(&woven.drop_reasons);
        }
        let weaving = begun.elapsed();
        let mut of_agents = weaving::warnings(&capture.sessions, &woven, &there);
        of_agents.extend(not_shared);
        if weaving::has_carriers(&woven) {
            of_agents.extend(back_ends::warnings(&capture.sessions, |number| capture.timeline.vm(number)));
        }
        of_agents.iter().for_each(|line| note(&mut capture, line));
        let sites = sites(&woven, &there);
        let settings = settings::make(&mut capture, &options.settings)?;
        Ok(Prepared { capture, woven, left_out, warnings, skipped, of_agents, sites, settings, weaving })
    }
}

/// Reaches all domains, side by side: one that does not answer keeps none of the others waiting.
pub(crate) fn connect<'p>(
    specs: Vec<DomainSpec>,
    budget: &Budget,
    means: &Means<'_>,
    mut progress: Box<dyn FnMut(Phase<'_>) + 'p>,
) -> Result<Capture<'p>, Error> {
    specs.iter().for_each(|spec| progress(Phase::Connecting { domain: &spec.name }));
    let opened: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = specs.iter().map(|spec| scope.spawn(|| (means.open)(spec))).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    if xweave_interrupt::pending() {
        return Err(Error::Interrupted { woven: false });
    }
    let (sender, incoming) = mpsc::channel();
    let share = budget.disk / specs.len().max(1) as u64;
    let (mut sessions, mut unreachable) = (Vec::new(), Vec::new());
    for ((index, spec), opened) in specs.into_iter().enumerate().zip(opened) {
        let opened = opened.unwrap_or_else(|_| Err(io::Error::other("connecting failed")));
        let stream = match opened {
            Ok(stream) => stream,
            Err(error) => {
                let (domain, transport) = (spec.name, spec.transport.to_string());
                unreachable.push(Error::Unreachable { domain, transport, reason: error.into() });
                continue;
            }
        };
        // This machine's own agent is as trustworthy as the controller.
        let rate = budget.rate.filter(|_| spec.transport != Transport::Local);
        let budget = Budget { rate, disk: share, ..*budget };
        let link = Link::open(stream, &budget, index, &sender);
        let number = u8::try_from(index + 1).map_err(|_| Error::TooManyDomains(index + 1))?;
        sessions.push(Session::new(spec, number, link, budget, means.pace));
    }
    if let Some(error) = Error::of_all(unreachable) {
        return Err(error);
    }
    let mut capture = Capture::new(sessions, incoming, means.pace, progress);
    capture.until(Session::has_greeted)?;
    Ok(capture)
}

pub(crate) fn read_facts(capture: &mut Capture<'_>) -> Result<(), Error> {
    capture.sessions.iter_mut().for_each(|session| session.ask(Request::DomainInfo));
    capture.until(|session| !session.owes())?;
    let mut unfit = Vec::new();
    for index in 0..capture.sessions.len() {
        let Reply::DomainInfo(facts) = capture.answer(index)? else { return Err(capture.unexpected(index)) };
        let session = &mut capture.sessions[index];
        unfit.extend(kernels::check(session.name(), &facts).err());
        session.facts = *facts;
    }
    Error::of_all(unfit).map_or(Ok(()), Err)
}

/// Tells which machine each domain turned out to be, and what of it looks wrong.
pub(crate) fn introduce(capture: &mut Capture<'_>) -> Result<(), Error> {
    let domains: Vec<_> = answered(capture).collect();
    identity::check(&domains)?;
    let (lines, warnings) = (identity::lines(&domains), identity::warnings(&domains));
    lines.iter().for_each(|line| capture.tell(Phase::Found { line }));
    warnings.iter().for_each(|line| note(capture, line));
    Ok(())
}

/// The domains as they were given, and what their agents say they are.
pub(crate) fn answered<'a>(capture: &'a Capture<'_>) -> impl Iterator<Item = Answered<'a>> {
    capture.sessions.iter().map(|session| Answered {
        spec: &session.spec,
        facts: &session.facts,
        domid: session.domid,
    })
}

fn note(capture: &mut Capture<'_>, line: &str) {
    capture.tell(Phase::Note { line });
}

/// Places that no hook can reach, with their domains.
fn skipped(woven: &[Woven]) -> Vec<(String, Skipped)> {
    let of_domain = |woven: &Woven| {
        let domain = woven.domain.clone();
        woven.skipped.clone().into_iter().map(move |skipped| (domain.clone(), skipped))
    };
    woven.iter().flat_map(of_domain).collect()
}

/// Relates the domains' clocks: domain 1 is the reference.
fn relate_clocks(capture: &mut Capture<'_>) -> Result<(), Error> {
    let mut timeline = Timeline::new(1);
    static HZ: OnceLock<u64> = OnceLock::new();
    timeline.controller_hz(*HZ.get_or_init(clock::tsc_hz));
    let vms = capture.sessions.first().map(|host| host.facts.vms.clone()).unwrap_or_default();
    for session in &capture.sessions {
        timeline.facts(session.number, &session.facts);
        match session.spec.transport {
            Transport::Local => timeline.controller_in(session.number),
            Transport::Vsock { cid, .. } => {
                let mut named = vms.iter().filter(|vm| vm.cid == Some(cid));
                if let (Some(vm), None) = (named.next(), named.next()) {
                    timeline.pin_vm(session.number, vm.pid);
                }
            }
            Transport::Command(_) => {}
        }
    }
    capture.timeline = timeline;
    capture.exchange_clocks(FIRST_EXCHANGES)?;
    // Compiling has taken a while since they were told with the facts.
    if let Some(host) = capture.sessions.first_mut() {
        host.ask(Request::Vms);
    }
    capture.until(|session| !session.owes())?;
    capture.timeline.settle();
    Ok(())
}

/// Loads and attaches in all domains at once: most of the time is spent in the kernels, waiting.
fn weave(capture: &mut Capture<'_>, aspects: &Aspects, woven: &[Woven]) -> Result<weaving::There, Error> {
    capture.tell(Phase::Weaving { sites: woven.iter().map(|woven| woven.sites.len()).sum() });
    let has_hooks = |woven: &&Woven| !woven.plan.programs.is_empty() || woven.plan.events.is_some();
    let asked: Vec<usize> = (0..woven.len()).filter(|index| has_hooks(&&woven[*index])).collect();
    for &index in &asked {
        capture.sessions[index].ask(Request::Weave(Box::new(woven[index].plan.clone())));
    }
    capture.until(|session| !session.owes())?;
    let mut there = weaving::There::default();
    for index in asked {
        let answer = capture.answer(index).map_err(|error| {
            let release = &capture.sessions[index].facts.kernel;
            weaving::explained(error, aspects, &woven[index], release)
        })?;
        let Reply::Woven(answer) = answer else { return Err(capture.unexpected(index)) };
        there.add(&woven[index].domain, answer);
    }
    Ok(there)
}

/// Has the domains record, and then starts the command, if there is one: what it does first is part of the trace.
fn start(capture: &mut Capture<'_>, options: &Options) -> Result<Option<Command>, Error> {
    if options.xen {
        hypervisor::begin(capture)?;
    }
    capture.ask_all(&Request::Start { background: options.background });
    // One that does not is lost, as one that is lost later.
    while capture.recorded().any(|session| session.owes_answer_to(Question::Start))
        && !xweave_interrupt::pending()
    {
        capture.wait(SOON)?;
    }
    match &options.until {
        Until::CommandEnds { words, .. } => Command::start(words).map(Some),
        _ => Ok(None),
    }
}

/// Records until that is over. Gives how the command ended, if there was one.
fn run(
    capture: &mut Capture<'_>,
    options: &Options,
    mut command: Option<Command>,
) -> Result<Option<ExitStatus>, Error> {
    let begun = Instant::now();
    let mut next_round = begun + capture.pace.round;
    let limit = options.until.limit();
    let mut timed_out = false;
    loop {
        capture.wait(SOON)?;
        if Instant::now() >= next_round {
            round(capture)?;
            next_round = Instant::now() + capture.pace.round;
        }
        let (records, events) = recorded(capture);
        let lost = lost(&capture.sessions);
        capture.tell(Phase::Recording { elapsed: begun.elapsed(), records, events, lost });
        let over = limit.is_some_and(|limit| begun.elapsed() >= limit);
        let nobody = !capture.sessions.iter().any(Session::is_recorded);
        let end = over || nobody || xweave_interrupt::pending();
        match &mut command {
            None if end => return Ok(None),
            None => {}
            Some(command) => {
                if let Some(status) = command.status() {
                    // One that was asked to end because its time was over has not failed; one that ended before may have.
                    return Ok(Some(status).filter(|status| !timed_out || status.success()));
                }
                if end {
                    timed_out |= over;
                    command.end();
                }
                if xweave_interrupt::at_once() {
                    command.kill();
                }
            }
        }
    }
}

/// Once a second: clocks and losses are asked for, and what has been recorded becomes readable.
fn round(capture: &mut Capture<'_>) -> Result<(), Error> {
    capture.round();
    if let Some(writer) = &mut capture.writer {
        describe::domains(writer.manifest_mut(), &capture.sessions, &capture.timeline);
        writer.flush()?;
    }
    Ok(())
}

/// Records and events so far.
fn recorded(capture: &Capture<'_>) -> (u64, u64) {
    let waiting = |count: fn(&Session) -> usize| capture.sessions.iter().map(count).sum::<usize>() as u64;
    let written = capture.writer.as_ref().map_or(0, Writer::records);
    let records = written + waiting(|session| session.records.len());
    (records, capture.events + waiting(|session| session.events.len()))
}

fn lost(sessions: &[Session]) -> u64 {
    let losses = || sessions.iter().map(|session| &session.loss);
    let records = losses().flat_map(|loss| &loss.sites).map(|site| site.dropped.saturating_add(site.missed));
    let events = losses().flat_map(|loss| &loss.events).map(|kind| kind.dropped.saturating_add(kind.missed));
    // What guests say may be anything.
    records.chain(events).fold(0, u64::saturating_add)
}

/// Lets flows under way end, ends the recording everywhere, and has all domains detach and send what is left. Gives how long
/// that took the domain that took longest.
fn stop(capture: &mut Capture<'_>, options: &Options) -> Result<Duration, Error> {
    capture.ask_all(&Request::Drain);
    let graceful = Instant::now() + capture.pace.grace;
    while let Some(left) = graceful.checked_duration_since(Instant::now()) {
        capture.wait(left)?;
    }
    for session in capture.recorded() {
        session.drops.question().into_iter().for_each(|question| session.ask(question));
    }
    // So that there are readings after the last records: no time is trusted that was not compared.
    capture.round();
    xen::identify_again(capture)?.iter().for_each(|line| note(capture, line));
    turn_off(capture)?;
    settings::put_back(capture, &options.settings);
    let begun = Instant::now();
    capture.ask_all(&Request::Stop);
    let mut unweaving = Duration::ZERO;
    // All events come before the answer to Stop, on the same stream.
    while capture.sessions.iter().any(Session::is_recorded) || settings::are_made(capture) {
        if xweave_interrupt::at_once() {
            let late = capture.recorded();
            late.for_each(|session| session.lose("cut off: it had not ended at the second Ctrl-C"));
            break;
        }
        let waiting: Vec<String> = capture
            .sessions
            .iter()
            .filter(|session| session.is_recorded())
            .map(|session| session.name().to_owned())
            .collect();
        let waiting: Vec<&str> = waiting.iter().map(String::as_str).collect();
        capture.tell(Phase::Stopping { waiting_for: &waiting });
        capture.wait(SOON)?;
        if capture.sessions.iter().any(|session| session.exit == Some(Exit::Stopped)) {
            unweaving = begun.elapsed();
        }
    }
    Ok(unweaving)
}

/// Has all domains record nothing more, within moments of each other: unweaving takes seconds, and each its own. Guests first:
/// what their processors do is known only while the host is recorded. It does not wait long for them.
fn turn_off(capture: &mut Capture<'_>) -> Result<(), Error> {
    capture.ask_those(Role::Guest, &Request::Off);
    capture.answered_by(Question::Off, Instant::now() + capture.pace.grace)?;
    capture.ask_those(Role::Host, &Request::Off);
    Ok(())
}

/// Ends the trace.
fn finish(capture: &mut Capture<'_>) -> Result<Manifest, Error> {
    capture.write_rest()?;
    let Some(mut writer) = capture.writer.take() else { return Ok(Manifest::default()) };
    describe::domains(writer.manifest_mut(), &capture.sessions, &capture.timeline);
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests;
