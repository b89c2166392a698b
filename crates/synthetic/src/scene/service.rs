//! What the server does for a request, and what keeps it.

use xweave_trace::event::{Context, Event, Kind, Quota, State};

use super::{
    mechanism::{Mechanism, Strike},
    path::Scene,
    stage::{
        Bringer, Dispatch, EXIT_INTERRUPT, EXIT_IO, EXIT_MSR, EXIT_NPF, Place, RESCHEDULE, SOFT_BLOCK, TIMER,
        host,
    },
    threads::{HOG, HOLDER, OTHER, QEMU, SERVER, SHELL, VCPUS, WORKER},
};

/// The disk of each kernel, 254:0.
pub(super) const DISK: u64 = 254 << 20;

/// The number of the disk's interrupt.
pub(super) const DISK_IRQ: u64 = 27;

/// Futexes of the server's process: a lock, what a worker waits for, and a result.
pub(super) const LOCK: u64 = 0x7f12_0000_1040;
pub(super) const QUEUE: u64 = 0x7f12_0000_2080;
pub(super) const RESULT: u64 = 0x7f12_0000_30c0;
/// QEMU's lock.
const QEMU_LOCK: u64 = 0x5581_2200_4480;
/// A mutex of the kernel.
const MUTEX: u64 = 0xffff_8881_0234_5600;

/// The CPU of the host on which QEMU's other threads and shells run.
pub(super) const ASIDE: Place = host(4);

pub(super) fn at_lock(address: u64) -> impl Fn(&mut Event) {
    move |event: &mut Event| event.object = address
}

impl Scene {
    /// Before the requests: what waits for work from then on.
    pub(super) fn start_threads(&mut self, mechanism: Mechanism, at: i64) {
        let (server, beside) = (self.server, self.beside);
        let at = self.stage.run_other(server, at, SERVER);
        let at = self.wait_for_request(at + 4_000);
        if mechanism.has_worker() {
            let at = self.stage.run_other(beside, at, WORKER);
            self.park_worker(at + 2_000);
        }
    }

    /// Before a request that is struck: who has a CPU or a lock then.
    pub(super) fn prepare_strike(&mut self, strike: Strike, at: i64) {
        if let Some(occupant) = Self::find_occupant(strike) {
            self.stage.run_other(self.server, at, occupant);
        }
        match strike.0 {
            Some((
                Mechanism::FutexLock
                | Mechanism::KernelLock
                | Mechanism::LockBeforeRead
                | Mechanism::LockThenOther
                | Mechanism::PriorityInversion
                | Mechanism::LockHolderPreempted
                | Mechanism::LockHolderParavirt,
                _,
            )) => {
                self.stage.run_other(self.beside, at, HOLDER);
            }
            Some((Mechanism::QemuLock, _)) => {
                self.stage.run_other(ASIDE, at, QEMU);
            }
            Some((Mechanism::VhostWaits | Mechanism::NatVhostWaits | Mechanism::SpuriousRetransmit, _)) => {
                self.stage.run_other(super::path::VHOST_HOME, at, HOG);
            }
            Some((Mechanism::IrqVcpuPreempted, _)) => {
                self.stage.run_other(self.beside, at, OTHER);
            }
            Some((Mechanism::VcpuPreemptedAtWake | Mechanism::SpuriousRetransmitVcpu, _)) => {
                let home = self.stage.home_of(self.server);
                if self.stage.is_idle(home, at) {
                    self.stage.run_other(home, at, HOG);
                }
            }
            _ => {}
        }
    }

