//! Flows that came to a domain several times.
//!
//! A domain that is told what comes off a carrier records it under the ID that it has (`bpf/carriers/told.h`). What TCP
//! sends again comes again, under the same ID, and perhaps while the first is still there. Each is followed by itself:
//! records belong together by the keys that they name, and those that name none by the thread that made them.

use std::collections::HashMap;

use xweave_trace::Row;
use xweave_wire::record::{Kind, maker};

use crate::dropped::Change;

/// Whether a record is of a flow that its domain did not begin, but was told.
pub(crate) fn is_told(row: &Row) -> bool {
    maker(row.flow) != row.domain
}

/// Which of them each record is of, if there are several. The rows are those that one domain has of one flow, in the
/// order of time.
pub(crate) fn instances(rows: &[Row]) -> Option<Vec<usize>> {
    let told = rows.first().is_some_and(is_told);
    if !told || rows.iter().filter(|row| row.kind == Kind::Xout).nth(1).is_none() {
        return None;
    }
    let mut keys: HashMap<u64, usize> = HashMap::new();
    // What came off a carrier in a thread, under which key is not recorded; and what it had to do with last.
    let mut unnamed: HashMap<u32, usize> = HashMap::new();
    let mut threads: HashMap<u32, usize> = HashMap::new();
    let mut next = 0;
    let mut all = Vec::with_capacity(rows.len());
    let mut names_key = Vec::with_capacity(rows.len());
    for row in rows {
        let latest = next.max(1) - 1;
        let mut of_key = |keys: &mut HashMap<u64, usize>, key| {
            let known = keys.remove(&key);
            unnamed.remove(&row.tid).or(known).unwrap_or(latest)
        };
        let change = Change::of(row);
        names_key.push(!matches!(change, None | Some(Change::ComesOff)));
        let ends = matches!(change, Some(Change::Ends(_)));
        let instance = match change {
            Some(Change::ComesOff) => {
                unnamed.insert(row.tid, next);
                next += 1;
                next - 1
            }
            Some(Change::Begins(key)) => *keys.entry(key).or_insert(latest),
            Some(Change::Moves(from, to)) => {
                let instance = of_key(&mut keys, from);
                keys.insert(to, instance);
                instance
            }
            Some(Change::Copies(from, to)) => {
                let instance = of_key(&mut keys, from);
                keys.extend([(from, instance), (to, instance)]);
                instance
            }
            Some(Change::Ends(key)) => of_key(&mut keys, key),
            None => threads.get(&row.tid).copied().unwrap_or(latest),
        };
        if ends {
            threads.remove(&row.tid);
        } else {
            threads.insert(row.tid, instance);
        }
        all.push(instance);
    }
    // What is put on a carrier leaves a domain: the thread that does it says of the data itself only afterwards what that
    // was.
    let mut named: HashMap<u32, usize> = HashMap::new();
    for (at, row) in rows.iter().enumerate().rev() {
        if names_key[at] {
            named.insert(row.tid, all[at]);
        } else if row.kind == Kind::Xin
            && let Some(&instance) = named.get(&row.tid)
        {
            all[at] = instance;
        }
    }
    Some(all)
}
