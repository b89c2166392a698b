//! Waits of the server for others of its process: condition variables that several wait for, safepoints, and locks that it
//! takes before it reads.

use xweave_trace::event::{Context, Kind, State};

use super::{
    mechanism::{Mechanism, Strike},
    path::Scene,
    service::{LOCK, QUEUE, RESULT, at_lock},
    stage::{Dispatch, Place, host},
    threads::{COLLECTOR, HOLDER, SERVER, VM_THREAD, WORKER},
};

/// Futexes of the server's process: one that all of its threads wait for at a safepoint, and those of the collector.
const SAFEPOINT: u64 = 0x7f12_0000_50c0;
const COLLECT: u64 = 0x7f12_0000_6100;
const COLLECTED: u64 = 0x7f12_0000_6140;

/// The CPU of the third thread that takes part.
const THIRD: Place = host(20);

impl Scene {
    /// A worker waits for work at the futex at which the server waits for its result.
    pub(super) fn share_condition(&mut self, at: i64, computes: i64) -> i64 {
        self.ask_worker_at((QUEUE, QUEUE), at, computes, 0)
    }

    /// The worker that computes the result tells all who wait for it, of whom another one is woken first and holds the lock for so
    /// long that all need next. Returns when the server goes on.
    pub(super) fn be_notified(&mut self, at: i64, computes: i64, holds: i64) -> i64 {
        let (server, beside) = (self.server, self.beside);
        // Another one waits for the same.
        let other = self.stage.run_other(THIRD, at - 60_000, HOLDER);
        let other = self.stage.put(THIRD, other + 2_000, Kind::LockWait, at_lock(RESULT));
        self.stage.put_to_sleep(THIRD, other + 900, State::Sleeping);
        let at = self.stage.put(server, at, Kind::LockWake, at_lock(QUEUE));
        let [at, runs] = self.wake_across(server, at + 500, WORKER, beside);
        let at = self.stage.put(server, at + 1_000, Kind::LockWait, at_lock(RESULT));
        self.stage.put_to_sleep(server, at + 900, State::Sleeping);
        let works = self.stage.put(beside, runs + 700, Kind::LockAcquired, at_lock(QUEUE));
        let works = (works + computes).max(at + 8_000).max(other + 20_000);
        let tells = self.stage.put(beside, works, Kind::LockWake, at_lock(RESULT));
        let first =
            self.stage.wake_and_run((beside, tells + 400, Context::Task), HOLDER, THIRD, Dispatch::Fast);
        let at =
            self.stage.wake_and_run((beside, tells + 900, Context::Task), SERVER, server, Dispatch::Fast);
        self.park_worker(at + 2_500);
        let first = self.stage.put(THIRD, first + 600, Kind::LockAcquired, at_lock(RESULT));
        let at = self.stage.put(server, at + 600, Kind::LockAcquired, at_lock(RESULT));
        if holds == 0 {
            // It tells others in turn.
            let first = self.stage.put(THIRD, first + 4_000, Kind::LockWake, at_lock(RESULT));
            self.stage.put_to_sleep(THIRD, first + 3_000, State::Sleeping);
            return at + 700;
        }
        let at = self.stage.put(server, at + 500, Kind::LockWait, at_lock(LOCK));
        let at = self.stage.put_to_sleep(server, at + 900, State::Sleeping);
        let gives = self.stage.put(THIRD, at + holds, Kind::LockWake, at_lock(LOCK));
        let at = self.stage.wake_and_run((THIRD, gives + 400, Context::Task), SERVER, server, Dispatch::Fast);
        self.stage.put_to_sleep(THIRD, gives + 9_000, State::Sleeping);
        let at = self.stage.put(server, at + 600, Kind::LockAcquired, at_lock(LOCK));
        let has = self.stage.draw(3_000, 12_000);
        self.stage.put(server, at + has, Kind::LockWake, at_lock(LOCK)) + 500
    }

    /// The server comes to a safepoint, at which all threads of its process wait until the collector has done. Returns when it
    /// goes on.
    pub(super) fn wait_at_safepoint(&mut self, at: i64, ns: i64) -> i64 {
        let (server, beside) = (self.server, self.beside);
        let begins = self.stage.run_other(beside, at - 60_000, VM_THREAD);
        let at = self.stage.put(server, at.max(begins + 4_000), Kind::LockWait, at_lock(SAFEPOINT));
        let at = self.stage.put_to_sleep(server, at + 900, State::Sleeping);
        // The one that leads has another do it, and waits.
        let leads = self.stage.put(beside, at + 2_000, Kind::LockWake, at_lock(COLLECT));
        let runs =
            self.stage.wake_and_run((beside, leads + 400, Context::Task), COLLECTOR, THIRD, Dispatch::Fast);
        let leads = self.stage.put(beside, leads + 2_500, Kind::LockWait, at_lock(COLLECTED));
        let leads = self.stage.put_to_sleep(beside, leads + 900, State::Sleeping);
        let done = self.stage.put(THIRD, (runs + ns).max(leads + 9_000), Kind::LockWake, at_lock(COLLECTED));
        let leads =
            self.stage.wake_and_run((THIRD, done + 400, Context::Task), VM_THREAD, beside, Dispatch::Fast);
        let done = self.stage.put(THIRD, done + 4_000, Kind::LockWait, at_lock(COLLECT));
        self.stage.put_to_sleep(THIRD, done + 900, State::Sleeping);
        let leads = self.stage.put(beside, leads + 700, Kind::LockAcquired, at_lock(COLLECTED));
        let leads = self.stage.put(beside, leads + 9_000, Kind::LockWake, at_lock(SAFEPOINT));
        let [leads, at] = self.wake_across(beside, leads + 500, SERVER, server);
        self.stage.put_to_sleep(beside, leads + 5_000, State::Sleeping);
        self.stage.put(server, at + 700, Kind::LockAcquired, at_lock(SAFEPOINT)) + 500
    }

    /// The server has been told of a request, and is kept before it reads that. Returns when it reads.
    pub(super) fn delay_reading(&mut self, at: i64, strike: Strike) -> i64 {
        match strike.0 {
            Some((Mechanism::LockBeforeRead, ns)) => self.take_lock(at + 900, ns),
            Some((Mechanism::SafepointBeforeRead, ns)) => self.wait_at_safepoint(at + 900, ns),
            Some((Mechanism::SleepsBeforeRead, ns)) => self.sleep_thread(self.server, SERVER, at + 900, ns),
            _ => at,
        }
    }
}
