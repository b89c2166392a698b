//! Attaching what is loaded, and taking it away again: the part of weaving that takes long.

use std::{
    collections::HashSet,
    io,
    mem::size_of_val,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use xweave_system::fast_attach::FastAttach;
use xweave_wire::{message::SkippedSite, plan::Hook};

use crate::{
    cancel::{Cancel, Deferred},
    error::Error,
    hook::{Hooked, Part, attach_type},
    probe,
    prototype::{Mistyped, mismatch},
    settings_report::begin_fast_attach,
};

/// So few hooks come and go quickly enough.
const FEW: usize = 32;

/// Kprobes attached or detached at a time. Each waits for the kernel most of the time, so that more threads
/// than processors help: on an emulated host with one processor, 200 instructions took 24 s to attach and 27 s
/// to detach one after the other, 16 s and 13 s in eight threads, and 11 s and 2 s with [`FastAttach`] besides.
///
/// Emulated machines were seen to die while several threads had their text patched. That was QEMU's emulation
/// of two processors, which the lab does not use any more.
const THREADS: usize = 8;

/// How often it is told how far attaching has come.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Who is told how far weaving has come, and says whether to go on.
pub(crate) struct Watch<'w> {
    pub(crate) cancel: &'w Cancel,
    pub(crate) tell: &'w (dyn Fn(u32, u32) + Sync),
}

/// What is attached. Dropping it takes all of it away.
#[derive(Default)]
pub(crate) struct Links {
    /// Entry and return hooks, and tracepoints.
    bound: Vec<OwnedFd>,
    probes: Vec<OwnedFd>,
    serial_attach: bool,
}

/// A hook among [`Links`].
pub(crate) enum Link {
    Bound,
    /// Its number among the probes.
    Probe(usize),
}

impl Links {
    fn add(&mut self, hooked: &Hooked<'_>, link: OwnedFd) -> Link {
        if hooked.probe.is_none() {
            self.bound.push(link);
            return Link::Bound;
        }
        self.probes.push(link);
        Link::Probe(self.probes.len() - 1)
    }

    /// How often the kernel left out a kprobe by itself; 0 before 6.8, and where nothing is counted.
    pub(crate) fn missed(&self, link: &Link) -> io::Result<u64> {
        match link {
            Link::Bound => Ok(0),
            Link::Probe(number) => self.probes.get(*number).map_or(Ok(0), |link| kprobe_missed(link.as_fd())),
        }
    }

    /// Takes all away.
    pub(crate) fn clear(&mut self) {
        let many = self.bound.len() + self.probes.len() > FEW && !self.serial_attach;
        let _fast = many.then(begin_fast);
        self.bound.clear();
        let probes = Mutex::new(std::mem::take(&mut self.probes));
        let next = || probes.lock().unwrap_or_else(PoisonError::into_inner).pop();
        in_threads(many, || while next().is_some() {});
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Signals wait meanwhile, so that the kernel's settings are restored before they end the process.
fn begin_fast() -> (Option<FastAttach>, Deferred) {
    let deferred = Deferred::begin();
    (begin_fast_attach(), deferred)
}

/// Runs the work in several threads, or in this one.
fn in_threads(several: bool, work: impl Fn() + Sync) {
    if !several {
        return work();
    }
    thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(&work))));
}

/// What came of attaching: a link for each that could be, in order; and why the others could not.
pub(crate) struct Attached {
    pub(crate) links: Links,
    /// By the number of what was to be attached.
    pub(crate) by_hook: Vec<Option<Link>>,
    pub(crate) skipped: Vec<SkippedSite>,
}

