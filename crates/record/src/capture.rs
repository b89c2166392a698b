//! What comes from all domains, in one loop: the controller waits here and nowhere else, so that no domain can keep it
//! from its deadlines, from the other domains, or from Ctrl-C.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use xweave_flow::clock::Timeline;
use xweave_trace::{Manifest, Writer};
use xweave_weave::Role;
use xweave_wire::message::{Reply, Request};

use crate::{
    Error, Phase,
    events::{self, Waiting},
    link::Incoming,
    pace::{Pace, SOON},
    question::Question,
    session::{Session, Taken},
};

/// How long what came is taken in before anything else is looked at.
const TURN: Duration = Duration::from_millis(50);

/// Records and events between two looks at how much of the disk they take, and at the time.
const PORTION: u64 = 4096;

/// How long agents are waited for that have nothing to take away.
const PARTING: Duration = Duration::from_millis(200);

/// How long agents are waited for when Ctrl-C comes before anything was recorded: most are gone by then.
const BREAKING_OFF: Duration = Duration::from_millis(100);

/// How long the rest is written for when nobody wants to wait.
const MOMENT: Duration = Duration::from_millis(500);

/// All domains of a recording, and what is known of their times.
pub(crate) struct Capture<'p> {
    pub(crate) sessions: Vec<Session>,
    pub(crate) timeline: Timeline,
    /// Where it goes, once the trace is begun.
    pub(crate) writer: Option<Writer>,
    /// What Xen has recorded before there was a trace.
    xentrace: Vec<u8>,
    /// Whether a trace was begun: what agents have may be lost from then on.
    begun: bool,
    /// Events that have been given to the writer.
    pub(crate) events: u64,
    pub(crate) pace: Pace,
    incoming: Receiver<(usize, Incoming)>,
    /// When writing is to end, where nobody wants to wait.
    write_by: Option<Instant>,
    progress: Box<dyn FnMut(Phase<'_>) + 'p>,
}

