//! What of all events a recording has.

use xweave_trace::event::{Context, Event, Kind, Quota, Sending};

use super::stage::{GUEST, HOST};
use crate::random::Random;

/// What a recording has of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Evidence {
    /// The groups sched, block, net and vm, of host and guest.
    Native,
    /// The same, of the host alone.
    HostOnly,
    /// The same, of the guest alone.
    GuestOnly,
    /// All but the group sched.
    WithoutSched,
    /// All but the group block.
    WithoutBlock,
    /// All but the host's group net.
    WithoutNet,
    /// All but the group vm.
    WithoutVm,
    /// One event in a hundred is lost.
    Lossy,
    /// All but what tells of messages that are held back: of a kernel that has no place for these probes.
    WithoutHolds,
    /// All of these, and records of frames: requests are known by those.
    Frames,
    /// Of another tool's recording: wakes without contexts, sends when their calls are over, no events of queueing
    /// disciplines and page faults; but of locks of the kernel.
    Imported,
}

impl Evidence {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Native,
        Self::HostOnly,
        Self::GuestOnly,
        Self::WithoutSched,
        Self::WithoutBlock,
        Self::WithoutNet,
        Self::WithoutVm,
        Self::WithoutHolds,
        Self::Lossy,
        Self::Frames,
        Self::Imported,
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::HostOnly => "host only",
            Self::GuestOnly => "guest only",
            Self::WithoutSched => "no sched",
            Self::WithoutBlock => "no block",
            Self::WithoutNet => "no net",
            Self::WithoutVm => "no vm",
            Self::WithoutHolds => "no holds",
            Self::Lossy => "lossy",
            Self::Frames => "frames",
            Self::Imported => "imported",
        }
    }

    /// Reports whether only a guest and its host, together, have more than this.
    pub(super) fn needs_guest(self) -> bool {
        matches!(self, Self::HostOnly | Self::GuestOnly | Self::WithoutNet | Self::WithoutVm)
    }

    /// Reports whether frames are followed.
    pub(super) fn has_frames(self) -> bool {
        self == Self::Frames
    }

    pub(super) fn has_domain(self, domain: u8) -> bool {
        match self {
            Self::HostOnly => domain == HOST,
            Self::GuestOnly => domain == GUEST,
            _ => true,
        }
    }

    fn has(self, event: &Event) -> bool {
        let lock_of_kernel =
            matches!(event.kind, Kind::LockWait | Kind::LockAcquired) && event.object >> 63 == 1;
        let group = event.kind.group_name();
        let recorded = match self {
            Self::WithoutSched => group != Some("sched"),
            Self::WithoutBlock => group != Some("block"),
            Self::WithoutNet => group != Some("net") || event.domain != HOST,
            Self::WithoutVm => group != Some("vm"),
            Self::WithoutHolds => !tells_of_hold(event.kind),
            Self::Imported => {
                !matches!(event.kind, Kind::SwapIn | Kind::PageFault) && !tells_of_hold(event.kind)
            }
            _ => true,
        };
        recorded && self.has_domain(event.domain) && (self == Self::Imported || !lock_of_kernel)
    }

    /// The groups that a domain's recording has; empty, as that of another tool.
    pub(super) fn groups(self, domain: u8) -> Vec<String> {
        let all = ["sched", "block", "net", "vm"];
        let has = |group: &&str| match self {
            Self::WithoutSched => *group != "sched",
            Self::WithoutBlock => *group != "block",
            Self::WithoutNet => *group != "net" || domain != HOST,
            Self::WithoutVm => *group != "vm",
            Self::Imported => false,
            _ => true,
        };
        all.iter().filter(|group| has(group)).map(|group| (*group).to_owned()).collect()
    }

    /// The events that a recording has, of all in the order of their times.
    pub(super) fn of(self, mut all: Vec<Event>, random: &mut Random) -> Vec<Event> {
        all.retain(|event| self.has(event));
        match self {
            Self::Lossy => lose(all, random),
            Self::Imported => import(all, random),
            _ => all,
        }
    }
}

/// Reports whether a kind of event tells of what holds messages back.
fn tells_of_hold(kind: Kind) -> bool {
    use Kind::{NeighDequeue, NeighEnqueue, QdiscDequeue, QdiscEnqueue, TcpHold, TcpRelease};
    matches!(kind, QdiscEnqueue | QdiscDequeue | NeighEnqueue | NeighDequeue | TcpHold | TcpRelease)
}

/// A CPU's domain and number, how many more of its events are lost, and of those that were: the first, the last, their count.
type Gap = ((u8, u32), i64, Option<(i64, i64, u64)>);

/// Takes events of CPUs out where a buffer had no room, and has the next one there tell of it.
fn lose(all: Vec<Event>, random: &mut Random) -> Vec<Event> {
    let mut kept = Vec::with_capacity(all.len());
    let mut gaps: Vec<Gap> = Vec::new();
    for event in all {
        let id = (event.domain, event.cpu);
        let at = gaps.iter().position(|(of, ..)| *of == id).unwrap_or_else(|| {
            gaps.push((id, 0, None));
            gaps.len() - 1
        });
        let (_, left, lost) = &mut gaps[at];
        // Runs of fifteen in the mean, of one event in a hundred.
        if *left == 0 && event.kind != Kind::Thread && random.between(0, 1_500) == 0 {
            *left = random.between(5, 25);
        }
        if *left > 0 && event.kind != Kind::Thread {
            *left -= 1;
            let time = event.time_ns;
            *lost = Some(lost.map_or((time, time, 1), |(from, _, count)| (from, time, count + 1)));
            continue;
        }
        if let Some((from, to, count)) = lost.take() {
            let ago = |time: i64| event.time_ns.abs_diff(time).max(1);
            let told = Event::new(Kind::Lost, event.domain, event.time_ns, event.cpu, event.tid);
            kept.push(Event { object: ago(to), position: ago(from), bytes: count, ..told });
        }
        kept.push(event);
    }
    kept
}

/// Makes them what another tool would have recorded.
fn import(mut all: Vec<Event>, random: &mut Random) -> Vec<Event> {
    let (queues, raises) = (random.percent(50), random.percent(50));
    for at in 0..all.len() {
        let event = all[at];
        let changed = match event.kind {
            Kind::Wake => {
                debug_assert!(Context::of(event.code).is_some() && Quota::of(event.code).is_some());
                Event { code: 0, object: if queues { event.object } else { 0 }, ..event }
            }
            Kind::Send => {
                // The call is over before its thread leaves the CPU.
                let leaves = all[at + 1..]
                    .iter()
                    .find(|next| {
                        let here = (next.domain, next.cpu) == (event.domain, event.cpu);
                        here && next.tid == event.tid
                            && matches!(next.kind, Kind::Switch | Kind::Receive | Kind::Send)
                    })
                    .map_or(i64::MAX, |next| next.time_ns - 100);
                let lasts = random.between(4_000, 9_000);
                let time_ns = (event.time_ns + lasts).min(leaves).max(event.time_ns);
                Event { code: Sending::Over.code(), other: 0, time_ns, ..event }
            }
            Kind::Receive => Event { code: 0, other: 0, ..event },
            Kind::Retransmit => Event { bytes: 0, other: 0, ..event },
            Kind::SoftirqEnter if !raises => Event { code: 0, ..event },
            _ => event,
        };
        all[at] = changed;
    }
    all.sort_by_key(|event| event.time_ns);
    all
}
