//! A process to be borrowed: a child that does one thing again and again, and sees each time that nothing has changed.
//!
//! It is forked, and so may do nothing but make system calls and change memory.

use std::{
    arch::global_asm,
    fs::{self, File},
    io,
    mem::{offset_of, size_of},
    os::unix::fs::FileExt,
    ptr,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::{Duration, Instant},
};

use crate::mark::{Marker, Range};

/// Conditions are waited for that long, and then the test fails.
const DEADLINE: Duration = Duration::from_secs(10);

/// Its memory, of which tests mark parts.
const MEMORY: usize = 1 << 20;
const ALTERNATE_STACK: usize = 64 << 10;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Sleeps,
    WaitsForFutex,
    Polls,
    Reads,
    /// Runs, and has a value in each register.
    Spins,
    SpinsWithSignals,
    ReadsWithSignals,
    /// Waits for a signal that it blocks otherwise.
    Suspends,
    /// Reads, under a seccomp filter that allows all, one that does not allow io_uring_setup, and one that allows neither
    /// that nor madvise to mark memory.
    ReadsFiltered,
    ReadsForbidden,
    ReadsForbiddenBoth,
    /// Waits as for a child of vfork, which can be ended, but not stopped.
    WaitsForChild,
}

/// What both see.
#[repr(C)]
pub(super) struct Shared {
    /// How often it has done it.
    rounds: AtomicU32,
    /// What was wrong, if something was.
    wrong: AtomicU32,
    futex: AtomicU32,
    /// Signals handled.
    handled: AtomicU32,
    /// Whether it has begun.
    begun: AtomicU32,
}

