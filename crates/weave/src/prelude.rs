//! The C that comes with every program: the prelude and the headers for what is used of them, from `bpf/`, and libbpf's
//! headers.

use std::collections::HashSet;

use libbpf_sys::API_HEADERS;
use sha2::{Digest, Sha256};
use xweave_aspect::Code;
use xweave_aspect::code::TokenKind;

/// Included before the kernel's types.
pub(crate) const TYPES: (&str, &str) = ("types.h", include_str!("../../../bpf/types.h"));

/// Included after them.
pub(crate) const PRELUDE: (&str, &str) = ("xweave.h", include_str!("../../../bpf/xweave.h"));

/// What that includes, and the probes of events.
const PARTS: [(&str, &str); 12] = [
    ("state.h", include_str!("../../../bpf/state.h")),
    ("forget.h", include_str!("../../../bpf/forget.h")),
    ("level.h", include_str!("../../../bpf/level.h")),
    ("percpu.h", include_str!("../../../bpf/percpu.h")),
    ("rings.h", include_str!("../../../bpf/rings.h")),
    ("guard.h", include_str!("../../../bpf/guard.h")),
    ("held.h", include_str!("../../../bpf/held.h")),
    ("table.h", include_str!("../../../bpf/table.h")),
    ("lost.h", include_str!("../../../bpf/lost.h")),
    ("flow.h", include_str!("../../../bpf/flow.h")),
    ("record.h", include_str!("../../../bpf/record.h")),
    ("program.h", include_str!("../../../bpf/program.h")),
];

/// What a program includes if it uses what they define: what flows cross boundaries on (functions that give keys),
/// what their data is, and what becomes of it.
const HEADERS: [(&str, &str); 25] = [
    ("bridge.h", include_str!("../../../bpf/bridge.h")),
    ("carriers/content.h", include_str!("../../../bpf/carriers/content.h")),
    ("carriers/interrupt.h", include_str!("../../../bpf/carriers/interrupt.h")),
    ("carriers/kvm.h", include_str!("../../../bpf/carriers/kvm.h")),
    ("carriers/lapic.h", include_str!("../../../bpf/carriers/lapic.h")),
    ("carriers/numbered.h", include_str!("../../../bpf/carriers/numbered.h")),
    ("carriers/offered.h", include_str!("../../../bpf/carriers/offered.h")),
    ("carriers/shared.h", include_str!("../../../bpf/carriers/shared.h")),
    ("carriers/tap.h", include_str!("../../../bpf/carriers/tap.h")),
    ("carriers/told.h", include_str!("../../../bpf/carriers/told.h")),
    ("carriers/vhost-memory.h", include_str!("../../../bpf/carriers/vhost-memory.h")),
    ("carriers/vhost.h", include_str!("../../../bpf/carriers/vhost.h")),
    ("carriers/virtblk.h", include_str!("../../../bpf/carriers/virtblk.h")),
    ("carriers/virtio-net.h", include_str!("../../../bpf/carriers/virtio-net.h")),
    ("carriers/virtqueue.h", include_str!("../../../bpf/carriers/virtqueue.h")),
    ("carriers/xen-blk.h", include_str!("../../../bpf/carriers/xen-blk.h")),
    ("carriers/xen-blkback.h", include_str!("../../../bpf/carriers/xen-blkback.h")),
    ("carriers/xen-blkfront.h", include_str!("../../../bpf/carriers/xen-blkfront.h")),
    ("carriers/xen-guests.h", include_str!("../../../bpf/carriers/xen-guests.h")),
    ("carriers/xen-net.h", include_str!("../../../bpf/carriers/xen-net.h")),
    ("carriers/xen-netback.h", include_str!("../../../bpf/carriers/xen-netback.h")),
    ("carriers/xen-netfront.h", include_str!("../../../bpf/carriers/xen-netfront.h")),
    ("carriers/xen.h", include_str!("../../../bpf/carriers/xen.h")),
    ("frame.h", include_str!("../../../bpf/frame.h")),
    ("where.h", include_str!("../../../bpf/where.h")),
];