    /// The server works at a request, and is delayed. Returns when it answers.
    pub(super) fn serve_request(&mut self, at: i64, works: i64, mechanism: Mechanism, strike: Strike) -> i64 {
        let at = at + works / 2;
        let ns = strike.0.map_or(0, |strike| strike.1);
        let at = match (mechanism, strike.0.is_some()) {
            // Each request is given to a worker.
            (Mechanism::Future, _) => self.ask_worker(at, ns + works / 3, 0),
            (Mechanism::FutureAsleep, _) => self.ask_worker(at, works / 3, ns),
            (Mechanism::SharedCondition, _) => self.share_condition(at, ns + works / 3),
            (Mechanism::Notified, _) => self.be_notified(at, ns + works / 3, 0),
            (Mechanism::HeldWhenNotified, _) => self.be_notified(at, works / 3, ns.max(15_000)),
            (
                Mechanism::DiskByWorker
                | Mechanism::DiskByPoller
                | Mechanism::DiskByHandler
                | Mechanism::HandlerWaits,
                _,
            ) => self.read_by_others(at, ns, mechanism),
            (
                Mechanism::FanOutCompute
                | Mechanism::FanOutThenOther
                | Mechanism::FanOutDisk
                | Mechanism::FanOutRunQueue,
                _,
            ) => self.ask_backends(at, ns, mechanism),
            (Mechanism::DeviceByOther, _) => self.wait_for_device(at, ns + 60_000),
            (Mechanism::GuestByVhost, _) => self.ask_guest(at, ns + 90_000),
            (Mechanism::LoopAsksOthers, _) => self.ask_for_two(at, ns),
            (Mechanism::DiskThenOther, struck) => {
                let at = if struck { self.read_page(at, ns, mechanism) } else { at };
                self.serve_another(at)
            }
            (Mechanism::LockThenOther, struck) => {
                let at = if struck { self.take_lock(at, ns) } else { at };
                self.serve_another(at)
            }
            (Mechanism::TimerVcpuPreempted, _) => self.sleep_for_late_timer(at, ns),
            (_, _) if mechanism.delays_part_of_each_request() => self.read_through_host(at, strike),
            (_, false) => at,
            (Mechanism::Safepoint, _) => self.wait_at_safepoint(at, ns),
            (Mechanism::IoMax, _) => self.read_above_limit(at, ns),
            (Mechanism::Frozen, _) => self.freeze_server(at, ns),
            (Mechanism::LockHolderPreempted, _) => self.spin_for_preempted_holder(at, ns),
            (Mechanism::LockHolderParavirt, _) => self.halt_for_preempted_holder(at, ns),
            (Mechanism::PriorityInversion, _) => self.take_lock_of_preempted(at, ns),
            (Mechanism::QemuFrozen, _) if ns % 2 == 0 => self.delay_vcpu(at, ns, mechanism),
            (Mechanism::Compute, _) => at + ns,
            (Mechanism::VcpuPreempted | Mechanism::NatPreempted, _) => {
                self.stage.trap_to_host(self.server, at, EXIT_INTERRUPT, |stage, home, at| {
                    stage.preempt_thread(home, at, HOG, ns)
                })
            }
            (Mechanism::VcpuThrottled, _) => {
                self.stage.trap_to_host(self.server, at, EXIT_INTERRUPT, |stage, home, at| {
                    stage.throttle_thread(home, at, ns)
                })
            }
            (Mechanism::Throttled, _) => self.stage.throttle_thread(self.server, at, ns),
            (Mechanism::VcpuExits, _) => self.exit_repeatedly(at, ns),
            (Mechanism::FutexLock, _) => self.take_lock(at, ns),
            (Mechanism::KernelLock, _) => self.take_mutex(at, ns),
            (Mechanism::Stopped, _) => self.stop_server(at, ns),
            (Mechanism::SwapIn | Mechanism::PageFault | Mechanism::Disk, _) => {
                self.read_page(at, ns, mechanism)
            }
            (Mechanism::Sleeps, _) => self.sleep_in_service(at, ns),
            (Mechanism::QemuLock | Mechanism::HostSwapIn | Mechanism::QemuStopped, _) => {
                self.delay_vcpu(at, ns, mechanism)
            }
            _ => at,
        };
        at + works / 2
    }

    fn exit_repeatedly(&mut self, at: i64, ns: i64) -> i64 {
        let (mut at, end) = (at, at + ns);
        while at < end {
            let works = self.stage.draw(20_000, 90_000);
            at = self.stage.trap_to_host(self.server, at + 1_200, EXIT_IO, |_, _, at| at + works);
        }
        at
    }

