//! Names that patterns mean, and that a mistyped one may have meant.

use std::collections::BTreeSet;

/// Whether `name` is what `pattern` says, where `%` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('%');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// The `n` of these names that are most like this one, the most like first; none that is not like it at all.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>, n: usize) -> Vec<String> {
    let distance = |other: &str| {
        let shorter = name.len().min(other.len());
        // One that contains the other is nearer than its length suggests: `kfree_skbmem` and `__kfree_skbmem`.
        if shorter >= 5 && (other.contains(name) || name.contains(other)) {
            return name.len().abs_diff(other.len()).div_ceil(2);
        }
        strsim::osa_distance(name, other)
    };
    let limit = name.len() / 3 + 1;
    let near = names.filter(|other| name.len().abs_diff(other.len()) <= limit);
    let mut near: Vec<_> = near.map(|other| (distance(other), other)).collect();
    near.retain(|(distance, _)| *distance <= limit);
    near.sort();
    near.into_iter().take(n).map(|(_, name)| name.to_owned()).collect()
}

/// Names that are listed where none is near.
const LISTED: usize = 16;

/// What to say after that there is nothing of this name: the nearest names that there are, or else the first ones.
pub fn instead<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.filter(|known| !known.is_empty()).collect();
    let near = nearest(name, names.iter().copied(), 3);
    if !near.is_empty() {
        return format!("did you mean {}?", near.join(", "));
    }
    let listed: Vec<_> = names.iter().copied().take(LISTED).collect();
    match (&*listed, names.len().saturating_sub(LISTED)) {
        ([], _) => "there are none".to_owned(),
        ([one], _) => format!("there is only {one}"),
        (_, 0) => format!("there are {}", listed.join(", ")),
        (_, more) => format!("there are {} and {more} more", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("tcp_%", "tcp_rcv", true),
            ("tcp_%", "udp_rcv", false),
            ("%", "a", true),
            ("%_rcv", "tcp_v4_rcv", true),
            ("a%b%c", "a_b_c", true),
            ("a%b%c", "a_c_b", false),
            ("ab%ba", "aba", false),
            ("a", "ab", false),
            ("%b%", "abc", true),
            ("%", "", true),
            ("add %, [m%", "add r8, [m8]", true),
            ("%mm", "add r8, r8", false),
            ("vfs_read", "vfs_read", true),
            ("vfs_read", "vfs_readv", false),
            ("%spin%irq%", "_raw_spin_unlock_irqrestore", true),
            ("%spin%irq", "_raw_spin_unlock_irqrestore", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn the_nearest_come_first() {
        let known = ["kfree_skbmem", "kfree", "vfs_read", "vfs_readv", "vfs_write"];
        assert_eq!(nearest("vfs_raed", known.into_iter(), 2), ["vfs_read", "vfs_readv"]);
        assert_eq!(nearest("__kfree_skbmem", known.into_iter(), 3), ["kfree_skbmem"]);
        assert_eq!(nearest("io_uring", known.into_iter(), 3), [""; 0]);
    }

    #[test]
    fn a_name_that_is_not_there_is_answered_with_those_that_are() {
        let said = |name, known: &[&str]| instead(name, known.iter().copied());
        assert_eq!(said("hots", &["vm1", "host", "vm2"]), "did you mean host?");
        assert_eq!(said("web", &["vm1", "host", "vm1"]), "there are host, vm1");
        assert_eq!(said("web", &["host", ""]), "there is only host");
        assert_eq!(said("web", &[]), "there are none");
        let many: Vec<String> = (0..20).map(|n| format!("n{n:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(said("something", &many).ends_with("n14, n15 and 4 more"));
    }
}
