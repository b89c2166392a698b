//! Places in a few signs, and flows as values, for what tests compare.

use xweave_flow::{
    FlowKind, FlowPlace, Flows, NamedFlow, Segment, SiteCounts, Summary, WayPlace,
    flow_place::{Carrier, KnownStation, Station},
    legs::{ExchangeSide, WayPoint},
};

/// `ring vm1→host`, `stack and driver`, `queue of vm2's tap`.
pub fn place(of: &FlowPlace) -> String {
    match of {
        FlowPlace::Carrier { carrier, from, to } => {
            let carrier = match carrier {
                Carrier::Ring => "ring",
                Carrier::Named(name) => name,
                Carrier::Unknown => "crossing",
            };
            format!("{carrier} {from}→{to}")
        }
        FlowPlace::In { station, .. } => match station {
            Station::Stack => "stack".to_owned(),
            Station::StackAndDriver => "stack and driver".to_owned(),
            Station::Known(KnownStation::VhostAndTap) => "vhost and tap".to_owned(),
            Station::Known(known) => known.name().to_owned(),
            Station::DeviceQueue { device, guest: Some(guest) } => format!("queue of {guest}'s {device}"),
            Station::DeviceQueue { device, guest: None } => format!("a {device}'s queue"),
            Station::Socket { reader: Some(reader) } => format!("socket of {reader}"),
            Station::Socket { reader: None } => "socket".to_owned(),
        },
    }
}

/// `vm1 asks host: answer, ring host→vm1`, `server in vm1`.
pub fn way_place(of: &WayPlace) -> String {
    let made =
        of.made.as_ref().map_or_else(String::new, |made| format!("{} asks {}: ", made.client, made.server));
    let point = match &of.point {
        WayPoint::Server { domain } => format!("server in {domain}"),
        WayPoint::Flow { side, place: at } => {
            let side = match side {
                None => "",
                Some(ExchangeSide::Request) => "request, ",
                Some(ExchangeSide::Answer) => "answer, ",
            };
            match at {
                FlowPlace::Carrier { .. } => format!("{side}{}", place(at)),
                FlowPlace::In { domain, .. } => format!("{side}{} of {domain}", place(at)),
            }
        }
        WayPoint::ClientLate => "client, until it asked".to_owned(),
        WayPoint::FramesBeforeLast => "request, frames before its last".to_owned(),
        WayPoint::PutTogether => "request, being put together".to_owned(),
        WayPoint::AnsweredAgain => "answer, until it was sent again".to_owned(),
        WayPoint::FramesAfterFirst => "answer, frames after its first".to_owned(),
        other => format!("{other:?}"),
    };
    made + &point
}

/// What is known of flows, to be compared.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    pub summary: Summary,
    pub kinds: Vec<FlowKind>,
    pub segments: Vec<Segment>,
    pub sites: Vec<SiteCounts>,
    /// Each flow's members and hops, as text.
    pub flows: Vec<String>,
}

impl Snapshot {
    pub fn new(flows: &Flows) -> Self {
        let text = |of: NamedFlow<'_>| {
            let flow = of.flow();
            let what = (flow.id, &flow.name, of.kind(), flow.frame, flow.key, &flow.parents, &flow.locals);
            let how = (flow.start_ns, flow.end_ns, flow.incomplete, &flow.dropped, flow.drops, flow.lost);
            let path = (flow.crossings, flow.copies, of.hops().collect::<Vec<_>>());
            format!("{:?}", (what, how, path))
        };
        Self {
            summary: flows.summary().clone(),
            kinds: flows.kinds().to_vec(),
            segments: flows.segments().to_vec(),
            sites: flows.sites().to_vec(),
            flows: flows.named().map(text).collect(),
        }
    }
}
