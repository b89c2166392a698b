//! What the machines of a trace did, and who kept whom waiting.

use std::{cmp::Reverse, collections::BTreeMap};

use xweave_model::{
    Blame, Census, ObjectGroup, Tenant, Usage, UsageKind, UsageObject,
    blame::{Relation, blames},
    mean::mean,
    usage::{Figures, Key},
};
use xweave_text::size;

use crate::{View, number, table, words::objects, writers};

/// So many of a kind are named, and of those who wait.
const NAMED: usize = 5;
const WAITING: usize = 4;

/// Of who waited, the time that nobody had the CPU is told from this share on.
const NOBODY: f64 = 0.05;

/// So many CPUs are told one by one.
const CPUS: usize = 8;

/// So many virtual machines have a line of their own.
const GUESTS: usize = 8;

/// What takes a smaller share of the time is summed up.
const TELLING: f64 = 0.005;

/// What is said if no processes waited long.
pub(crate) const NOTHING_WAITED: &str = "Nothing waited for a CPU for 1 % of the time.";

/// One object and what it did.
type One<'a> = (&'a UsageObject, Figures);

/// The answers in a few lines: who waited for whom, who writes to which disk; then a table for each domain that did anything, in
/// this order: of many CPUs, virtual machines, disks and waits those with the most, unless all are wanted.
pub fn text(usage: &Usage, domains: &[&str], all: bool, view: View) -> String {
    let recorded = format!(
        "{}: {}, {}",
        domains.join(", "),
        number::span(usage.span_ns),
        number::counted(usage.events, "event", "events")
    );
    let mut text = table::paragraph(&recorded, view);
    text.push_str(&table::paragraph(&headline(usage), view));
    for line in writers::lines(usage, domains) {
        text.push_str(&table::paragraph(&line, view));
    }
    for &domain in domains {
        let of = Domain { usage, domain, all };
        let rows = of.rows();
        if rows.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{}\n", of.title()));
        text.push_str(&table::lines(&rows, view));
    }
    text
}

/// Who waited longest for a CPU, and for whom: told where nobody else is to blame for it.
pub(crate) struct Longest<'a> {
    domain: &'a str,
    who: &'a ObjectGroup,
    figures: Figures,
    /// Who had the CPUs meanwhile.
    taken: Taken,
}

/// Who had the CPUs that processes waited for, in words.
struct Taken {
    /// Whether anybody is worth naming.
    by_some: bool,
    /// `taken by nginx 80 %, 20 % by nobody`; empty if there is nothing to tell.
    text: String,
}

impl<'a> Longest<'a> {
    /// None, if nothing waited for 1 % of the time; the recorder is not who anybody asks about.
    pub(crate) fn of(usage: &'a Usage) -> Option<Self> {
        let processes = usage.objects.iter().filter_map(|(key, figures)| match &key.object {
            UsageObject::Process(who) if !who.is_recorders() => Some((&key.domain, who, *figures)),
            _ => None,
        });
        let (domain, who, figures) = processes.max_by_key(|(.., figures)| figures.wait_ns)?;
        (figures.wait_ns / 10 > usage.span_ns / 1000).then(|| Self {
            domain,
            who,
            figures,
            taken: taken_by(usage, domain, who, figures.wait_ns),
        })
    }

    /// That it waited, and for how long.
    pub(crate) fn waited(&self) -> String {
        let waited = number::span(self.figures.wait_ns);
        format!("{} waited longest for a CPU of {}: {waited}", objects::processes(self.who), self.domain)
    }

    /// Who had the CPUs meanwhile, and how long it ran: `taken by nginx 80 %; ran 5 ms`. None, if nobody is worth naming.
    pub(crate) fn taken(&self) -> Option<String> {
        self.taken.by_some.then(|| format!("{}; {}", self.taken.text, self.ran()))
    }

    /// All of it.
    pub(crate) fn headline(&self) -> String {
        let taken = if self.taken.text.is_empty() { String::new() } else { format!(", {}", self.taken.text) };
        format!("{}{taken}; {}", self.waited(), self.ran())
    }

    fn ran(&self) -> String {
        format!("ran {}", number::span(self.figures.time_ns))
    }
}

/// What kept another one waiting for a CPU more than anything else did.
pub(crate) struct Culprit<'a> {
    usage: &'a Usage,
    /// Whom it kept waiting.
    blame: Blame,
    /// Who else kept whom waiting.
    others: Vec<Blame>,
}

