//! What transactions and what events a trace has, for who asked for others.

use std::collections::{BTreeMap, BTreeSet};

use xweave_replay::Replay;
use xweave_trace::{Trace, event::Kind};

use crate::{
    machine::Machine,
    spec::Spec,
    transaction::{Finder, Transaction},
};

/// Events that are looked at.
const MOST: usize = 1 << 22;

/// The most ports, or processes of a name, that are listed.
const LISTED: usize = 8;

/// What a trace has.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Kinds of transactions as `--transaction` takes them, and how many there are: the most frequent first; none, where
    /// these have not been counted.
    pub transactions: Vec<(String, Option<u64>)>,
    /// Whether all events were looked at: else there may be more of each.
    pub whole: bool,
    /// Kinds of events, and the names of other tools' events.
    pub events: BTreeSet<String>,
    /// Functions and advice that were woven.
    pub sites: BTreeSet<String>,
}

impl Census {
    /// Goes through the first four million events of a trace.
    pub fn of(trace: &Trace) -> Self {
        let mut finders =
            [Spec::Request(None, None), Spec::Connect(None), Spec::Process(None), Spec::Thread(None)]
                .map(|spec| (Finder::new(&spec, &|_| None), BTreeMap::<String, u64>::new(), spec));
        let mut machine = Machine::of(trace, Replay::default());
        let mut kinds = BTreeSet::new();
        let mut events = trace.events();
        let mut taken = 0;
        while let Some(event) = events.next()
            && taken < MOST
        {
            taken += 1;
            kinds.insert((
                event.kind,
                if event.kind == Kind::Other { event.name } else { Default::default() },
            ));
            machine.feed(&event);
            for (finder, found, spec) in &mut finders {
                let new = finder.as_mut().and_then(|finder| finder.feed(&event, &machine, events.names()));
                if let Some(transaction) = new {
                    *found.entry(called(spec, &transaction)).or_default() += 1;
                }
            }
            if taken % (1 << 16) == 0 {
                let open = finders.iter().filter_map(|(finder, ..)| finder.as_ref()?.earliest());
                machine.forget_before(open.fold(event.time_ns, i64::min));
            }
        }
        let mut transactions = Vec::new();
        let flows: BTreeSet<&str> = trace.sites().iter().filter_map(|site| site.xflow.as_deref()).collect();
        transactions.extend(flows.into_iter().take(LISTED).map(|name| (format!("flow:{name}"), None)));
        for (finder, mut found, spec) in finders {
            // A process is a thread, too.
            if matches!(spec, Spec::Thread(_)) && !transactions.is_empty() {
                break;
            }
            for transaction in finder.into_iter().flat_map(|mut finder| finder.settle(None)) {
                *found.entry(called(&spec, &transaction)).or_default() += 1;
            }
            let mut found: Vec<_> = found.into_iter().map(|(name, count)| (name, Some(count))).collect();
            found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            transactions.extend(found.into_iter().take(LISTED));
        }
        let name = |(kind, name): (Kind, _)| match kind {
            Kind::Other => events.names().text(name).to_owned(),
            kind => kind.name().to_owned(),
        };
        let events = kinds.into_iter().filter(|(kind, _)| *kind != Kind::Lost).map(name).collect();
        let both = trace.sites().iter().flat_map(|site| [&site.function, &site.advice]);
        let whole = taken < MOST;
        Self { transactions, whole, events, sites: both.filter(|name| !name.is_empty()).cloned().collect() }
    }
}

/// The kind of transactions that one is of: with its server's port, or its process's name.
fn called(spec: &Spec, transaction: &Transaction) -> String {
    match (transaction.service, transaction.name.rsplit_once('/')) {
        (Some(port), _) => format!("{spec}:{port}"),
        (None, Some((name, _))) => format!("{spec}:{name}"),
        (None, None) => spec.to_string(),
    }
}
