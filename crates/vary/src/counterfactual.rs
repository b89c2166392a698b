//! What the requests' times would be if a part of them did not vary: it takes its median time in each.
//!
//! Requests wait for each other: one that is through sooner keeps those behind it for less long. So where requests wait in
//! the queue of a socket for a thread that serves others, that wait is worked out anew (as Lindley, The Theory of Queues
//! with a Single Server, 1952): a request is taken up when it has come, and the thread is through with the one before.

use crate::shares::median;

/// The times of requests, divided where they wait for a server that takes them one by one.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// When each began.
    pub start: Vec<f64>,
    /// How long each was on its way to the queue.
    pub before: Vec<f64>,
    /// How long it was in the queue while the server was busy with others.
    pub waited: Vec<f64>,
    /// How long the server then was at it.
    pub served: Vec<f64>,
}

/// A part's time in each request, divided in the same way.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// On the way to the queue.
    pub before: Vec<f64>,
    /// While the server was at it.
    pub served: Vec<f64>,
    /// In all, the queue and all that comes after it included.
    pub all: Vec<f64>,
}

impl Queue {
    /// The times, `whole` until now, if that part took its median in each.
    pub fn without(&self, whole: &[f64], part: &Part) -> Vec<f64> {
        let usual = [&part.before, &part.served, &part.all].map(|of| median(of));
        let mut order: Vec<usize> = (0..whole.len()).collect();
        let taken = |at: usize| self.start[at] + self.before[at] + self.waited[at];
        order.sort_by(|one, other| taken(*one).total_cmp(&taken(*other)));
        let mut times = vec![0.0; whole.len()];
        // When the server was through with the one before, and would be.
        let mut free: Option<[f64; 2]> = None;
        for at in order {
            let came = self.start[at] + self.before[at] - part.before[at] + usual[0];
            let turn = match free {
                // What it does between two requests it does then, too.
                Some([was, would]) if self.waited[at] > 0.0 => would + (taken(at) - was).max(0.0),
                Some([_, would]) => would,
                None => f64::MIN,
            };
            let waits = (turn - came).max(0.0);
            // If it never waits, what it waited in between is no longer there.
            let waits = if self.waited[at] > 0.0 || turn > came { waits } else { 0.0 };
            free = Some([
                taken(at) + self.served[at],
                came + waits + self.served[at] - part.served[at] + usual[1],
            ]);
            let shorter = part.all[at] - usual[2];
            times[at] = (whole[at] - self.waited[at] + waits - shorter).max(0.0);
        }
        times
    }
}

/// The times if a part took its median in each, where nobody waits for others.
pub fn without(whole: &[f64], part: &[f64]) -> Vec<f64> {
    let usual = median(part);
    whole.iter().zip(part).map(|(whole, part)| whole - part + usual).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Spread;

    /// Requests that come to one server, and what each time that a vCPU needs to wake up adds before.
    fn simulate(n: usize, load: f64, seed: u64, wakes: impl Fn(&mut fastrand::Rng) -> f64) -> (Vec<f64>, Queue, Part) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut part, mut whole) = (Queue::default(), Part::default(), Vec::new());
        let (mut clock, mut free) = (0.0_f64, 0.0_f64);
        for _ in 0..n {
            clock += -random.f64().ln() / load;
            let (way, serves, woken) = (0.3 + 0.1 * random.f64(), 0.5 + random.f64(), wakes(&mut random));
            // The thread itself is what wakes up: while it does, it serves nobody.
            let came = clock + way;
            let taken = came.max(free);
            let served = serves + woken;
            free = taken + served;
            queue.start.push(clock);
            queue.before.push(way);
            queue.waited.push(taken - came);
            queue.served.push(served);
            part.before.push(0.0);
            part.served.push(woken);
            part.all.push(woken);
            whole.push(free - clock);
        }
        (whole, queue, part)
    }

    #[test]
    fn what_would_be_is_what_is_if_it_is_tried_though_requests_wait_for_each_other() {
        for (seed, load) in [(1, 0.2), (2, 0.4), (3, 0.6)] {
            // Four draws in any case, so that both see the same requests.
            let woken = |random: &mut fastrand::Rng| if random.f64() < 0.05 { 8.0 * random.f64() } else { random.f64() * 0.0 };
            let (whole, queue, part) = simulate(10_000, load, seed, woken);
            let (tried, ..) = simulate(10_000, load, seed, |random| {
                woken(random);
                0.0
            });
            let [told, true_, before] = [&queue.without(&whole, &part), &tried, &whole].map(|times| Spread::of(times));
            for (told, true_, before) in
                [(told.p99, true_.p99, before.p99), (told.deviation, true_.deviation, before.deviation)]
            {
                assert!((told / true_ - 1.0).abs() < 0.2 && true_ < before, "{told} {true_} {before}");
            }
            // Without the queue, the gain would be told as less than it is.
            let alone = Spread::of(&without(&whole, &part.all));
            assert!(alone.p99 > told.p99);
        }
    }

    #[test]
    fn a_part_that_is_always_as_long_changes_nothing() {
        let (whole, queue, part) = simulate(500, 0.6, 9, |_| 0.25);
        let same = queue.without(&whole, &part);
        assert!(whole.iter().zip(&same).all(|(one, other)| (one - other).abs() < 1e-9));
        assert_eq!(without(&[3.0, 4.0], &[1.0, 1.0]), [3.0, 4.0]);
    }
}
