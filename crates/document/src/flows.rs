//! The documents of `xweave flows`, and of `--by VALUE`.

use std::{borrow::Cow, net::IpAddr};

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::value::{Id, Time, owned};

/// The document without its flows: these are written one by one, as the member `flows`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AllFlows {
    /// Counts.
    pub summary: FlowSummary,
    /// Kinds of flow, the commonest first.
    pub kinds: Vec<FlowKind>,
    /// Places in the order in which flows come there, by kind.
    pub places: Vec<Place>,
    /// Times between consecutive hops.
    pub segments: Vec<Segment>,
    /// Sites of the whole trace, whatever flows were asked for.
    pub sites: Vec<SiteCounts>,
}

/// Counts of a trace's flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FlowSummary {
    /// Flows.
    pub flows: u64,
    /// Flows known from their beginning to their end.
    pub complete: u64,
    /// Flows whose path crosses from one domain to another.
    pub crossed: u64,
    /// Records in the trace.
    pub records: u64,
    /// Records that are missing.
    pub lost: u64,
    /// Crossings that contradict causality by more than the clocks' error.
    pub negative_gaps: u64,
    /// Largest error of a time in the trace, in nanoseconds, outside of clock breaks.
    #[cfg_attr(test, schemars(with = "Id"))]
    pub clock_error_ns: u64,
    /// Number of times that a domain's clock jumped.
    pub clock_breaks: u64,
    /// Whether the recording came to its end.
    pub recording_complete: bool,
    /// Time of the last thing stored, in nanoseconds since 1970; null if nothing was.
    #[cfg_attr(test, schemars(with = "Option<Id>"))]
    pub stored_until_ns: Option<u64>,
    /// Flows that ended unseen: something began under a key that still carried them.
    pub overwritten: u64,
    /// Lost records whose flow is not known: any flow may miss one.
    pub lost_unattributed: u64,
    /// Sites at which the kernel skips hits without counting them; `lost` does not include these.
    pub uncounted_sites: u64,
    /// Records that the manifest counts and that could not be read.
    pub unreadable: u64,
    /// Flows that were under way when more were than memory should hold; their later records are of other flows here.
    pub set_down: u64,
    /// Files that could not be read, and why.
    pub damaged: Vec<String>,
    /// Incomplete flows by reason.
    pub incomplete: IncompleteCounts,
    /// Flows without a start that are frames of machines that are not recorded, by kind, the commonest first.
    pub elsewhere: Vec<KindCount>,
    /// Dropped flows by reason, the commonest first.
    pub dropped: Vec<DropCount>,
    /// Crossings by carrier.
    pub carriers: Vec<CarrierCounts>,
    /// Guests identified by the keys of their rings, where no clock and no XenStore did.
    pub found: Vec<FoundPeer>,
}

/// Incomplete flows by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct IncompleteCounts {
    /// Records of them were lost.
    pub lost: u64,
    /// They came off a carrier whose other side is not in the trace.
    pub no_start: u64,
    /// They were put on a carrier and not seen to come off.
    pub unmatched: u64,
    /// They were dropped.
    pub dropped: u64,
    /// They were under way when the recording ended, or went where no site is.
    pub no_end: u64,
}

/// Flows of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct KindCount {
    /// Kind of their frames.
    pub kind: String,
    /// Number of flows.
    pub flows: u64,
}

/// Flows that were dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DropCount {
    /// Kernel's name of the reason.
    pub reason: String,
    /// Number of flows.
    pub flows: u64,
}

/// Crossings on the carriers of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CarrierCounts {
    /// Name of the carrier.
    pub carrier: String,
    /// Pairs that were found.
    pub crossings: u64,
    /// Pairs whose ID had crossed too.
    pub told: u64,
    /// Put on, and not seen to come off.
    pub unmatched_xin: u64,
    /// Come off, and not seen to be put on.
    pub unmatched_xout: u64,
    /// Frames among these of machines that are not recorded.
    pub strangers: u64,
    /// Records that a later one for the same slot replaced: the operation was retried.
    pub superseded: u64,
    /// Records of equal keys that were not joined, because the ring's index had come round between them.
    pub refused: u64,
    /// Records of equal keys that were not joined, because their IDs differ.
    pub contradicted: u64,
    /// Pairs that contradict causality: an error of the clocks.
    pub negative_gaps: u64,
}

/// A guest whose process was found by its rings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FoundPeer {
    /// Guest.
    pub domain: String,
    /// Process that runs it; of a domain of Xen, its number plus 2³².
    pub pid: u64,
    /// Crossings whose keys agree.
    pub keys: u64,
    /// Keys that agree with the next best process.
    pub next_best: u64,
}

/// Flows of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FlowKind {
    /// Name: what their frame is, and the domains that their paths begin and end in: `TCP data, vm1 → vm2`.
    pub name: String,
    /// Number of flows.
    pub flows: u64,
    /// Flows known from their beginning to their end.
    pub complete: u64,
    /// Median time of the complete ones, in nanoseconds; of all, if none is complete.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Longest.
    pub max_ns: i64,
}

