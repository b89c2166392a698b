//! A ring of io_uring that another process made, and that we use: what is asked for is done to the memory of that process.
//!
//! The process can write to the ring too. So all that is read from it may be anything: no more of it is mapped than there
//! is of every ring, and what it says leads to an error at most.

use std::{
    fs, io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use xweave_bytes::read_le;

/// The system call that makes one.
pub(super) const SETUP: &str = "io_uring_setup";

/// Requests that it holds. So many that both its parts are of one page: there is none of less.
pub(super) const ENTRIES: u32 = 32;
const PAGE: usize = 4096;

/// Bytes of `struct io_uring_params` (include/uapi/linux/io_uring.h).
pub(super) const PARAMS: usize = 120;
const FLAGS: usize = 8;
const IDLE: usize = 16;
const SQ_ENTRIES: usize = 0;
const CQ_ENTRIES: usize = 4;
const FEATURES: usize = 20;
/// `struct io_sqring_offsets`, `struct io_cqring_offsets`.
const SQ: usize = 40;
const CQ: usize = 80;

const SETUP_SQPOLL: u32 = 1 << 1;
const FEAT_SINGLE_MMAP: u32 = 1 << 0;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const OFF_SQES: u64 = 0x1000_0000;

/// Bytes of `struct io_uring_sqe` and `struct io_uring_cqe`.
const SQE: usize = 64;
const CQE: usize = 16;
const OP_MADVISE: u64 = 25;

/// How long the thread of the kernel's that looks for requests stays awake without any, in milliseconds.
const IDLE_MS: u32 = 10;

/// How long all that is asked for at a time may take, and a second more for so many bytes of it: to unmark memory, the kernel
/// copies each page of it that it has merged. Answers do not make it longer, as the process could make those up.
const DONE_WITHIN: Duration = Duration::from_secs(30);
const BYTES_IN_A_SECOND: u64 = 256 << 20;

/// How soon it is seen that nobody waits any more.
const SOON: Duration = Duration::from_millis(100);

/// How often a full ring is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// What a ring is to be like, for io_uring_setup: the kernel has a thread look for requests, which works in the memory of
/// the process that makes the ring.
pub(super) fn params() -> Vec<u8> {
    let mut params = vec![0; PARAMS];
    params[FLAGS..FLAGS + 4].copy_from_slice(&SETUP_SQPOLL.to_le_bytes());
    params[IDLE..IDLE + 4].copy_from_slice(&IDLE_MS.to_le_bytes());
    params
}

/// What is asked of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) advice: u32,
}

/// Why a ring cannot be used.
#[derive(Debug)]
pub(super) enum Broken {
    /// It is not as the kernel made it.
    Changed(&'static str),
    /// So many requests are not answered.
    Unanswered(usize),
    /// Nobody waits any more.
    Ended,
    System(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// How long the kernel is waited for.
struct Patience<'a> {
    until: Instant,
    ended: &'a dyn Fn() -> bool,
}

impl Patience<'_> {
    /// That it is over, with so many requests left.
    fn check(&self, left: usize) -> Result<(), Broken> {
        if (self.ended)() {
            return Err(Broken::Ended);
        }
        if Instant::now() >= self.until { Err(Broken::Unanswered(left)) } else { Ok(()) }
    }
}

pub(super) struct Ring {
    descriptor: OwnedFd,
    rings: MmapRaw,
    requests: MmapRaw,
    places: Places,
    /// Our own: requests made, answers taken.
    made: u32,
    taken: u32,
    /// The next request's number: an answer with an earlier one's comes late, with a later one's it is none of the kernel's.
    serial: u64,
}

/// Where things are in the first page of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    sq_head: usize,
    sq_tail: usize,
    sq_array: usize,
    cq_head: usize,
    cq_tail: usize,
    cqes: usize,
    /// A power of two.
    cq_entries: u32,
}

impl Places {
    /// Of what the kernel filled in; none if it cannot have been the kernel.
    fn of(params: &[u8]) -> Option<Self> {
        let word = |at: usize| read_le::<u32>(params, at);
        let cq_entries = word(CQ_ENTRIES)?;
        if word(SQ_ENTRIES)? != ENTRIES
            || cq_entries != 2 * ENTRIES
            || word(FEATURES)? & FEAT_SINGLE_MMAP == 0
        {
            return None;
        }
        // Words are aligned, and all that is used of it is in the page.
        let place = |at: usize, length: usize, of: usize| {
            let place = usize::try_from(word(at)?).ok()?;
            (place % of == 0 && place.checked_add(length)? <= PAGE).then_some(place)
        };
        Some(Self {
            sq_head: place(SQ, 4, 4)?,
            sq_tail: place(SQ + 4, 4, 4)?,
            sq_array: place(SQ + 24, 4 * ENTRIES as usize, 4)?,
            cq_head: place(CQ, 4, 4)?,
            cq_tail: place(CQ + 4, 4, 4)?,
            cqes: place(CQ + 20, CQE * cq_entries as usize, 8)?,
            cq_entries,
        })
    }
}

