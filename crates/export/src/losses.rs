//! What is uncertain: times in which events were lost, clocks that jumped, and how far they may be off.

use std::{collections::HashMap, io};

use rustc_hash::FxHashMap;
use xweave_model::{CpuId, Loss};
use xweave_trace::{TimeSpan, Trace};

use crate::{
    domains::{Domains, error},
    packets::{Arg, Label, Packets, Track},
};

/// Places in a domain's group: before its threads.
const CLOCK_RANK: i32 = 0;
const LOST_RANK: i32 = 1;

/// Times in which events were lost, as the events tell of them.
#[derive(Default)]
pub(crate) struct Lost {
    /// The track of each CPU, and up to when something is on it.
    tracks: FxHashMap<CpuId, (Track, i64)>,
}

impl Lost {
    /// Draws one on a track of its CPU in a domain's group.
    pub(crate) fn write(
        &mut self,
        loss: &Loss,
        events: u64,
        group: Track,
        packets: &mut Packets<'_>,
    ) -> io::Result<()> {
        let (track, until) = match self.tracks.get(&loss.cpu) {
            Some(known) => *known,
            None => {
                let name = format!("lost events of CPU {}", loss.cpu.cpu);
                (packets.named(Some(group), &name, None, LOST_RANK)?, i64::MIN)
            }
        };
        let from = loss.from.max(until);
        let to = loss.to.max(from);
        self.tracks.insert(loss.cpu, (track, to));
        packets.counts.losses += 1;
        let name = match events {
            0 => "events lost".to_owned(),
            events => format!("{events} events lost"),
        };
        let args = [("events", Arg::Number(events))];
        packets.slice(
            track,
            TimeSpan { from, to },
            &Label { name: &name, category: "lost", args: &args, flow: None },
        )
    }
}

/// Writes what the manifest tells: clocks with their errors and their breaks, and what was lost without a time.
pub(crate) fn write(trace: &Trace, domains: &Domains, packets: &mut Packets<'_>) -> io::Result<()> {
    let manifest = trace.manifest();
    for clock in &manifest.clocks {
        let Some(place) = domains.named(&clock.domain) else { continue };
        let track = packets.named(Some(place.group), "clock", None, CLOCK_RANK)?;
        let args = [
            ("error ns", Arg::Number(clock.error_ns)),
            ("samples", Arg::Number(clock.samples)),
            ("detail", Arg::Text(&clock.detail)),
        ];
        let name = error(Some(clock));
        let label = Label { name: &name, category: "clock", args: &args, flow: None };
        packets.instant(track, manifest.start_ns, &label)?;
        let mut until = i64::MIN;
        for found in &clock.breaks {
            let from = found.after_ns.unwrap_or(manifest.start_ns).max(until);
            until = found.before_ns.unwrap_or(manifest.end_ns).max(from);
            packets.counts.clock_breaks += 1;
            let args = [("detail", Arg::Text(&found.detail))];
            let name = "clock break: times within are uncertain";
            let span = TimeSpan { from, to: until };
            packets.slice(track, span, &Label { name, category: "clock", args: &args, flow: None })?;
        }
    }
    untimed(trace, domains, packets)
}

/// What was lost, by domains, at the end: it is not known when.
fn untimed(trace: &Trace, domains: &Domains, packets: &mut Packets<'_>) -> io::Result<()> {
    let loss = &trace.manifest().loss;
    let mut lost: HashMap<&str, [u64; 2]> = HashMap::new();
    for site in &loss.sites {
        let domain = trace.site(site.site).map_or("", |site| &*site.domain);
        let records = &mut lost.entry(domain).or_default()[0];
        *records = records.saturating_add(site.dropped).saturating_add(site.missed);
    }
    for of in &loss.events {
        let events = &mut lost.entry(&of.domain).or_default()[1];
        *events = events.saturating_add(of.dropped).saturating_add(of.missed);
    }
    let mut lost: Vec<_> = lost.into_iter().filter(|(_, lost)| *lost != [0, 0]).collect();
    lost.sort_unstable();
    for (domain, [records, events]) in lost {
        let Some(place) = domains.named(domain) else { continue };
        let track = packets.named(Some(place.group), "lost in all", None, LOST_RANK)?;
        let name = format!("{records} records and {events} events lost");
        let args = [("records", Arg::Number(records)), ("events", Arg::Number(events))];
        let label = Label { name: &name, category: "lost", args: &args, flow: None };
        packets.instant(track, trace.manifest().end_ns, &label)?;
    }
    Ok(())
}
