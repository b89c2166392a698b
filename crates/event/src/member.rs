//! Members of an event, and how much of each a kind has.

/// A member that only some kinds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Member {
    /// The other thread.
    Other = 1,
    /// Disk, socket, pipe, file, interrupt, lock, vCPU, CPU or process.
    Object = 1 << 1,
    /// The first sector, or as the kind says.
    Position = 1 << 2,
    /// How much.
    Bytes = 1 << 3,
    /// As the kind says.
    Code = 1 << 4,
    /// A text of at most 16 bytes.
    Name = 1 << 5,
}

impl Member {
    /// As columns of a trace call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Object => "object",
            Self::Position => "position",
            Self::Bytes => "bytes",
            Self::Code => "code",
            Self::Name => "name",
        }
    }
}

/// One member of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Which.
    pub member: Member,
    /// Bytes behind the header, of which a smaller number is the member's low half; 0 where it lies in the header, or is
    /// known to the controller only.
    pub size: usize,
    /// Whether it is always known. If not, 0 says that it is not.
    pub known: bool,
    /// What it holds, with its unit.
    pub meaning: &'static str,
}

/// What the catalogue writes for a field's type: where it lies, and whether it is always known.
pub(crate) const fn field(member: Member, (size, known): (usize, bool), meaning: &'static str) -> Field {
    Field { member, size, known, meaning }
}