impl Ring {
    /// Takes a ring: its descriptor, and what io_uring_setup has filled in.
    pub(super) fn new(descriptor: OwnedFd, params: &[u8]) -> Result<Self, Broken> {
        // A file of another kind could be cut, and so end this process by SIGBUS.
        if !is_ring(&format!("/proc/self/fd/{}", descriptor.as_raw_fd())) {
            return Err(Broken::Changed("its descriptor is of something else"));
        }
        let places =
            Places::of(params).ok_or(Broken::Changed("it is laid out as the kernel lays none out"))?;
        let map = |offset| MmapOptions::new().offset(offset).len(PAGE).map_raw(&descriptor);
        let (rings, requests) = (map(0)?, map(OFF_SQES)?);
        let mut ring = Self { descriptor, rings, requests, places, made: 0, taken: 0, serial: 0 };
        ring.made = ring.word(places.sq_tail).load(Ordering::Relaxed);
        ring.taken = ring.word(places.cq_head).load(Ordering::Relaxed);
        Ok(ring)
    }

    /// Its descriptor.
    pub(super) fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    fn word(&self, place: usize) -> &AtomicU32 {
        debug_assert!(place.is_multiple_of(4) && place + 4 <= PAGE);
        // SAFETY: `Places` are aligned and within the page, which is mapped as long as this lives. The kernel and the
        // other process change it as atomic words are changed.
        unsafe { AtomicU32::from_ptr(self.rings.as_mut_ptr().add(place).cast()) }
    }

    /// Has the kernel do all of these, and tells each one's result: `Ok` or an error's number. Until `ended` says so: what the
    /// kernel has taken by then, it still does.
    pub(super) fn run(
        &mut self,
        all: &[Request],
        ended: &dyn Fn() -> bool,
    ) -> Result<Vec<Result<(), i32>>, Broken> {
        let bytes: u64 = all.iter().map(|request| u64::from(request.length)).sum();
        let within = DONE_WITHIN + Duration::from_secs(bytes / BYTES_IN_A_SECOND);
        let patience = Patience { until: Instant::now() + within, ended };
        let mut results = Vec::new();
        for batch in all.chunks(ENTRIES as usize) {
            self.submit(batch, &patience)?;
            results.extend(self.answers(batch.len(), &patience)?);
        }
        Ok(results)
    }