/// Times of flows in a place.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct StayFields {
    /// Domain; of a carrier, the one that has to take the flow off.
    pub domain: String,
    /// Place, in words: `stack and driver`, `ring vm1→host`, `bridge`.
    pub place: String,
    /// Kind of place: `ring`, `carrier` (another one), `stack`, `stack_and_driver`, `device_queue`, `socket`, or a known place
    /// such as `tcp_send_queue`. `ring` and `carrier` lie between two domains.
    pub place_kind: &'static str,
    /// Number of flows that were there.
    pub flows: u64,
    /// Median time there, in nanoseconds.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Longest.
    pub max_ns: i64,
    /// Share of the time of all flows of the kind; with `--by VALUE`, of all groups.
    pub share: f64,
}

/// A place in which flows of a kind are for some time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Place {
    /// Kind of the flows.
    pub kind: String,
    /// Place and times.
    #[serde(flatten)]
    pub stay: StayFields,
    /// State, in words, in which the thread that takes flows off a carrier was for most of the time: `vhost asleep`; null if it
    /// ran, or no event tells.
    pub taker: Option<String>,
    /// The same state: `asleep` or `ready`; absent if `taker` is null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taker_state: Option<&'static str>,
}

/// Times between two consecutive hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Segment {
    /// Kind of the flows.
    pub kind: String,
    /// Beginning: `domain:function`.
    pub from: String,
    /// End: `domain:function`.
    pub to: String,
    /// Number of times that it was seen.
    pub count: u64,
    /// Shortest, in nanoseconds; negative if clocks are in error.
    pub min_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Longest.
    pub max_ns: i64,
    /// Whether it lies on the commonest path of its kind.
    pub main: bool,
}

/// Records and losses of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SiteCounts {
    /// Number that records carry.
    pub site: u32,
    /// Domain; empty if the trace does not tell.
    pub domain: String,
    /// Aspect.
    pub aspect: String,
    /// Clause of the aspect.
    pub advice: String,
    /// Function; `site N` if the trace does not tell.
    pub function: String,
    /// Module; null for the kernel image.
    pub module: Option<String>,
    /// What the site does to flows; `advice` if it only stores.
    pub action: String,
    /// Flow definition that it belongs to.
    pub xflow: Option<String>,
    /// Carrier that it puts flows on or takes them off.
    pub carrier: Option<String>,
    /// Records of the trace that come from it, including those of no flow.
    pub records: u64,
    /// Records that were dropped, because the buffer was full.
    pub dropped: u64,
    /// Times that the kernel skipped the program; null if it does not count these.
    pub missed: Option<u64>,
    /// Flows that could not be begun or moved, because the flow table was full.
    pub table_full: u64,
    /// Flows that ended unseen: something began under a key that still carried them.
    pub overwritten: u64,
}

/// Reason why a flow is incomplete; the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Incomplete {
    /// Records of it were lost.
    Lost,
    /// It came off a carrier whose other side is not in the trace.
    NoStart,
    /// It was put on a carrier and not seen to come off, though the other side was recorded.
    Unmatched,
    /// It was dropped.
    Dropped,
    /// It was under way when the recording ended, or went where no site is.
    NoEnd,
}

/// A flow.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Flow<'a> {
    /// ID.
    pub id: Id,
    /// Name of its definition.
    pub name: Cow<'a, str>,
    /// Kind, by its name.
    pub kind: String,
    /// First frame that was recorded on its path; null if there is none.
    pub frame: Option<Frame>,
    /// Key of its message; absent if no event has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// IDs of the flows that it was made of.
    #[cfg_attr(test, schemars(with = "Vec<Id>"))]
    pub parents: Cow<'a, [u64]>,
    /// Beginning.
    pub start_ns: Time,
    /// End.
    pub end_ns: Time,
    /// Whether it is known from its beginning to its end.
    pub complete: bool,
    /// Reason why it is incomplete; null if it is complete.
    pub incomplete: Option<Incomplete>,
    /// Drop of the copy that its path ends with; null if there is none.
    pub dropped: Option<Drop<'a>>,
    /// Copies that were dropped, on the path and off it.
    pub drops: u32,
    /// Records that are known to be missing.
    pub lost: u64,
    /// Crossings of its path between domains.
    pub crossings: u32,
    /// Ways that its copies went.
    pub copies: u32,
    /// IDs of the local flows that it consists of.
    #[cfg_attr(test, schemars(with = "Vec<Id>"))]
    pub locals: Cow<'a, [u64]>,
    /// Records, those of the path in its order.
    pub hops: Vec<Hop<'a>>,
}

