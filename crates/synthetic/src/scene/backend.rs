//! A guest's disk as its host serves it, and vCPUs that are late for an interrupt: QEMU's thread waits for a CPU, the host's
//! disk is slow, a timer of the guest has to wait for its vCPU.

use xweave_trace::event::{Access, Context, Event, Kind, State};

use super::{
    mechanism::{Mechanism, Strike},
    path::Scene,
    service::{ASIDE, DISK},
    stage::{Bringer, Dispatch, EXIT_NPF, Place, SOFT_TIMER, TIMER},
    threads::{HOG, IOTHREAD, OTHER, SERVER},
};

/// How QEMU's thread serves an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serving {
    /// How it comes to its CPU.
    pub(super) dispatch: Dispatch,
    /// For how long it then loses that, in nanoseconds.
    pub(super) preempted: i64,
    /// For how long it sleeps, as the guest has used up what it may ask for.
    pub(super) throttled: i64,
    /// For how long a disk of the host has the access.
    pub(super) device: i64,
}

impl Serving {
    pub(super) fn soon(device: i64) -> Self {
        Self { dispatch: Dispatch::Fast, preempted: 0, throttled: 0, device }
    }
}

impl Scene {
    /// An access to any place of a disk, which each event that tells of it is filled with.
    pub(super) fn draw_access(&mut self) -> impl Fn(&mut Event) + Copy + use<> {
        let position = 8 * self.stage.draw(1_000, 900_000).unsigned_abs();
        let bio = u32::try_from(position & 0xffff).unwrap_or(1) | 0x1_0000;
        move |event: &mut Event| {
            (event.object, event.position, event.bytes, event.other) = (DISK, position, 16 << 10, bio);
            event.code = Access::Read.code();
        }
    }

    /// The server reads from the guest's disk, which a disk of the host is behind.
    pub(super) fn read_through_host(&mut self, at: i64, strike: Strike) -> i64 {
        let server = self.server;
        let (why, ns) = strike.0.map_or((None, 0), |(why, ns)| (Some(why), ns));
        // Longer than KVM polls, so that the vCPU sleeps.
        let device = self.stage.draw(250_000, 290_000);
        let serving = match why {
            Some(Mechanism::IothreadWaits) => {
                Serving { dispatch: Dispatch::Behind(HOG, ns), ..Serving::soon(device) }
            }
            Some(Mechanism::IothreadPreempted) => Serving { preempted: ns, ..Serving::soon(device) },
            Some(Mechanism::HostDiskSlow) => Serving::soon(device + ns),
            Some(Mechanism::QemuThrottles) => Serving { throttled: ns, ..Serving::soon(device) },
            _ => Serving::soon(device),
        };
        let access = self.draw_access();
        let at = self.stage.put(server, at + 1_200, Kind::DiskQueue, access);
        let at = self.stage.put(server, at + 900, Kind::DiskIssue, access);
        let [at, raises] = self.serve_access(server, at, serving);
        let slept = self.stage.put_to_sleep(server, at + 1_100, State::Blocked);
        let by = Bringer::From(ASIDE, Context::Task);
        let at = match why {
            Some(Mechanism::DiskVcpuPreempted) => {
                self.stage.bring_interrupt_when(server, raises, by, Dispatch::Behind(HOG, ns))
            }
            Some(Mechanism::DiskVcpuPreemptedBefore) => {
                self.stage.run_other(server, slept + 90_000, OTHER);
                self.stage.resume_preempted(server, raises, HOG, ns)
            }
            _ => self.stage.bring_interrupt(server, raises, by),
        };
        self.stage.put_to_sleep(ASIDE, raises + 9_000, State::Sleeping);
        self.complete_access(server, at, SERVER, access) + 1_500
    }

