//! The queue of a socket, in which requests wait for a thread that takes them one by one.
//!
//! Requests wait for each other: one that is through sooner keeps those behind it for less long. So if something about them
//! were otherwise, their waits have to be worked out anew (Lindley, The Theory of Queues with a Single Server, 1952): a
//! request is taken up when it has come and the thread is through with the one before.

use crate::cause::Remedied;

/// Requests that come to a queue: each time in nanoseconds, in the order of the requests.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// When each began.
    pub start: Vec<f64>,
    /// How long it was on its way to the queue.
    pub before: Vec<f64>,
    /// How long in the queue.
    pub queued: Vec<f64>,
    /// How long the thread then was at it.
    pub served: Vec<f64>,
}

/// A part's time in each request; but for what was while it waited for others, which is theirs.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// On the way to the queue.
    pub before: Vec<f64>,
    /// From when the thread could take it up until it was done.
    pub serving: Vec<f64>,
    /// After that.
    pub behind: Vec<f64>,
}

/// Neighbours of a request, before and behind it, among which requests that come evenly are spread.
const AROUND: usize = 16;

/// Requests come in batches if so many of them come within a tenth of the mean gap behind another; of such that come at
/// random, one in ten does.
const BATCHES: f64 = 0.25;

impl Queue {
    fn len(&self) -> usize {
        self.start.len()
    }

    fn came(&self, at: usize) -> f64 {
        self.start[at] + self.before[at]
    }

    fn done(&self, at: usize) -> f64 {
        self.came(at) + self.queued[at] + self.served[at]
    }

