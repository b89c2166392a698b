//! What a domain was asked: requests without what is in them, and which replies answer them.

use xweave_wire::{
    limits,
    message::{Reply, Request},
};

/// What a domain was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    DomainInfo,
    Btf,
    Code,
    Clock,
    Vms,
    Symbols,
    Weave,
    XenMark,
    XenGuests,
    Share,
    Guests,
    Xentrace,
    Start,
    Loss,
    Drain,
    Off,
    Knobs,
    Set,
    Cached,
    Watch,
    Unset,
    Stop,
}

impl Question {
    pub(crate) fn of(request: &Request) -> Option<Self> {
        Some(match request {
            Request::DomainInfo => Self::DomainInfo,
            Request::Btf(_) => Self::Btf,
            Request::Code(_) => Self::Code,
            Request::Clock => Self::Clock,
            Request::Vms => Self::Vms,
            Request::Symbols(_) => Self::Symbols,
            Request::Weave(_) => Self::Weave,
            Request::XenMark(_) => Self::XenMark,
            Request::XenGuests(_) => Self::XenGuests,
            Request::Share { .. } => Self::Share,
            Request::Guests { .. } => Self::Guests,
            Request::Xentrace => Self::Xentrace,
            Request::Start { .. } => Self::Start,
            Request::Loss => Self::Loss,
            Request::Drain => Self::Drain,
            Request::Off => Self::Off,
            Request::Knobs => Self::Knobs,
            Request::Set(_) => Self::Set,
            Request::Cached(_) | Request::Changed => Self::Cached,
            Request::Watch { .. } => Self::Watch,
            Request::Unset => Self::Unset,
            Request::Stop => Self::Stop,
            Request::Alive => return None,
        })
    }

    pub(crate) fn is_answered_by(self, reply: &Reply) -> bool {
        match reply {
            Reply::DomainInfo(_) => self == Self::DomainInfo,
            Reply::Btf(_) => self == Self::Btf,
            Reply::Code(_) => self == Self::Code,
            Reply::Clock(_) => self == Self::Clock,
            Reply::Vms(_) => self == Self::Vms,
            Reply::Symbols(_) => self == Self::Symbols,
            Reply::Woven(_) => self == Self::Weave,
            Reply::XenMarked { .. } => self == Self::XenMark,
            Reply::XenGuests { .. } => self == Self::XenGuests,
            Reply::Shared(_) => self == Self::Share,
            Reply::Done => {
                matches!(
                    self,
                    Self::Guests | Self::Xentrace | Self::Start | Self::Drain | Self::Off | Self::Unset
                )
            }
            Reply::Knobs(_) => matches!(self, Self::Knobs | Self::Set),
            Reply::Watching { .. } => self == Self::Watch,
            Reply::LookedAt(_) => self == Self::Cached,
            Reply::Loss(_) => self == Self::Loss,
            Reply::Stopped(_) => self == Self::Stop,
            Reply::Failed(_) => true,
        }
    }

    /// The longest frame that is taken while this is not answered.
    pub(crate) fn frame(self) -> u32 {
        match self {
            Self::Btf | Self::Code => limits::LARGE_FRAME,
            Self::Weave => limits::WOVEN_FRAME,
            _ => limits::FRAME,
        }
    }
}