/// Attaches all, or nothing; but of many places that a pattern selected, some may not be hooked. `serial_attach`:
/// one after the other, with the kernel's settings as they are.
pub(crate) fn attach(
    loaded: &[Hooked<'_>],
    mistyped: &Mistyped,
    serial_attach: bool,
    watch: &Watch<'_>,
) -> Result<Attached, Error> {
    let many = loaded.len() > FEW && !serial_attach;
    let _fast = many.then(begin_fast);
    let results: Vec<Mutex<Option<io::Result<OwnedFd>>>> = loaded.iter().map(|_| Mutex::default()).collect();
    let progress = Progress::new(loaded.len());
    let over = AtomicBool::new(false);
    let attach = |number: usize| {
        let (Some(hooked), Some(result)) = (loaded.get(number), results.get(number)) else { return };
        let attached = mistyped.error(hooked.site.site).map_or_else(|| hooked.attach(), Err);
        let fatal = attached.as_ref().is_err_and(|error| !may_be_skipped(hooked, error));
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(attached);
        if fatal || watch.cancel.asked() {
            over.store(true, Ordering::Relaxed);
        }
        progress.step(watch);
    };
    let (probes, bound): (Vec<usize>, Vec<usize>) =
        (0..loaded.len()).partition(|number| loaded[*number].probe.is_some());
    bound.into_iter().take_while(|_| !over.load(Ordering::Relaxed)).for_each(attach);
    let next = AtomicUsize::new(0);
    in_threads(many && probes.len() > FEW, || {
        while !over.load(Ordering::Relaxed)
            && let Some(number) = probes.get(next.fetch_add(1, Ordering::Relaxed))
        {
            attach(*number);
        }
    });
    let links = Links { bound: Vec::new(), probes: Vec::new(), serial_attach };
    let mut done = Attached { links, by_hook: Vec::new(), skipped: Vec::new() };
    let mut failed = None;
    for (hooked, result) in loaded.iter().zip(results) {
        let link = match result.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(link)) => Some(done.links.add(hooked, link)),
            Some(Err(error)) if may_be_skipped(hooked, &error) => {
                let reason = why_skipped(&error);
                let sites = hooked.site.site..hooked.site.site + hooked.site.clauses;
                let skipped = sites.map(|site| SkippedSite { site, reason: reason.clone() });
                done.skipped.extend(skipped.filter(|_| hooked.part == Part::Main));
                None
            }
            Some(Err(error)) => {
                failed.get_or_insert_with(|| hooked.failed(error));
                None
            }
            None => None,
        };
        done.by_hook.push(link);
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if watch.cancel.asked() {
        return Err(Error::Cancelled);
    }
    match nowhere(loaded, &done) {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

/// Whether there is something woven that nowhere could be hooked.
fn nowhere(loaded: &[Hooked<'_>], attached: &Attached) -> Option<Error> {
    let hooks = || loaded.iter().zip(&attached.by_hook);
    let somewhere: HashSet<&str> =
        hooks().filter(|(_, link)| link.is_some()).map(|(hooked, _)| hooked.what.origin.as_str()).collect();
    let (first, _) = hooks().find(|(hooked, _)| !somewhere.contains(hooked.what.origin.as_str()))?;
    let skipped = attached.skipped.iter().find(|skipped| skipped.site == first.site.site);
    Some(Error::Nowhere {
        origin: first.what.origin.clone(),
        place: first.name(),
        reason: skipped.map(|skipped| skipped.reason.clone()).unwrap_or_default(),
    })
}

/// One of many, of which the code that runs differs from the one that was looked at, or is none of the kind that
/// may be hooked.
fn may_be_skipped(hooked: &Hooked<'_>, error: &io::Error) -> bool {
    let of_place =
        [libc::EINVAL, libc::EILSEQ, libc::ENOENT, libc::EOPNOTSUPP, libc::EADDRNOTAVAIL, libc::EBUSY];
    let not_hookable = error.raw_os_error().is_some_and(|code| of_place.contains(&code));
    hooked.site.optional && (not_hookable || mismatch(error).is_some())
}

/// The reason, for people, why the kernel does not let us hook a place.
pub(crate) fn why_skipped(error: &io::Error) -> String {
    if let Some(mismatch) = mismatch(error) {
        return mismatch;
    }
    match error.raw_os_error() {
        Some(libc::EILSEQ) => {
            "in the running kernel, no instruction begins there: the kernel has patched its code".to_owned()
        }
        Some(libc::EINVAL) => "the kernel allows no probe there".to_owned(),
        // kernel/bpf/trampoline.c: register_fentry, bpf_arch_text_poke.
        Some(libc::EBUSY) => {
            "the function has no patchable entry (ftrace), or another program uses it".to_owned()
        }
        Some(libc::ENOENT) => "the running kernel has no such function".to_owned(),
        Some(libc::EADDRNOTAVAIL) => "the kernel has several functions of that name".to_owned(),
        _ => format!("the kernel cannot attach to it: {error}"),
    }
}

/// How far it has come.
pub(crate) struct Progress {
    done: AtomicU32,
    total: u32,
    told: Mutex<Instant>,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        Self { done: AtomicU32::new(0), total, told: Mutex::new(Instant::now()) }
    }

    pub(crate) fn step(&self, watch: &Watch<'_>) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() >= TELL_EVERY {
            *told = Instant::now();
            (watch.tell)(done, self.total);
        }
    }
}

impl Hooked<'_> {
    fn attach(&self) -> io::Result<OwnedFd> {
        let mut options = libbpf_sys::bpf_link_create_opts::default();
        options.sz = size_of_val(&options) as u64;
        // Held until the link holds it.
        let event;
        let target = match &self.probe {
            None => {
                options.__bindgen_anon_1.tracing.cookie = self.cookie();
                0
            }
            Some(place) => {
                let returning = matches!(self.what.hook, Hook::ProbeReturn | Hook::UserReturn);
                event = probe::open(place, returning && self.part == Part::Main)?;
                options.__bindgen_anon_1.perf_event.bpf_cookie = self.cookie();
                event.as_raw_fd()
            }
        };
        let program = self.program.as_raw_fd();
        // SAFETY: the options live in this frame; the rest are integers.
        let fd = unsafe {
            libbpf_sys::bpf_link_create(program, target, attach_type(self.what.hook), &raw const options)
        };
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: a descriptor that was just opened and belongs to nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Times that a kprobe was hit inside another, which the kernel leaves out.
fn kprobe_missed(link: BorrowedFd<'_>) -> io::Result<u64> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut size = u32::try_from(size_of_val(&info)).unwrap_or(0);
    // SAFETY: info lives in this frame and size is its size.
    let failed =
        unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut size) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(-failed));
    }
    // SAFETY: all bits are integers; which of them hold is said by the type before them.
    let event = unsafe { info.__bindgen_anon_1.perf_event };
    Ok(match event.type_ {
        libbpf_sys::BPF_PERF_EVENT_KPROBE | libbpf_sys::BPF_PERF_EVENT_KRETPROBE => {
            // SAFETY: as above.
            unsafe { event.__bindgen_anon_1.kprobe.missed }
        }
        _ => 0,
    })
}