    /// The requests in the order in which they came.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by(|one, other| self.came(*one).total_cmp(&self.came(*other)));
        order
    }

    /// How long each waited for those before it: as long as the thread was not through with these.
    pub fn waits(&self) -> Vec<f64> {
        let mut waits = vec![0.0; self.len()];
        let mut free = f64::MIN;
        for at in self.order() {
            waits[at] = (free - self.came(at)).clamp(0.0, self.queued[at]);
            free = free.max(self.done(at));
        }
        waits
    }

    /// When each would be done, if it came then and the thread took that long for it, from when it has taken it up.
    fn replay(&self, waits: &[f64], came: &[f64], takes: &[f64]) -> Vec<f64> {
        let mut done = vec![0.0; self.len()];
        // When the thread was through with the ones before, and would be.
        let mut free: Option<[f64; 2]> = None;
        for at in self.order() {
            let taken = self.came(at) + waits[at];
            let turn = match free {
                // What it did between the two it does then, too; of several threads, another one took it.
                Some([was, would]) if waits[at] > 0.0 => would + taken - was,
                Some([_, would]) => would,
                None => f64::MIN,
            };
            done[at] = came[at].max(turn) + takes[at];
            let [was, would] = free.unwrap_or([f64::MIN; 2]);
            free = Some([was.max(self.done(at)), would.max(done[at])]);
        }
        done
    }

    /// How long the thread was at each from when it could take it up.
    fn takes(&self, waits: &[f64]) -> Vec<f64> {
        (0..self.len()).map(|at| self.queued[at] - waits[at] + self.served[at]).collect()
    }

    /// The times of the requests, `whole` until now, with what is left of that part in each; they [wait](Self::waits) for so
    /// long now.
    pub fn without(&self, whole: &[f64], waits: &[f64], part: &Part, remedied: Remedied) -> Vec<f64> {
        let Part { before, serving, behind } = part;
        let usual = [before, serving, behind].map(|of| remedied.left(of));
        let came: Vec<f64> = (0..self.len()).map(|at| self.came(at) - before[at] + usual[0]).collect();
        let mut takes = self.takes(waits);
        takes.iter_mut().zip(serving).for_each(|(takes, part)| *takes += usual[1] - part);
        let done = self.replay(waits, &came, &takes);
        let time = |at: usize| whole[at] - self.done(at) + done[at] - behind[at] + usual[2];
        (0..self.len()).map(time).collect()
    }

    /// How much less each would wait than it [does](Self::waits), if requests came evenly; nothing, if they do not come in
    /// batches.
    pub fn by_batches(&self, waits: &[f64]) -> Option<Vec<f64>> {
        let (first, last) = (self.start.first()?, self.start.last()?);
        let gap = (last - first) / self.len() as f64;
        let close = self.start.windows(2).filter(|two| two[1] - two[0] < gap / 10.0).count();
        if (close as f64) < BATCHES * self.len() as f64 {
            return None;
        }
        let even = |at: usize| {
            // As many on either side: at the ends fewer.
            let around = AROUND.min(at).min(self.len() - 1 - at);
            let near = &self.start[at - around..=at + around];
            near.iter().map(|start| start - first).sum::<f64>() / near.len() as f64 + first
        };
        let evenly = Self { start: (0..self.len()).map(even).collect(), ..self.clone() };
        let came: Vec<f64> = (0..self.len()).map(|at| evenly.came(at)).collect();
        let takes = self.takes(waits);
        // Those that waited for nobody may wait then, too: only how long the thread takes counts.
        let done = evenly.replay(&vec![0.0; self.len()], &came, &takes);
        let less = |at: usize| (waits[at] - (done[at] - takes[at] - came[at])).clamp(0.0, waits[at]);
        Some((0..self.len()).map(less).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{counterfactual::without, shares::Spread};

    struct Simulated {
        whole: Vec<f64>,
        queue: Queue,
        part: Part,
    }

    /// Requests that come to one server in bursts, and what the time that a vCPU needs to wake up adds before.
    fn simulate(
        n: usize,
        (load, burst): (f64, usize),
        seed: u64,
        wakes: impl Fn(&mut fastrand::Rng) -> f64,
    ) -> Simulated {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut queue, mut part, mut whole) = (Queue::default(), Part::default(), Vec::new());
        let (mut clock, mut free) = (0.0_f64, 0.0_f64);
        for nth in 0..n {
            if nth % burst == 0 {
                clock += -random.f64().ln() / load * burst as f64;
            }
            let (way, serves, woken) = (0.3, 0.5 + random.f64(), wakes(&mut random));
            // The thread itself is what wakes up: while it does, it serves nobody.
            let came = clock + way;
            let taken = came.max(free) + woken;
            free = taken + serves;
            queue.start.push(clock);
            queue.before.push(way);
            queue.queued.push(taken - came);
            queue.served.push(serves);
            part.before.push(0.0);
            part.serving.push(woken);
            part.behind.push(0.0);
            whole.push(free - clock);
        }
        Simulated { whole, queue, part }
    }

    fn rarely(random: &mut fastrand::Rng) -> f64 {
        let (is, long) = (random.f64() < 0.05, 8.0 * random.f64());
        if is { long } else { 0.0 }
    }

    #[test]
    fn what_would_be_is_what_is_if_it_is_tried_though_requests_wait_for_each_other() {
        for (seed, load, burst) in [(1, 0.2, 1), (2, 0.4, 1), (3, 0.6, 1), (4, 0.3, 4)] {
            let Simulated { whole, queue, part } = simulate(10_000, (load, burst), seed, rarely);
            // Both see the same requests.
            let tried = simulate(10_000, (load, burst), seed, |random| rarely(random) * 0.0).whole;
            let [told, is, before, alone] = [
                &queue.without(&whole, &queue.waits(), &part, Remedied::Steady),
                &tried,
                &whole,
                &without(&whole, &part.serving, Remedied::Steady),
            ]
            .map(|times| Spread::of(times));
            for (told, is, before) in
                [(told.p99, is.p99, before.p99), (told.deviation, is.deviation, before.deviation)]
            {
                assert!((told / is - 1.0).abs() < 0.2 && is < before, "{seed}: {told} {is} {before}");
            }
            // Without the queue, the gain would be told as less than it is.
            assert!(alone.p99 > told.p99, "{seed}");
        }
    }

    #[test]
    fn a_part_that_is_always_as_long_changes_nothing() {
        let Simulated { whole, queue, part } = simulate(500, (0.6, 1), 9, |_| 0.25);
        let same = queue.without(&whole, &queue.waits(), &part, Remedied::Steady);
        assert!(whole.iter().zip(&same).all(|(one, other)| (one - other).abs() < 1e-9));
    }

    #[test]
    fn batches_are_what_the_wait_is_for_if_requests_come_in_such() {
        let evenly = simulate(2000, (0.2, 1), 5, |_| 0.0).queue;
        assert_eq!(evenly.by_batches(&evenly.waits()), None);
        let bursts = simulate(2000, (0.2, 5), 5, |_| 0.0).queue;
        let [less, all] =
            [bursts.by_batches(&bursts.waits()).unwrap(), bursts.waits()].map(|of| of.iter().sum::<f64>());
        assert!(less > 0.7 * all, "{less} {all}");
    }
}
