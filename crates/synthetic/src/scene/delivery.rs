//! Threads that end the server's wait and are not whom it waited for: those of the kernel that do I/O for others, and handlers
//! of interrupts that are threads.

use xweave_trace::event::{Context, Event, Kind, Quota, State};

use super::{
    mechanism::Mechanism,
    path::Scene,
    service::{ASIDE, DISK_IRQ},
    stage::{Bringer, Dispatch, EXIT_NPF, Place, host},
    threads::{
        BRINGER, HANDLER, HOG, IO_POLLER, IO_WORKER, IOTHREAD, OTHER, OTHER_VCPU, OTHER_VHOST, SERVER,
    },
};

/// The CPU of threads that bring what the server waits for, and the interrupt of a device of the host.
const BROUGHT_AT: Place = host(20);
const DEVICE_IRQ: u64 = 41;

/// How long an access takes that is not delayed.
const SHORT: i64 = 90_000;

impl Scene {
    /// The server reads from a disk, and who has it go on is another thread. Returns when it goes on.
    pub(super) fn read_by_others(&mut self, at: i64, ns: i64, mechanism: Mechanism) -> i64 {
        match mechanism {
            Mechanism::DiskByWorker => self.read_by_worker(at, SHORT + ns),
            Mechanism::DiskByPoller => self.read_by_poller(at, SHORT + ns),
            Mechanism::HandlerWaits => self.read_by_handler(at, SHORT, ns),
            _ => self.read_by_handler(at, SHORT + ns, 0),
        }
    }

    /// What runs on a CPU asks a disk for something; a guest's, QEMU's thread serves. Returns when it goes on, and when that is
    /// done.
    pub(super) fn ask_disk(
        &mut self,
        place: Place,
        at: i64,
        ns: i64,
        access: impl Fn(&mut Event) + Copy,
    ) -> [i64; 2] {
        let at = self.stage.put(place, at + 1_200, Kind::DiskQueue, access);
        let at = self.stage.put(place, at + 900, Kind::DiskIssue, access);
        let mut served = at + ns;
        let at = self.stage.trap_to_host(place, at + 500, EXIT_NPF, |stage, home, at| {
            let runs = stage.wake_and_run((home, at, Context::Task), IOTHREAD, ASIDE, Dispatch::Fast);
            let asleep = stage.put_to_sleep(ASIDE, runs + 4_000, State::Sleeping);
            served = (asleep + ns).max(at + ns);
            at + 400
        });
        [at, served]
    }

    /// A disk has done something: a guest's CPU is told by QEMU's thread. Returns when the interrupt comes.
    pub(super) fn bring_completion(&mut self, place: Place, served: i64) -> i64 {
        if self.local {
            return served;
        }
        let runs = self.stage.run_other(ASIDE, served, IOTHREAD);
        self.raise_interrupt(place, runs + 3_000)
    }

    /// QEMU's thread, which runs, raises the interrupt of a guest's disk, and sleeps; a machine's own disk does so itself.
    /// Returns when the interrupt comes.
    pub(super) fn raise_interrupt(&mut self, place: Place, at: i64) -> i64 {
        if self.local {
            return at;
        }
        let comes = self.stage.bring_interrupt(place, at, Bringer::From(ASIDE, Context::Task));
        self.stage.put_to_sleep(ASIDE, at + 6_000, State::Sleeping);
        comes
    }

    /// A worker of the server's io_uring makes the call that reads, and sleeps in it.
    fn read_by_worker(&mut self, at: i64, ns: i64) -> i64 {
        let (server, beside, access) = (self.server, self.beside, self.draw_access());
        let [at, runs] = self.wake_across(server, at, IO_WORKER, beside);
        self.stage.put_to_sleep(server, at + 1_500, State::Sleeping);
        let [at, served] = self.ask_disk(beside, runs + 900, ns, access);
        self.stage.put_to_sleep(beside, at + 1_100, State::Blocked);
        let at = self.bring_completion(beside, served);
        let at = self.complete_access(beside, at, IO_WORKER, access);
        let [at, runs] = self.wake_across(beside, at + 900, SERVER, server);
        self.stage.put_to_sleep(beside, at + 2_000, State::Sleeping);
        runs + 700
    }

    /// The kernel's thread that polls the server's io_uring asks the disk, and sees that it is done: it runs all the time.
    fn read_by_poller(&mut self, at: i64, ns: i64) -> i64 {
        let (server, beside, access) = (self.server, self.beside, self.draw_access());
        let polls = self.stage.run_other(beside, at - 60_000, IO_POLLER);
        let at = at.max(polls + 9_000);
        self.stage.put_to_sleep(server, at + 1_500, State::Sleeping);
        let [at, served] = self.ask_disk(beside, at + 900, ns, access);
        let served = self.bring_completion(beside, served.max(at + 9_000));
        let at = self.stage.put(beside, served, Kind::IrqEnter, |event| event.object = DISK_IRQ);
        let at = self.stage.put(beside, at + 800, Kind::DiskComplete, access);
        let at = self.stage.put(beside, at + 400, Kind::IrqExit, |event| event.object = DISK_IRQ);
        let [at, runs] = self.wake_across(beside, at + 1_900, SERVER, server);
        self.stage.put_to_sleep(beside, at + 20_000, State::Sleeping);
        runs + 700
    }