    /// The results of the last requests, so many of them.
    fn answers(&mut self, of: usize, patience: &Patience<'_>) -> Result<Vec<Result<(), i32>>, Broken> {
        let mut answers: Vec<Option<Result<(), i32>>> = vec![None; of];
        let first = self.serial - of as u64;
        let mut left = of;
        while left > 0 {
            // Also where there are answers: there may be any number, of an earlier batch.
            patience.check(left)?;
            let Some((serial, result)) = self.take()? else {
                self.wait(SOON)?;
                continue;
            };
            // Of an earlier batch, which was given up.
            let Some(index) = serial.checked_sub(first) else { continue };
            let answer = usize::try_from(index).ok().and_then(|index| answers.get_mut(index));
            match answer {
                Some(answer @ None) => *answer = Some(if result < 0 { Err(-result) } else { Ok(()) }),
                _ => return Err(Broken::Changed("there is an answer to what was not asked")),
            }
            left -= 1;
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Waits until the ring has room for so many requests. The kernel says that it has taken some only behind the last of
    /// those that it found, and answers each before (io_uring/io_uring.c, `io_submit_sqes`).
    fn wait_for_room(&self, requests: usize, patience: &Patience<'_>) -> Result<(), Broken> {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        loop {
            let waiting = self.made.wrapping_sub(self.word(self.places.sq_head).load(Ordering::Acquire));
            if waiting > ENTRIES {
                return Err(Broken::Changed("the kernel has taken more than there was"));
            }
            if ENTRIES - waiting >= requests {
                return Ok(());
            }
            patience.check(waiting as usize)?;
            // A ring wakes nobody for room.
            thread::sleep(LOOK_EVERY);
        }
    }

    fn submit(&mut self, batch: &[Request], patience: &Patience<'_>) -> Result<(), Broken> {
        self.wait_for_room(batch.len(), patience)?;
        for request in batch {
            let index = self.made % ENTRIES;
            // `struct io_uring_sqe`: opcode and descriptor (none); offset; address; length and advice; what comes back.
            // The length is in 32 bits up to Linux 6.10 at least (io_uring/advise.c, `io_madvise_prep`).
            let low_high = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            let sqe: [u64; SQE / 8] = [
                OP_MADVISE | u64::from(u32::MAX) << 32,
                0,
                request.address,
                low_high(request.length, request.advice),
                self.serial,
                0,
                0,
                0,
            ];
            // SAFETY: `index` is less than `ENTRIES`, and so many requests are in the page that is mapped; a page is aligned
            // for them.
            unsafe {
                self.requests.as_mut_ptr().cast::<[u64; SQE / 8]>().add(index as usize).write_volatile(sqe)
            };
            self.word(self.places.sq_array + 4 * index as usize).store(index, Ordering::Relaxed);
            self.made = self.made.wrapping_add(1);
            self.serial += 1;
        }
        self.word(self.places.sq_tail).store(self.made, Ordering::Release);
        // The kernel's thread may sleep. The ring says so, but the process could take that back.
        // SAFETY: takes no memory of ours.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.descriptor.as_raw_fd(),
                0,
                0,
                ENTER_SQ_WAKEUP,
                ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        if done < 0 { Err(io::Error::last_os_error().into()) } else { Ok(()) }
    }

    /// Takes an answer, if there is one.
    fn take(&mut self) -> Result<Option<(u64, i32)>, Broken> {
        let there = self.word(self.places.cq_tail).load(Ordering::Acquire).wrapping_sub(self.taken);
        if there == 0 {
            return Ok(None);
        }
        if there > self.places.cq_entries {
            return Err(Broken::Changed("there are more answers than it holds"));
        }
        let index = self.taken % self.places.cq_entries;
        // SAFETY: `Places::of` has seen that all of them are in the page, and aligned.
        let [serial, result] = unsafe {
            self.rings
                .as_mut_ptr()
                .add(self.places.cqes)
                .cast::<[u64; CQE / 8]>()
                .add(index as usize)
                .read_volatile()
        };
        self.taken = self.taken.wrapping_add(1);
        self.word(self.places.cq_head).store(self.taken, Ordering::Release);
        // `struct io_uring_cqe`: what was given, the result, flags.
        #[expect(clippy::cast_possible_truncation, reason = "the result is the lower half")]
        let result = (result as u32).cast_signed();
        Ok(Some((serial, result.max(-i32::MAX))))
    }

    /// Waits for an answer. A signal ends it early.
    fn wait(&self, most: Duration) -> io::Result<()> {
        let mut of = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let most = Timespec::try_from(most).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut of, Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a descriptor, by its link in /proc, is a ring's.
pub(super) fn is_ring(link: &str) -> bool {
    fs::read_link(link).is_ok_and(|target| target.as_os_str() == "anon_inode:[io_uring]")
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;

    /// A ring of this process, and what the kernel said of it. None if that is not permitted, which is said.
    fn setup() -> Option<(OwnedFd, Vec<u8>)> {
        let mut params = params();
        // SAFETY: the kernel writes as many bytes as there are.
        let number = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, params.as_mut_ptr()) };
        if number < 0 {
            println!("SKIPPED: no ring of io_uring: {}", io::Error::last_os_error());
            return None;
        }
        // SAFETY: it is new, and nobody else's.
        Some((unsafe { OwnedFd::from_raw_fd(i32::try_from(number).unwrap()) }, params))
    }

    fn ring() -> Option<Ring> {
        let (descriptor, params) = setup()?;
        Some(Ring::new(descriptor, &params).unwrap())
    }

    const NOTHING: Request = Request { address: 4096, length: 4096, advice: 12 };

    #[test]
    fn each_request_has_its_own_answer() {
        let Some(mut ring) = ring() else { return };
        let memory = MmapOptions::new().len(100 * PAGE).map_anon().unwrap();
        let page =
            |page: usize| Request { address: memory.as_ptr() as u64 + (page * PAGE) as u64, ..NOTHING };
        let mut all: Vec<Request> = (0..100).map(page).collect();
        all[70] = NOTHING;
        all[71].advice = 12345;
        for _ in 0..50 {
            let results = ring.run(&all, &|| false).unwrap();
            assert_eq!(results.len(), 100);
            assert_eq!((results[70], results[71]), (Err(libc::ENOMEM), Err(libc::EINVAL)));
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 98);
        }
        assert!(ring.run(&[], &|| false).unwrap().is_empty());
    }

