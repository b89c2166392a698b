//! Members of an event, and how much of each a kind has.

/// A member that only some kinds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Member {
    /// The other thread.
    Other = 1,
    /// Disk, socket, pipe, file, interrupt, lock, vCPU, CPU or process.
    Object = 1 << 1,
    /// The first sector, or depending on the kind.
    Position = 1 << 2,
    /// Number of bytes.
    Bytes = 1 << 3,
    /// Depends on the kind.
    Code = 1 << 4,
    /// A text of at most 16 bytes.
    Name = 1 << 5,
}

impl Member {
    /// Name of its column in traces.
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
    /// The member.
    pub member: Member,
    /// Size behind the header in bytes, of a larger member its low half; 0 if it is in the header, or is added by the
    /// controller.
    pub size: usize,
    /// Whether it is always recorded. If not, 0 means that it was not.
    pub known: bool,
    /// Meaning, with its unit.
    pub meaning: &'static str,
}

/// Makes a field from its place and whether it is always known.
pub(crate) const fn field(member: Member, (size, known): (usize, bool), meaning: &'static str) -> Field {
    Field { member, size, known, meaning }
}
