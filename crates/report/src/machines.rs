//! What the machines of a trace did, and who kept whom waiting.

use xweave_model::{
    Census, Usage,
    format::mean,
    objects::RECORDER,
    usage::{Figures, Waited, kind},
};
use xweave_text::size;

use crate::{View, number, table};

/// So many of a kind are named, and of those who wait.
const NAMED: usize = 5;
const WAITING: usize = 4;

/// What takes a smaller share of the time is summed up.
const TELLING: f64 = 0.005;

/// One object and what it did.
type One<'a> = (&'a str, Figures);

/// A line for each thing that a domain did, for all domains, in this order.
pub fn text(usage: &Usage, domains: &[&str], view: View) -> String {
    let mut text = format!(
        "{} of {}, {}\n{}\n",
        number::span(usage.span_ns),
        domains.join(", "),
        number::counted(usage.events, "event", "events"),
        headline(usage),
    );
    for &domain in domains {
        let of = Domain { usage, domain };
        let rows = of.rows();
        if rows.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{}\n", of.title()));
        let mut table = table::bare(view);
        for (what, told) in rows {
            table.add_row([format!("  {what}"), told]);
        }
        text.push_str(&table::text(&table));
    }
    text
}

/// Who waited most for a processor, and for whom; the recorder is not who anybody asks about.
fn headline(usage: &Usage) -> String {
    let processes =
        usage.objects.iter().filter(|(key, _)| key.kind == kind::PROCESS && key.object != RECORDER);
    let most = processes.max_by_key(|(_, figures)| figures.wait_ns);
    let Some((key, figures)) = most.filter(|(_, figures)| figures.wait_ns * 100 > usage.span_ns) else {
        return "Nobody waited for a processor for a hundredth of the time.".to_owned();
    };
    let had: Vec<_> = waited(usage, &key.domain, &key.object).collect();
    let for_whom = by(&had, figures.wait_ns);
    format!(
        "Waited longest for a processor: {} on {}, {} (they ran {}){}",
        key.object,
        key.domain,
        number::span(figures.wait_ns),
        number::span(figures.time_ns),
        if for_whom.is_empty() { String::new() } else { format!(", which had: {for_whom}") }
    )
}

/// Who had the processors meanwhile.
fn waited<'a>(usage: &'a Usage, domain: &str, object: &str) -> impl Iterator<Item = &'a Waited> {
    usage.waited.iter().filter(move |waited| waited.domain == domain && waited.object == object)
}

fn by(had: &[&Waited], all: u64) -> String {
    let share = |ns: u64| ns as f64 / all.max(1) as f64;
    let named = had.iter().take(NAMED).filter(|waited| share(waited.ns) >= 0.01);
    let named: Vec<_> =
        named.map(|waited| format!("{} {:.0} %", waited.by, 100.0 * share(waited.ns))).collect();
    named.join(", ")
}

struct Domain<'a> {
    usage: &'a Usage,
    domain: &'a str,
}

impl<'a> Domain<'a> {
    /// How long it was recorded.
    fn span_ns(&self) -> u64 {
        self.usage.spans.get(self.domain).copied().unwrap_or(self.usage.span_ns)
    }

