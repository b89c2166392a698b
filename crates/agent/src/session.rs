//! One connection with a controller.

use std::{
    fs,
    io::Read,
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use xweave_code::image::LiveCode;
use xweave_system::{
    Background, clock,
    facts::{BTF_DIR, read_facts},
    kallsyms,
    knobs::{self, ChangedKnobs},
    kvm, xenstore,
};
use xweave_wire::{
    LEASE,
    event::Kind,
    frame::{self, Error},
    message::{self, CodeParts, Event, Failure, FailureKind, FromAgent, Reply, Request},
    pages::CachedFile,
    plan::Plan,
};

use crate::{
    absent::without_absent,
    addresses::Addresses,
    attach::Watch,
    cancel::Cancel,
    drain::{Drain, Source},
    events::Events,
    hook,
    lease::{Heard, Lease, STANDSTILL, descriptors},
    listeners::listeners,
    modules::ModuleWatch,
    output::{Output, tell},
    pages::{self, Watching},
    quiesce::wait_for_running_programs,
    settings_report::{release_settings, restore_settings},
    threads::threads,
    weaving::{State, Woven},
    xentrace::Xentrace,
};

/// Requests that are read while an earlier one is answered. Controllers ask one at a time.
const READ_AHEAD: usize = 4;

/// How a controller is served.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// For how long probes are kept without a word from it.
    pub lease: Duration,
    /// Whether both ends have said already which protocol they speak.
    pub greeted: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { lease: LEASE, greeted: false }
    }
}

/// Serves one controller until it closes the connection, or its lease is over, and leaves the kernel as it was.
///
/// # Errors
/// When the transport fails, the other end does not speak the protocol, or the lease is over. The kernel is clean
/// then too.
pub fn serve(input: impl Read + Send + 'static, output: OwnedFd, options: Options) -> Result<(), Error> {
    // Started as /proc/self/exe, it would be called `exe` in what is recorded of it. If it may not say so, it is.
    let _ = fs::write("/proc/self/comm", "xweave");
    restore_settings();
    let output = Arc::new(Output::new(output));
    let lease = Lease::new(options.lease);
    let cancel = Arc::new(Cancel::default());
    let heard = Heard { input, lease: Arc::clone(&lease) };
    let (wake, requests) = read_ahead(heard, Arc::clone(&cancel), options.greeted);
    // Dropped at the very end, which the watchdog sees.
    let (_ended, session_ended) = mpsc::channel::<()>();
    let watchdog = {
        let (lease, cancel, output) = (Arc::clone(&lease), Arc::clone(&cancel), Arc::clone(&output));
        move || {
            let end = || {
                cancel.ask();
                output.close();
                // If there is no room, nobody is waiting for a request either.
                let _ = wake.try_send(Err(lease.error().into()));
            };
            lease.watch(&session_ended, STANDSTILL, end, descriptors, exit);
        }
    };
    thread::Builder::new().name("lease".into()).spawn(watchdog)?;
    let greeting = if options.greeted { Ok(()) } else { output.preamble() };
    let mut session = Session {
        output: Arc::clone(&output),
        changed: None,
        xentrace: None,
        recording: None,
        watching: None,
        cancel,
    };
    let words = greeting.err().map(Err).into_iter().chain(requests);
    let served = words.into_iter().find_map(|request| {
        if lease.is_over() {
            return Some(Err(lease.error().into()));
        }
        session.serve(request).err().map(|error| match error {
            Error::Closed => Ok(()),
            _ if lease.is_over() => Err(lease.error().into()),
            error => Err(error),
        })
    });
    // Nobody hears any more: who still sends must not be waited for.
    output.close();
    drop(session);
    release_settings();
    served.unwrap_or(Ok(()))
}

/// The last resort, when the orderly end does not come: the kernel takes the probes away with their descriptors.
fn exit() {
    tell(
        "no message from the controller, and the session does not end: the agent exits, which detaches its probes",
    );
    release_settings();
    // SAFETY: ends the process at once; what other threads hold, the kernel takes back.
    unsafe { libc::_exit(1) }
}

/// What is read: requests, and at last an error.
type Word = Result<Request, Error>;