/// A network frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Frame {
    /// Kind: `TCP data`, `TCP ACK`, `ARP request`.
    pub kind: Cow<'static, str>,
    /// EtherType.
    pub ether_type: u16,
    /// IP's protocol; ARP's operation.
    pub protocol: u8,
    /// TCP's flags; ICMP's type.
    pub flags: u8,
    /// Source address; of ARP, the sender's.
    #[cfg_attr(test, schemars(with = "String"))]
    pub source: IpAddr,
    /// Target address; of ARP, the one asked for.
    #[cfg_attr(test, schemars(with = "String"))]
    pub target: IpAddr,
    /// Source port of TCP or UDP; 0 in fragments but the first.
    pub source_port: u16,
    /// Target port.
    pub target_port: u16,
    /// Bytes after the headers: of TCP data, of a datagram.
    pub bytes: u32,
    /// TCP's sequence number; of an ICMP echo, the identifier (upper half) and sequence number.
    pub sequence: u32,
    /// TCP's acknowledgement number.
    pub acknowledgement: u32,
}

/// Drop of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Drop<'a> {
    /// Kernel's name of the reason; `reason N` if the trace does not tell.
    pub reason: Cow<'a, str>,
    /// Kernel's number of the reason.
    pub number: u64,
    /// Time.
    pub t_ns: Time,
    /// Domain.
    pub domain: Cow<'a, str>,
    /// Function that dropped it; null if the trace does not tell.
    pub function: Option<Cow<'a, str>>,
    /// Offset from the beginning of the function, in bytes.
    pub offset: u64,
    /// Module; null for the kernel image.
    pub module: Option<Cow<'a, str>>,
    /// Address of the code that dropped it.
    #[cfg_attr(test, schemars(with = "Id"))]
    pub address: u64,
}

/// A record of a flow.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Hop<'a> {
    /// Time.
    pub t_ns: Time,
    /// Domain.
    pub domain: Cow<'a, str>,
    /// Function; `site N` if the trace does not tell.
    pub function: Cow<'a, str>,
    /// Offset from the beginning of the function, in bytes.
    pub offset: u64,
    /// Module; null for the kernel image.
    pub module: Option<Cow<'a, str>>,
    /// Source file; null without debug information.
    pub file: Option<Cow<'a, str>>,
    /// Line; null without debug information.
    pub line: Option<u32>,
    /// Logical CPU.
    pub cpu: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name of the thread.
    pub comm: Cow<'a, str>,
    /// Operation: `hop`, `start`, `move`, `copy`, `quit`, `split`, `merge`, `xin`, `xout`, `frame`.
    pub kind: &'static str,
    /// Number of the site.
    pub site: u32,
    /// Whether it lies on the path.
    pub on_path: bool,
    /// Stored values, or the keys of the operation.
    #[cfg_attr(test, schemars(with = "Vec<Id>"))]
    pub values: Cow<'a, [u64]>,
}

impl Flow<'_> {
    /// Turns it into one that borrows nothing.
    pub fn into_owned(self) -> Flow<'static> {
        Flow {
            id: self.id,
            name: owned(self.name),
            kind: self.kind,
            frame: self.frame,
            key: self.key,
            parents: owned(self.parents),
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            complete: self.complete,
            incomplete: self.incomplete,
            dropped: self.dropped.map(Drop::into_owned),
            drops: self.drops,
            lost: self.lost,
            crossings: self.crossings,
            copies: self.copies,
            locals: owned(self.locals),
            hops: self.hops.into_iter().map(Hop::into_owned).collect(),
        }
    }
}

impl Drop<'_> {
    fn into_owned(self) -> Drop<'static> {
        Drop {
            reason: owned(self.reason),
            number: self.number,
            t_ns: self.t_ns,
            domain: owned(self.domain),
            function: self.function.map(owned),
            offset: self.offset,
            module: self.module.map(owned),
            address: self.address,
        }
    }
}

impl Hop<'_> {
    fn into_owned(self) -> Hop<'static> {
        Hop {
            t_ns: self.t_ns,
            domain: owned(self.domain),
            function: owned(self.function),
            offset: self.offset,
            module: self.module.map(owned),
            file: self.file.map(owned),
            line: self.line,
            cpu: self.cpu,
            pid: self.pid,
            tid: self.tid,
            comm: owned(self.comm),
            kind: self.kind,
            site: self.site,
            on_path: self.on_path,
            values: owned(self.values),
        }
    }
}

/// The document of flows by a stored value.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FlowsByValue<'a> {
    /// Counts of the trace's flows.
    pub summary: FlowSummary,
    /// Name of the value.
    pub by: &'a str,
    /// Groups, those with the most time first.
    pub groups: Vec<ValueGroup>,
    /// Flows of which a group is not listed, because 16,384 others were known when their values came.
    pub ungrouped: u64,
}

/// Flows in which a value was stored in a place. Its times are from there until the flows left the place.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ValueGroup {
    /// Value.
    pub value: u64,
    /// Place and times.
    #[serde(flatten)]
    pub stay: StayFields,
    /// Median time of whole flows, in nanoseconds.
    pub flow_p50_ns: i64,
}