/// All that every program includes, by name: libbpf's headers are `<bpf/…>`.
pub(crate) fn files() -> Vec<(String, &'static str)> {
    let libbpf = API_HEADERS.into_iter().filter(|(name, _)| name.starts_with("bpf_"));
    let own = [TYPES, PRELUDE].into_iter().chain(PARTS).map(|(name, text)| (name.to_owned(), text));
    own.chain(libbpf.map(|(name, text)| (format!("bpf/{name}"), text))).collect()
}

/// The text of such a header, by its file's name.
pub(crate) fn header(name: &str) -> Option<&'static str> {
    HEADERS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// All of these.
pub(crate) fn all_headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    HEADERS.into_iter()
}

/// The texts of all that programs may include of xweave's own.
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    let own = [TYPES, PRELUDE].into_iter().chain(PARTS).map(|(_, text)| text);
    own.chain(HEADERS.into_iter().map(|(_, text)| text))
}

/// The hash of all that compiled programs have in common with what loads them and reads what they write: two of different
/// versions must not be put together.
pub(crate) fn fingerprint() -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(xweave_wire::VERSION.to_le_bytes());
    texts().for_each(|text| hash.update(text));
    hash.finalize().into()
}

/// A header that a program uses.
pub(crate) struct Header {
    /// Its file's name.
    pub name: &'static str,
    pub code: Code,
}

/// The headers of which the names call or use something, and those that these use.
pub(crate) fn headers<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Header> {
    let mut used: HashSet<String> = names.map(str::to_owned).collect();
    let mut left: Vec<_> =
        HEADERS.into_iter().map(|(name, text)| Header { name, code: Code::lex(text) }).collect();
    let mut found: Vec<Header> = Vec::new();
    while let Some(at) = left.iter().position(|header| defined(&header.code).any(|name| used.contains(name)))
    {
        let header = left.remove(at);
        used.extend(header.code.names().map(str::to_owned));
        // One that another uses comes before it.
        found.insert(0, header);
    }
    found
}

/// The names of the prelude's macros that the kernel's enumerators must leave alone.
pub(crate) fn macros() -> HashSet<String> {
    let types = Code::lex(TYPES.1);
    defined(&types).map(str::to_owned).collect()
}

/// The functions and macros that a header defines.
fn defined(header: &Code) -> impl Iterator<Item = &str> {
    let words: Vec<_> = header.words().collect();
    let mut depth = 0usize;
    let mut names = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.text.as_str() {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if word.kind != TokenKind::Name || depth > 0 {
            continue;
        }
        let before =
            at.checked_sub(2).map(|before| (words[before].text.as_str(), words[before + 1].text.as_str()));
        let macro_ = before == Some(("#", "define"));
        if macro_ || is_function(&words[at + 1..]) {
            names.push(word.text.as_str());
        }
    }
    names.into_iter()
}

/// Whether these words are a function's parameters and the beginning of its body.
fn is_function(words: &[&xweave_aspect::code::Token]) -> bool {
    let mut depth = 0usize;
    for (at, word) in words.iter().enumerate() {
        match word.text.as_str() {
            "(" => depth += 1,
            ")" if depth == 1 => return words.get(at + 1).is_some_and(|next| next.text == "{"),
            ")" => depth = depth.saturating_sub(1),
            _ if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_headers_are_known() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/carriers");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| format!("carriers/{}", entry.unwrap().file_name().into_string().unwrap()))
            .collect();
        files.sort();
        files.insert(0, "bridge.h".into());
        files.extend(["frame.h".into(), "where.h".into()]);
        assert_eq!(files, HEADERS.map(|(name, _)| name));
    }

    #[test]
    fn a_header_is_found_by_what_it_defines() {
        let names = |names: &[&'static str]| {
            headers(names.iter().copied()).iter().map(|header| header.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["frame_header"]), ["frame.h"]);
        assert_eq!(names(&["frame_wanted"]), ["frame.h", "where.h"]);
        // With those that it uses.
        let of_guest = ["carriers/shared.h", "carriers/offered.h", "carriers/virtqueue.h"];
        assert_eq!(names(&["virtqueue_avail"]), of_guest);
        assert_eq!(names(&["xw_vhost_translate", "XW_MAX_REGIONS"]), ["carriers/vhost-memory.h"]);
        assert_eq!(names(&["vq", "SEC", "key", "bpf_map_lookup_elem"]), [""; 0]);
    }
}
