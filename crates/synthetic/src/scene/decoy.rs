//! What happens beside a request that waits, and has nothing to do with that: other programs, and other packets.

use xweave_trace::event::{Context, Kind, Quota, State};

use super::{
    path::{Scene, VHOST_HOME},
    stage::{Bringer, Dispatch, SOFT_NET_RX, host},
    threads::{HOG, KWORKER, OTHER, VHOST},
};

/// The CPU of the host that takes interrupts of other devices.
const ELSEWHERE: super::stage::Place = host(5);

impl Scene {
    /// Puts some of that between two times, on CPUs that nothing else is put on meanwhile.
    pub(super) fn put_decoys(&mut self, from: i64, to: i64) {
        let mut at = from;
        for _ in 0..self.stage.draw(0, 4) {
            let left = to - at - 150_000;
            if left < 100_000 {
                return;
            }
            let lasts = self.stage.draw(40_000, left);
            match self.stage.draw(0, if self.local { 2 } else { 5 }) {
                0 => self.occupy_cpu(host(4), at, HOG, lasts),
                1 => self.occupy_cpu(ELSEWHERE, at, KWORKER, lasts),
                2 => self.occupy_cpu(self.stage.home_of(self.server), at, HOG, lasts),
                3 => self.run_in_guest(at, lasts),
                _ => self.carry_other_packet(at, lasts),
            }
            at += lasts + 60_000;
        }
    }

    /// Another thread has an idle CPU of the host.
    fn occupy_cpu(&mut self, place: super::stage::Place, at: i64, other: u32, lasts: i64) {
        if self.stage.is_idle(place, at) {
            let runs = self.stage.run_other(place, at, other);
            self.stage.put_to_sleep(place, runs + lasts, State::Sleeping);
        }
    }

    /// Another program runs on the server's CPU, if that idles.
    fn run_in_guest(&mut self, at: i64, lasts: i64) {
        let server = self.server;
        if self.stage.current_thread(server) == 0 && self.stage.last_time(server) + 20_000 < at {
            let runs = self.stage.run_other(server, at, OTHER);
            self.stage.put_to_sleep(server, runs + lasts, State::Sleeping);
        }
    }

    /// A packet of somebody else comes for the guest: vhost waits for its CPU, and the guest takes it in a softirq.
    fn carry_other_packet(&mut self, at: i64, lasts: i64) {
        let server = self.server;
        if !self.stage.is_idle(VHOST_HOME, at) || self.stage.current_thread(server) != 0 {
            return;
        }
        let mut run = 0;
        self.run_softirq(ELSEWHERE, at, Some(40), (SOFT_NET_RX, Context::Hard), |scene, at| {
            let from = (ELSEWHERE, at, Context::Softirq);
            run = scene.stage.wake_and_run(from, VHOST, VHOST_HOME, Dispatch::Behind(HOG, lasts));
            at + 500
        });
        let by = Bringer::From(VHOST_HOME, Context::Task);
        let brought = self.stage.bring_interrupt(server, run + 2_500, by);
        self.put_vhost_to_sleep(run + 5_000);
        let wakes = self.stage.random.percent(50);
        let at = self.run_softirq(server, brought, Some(25), (SOFT_NET_RX, Context::Hard), |scene, at| {
            if wakes {
                scene.stage.wake(server, at, Context::Softirq, KWORKER, server, Quota::Left) + 300
            } else {
                at + 900
            }
        });
        if wakes {
            let runs = self.stage.switch(server, at + 900, KWORKER, State::Runnable);
            self.stage.put(server, runs + 3_000, Kind::LockWait, |event| event.object = 0x7f00_0000_9000);
            self.stage.put_to_sleep(server, runs + 9_000, State::Sleeping);
        } else {
            self.stage.idle_again(server, at + 600);
        }
    }
}
