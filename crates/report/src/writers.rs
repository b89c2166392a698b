//! Who writes to which disk, in a line for each.

use std::cmp::Reverse;

use xweave_model::{ObjectGroup, Usage, UsageObject, usage::Figures};
use xweave_text::size;

use crate::{number, words::objects};

/// So many disks have a line, and so many who use one are named.
const DISKS: usize = 6;
const NAMED: usize = 3;

/// `vm1's disk vda: 12 MiB written, by postgres 82 %, jbd2 10 %`: the disks of these domains that most was written to first;
/// of one that was only read, who read it.
pub(crate) fn lines(usage: &Usage, domains: &[&str]) -> Vec<String> {
    let all = usage.objects.iter().filter_map(|(key, of)| match &key.object {
        UsageObject::Disk(disk) if of.bytes > 0 => Some((&*key.domain, disk, of)),
        _ => None,
    });
    let mut disks: Vec<_> = all.filter(|(domain, ..)| domains.contains(domain)).collect();
    disks.sort_by_key(|(.., of)| Reverse((of.written, of.bytes)));
    let mut lines: Vec<String> =
        disks.iter().take(DISKS).map(|(domain, disk, of)| line(usage, domain, disk, of)).collect();
    if let Some(more) = disks.len().checked_sub(DISKS + 1) {
        lines.push(format!("and {} below", number::counted(more as u64 + 1, "other disk", "other disks")));
    }
    lines
}

fn line(usage: &Usage, domain: &str, disk: &str, of: &Figures) -> String {
    let (what, much): (_, fn(&Figures) -> u64) = match of.written {
        0 => ("read", |of| of.bytes),
        _ => ("written", |of| of.written),
    };
    let users = usage.objects.iter().filter_map(|(key, of)| match &key.object {
        UsageObject::DiskUser { user, disk: used } if key.domain == domain && used == disk => {
            Some((user, much(of)))
        }
        _ => None,
    });
    let mut users: Vec<(&ObjectGroup, u64)> = users.collect();
    users.retain(|(_, bytes)| *bytes > 0);
    users.sort_by_key(|(user, bytes)| (Reverse(*bytes), *user));
    // A request that was not done when the recording ended counts for the disk alone.
    let all = users.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1);
    let named = users.iter().take(NAMED);
    let named = named.map(|(user, bytes)| {
        format!("{} {}", objects::processes(user), number::percent(*bytes as f64 / all as f64))
    });
    let mut by: Vec<String> = named.collect();
    if let Some(more) = users.len().checked_sub(NAMED + 1) {
        by.push(number::counted(more as u64 + 1, "other", "others"));
    }
    let by = if by.is_empty() { String::new() } else { format!(", by {}", by.join(", ")) };
    let disk = objects::usage(&UsageObject::Disk(disk.to_owned()));
    format!("{domain}'s {disk}: {} {what}{by}", size(much(of) as f64))
}
