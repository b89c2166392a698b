//! Exchanges during others: what a server asks while it has not answered yet.

use std::collections::HashMap;

use super::{Exchange, Threads};

/// How many exchanges under way are looked through for the one that another is inside of.
const UNDER_WAY: usize = 256;

/// The most that are said to be made for one.
const MADE: usize = 64;

/// What a domain serves at a time.
#[derive(Default)]
struct Served {
    under_way: Vec<usize>,
    /// Until then others are under way that are not looked through.
    others_ns: Option<i64>,
}

/// Finds out which exchanges are inside which, of all in the order of their beginnings.
pub(super) fn nest(all: &mut [Exchange]) {
    let mut by_domain: HashMap<String, Served> = HashMap::new();
    for at in 0..all.len() {
        let (start, end) = (all[at].start_ns, all[at].end_ns);
        if let Some(Served { under_way, others_ns }) = by_domain.get_mut(&all[at].client_domain) {
            under_way.retain(|&other| all[other].end_ns >= start);
            let made_for = made_for(&all[at], all, under_way.iter().copied());
            let only = || {
                let mut around = under_way.iter().copied().filter(|&other| all[other].end_ns >= end);
                let only = around.next();
                only.filter(|_| others_ns.is_none_or(|until| until < start) && around.next().is_none())
            };
            all[at].inside = made_for.or_else(only);
            if let Some(outer) = made_for.filter(|&outer| all[outer].made.len() < MADE) {
                all[outer].made.push(at);
            }
        }
        // What a domain asks itself says nothing of who had it do so.
        if all[at].client_domain != all[at].server_domain {
            let Served { under_way, others_ns } = by_domain.entry(all[at].server_domain.clone()).or_default();
            if under_way.len() >= UNDER_WAY {
                under_way.retain(|&other| all[other].end_ns >= start);
            }
            if under_way.len() < UNDER_WAY {
                under_way.push(at);
            } else {
                *others_ns = Some(others_ns.map_or(end, |until| until.max(end)));
            }
        }
    }
}

/// The one of these for which an exchange was made: of those that had been received, the last with its key, also if that was
/// answered without it; else the last that the thread had received which asks, or that this thread answers.
fn made_for(made: &Exchange, all: &[Exchange], under_way: impl Iterator<Item = usize>) -> Option<usize> {
    let Threads { asks: Some(asks), .. } = made.threads else { return None };
    under_way
        .filter_map(|outer| {
            let (of, Threads { receives, answers, .. }) = (&all[outer], all[outer].threads);
            let (receiver, received) = receives.filter(|(_, received)| *received <= made.start_ns)?;
            let same_key = made.key.is_some() && made.key == of.key;
            let by_thread = (receiver == asks || answers == Some(asks)) && of.end_ns >= made.end_ns;
            (same_key || by_thread).then_some((same_key, received, outer))
        })
        .max()
        .map(|(.., outer)| outer)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{
        super::{Connection, Resent, Side},
        *,
    };
    use crate::key::Key;

    fn exchange(client: &str, server: &str, start_ns: i64, end_ns: i64) -> Exchange {
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        Exchange {
            connection: Connection { protocol: "TCP", client: address, server: address },
            client_domain: client.into(),
            server_domain: server.into(),
            start_ns,
            end_ns,
            inside: None,
            made: Vec::new(),
            key: None,
            repeats: 0,
            complete: true,
            lacks: None,
            resent: Resent::default(),
            request: Side::default(),
            answer: Side::default(),
            parts: Vec::new(),
            way: Vec::new(),
            answered_by: 0,
            threads: Threads::default(),
        }
    }

    #[test]
    fn an_exchange_is_inside_another_only_if_no_other_is_under_way_however_many_there_were() {
        let many = i64::try_from(UNDER_WAY).unwrap();
        // The last of those that come at once is under way for longer than can be looked through.
        let mut all: Vec<Exchange> = (0..many).map(|nth| exchange("host", "vm1", nth, 1_000)).collect();
        all.push(exchange("host", "vm1", many, 9_000));
        all.push(exchange("host", "vm1", 2_000, 8_000));
        let ask = |start| exchange("vm1", "vm2", start, start + 10);
        all.extend([ask(2_500), exchange("host", "vm1", 9_500, 9_900), ask(9_600)]);
        nest(&mut all);
        let inside: Vec<_> = all[all.len() - 3..].iter().map(|one| one.inside).collect();
        assert_eq!(inside, [None, None, Some(all.len() - 2)]);
        assert!(all.iter().all(|one| one.made.is_empty()), "nothing says for whom it was made");
    }

    #[test]
    fn of_many_under_way_an_exchange_is_made_for_the_one_of_its_key_or_of_its_thread() {
        let key = |hash| Some(Key { hash, begins: [0; 8] });
        let served = |start, end, receiver, key| Exchange {
            key,
            threads: Threads { receives: Some(((2, receiver), start + 5)), ..Threads::default() },
            ..exchange("host", "vm1", start, end)
        };
        let asked = |start, thread, key| Exchange {
            key,
            threads: Threads { asks: Some((2, thread)), ..Threads::default() },
            ..exchange("vm1", "vm2", start, start + 10)
        };
        let mut all = vec![
            served(0, 900, 11, key(1)),
            served(10, 910, 12, key(2)),
            served(20, 920, 12, None),
            // By its key, whoever asks; by who received last; before that was received; by nobody who has to do with it.
            asked(100, 12, key(1)),
            asked(110, 12, key(3)),
            asked(112, 12, None),
            asked(120, 14, None),
        ];
        all.push(served(130, 930, 11, None));
        all.push(asked(132, 11, None));
        // Answered after the one was for which it is; that is told by the key alone.
        all.extend([key(2), None].map(|key| Exchange { end_ns: 2_000, ..asked(905, 12, key) }));
        nest(&mut all);
        let inside: Vec<_> = all[3..].iter().map(|one| one.inside).collect();
        assert_eq!(inside, [Some(0), Some(2), Some(2), None, None, Some(0), Some(1), None]);
        assert_eq!([&all[0].made[..], &all[1].made[..], &all[2].made[..]], [&[3, 8][..], &[9], &[4, 5]]);
    }
}
