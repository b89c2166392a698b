//! Puts requests one after the other, of which a mechanism delays some.

use xweave_trace::event::{HoldReason, Kind, State};

use super::{
    mechanism::{Mechanism, SpentForOthers, Strike},
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
    pub(super) fn run_requests(&mut self, mechanism: Mechanism, blocking: bool, begin: i64) -> Asked {
        let mut asked = Asked::default();
        let count = self.stage.draw(60, 200);
        let every = self.stage.draw(3, 10);
        let lasts = self.stage.draw(2_000_000, 12_000_000);
        let clients = if blocking { 1 } else { self.stage.draw(1, 4) };
        let mut at = begin;
        for nth in 0..count {
            at += self.stage.draw(700_000, 4_000_000);
            at = at.max(self.quiet_time());
            self.put_noise(at - 400_000);
            let struck = nth > 2 && self.stage.draw(0, every) == 0;
            let ns = self.stage.draw(lasts / 2, lasts * 3 / 2);
            let strike = Strike(struck.then_some((mechanism, ns)));
            let client = usize::try_from(self.stage.draw(0, clients)).unwrap_or(0);
            let at = at.max(self.quiet_time());
            let spans = match mechanism {
                Mechanism::Batches if struck => self.run_batch(at),
                Mechanism::SocketQueue | Mechanism::BehindDisk | Mechanism::BehindSleep if struck => {
                    let spent = strike.spent_for_others();
                    vec![self.run_behind(client, Self::ELSEWHERE, at, ns, spent)]
                }
                _ if !blocking
                    && !struck
                    && !mechanism.delays_part_of_each_request()
                    && self.stage.random.percent(8) =>
                {
                    let short = self.stage.draw(10_000, 90_000);
                    let runs = SpentForOthers::Running;
                    vec![self.run_behind(client, (client + 1) % 3, at, short, runs)]
                }
                _ => vec![self.run_request(client, at, mechanism, strike)],
            };
            if struck { &mut asked.struck } else { &mut asked.typical }.extend(spans);
        }
        asked
    }

    /// When all CPUs have done what was put.
    fn quiet_time(&self) -> i64 {
        let all = (0..24).map(host).chain([self.server, self.beside]);
        all.map(|place| self.stage.last_time(place)).max().unwrap_or(0) + 300_000
    }

    fn put_noise(&mut self, at: i64) {
        for _ in 0..self.stage.draw(0, 3) {
            let cpu = u32::try_from(self.stage.draw(0, 5)).unwrap_or(0);
            let long = self.stage.draw(3_000, 40_000);
            if self.stage.is_idle(host(cpu), at) {
                let runs = self.stage.run_other(host(cpu), at, KWORKER);
                self.stage.put_to_sleep(host(cpu), runs + long, State::Sleeping);
            }
        }
        if !self.local && self.stage.random.percent(20) && self.stage.current_thread(self.server) == 0 {
            let server = self.server;
            let runs = self.stage.run_other(server, at.max(self.stage.last_time(server) + 250_000), KWORKER);
            let long = self.stage.draw(3_000, 40_000);
            self.stage.put_to_sleep(server, runs + long, State::Sleeping);
        }
        if self.stage.random.percent(20) {
            let cpu = host(u32::try_from(self.stage.draw(0, 5)).unwrap_or(0));
            if self.stage.is_idle(cpu, at + 100_000) {
                self.stage.tick_timer(cpu, at + 100_000);
            }
        }
    }

    fn draw_work(&mut self) -> i64 {
        self.stage.draw(25_000, 110_000)
    }

    /// A request and its answer, alone. Returns when the client sent it, and received the answer.
    fn run_request(&mut self, nth: usize, at: i64, mechanism: Mechanism, strike: Strike) -> Span {
        self.prepare_strike(strike, at - 150_000);
        // vhost may be late on either way.
        let back = strike.0.is_some_and(|(mechanism, ns)| {
            let of_vhost = matches!(
                mechanism,
                Mechanism::VhostWaits | Mechanism::VhostPreempted | Mechanism::NatVhostWaits
            );
            of_vhost && ns % 2 == 0
        });
        let (there, back) = if back { (Strike::NONE, strike) } else { (strike, Strike::NONE) };
        let (begun, arrived) = self.send_request(nth, at, there);
        let arrived = self.delay_reading(arrived, strike);
        let at = self.receive_request(nth, arrived, Self::BYTES);
        let works = self.draw_work();
        let at = self.serve_request(at, works, mechanism, strike);
        let [mut goes, run] = self.send_answer(nth, at, back);
        if matches!(strike.0, Some((Mechanism::AnswerHeld, _))) {
            goes = self.hold_answer_back(nth, goes);
        }
        let waits = self.wait_for_request(goes);
        let run = match strike.0 {
            Some((Mechanism::AnswerAgainLate, ns)) => self.answer_again_late(nth, waits, run, ns),
            _ => run,
        };
        let mut got = self.deliver_answer(nth, run, back);
        if let Some((Mechanism::AnswerHeld, ns)) = strike.0 {
            let at = self.receive_answer(nth, got, 1);
            let at = self.wait_for_answer(nth, at);
            self.put_decoys(at + 60_000, at + ns);
            got = self.acknowledge_answer_late(nth, at, ns);
            got = self.receive_answer(nth, got, 2);
        } else {
            got = self.receive_answer(nth, got, 3);
        }
        self.end_request(nth, got);
        (begun, got)
    }

    /// A request is sent, and comes to the server. Returns when it was sent, and when the server can take it.
    pub(super) fn send_request(&mut self, nth: usize, at: i64, strike: Strike) -> Span {
        let half = Self::BYTES / 2;
        let (begun, arrived) = match strike.0 {
            Some((Mechanism::Qdisc | Mechanism::Netem, ns)) => {
                let sent = self.begin_request(nth, at, Self::BYTES);
                self.put_decoys(sent + 60_000, sent + ns);
                let run = self.hold_in_qdisc(nth, sent, ns);
                (sent, self.deliver_request(run, strike))
            }
            Some((Mechanism::Retransmit | Mechanism::WindowClosed, ns)) => {
                let mut sent = self.begin_request(nth, at, Self::BYTES);
                let lost = matches!(strike.0, Some((Mechanism::Retransmit, _)));
                if !lost {
                    sent = self.hold_request_back(nth, sent, HoldReason::ReceiveWindow);
                }
                let waits = self.wait_for_answer(nth, sent);
                let again = self.fill_retransmit(nth);
                let released = self.fill_release(nth);
                self.put_decoys(waits + 60_000, waits + ns);
                let run = self.release_by_timer(nth, waits + ns, SOFT_TIMER, |stage, place, at| {
                    if lost {
                        stage.put(place, at + 700, Kind::Retransmit, again)
                    } else {
                        stage.put(place, at + 700, Kind::TcpRelease, released)
                    }
                });
                (sent, self.deliver_request(run, strike))
            }
            Some((Mechanism::SpuriousRetransmit | Mechanism::SpuriousRetransmitVcpu, ns)) => {
                self.send_request_twice(nth, at, strike, ns)
            }
            Some((Mechanism::AddressLate, ns)) => {
                let sent = self.begin_request(nth, at, Self::BYTES);
                self.put_decoys(sent + 60_000, sent + ns);
                (sent, self.resolve_address_late(nth, sent, ns))
            }
            Some((Mechanism::Nagle, ns)) => {
                let sent = self.begin_request(nth, at, half);
                let run = self.transmit_request(nth, sent, strike);
                let second = self.begin_request(nth, sent + 6_000, half);
                let second = self.hold_request_back(nth, second, HoldReason::Nagle);
                self.wait_for_answer(nth, second);
                let at = self.deliver_request(run, strike);
                let at = self.receive_request(nth, at, half);
                let at = self.wait_for_request(at);
                self.put_decoys(at + 60_000, at + ns);
                (sent, self.acknowledge_request_late(nth, at, ns))
            }
            Some((Mechanism::SecondHalfLate, ns)) => {
                let sent = self.begin_request(nth, at, half);
                let run = self.transmit_request(nth, sent, strike);
                let client = self.client(nth);
                let at = self.deliver_request(run, strike);
                let at = self.receive_request(nth, at, half);
                let waits = self.wait_for_request(at);
                self.put_decoys(waits + 60_000, sent + ns);
                let wakes = self.sleep_thread(client.home, client.tid, sent + 8_000, ns);
                let second = self.begin_request(nth, wakes, half);
                let run = self.transmit_request(nth, second, strike);
                self.wait_for_answer(nth, second + 2_000);
                (sent, self.deliver_request(run, strike))
            }
            _ => {
                let sent = self.begin_request(nth, at, Self::BYTES);
                let run = self.transmit_request(nth, sent, strike);
                self.wait_for_answer(nth, sent + 2_000);
                (sent, self.deliver_request(run, strike))
            }
        };
        (begun, arrived)
    }

    /// A client's request comes while the server is at another one's, which takes so long.
    fn run_behind(&mut self, nth: usize, first: usize, at: i64, ns: i64, spent: SpentForOthers) -> Span {
        let (_, arrived) = self.send_request(first, at, Strike::NONE);
        let at = self.receive_request(first, arrived, Self::BYTES);
        let (sent, came) = self.send_request(nth, at + 2_000, Strike::NONE);
        debug_assert_eq!(self.stage.current_thread(self.server), SERVER);
        let done = match spent {
            SpentForOthers::Running => at + ns,
            SpentForOthers::Disk => self.read_page(came + 1_000, ns, Mechanism::Disk),
            SpentForOthers::Sleeping => self.sleep_thread(self.server, SERVER, came + 1_000, ns),
        };
        let [goes, run] = self.send_answer(first, done.max(came + 1_000), Strike::NONE);
        let got = self.deliver_answer(first, run, Strike::NONE);
        let got = self.receive_answer(first, got, 3);
        self.end_request(first, got);
        let at = self.receive_request(nth, goes + 1_000, Self::BYTES);
        let works = self.draw_work();
        let [goes, run] = self.send_answer(nth, at + works, Strike::NONE);
        self.wait_for_request(goes);
        let got = self.deliver_answer(nth, run, Strike::NONE);
        let got = self.receive_answer(nth, got, 3);
        self.end_request(nth, got);
        (sent, got)
    }

    /// While the server is at a request and has not answered it, it reads and answers another client's. Returns when it goes on.
    pub(super) fn serve_another(&mut self, at: i64) -> i64 {
        let other = Self::ELSEWHERE;
        let (_, came) = self.send_request(other, at + 500, Strike::NONE);
        let at = self.receive_request(other, came + 700, Self::BYTES);
        let [goes, run] = self.send_answer(other, at + 4_000, Strike::NONE);
        let got = self.deliver_answer(other, run, Strike::NONE);
        let got = self.receive_answer(other, got, 3);
        self.end_request(other, got);
        goes
    }

    /// Requests of several clients at once, which the server takes one after the other.
    fn run_batch(&mut self, at: i64) -> Vec<Span> {
        let of = usize::try_from(self.stage.draw(5, 10)).unwrap_or(5);
        let works = self.stage.draw(150_000, 400_000);
        let mut at = at;
        let sent: Vec<Span> = (0..of)
            .map(|nth| {
                at += 3_000;
                self.send_request(nth, at, Strike::NONE)
            })
            .collect();
        let mut serves = sent.iter().map(|(_, came)| *came).max().unwrap_or(at);
        let mut all = Vec::new();
        for (nth, (sent, _)) in sent.into_iter().enumerate() {
            let at = self.receive_request(nth, serves, Self::BYTES);
            let [goes, run] = self.send_answer(nth, at + works, Strike::NONE);
            serves = goes;
            if nth + 1 == of {
                self.wait_for_request(goes);
            }
            let got = self.deliver_answer(nth, run, Strike::NONE);
            let got = self.receive_answer(nth, got, 3);
            self.end_request(nth, got);
            all.push((sent, got));
        }
        all
    }
}