    /// What runs on a CPU beside the server's wakes a thread there, and the other way round. Returns when the waker goes on, and
    /// when the other one runs.
    pub(super) fn wake_across(&mut self, from: Place, at: i64, thread: u32, to: Place) -> [i64; 2] {
        self.wake_from_context((from, at, Context::Task), thread, to)
    }

    /// The same, from a context.
    pub(super) fn wake_from_context(
        &mut self,
        (from, at, context): (Place, i64, Context),
        thread: u32,
        to: Place,
    ) -> [i64; 2] {
        if self.local {
            let runs = self.stage.wake_and_run((from, at, context), thread, to, Dispatch::Fast);
            return [at + 700, runs];
        }
        let at = self.stage.wake(from, at, context, thread, to, Quota::Left);
        // It tells the other CPU by an interrupt.
        let mut brought = 0;
        let at = self.stage.trap_to_host(from, at + 600, EXIT_MSR, |stage, home, at| {
            brought = stage.bring_interrupt(to, at, Bringer::From(home, Context::Task));
            at + 800
        });
        let irq = self.stage.take_interrupt(to, brought, RESCHEDULE);
        [at, self.stage.switch(to, irq + 500, thread, State::Runnable)]
    }

    pub(super) fn park_worker(&mut self, at: i64) {
        let at = self.stage.put(self.beside, at, Kind::LockWait, at_lock(QUEUE));
        self.stage.put_to_sleep(self.beside, at + 900, State::Sleeping);
    }

    /// The server gives work to a worker, which computes for so long and sleeps for so long, and waits for the result.
    fn ask_worker(&mut self, at: i64, computes: i64, sleeps: i64) -> i64 {
        self.ask_worker_at((QUEUE, RESULT), at, computes, sleeps)
    }

    /// The same, at these futexes: the worker's, and that of the result.
    pub(super) fn ask_worker_at(
        &mut self,
        (queue, result): (u64, u64),
        at: i64,
        computes: i64,
        sleeps: i64,
    ) -> i64 {
        let (server, beside) = (self.server, self.beside);
        let at = self.stage.put(server, at, Kind::LockWake, at_lock(queue));
        let [at, runs] = self.wake_across(server, at + 500, WORKER, beside);
        let at = self.stage.put(server, at + 1_000, Kind::LockWait, at_lock(result));
        self.stage.put_to_sleep(server, at + 900, State::Sleeping);
        let works = self.stage.put(beside, runs + 700, Kind::LockAcquired, at_lock(queue));
        let mut works = (works + computes).max(at + 8_000);
        if sleeps > 0 {
            works = self.sleep_thread(beside, WORKER, works, sleeps);
        }
        let works = self.stage.put(beside, works, Kind::LockWake, at_lock(result));
        let [works, at] = self.wake_across(beside, works + 500, SERVER, server);
        self.park_worker(works + 1_500);
        self.stage.put(server, at + 700, Kind::LockAcquired, at_lock(result)) + 500
    }

    /// The server needs a lock, which another thread holds for so long. Returns when the server has given it back.
    pub(super) fn take_lock(&mut self, at: i64, ns: i64) -> i64 {
        self.take_lock_when(at, |_, at| at + ns)
    }

    /// The same; `holds` is what becomes of the holder, from when the server sleeps, and returns when it gives the lock back.
    pub(super) fn take_lock_when(&mut self, at: i64, holds: impl FnOnce(&mut Self, i64) -> i64) -> i64 {
        let (server, beside) = (self.server, self.beside);
        let at = self.stage.put(server, at, Kind::LockWait, at_lock(LOCK));
        let at = self.stage.put_to_sleep(server, at + 1_000, State::Sleeping);
        let gives = holds(self, at);
        let gives = self.stage.put(beside, gives, Kind::LockWake, at_lock(LOCK));
        let [holder, at] = self.wake_across(beside, gives + 500, SERVER, server);
        self.stage.put_to_sleep(beside, holder + 9_000, State::Sleeping);
        let at = self.stage.put(server, at + 700, Kind::LockAcquired, at_lock(LOCK));
        // It has waited, so others may wait still, for all that it knows.
        let has = self.stage.draw(3_000, 12_000);
        self.stage.put(server, at + has, Kind::LockWake, at_lock(LOCK)) + 500
    }