pub(super) struct Target {
    pub(super) pid: u32,
    does: Does,
    shared: &'static Shared,
    memory: u64,
    pipe: [i32; 2],
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn handle(_: i32) {
    HANDLED.fetch_add(1, SeqCst);
}

impl Target {
    pub(super) fn start(does: Does) -> Self {
        let map = |bytes, kind| {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: new memory, where the kernel likes.
            let memory =
                unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind | libc::MAP_ANONYMOUS, -1, 0) };
            assert_ne!(memory, libc::MAP_FAILED, "{}", io::Error::last_os_error());
            memory
        };
        // SAFETY: memory of zeros, which is never unmapped, as large as is needed and aligned.
        let shared: &'static Shared = unsafe { &*map(size_of::<Shared>(), libc::MAP_SHARED).cast() };
        let (memory, stack) = (map(MEMORY, libc::MAP_PRIVATE), map(ALTERNATE_STACK, libc::MAP_PRIVATE));
        let mut pipe = [0; 2];
        // SAFETY: two descriptors are written.
        assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        // SAFETY: the child makes system calls only.
        let pid = match unsafe { libc::fork() } {
            0 => Child { does, shared, stack: stack.expose_provenance(), pipe: pipe[0] }.alone().run(),
            pid => u32::try_from(pid).expect("a child"),
        };
        let target = Self { pid, does, shared, memory: memory.addr() as u64, pipe };
        target.until("it begins", || target.shared.begun.load(SeqCst) == 1);
        target.waits();
        target
    }

    /// Waits until it waits, if that is what it does.
    fn waits(&self) {
        if !matches!(self.does, Does::Spins | Does::SpinsWithSignals) {
            self.until("it waits", || self.status("State").starts_with(['S', 'D']));
        }
    }

    /// Opened, or the test fails and shows how it is.
    pub(super) fn opened(&self) -> Marker {
        Marker::open(self.pid).unwrap_or_else(|error| panic!("{:?}: {error}; {}", self.does, self.state()))
    }

    pub(super) fn range(&self, page: u64, pages: u64) -> Range {
        Range { start: self.memory + page * 4096, length: pages * 4096 }
    }

    pub(super) fn status(&self, key: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
        value.trim().to_owned()
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < DEADLINE, "{:?}: not in time: {what}; {}", self.does, self.state());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn state(&self) -> String {
        let read = |file| fs::read_to_string(format!("/proc/{}/{file}", self.pid)).unwrap_or_default();
        format!("wrong {}, in {}\n{}", self.shared.wrong.load(SeqCst), read("syscall"), read("status"))
    }

    /// Whether the pages of its memory are marked.
    pub(super) fn marked(&self) -> Vec<bool> {
        let smaps = fs::read_to_string(format!("/proc/{}/smaps", self.pid)).unwrap();
        let mut marked = vec![false; MEMORY / 4096];
        let mut mapping = 0..0;
        for line in smaps.lines() {
            let first = line.split(' ').next().unwrap_or("");
            let address = |text| u64::from_str_radix(text, 16).ok();
            if let Some((from, to)) = first.split_once('-')
                && let (Some(from), Some(to)) = (address(from), address(to))
            {
                mapping = from..to;
            } else if let Some(flags) = line.strip_prefix("VmFlags:") {
                let is_marked = flags.split_whitespace().any(|flag| flag == "mg");
                for (page, marked) in marked.iter_mut().enumerate() {
                    *marked |= is_marked && mapping.contains(&(self.memory + 4096 * page as u64));
                }
            }
        }
        marked
    }

    /// Rings that it has open.
    pub(super) fn rings(&self) -> usize {
        let links = fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap().flatten();
        links.filter(|link| crate::mark::ring::is_ring(link.path().to_str().unwrap())).count()
    }

    pub(super) fn signal(&self, signal: i32) {
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::kill(self.pid.cast_signed(), signal) }, 0);
    }

    /// Where it stopped is a restartable sequence of one byte from now on; false if it has none at all. To be called by its
    /// tracer. As its system call begins again, it is before that instruction, and the kernel forgets of the sequence.
    pub(super) fn is_in_rseq_where_it_stopped(&self) -> bool {
        let mut configuration = [0u64; 3];
        // SAFETY: the kernel writes as many bytes as there are.
        let done =
            unsafe { libc::ptrace(0x420f, self.pid.cast_signed(), 24usize, configuration.as_mut_ptr()) };
        if done < 0 || configuration[0] == 0 {
            return false;
        }
        let stands = fs::read_to_string(format!("/proc/{}/syscall", self.pid)).unwrap();
        let instruction = stands.trim().rsplit(" 0x").next().unwrap();
        let instruction = u64::from_str_radix(instruction, 16).unwrap();
        // `struct rseq_cs`: version and flags, start, length, where to go instead; the signature is to be before that.
        let signature = configuration[1] & 0xffff_ffff_0000_0000;
        let sequence = [0, instruction, 1, self.memory + 40, signature].map(u64::to_le_bytes).concat();
        let memory = File::options().write(true).open(format!("/proc/{}/mem", self.pid)).unwrap();
        memory.write_all_at(&sequence, self.memory).unwrap();
        memory.write_all_at(&self.memory.to_le_bytes(), configuration[0] + 8).unwrap();
        true
    }

    /// Sees that it does what it did, some times, and that nothing was wrong.
    pub(super) fn goes_on(&self) {
        for _ in 0..2 {
            let before = self.shared.rounds.load(SeqCst);
            match self.does {
                Does::Sleeps | Does::Spins | Does::SpinsWithSignals => {}
                Does::WaitsForFutex => {
                    self.shared.futex.fetch_add(1, SeqCst);
                    // SAFETY: the word is shared and lives on.
                    unsafe {
                        libc::syscall(libc::SYS_futex, self.shared.futex.as_ptr(), libc::FUTEX_WAKE, 1)
                    };
                }
                Does::Suspends => self.signal(libc::SIGUSR1),
                _ => {
                    // SAFETY: a byte is read.
                    assert_eq!(unsafe { libc::write(self.pipe[1], [7u8].as_ptr().cast(), 1) }, 1);
                }
            }
            self.went_on_since(before);
        }
    }

    pub(super) fn rounds(&self) -> u32 {
        self.shared.rounds.load(SeqCst)
    }

    /// Waits until it has done it again.
    pub(super) fn went_on_since(&self, before: u32) {
        let (shared, signals) = (self.shared, self.shared.handled.load(SeqCst));
        self.until("it goes on", || shared.rounds.load(SeqCst) > before || shared.wrong.load(SeqCst) != 0);
        assert_eq!(shared.wrong.load(SeqCst), 0, "{:?}: {}", self.does, self.state());
        if matches!(self.does, Does::SpinsWithSignals | Does::ReadsWithSignals) {
            self.until("signals arrive", || {
                shared.handled.load(SeqCst) > signals || self.does == Does::ReadsWithSignals
            });
        }
    }

    /// Nobody traces it, and it has no ring, nor threads of the kernel's that work for one.
    pub(super) fn is_left_alone(&self) {
        self.is_not_traced();
        assert_eq!(self.rings(), 0, "{:?}", self.does);
        let threads = || fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap().count();
        self.until("it has one thread", || threads() == 1);
    }

    pub(super) fn is_not_traced(&self) {
        self.until("it is not traced", || self.status("TracerPid") == "0");
    }

    /// Nobody traces it any more, and it is back. Until then a signal's handler may run before the system call that it is
    /// still to make, and the wait that it was to end begin again.
    pub(super) fn is_let_go(&self) {
        self.is_not_traced();
        self.waits();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // SAFETY: takes numbers; the child was not waited for before, so the number is still its own.
        unsafe {
            libc::kill(self.pid.cast_signed(), libc::SIGKILL);
            libc::waitpid(self.pid.cast_signed(), ptr::null_mut(), 0);
            libc::close(self.pipe[0]);
            libc::close(self.pipe[1]);
        }
    }
}