impl<'a> Culprit<'a> {
    /// None, if nobody is telling.
    pub(crate) fn of(usage: &'a Usage) -> Option<Self> {
        let mut others = blames(usage);
        if !others.first()?.is_telling(usage.span_ns) {
            return None;
        }
        Some(Self { usage, blame: others.remove(0), others })
    }

    /// Whom it kept waiting, and for how long.
    pub(crate) fn headline(&self) -> String {
        let blame = &self.blame;
        let of = Domain { usage: self.usage, domain: &blame.domain, all: false };
        let cpus = match of.cpus() {
            0 | 1 => "CPU".to_owned(),
            several => format!("{} CPUs", number::count(several)),
        };
        format!(
            "{} used {} of {}'s {cpus} and kept {} waiting for {} ({} of its waits)",
            objects::tenant(&blame.culprit),
            number::percent(of.of_cpus(blame.ran_ns).min(1.0)),
            blame.domain,
            objects::tenant(&blame.victim),
            number::span(blame.ns),
            number::percent(blame.share().min(1.0)),
        )
    }

    /// For what else its victim waited: `vm1 waited 8.500 s for a CPU of host: for vm2 41 %, itself 30 %, bash 2 %`.
    pub(crate) fn victims_waits(&self) -> String {
        let first = &self.blame;
        let of_victim = |blame: &&Blame| blame.domain == first.domain && blame.victim == first.victim;
        let others = self.others.iter().filter(of_victim);
        let mut waits: Vec<&Blame> = std::iter::once(first).chain(others).collect();
        waits.sort_by_key(|blame| Reverse(blame.ns));
        let told = waits.iter().filter(|blame| blame.share() >= 0.01).take(NAMED).map(|blame| {
            let by: String = match blame.relation {
                Relation::Own => "itself".into(),
                _ => objects::tenant(&blame.culprit).into(),
            };
            format!("{by} {}", number::percent(blame.share()))
        });
        format!(
            "{} waited {} for a CPU of {}: for {}",
            objects::tenant(&first.victim),
            number::span(first.waited_ns),
            first.domain,
            told.collect::<Vec<_>>().join(", ")
        )
    }

    /// Whether that is the recorder.
    pub(crate) fn is_recorder(&self) -> bool {
        self.blame.culprit == Tenant::Recorder
    }
}

fn headline(usage: &Usage) -> String {
    let longest = || Longest::of(usage).map(|longest| longest.headline());
    let culprit = Culprit::of(usage).map(|culprit| culprit.headline());
    culprit.or_else(longest).unwrap_or_else(|| NOTHING_WAITED.to_owned())
}

/// Who had the CPUs that processes waited for, as shares of how long they waited.
fn taken_by(usage: &Usage, domain: &str, who: &ObjectGroup, all: u64) -> Taken {
    let share = |ns: u64| ns as f64 / all.max(1) as f64;
    let of = || usage.waited.iter().filter(|waited| waited.domain == domain && waited.who == *who);
    let named = of().take(NAMED).filter(|waited| share(waited.ns) >= 0.01);
    let named: Vec<_> = named
        .map(|waited| {
            let by = match waited.by == *who {
                true => "each other".to_owned(),
                false => objects::processes(&waited.by).into(),
            };
            format!("{by} {}", number::percent(share(waited.ns)))
        })
        .collect();
    let by_some = !named.is_empty();
    let mut told = if by_some { vec![format!("taken by {}", named.join(", "))] } else { Vec::new() };
    // It was on its way out of idling, withheld by a quota, or as a vCPU waited for its own turn; or events were lost.
    let nobody = all.saturating_sub(of().map(|waited| waited.ns).sum());
    if share(nobody) >= NOBODY {
        told.push(format!("{} by nobody", number::percent(share(nobody))));
    }
    Taken { by_some, text: told.join(", ") }
}

struct Domain<'a> {
    usage: &'a Usage,
    domain: &'a str,
    /// All CPUs, virtual machines, disks and waits are told, however many there are.
    all: bool,
}

impl<'a> Domain<'a> {
    /// How many are told, of which so many are usually.
    fn most(&self, usually: usize) -> usize {
        if self.all { usize::MAX } else { usually }
    }

    /// How long it was recorded.
    fn span_ns(&self) -> u64 {
        self.usage.spans.get(self.domain).copied().unwrap_or(self.usage.span_ns)
    }

    fn cpus(&self) -> u64 {
        self.usage.cpus.get(self.domain).copied().unwrap_or(0).into()
    }