    /// QEMU's thread serves an access that was issued on a CPU of the guest. Returns when that goes on, and when the thread,
    /// which runs, is about to raise the guest's interrupt.
    pub(super) fn serve_access(&mut self, place: Place, at: i64, how: Serving) -> [i64; 2] {
        let mut runs = 0;
        let goes_on = self.stage.trap_to_host(place, at + 500, EXIT_NPF, |stage, home, at| {
            runs = stage.wake_and_run((home, at, Context::Task), IOTHREAD, ASIDE, how.dispatch);
            at + 400
        });
        let mut at = runs + 3_000;
        if how.preempted > 0 {
            at = self.stage.preempt_thread(ASIDE, at, HOG, how.preempted) + 1_500;
        }
        if how.throttled > 0 {
            let asleep = self.stage.put_to_sleep(ASIDE, at, State::Sleeping);
            at = self.stage.run_other(ASIDE, asleep + how.throttled, IOTHREAD) + 2_000;
        }
        let access = self.draw_access();
        let at = self.stage.put(ASIDE, at, Kind::DiskQueue, access);
        let at = self.stage.put(ASIDE, at + 900, Kind::DiskIssue, access);
        self.stage.put_to_sleep(ASIDE, at + 2_500, State::Sleeping);
        [goes_on, self.complete_access(ASIDE, at + how.device, IOTHREAD, access) + 3_000]
    }

    /// The server sleeps for a time; the timer that wakes it has to wait for so long until its vCPU has a CPU.
    pub(super) fn sleep_for_late_timer(&mut self, at: i64, ns: i64) -> i64 {
        let sleeps = self.stage.draw(250_000, 290_000);
        let at = self.stage.put_to_sleep(self.server, at, State::Sleeping);
        let at = self.bring_timer_late(at + sleeps, ns);
        self.wake_by_timer(self.server, at, SERVER)
    }

    /// A timer of the guest is over, for which a vCPU that had halted has to be woken, and to wait for so long behind another
    /// thread. Returns when the guest takes the interrupt.
    fn bring_timer_late(&mut self, at: i64, ns: i64) -> i64 {
        let home = self.stage.home_of(self.server);
        if ns > 0 && self.stage.is_idle(home, at - 30_000) {
            self.stage.run_other(home, at - 30_000, HOG);
            return self.stage.bring_interrupt_when(
                self.server,
                at,
                Bringer::Timer,
                Dispatch::Behind(HOG, ns),
            );
        }
        self.stage.bring_interrupt(self.server, at, Bringer::Timer)
    }

    /// The answer, which vhost has, is lost in the host, and the guest's timer that sends it again is late. Returns when vhost
    /// has it again.
    pub(super) fn answer_again_late(&mut self, nth: usize, at: i64, run: i64, ns: i64) -> i64 {
        self.put_vhost_to_sleep(run + 4_000);
        let waits = self.stage.draw(400_000, 600_000);
        let brought = self.bring_timer_late(at + waits, ns);
        let (place, again) = (self.server, self.fill_answer_again(nth));
        let mut runs = 0;
        let at = self.run_softirq(place, brought, Some(TIMER), (SOFT_TIMER, Context::Hard), |scene, at| {
            let at = scene.stage.put(place, at + 700, Kind::Retransmit, again);
            let [at, run] = scene.kick_vhost(place, at + 700, Strike::NONE);
            runs = run;
            at
        });
        self.stage.idle_again(place, at + 600);
        runs
    }

    /// The request is late on its way, and TCP sends it again meanwhile, though nothing is lost. Returns when it was sent, and
    /// when the server can take it.
    pub(super) fn send_request_twice(&mut self, nth: usize, at: i64, strike: Strike, ns: i64) -> (i64, i64) {
        let sent = self.begin_request(nth, at, Self::BYTES);
        let run = self.transmit_request(nth, sent, strike);
        let waits = self.wait_for_answer(nth, sent + 2_000);
        let (home, again) = (self.client(nth).home, self.fill_retransmit(nth));
        self.run_softirq(home, waits + ns / 2, Some(TIMER), (SOFT_TIMER, Context::Hard), |scene, at| {
            scene.stage.put(home, at + 700, Kind::Retransmit, again) + 900
        });
        (sent, self.deliver_request(run, strike))
    }
}