/// Reads requests while an earlier one is answered: what breaks off weaving must be seen while it goes on.
fn read_ahead(
    mut input: impl Read + Send + 'static,
    cancel: Arc<Cancel>,
    greeted: bool,
) -> (mpsc::SyncSender<Word>, mpsc::Receiver<Word>) {
    let (sender, requests) = mpsc::sync_channel(READ_AHEAD);
    let wake = sender.clone();
    thread::spawn(move || {
        let mut greeting = if greeted { Ok(()) } else { frame::read_preamble(&mut input) };
        loop {
            let request = std::mem::replace(&mut greeting, Ok(()))
                .and_then(|()| frame::read_message::<Request>(&mut input));
            // That it came has renewed the lease, and nothing else is to be done.
            if matches!(request, Ok(Request::Alive)) {
                continue;
            }
            if matches!(request, Err(_) | Ok(Request::Stop)) {
                cancel.ask();
            }
            let last = request.is_err();
            if sender.send(request).is_err() || last {
                return;
            }
        }
    });
    (wake, requests)
}

struct Recording {
    /// If it records there. First: what is woven is not taken away there, which takes long enough.
    background: Option<Background>,
    /// The aspects' part.
    woven: Option<Woven>,
    /// That of the built-in probes.
    events: Option<Events>,
    drain: Drain,
    modules: ModuleWatch,
}

impl Recording {
    fn set_state(&mut self, state: State) -> Result<(), Failure> {
        if !matches!(state, State::On) {
            self.background = None;
        }
        if let Some(woven) = &mut self.woven {
            woven.set_state(state)?;
        }
        if let Some(events) = &mut self.events {
            events.set_state(state)?;
        }
        Ok(())
    }

    fn loss(&self) -> Result<message::Loss, Failure> {
        let mut loss = self.woven.as_ref().map(Woven::loss).transpose()?.unwrap_or_default();
        if let Some(events) = &self.events {
            loss.events = events.loss()?;
        }
        loss.unloaded = self.modules.unloaded();
        Ok(loss)
    }
}

struct Session {
    output: Arc<Output>,
    /// Settings that are changed for an experiment: put back before what is woven is taken away, which may take long.
    changed: Option<ChangedKnobs>,
    /// What Xen itself records. It ends before what is woven is taken away, too.
    xentrace: Option<Xentrace>,
    recording: Option<Recording>,
    /// What tells of changes of the page cache.
    watching: Option<Watching>,
    cancel: Arc<Cancel>,
}

impl Session {
    fn serve(&mut self, request: Word) -> Result<(), Error> {
        let reply = self.answer(request?).unwrap_or_else(Reply::Failed);
        self.output.send(&FromAgent::Reply(reply))
    }

    fn answer(&mut self, request: Request) -> Result<Reply, Failure> {
        match request {
            Request::DomainInfo => Ok(Reply::DomainInfo(Box::new(read_facts()))),
            Request::Btf(module) => btf(module.as_deref()).map(Reply::Btf),
            Request::Clock => Ok(Reply::Clock(clock::sample())),
            Request::Vms => Ok(Reply::Vms(kvm::list_vms())),
            Request::Symbols(addresses) => Ok(Reply::Symbols(kallsyms::find_symbols(&addresses))),
            Request::Code(parts) => code(&parts).map(Reply::Code),
            Request::Weave(plan) => self.weave(&plan),
            Request::Share { secret, emulated } => {
                self.woven().map(|woven| Reply::Shared(woven.share(secret, emulated)))
            }
            Request::XenMark(mark) => Ok(Reply::XenMarked {
                reason: xenstore::write_mark(mark).err().map(|error| error.to_string()),
            }),
            Request::XenGuests(marks) => Ok(match xenstore::find_marked_domains(&marks) {
                Ok(domids) => Reply::XenGuests { domids, reason: None },
                Err(error) => {
                    Reply::XenGuests { domids: vec![None; marks.len()], reason: Some(error.to_string()) }
                }
            }),
            Request::Guests { guests, all, emulators, domids } => {
                self.woven()?.listen_to(&guests, all, &emulators, &domids)?;
                Ok(Reply::Done)
            }
            Request::Xentrace => {
                if self.xentrace.is_some() {
                    return Err(misuse("Xen records already"));
                }
                self.xentrace = Some(Xentrace::start(Arc::clone(&self.output)).map_err(unsupported)?);
                Ok(Reply::Done)
            }
            Request::Start { background } => self.start(background),
            Request::Loss => {
                let recording = self.recording.as_ref().ok_or_else(|| misuse("nothing is woven"))?;
                Ok(Reply::Loss(recording.loss()?))
            }
            Request::Drain => self.set_state(State::Draining),
            Request::Off => {
                self.xentrace.iter_mut().for_each(Xentrace::stop);
                self.set_state(State::Off)
            }
            Request::Knobs => Ok(Reply::Knobs(knobs::read_states())),
            Request::Set(settings) => {
                if self.changed.is_some() {
                    return Err(misuse("settings are changed already"));
                }
                let (changed, states) = ChangedKnobs::apply(&settings)?;
                self.changed = Some(changed);
                Ok(Reply::Knobs(states))
            }
            Request::Unset => {
                let changed = self.changed.as_mut().ok_or_else(|| misuse("no settings are changed"))?;
                changed.restore()?;
                self.changed = None;
                Ok(Reply::Done)
            }
            Request::Cached(files) => {
                let told = pages::cached(&files, &self.cancel, &mut cached_to(&self.output));
                told.map(Reply::LookedAt).map_err(|error| misuse(&error))
            }
            Request::Watch { files, object } => {
                let watching = Watching::begin(files, &object);
                let reason =
                    watching.as_ref().map_or_else(|reason| Some(reason.clone()), Watching::not_watched);
                self.watching = watching.ok();
                Ok(Reply::Watching { watches: self.watching.is_some(), reason })
            }
            Request::Changed => {
                let watching = self.watching.as_mut().ok_or_else(|| misuse("nothing is watched"))?;
                let told = watching.changed(&self.cancel, &mut cached_to(&self.output));
                told.map(Reply::LookedAt).map_err(|error| misuse(&error))
            }
            Request::Stop => {
                self.cancel.done();
                self.stop()
            }
            // Never comes here: it has no answer.
            Request::Alive => Ok(Reply::Done),
        }
    }