    /// A share of the time of all its CPUs.
    fn of_cpus(&self, ns: u64) -> f64 {
        ns as f64 / (self.cpus() as f64 * self.span_ns() as f64).max(1.0)
    }

    /// Its objects of a kind, in the order of what they are asked for, the most first.
    fn all(&self, kind: UsageKind, of: fn(&Figures) -> u64) -> Vec<One<'a>> {
        let is = |key: &Key| key.kind() == kind && key.domain == self.domain;
        let own = self.usage.objects.iter().filter(|(key, _)| is(key));
        let mut own: Vec<One<'a>> = own.map(|(key, figures)| (&key.object, *figures)).collect();
        own.sort_by_key(|(object, figures)| (Reverse(of(figures)), *object));
        own
    }

    /// The same without the recorder's.
    fn others(&self, kind: UsageKind, of: fn(&Figures) -> u64) -> Vec<One<'a>> {
        let mut all = self.all(kind, of);
        all.retain(|(object, _)| !object.is_recorders());
        all
    }

    fn title(&self) -> String {
        let ran: u64 = self.all(UsageKind::Process, |of| of.time_ns).iter().map(|(_, of)| of.time_ns).sum();
        let busy = if ran == 0 {
            String::new()
        } else {
            format!(", {} busy", number::percent(self.of_cpus(ran).min(1.0)))
        };
        format!("{}: {}{busy}", self.domain, number::counted(self.cpus(), "CPU", "CPUs"))
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut add = |what: &str, told: Vec<String>| {
            if !told.is_empty() {
                rows.push((what.to_owned(), told.join(", ")));
            }
        };
        add("CPUs", self.each_cpu());
        add("ran", self.ran());
        self.waits().into_iter().for_each(|told| add("waited", vec![told]));
        let guests = self.guests();
        for guest in guests.iter().take(self.most(GUESTS)) {
            add(&objects::machine(guest).to_string(), self.guest(guest));
        }
        let more = guests.len().saturating_sub(self.most(GUESTS));
        if more > 0 {
            add("", vec![format!("{}: --all", number::counted(more as u64, "other VM", "other VMs"))]);
        }
        let (disks, users) =
            (self.all(UsageKind::Disk, |of| of.time_ns), self.all(UsageKind::DiskUser, |of| of.bytes));
        for (disk, of) in disks.iter().take(self.most(NAMED)) {
            add(&objects::usage(disk).to_string(), vec![self.disk(disk, of, &users)]);
        }
        let more = disks.len().saturating_sub(self.most(NAMED));
        if more > 0 {
            add("", vec![format!("{}: --all", number::counted(more as u64, "other disk", "other disks"))]);
        }
        add("serves", self.exchanged(UsageKind::Service, |of| of.bytes));
        add("asks", self.exchanged(UsageKind::Peer, |of| of.wait_ns.max(of.bytes)));
        self.qdiscs().into_iter().for_each(|told| add("queues", vec![told]));
        add("interrupts", named(&self.others(UsageKind::Interrupt, |of| of.time_ns), called));
        let locks = self.others(UsageKind::Lock, |of| of.time_ns);
        add("futexes", named(&locks, processes));
        add(&objects::recorder().to_string(), self.recorder());
        rows
    }

    /// How busy each CPU was, if there are several: all of a few, of more the ones that were busy most.
    fn each_cpu(&self) -> Vec<String> {
        let mut cpus: Vec<(u32, u64)> =
            self.usage.busy.get(self.domain).into_iter().flatten().map(|(cpu, ns)| (*cpu, *ns)).collect();
        if cpus.len() < 2 {
            return Vec::new();
        }
        let more = cpus.len().saturating_sub(self.most(CPUS));
        if more > 0 {
            cpus.sort_by_key(|(cpu, ns)| (Reverse(*ns), *cpu));
        }
        let share = |ns: u64| number::percent((ns as f64 / self.span_ns().max(1) as f64).min(1.0));
        let mut told: Vec<String> =
            cpus.iter().take(self.most(CPUS)).map(|(cpu, ns)| format!("{cpu}: {}", share(*ns))).collect();
        if let Some((_, least)) = cpus.last().filter(|_| more > 0) {
            told.push(format!("{more} more down to {}", share(*least)));
        }
        told
    }

    /// Who had the CPUs.
    fn ran(&self) -> Vec<String> {
        let processes = self.all(UsageKind::Process, |of| of.time_ns);
        let told = |at: usize, of: &Figures| at < NAMED && self.of_cpus(of.time_ns) >= TELLING;
        let (mut named, mut rest, mut others) = (Vec::new(), 0, 0);
        for (at, (object, of)) in processes.iter().enumerate() {
            if told(at, of) {
                named.push(format!("{} {}", called(object), number::percent(self.of_cpus(of.time_ns))));
            } else if of.time_ns > 0 {
                (rest, others) = (rest + of.time_ns, others + 1);
            }
        }
        if self.of_cpus(rest) >= TELLING {
            let others = number::counted(others, "other", "others");
            named.push(format!("{others} {}", number::percent(self.of_cpus(rest))));
        }
        named
    }

    /// Who was ready for a CPU that others had, a line each.
    fn waits(&self) -> Vec<String> {
        let waiting = self.others(UsageKind::Process, |of| of.wait_ns).into_iter().take(self.most(WAITING));
        let waiting = waiting.filter(|(_, of)| of.wait_ns as f64 >= TELLING * self.span_ns() as f64);
        let told = waiting.filter_map(|(object, of)| {
            let who = object.group()?;
            let taken = taken_by(self.usage, self.domain, who, of.wait_ns).text;
            let taken = if taken.is_empty() { taken } else { format!(", {taken}") };
            Some(format!("{} {}{taken}", objects::processes(who), number::span(of.wait_ns)))
        });
        told.collect()
    }

    /// Whose vCPUs it ran, the busiest first.
    fn guests(&self) -> Vec<&'a ObjectGroup> {
        let mut guests: BTreeMap<&ObjectGroup, u64> = BTreeMap::new();
        for (object, of) in self.all(UsageKind::Vcpu, |of| of.time_ns) {
            if let Some(guest) = object.group() {
                *guests.entry(guest).or_default() += of.time_ns;
            }
        }
        let mut guests: Vec<_> = guests.into_iter().collect();
        guests.sort_by_key(|(_, ns)| Reverse(*ns));
        guests.into_iter().map(|(guest, _)| guest).collect()
    }

    /// What the vCPUs of a guest did, and for what they exited.
    fn guest(&self, guest: &ObjectGroup) -> Vec<String> {
        let states = self.usage.vcpu_states(self.domain, guest);
        let waited = match states.waited_ns {
            0 => String::new(),
            ns => format!(", {} waiting for a CPU", number::span(ns)),
        };
        let did = format!(
            "{}: {} in the guest, {} halted{waited}; {}",
            number::counted(states.vcpus, "vCPU", "vCPUs"),
            number::span(states.inside_ns),
            number::span(states.halted_ns),
            number::counted(states.exits, "exit", "exits"),
        );
        let reason = |object: &UsageObject| match object {
            UsageObject::Exits { reason, .. } => reason.to_string(),
            _ => String::new(),
        };
        let mut exits = self.all(UsageKind::Exit, |of| of.time_ns);
        exits.retain(|(object, _)| object.group() == Some(guest));
        let why = named(&exits, reason);
        if why.is_empty() { vec![did] } else { vec![format!("{did}: {}", why.join(", "))] }
    }

    /// Whom it exchanged data with.
    fn exchanged(&self, kind: UsageKind, of: fn(&Figures) -> u64) -> Vec<String> {
        let told = self.others(kind, of).into_iter().take(NAMED).map(|(object, of)| {
            let port = match object {
                UsageObject::Peer(port) | UsageObject::Service(port) => *port,
                _ => None,
            };
            let waited =
                if of.wait_ns > 0 { format!(", waited {}", number::span(of.wait_ns)) } else { String::new() };
            let messages = number::counted(of.count, "message", "messages");
            let port = port.map_or_else(String::new, |port| format!(":{port}"));
            format!("{port} ({messages}, {}, {}/s{waited})", size(of.bytes as f64), self.rate(of.bytes))
        });
        told.collect()
    }

    /// What a disk did and for whom.
    fn disk(&self, disk: &UsageObject, of: &Figures, users: &[One<'_>]) -> String {
        let [queued, device] = [of.wait_ns, of.device_ns].map(|ns| mean_span(ns, of.count));
        let users = users.iter().filter_map(|(used, of)| match (used, disk) {
            (UsageObject::DiskUser { user, disk }, UsageObject::Disk(name)) if disk == name => {
                Some(format!("{} {}", objects::processes(user), data(of)))
            }
            _ => None,
        });
        let users: Vec<_> = users.take(NAMED).collect();
        let users = if users.is_empty() { String::new() } else { format!(": {}", users.join("; ")) };
        let ended = format!("on average {queued} in the queue and {device} in the device");
        let ended = if of.device_ns > 0 { ended } else { "no request has an end in the trace".to_owned() };
        format!(
            "{} busy, {}, {}{}; {ended}{users}",
            number::percent(of.time_ns as f64 / self.span_ns().max(1) as f64),
            number::counted(of.count, "request", "requests"),
            data(of),
            if of.bytes > 0 { format!(", {}/s", self.rate(of.bytes)) } else { String::new() },
        )
    }

    /// The queueing disciplines that held frames back, a line each.
    fn qdiscs(&self) -> Vec<String> {
        let all = self.all(UsageKind::Qdisc, |of| of.time_ns);
        let told = all.iter().take(NAMED).map(|(object, of)| {
            format!(
                "{} held {} back for {} on average, in all during {} of the time",
                called(object),
                number::counted(of.count, "frame", "frames"),
                mean_span(of.wait_ns, of.count),
                number::percent(of.time_ns as f64 / self.span_ns().max(1) as f64),
            )
        });
        let mut told: Vec<String> = told.collect();
        if let Some(more) = all.len().checked_sub(NAMED + 1) {
            told.push(number::counted(
                more as u64 + 1,
                "other queueing discipline",
                "other queueing disciplines",
            ));
        }
        told
    }

    /// How much that is each second.
    fn rate(&self, bytes: u64) -> String {
        size(bytes as f64 / (self.span_ns().max(1) as f64 / 1e9))
    }

    /// What recording took.
    fn recorder(&self) -> Vec<String> {
        let sum = |kind| {
            let mut sum = Figures::default();
            let own = self.all(kind, |of| of.count);
            own.iter().filter(|(object, _)| object.is_recorders()).for_each(|(_, of)| sum.add(of));
            sum
        };
        let (ran, mut talked) = (sum(UsageKind::Process), sum(UsageKind::Peer));
        talked.add(&sum(UsageKind::Service));
        let mut told = Vec::new();
        if self.of_cpus(ran.time_ns) >= TELLING {
            told.push(format!("ran {}", number::percent(self.of_cpus(ran.time_ns))));
        }
        if talked.count > 0 {
            let messages = number::counted(talked.count, "message", "messages");
            told.push(format!("{messages} with its agents ({})", size(talked.bytes as f64)));
        }
        told
    }
}

