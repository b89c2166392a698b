//! Flows by a value that advice stored: what is stored where a flow enters a place tells that place of one flow from that of
//! another, as the number of a tap device tells its queue.

use std::{collections::HashMap, convert::Infallible};

use xweave_trace::{Row, Trace};
use xweave_wire::record::Kind;

use crate::{
    durations::Durations,
    flows::{Flows, NamedFlow, Wanted},
    functions::{Functions, Number},
    join::Join,
    places::{self, Spot, Stay},
    stored,
};

/// Groups that are told apart: values may be as many as flows.
const MOST: usize = 1 << 14;

/// Flows in which a value was stored in a place; its share is that of the time of all groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The value.
    pub value: u64,
    /// Where flows were from there on, and how long.
    pub stay: Stay,
    /// Half of these flows took at most so long, from their beginnings to their ends.
    pub flow_p50_ns: i64,
}

/// All groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    /// Those in which most time was spent first.
    pub groups: Vec<Group>,
    /// Flows of which a group is not listed: their values came when 16,384 others were known.
    pub ungrouped: u64,
}

/// Reads the flows that are wanted, and groups them by a value: its name, or `v1` to `v7`.
pub fn read(trace: &Trace, join: Join<'_>, wanted: Wanted<'_>, name: &str) -> (Flows, Groups) {
    let mut grouping = Grouping::default();
    let Ok(flows) = Flows::each(trace, join, wanted, |named| {
        grouping.add(named, trace, name);
        Ok::<_, Infallible>(())
    });
    (flows, grouping.told(|number| trace.domain(number).map_or("?", |domain| &domain.name)))
}

#[derive(Default)]
struct Grouping {
    functions: Functions,
    groups: HashMap<(u64, Spot), OfGroup>,
    ungrouped: u64,
}

#[derive(Default)]
struct OfGroup {
    /// Where flows went on to from there: those that ended there do not tell.
    leads: Option<Spot>,
    there: Durations,
    total_ns: i64,
    flows: Durations,
}

impl Grouping {
    fn add(&mut self, named: NamedFlow<'_>, trace: &Trace, name: &str) {
        let flow = named.flow();
        let rows: Vec<&Row> = flow.path().collect();
        let tell = |row: &Row| named.function_of(row);
        let path: Vec<Number> = rows.iter().map(|row| self.functions.of(row, tell)).collect();
        let spots = places::spots(&path, &self.functions);
        let mut groups: Vec<((u64, &Spot), i64)> = Vec::new();
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.kind == Kind::Hop) {
            let value = trace.site(row.site).and_then(|site| stored::value(row, site, name));
            let (Some(value), Some(spot)) = (value, spots.get(at)) else { continue };
            if groups.iter().any(|(group, _)| *group == (value, spot)) {
                continue;
            }
            let there = spots[at..].iter().take_while(|other| *other == spot).count();
            let left = rows.get(at + there).map_or(row.time_ns, |row| row.time_ns);
            groups.push(((value, spot), left.saturating_sub(row.time_ns)));
        }
        let mut left_out = false;
        for ((value, spot), ns) in groups {
            // A device is one, whether flows went on from it or ended there.
            let wherever = spot.wherever();
            let leads = *spot != wherever;
            let key = (value, wherever);
            if self.groups.len() >= MOST && !self.groups.contains_key(&key) {
                left_out = true;
                continue;
            }
            let group = self.groups.entry(key).or_default();
            if leads {
                group.leads.get_or_insert_with(|| spot.clone());
            }
            group.there.add(ns);
            group.total_ns = group.total_ns.saturating_add(ns.max(0));
            group.flows.add(flow.total_ns());
        }
        self.ungrouped += u64::from(left_out);
    }

    fn told<'a>(self, domain: impl Fn(u8) -> &'a str) -> Groups {
        let total = self.groups.values().map(|group| group.total_ns as f64).sum::<f64>();
        let mut all: Vec<_> = self.groups.into_iter().collect();
        all.sort_by(|(a, x), (b, y)| y.total_ns.cmp(&x.total_ns).then_with(|| a.cmp(b)));
        let group = |((value, spot), mut of): ((u64, Spot), OfGroup)| {
            let place = of.leads.as_ref().unwrap_or(&spot).place(&domain, None);
            let stay = Stay::new(place, &mut of.there, of.total_ns, total);
            Group { value, stay, flow_p50_ns: of.flows.spread().p50_ns }
        };
        Groups { groups: all.into_iter().map(group).collect(), ungrouped: self.ungrouped }
    }
}
