//! Limits and priorities: what may be asked of a disk, who may run at all, and who has a lock and may not run.

use xweave_trace::event::{Context, Kind, State};

use super::{
    backend::Serving,
    path::Scene,
    service::ASIDE,
    stage::{Dispatch, EXIT_HYPERCALL, EXIT_INTERRUPT, EXIT_PAUSE, Place, Stage},
    threads::{HOG, KWORKER, OTHER, SERVER, SHELL, VCPUS},
};

impl Scene {
    /// The server reads from a disk, and its control group has used up what it may ask of that (`io.max`). Kernels tell of the
    /// access as the server asks for it, or as a worker does later; others go on meanwhile.
    pub(super) fn read_above_limit(&mut self, at: i64, ns: i64) -> i64 {
        let (server, beside) = (self.server, self.beside);
        let (access, told_later) = (self.draw_access(), ns % 2 == 0);
        let mut at = at + 1_200;
        if !told_later {
            at = self.stage.put(server, at, Kind::DiskQueue, access);
        }
        let slept = self.stage.put_to_sleep(server, at + 1_100, State::Blocked);
        let end = slept + ns;
        let mut from = slept + 200_000;
        for _ in 0..self.stage.draw(0, 4) {
            let next = from + self.stage.draw(300_000, 900_000);
            if next + 600_000 > end {
                break;
            }
            let runs = self.stage.run_other(beside, from, OTHER);
            let read = self.read_quickly(beside, runs + 3_000, OTHER);
            self.stage.put_to_sleep(beside, read + 4_000, State::Sleeping);
            from = next.max(self.stage.last_time(beside) + 100_000);
        }
        let runs = self.stage.run_other(beside, end.max(from), KWORKER);
        let at = if told_later { self.stage.put(beside, runs + 900, Kind::DiskQueue, access) } else { runs };
        let at = self.stage.put(beside, at + 700, Kind::DiskIssue, access);
        let [at, raises] = self.pass_to_disk(beside, at);
        self.stage.put_to_sleep(beside, at + 2_000, State::Sleeping);
        let at = self.raise_interrupt(server, raises);
        self.complete_access(server, at, SERVER, access) + 1_500
    }

    /// A thread reads from the disk, which is quick.
    fn read_quickly(&mut self, place: Place, at: i64, thread: u32) -> i64 {
        let access = self.draw_access();
        let at = self.stage.put(place, at, Kind::DiskQueue, access);
        let at = self.stage.put(place, at + 700, Kind::DiskIssue, access);
        let [at, raises] = self.pass_to_disk(place, at);
        self.stage.put_to_sleep(place, at + 1_000, State::Blocked);
        let at = self.raise_interrupt(place, raises);
        self.complete_access(place, at, thread, access)
    }

    /// The disk has an access for a moment: the device itself, or a guest's. Returns when the CPU goes on, and when the interrupt
    /// comes.
    fn pass_to_disk(&mut self, place: Place, at: i64) -> [i64; 2] {
        let device = self.stage.draw(60_000, 150_000);
        if self.local { [at + 500, at + device] } else { self.serve_access(place, at, Serving::soon(device)) }
    }

    /// The server's control group is frozen by a shell, and let go on later; the shell sleeps meanwhile.
    pub(super) fn freeze_server(&mut self, at: i64, ns: i64) -> i64 {
        let beside = self.beside;
        let at = self.stop_by_shell(at, State::Sleeping);
        let shell = self.stage.last_time(beside).max(at);
        self.stage.put_to_sleep(beside, shell + 5_000, State::Sleeping);
        let thaws = self.stage.run_other(beside, at + ns, SHELL);
        self.continue_by_shell(thaws + 3_000)
    }

    /// The server spins for a lock of the guest's kernel, whose holder's vCPU has lost its CPU.
    pub(super) fn spin_for_preempted_holder(&mut self, at: i64, ns: i64) -> i64 {
        let end = self.preempt_holder(at, ns);
        let (most_inside, most_outside) = (self.stage.draw(4_000, 30_000), self.stage.draw(3_000, 30_000));
        let mut at = at;
        while at < end {
            let works = self.stage.draw(2_000, most_outside);
            at = self.stage.trap_to_host(self.server, at, EXIT_PAUSE, |_, _, at| at + works);
            at += self.stage.draw(3_000, most_inside);
        }
        self.stage.put_to_sleep(self.beside, end + 9_000, State::Sleeping);
        at
    }

    /// The same, of a guest whose spin locks halt after a while, until who lets go calls the hypervisor.
    pub(super) fn halt_for_preempted_holder(&mut self, at: i64, ns: i64) -> i64 {
        self.stage.halt_spinning(self.server, at + 6_000);
        let gives = self.preempt_holder(at, ns) + 3_000;
        let (server, mut brought) = (self.server, 0);
        let at = self.stage.trap_to_host(self.beside, gives, EXIT_HYPERCALL, |stage, home, at| {
            brought = stage.kick_spinning(server, (home, at, Context::Task));
            at + 800
        });
        self.stage.put_to_sleep(self.beside, at + 9_000, State::Sleeping);
        brought + 1_000
    }

    /// The vCPU of who holds a lock loses its CPU. Returns when it runs again.
    fn preempt_holder(&mut self, at: i64, ns: i64) -> i64 {
        self.stage.trap_to_host(self.beside, at, EXIT_INTERRUPT, |stage, home, at| {
            stage.preempt_thread(home, at, HOG, ns)
        })
    }

    /// The server needs a lock whose holder is ready, and another program has that one's CPU.
    pub(super) fn take_lock_of_preempted(&mut self, at: i64, ns: i64) -> i64 {
        self.take_lock_when(at, |scene, at| scene.stage.preempt_thread(scene.beside, at, OTHER, ns) + 9_000)
    }
}

impl Stage {
    /// A vCPU that had halted is frozen with all of QEMU, and an interrupt for it comes at that time; a shell lets QEMU go on so
    /// long after. Returns when the guest takes the interrupt; none if the vCPU does not sleep.
    pub(super) fn resume_frozen(&mut self, place: Place, at: i64, ns: i64) -> Option<i64> {
        let home = self.home_of(place);
        let freezes = at - 60_000;
        if home == place || !self.is_idle(home, freezes) || self.current_thread(ASIDE) != 0 {
            return None;
        }
        let vcpu = VCPUS[usize::try_from(place.cpu).ok()?];
        let shell = self.run_other(ASIDE, freezes.max(self.last_time(ASIDE) + 100), SHELL);
        let from = (ASIDE, shell + 3_000, Context::Task);
        let runs = self.wake_and_run(from, vcpu, home, Dispatch::Fast);
        let told = self.tell_halt(place, runs + 600);
        self.switch(home, told + 2_500, 0, State::Sleeping);
        self.put_to_sleep(ASIDE, shell + 9_000, State::Sleeping);
        let shell = self.run_other(ASIDE, at + ns, SHELL);
        let from = (ASIDE, shell + 3_000, Context::Task);
        let runs = self.wake_and_run(from, vcpu, home, Dispatch::Fast);
        self.put_to_sleep(ASIDE, shell + 9_000, State::Sleeping);
        Some(self.resume_at_once(place, runs + 1_500))
    }
}
