//! The session with one domain: what it was asked and has to answer, what it may say now, and what it has sent.
//!
//! A domain is believed nothing that can be checked. It may speak only as its part of the recording allows; its answers
//! must fit what it was asked, and come in time; records must be of its own sites and flows; and what waits for its
//! clocks must fit its budget. A domain that does otherwise is cut off, and the others go on.

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use xweave_flow::clock::Exchange;
use xweave_trace::Exit;
use xweave_weave::Role;
use xweave_wire::{
    limits,
    message::{ClockSample, DomainInfo, Event, FromAgent, Loss, Reply, Request, Vm},
    record::{Kind, Record, maker},
};

use crate::{
    budget::Budget,
    cached_files::CachedFiles,
    domain::DomainSpec,
    drops::Drops,
    events,
    link::{Incoming, Link},
    pace::Pace,
    question::Question,
    violation::Violation,
    waiting::Waiting,
};

struct Asked {
    question: Question,
    deadline: Instant,
    patience: Duration,
}

/// What a domain may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Nothing but the preamble.
    Greeting,
    /// Answers.
    Answering,
    /// How far weaving has come, and its clocks.
    Weaving,
    /// Records and events.
    Recording,
}

/// What came of a message, for whoever knows more than one domain.
pub(crate) enum Taken {
    Nothing,
    /// The domain's clocks.
    Sample(ClockSample),
    /// The same, between two readings of this machine's.
    Exchange(Exchange),
    /// The virtual machines that its hypervisor runs.
    Vms(Vec<Vm>),
    /// How far it has come with weaving.
    Weaving {
        done: u32,
        total: u32,
    },
    /// What Xen itself has recorded: the next bytes.
    Xentrace(Vec<u8>),
    Said(String),
}

/// A domain that takes part.
pub(crate) struct Session {
    pub(crate) spec: DomainSpec,
    pub(crate) number: u8,
    pub(crate) facts: DomainInfo,
    /// Decoded, and waiting for the clocks to have been read after them.
    pub(crate) records: Waiting<Record>,
    pub(crate) events: events::Waiting,
    /// That of the events which have been written.
    pub(crate) order: events::Order,
    pub(crate) loss: Loss,
    pub(crate) exit: Option<Exit>,
    pub(crate) drops: Drops,
    /// Until when it has been written, in its own nanoseconds.
    pub(crate) written_until: u64,
    /// Answers that nobody has looked at.
    pub(crate) answers: VecDeque<Reply>,
    /// What it has told of its page cache.
    pub(crate) cached: CachedFiles,
    /// Guests that tell it which flows their buffers carry: it records these under the IDs that they have.
    pub(crate) believes: HashSet<u8>,
    /// Whether a process of the host emulates its network devices, and what they carry is known by what it is.
    pub(crate) emulated: bool,
    /// Which of Xen's domains it is, where that is known.
    pub(crate) domid: Option<u16>,
    /// Which it was at the end, where that was another.
    pub(crate) domid_since: Option<u16>,
    pub(crate) budget: Budget,
    /// Whether it was asked to have Xen itself record.
    xentrace: bool,
    pace: Pace,
    link: Link,
    stage: Stage,
    asked: VecDeque<Asked>,
    /// Since when it has owed an answer, if it does; and for how long it had before.
    owes_since: Option<Instant>,
    owed: Duration,
    /// The numbers that its records may carry.
    sites: HashSet<u32>,
    /// The kinds of its events.
    pub(crate) kinds: events::Kinds,
    /// Hooks of its plan, spares and savers included, and how many it has told to be attached.
    hooks: u32,
    attached: u32,
    greet_by: Instant,
}

