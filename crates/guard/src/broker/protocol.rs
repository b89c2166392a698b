//! Requests, as they are sent: one packet each, of which nothing is believed.

use xweave_bytes::split_le;

/// Longest packet, in bytes.
pub(super) const LONGEST: usize = 4096;
/// Most folders below a root.
const DEEPEST: usize = 8;
/// Longest name, in bytes (`NAME_MAX`).
const NAME: usize = 255;

/// A folder or file within reach: a root, and the folders below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) root: u16,
    pub(super) folders: Vec<String>,
}

impl Place {
    /// A folder in it.
    pub(crate) fn in_folder(&self, name: &str) -> Self {
        let mut inner = self.clone();
        inner.folders.push(name.to_owned());
        inner
    }
}

/// Reports whether a name stays in its folder.
pub(crate) fn is_name(name: &str) -> bool {
    let wrong = name.is_empty() || name == "." || name == ".." || name.len() > NAME;
    !wrong && !name.contains(['/', '\0'])
}

/// What is asked of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub(super) enum Operation {
    OpenFolder,
    /// The root itself, also through a link.
    OpenNamed,
    OpenFile,
    /// A root itself, not followed if it is a link.
    LookAt,
    /// A root itself, also through a link.
    LookThrough,
    Look,
    MakeFolder,
    CreateFile,
    Rename,
    Unlink,
    Claim,
    /// A root that is a device or a pipe, to be written to.
    OpenOther,
    /// The folder of a file that is to be written: whether it is there.
    FindFolder,
}

impl Operation {
    /// Number of names in the place that it takes.
    fn names(self) -> usize {
        match self {
            Self::Rename => 2,
            Self::OpenFile | Self::Look | Self::CreateFile | Self::Unlink => 1,
            _ => 0,
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) place: Place,
    pub(super) names: Vec<String>,
}

impl Request {
    /// The packet: operation, root, and each name with its length; none if it would be no valid one.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut packet = vec![self.operation as u8];
        packet.extend(self.place.root.to_le_bytes());
        for name in self.place.folders.iter().chain(&self.names) {
            packet.push(u8::try_from(name.len()).ok()?);
            packet.extend(name.as_bytes());
        }
        (Self::decode(&packet).as_ref() == Some(self)).then_some(packet)
    }

    /// Reads a packet; none if anything about it is wrong.
    pub(super) fn decode(packet: &[u8]) -> Option<Self> {
        let (operation, rest) = packet.split_first()?;
        let operation = Operation::from_repr(*operation)?;
        let (root, mut rest) = split_le(rest)?;
        let mut names = Vec::new();
        while let Some((&len, after)) = rest.split_first() {
            let (name, after) = after.split_at_checked(usize::from(len))?;
            names.push(std::str::from_utf8(name).ok().filter(|name| is_name(name))?.to_owned());
            rest = after;
        }
        let folders = names.len().checked_sub(operation.names()).filter(|folders| *folders <= DEEPEST)?;
        let of_operation = names.split_off(folders);
        (packet.len() <= LONGEST).then_some(Self {
            operation,
            place: Place { root, folders: names },
            names: of_operation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: Operation, folders: &[&str], names: &[&str]) -> Request {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Request { operation, place: Place { root: 3, folders: owned(folders) }, names: owned(names) }
    }

    #[test]
    fn requests_are_read_as_written() {
        for operation in (0..=u8::MAX).map_while(Operation::from_repr) {
            let names = ["a", ".b.tmp-7"];
            let request = request(operation, &["events", "ä"], &names[..operation.names()]);
            assert_eq!(Request::decode(&request.encode().unwrap()), Some(request));
        }
    }

    #[test]
    fn names_that_leave_their_folder_are_refused() {
        for name in ["", ".", "..", "a/b", "/etc", "a\0b", &"x".repeat(256)] {
            assert!(!is_name(name), "{name}");
            assert_eq!(request(Operation::OpenFile, &[], &[name]).encode(), None, "{name}");
            assert_eq!(request(Operation::OpenFolder, &[name], &[]).encode(), None, "{name}");
        }
        assert_eq!(request(Operation::OpenFolder, &["a"; DEEPEST + 1], &[]).encode(), None);
        assert_eq!(request(Operation::Rename, &[], &["a"]).encode(), None);
    }

    #[test]
    fn no_packet_is_too_odd() {
        let good = request(Operation::Rename, &["events"], &["a", "b"]).encode().unwrap();
        for end in 0..good.len() {
            let _ = Request::decode(&good[..end]);
        }
        for at in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut packet = good.clone();
                packet[at] = byte;
                let names = Request::decode(&packet).map_or(Vec::new(), |request| request.names);
                assert!(names.iter().all(|name| is_name(name)), "{packet:?}");
            }
        }
    }
}