    #[test]
    fn a_ring_that_was_changed_is_an_error_and_no_more() {
        let is_changed = |change: fn(&mut Ring)| {
            let mut ring = ring()?;
            change(&mut ring);
            Some(matches!(ring.run(&[NOTHING; 40], &|| false), Err(Broken::Changed(_))))
        };
        let changes: [fn(&mut Ring); 4] = [
            // More answers than there can be; one that says nothing, before there is any.
            |ring| ring.word(ring.places.cq_tail).store(ring.taken.wrapping_sub(1), Ordering::Relaxed),
            |ring| {
                ring.serial = 7;
                let cqe = ring.places.cqes;
                ring.word(cqe).store(1 << 20, Ordering::Relaxed);
                ring.word(ring.places.cq_tail).store(1, Ordering::Relaxed);
            },
            // The same answer twice: of what was asked, once.
            |ring| ring.taken = ring.taken.wrapping_sub(3),
            |ring| ring.word(ring.places.sq_head).store(ring.made.wrapping_add(1), Ordering::Relaxed),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let Some(is_changed) = is_changed(change) else { return };
            assert!(is_changed, "{index}");
        }
    }

    #[test]
    fn answers_that_come_late_are_no_others() {
        let Some(mut ring) = ring() else { return };
        ring.serial = 1000;
        // As if an earlier one's had come: the kernel counts on from there.
        ring.submit(&[NOTHING; 5], &patience(&|| false)).unwrap();
        assert_eq!(ring.run(&[NOTHING; 20], &|| false).unwrap(), [Err(libc::ENOMEM); 20]);
    }

    /// What there is of it is over soon.
    fn patience(ended: &dyn Fn() -> bool) -> Patience<'_> {
        Patience { until: Instant::now() + Duration::from_millis(300), ended }
    }

    #[test]
    fn a_process_that_makes_up_old_answers_makes_nobody_wait_longer() {
        let Some(mut ring) = ring() else { return };
        // As if 1000 requests had been made, of which the last is not answered; all answers are of the first.
        ring.serial = 1000;
        let address = |place| ring.word(place).as_ptr().expose_provenance();
        let words = [ring.places.cq_head, ring.places.cq_tail].map(address);
        let over = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: the ring is mapped until this has ended.
                let [head, tail] =
                    words.map(|word| unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(word)) });
                while over.load(Ordering::Relaxed) == 0 {
                    // Never more than it holds.
                    if head.load(Ordering::Relaxed) == tail.load(Ordering::Relaxed) {
                        tail.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let begun = Instant::now();
            let timed_out = ring.answers(1, &patience(&|| false));
            let ended = ring.answers(1, &patience(&|| true));
            over.store(1, Ordering::Relaxed);
            assert!(matches!(timed_out, Err(Broken::Unanswered(1))), "{timed_out:?}");
            assert!(matches!(ended, Err(Broken::Ended)), "{ended:?}");
            assert!(begun.elapsed() < DONE_WITHIN);
        });
        assert!(ring.taken > 1, "{} answers were taken", ring.taken);
    }

    #[test]
    fn only_a_ring_that_is_laid_out_in_a_page_is_taken() {
        let Some((descriptor, params)) = setup() else { return };
        assert!(Places::of(&params).is_some());
        // Each word that is used, changed to what the kernel would not say.
        for at in [SQ_ENTRIES, CQ_ENTRIES, FEATURES, SQ, SQ + 4, SQ + 24, CQ, CQ + 4, CQ + 20] {
            for wrong in [2u32, 4096, u32::MAX - 3, 1 << 31] {
                let mut changed = params.clone();
                changed[at..at + 4].copy_from_slice(&wrong.to_le_bytes());
                assert_eq!(Places::of(&changed), None, "{wrong} at {at}");
            }
        }
        assert_eq!(Places::of(&params[..60]), None);
        let of = |descriptor, params: &[u8]| Ring::new(descriptor, params).err().expect("refused");
        assert!(matches!(of(descriptor, &[0; PARAMS]), Broken::Changed(_)));
        let file = OwnedFd::from(fs::File::open("/proc/self/exe").unwrap());
        assert!(matches!(of(file, &params), Broken::Changed(_)));
    }
}
