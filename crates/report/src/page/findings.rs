//! The answer in words: at most three findings, what to do about each, and where the page shows it.

use xweave_document::page::Finding;
use xweave_flow::{
    FlowPlace, Flows,
    flow_place::{KnownStation, Station},
};
use xweave_model::{
    Comparison, ObjectGroup, Spec, TimeState, Usage,
    comparison::ChangeKind,
    delay::DelayKind,
    objects::Reason,
    parts::{Kept, Totals},
};
use xweave_trace::event::Refusal;
use xweave_vary::Variation;

use super::transactions::called;
use crate::{
    comparison, machines, number, places,
    transactions::by_whom,
    variation,
    words::{self, causes, changes},
};

/// So many are told.
const MOST: usize = 3;

/// Who is behind a cause: so many are named, from this share of the time on.
const OFFENDERS: usize = 5;
const TELLING: f64 = 0.01;

/// What is to be done where CPUs are too few.
const FEWER: &str = "CPUs are short: add CPUs, take vCPUs away, pin these apart, or give those who may wait a lower weight \
                     (cpu.weight). The matrix shows who had the CPU.";
const RECORDER_RUNS: &str = "xweave itself had the CPU for a large part of it: record fewer events or places, and see \
                             whether the rest stays.";

/// What is found, the answer to the question that was recorded for first.
#[derive(Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// Where the flows like the typical one were.
    pub(super) fn of_flows(&mut self, flows: &Flows) {
        let Some(flow) = flows.typical() else { return };
        let Some(kind) = flows.kind_of(flow) else { return };
        let of_kind = flows.places_of(kind);
        let headline = places::headline(kind, of_kind);
        let mut lines = headline.lines();
        let title = lines.next().unwrap_or_default();
        let most = of_kind.iter().max_by(|a, b| a.stay.share.total_cmp(&b.stay.share));
        self.add(
            title,
            lines.next().unwrap_or_default(),
            most.and_then(|most| of_place(&most.stay.place)),
            ["where", &*kind.name],
        );
    }

    /// What kept the transactions.
    pub(super) fn of_transactions(&mut self, spec: &Spec, totals: &Totals) {
        let kinds = totals.causes_by_kind();
        let Some((kind, most)) = kinds.first().and_then(|kind| Some((kind, kind.causes.first()?))) else {
            return;
        };
        let share = |ns: u64| ns as f64 / totals.ns().max(1) as f64;
        let all = number::counted(totals.transactions() as u64, "transaction", "transactions");
        let several: Vec<_> = kind.causes.iter().filter(|kept| share(kept.ns) >= TELLING).collect();
        let (what, ns) = match several.len() {
            0 | 1 => (causes::delay(&most.delay), most.ns),
            _ => (causes::delay_kind(kind.kind), kind.ns),
        };
        let title = format!("{what}: {} of the time of {all} ({})", number::percent(share(ns)), called(spec));
        let by = by_whom(if several.len() > 1 { &kind.by } else { &most.by }, share);
        let by = Some(by).filter(|by| !by.is_empty()).map(|by| format!("by {by}"));
        let reason = totals.reason(&most.delay).filter(|(_, ns)| share(*ns) >= TELLING);
        let text = match (by, reason) {
            (by, _) if several.len() > 1 => {
                let each = several.iter().take(OFFENDERS);
                let each = each.map(|kept| {
                    format!("{}: {}", number::percent(share(kept.ns)), causes::delay(&kept.delay))
                });
                by.into_iter().chain(each).collect::<Vec<_>>().join("; ")
            }
            (Some(by), _) => by,
            (None, Some((why, ns))) => format!("{}: {}", number::percent(share(ns)), causes::reason(why)),
            (None, None) => String::new(),
        };
        let advice = reason.and_then(|(why, _)| of_reason(why)).or_else(|| of_cause(most));
        self.add(&title, &text, advice, ["why", &*spec.to_string()]);
    }

    /// What makes requests vary most, if they vary and it is known.
    pub(super) fn of_variation(&mut self, of: &Variation, spec: &Spec) {
        let Some(found) = of.causes.iter().find(|cause| cause.named) else { return };
        let title = variation::said(of, &called(spec)).into_iter().next().unwrap_or_default();
        let by = variation::because_of(found);
        let shares = found.shares;
        let share = match shares.is_named_of_variance() {
            true => format!("{} of the variance", number::percent(shares.share_of_variance)),
            false => format!("{} of what makes the slowest slow", number::percent(shares.share_of_tail)),
        };
        let gain = found.remedy.and_then(|_| words::variation::gain(found.gain, of.times));
        let gain = gain.map_or_else(String::new, |gain| format!(" {gain}"));
        let text = format!("{share}: {}{by}.{gain}", words::variation::cause(&found.cause));
        let advice = found.remedy.map(|remedy| format!("Try: {}.", words::variation::remedy(remedy)));
        self.add(title.trim_end_matches('.'), &text, advice.as_deref(), ["variation"]);
    }

    /// Who kept whom waiting for a CPU.
    pub(super) fn of_machines(&mut self, usage: &Usage) {
        if let Some(culprit) = machines::Culprit::of(usage) {
            let advice = if culprit.is_recorder() { RECORDER_RUNS } else { FEWER };
            return self.add(&culprit.headline(), &culprit.victims_waits(), Some(advice), ["who"]);
        }
        let Some(longest) = machines::Longest::of(usage) else {
            return self.add(machines::NOTHING_WAITED, "", None, ["who"]);
        };
        match longest.taken() {
            Some(taken) => self.add(&longest.waited(), &taken, Some(FEWER), ["who"]),
            None => self.add(&longest.headline(), "", None, ["who"]),
        }
    }

    /// What changed from one run to the other, before all else: that is what was asked for.
    pub(super) fn of_comparison(compared: &Comparison, findings: &mut Vec<Finding>) {
        let longer = comparison::longer(compared);
        let work = compared.findings.iter().find(|finding| !finding.may_be_idle);
        let (title, text, advice) = match work {
            Some(finding) if compared.took_longer() && finding.explained_ns != 0 => {
                let share = finding.explained_ns as f64 / compared.difference_ns as f64;
                let text = format!("{longer}; at most {} of that is due to this", number::percent(share));
                (changes::finding(finding).into(), text, of_change(finding.change()))
            }
            _ => (longer, String::new(), None),
        };
        let (advice, link) = (advice.map(str::to_owned), vec!["compare".to_owned()]);
        findings.insert(0, Finding { title, text, advice, link });
        findings.truncate(MOST);
    }

    /// Adds a finding. Advice that another one has is not repeated.
    fn add<const N: usize>(&mut self, title: &str, text: &str, advice: Option<&str>, link: [&str; N]) {
        let advice = advice.filter(|advice| self.0.iter().all(|of| of.advice.as_deref() != Some(*advice)));
        self.0.push(Finding {
            title: title.to_owned(),
            text: text.to_owned(),
            advice: advice.map(str::to_owned),
            link: link.map(str::to_owned).to_vec(),
        });
    }

    /// Returns the first findings, as many as a page has.
    pub(super) fn into_first(mut self) -> Vec<Finding> {
        self.0.truncate(MOST);
        self.0
    }
}

