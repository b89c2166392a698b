//! Puts requests one after the other, of which a mechanism delays some.

use xweave_trace::event::{Kind, State};

use super::{
    mechanism::{Mechanism, Strike},
    path::Scene,
    stage::{SOFT_TIMER, host},
    threads::{KWORKER, SERVER},
};

/// A time in which something happened, in nanoseconds.
pub(super) type Span = (i64, i64);

/// Requests of a world: those that were delayed, and others.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) struck: Vec<Span>,
    pub(super) typical: Vec<Span>,
}

impl Scene {
    /// All requests of a world.
    pub(super) fn run(&mut self, mechanism: Mechanism, blocking: bool, begin: i64) -> Asked {
        let mut asked = Asked::default();
        let count = self.stage.between(60, 200);
        let every = self.stage.between(3, 10);
        let lasts = self.stage.between(2_000_000, 12_000_000);
        let clients = if blocking { 1 } else { self.stage.between(1, 4) };
        let mut at = begin;
        for nth in 0..count {
            at += self.stage.between(700_000, 4_000_000);
            at = at.max(self.quiet());
            self.noise(at - 400_000);
            let struck = nth > 2 && self.stage.between(0, every) == 0;
            let ns = self.stage.between(lasts / 2, lasts * 3 / 2);
            let strike = Strike(struck.then_some((mechanism, ns)));
            let client = usize::try_from(self.stage.between(0, clients)).unwrap_or(0);
            let at = at.max(self.quiet());
            let spans = match mechanism {
                Mechanism::Batches if struck => self.batch(at),
                Mechanism::SocketQueue if struck => vec![self.behind(client, Self::ELSEWHERE, at, ns)],
                _ if !blocking && !struck && self.stage.random.percent(8) => {
                    let short = self.stage.between(10_000, 90_000);
                    vec![self.behind(client, (client + 1) % 3, at, short)]
                }
                _ => vec![self.request(client, at, mechanism, strike)],
            };
            if struck { &mut asked.struck } else { &mut asked.typical }.extend(spans);
        }
        asked
    }

    /// When all CPUs have done what was put.
    fn quiet(&self) -> i64 {
        let all = (0..24).map(host).chain([self.server, self.beside]);
        all.map(|place| self.stage.last(place)).max().unwrap_or(0) + 300_000
    }

    fn noise(&mut self, at: i64) {
        for _ in 0..self.stage.between(0, 3) {
            let cpu = u32::try_from(self.stage.between(0, 5)).unwrap_or(0);
            let long = self.stage.between(3_000, 40_000);
            if self.stage.idles(host(cpu), at) {
                let runs = self.stage.run_other(host(cpu), at, KWORKER);
                self.stage.sleep(host(cpu), runs + long, State::Sleeping);
            }
        }
        if !self.local && self.stage.random.percent(20) && self.stage.current(self.server) == 0 {
            let server = self.server;
            let runs = self.stage.run_other(server, at.max(self.stage.last(server) + 250_000), KWORKER);
            let long = self.stage.between(3_000, 40_000);
            self.stage.sleep(server, runs + long, State::Sleeping);
        }
        if self.stage.random.percent(20) {
            let cpu = host(u32::try_from(self.stage.between(0, 5)).unwrap_or(0));
            if self.stage.idles(cpu, at + 100_000) {
                self.stage.tick(cpu, at + 100_000);
            }
        }
    }

    fn works(&mut self) -> i64 {
        self.stage.between(25_000, 110_000)
    }

    /// A request and its answer, alone. Returns when the client sent it, and received the answer.
    fn request(&mut self, nth: usize, at: i64, mechanism: Mechanism, strike: Strike) -> Span {
        self.set_up(strike, at - 150_000);
        // vhost may be late on either way.
        let back = strike.0.is_some_and(|(mechanism, ns)| {
            matches!(mechanism, Mechanism::VhostWaits | Mechanism::VhostPreempted) && ns % 2 == 0
        });
        let (there, back) = if back { (Strike::NONE, strike) } else { (strike, Strike::NONE) };
        let (begun, arrived) = self.arrives(nth, at, there);
        let at = self.takes(nth, arrived, Self::BYTES);
        let works = self.works();
        let at = self.serves(at, works, mechanism, strike);
        let [goes, run] = self.answers(nth, at, back);
        self.server_waits(goes);
        let mut got = self.carry_out(nth, run, back);
        if let Some((Mechanism::AnswerHeld, ns)) = strike.0 {
            let at = self.client_takes(nth, got, 1);
            let at = self.client_waits(nth, at);
            self.decoys(at + 60_000, at + ns);
            got = self.acknowledged_late(nth, at, ns);
            got = self.client_takes(nth, got, 2);
        } else {
            got = self.client_takes(nth, got, 3);
        }
        self.client_rests(nth, got);
        (begun, got)
    }