impl Session {
    pub(crate) fn new(spec: DomainSpec, number: u8, link: Link, budget: Budget, pace: Pace) -> Self {
        Self {
            spec,
            number,
            facts: DomainInfo::default(),
            records: Waiting::default(),
            events: events::Waiting::default(),
            order: events::Order::default(),
            loss: Loss::default(),
            exit: None,
            cached: CachedFiles::default(),
            drops: Drops::default(),
            written_until: 0,
            answers: VecDeque::new(),
            believes: HashSet::new(),
            emulated: false,
            domid: None,
            domid_since: None,
            xentrace: false,
            link,
            budget,
            pace,
            stage: Stage::Greeting,
            asked: VecDeque::new(),
            owes_since: None,
            owed: Duration::ZERO,
            sites: HashSet::new(),
            kinds: events::Kinds::default(),
            hooks: 0,
            attached: 0,
            greet_by: Instant::now() + pace.hello,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(crate) fn role(&self) -> Role {
        self.spec.role()
    }

    /// Whether it has said hello.
    pub(crate) fn has_greeted(&self) -> bool {
        self.stage > Stage::Greeting
    }

    /// Whether it takes part: its connection stands, and it has not ended.
    pub(crate) fn is_there(&self) -> bool {
        self.exit.is_none()
    }

    /// Whether it has been asked to weave, and takes part still.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_there() && self.stage >= Stage::Weaving
    }

    /// Whether it has been asked to weave.
    pub(crate) fn has_woven(&self) -> bool {
        self.stage >= Stage::Weaving
    }

    /// Whether an answer is waited for.
    pub(crate) fn owes(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether the answer to such a question is waited for.
    pub(crate) fn owes_answer_to(&self, question: Question) -> bool {
        self.asked.iter().any(|asked| asked.question == question)
    }

    /// Whether an answer would not have to wait for what takes long.
    pub(crate) fn answers_at_once(&self) -> bool {
        !self.owes_answer_to(Question::Weave) && !self.owes_answer_to(Question::Stop)
    }

    /// Asks; the answer must come in time.
    pub(crate) fn ask(&mut self, request: Request) {
        let now = Instant::now();
        let mut patience = self.pace.answer;
        match &request {
            Request::Weave(plan) => {
                self.stage = self.stage.max(Stage::Weaving);
                let sites = plan.programs.iter().flat_map(|program| &program.sites);
                self.sites = sites.clone().flat_map(|site| site.site..site.site + site.clauses).collect();
                self.kinds = plan.events.as_ref().map(events::Kinds::of).unwrap_or_default();
                // Each is attached twice at most, or has a saver.
                let hooks =
                    2 * sites.count() + plan.events.as_ref().map_or(0, |events| events.programs.len());
                self.hooks = u32::try_from(hooks).unwrap_or(u32::MAX);
                patience += self.pace.hook * self.hooks;
            }
            Request::Xentrace => self.xentrace = true,
            Request::Start { .. } => self.stage = self.stage.max(Stage::Recording),
            Request::Stop => patience += self.pace.hook * self.hooks,
            _ => {}
        }
        if let Some(question) = Question::of(&request) {
            self.asked.push_back(Asked { question, deadline: now + patience, patience });
        }
        self.count_owed(now);
        self.set_limit();
        self.link.send(request);
    }

    fn count_owed(&mut self, now: Instant) {
        match self.owes_since {
            None => self.owes_since = self.owes().then_some(now),
            Some(since) if !self.owes() => {
                self.owed += now.saturating_duration_since(since);
                self.owes_since = None;
            }
            Some(_) => {}
        }
    }

    fn set_limit(&self) {
        let longest = self.asked.iter().map(|asked| asked.question.frame()).max();
        self.link.limit(longest.unwrap_or(limits::FRAME));
    }

    /// Takes what came. One that says what it may not is lost.
    pub(crate) fn take(&mut self, incoming: Incoming) -> Taken {
        let taken = match incoming {
            Incoming::Said(line) => return Taken::Said(line),
            Incoming::Gone(reason) => {
                self.lose(reason);
                return Taken::Nothing;
            }
            // It said so before it was cut off.
            incoming if !self.is_there() => {
                self.discard(&incoming);
                return Taken::Nothing;
            }
            Incoming::Hello => {
                self.stage = self.stage.max(Stage::Answering);
                return Taken::Nothing;
            }
            Incoming::Message { message, received_tsc, bytes } => {
                let taken = self.take_message(*message, received_tsc);
                self.link.taken(bytes);
                taken
            }
        };
        taken.unwrap_or_else(|violation| {
            self.lose(format!("cut off: {violation}"));
            Taken::Nothing
        })
    }

    fn take_message(&mut self, message: FromAgent, received_tsc: u64) -> Result<Taken, Violation> {
        match message {
            FromAgent::Reply(reply) => self.take_reply(reply, received_tsc),
            FromAgent::Event(Event::Weaving { done, total }) => self.take_weaving(done, total),
            FromAgent::Event(Event::Cached(files)) if self.owes_answer_to(Question::Cached) => {
                self.cached.take(files).map(|()| Taken::Nothing)
            }
            FromAgent::Event(Event::Cached(_)) => Err(Violation::NotAsked),
            FromAgent::Event(Event::Clock(sample)) if self.stage >= Stage::Weaving => {
                self.events.clock(sample.mono_ns);
                Ok(Taken::Sample(sample))
            }
            FromAgent::Event(Event::Records(bytes)) if self.stage == Stage::Recording => {
                self.take_records(bytes).map(|()| Taken::Nothing)
            }
            FromAgent::Event(Event::Events(bytes)) if self.stage == Stage::Recording => {
                self.events.take(bytes, self.kinds)?;
                self.check_waiting().map(|()| Taken::Nothing)
            }
            FromAgent::Event(Event::Xentrace(bytes)) if self.xentrace => Ok(Taken::Xentrace(bytes)),
            FromAgent::Event(_) => Err(Violation::NotRecording),
        }
    }

    fn take_reply(&mut self, reply: Reply, received_tsc: u64) -> Result<Taken, Violation> {
        let sent_tsc = self.link.sent_tsc();
        let (Some(Asked { question, .. }), Some(sent_tsc)) = (self.asked.pop_front(), sent_tsc) else {
            return Err(Violation::NotAsked);
        };
        if !question.is_answered_by(&reply) {
            return Err(Violation::Answer(question));
        }
        self.count_owed(Instant::now());
        self.set_limit();
        match reply {
            Reply::Clock(sample) => {
                return Ok(Taken::Exchange(Exchange { sent_tsc, sample, received_tsc }));
            }
            Reply::Vms(vms) => return Ok(Taken::Vms(vms)),
            Reply::Symbols(symbols) => self.drops.answered(symbols),
            Reply::Loss(loss) => self.take_loss(loss)?,
            Reply::Stopped(loss) => {
                self.take_loss(loss)?;
                self.exit.get_or_insert(Exit::Stopped);
            }
            Reply::Done => {}
            // Once something is woven there is nobody who would be told: it is over for this domain.
            Reply::Failed(failure) if self.stage == Stage::Recording || question == Question::Unset => {
                return Err(Violation::Failed(failure.message));
            }
            Reply::Woven(woven) => {
                let own = |site: u32| self.sites.contains(&site);
                let sites = woven.sites.iter().map(|site| site.site);
                let sites = sites.chain(woven.clones.iter().map(|clone| clone.site));
                if let Some(other) =
                    sites.chain(woven.skipped.iter().map(|skipped| skipped.site)).find(|s| !own(*s))
                {
                    return Err(Violation::Site(other));
                }
                self.answers.push_back(Reply::Woven(woven));
            }
            reply => self.answers.push_back(reply),
        }
        Ok(Taken::Nothing)
    }

    /// Progress is within the plan, and gives no more time: a domain keeps nobody waiting by telling the same again and again.
    fn take_weaving(&mut self, done: u32, total: u32) -> Result<Taken, Violation> {
        if !self.owes_answer_to(Question::Weave) && !self.owes_answer_to(Question::Stop) {
            return Err(Violation::NotWeaving);
        }
        if total > self.hooks || done > total {
            return Err(Violation::Hooks { done, total, hooks: self.hooks });
        }
        self.attached = self.attached.max(done);
        Ok(Taken::Weaving { done: self.attached, total })
    }

    fn take_records(&mut self, bytes: Vec<u8>) -> Result<(), Violation> {
        // Out of the way while the session says whose they are.
        let (mut records, mut drops) = (std::mem::take(&mut self.records), std::mem::take(&mut self.drops));
        let taken = records.take(bytes, |record| {
            drops.see(record);
            self.foreign(record).map_or(Ok(()), Err)
        });
        (self.records, self.drops) = (records, drops);
        taken?;
        self.check_waiting()
    }

    /// Says why a record cannot be this domain's.
    fn foreign(&self, record: &Record) -> Option<Violation> {
        if !self.sites.contains(&record.site) {
            return Some(Violation::RecordOfSite(record.site));
        }
        let parent = match record.kind {
            Kind::Split | Kind::Merge => record.values.first().copied().unwrap_or(0),
            _ => 0,
        };
        let other = [record.flow, parent].into_iter().find(|flow| !self.may_make(*flow))?;
        Some(Violation::RecordOfFlow(other))
    }

    /// Whether a flow's ID is none, one that this domain gives, or one that it is told.
    fn may_make(&self, flow: u64) -> bool {
        let domain = maker(flow);
        flow == 0 || domain == self.number || self.believes.contains(&domain)
    }

    fn take_loss(&mut self, loss: Loss) -> Result<(), Violation> {
        if let Some(site) = loss.sites.iter().find(|loss| !self.sites.contains(&loss.site)) {
            return Err(Violation::LossOfSite(site.site));
        }
        if let Some((flow, _)) = loss.flows.iter().find(|(flow, _)| !self.may_make(*flow)) {
            return Err(Violation::LossOfFlow(*flow));
        }
        self.loss = loss;
        Ok(())
    }

    fn check_waiting(&self) -> Result<(), Violation> {
        let waiting = self.waiting_bytes();
        if waiting <= self.budget.waiting {
            return Ok(());
        }
        Err(Violation::Waiting { waiting, budget: self.budget.waiting })
    }

    /// Records and events that wait for the clocks.
    pub(crate) fn waiting(&self) -> usize {
        self.records.len() + self.events.len()
    }

    /// Whether what waits for the clocks comes near what may.
    pub(crate) fn waits_for_much(&self) -> bool {
        self.waiting_bytes() > self.budget.waiting / 4
    }

    /// Memory that waits for the clocks.
    fn waiting_bytes(&self) -> usize {
        self.records.bytes() + self.events.bytes()
    }

    /// Loses it if it has filled its share of the trace: so many bytes are written.
    pub(crate) fn check_disk(&mut self, written: u64) {
        if written > self.budget.disk && self.is_there() {
            self.lose(format!(
                "cut off: its part of the trace has reached {} MiB, its share of --max-size",
                self.budget.disk >> 20
            ));
        }
    }

    /// Loses those who do not answer in time, or never said hello.
    pub(crate) fn check_deadlines(&mut self, now: Instant) {
        if !self.is_there() {
            return;
        }
        if !self.has_greeted() && now >= self.greet_by {
            self.lose(format!("no answer within {} seconds", self.pace.hello.as_secs_f32()));
        }
        let owed =
            self.owed + self.owes_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if self.stage < Stage::Weaving && owed >= self.pace.answers {
            let seconds = self.pace.answers.as_secs_f32();
            self.lose(format!("its answers, before it was to weave, took {seconds} seconds together"));
        }
        if let Some(late) = self.asked.iter().find(|asked| now >= asked.deadline) {
            self.lose(format!(
                "no answer within {} seconds ({:?})",
                late.patience.as_secs_f32(),
                late.question
            ));
        }
    }

    /// Its part is over.
    pub(crate) fn lose(&mut self, reason: impl Into<String>) {
        if self.exit.is_none() {
            self.exit = Some(Exit::Lost { reason: reason.into() });
            self.asked.clear();
        }
        if !matches!(self.exit, Some(Exit::Stopped)) {
            self.link.cut();
        }
    }

    /// Why it was lost, if it was.
    pub(crate) fn lost(&self) -> Option<&str> {
        match &self.exit {
            Some(Exit::Lost { reason }) => Some(reason),
            _ => None,
        }
    }

    /// Says good-bye: the agent takes its probes away, if it has any, and goes.
    pub(crate) fn close(&mut self) {
        self.link.close();
    }

    /// Leaves what came as it is, so that more may come.
    pub(crate) fn discard(&self, incoming: &Incoming) {
        if let Incoming::Message { bytes, .. } = incoming {
            self.link.taken(*bytes);
        }
    }

    /// Whether it has gone after that.
    pub(crate) fn is_over(&mut self) -> bool {
        self.lost().is_some() || self.link.is_over()
    }

    /// Asks the agent to break off what it does, if it is a process of this machine. Others see the connection end.
    pub(crate) fn hurry(&mut self) {
        self.link.hurry();
    }

    /// Leaves the agent to itself.
    pub(crate) fn let_go(&mut self) {
        self.link.let_go();
    }

    /// Ends the connection whatever the agent does.
    pub(crate) fn cut(&mut self) {
        self.link.cut();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::net::UnixStream,
        sync::mpsc::{self, Receiver},
    };

    use xweave_wire::frame;

    use super::*;
    use crate::{scripted, transport::Stream};

    /// A session, what comes from its agent, and the agent's end of the connection.
    fn session(budget: Budget) -> (Session, Receiver<(usize, Incoming)>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (sender, incoming) = mpsc::channel();
        let link = Link::open(Stream::of_socket(ours.into()).unwrap(), &budget, 0, &sender);
        let spec = DomainSpec::parse("vm1=vsock:3").unwrap();
        (Session::new(spec, 2, link, budget, Pace::default()), incoming, theirs)
    }

    #[test]
    fn who_does_not_answer_in_time_is_lost_and_what_was_waited_for_is_told() {
        let second = Duration::from_secs(1);
        let (mut silent, ..) = session(Budget::default());
        let begun = Instant::now();
        silent.check_deadlines(begun + 19 * second);
        assert!(silent.is_there());
        silent.check_deadlines(begun + 21 * second);
        assert_eq!(silent.lost(), Some("no answer within 20 seconds"));

        // Each hook of a plan has a second: two sites, which may be attached twice, and two probes of events. They
        // have it again when they are detached.
        let weave = || Request::Weave(Box::new(scripted::plan(2)));
        for (before, request, patience, told) in [
            (None, Request::DomainInfo, 120, "no answer within 120 seconds (DomainInfo)"),
            (None, weave(), 126, "no answer within 126 seconds (Weave)"),
            (None, Request::Stop, 120, "no answer within 120 seconds (Stop)"),
            (Some(weave()), Request::Stop, 126, "no answer within 126 seconds (Stop)"),
        ] {
            let (mut slow, _incoming, _agent) = session(Budget::default());
            slow.take(Incoming::Hello);
            if let Some(before) = before {
                slow.ask(before);
                // As if it had been answered.
                slow.asked.clear();
            }
            let begun = Instant::now();
            slow.ask(request);
            slow.check_deadlines(begun + (patience - 1) * second);
            assert!(slow.is_there());
            slow.check_deadlines(begun + (patience + 1) * second);
            assert_eq!(slow.lost(), Some(told));
            assert!(!slow.owes(), "nothing is waited for any more");
        }
    }

    #[test]
    fn progress_is_within_the_plan_and_gives_no_more_time() {
        let weaving = |done, total| {
            let message = Box::new(FromAgent::Event(Event::Weaving { done, total }));
            Incoming::Message { message, received_tsc: 0, bytes: 0 }
        };
        let weave = || Request::Weave(Box::new(scripted::plan(2)));
        let (mut early, _incoming, _agent) = session(Budget::default());
        early.take(Incoming::Hello);
        early.take(weaving(0, 6));
        let told = "cut off: it tells how far weaving has come, and was not asked to weave";
        assert_eq!(early.lost(), Some(told));

        // The plan has 6 hooks.
        for (done, total) in [(0, 7), (4, 3)] {
            let (mut liar, _incoming, _agent) = session(Budget::default());
            liar.take(Incoming::Hello);
            liar.ask(weave());
            liar.take(weaving(done, total));
            let told = format!("cut off: it tells that {done} of {total} hooks are attached; its plan has 6");
            assert_eq!(liar.lost(), Some(told.as_str()));
        }

        let (mut slow, _incoming, _agent) = session(Budget::default());
        slow.take(Incoming::Hello);
        let begun = Instant::now();
        slow.ask(weave());
        // Less than before may be told, and is not shown.
        for (told, shown) in [(2, 2), (2, 2), (1, 2), (5, 5), (0, 5)] {
            let taken = slow.take(weaving(told, 6));
            assert!(matches!(taken, Taken::Weaving { done, total: 6 } if done == shown), "{told}");
        }
        slow.check_deadlines(begun + Duration::from_secs(127));
        assert_eq!(slow.lost(), Some("no answer within 126 seconds (Weave)"));
    }

    #[test]
    fn answers_that_each_come_in_time_may_not_take_for_ever_together() {
        let (mut slow, ..) = session(Budget::default());
        slow.take(Incoming::Hello);
        for nth in 0..10 {
            let now = Instant::now();
            slow.ask(Request::Clock);
            slow.check_deadlines(now + Duration::from_secs(61));
            assert_eq!(slow.is_there(), nth < 9, "after {nth}");
            // As if the answer had come a minute after the question.
            slow.owes_since = now.checked_sub(Duration::from_secs(60)).or(Some(now));
            slow.asked.clear();
            slow.count_owed(Instant::now());
        }
        assert_eq!(slow.lost(), Some("its answers, before it was to weave, took 600 seconds together"));
    }

    #[test]
    fn what_is_not_looked_at_any_more_keeps_no_room_from_what_follows() {
        // Room for one message at a time.
        let (mut stopped, incoming, mut agent) =
            session(Budget { queued: 1, rate: None, ..Budget::default() });
        stopped.exit = Some(Exit::Stopped);
        frame::write_preamble(&mut agent).unwrap();
        for done in 0..5 {
            let message = FromAgent::Event(Event::Weaving { done, total: 5 });
            frame::write_message(&mut agent, &message).unwrap();
        }
        for nth in 0..6 {
            let (_, next) = incoming.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(matches!(next, Incoming::Hello), nth == 0);
            assert!(matches!(stopped.take(next), Taken::Nothing));
        }
        assert_eq!(stopped.exit, Some(Exit::Stopped));
    }
}