impl<'p> Capture<'p> {
    pub(crate) fn new(
        sessions: Vec<Session>,
        incoming: Receiver<(usize, Incoming)>,
        pace: Pace,
        progress: Box<dyn FnMut(Phase<'_>) + 'p>,
    ) -> Self {
        Self {
            sessions,
            timeline: Timeline::new(1),
            writer: None,
            xentrace: Vec::new(),
            begun: false,
            events: 0,
            pace,
            incoming,
            write_by: None,
            progress,
        }
    }

    /// From now on, what comes is written there.
    ///
    /// # Errors
    /// When the trace cannot be written.
    pub(crate) fn begin(&mut self, writer: Writer) -> Result<(), Error> {
        self.writer = Some(writer);
        self.begun = true;
        let waiting = std::mem::take(&mut self.xentrace);
        if waiting.is_empty() { Ok(()) } else { self.write_xentrace(0, waiting) }
    }

    pub(crate) fn tell(&mut self, phase: Phase<'_>) {
        (self.progress)(phase);
    }

    /// Takes in what has come, waiting a while for the first; sees to deadlines.
    ///
    /// # Errors
    /// When the trace cannot be written.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<(), Error> {
        match self.incoming.recv_timeout(patience) {
            Ok((index, incoming)) => self.take(index, incoming)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let over = Instant::now() + TURN;
        while Instant::now() < over
            && let Ok((index, incoming)) = self.incoming.try_recv()
        {
            self.take(index, incoming)?;
        }
        let now = Instant::now();
        for session in &mut self.sessions {
            session.check_deadlines(now);
        }
        self.follow_jumps();
        self.tell(Phase::Waiting);
        Ok(())
    }

    /// Waits, before anything is recorded, until all domains are as they should be.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; when domains are lost: all that are by the time when the others are ready, so that those
    /// which are silent are waited for once. Without the first nobody is waited for.
    pub(crate) fn until(&mut self, ready: impl Fn(&Session) -> bool) -> Result<(), Error> {
        loop {
            if xweave_interrupt::pending() {
                return Err(Error::Interrupted { woven: self.sessions.iter().any(Session::has_woven) });
            }
            let is_lost = |session: &Session| !session.is_there();
            let over = self.sessions.iter().all(|session| is_lost(session) || ready(session));
            if over || self.sessions.first().is_some_and(is_lost) {
                let lost = self.sessions.iter().filter(|session| is_lost(session)).map(without).collect();
                return Error::of_all(lost).map_or(Ok(()), Err);
            }
            self.wait(SOON)?;
        }
    }

    /// Waits, while something is recorded, until no domain owes an answer to that; until then at most.
    ///
    /// # Errors
    /// When the trace cannot be written.
    pub(crate) fn answered_by(&mut self, question: Question, late: Instant) -> Result<(), Error> {
        while self.recorded().any(|session| session.owes_answer_to(question)) && !xweave_interrupt::at_once()
        {
            let Some(left) = late.checked_duration_since(Instant::now()) else { break };
            self.wait(left.min(SOON))?;
        }
        Ok(())
    }

    /// The oldest answer of a domain that nobody has looked at.
    pub(crate) fn answer(&mut self, index: usize) -> Result<Reply, Error> {
        let session = &mut self.sessions[index];
        let domain = || session.spec.name.clone();
        match session.answers.pop_front() {
            Some(Reply::Failed(failure)) => Err(Error::Agent { domain: domain(), message: failure.message }),
            Some(reply) => Ok(reply),
            None => Err(Error::Lost { domain: domain(), reason: "it did not answer".to_owned() }),
        }
    }

    /// An answer of another kind than was asked for: sessions let none through.
    pub(crate) fn unexpected(&self, index: usize) -> Error {
        let message = "the agent's answer does not fit the question".to_owned();
        Error::Agent { domain: self.sessions[index].name().to_owned(), message }
    }

    /// The domains that are recorded.
    pub(crate) fn recorded(&mut self) -> impl Iterator<Item = &mut Session> {
        self.sessions.iter_mut().filter(|session| session.is_recorded())
    }

    /// Asks all domains that are recorded, and waits for nothing.
    pub(crate) fn ask_all(&mut self, request: &Request) {
        self.recorded().for_each(|session| session.ask(request.clone()));
    }

    /// The same of those that have a role.
    pub(crate) fn ask_those(&mut self, role: Role, request: &Request) {
        let those = self.recorded().filter(|session| session.role() == role);
        those.for_each(|session| session.ask(request.clone()));
    }

    fn take(&mut self, index: usize, incoming: Incoming) -> Result<(), Error> {
        let session = &mut self.sessions[index];
        let number = session.number;
        match session.take(incoming) {
            Taken::Nothing => {}
            Taken::Sample(sample) => {
                self.timeline.sample(number, sample);
                self.write_settled(index, Waiting::settled)?;
            }
            Taken::Exchange(exchange) => self.timeline.exchange(number, exchange),
            Taken::Vms(vms) => self.timeline.vms(number, vms),
            Taken::Weaving { done, total } => {
                let domain = &session.spec.name;
                (self.progress)(Phase::Attaching { domain, done, total });
            }
            Taken::Xentrace(bytes) => self.write_xentrace(index, bytes)?,
            Taken::Said(line) => {
                let domain = &session.spec.name;
                (self.progress)(Phase::Said { domain, line: &line });
            }
        }
        Ok(())
    }

    /// Writes what Xen has recorded; or has it wait for the trace, as long as a domain may have so much waiting.
    fn write_xentrace(&mut self, index: usize, bytes: Vec<u8>) -> Result<(), Error> {
        let session = &mut self.sessions[index];
        let Some(writer) = &mut self.writer else {
            self.xentrace.extend(bytes);
            if self.xentrace.len() > session.budget.waiting {
                session.lose("cut off: Xen records more than may wait until the recording begins");
            }
            return Ok(());
        };
        writer.xentrace(session.number, &bytes)?;
        session.check_disk(writer.bytes(session.number));
        Ok(())
    }

    /// Writes the records whose place on the time line cannot change any more, in the order of their times, and events
    /// likewise until the time that is given for them. What would be more than the domain's share of the disk ends its part;
    /// what there is no time for goes on waiting.
    pub(crate) fn write_settled(
        &mut self,
        index: usize,
        until: impl Fn(&Waiting, u64) -> u64,
    ) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let session = &mut self.sessions[index];
        let number = session.number;
        let Some(horizon) = self.timeline.horizon(number) else { return Ok(()) };
        // Clocks are compared less often than samples come. The reference's own times need no comparing.
        if horizon < u64::MAX && session.written_until == horizon {
            return Ok(());
        }
        let write_by = self.write_by;
        let disk = session.budget.disk;
        let late = || write_by.map_or_else(xweave_interrupt::at_once, |by| Instant::now() > by);
        let (mut nth, mut whole, mut unplaced) = (0u64, true, 0u64);
        let mut goes_on = |writer: &Writer| {
            if nth.is_multiple_of(PORTION) {
                whole &= writer.bytes(number) <= disk && !late();
            }
            nth += 1;
            whole
        };
        while goes_on(writer)
            && let Some(record) = session.records.next_until(horizon)
        {
            // Settled means that the clock is known. What has no place all the same is a time that no clock tells.
            match self.timeline.to_reference(number, record.time_ns) {
                Some(stamp) => {
                    spans(writer.manifest_mut(), stamp.ns);
                    writer.append(number, stamp.ns, &record)?;
                }
                None => unplaced += 1,
            }
        }
        let until = until(&session.events, horizon);
        while goes_on(writer)
            && let Some(event) = session.events.next_until(until)
        {
            let Some(stamp) = self.timeline.to_reference(number, event.time_ns) else {
                unplaced += 1;
                continue;
            };
            let mut event = events::normal(&event, number, stamp.ns, writer);
            session.order.keep(&mut event);
            spans(writer.manifest_mut(), event.time_ns);
            writer.event(event)?;
            self.events += 1;
        }
        writer.manifest_mut().loss.unwritten += unplaced;
        session.written_until = if whole { horizon } else { 0 };
        session.check_disk(writer.bytes(number));
        Ok(())
    }