    /// A request is sent, and comes to the server. Returns when it was sent, and when the server can take it.
    fn arrives(&mut self, nth: usize, at: i64, strike: Strike) -> Span {
        let half = Self::BYTES / 2;
        let (begun, arrived) = match strike.0 {
            Some((Mechanism::Qdisc | Mechanism::Netem | Mechanism::QdiscUnseen, ns)) => {
                let sent = self.begins(nth, at, Self::BYTES);
                self.decoys(sent + 60_000, sent + ns);
                let run = self.held(nth, sent, ns);
                (sent, self.carry_in(run, strike))
            }
            Some((Mechanism::Retransmit | Mechanism::WindowClosed, ns)) => {
                let sent = self.begins(nth, at, Self::BYTES);
                let waits = self.client_waits(nth, sent);
                let lost = matches!(strike.0, Some((Mechanism::Retransmit, _)));
                let again = self.again(nth);
                self.decoys(waits + 60_000, waits + ns);
                let run = self.timer_lets_go(nth, waits + ns, SOFT_TIMER, |stage, place, at| {
                    if lost { stage.put(place, at + 700, Kind::Retransmit, again) } else { at + 700 }
                });
                (sent, self.carry_in(run, strike))
            }
            Some((Mechanism::AddressLate, ns)) => {
                let sent = self.begins(nth, at, Self::BYTES);
                self.decoys(sent + 60_000, sent + ns);
                (sent, self.asks_address(nth, sent, ns))
            }
            Some((Mechanism::Nagle, ns)) => {
                let sent = self.begins(nth, at, half);
                let run = self.sets_out(nth, sent, strike);
                let second = self.begins(nth, sent + 6_000, half);
                self.client_waits(nth, second);
                let at = self.carry_in(run, strike);
                let at = self.takes(nth, at, half);
                let at = self.server_waits(at);
                self.decoys(at + 60_000, at + ns);
                (sent, self.acknowledges_late(at, ns))
            }
            Some((Mechanism::SecondHalfLate, ns)) => {
                let sent = self.begins(nth, at, half);
                let run = self.sets_out(nth, sent, strike);
                let client = self.client(nth);
                let at = self.carry_in(run, strike);
                let at = self.takes(nth, at, half);
                let waits = self.server_waits(at);
                self.decoys(waits + 60_000, sent + ns);
                let wakes = self.sleeps_at(client.home, client.tid, sent + 8_000, ns);
                let second = self.begins(nth, wakes, half);
                let run = self.sets_out(nth, second, strike);
                self.client_waits(nth, second + 2_000);
                (sent, self.carry_in(run, strike))
            }
            _ => {
                let sent = self.begins(nth, at, Self::BYTES);
                let run = self.sets_out(nth, sent, strike);
                self.client_waits(nth, sent + 2_000);
                (sent, self.carry_in(run, strike))
            }
        };
        (begun, arrived)
    }

    /// A client's request comes while the server is at another one's, which takes so long.
    fn behind(&mut self, nth: usize, first: usize, at: i64, ns: i64) -> Span {
        let (_, arrived) = self.arrives(first, at, Strike::NONE);
        let at = self.takes(first, arrived, Self::BYTES);
        let (sent, came) = self.arrives(nth, at + 2_000, Strike::NONE);
        debug_assert_eq!(self.stage.current(self.server), SERVER);
        let [goes, run] = self.answers(first, (at + ns).max(came + 1_000), Strike::NONE);
        let got = self.carry_out(first, run, Strike::NONE);
        let got = self.client_takes(first, got, 3);
        self.client_rests(first, got);
        let at = self.takes(nth, goes + 1_000, Self::BYTES);
        let works = self.works();
        let [goes, run] = self.answers(nth, at + works, Strike::NONE);
        self.server_waits(goes);
        let got = self.carry_out(nth, run, Strike::NONE);
        let got = self.client_takes(nth, got, 3);
        self.client_rests(nth, got);
        (sent, got)
    }

    /// Requests of several clients at once, which the server takes one after the other.
    fn batch(&mut self, at: i64) -> Vec<Span> {
        let of = usize::try_from(self.stage.between(5, 10)).unwrap_or(5);
        let works = self.stage.between(150_000, 400_000);
        let mut at = at;
        let sent: Vec<Span> = (0..of)
            .map(|nth| {
                at += 3_000;
                self.arrives(nth, at, Strike::NONE)
            })
            .collect();
        let mut serves = sent.iter().map(|(_, came)| *came).max().unwrap_or(at);
        let mut all = Vec::new();
        for (nth, (sent, _)) in sent.into_iter().enumerate() {
            let at = self.takes(nth, serves, Self::BYTES);
            let [goes, run] = self.answers(nth, at + works, Strike::NONE);
            serves = goes;
            if nth + 1 == of {
                self.server_waits(goes);
            }
            let got = self.carry_out(nth, run, Strike::NONE);
            let got = self.client_takes(nth, got, 3);
            self.client_rests(nth, got);
            all.push((sent, got));
        }
        all
    }
}