struct Child {
    does: Does,
    shared: &'static Shared,
    stack: usize,
    pipe: i32,
}

/// The only descriptor that a child keeps, besides the standard ones: other tests' rings are none of its own.
const ONLY: i32 = 3;

impl Child {
    fn alone(self) -> Self {
        // SAFETY: takes numbers; nothing here uses other descriptors.
        let done = unsafe {
            (self.pipe == ONLY || libc::dup2(self.pipe, ONLY) == ONLY)
                && libc::syscall(libc::SYS_close_range, ONLY + 1, u32::MAX, 0) == 0
        };
        if !done {
            self.fail(102);
        }
        Self { pipe: ONLY, ..self }
    }

    fn run(&self) -> ! {
        let mask = self.prepare();
        let mut registers = Registers::new();
        self.shared.begun.store(1, SeqCst);
        loop {
            self.act(&mut registers);
            self.shared.handled.store(HANDLED.load(SeqCst), SeqCst);
            self.see_that_it_is_as_before(mask);
            self.shared.rounds.fetch_add(1, SeqCst);
        }
    }

    fn fail(&self, code: u32) -> ! {
        self.shared.wrong.store(code, SeqCst);
        // SAFETY: ends the process.
        unsafe { libc::_exit(1) }
    }

    /// Sets what is to stay: the signal mask, which is returned, the alternate stack, handlers.
    fn prepare(&self) -> u64 {
        let has_signals = matches!(self.does, Does::SpinsWithSignals | Does::ReadsWithSignals);
        let bit = |signal: i32| 1u64 << (signal - 1);
        let mut mask = bit(libc::SIGUSR2) | bit(libc::SIGHUP) | bit(40);
        if self.does == Does::Suspends {
            mask |= bit(libc::SIGUSR1);
        }
        let stack = libc::stack_t {
            ss_sp: ptr::without_provenance_mut(self.stack),
            ss_flags: 0,
            ss_size: ALTERNATE_STACK,
        };
        let every = libc::timeval { tv_sec: 0, tv_usec: if has_signals { 300 } else { 0 } };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        // SAFETY: system calls, with structures that are filled in.
        let results = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
            [
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL),
                libc::sigaltstack(&raw const stack, ptr::null_mut()),
                libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()),
                libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()),
                libc::sigprocmask(
                    libc::SIG_SETMASK,
                    (&raw const mask).cast::<[u64; 16]>().cast(),
                    ptr::null_mut(),
                ),
                libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()),
            ]
        };
        if results != [0; 6] {
            self.fail(100);
        }
        match self.does {
            // ret ALLOW
            Does::ReadsFiltered => self.filter(&[(0x06, 0, 0, 0x7fff_0000)]),
            // ld nr; jeq io_uring_setup; ret ERRNO; ret ALLOW
            Does::ReadsForbidden => {
                self.filter(&[
                    (0x20, 0, 0, 0),
                    (0x15, 0, 1, 425),
                    (0x06, 0, 0, 0x0005_0001),
                    (0x06, 0, 0, 0x7fff_0000),
                ]);
            }
            // The same of madvise, if its advice is MADV_MERGEABLE.
            Does::ReadsForbiddenBoth => {
                self.filter(&[
                    (0x20, 0, 0, 0),
                    (0x15, 3, 0, 425),
                    (0x15, 0, 3, 28),
                    (0x20, 0, 0, 32),
                    (0x15, 0, 1, 12),
                    (0x06, 0, 0, 0x0005_0001),
                    (0x06, 0, 0, 0x7fff_0000),
                ]);
            }
            _ => {}
        }
        mask
    }

    fn filter(&self, instructions: &[(u16, u8, u8, u32)]) {
        let mut filter = [libc::sock_filter { code: 0, jt: 0, jf: 0, k: 0 }; 8];
        for (to, &(code, jt, jf, k)) in filter.iter_mut().zip(instructions) {
            *to = libc::sock_filter { code, jt, jf, k };
        }
        let Ok(len) = u16::try_from(instructions.len()) else { self.fail(103) };
        let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
        // SAFETY: the kernel copies the program, which is as long as it says.
        let done = unsafe {
            [
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            ]
        };
        if done != [0; 2] {
            self.fail(101);
        }
    }

    fn errno() -> i32 {
        // SAFETY: each thread has it.
        unsafe { *libc::__errno_location() }
    }

    fn act(&self, registers: &mut Registers) {
        match self.does {
            Does::Sleeps => {
                let time = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                // SAFETY: the time is read, and none is written.
                let done = unsafe {
                    libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const time, ptr::null_mut())
                };
                // It may end early, and says so then.
                if done != 0 && done != libc::EINTR {
                    self.fail(1);
                }
            }
            Does::WaitsForFutex => {
                let now = self.shared.futex.load(SeqCst);
                let (word, no_time) = (self.shared.futex.as_ptr(), ptr::null::<libc::timespec>());
                // SAFETY: the word lives on.
                let done = unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, now, no_time) };
                if done != 0 && Self::errno() != libc::EAGAIN || self.shared.futex.load(SeqCst) == now {
                    self.fail(2);
                }
            }
            Does::Polls => {
                let mut of = libc::pollfd { fd: self.pipe, events: libc::POLLIN, revents: 0 };
                let all = [0u64; 16];
                // SAFETY: one entry; no time; a mask without signals.
                let done = unsafe { libc::ppoll(&raw mut of, 1, ptr::null(), all.as_ptr().cast()) };
                if done != 1 {
                    self.fail(3);
                }
                self.read();
            }
            Does::Spins | Does::SpinsWithSignals => {
                // SAFETY: reads and writes `registers` only, and leaves the processor's as functions do.
                unsafe { xweave_mark_spin(registers) };
                let wrong = registers.wrong();
                if wrong != 0 {
                    self.fail(1000 + wrong);
                }
            }
            Does::Suspends => {
                let (before, none) = (HANDLED.load(SeqCst), [0u64; 16]);
                // SAFETY: a mask without signals.
                let done = unsafe { libc::sigsuspend(none.as_ptr().cast()) };
                if done != -1 || Self::errno() != libc::EINTR || HANDLED.load(SeqCst) == before {
                    self.fail(4);
                }
            }
            Does::WaitsForChild => self.wait_for_child(),
            Does::Reads
            | Does::ReadsWithSignals
            | Does::ReadsFiltered
            | Does::ReadsForbidden
            | Does::ReadsForbiddenBoth => self.read(),
        }
    }

    fn wait_for_child(&self) {
        extern "C" fn child(of: *mut libc::c_void) -> i32 {
            // SAFETY: takes numbers.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            // SAFETY: it lives in its parent's memory, which waits for it.
            unsafe { &*of.cast::<Child>() }.read();
            0
        }
        // The alternate stack is unused as long as no signal comes.
        let top = ptr::with_exposed_provenance_mut(self.stack + ALTERNATE_STACK);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let mut status = 0;
        // SAFETY: the stack is large enough, and nobody else's; a child of this process is waited for.
        let done = unsafe {
            let pid = libc::clone(child, top, flags, ptr::from_ref(self).cast_mut().cast());
            pid > 0 && libc::waitpid(pid, &raw mut status, 0) == pid
        };
        if !done || status != 0 {
            self.fail(8);
        }
    }

    fn read(&self) {
        let mut byte = 0u8;
        // SAFETY: a byte is written.
        let done = unsafe { libc::read(self.pipe, (&raw mut byte).cast(), 1) };
        if done != 1 || byte != 7 {
            self.fail(5);
        }
    }

    fn see_that_it_is_as_before(&self, expected: u64) {
        let mut mask = [0u64; 16];
        // SAFETY: all bytes of it may be zero.
        let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: both are written to.
        let done = unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, ptr::null(), mask.as_mut_ptr().cast())
                | libc::sigaltstack(ptr::null(), &raw mut stack)
        };
        if done != 0 || mask[0] != expected {
            self.fail(6);
        }
        if stack.ss_sp.addr() != self.stack || stack.ss_flags != 0 || stack.ss_size != ALTERNATE_STACK {
            self.fail(7);
        }
    }
}