    fn weave(&mut self, plan: &Plan) -> Result<Reply, Failure> {
        if self.recording.is_some() {
            return Err(misuse("a plan is woven already"));
        }
        let probes = plan.events.as_ref().map_or(0, |events| events.programs.len());
        let (probes, hooks) = (u32::try_from(probes).unwrap_or(u32::MAX), hook::count(plan));
        // The kernel's settings are changed meanwhile, so that nobody is waited for.
        let tell = |done, total| self.output.offer(&FromAgent::Event(Event::Weaving { done, total }));
        let tell_probes = |done: u32, total: u32| tell(done, total.saturating_add(hooks));
        let tell_hooks =
            |done: u32, total: u32| tell(done.saturating_add(probes), total.saturating_add(probes));
        tell(0, probes.saturating_add(hooks));
        let mut told = message::Woven::default();
        let mut sources = Vec::new();
        // These first: they are few, and what advice waits for is not recorded yet.
        let watch = Watch { cancel: &self.cancel, tell: &tell_probes };
        let mut events = plan.events.as_ref().map(|plan| Events::weave(plan, &watch)).transpose()?;
        if let Some(events) = &mut events {
            told.left_out = std::mem::take(&mut events.left_out);
            let rings = events.take_rings().into_iter();
            sources.extend(rings.map(|ring| Source { ring, tells: Event::Events }));
        }
        let mut woven = None;
        let mut modules = ModuleWatch::default();
        if !plan.programs.is_empty() {
            modules = ModuleWatch::new(plan);
            let addresses = Addresses::of(plan);
            tell_hooks(0, hooks);
            let watch = Watch { cancel: &self.cancel, tell: &tell_hooks };
            let (hookable, absent) = without_absent(plan, &addresses)?;
            let mut of_plan = Woven::weave(&hookable, &addresses, &watch)?;
            told.skipped = absent;
            told.skipped.append(&mut of_plan.skipped);
            modules.skip(&told.skipped);
            if let Some(gone) = modules.unloaded().first() {
                return Err(unloaded(&gone.module));
            }
            told.sites = addresses.sites(plan);
            told.clones = addresses.clones(plan);
            let rings = of_plan.take_rings().into_iter();
            sources.extend(rings.map(|ring| Source { ring, tells: Event::Records }));
            woven = Some(of_plan);
        }
        let drain = Drain::start(sources, Arc::clone(&self.output));
        self.recording = Some(Recording { background: None, woven, events, drain, modules });
        Ok(Reply::Woven(told))
    }