/// What may be done about what changed.
fn of_change(change: ChangeKind) -> Option<&'static str> {
    Some(match change {
        ChangeKind::Requests => {
            "The same data in other requests: see read-ahead, the program's own block size and the I/O scheduler."
        }
        ChangeKind::Data => {
            "Another amount of data: see whether both runs did the same work, and what was cached."
        }
        ChangeKind::Seeking => {
            "The requests are farther apart: see who else uses the disk, and in which order."
        }
        ChangeKind::Service | ChangeKind::Overlap | ChangeKind::Queueing => {
            "See who else uses the object, and how many requests are under way at a time."
        }
        ChangeKind::Processor => "More computing for the same work: profile who ran.",
        ChangeKind::RunQueue => FEWER,
        ChangeKind::Lock => "A lock was held by others: see who held it, step by step.",
        ChangeKind::Qdisc => "Frames were held back: see which rate or delay is set (tc -s qdisc).",
        ChangeKind::Exits => "The hypervisor worked for the guest: see the reasons of its exits.",
        ChangeKind::Halted | ChangeKind::Interrupts | ChangeKind::Peer => return None,
    })
}

/// What may be done where flows are longest in a place.
fn of_place(place: &FlowPlace) -> Option<&'static str> {
    let station = match place {
        FlowPlace::Carrier { carrier, .. } if carrier.is_ring() => {
            return Some(
                "In a ring, data waits for whoever takes it off: see whether that side's thread or vCPU had a CPU.",
            );
        }
        FlowPlace::Carrier { .. } => return None,
        FlowPlace::In { station, .. } => station,
    };
    Some(match station {
        Station::DeviceQueue { guest: Some(_), .. } => {
            "The queue of a guest's device waits for the thread that serves it, or for the guest to give it buffers: see \
             whether both had a CPU."
        }
        Station::Known(KnownStation::TcpSendQueue) => {
            "TCP held the data back: for the receiver's window, for acknowledgements that came late, or for more data."
        }
        Station::Socket { reader: Some(_) } => {
            "The data had arrived and its program had not read it: see what that program did meanwhile."
        }
        Station::Known(KnownStation::IoScheduler) => {
            "Requests waited in the I/O scheduler: the disk was busy, or its queue depth is small."
        }
        Station::Known(KnownStation::DiskDriver) => {
            "Time in the driver and the device: compare the disk's service time with that of the host's disk."
        }
        _ => return None,
    })
}

/// What may be done about what is known of why.
fn of_reason(why: &Reason) -> Option<&'static str> {
    match why {
        Reason::Refused(Refusal::TimeWait) => Some(
            "The client uses a port again before the server has forgotten its last connection: give it more ports \
             (net.ipv4.ip_local_port_range), keep connections open, or let the client close first.",
        ),
        Reason::Refused(Refusal::AcceptQueue) => Some(
            "The server did not accept in time: see what it did meanwhile, and give its listen() and net.core.somaxconn \
             a longer queue.",
        ),
        _ => None,
    }
}

/// What may be done about a cause.
fn of_cause(cause: &Kept) -> Option<&'static str> {
    let recorder = cause.by.iter().filter(|(who, _)| who.objects() == Some(&ObjectGroup::Recorder));
    if recorder.map(|(_, ns)| ns).sum::<u64>() * 3 > cause.ns {
        return Some(RECORDER_RUNS);
    }
    Some(match cause.delay.kind {
        DelayKind::CpuWait => FEWER,
        DelayKind::Disk => {
            "The disk is what is slow: see who else uses it, and compare its queue with its service time."
        }
        DelayKind::Network => {
            "Time on the way between machines: see the retransmissions, and what the receiving kernel did."
        }
        DelayKind::Exits => "The hypervisor worked for the guest: see the reasons of its exits.",
        DelayKind::Other(TimeState::Lock) => "A lock was held by others: see who held it, step by step.",
        DelayKind::Running => "It is computing: profile who ran, or give it a faster CPU.",
        DelayKind::Other(_) => return None,
    })
}
