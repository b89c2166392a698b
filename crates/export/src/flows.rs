//! Flows: each as a whole with its steps in one another, and each record of it on a track of the thread that made it, with
//! an arrow from the record before it on its path.

use std::{collections::HashMap, io};

use rustc_hash::FxHashMap;
use xweave_flow::{Flow, Flows, Hop, Incomplete, Join, NamedFlow, Wanted};
use xweave_trace::{TimeSpan, Trace};

use crate::{
    Phase,
    domains::{Domains, FLOWS_RANK},
    each_round,
    lanes::Lanes,
    packets::{Arg, Label, Packets, Track},
};

/// A domain's tracks of threads come behind those of its clock and losses.
const THREADS_RANK: i32 = 10;

/// Writes all flows. Gives the files that could not be read.
pub(crate) fn write<'t>(
    trace: &'t Trace,
    join: Join<'t>,
    domains: &Domains,
    packets: &mut Packets<'_>,
    tell: &mut dyn FnMut(Phase),
) -> io::Result<Vec<String>> {
    let mut writer = Writer {
        group: packets.named(None, "Flows", None, FLOWS_RANK)?,
        domains,
        packets,
        kinds: HashMap::new(),
        threads: FxHashMap::default(),
    };
    let wanted = Wanted { of: &|_| true, kept: Some(0) };
    let flows = Flows::each(trace, join, wanted, |flow| {
        writer.flow(&flow)?;
        each_round(writer.packets.counts.flows, Phase::Flows, tell);
        io::Result::Ok(())
    })?;
    Ok(flows.summary().damaged.clone())
}

/// The tracks of a kind of flow.
#[derive(Default)]
struct Kind {
    lanes: Lanes,
    tracks: Vec<Track>,
}

struct Writer<'p, 'w> {
    group: Track,
    domains: &'p Domains,
    packets: &'p mut Packets<'w>,
    kinds: HashMap<String, Kind>,
    /// By the domain's group and the thread.
    threads: FxHashMap<(Track, u32), Track>,
}

impl Writer<'_, '_> {
    fn flow(&mut self, named: &NamedFlow<'_>) -> io::Result<()> {
        let flow = named.flow();
        self.packets.counts.flows += 1;
        self.whole(flow, named)?;
        let mut on_path = 0_u64;
        for hop in named.hops() {
            if let Some(track) = self.thread(&hop)? {
                self.hop(track, flow, &hop)?;
                on_path += u64::from(hop.on_path);
            }
        }
        self.packets.counts.arrows += on_path.saturating_sub(1);
        Ok(())
    }

    /// From its beginning to its end, with the time from each record of its path to the next.
    fn whole(&mut self, flow: &Flow, named: &NamedFlow<'_>) -> io::Result<()> {
        let path = || named.hops().filter(|hop| hop.on_path);
        let end = path().fold(flow.start_ns, |end, hop| end.max(hop.t_ns));
        let track = self.lane(flow, end)?;
        let frame = flow.frame.map(|frame| frame.to_string());
        let dropped = flow.dropped.as_ref().map(|dropped| format!("{}: {}", dropped.place(), dropped.reason));
        let mut args = vec![
            ("flow", Arg::Hex(flow.id)),
            ("kind", Arg::Text(&flow.name)),
            ("complete", Arg::Text(completeness(flow.incomplete))),
            ("crossings", Arg::Number(flow.crossings.into())),
            ("copies", Arg::Number(flow.copies.into())),
            ("lost records", Arg::Number(flow.lost)),
        ];
        args.extend(dropped.as_deref().map(|dropped| ("dropped", Arg::Text(dropped))));
        let name = frame.as_deref().unwrap_or(&flow.name);
        self.packets.begin(
            track,
            flow.start_ns,
            &Label { name, category: "flow", args: &args, flow: None },
        )?;
        let mut at = flow.start_ns;
        for (hop, next) in path().zip(path().skip(1)) {
            let until = next.t_ns.max(at);
            let name = format!("{} {}", hop.domain, hop.function);
            let to = format!("{} {}", next.domain, next.function);
            let args = [("to", Arg::Text(&to)), ("ns", Arg::Signed(next.t_ns - hop.t_ns))];
            self.packets.slice(
                track,
                TimeSpan { from: at, to: until },
                &Label { name: &name, category: "segment", args: &args, flow: None },
            )?;
            at = until;
        }
        self.packets.end(track, end)
    }

    fn lane(&mut self, flow: &Flow, end: i64) -> io::Result<Track> {
        let kind = self.kinds.entry(flow.name.clone()).or_default();
        let lane = kind.lanes.take(flow.start_ns, end);
        if let Some(&known) = kind.tracks.get(lane) {
            return Ok(known);
        }
        let track = self.packets.named(Some(self.group), &flow.name, None, 0)?;
        kind.tracks.push(track);
        Ok(track)
    }

    fn hop(&mut self, track: Track, flow: &Flow, hop: &Hop<'_>) -> io::Result<()> {
        self.packets.counts.hops += 1;
        let file = hop.file.map(|file| format!("{file}:{}", hop.line.unwrap_or(0)));
        let values: Vec<String> = hop.values.iter().map(|value| format!("{value:#x}")).collect();
        let values = values.join(" ");
        let mut args = vec![
            ("flow", Arg::Hex(flow.id)),
            ("does", Arg::Text(hop.kind)),
            ("cpu", Arg::Number(hop.cpu.into())),
            ("thread", Arg::Text(&hop.comm)),
        ];
        args.extend(hop.module.map(|module| ("module", Arg::Text(module))));
        args.extend(file.as_deref().map(|file| ("source", Arg::Text(file))));
        if !values.is_empty() {
            args.push(("values", Arg::Text(&values)));
        }
        // Not "terminating": where clocks differ, the last record of a path need not be the latest.
        let flow = hop.on_path.then_some(flow.id);
        let category = if hop.on_path { "hop" } else { "hop beside the path" };
        self.packets.instant(track, hop.t_ns, &Label { name: &hop.function, category, args: &args, flow })
    }

    /// The track of the thread that made a record; none, if the trace does not tell of its domain.
    fn thread(&mut self, hop: &Hop<'_>) -> io::Result<Option<Track>> {
        let Some(domain) = self.domains.named(hop.domain) else { return Ok(None) };
        let key = (domain.group, hop.tid);
        if let Some(&known) = self.threads.get(&key) {
            return Ok(Some(known));
        }
        let name = format!("{} {}", hop.comm, hop.tid);
        let track = self.packets.named(Some(domain.group), &name, None, THREADS_RANK)?;
        self.threads.insert(key, track);
        Ok(Some(track))
    }
}

fn completeness(incomplete: Option<Incomplete>) -> &'static str {
    match incomplete {
        None => "yes",
        Some(Incomplete::Lost) => "no: records were lost",
        Some(Incomplete::NoStart) => "no: its sender was not traced",
        Some(Incomplete::Unmatched) => "no: it was not seen to arrive",
        Some(Incomplete::Dropped) => "no: it was dropped",
        Some(Incomplete::NoEnd) => "no: its end was not seen",
    }
}