    /// The server waits for a device, whose interrupt wakes a thread of the kernel that then wakes the server. Before that, the
    /// thread waits for its CPU for others, and sleeps again. Returns when the server goes on.
    pub(super) fn wait_for_device(&mut self, at: i64, ns: i64) -> i64 {
        let server = self.server;
        self.stage.run_other(BROUGHT_AT, at - 40_000, HOG);
        let at = self.stage.put_to_sleep(server, at + 1_500, State::Sleeping);
        let stage = &mut self.stage;
        let asked = stage.wake_by_interrupt(BROUGHT_AT, at + ns / 10, DEVICE_IRQ, BRINGER);
        let runs = stage.switch(BROUGHT_AT, asked + ns / 10 * 7, BRINGER, State::Sleeping);
        stage.put_to_sleep(BROUGHT_AT, runs + 5_000, State::Sleeping);
        let comes = stage.wake_by_interrupt(BROUGHT_AT, at + ns, DEVICE_IRQ, BRINGER);
        let runs = stage.switch(BROUGHT_AT, comes + 900, BRINGER, State::Runnable);
        let from = (BROUGHT_AT, runs + 2_000, Context::Task);
        let at = self.stage.wake_and_run(from, SERVER, server, Dispatch::Fast);
        self.stage.put_to_sleep(BROUGHT_AT, runs + 6_000, State::Sleeping);
        at + 700
    }

    /// The server has a guest do something, by vhost, which brings the result: after other packets, for which it waits for its CPU.
    /// Returns when the server goes on.
    pub(super) fn ask_guest(&mut self, at: i64, ns: i64) -> i64 {
        let (server, vcpu_home) = (self.server, host(21));
        let from = (server, at, Context::Task);
        let runs = self.stage.wake_and_run(from, OTHER_VHOST, BROUGHT_AT, Dispatch::Fast);
        let at = self.stage.put_to_sleep(server, at + 2_500, State::Sleeping);
        let from = (BROUGHT_AT, runs + 2_000, Context::Task);
        let enters = self.stage.wake_and_run(from, OTHER_VCPU, vcpu_home, Dispatch::Fast);
        self.stage.put_to_sleep(BROUGHT_AT, runs + 5_000, State::Sleeping);
        let enters = self.stage.put(vcpu_home, enters + 800, Kind::VmEnter, |_| ());
        self.stage.run_other(BROUGHT_AT, at + ns / 20, HOG);
        let stage = &mut self.stage;
        let asked = stage.wake_by_interrupt(BROUGHT_AT, at + ns / 10, DEVICE_IRQ, OTHER_VHOST);
        let runs = stage.switch(BROUGHT_AT, asked + ns / 10 * 6, OTHER_VHOST, State::Sleeping);
        let slept = stage.put_to_sleep(BROUGHT_AT, runs + 5_000, State::Sleeping);
        let done = (enters + ns).max(slept + 20_000);
        let done = stage.put(vcpu_home, done, Kind::VmExit, |event| event.code = EXIT_NPF);
        let from = (vcpu_home, done + 600, Context::Task);
        let runs = stage.wake_and_run(from, OTHER_VHOST, BROUGHT_AT, Dispatch::Fast);
        stage.put_to_sleep(vcpu_home, done + 6_000, State::Sleeping);
        let from = (BROUGHT_AT, runs + 2_000, Context::Task);
        let at = stage.wake_and_run(from, SERVER, server, Dispatch::Fast);
        stage.put_to_sleep(BROUGHT_AT, runs + 6_000, State::Sleeping);
        at + 700
    }

    /// The server reads itself, and the disk's interrupt only wakes a thread that handles it, which another program keeps from
    /// its CPU for so long.
    fn read_by_handler(&mut self, at: i64, ns: i64, kept: i64) -> i64 {
        let (server, access) = (self.server, self.draw_access());
        let [at, served] = self.ask_disk(server, at, ns, access);
        self.stage.put_to_sleep(server, at + 1_100, State::Blocked);
        if kept > 0 {
            self.stage.run_other(server, served - 30_000, OTHER);
        }
        let at = self.bring_completion(server, served);
        let stage = &mut self.stage;
        let at = stage.wake_by_interrupt(server, at, DISK_IRQ, HANDLER);
        let state = if kept > 0 { State::Runnable } else { State::Sleeping };
        let at = stage.switch(server, at + 700 + kept, HANDLER, state);
        let at = stage.put(server, at + 1_300, Kind::DiskComplete, access);
        let at = stage.wake(server, at + 600, Context::Task, SERVER, server, Quota::Left);
        stage.switch(server, at + 1_900, SERVER, State::Sleeping) + 600
    }
}