/// General registers, without rsp, rdi (where this is) and rcx (which counts).
const GENERAL: usize = 13;
const VECTORS: usize = 16;
/// CF, PF, AF, ZF, SF, DF and OF, and the bit that is always set and interrupts.
const ALL_FLAGS: u64 = 0xed7;

/// What registers are to hold, and what they did.
#[repr(C)]
struct Registers {
    general: [u64; GENERAL],
    vectors: [[u64; 4]; VECTORS],
    general_after: [u64; GENERAL],
    vectors_after: [[u64; 4]; VECTORS],
    red_zone_after: [u64; 16],
    flags_after: u64,
    count: u64,
}

impl Registers {
    fn new() -> Self {
        let mut value = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            value
        };
        Self {
            general: std::array::from_fn(|_| next()),
            vectors: std::array::from_fn(|_| std::array::from_fn(|_| next())),
            general_after: [0; GENERAL],
            vectors_after: [[0; 4]; VECTORS],
            red_zone_after: [0; 16],
            flags_after: 0,
            count: 5_000_000,
        }
    }

    /// 0 if all was as it should be.
    fn wrong(&self) -> u32 {
        let red_zone = (0..16).all(|slot| self.red_zone_after[slot] == self.general[slot % GENERAL]);
        u32::from(self.general != self.general_after)
            | u32::from(self.vectors != self.vectors_after) << 1
            | u32::from(!red_zone) << 2
            | u32::from(self.flags_after & ALL_FLAGS != ALL_FLAGS) << 3
    }
}