    /// Readings of all clocks, in turns, so that those of two domains that are compared were taken close together.
    pub(crate) fn exchange_clocks(&mut self, times: usize) -> Result<(), Error> {
        for _ in 0..times {
            for index in 0..self.sessions.len() {
                self.sessions[index].ask(Request::Clock);
                self.until(|session| !session.owes())?;
            }
        }
        Ok(())
    }

    /// Once a second: the clocks are compared, losses asked for, and what has been recorded becomes readable. A domain that
    /// has not answered the last time is not asked again.
    pub(crate) fn round(&mut self) {
        // What is known of a domain is known through the reference.
        let hurry = self.sessions.iter().any(Session::waits_for_much);
        for session in &self.sessions {
            self.timeline.hurry(session.number, hurry && (session.number == 1 || session.waits_for_much()));
        }
        for session in self.recorded() {
            if !session.owes_answer_to(Question::Loss) {
                session.ask(Request::Clock);
                // The first is the reference. Its clock was read before: until then the offsets were these.
                if session.number == 1 {
                    session.ask(Request::Vms);
                }
                session.ask(Request::Loss);
            }
        }
    }

    /// Where a clock has jumped, it is asked for at once, until it is known again.
    fn follow_jumps(&mut self) {
        let free = |session: &&mut Session| session.is_recorded() && session.answers_at_once();
        for session in self.sessions.iter_mut().filter(free) {
            if self.timeline.wants_exchange(session.number) && !session.owes_answer_to(Question::Clock) {
                session.ask(Request::Clock);
            }
            if self.timeline.wants_vms(session.number) && !session.owes_answer_to(Question::Vms) {
                session.ask(Request::Vms);
            }
        }
    }