    /// Its objects of a kind, in the order of what they are asked for, the most first.
    fn all(&self, kind: &str, of: fn(&Figures) -> u64) -> Vec<One<'a>> {
        let own = self.usage.objects.iter().filter(|(key, _)| key.kind == kind && key.domain == self.domain);
        let mut own: Vec<One<'a>> = own.map(|(key, figures)| (&*key.object, *figures)).collect();
        own.sort_by_key(|(name, figures)| (std::cmp::Reverse(of(figures)), *name));
        own
    }

    fn title(&self) -> String {
        let cpus = self.usage.cpus.get(self.domain).copied().unwrap_or(0);
        let ran: u64 = self.all(kind::PROCESS, |of| of.time_ns).iter().map(|(_, of)| of.time_ns).sum();
        let all = u64::from(cpus) * self.span_ns();
        let busy = match (ran, all) {
            (0, _) | (_, 0) => String::new(),
            _ => format!(", {:.0} % busy", 100.0 * ran as f64 / all as f64),
        };
        format!("{}: {}{busy}", self.domain, number::counted(cpus.into(), "processor", "processors"))
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut add = |what: &str, told: Vec<String>| {
            if !told.is_empty() {
                rows.push((what.to_owned(), told.join(", ")));
            }
        };
        add("ran", self.ran());
        self.waits().into_iter().for_each(|told| add("waited", vec![told]));
        let vcpus = self.all(kind::VCPU, |of| of.count).into_iter().map(|(name, of)| {
            let (inside, halted) = (number::span(of.time_ns), number::span(of.wait_ns));
            format!("{name} was {inside} inside and {halted} halted, with {} exits", number::count(of.count))
        });
        vcpus.for_each(|told| add("vCPU", vec![told]));
        add("exits", self.such(kind::EXIT, "exits ", |of| of.time_ns));
        for (name, of) in self.all(kind::DISK, |of| of.time_ns) {
            add(name, vec![self.disk(name, &of)]);
        }
        let exchanged = |kind, of: fn(&Figures) -> u64| {
            let told = self.all(kind, of).into_iter().take(NAMED).map(move |(name, of)| {
                let waited = if of.wait_ns > 0 {
                    format!(", waited {}", number::span(of.wait_ns))
                } else {
                    String::new()
                };
                let messages = number::counted(of.count, "message", "messages");
                format!("{name} ({messages}, {}{waited})", size(of.bytes as f64))
            });
            told.collect()
        };
        add("serves", exchanged(kind::SERVICE, |of| of.bytes));
        add("asks", exchanged(kind::PEER, |of| of.wait_ns.max(of.bytes)));
        add("interrupts", self.such(kind::INTERRUPT, "", |of| of.time_ns));
        add("locks", self.such(kind::LOCK, "locks of ", |of| of.time_ns));
        rows
    }

    /// Who had the processors.
    fn ran(&self) -> Vec<String> {
        let all = u64::from(self.usage.cpus.get(self.domain).copied().unwrap_or(1)) * self.span_ns();
        let share = |ns: u64| ns as f64 / all.max(1) as f64;
        let processes = self.all(kind::PROCESS, |of| of.time_ns);
        let told = |at: usize, of: &Figures| at < NAMED && share(of.time_ns) >= TELLING;
        let (mut named, mut rest, mut others) = (Vec::new(), 0, 0);
        for (at, (name, of)) in processes.iter().enumerate() {
            if told(at, of) {
                named.push(format!("{name} {:.0} %", 100.0 * share(of.time_ns)));
            } else if of.time_ns > 0 {
                (rest, others) = (rest + of.time_ns, others + 1);
            }
        }
        if others > 0 {
            named.push(format!(
                "{} {:.0} %",
                number::counted(others, "other", "others"),
                100.0 * share(rest)
            ));
        }
        named
    }

    /// Who was ready for a processor that others had, a line each.
    fn waits(&self) -> Vec<String> {
        let waiting = self.all(kind::PROCESS, |of| of.wait_ns).into_iter().take(WAITING);
        let waiting = waiting.filter(|(_, of)| of.wait_ns as f64 >= TELLING * self.span_ns() as f64);
        let told = waiting.map(|(name, of)| {
            let had: Vec<_> = waited(self.usage, self.domain, name).collect();
            let by = by(&had, of.wait_ns);
            let by = if by.is_empty() { by } else { format!(": {by}") };
            format!("{name} {}{by}", number::span(of.wait_ns))
        });
        told.collect()
    }

    /// The first of a kind: each with its time and how often.
    fn such(&self, kind: &str, prefix: &str, of: fn(&Figures) -> u64) -> Vec<String> {
        let all = self.all(kind, of);
        let told = all.iter().take(NAMED).map(|(name, figures)| {
            let name = name.strip_prefix(prefix).unwrap_or(name);
            format!("{name} {} ({})", number::span(of(figures)), number::count(figures.count))
        });
        let mut told: Vec<String> = told.collect();
        if all.len() > NAMED {
            told.push(format!("{} more", all.len() - NAMED));
        }
        told
    }

    /// What a disk did and for whom.
    fn disk(&self, name: &str, of: &Figures) -> String {
        let data = |of: &Figures| {
            let both = [("read", of.bytes.saturating_sub(of.written)), ("written", of.written)];
            let both = both.into_iter().filter(|(_, bytes)| *bytes > 0);
            let both: Vec<_> = both.map(|(what, bytes)| format!("{} {what}", size(bytes as f64))).collect();
            if both.is_empty() { "no data".to_owned() } else { both.join(", ") }
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of times is one")]
        let [queued, device] =
            [of.wait_ns, of.device_ns].map(|ns| number::span(mean(ns, of.count).max(0.0) as u64));
        let on = format!(" on {name}");
        let users = self.all(kind::USE, |of| of.bytes).into_iter();
        let users = users.filter_map(|(user, of)| Some(format!("{} {}", user.strip_suffix(&on)?, data(&of))));
        let users: Vec<_> = users.take(NAMED).collect();
        let users = if users.is_empty() { String::new() } else { format!(": {}", users.join("; ")) };
        format!(
            "{:.0} % busy, {}, {}; each {queued} in its queue and {device} in the disk{users}",
            100.0 * of.time_ns as f64 / self.span_ns().max(1) as f64,
            number::counted(of.count, "request", "requests"),
            data(of),
        )
    }
}

/// Which transactions may be asked for.
pub fn transactions(census: &Census, dir: &str, view: View) -> String {
    let kinds = census.transactions.iter().map(|(kind, count)| match count {
        Some(count) => format!("{kind} ({})", number::count(*count)),
        None => kind.clone(),
    });
    let kinds: Vec<_> = kinds.collect();
    if kinds.is_empty() {
        return format!("The time between two events: xweave explain {dir} --transaction between:FROM..TO\n");
    }
    let mut table = table::bare(view);
    table.add_row(["Transactions:".to_owned(), kinds.join(", ")]);
    format!("{}One kind: xweave explain {dir} --transaction KIND\n", table::text(&table))
}