unsafe extern "C" {
    fn xweave_mark_spin(registers: *mut Registers);
}

// `lea` and `jrcxz` count without changing flags. The red zone is that of a function which calls none: this one.
global_asm!(
    ".globl xweave_mark_spin",
    "xweave_mark_spin:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovdqu ymm\\n, [rdi + {vectors} + 32 * \\n]",
    ".endr",
    "mov rcx, [rdi + {count}]",
    "push {flags}",
    "popfq",
    "mov rax, [rdi]; mov rbx, [rdi + 8]; mov rdx, [rdi + 16]; mov rsi, [rdi + 24]; mov rbp, [rdi + 32]",
    "mov r8, [rdi + 40]; mov r9, [rdi + 48]; mov r10, [rdi + 56]; mov r11, [rdi + 64]; mov r12, [rdi + 72]",
    "mov r13, [rdi + 80]; mov r14, [rdi + 88]; mov r15, [rdi + 96]",
    "mov [rsp - 8], rax; mov [rsp - 16], rbx; mov [rsp - 24], rdx; mov [rsp - 32], rsi; mov [rsp - 40], rbp",
    "mov [rsp - 48], r8; mov [rsp - 56], r9; mov [rsp - 64], r10; mov [rsp - 72], r11; mov [rsp - 80], r12",
    "mov [rsp - 88], r13; mov [rsp - 96], r14; mov [rsp - 104], r15; mov [rsp - 112], rax; mov [rsp - 120], rbx",
    "mov [rsp - 128], rdx",
    "2: lea rcx, [rcx - 1]",
    "jrcxz 3f",
    "jmp 2b",
    "3: mov [rdi + {after}], rax; mov [rdi + {after} + 8], rbx; mov [rdi + {after} + 16], rdx",
    "mov [rdi + {after} + 24], rsi; mov [rdi + {after} + 32], rbp; mov [rdi + {after} + 40], r8",
    "mov [rdi + {after} + 48], r9; mov [rdi + {after} + 56], r10; mov [rdi + {after} + 64], r11",
    "mov [rdi + {after} + 72], r12; mov [rdi + {after} + 80], r13; mov [rdi + {after} + 88], r14",
    "mov [rdi + {after} + 96], r15",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovdqu [rdi + {vectors_after} + 32 * \\n], ymm\\n",
    "mov rax, [rsp - 8 - 8 * \\n]",
    "mov [rdi + {red_zone} + 8 * \\n], rax",
    ".endr",
    "pushfq",
    "pop qword ptr [rdi + {flags_after}]",
    "cld",
    "vzeroupper",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
    flags = const ALL_FLAGS,
    vectors = const offset_of!(Registers, vectors),
    after = const offset_of!(Registers, general_after),
    vectors_after = const offset_of!(Registers, vectors_after),
    red_zone = const offset_of!(Registers, red_zone_after),
    flags_after = const offset_of!(Registers, flags_after),
    count = const offset_of!(Registers, count),
);