    fn take_mutex(&mut self, at: i64, ns: i64) -> i64 {
        let (server, beside) = (self.server, self.beside);
        let at = self.stage.put(server, at, Kind::LockWait, at_lock(MUTEX));
        let at = self.stage.put_to_sleep(server, at + 1_000, State::Blocked);
        let [holder, at] = self.wake_across(beside, at + ns, SERVER, server);
        self.stage.put_to_sleep(beside, holder + 9_000, State::Sleeping);
        self.stage.put(server, at + 700, Kind::LockAcquired, at_lock(MUTEX)) + 3_000
    }

    fn stop_server(&mut self, at: i64, ns: i64) -> i64 {
        let at = self.stop_by_shell(at, State::Stopped);
        self.continue_by_shell(at + ns)
    }

    /// A shell on the CPU beside the server's has the server stop, which is told so by an interrupt and then is in that state.
    /// Returns when it has stopped; the shell still runs.
    pub(super) fn stop_by_shell(&mut self, at: i64, state: State) -> i64 {
        let (server, beside) = (self.server, self.beside);
        let shell = self.stage.run_other(beside, at - 60_000, SHELL);
        let by = Bringer::From(self.stage.home_of(beside), Context::Task);
        let at = self.stage.bring_interrupt(server, at.max(shell + 20_000), by);
        let at = self.stage.take_interrupt(server, at, RESCHEDULE);
        self.stage.put_to_sleep(server, at + 1_500, state)
    }

    /// The shell, which runs, lets the server go on, and sleeps. Returns when the server goes on.
    pub(super) fn continue_by_shell(&mut self, at: i64) -> i64 {
        let [shell, at] = self.wake_across(self.beside, at, SERVER, self.server);
        self.stage.put_to_sleep(self.beside, shell + 5_000, State::Sleeping);
        at + 900
    }

    fn sleep_in_service(&mut self, at: i64, ns: i64) -> i64 {
        self.put_decoys(at + 60_000, at + ns);
        self.sleep_thread(self.server, SERVER, at, ns)
    }

    /// A thread sleeps, and a timer wakes it.
    pub(super) fn sleep_thread(&mut self, place: Place, thread: u32, at: i64, ns: i64) -> i64 {
        let at = self.stage.put_to_sleep(place, at, State::Sleeping);
        let at = self.stage.bring_interrupt(place, at + ns, Bringer::Timer);
        self.wake_by_timer(place, at, thread)
    }

    /// The interrupt of a timer wakes a thread. Returns when that goes on.
    pub(super) fn wake_by_timer(&mut self, place: Place, at: i64, thread: u32) -> i64 {
        let at = self.stage.wake_by_interrupt(place, at, TIMER, thread);
        self.stage.switch(place, at + 800, thread, State::Runnable) + 300
    }

    /// The server waits for a disk: of the guest, for QEMU's thread that serves it.
    pub(super) fn read_page(&mut self, at: i64, ns: i64, why: Mechanism) -> i64 {
        let (server, begun, access) = (self.server, at, self.draw_access());
        let [at, served] = self.ask_disk(server, at, ns, access);
        self.stage.put_to_sleep(server, at + 1_100, State::Blocked);
        let at = self.bring_completion(server, served);
        let at = self.complete_access(server, at, SERVER, access);
        let at = at + self.stage.draw(900, 2_000);
        let took = at.abs_diff(begun);
        match why {
            Mechanism::SwapIn => self.stage.put(server, at, Kind::SwapIn, |event| {
                (event.bytes, event.code) = (took, 1);
            }),
            Mechanism::PageFault => {
                let name = self.stage.names.give("index.db");
                self.stage.put(server, at, Kind::PageFault, |event| {
                    (event.object, event.position, event.name) = (4_711, DISK, name);
                    (event.bytes, event.code) = (took, 1);
                })
            }
            _ => at,
        }
    }