    /// No more will come: whatever waits is written. After a second Ctrl-C, what takes longer than a moment is not: those with
    /// the least to write come first.
    pub(crate) fn write_rest(&mut self) -> Result<(), Error> {
        self.timeline.finish();
        let mut order: Vec<usize> = (0..self.sessions.len()).collect();
        order.sort_by_key(|index| self.sessions[*index].waiting());
        for index in order {
            self.write_by =
                self.write_by.or_else(|| xweave_interrupt::at_once().then(|| Instant::now() + MOMENT));
            self.write_settled(index, |_, horizon| horizon)?;
            // Without a single clock sample nothing has a place on the time line; or there was no room, or no time.
            let unwritten = self.sessions[index].waiting() as u64;
            if let Some(writer) = &mut self.writer {
                writer.manifest_mut().loss.unwritten += unwritten;
            }
        }
        Ok(())
    }

    /// Lets the agents go: they take away what is woven. At the second Ctrl-C, or when they take too long, they are made
    /// to. Before a trace was begun they have nothing that could be lost, and a call of the kernel that one is in (attaching
    /// takes tenths of a second, the verifier seconds) is no reason to wait: at the first Ctrl-C they are told to break off,
    /// and left to themselves.
    fn farewell(&mut self) {
        self.sessions.iter_mut().for_each(Session::close);
        // Who was not asked to weave has nothing to take away, and nobody waits for it.
        let woven = self.sessions.iter().any(Session::has_woven);
        let patience = if woven { self.pace.farewell } else { self.pace.farewell.min(PARTING) };
        let (mut deadline, mut broken_off) = (Instant::now() + patience, false);
        loop {
            if !broken_off && !self.begun && xweave_interrupt::pending() {
                broken_off = true;
                self.sessions.iter_mut().for_each(Session::hurry);
                deadline = deadline.min(Instant::now() + BREAKING_OFF);
            }
            // An agent that is not read from could not go.
            while let Ok((index, incoming)) = self.incoming.try_recv() {
                self.sessions[index].discard(&incoming);
            }
            let over = self.sessions.iter_mut().all(Session::is_over);
            if over || Instant::now() >= deadline || xweave_interrupt::at_once() {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        if broken_off {
            self.let_go();
        } else {
            self.sessions.iter_mut().for_each(Session::cut);
        }
        // One that was killed has left the kernel's settings as it needed them.
        xweave_system::restore_settings();
    }

    /// Leaves the agents to themselves, and says which of them are still there.
    fn let_go(&mut self) {
        for session in &mut self.sessions {
            if session.has_woven() && !session.is_over() {
                let line =
                    format!("{}: its agent is taking out what it had woven, and ends then", session.name());
                (self.progress)(Phase::Note { line: &line });
            }
            session.let_go();
        }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        self.farewell();
    }
}

/// The trace goes from its first time to its last: before there is one, both are 0.
fn spans(manifest: &mut Manifest, ns: i64) {
    if (manifest.start_ns, manifest.end_ns) == (0, 0) {
        (manifest.start_ns, manifest.end_ns) = (ns, ns);
    }
    (manifest.start_ns, manifest.end_ns) = (manifest.start_ns.min(ns), manifest.end_ns.max(ns));
}

/// Why there is no recording without a domain.
fn without(session: &Session) -> Error {
    let (domain, reason) = (session.spec.name.clone(), session.lost().unwrap_or_default().to_owned());
    if session.has_greeted() {
        return Error::Lost { domain, reason };
    }
    Error::Unreachable { domain, transport: session.spec.transport.to_string(), reason: reason.into() }
}
