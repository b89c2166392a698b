//! Where flows and requests are.

use xweave_flow::{
    FlowPlace, Place, Taker, TakerState, WayPlace,
    flow_place::{Carrier, KnownStation, Station},
    legs::{ExchangeSide, WayPoint},
};
use xweave_model::Stretch;

use super::{Sentence, objects};

/// A place, without the domain in which it is: `ring vm1→host`, `stack and driver`, `bridge`.
pub fn flow_place(of: &FlowPlace) -> Sentence {
    Sentence::new(flow_place_text(of))
}

fn flow_place_text(of: &FlowPlace) -> String {
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
            Station::Known(known) => known_station(*known).to_owned(),
            Station::DeviceQueue { device, guest: None } => format!("a {device}'s queue"),
            Station::DeviceQueue { device, guest: Some(guest) } => format!("queue of {guest}'s {device}"),
            Station::Socket { reader: None } => "socket".to_owned(),
            Station::Socket { reader: Some(reader) } => format!("socket of {reader}"),
        },
    }
}

fn known_station(of: KnownStation) -> &'static str {
    match of {
        KnownStation::BlockLayer => "block layer",
        KnownStation::Bridge => "bridge",
        KnownStation::DiskDriver => "disk driver",
        KnownStation::HardInterrupt => "hard interrupt",
        KnownStation::IoScheduler => "I/O scheduler",
        KnownStation::OnCpu => "on CPU",
        KnownStation::PendingForVcpu => "pending for the vCPU",
        KnownStation::RunQueue => "run queue",
        KnownStation::Softirq => "softirq",
        KnownStation::SoftirqPending => "softirq pending",
        KnownStation::SystemCall => "system call",
        KnownStation::TcpSendQueue => "TCP send queue",
        KnownStation::VhostAndTap => "vhost and tap",
    }
}

/// What threads did that should have taken flows off: `vhost asleep`.
pub fn taker(of: &Taker) -> Sentence {
    let did = match of.was {
        TakerState::Asleep => "asleep",
        TakerState::Ready => "had no CPU",
    };
    Sentence::new(format!("{} {did}", of.name))
}

/// A place of flows with what held them there: `ring vm1→host (vhost asleep)`.
pub fn place(of: &Place) -> Sentence {
    let taker = of.taker.as_ref().map_or_else(String::new, |of| format!(" ({})", taker(of)));
    Sentence::new(format!("{}{taker}", flow_place_text(&of.stay.place)))
}

/// The same with the domain, where that is not said: `bridge in host`.
pub fn place_in_domain(of: &Place) -> Sentence {
    match &of.stay.place {
        FlowPlace::Carrier { .. } => place(of),
        FlowPlace::In { domain, .. } => Sentence::new(format!("{} in {domain}", place(of))),
    }
}

/// Where a transaction was: `answer, ring vm1→host`, `server in vm1`, `disk_queue → disk_issue`.
pub fn stretch(of: &Stretch) -> Sentence {
    Sentence::new(match of {
        Stretch::Way(place) => way_place(place),
        Stretch::Between(from, to) => format!("{from} → {to}"),
        Stretch::In(domain) => format!("in {}", objects::domain(domain)),
        Stretch::Network(domain) => format!("network {}", objects::domain(domain)),
        Stretch::OutOfGuest(vcpus) => format!("{} out of the guest", objects::group(vcpus)),
        Stretch::Elsewhere => "elsewhere".to_owned(),
    })
}

fn way_place(WayPlace { made, point }: &WayPlace) -> String {
    let made =
        made.as_ref().map_or_else(String::new, |made| format!("{} asks {}: ", made.client, made.server));
    let point = match point {
        WayPoint::ClientLate => "client, until it asked".to_owned(),
        WayPoint::ClientBetween => "client, until it asked again".to_owned(),
        WayPoint::FramesBeforeLast => "request, frames before its last".to_owned(),
        WayPoint::SentAgain => "request, until it was sent again".to_owned(),
        WayPoint::PutTogether => "request, being put together".to_owned(),
        WayPoint::Server { domain } => format!("server in {domain}"),
        WayPoint::AnsweredAgain => "answer, until it was sent again".to_owned(),
        WayPoint::FramesAfterFirst => "answer, frames after its first".to_owned(),
        WayPoint::Flow { side, place } => {
            let side = match side {
                None => "",
                Some(ExchangeSide::Request) => "request, ",
                Some(ExchangeSide::Answer) => "answer, ",
            };
            match place {
                FlowPlace::Carrier { .. } => format!("{side}{}", flow_place_text(place)),
                FlowPlace::In { domain, .. } => format!("{side}{} of {domain}", flow_place_text(place)),
            }
        }
    };
    made + &point
}

/// What it means to be there, for who does not know what it is.
pub fn meaning(of: &Stretch) -> Option<Sentence> {
    let Stretch::Way(place) = of else { return None };
    let meaning = match &place.point {
        WayPoint::Server { .. } => "it has been read, and the answer is not sent yet",
        WayPoint::Flow { place: FlowPlace::Carrier { carrier: Carrier::Ring, from, .. }, .. } => {
            match &**from {
                "host" | "dom0" => {
                    "the host has put it on the guest's ring, and the guest has not taken it yet"
                }
                _ => "the guest has put it on its ring, and the host has not taken it yet",
            }
        }
        WayPoint::Flow { place: FlowPlace::In { station, .. }, .. } => match station {
            Station::Socket { .. } => "it has arrived, and nobody has read it yet",
            Station::DeviceQueue { device: "vif", guest: Some(_) } => {
                "Xen's back end has not taken it from the guest's device yet"
            }
            Station::DeviceQueue { guest: Some(_), .. } => {
                "vhost has not taken it from the guest's tap device yet"
            }
            Station::Known(KnownStation::VhostAndTap) => "vhost carries it from the guest to the host",
            Station::Stack | Station::StackAndDriver => "the kernel and its driver are at it",
            _ => return None,
        },
        _ => return None,
    };
    Some(Sentence::new(meaning))
}
