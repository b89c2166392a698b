//! A server that asks several others at once, and answers when it has all their answers.

use xweave_trace::event::{Connection, Context, Kind, Sending, State};

use super::{
    mechanism::{Mechanism, Strike},
    path::{Reads, Scene},
    stage::{Dispatch, Place, SOFT_NET_RX, host},
    threads::{BACKENDS, HOG, SERVER},
};

/// The one among them that is slow.
const SLOW: usize = 1;

/// Bytes of a question and of an answer.
const QUESTION: u64 = 120;
const REPLY: u64 = 900;

/// A backend that has begun to answer.
#[derive(Clone, Copy, Debug)]
struct Reply {
    nth: usize,
    /// When it sends.
    sends: i64,
}

impl Scene {
    /// The CPU of a backend.
    fn backend_home(nth: usize) -> Place {
        host(20 + u32::try_from(nth).unwrap_or(0))
    }

    /// The connection to a backend, as the server calls it.
    fn backend_connection(nth: usize) -> Connection {
        Connection((50_001 + nth as u64) << 16 | (7_001 + nth as u64))
    }

    /// What runs on a CPU sends something over the loopback device, which wakes a thread, if that waits. Returns when it goes on,
    /// and when the other one runs.
    fn send_over_loopback(
        &mut self,
        place: Place,
        at: i64,
        (of, bytes): (Connection, u64),
        to: Option<(u32, Place, Dispatch)>,
    ) -> [i64; 2] {
        let at = self.put_message(Kind::Send, place, at, of, bytes, Sending::Begins.code().into());
        let mut runs = at;
        let at = self.run_softirq(place, at + 900, None, (SOFT_NET_RX, Context::Task), |scene, at| {
            if let Some((thread, home, how)) = to {
                runs = scene.stage.wake_and_run((place, at, Context::Softirq), thread, home, how);
            }
            at + 300
        });
        [at, runs]
    }

    /// The server asks all backends, and goes on when it has all their answers; the slow one is delayed. Returns when.
    pub(super) fn ask_backends(&mut self, at: i64, ns: i64, mechanism: Mechanism) -> i64 {
        let turns = [[0, 1, 2], [1, 0, 2], [2, 0, 1]];
        let asks = turns[self.stage.random.place(turns.len())];
        let mut at = at;
        let mut replies: Vec<Reply> = Vec::new();
        for nth in asks {
            let delay = if nth == SLOW { ns } else { 0 };
            let (goes, sends) = self.ask_backend(nth, at, delay, mechanism);
            replies.push(Reply { nth, sends });
            at = goes + self.stage.draw(1_500, 4_000);
        }
        match self.reads {
            Reads::InOrder(order) => {
                replies.sort_by_key(|reply| order.iter().position(|nth| *nth == reply.nth));
            }
            Reads::AsTheyCome => replies.sort_by_key(|reply| reply.sends),
        }
        let at = self.read_replies(at, &replies);
        if mechanism == Mechanism::FanOutThenOther { self.serve_another(at) } else { at }
    }

    /// The server asks the slow one, and another one for the request of another client that comes meanwhile. It reads whatever
    /// comes, and answers that one first. Returns when it has the slow one's answer.
    pub(super) fn ask_for_two(&mut self, at: i64, ns: i64) -> i64 {
        let (server, other) = (self.server, Self::ELSEWHERE);
        self.reads = Reads::AsTheyCome;
        let (goes, sends) = self.ask_backend(SLOW, at, ns + 150_000, Mechanism::FanOutCompute);
        let slow = Reply { nth: SLOW, sends };
        let asleep = self.stage.put_to_sleep(server, goes + 2_000, State::Sleeping);
        let (_, came) = self.send_request(other, asleep + 15_000 + ns / 4, Strike::NONE);
        let at = self.receive_request(other, came, Self::BYTES);
        // Both answers may come at once, and the other one is read last.
        let delay = if self.stage.random.percent(50) { (sends - at - 90_000).max(0) } else { 0 };
        let (goes, sends) = self.ask_backend(0, at + 3_000, delay, Mechanism::FanOutCompute);
        let fast = Reply { nth: 0, sends };
        let replies = if delay > 0 { [slow, fast] } else { [fast, slow] };
        let at = if delay > 0 {
            self.read_replies(goes + 2_000, &replies)
        } else {
            self.read_replies(goes + 2_000, &replies[..1])
        };
        let [goes, run] = self.send_answer(other, at + 3_000, Strike::NONE);
        let got = self.deliver_answer(other, run, Strike::NONE);
        let got = self.receive_answer(other, got, 3);
        self.end_request(other, got);
        if delay > 0 { goes } else { self.read_replies(goes + 2_000, &replies[1..]) }
    }

    /// The server asks one. Returns when it goes on, and when that one answers.
    fn ask_backend(&mut self, nth: usize, at: i64, delay: i64, mechanism: Mechanism) -> (i64, i64) {
        let (home, tid) = (Self::backend_home(nth), BACKENDS[nth]);
        let of = Self::backend_connection(nth);
        let how = match mechanism {
            Mechanism::FanOutRunQueue if delay > 0 => Dispatch::Behind(HOG, delay),
            _ => Dispatch::Fast,
        };
        let to = Some((tid, home, how));
        let [goes, runs] = self.send_over_loopback(self.server, at, (of, QUESTION), to);
        let at = self.put_message(Kind::Receive, home, runs + 900, of.peer(), QUESTION, 350);
        let works = self.stage.draw(20_000, 60_000);
        let sends = match mechanism {
            Mechanism::FanOutDisk if delay > 0 => {
                let access = self.draw_access();
                let [at, served] = self.ask_disk(home, at + works / 2, delay, access);
                self.stage.put_to_sleep(home, at + 1_100, State::Blocked);
                self.complete_access(home, served, tid, access) + works / 2
            }
            Mechanism::FanOutCompute | Mechanism::FanOutThenOther => at + works + delay,
            _ => at + works,
        };
        (goes, sends)
    }

    /// The server reads answers in this order, and waits for those that are not there.
    fn read_replies(&mut self, at: i64, replies: &[Reply]) -> i64 {
        let (server, in_order) = (self.server, self.reads != Reads::AsTheyCome);
        let mut at = at;
        for Reply { nth, sends } in replies.iter().copied() {
            let (home, of) = (Self::backend_home(nth), Self::backend_connection(nth));
            let answer = (of.peer(), REPLY);
            let (call, waits) = (at, sends > at + 3_000);
            if waits {
                self.stage.put_to_sleep(server, at + 900, State::Sleeping);
            }
            let to = waits.then_some((SERVER, server, Dispatch::Fast));
            let [goes, runs] = self.send_over_loopback(home, sends, answer, to);
            self.stage.put_to_sleep(home, goes + 4_000, State::Sleeping);
            at = if waits { runs } else { at.max(sends + 2_500) };
            let lasted = if waits && in_order { at + 900 - call + 200 } else { 350 };
            at = self.put_message(Kind::Receive, server, at + 900, of, REPLY, lasted) + 1_500;
        }
        at
    }
}
