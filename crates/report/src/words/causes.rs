//! Why time was spent, and what kept transactions.

use xweave_model::{
    Delay, Objects, Power, TimeState,
    connection::Refused,
    contrast::Share,
    delay::{Awaited, DelayKind},
    objects::{Cause, Reason},
};
use xweave_trace::event::Refusal;

use super::{Sentence, objects};

/// A cause, with which objects it is about.
pub fn cause(of: Cause, all: &Objects) -> Sentence {
    let name = |number| objects::object(all.get(number));
    Sentence::new(match of {
        Cause::Had(other) | Cause::HadByOwn(other) => format!("{} had the CPU", name(other)),
        Cause::Moved(other) => format!("{} had received the request", name(other)),
        Cause::Data(pipe, writer) => pipe_data(&format!("pipe {pipe}"), &name(writer)),
        Cause::Room(pipe, reader) => pipe_room(&format!("pipe {pipe}"), &name(reader)),
        Cause::Repeated(times) => format!("sent again {}, without an answer before", again(times)),
        Cause::Refused(times, Refused { why, waiting }) => {
            let waited = match why {
                Refusal::AcceptQueue => format!(", {waiting} connections waited"),
                Refusal::TimeWait | Refusal::Other => String::new(),
            };
            format!("sent again {}: {}{waited}", again(times), refusal(why))
        }
        _ => return reason(&all.reason(of)),
    })
}

/// A reason: the same, of all objects that are alike.
pub fn reason(of: &Reason) -> Sentence {
    Sentence::new(match of {
        Reason::Had(other) | Reason::HadByOwn(other) => return had(&objects::group(other).to_string()),
        Reason::Moved(other) => {
            format!("another thread ({}) had received the request", objects::group(other))
        }
        Reason::Earlier => "before it read this, perhaps for others".to_owned(),
        Reason::Ahead(times) => format!("sent {times} times before the answer: requests are not told apart"),
        Reason::Repeated => "sent again, without an answer before".to_owned(),
        Reason::Refused(why) => format!("sent again: {}", refusal(*why)),
        Reason::Futex(address) => format!("futex {address:#x} was waited for"),
        Reason::HeldFutex(address) => format!("the lock at futex {address:#x} was held"),
        Reason::PipeData(writers) => pipe_data("a pipe", &objects::group(writers)),
        Reason::PipeRoom(readers) => pipe_room("a pipe", &objects::group(readers)),
        Reason::PageFault(Some(file)) => format!("page fault: a page of the file {file} was waited for"),
        Reason::PageFault(None) => "page fault: a page of a file was waited for".to_owned(),
        Reason::Power(power) => return self::power(*power),
        Reason::Interrupted => "interrupts of the host ran on its CPU".to_owned(),
        Reason::Exited(reason) => format!("{reason} exits"),
        Reason::SwapIn => "swap-in: a page that was swapped out was waited for".to_owned(),
    })
}

/// That these had the CPU.
pub fn had(who: &str) -> Sentence {
    Sentence::new(format!("{who} had the CPU"))
}

fn pipe_data(pipe: &str, writer: &Sentence) -> String {
    format!("data in {pipe} was waited for, written by {writer}")
}

fn pipe_room(pipe: &str, reader: &Sentence) -> String {
    format!("room in {pipe} was waited for, read by {reader}")
}

fn again(times: usize) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::AcceptQueue => "the accept queue was full",
        Refusal::TimeWait => "the port's last connection was in TIME_WAIT at the server",
        Refusal::Other => "TCP did not answer",
    }
}

/// How a processor saved power: `the CPU was in idle state 2`.
pub fn power(of: Power) -> Sentence {
    let ghz = |khz: u32| f64::from(khz) / 1e6;
    Sentence::new(match of {
        Power::Idle(state) => format!("the CPU was in idle state {state}"),
        Power::Slow { khz, highest } => format!("the CPU ran at {:.2} of {:.2} GHz", ghz(khz), ghz(highest)),
    })
}

/// What kept transactions: `vCPUs of vm1 waited for a CPU of host`, `running in vm1`, `on the network, host → vm1`.
pub fn delay(of: &Delay) -> Sentence {
    let domain = objects::domain(&of.domain);
    let whom = of.whom.as_ref().map_or_else(String::new, |whom| objects::group(whom).to_string());
    let awaited = match of.awaited {
        None => "",
        Some(Awaited::Pipe) => " at the other end of a pipe",
        Some(Awaited::PageFault) => " for page faults",
        Some(Awaited::SwapIn) => " for swap-ins",
    };
    Sentence::new(match of.kind {
        DelayKind::CpuWait => format!("{whom} waited for a CPU of {domain}{awaited}"),
        DelayKind::Running => format!("running in {domain}{awaited}"),
        DelayKind::Network => format!("on the network, {domain}{awaited}"),
        DelayKind::Disk => format!("disk I/O of {domain}{awaited}"),
        DelayKind::Exits => format!("exits of {whom}{awaited}"),
        DelayKind::Other(TimeState::Qdisc) => format!("queueing disciplines of {domain}{awaited}"),
        DelayKind::Other(TimeState::Neigh) => format!("unknown link-layer addresses in {domain}{awaited}"),
        DelayKind::Other(TimeState::SendQueue) => format!("TCP's send queues in {domain}{awaited}"),
        DelayKind::Other(spent) => format!("{spent} in {domain}{awaited}"),
    })
}

/// A way of being kept, whomever: `waiting for a CPU`.
pub fn delay_kind(of: DelayKind) -> Sentence {
    Sentence::new(match of {
        DelayKind::CpuWait => "waiting for a CPU",
        DelayKind::Running => "running",
        DelayKind::Network => "on the network",
        DelayKind::Disk => "disk I/O",
        DelayKind::Exits => "exits of vCPUs",
        DelayKind::Other(TimeState::Qdisc) => "queueing disciplines",
        DelayKind::Other(TimeState::Neigh) => "unknown link-layer addresses",
        DelayKind::Other(TimeState::SendQueue) => "TCP's send queues",
        DelayKind::Other(spent) => spent.name(),
    })
}

/// Which of a run's transactions are looked at: `the middle half`.
pub fn share(of: Share) -> Sentence {
    Sentence::new(match of {
        Share::MiddleHalf => "the middle half",
        Share::SlowestTenth => "the slowest tenth",
        Share::SlowestQuarter => "the slowest quarter",
    })
}
