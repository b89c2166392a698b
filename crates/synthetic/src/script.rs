//! What threads do, step by step.

use crate::{
    id::Thread,
    state::{DISPATCHER, POOL, Role, SERVER, STORE, Simulation, Step, TASK},
};

impl Simulation {
    /// The next steps of a thread that has none left.
    pub(crate) fn script(&mut self, thread: Thread) -> Vec<Step> {
        match self.threads[thread].role {
            Role::Client => {
                let mut steps = vec![self.short(), Step::Begin];
                for _ in 0..self.random.between(1, 6) {
                    self.part_of_transaction(thread, &mut steps);
                }
                let pause = self.random.between(100_000, 4_000_000);
                steps.extend([self.short(), Step::End, Step::Sleep(pause)]);
                steps
            }
            Role::Server(_) => vec![Step::Serve],
            Role::Carrier => vec![Step::Carry],
            Role::Other => {
                let work = self.random.between(500_000, 9_000_000);
                vec![Step::Work(work), Step::Sleep(self.random.between(3_000_000, 30_000_000))]
            }
            Role::Child => {
                let mut steps = vec![self.short()];
                self.read(thread, &mut steps);
                steps.extend([self.short(), Step::Exit, Step::Work(900), Step::Die]);
                steps
            }
            Role::Vcpu => vec![Step::Work(1)],
        }
    }

    /// What a server does for a call.
    pub(crate) fn service(&mut self, server: Thread) -> Vec<Step> {
        let domain = self.threads[server].domain;
        let mut steps = vec![self.short()];
        match self.random.between(0, 6) {
            0 => self.read(server, &mut steps),
            1 => self.lock(server, &mut steps),
            2 | 3 if matches!(self.threads[server].role, Role::Server(SERVER) | Role::Carrier) => {
                let stores = &self.domains[domain].servers[STORE];
                let store = stores[self.random.place(stores.len())];
                steps.push(Step::Ask(store, 0));
            }
            _ => {}
        }
        steps.push(self.short());
        steps
    }

    fn short(&mut self) -> Step {
        let work = self.random.between(5_000, 150_000);
        Step::Work(work)
    }

    fn part_of_transaction(&mut self, thread: Thread, steps: &mut Vec<Step>) {
        steps.push(self.short());
        match self.random.between(0, 100) {
            0..15 => steps.push(Step::Work(self.random.between(50_000, 1_000_000))),
            15..18 => steps.push(Step::Work(self.random.between(1_000_000, 8_000_000))),
            18..30 => steps.push(Step::Sleep(self.random.between(20_000, 2_000_000))),
            30..50 => self.lock(thread, steps),
            50..72 => self.read(thread, steps),
            72..92 => {
                let level = [SERVER, TASK, TASK, POOL, DISPATCHER][self.random.place(5)];
                self.ask(thread, self.threads[thread].domain, level, steps);
            }
            92..97 => {
                let own = self.threads[thread].domain;
                let other = if self.abroad { self.random.place(self.domains.len()) } else { own };
                let level = [SERVER, TASK, DISPATCHER][self.random.place(3)];
                self.ask(thread, other, level, steps);
            }
            _ => steps.push(Step::Fork),
        }
    }

    fn ask(&mut self, thread: Thread, domain: usize, level: usize, steps: &mut Vec<Step>) {
        let domain = &self.domains[domain];
        let task = domain.runtime.tasks.get(&thread).filter(|_| level == TASK);
        let servers = task.map_or(&domain.servers[level][..], std::slice::from_ref);
        if servers.is_empty() {
            return;
        }
        let server = servers[self.random.place(servers.len())];
        if matches!(level, SERVER | TASK) && self.random.percent(self.pipelined) {
            for _ in 0..self.random.between(1, 4) {
                steps.push(Step::AskAhead(server));
                steps.push(Step::Work(self.random.between(1_000, 60_000)));
            }
        }
        let sleep = if self.random.percent(15) { self.random.between(200_000, 3_000_000) } else { 0 };
        steps.push(Step::Ask(server, sleep));
    }

    fn lock(&mut self, thread: Thread, steps: &mut Vec<Step>) {
        let locks = &self.domains[self.threads[thread].domain].locks;
        let lock = locks[self.random.place(locks.len())];
        steps.push(Step::Take(lock));
        steps.push(Step::Work(self.random.between(10_000, 500_000)));
        if self.random.percent(15) {
            self.read(thread, steps);
        }
        steps.push(Step::Give(lock));
    }

    /// One access, or several that lie side by side, of which the last is waited for.
    fn read(&mut self, thread: Thread, steps: &mut Vec<Step>) {
        let disks = &self.domains[self.threads[thread].domain].disks;
        let disk = disks[self.random.place(disks.len())];
        // Each thread has files of its own, as the page cache reads no page twice at once; or all read the same few
        // without it.
        let place = match self.random.percent(20) {
            true => self.random.between(0, 3).unsigned_abs(),
            false => self.random.between(1, 4_000).unsigned_abs() * 64 + thread as u64 % 64,
        };
        let mut position = place * 512;
        for _ in 0..self.random.between(0, 3) {
            steps.extend([Step::Read(disk, position, 16 << 10, false), Step::Work(900)]);
            position += 32;
        }
        let pages = self.random.between(1, 40).unsigned_abs();
        steps.push(Step::Read(disk, position, pages << 12, true));
    }
}