    fn woven(&mut self) -> Result<&mut Woven, Failure> {
        let woven = self.recording.as_mut().and_then(|recording| recording.woven.as_mut());
        woven.ok_or_else(|| misuse("no aspect is woven"))
    }

    fn start(&mut self, background: bool) -> Result<Reply, Failure> {
        if background && let Some(recording) = &mut self.recording {
            let entered = Background::enter();
            recording.background = Some(entered.map_err(|error| {
                unsupported(format!("its threads cannot be put into the background (SCHED_IDLE): {error}"))
            })?);
        }
        let Some(events) = self.recording.as_ref().and_then(|recording| recording.events.as_ref()) else {
            return self.set_state(State::On);
        };
        let sockets = events.record(Kind::Socket);
        // Nothing that was recorded after this time is sent before the threads that there were then.
        let output = Arc::clone(&self.output);
        let mut turn = output.turn();
        let begins = clock::sample().mono_ns;
        let reply = self.set_state(State::On)?;
        // That nobody listens any more is seen by whoever reads.
        let _ = threads(begins, |batch| turn.send(&FromAgent::Event(Event::Events(batch))));
        if sockets {
            let _ = turn.send(&FromAgent::Event(Event::Events(listeners(begins))));
        }
        Ok(reply)
    }

    fn set_state(&mut self, state: State) -> Result<Reply, Failure> {
        let recording = self.recording.as_mut().ok_or_else(|| misuse("nothing is woven"))?;
        recording.set_state(state)?;
        Ok(Reply::Done)
    }

    fn stop(&mut self) -> Result<Reply, Failure> {
        let mut recording = self.recording.take().ok_or_else(|| misuse("nothing is woven"))?;
        self.xentrace.iter_mut().for_each(Xentrace::stop);
        recording.set_state(State::Off)?;
        let waited = wait_for_running_programs();
        let loss = recording.loss();
        let last_losses = recording.events.as_ref().map(|events| events.last_losses(clock::sample().mono_ns));
        let Recording { woven, events, drain, .. } = recording;
        // Before what is left is sent: however long that takes, nothing is woven any more.
        drop(events);
        if let Some(mut woven) = woven {
            woven.unweave();
        }
        // Before the drain ends, which reads the clocks behind all that is told.
        let told = match &last_losses {
            Some(Ok(batch)) if !batch.is_empty() => {
                self.output.send(&FromAgent::Event(Event::Events(batch.clone())))
            }
            _ => Ok(()),
        };
        let drained = told.and(drain.finish());
        if let Some(amiss) = self.xentrace.take().map(Xentrace::finish) {
            // That nobody listens any more is seen when the answer is sent.
            amiss.ok().flatten().iter().for_each(|amiss| tell(amiss));
        }
        drained.map_err(|error| unsupported(format!("the ring buffer could not be drained: {error}")))?;
        waited.map_err(|error| {
            unsupported(format!(
                "the last records may be missing: waiting for running BPF programs failed: {error}"
            ))
        })?;
        last_losses.transpose()?;
        Ok(Reply::Stopped(loss?))
    }
}

fn btf(module: Option<&str>) -> Result<Vec<u8>, Failure> {
    let name = module.unwrap_or("vmlinux");
    if name.contains('/') {
        return Err(misuse("a module's name must not contain a slash"));
    }
    let path = format!("{BTF_DIR}/{name}");
    fs::read(&path).map_err(|error| {
        unsupported(format!("the kernel's type information cannot be read: {path}: {error}"))
    })
}

fn code(parts: &CodeParts) -> Result<Vec<u8>, Failure> {
    let wanted = |module: Option<&str>| match module {
        None => parts.kernel,
        Some(module) => parts.modules.iter().any(|wanted| wanted == module),
    };
    LiveCode::capture(wanted).map(|code| code.pack()).map_err(|error| unsupported(error.to_string()))
}

fn unloaded(module: &str) -> Failure {
    let message =
        format!("module {module} was unloaded during weaving: nothing is woven; load it and record again");
    Failure { kind: FailureKind::Attach, message }
}

fn unsupported(message: String) -> Failure {
    Failure { kind: FailureKind::Unsupported, message }
}

/// Whether anybody listens is seen when the answer is sent.
fn cached_to(output: &Output) -> impl FnMut(Vec<CachedFile>) {
    |batch| drop(output.send(&FromAgent::Event(Event::Cached(batch))))
}