    /// A disk's interrupt tells that an access is done, and wakes who waits for it. Returns when that runs.
    pub(super) fn complete_access(
        &mut self,
        place: Place,
        at: i64,
        thread: u32,
        access: impl Fn(&mut Event),
    ) -> i64 {
        let stage = &mut self.stage;
        let at = stage.put(place, at, Kind::IrqEnter, |event| event.object = DISK_IRQ);
        let soft = stage.random.percent(50);
        let (context, at) = if soft {
            let at = stage.put(place, at + 700, Kind::IrqExit, |event| event.object = DISK_IRQ);
            let at = stage.put(place, at + 150, Kind::SoftirqEnter, |event| {
                (event.object, event.code) = (SOFT_BLOCK, Context::Hard.code());
            });
            (Context::Softirq, at)
        } else {
            (Context::Hard, at)
        };
        let at = stage.put(place, at + 800, Kind::DiskComplete, access);
        let at = stage.wake(place, at + 500, context, thread, place, Quota::Left);
        let (kind, object) = if soft { (Kind::SoftirqExit, SOFT_BLOCK) } else { (Kind::IrqExit, DISK_IRQ) };
        let at = stage.put(place, at + 300, kind, |event| event.object = object);
        match stage.current_thread(place) {
            0 => stage.switch(place, at + 700, thread, State::Runnable),
            _ => stage.take_turn(place, at + 700, thread),
        }
    }

    /// The vCPU's thread waits in the host for something that is no halt.
    fn delay_vcpu(&mut self, at: i64, ns: i64, why: Mechanism) -> i64 {
        let (server, vcpu) = (self.server, VCPUS[0]);
        let home = self.stage.home_of(server);
        let number = 0;
        let reason = match why {
            Mechanism::QemuLock => EXIT_IO,
            Mechanism::HostSwapIn => EXIT_NPF,
            _ => EXIT_INTERRUPT,
        };
        let out = self.stage.exit_guest(number, at, reason);
        let at = match why {
            Mechanism::QemuLock => {
                let at = self.stage.put(home, out + 2_000, Kind::LockWait, at_lock(QEMU_LOCK));
                let at = self.stage.switch(home, at + 900, 0, State::Sleeping);
                let gives = self.stage.put(ASIDE, at + ns, Kind::LockWake, at_lock(QEMU_LOCK));
                let from = (ASIDE, gives + 500, Context::Task);
                let at = self.stage.wake_and_run(from, vcpu, home, Dispatch::Fast);
                self.stage.put_to_sleep(ASIDE, gives + 9_000, State::Sleeping);
                let at = self.stage.put(home, at + 600, Kind::LockAcquired, at_lock(QEMU_LOCK));
                self.stage.put(home, at + 9_000, Kind::LockWake, at_lock(QEMU_LOCK))
            }
            Mechanism::HostSwapIn => {
                let access = |event: &mut Event| {
                    (event.object, event.position, event.bytes, event.other) = (DISK, 88_000, 4096, 0x991);
                };
                let at = self.stage.put(home, out + 3_000, Kind::DiskQueue, access);
                let at = self.stage.put(home, at + 900, Kind::DiskIssue, access);
                let at = self.stage.switch(home, at + 900, 0, State::Blocked);
                let at = self.complete_access(home, at + ns, vcpu, access);
                let took = at.abs_diff(out);
                self.stage.put(home, at + 900, Kind::SwapIn, |event| {
                    (event.bytes, event.code) = (took, 1);
                })
            }
            _ => {
                let frozen = why == Mechanism::QemuFrozen;
                let state = if frozen { State::Sleeping } else { State::Stopped };
                let at = self.stage.switch(home, out + 2_000, 0, state);
                let shell = self.stage.run_other(ASIDE, at + ns, SHELL);
                let from = (ASIDE, shell + 3_000, Context::Task);
                let at = self.stage.wake_and_run(from, vcpu, home, Dispatch::Fast);
                self.stage.put_to_sleep(ASIDE, shell + 9_000, State::Sleeping);
                at
            }
        };
        self.stage.enter_guest(number, at + 1_500)
    }
}
