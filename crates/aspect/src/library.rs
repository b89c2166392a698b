//! The library of ready flows, `aspects/` of the source tree, inside the program.

use crate::Source;

const LIBRARY: &[(&str, &str)] = &[
    ("block", include_str!("../../../aspects/block.aspect")),
    ("interrupt", include_str!("../../../aspects/interrupt.aspect")),
    ("page-cache", include_str!("../../../aspects/page-cache.aspect")),
    ("sched", include_str!("../../../aspects/sched.aspect")),
    ("tcp", include_str!("../../../aspects/tcp.aspect")),
    ("udp", include_str!("../../../aspects/udp.aspect")),
    ("virtio-blk", include_str!("../../../aspects/virtio-blk.aspect")),
    ("virtio-net", include_str!("../../../aspects/virtio-net.aspect")),
];

/// An aspect of the library by its name.
pub fn library(name: &str) -> Option<Source> {
    let (name, text) = LIBRARY.iter().find(|(known, _)| *known == name)?;
    Some(Source { name: format!("{name}.aspect"), text: (*text).to_owned() })
}

/// The names in the library.
pub fn library_names() -> impl Iterator<Item = &'static str> {
    LIBRARY.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn the_library_is_complete_and_without_mistakes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../aspects");
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let source = library(file.trim_end_matches(".aspect")).expect("every aspect is in LIBRARY");
            assert_eq!(source.name, file);
            assert!(parse(vec![source]).is_ok_and(|aspects| !aspects.xflows.is_empty()));
        }
        assert_eq!(library("nothing"), None);
        // Any of them can be woven with any other.
        let all = library_names().filter_map(library).collect();
        assert!(parse(all).is_ok_and(|aspects| aspects.xflows.len() >= LIBRARY.len()));
    }
}
