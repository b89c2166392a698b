//! Transactions, each with the parts of its time in order.

use std::io;

use xweave_model::{Explained, Objects, Spec, explain};
use xweave_report::words;
use xweave_trace::{TimeSpan, Trace};

use crate::{
    Phase,
    domains::TRANSACTIONS_RANK,
    each_round,
    lanes::Lanes,
    packets::{Arg, Label, Packets, Track},
};

/// Writes the transactions of a kind. Gives the files that could not be read.
pub(crate) fn write(
    trace: &Trace,
    spec: &Spec,
    packets: &mut Packets<'_>,
    tell: &mut dyn FnMut(Phase),
) -> io::Result<Vec<String>> {
    let kind = spec.to_string();
    let group = packets.named(None, "Transactions", None, TRANSACTIONS_RANK)?;
    let mut writer = Writer { kind, group, packets, lanes: Lanes::default(), tracks: Vec::new() };
    // Whoever explains does not stop for an error of who writes.
    let mut written = Ok(());
    let outcome = explain(trace, spec, &mut |transaction, objects| {
        if written.is_ok() {
            written = writer.transaction(&transaction, objects);
            each_round(writer.packets.counts.transactions, Phase::Transactions, tell);
        }
    });
    written?;
    Ok(outcome.damaged.iter().map(ToString::to_string).collect())
}

struct Writer<'p, 'w> {
    kind: String,
    group: Track,
    packets: &'p mut Packets<'w>,
    lanes: Lanes,
    tracks: Vec<Track>,
}

impl Writer<'_, '_> {
    fn transaction(&mut self, transaction: &Explained, objects: &Objects) -> io::Result<()> {
        let (from, to) = (transaction.start_ns, transaction.start_ns.saturating_add(transaction.total_ns));
        let track = self.lane(from, to)?;
        let (packets, id) = (&mut *self.packets, transaction.id);
        packets.counts.transactions += 1;
        let args = [
            ("kind", Arg::Text(&self.kind)),
            ("id", Arg::Number(id)),
            ("domain", Arg::Text(objects.domain(transaction.domain))),
            ("ns", Arg::Signed(transaction.total_ns)),
        ];
        let name = format!(
            "{} {}",
            transaction.name,
            if id >> 56 == 0 { id.to_string() } else { format!("{id:#x}") }
        );
        packets.begin(
            track,
            from,
            &Label { name: name.trim(), category: "transaction", args: &args, flow: None },
        )?;
        for step in &transaction.steps {
            packets.counts.steps += 1;
            let object = objects.get(step.object);
            let (called, domain) = (
                words::objects::object(object).to_string(),
                words::objects::domain(&object.domain).to_string(),
            );
            let why = step.cause.map(|cause| words::causes::cause(cause, objects).to_string());
            let name = format!("{}: {called}", step.spent);
            let mut args = vec![
                ("domain", Arg::Text(&domain)),
                ("state", Arg::Text(step.spent.name())),
                ("object", Arg::Text(&called)),
            ];
            args.extend(why.as_deref().map(|why| ("why", Arg::Text(why))));
            let label = Label { name: &name, category: "part", args: &args, flow: None };
            packets.slice(track, TimeSpan { from: step.from, to: step.to }, &label)?;
        }
        packets.end(track, to)
    }

    fn lane(&mut self, from: i64, to: i64) -> io::Result<Track> {
        let lane = self.lanes.take(from, to);
        if let Some(&known) = self.tracks.get(lane) {
            return Ok(known);
        }
        let track = self.packets.named(Some(self.group), &self.kind, None, 0)?;
        self.tracks.push(track);
        Ok(track)
    }
}