fn misuse(message: &str) -> Failure {
    Failure { kind: FailureKind::Misuse, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Write},
        os::unix::net::UnixStream,
        thread::JoinHandle,
        time::Instant,
    };

    use super::*;

    const LEASE: Duration = Duration::from_millis(640);

    /// An agent at the other end of a socket.
    fn agent(options: Options) -> (UnixStream, JoinHandle<Result<(), Error>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours, thread::spawn(move || serve(theirs.try_clone().unwrap(), theirs.into(), options)))
    }

    fn leased() -> (UnixStream, JoinHandle<Result<(), Error>>) {
        let (ours, agent) = agent(Options { lease: LEASE, greeted: false });
        frame::write_preamble(&mut &ours).unwrap();
        frame::read_preamble(&mut &ours).unwrap();
        (ours, agent)
    }

    fn ask(mut stream: &UnixStream, request: &Request) -> Result<(), Error> {
        frame::write_message(&mut stream, request)
    }

    fn reply(mut stream: &UnixStream) -> Reply {
        match frame::read_message(&mut stream).unwrap() {
            FromAgent::Reply(reply) => reply,
            FromAgent::Event(event) => panic!("{event:?} while nothing is recorded"),
        }
    }

    /// It has ended, and says that it is because nothing was heard.
    fn assert_lease_over(agent: JoinHandle<Result<(), Error>>) {
        match agent.join().unwrap() {
            Err(Error::Io(error)) if error.kind() == ErrorKind::TimedOut => {
                assert!(error.to_string().contains("no message from the controller"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_answered_in_order_and_misuse_is_told() {
        let (ours, agent) = agent(Options::default());
        frame::write_preamble(&mut &ours).unwrap();
        for request in [
            Request::Clock,
            Request::Alive,
            Request::Start { background: false },
            Request::Btf(Some("../x".into())),
        ] {
            ask(&ours, &request).unwrap();
        }
        frame::read_preamble(&mut &ours).unwrap();
        assert!(matches!(reply(&ours), Reply::Clock(sample) if sample.mono_ns > 0));
        for _ in 0..2 {
            assert!(matches!(reply(&ours), Reply::Failed(Failure { kind: FailureKind::Misuse, .. })));
        }
        drop(ours);
        agent.join().unwrap().unwrap();
    }

    #[test]
    fn another_protocol_is_refused() {
        let (mut ours, agent) = agent(Options::default());
        ours.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert!(matches!(agent.join().unwrap(), Err(Error::NotXweave(_))));
    }

    #[test]
    fn who_was_greeted_is_not_greeted_again() {
        let (ours, agent) = agent(Options { greeted: true, ..Options::default() });
        ask(&ours, &Request::Clock).unwrap();
        assert!(matches!(reply(&ours), Reply::Clock(_)));
        drop(ours);
        agent.join().unwrap().unwrap();
    }

    #[test]
    fn a_peer_that_never_says_anything_is_not_waited_for() {
        let (ours, agent) = agent(Options { lease: LEASE, greeted: false });
        assert_lease_over(agent);
        drop(ours);
    }

    #[test]
    fn a_controller_that_stops_talking_ends_the_session() {
        let (ours, agent) = leased();
        ask(&ours, &Request::Clock).unwrap();
        assert!(matches!(reply(&ours), Reply::Clock(_)));
        assert_lease_over(agent);
    }

    #[test]
    fn a_controller_that_says_that_it_is_alive_keeps_the_session() {
        let (ours, agent) = leased();
        let begun = Instant::now();
        while begun.elapsed() < 3 * LEASE {
            ask(&ours, &Request::Alive).unwrap();
            thread::sleep(LEASE / 64);
        }
        ask(&ours, &Request::Clock).unwrap();
        assert!(matches!(reply(&ours), Reply::Clock(_)));
        drop(ours);
        agent.join().unwrap().unwrap();
    }

    #[test]
    fn a_controller_that_never_reads_ends_the_session_when_it_has_nothing_more_to_say() {
        let (ours, agent) = leased();
        let asked = thread::spawn(move || {
            // Until the agent, which has no room for answers, takes no more, and is gone at last.
            (0..10_000_000).take_while(|_| ask(&ours, &Request::Clock).is_ok()).count()
        });
        assert_lease_over(agent);
        assert!(asked.join().unwrap() < 10_000_000);
    }
}
