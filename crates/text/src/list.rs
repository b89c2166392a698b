//! Numbers as the kernel lists them.

/// The numbers of a list as sysfs has it: `0-3,8`. What cannot be read is left out.
pub fn listed(list: &str) -> Vec<usize> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_numbers_are_read() {
        assert_eq!(listed("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(listed("0\n"), [0]);
        assert_eq!(listed(""), [0; 0]);
    }
}