/// The mean of so many times, from their sum.
fn mean_span(ns: u64, count: u64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of times is one")]
    number::span(mean(ns, count).max(0.0) as u64)
}

/// The first of some, by their times: each with its time and how often.
fn named(all: &[One<'_>], name: impl Fn(&UsageObject) -> String) -> Vec<String> {
    let told = all.iter().take(NAMED).map(|(object, figures)| {
        format!("{} {} ({} ×)", name(object), number::span(figures.time_ns), number::count(figures.count))
    });
    let mut told: Vec<String> = told.collect();
    if all.len() > NAMED {
        told.push(format!("{} more", all.len() - NAMED));
    }
    told
}

fn called(object: &UsageObject) -> String {
    objects::usage(object).to_string()
}

/// The processes that it is about.
fn processes(object: &UsageObject) -> String {
    object.group().map_or_else(String::new, |group| objects::processes(group).to_string())
}

/// How much was read and written.
fn data(of: &Figures) -> String {
    let both = [("read", of.bytes.saturating_sub(of.written)), ("written", of.written)];
    let both = both.into_iter().filter(|(_, bytes)| *bytes > 0);
    let both: Vec<_> = both.map(|(what, bytes)| format!("{} {what}", size(bytes as f64))).collect();
    if both.is_empty() { "no data".to_owned() } else { both.join(", ") }
}

/// The kinds of transactions, each with how many there are.
pub fn kinds(census: &Census) -> Vec<String> {
    let least = if census.whole { "" } else { "at least " };
    let kinds = census.transactions.iter().map(|(kind, count)| match count {
        Some(count) => format!("{kind} ({least}{})", number::count(*count)),
        None => kind.clone(),
    });
    kinds.collect()
}

/// Which transactions may be asked for.
pub fn transactions(census: &Census, dir: &str, view: View) -> String {
    let kinds = kinds(census);
    let next = if kinds.is_empty() {
        format!("Time between two events: xweave explain {dir} --transaction between:FROM..TO")
    } else {
        let kinds = table::paragraph(&format!("Transactions: {}", kinds.join(", ")), view);
        format!("{kinds}Explain one kind: xweave explain {dir} --transaction KIND")
    };
    format!("{next}\n")
}
