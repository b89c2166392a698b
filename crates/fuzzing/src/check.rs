//! Runs a target with its seeds and with mutations of them, and describes the first input that it fails on.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::time::Duration;

use crate::mutate::Mutator;
use crate::target::{Seed, Target};

/// Time after which an input that is still running is taken for endless: 1 to 2 times as long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An input that a target fails on.
#[derive(Debug)]
pub struct Failure {
    /// Name of the target.
    pub target: &'static str,
    /// Seed, and number of the mutation if there is one.
    pub origin: String,
    /// Message and position of the panic.
    pub panic: String,
    /// File with the input.
    pub file: PathBuf,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, origin, panic, file } = self;
        write!(
            formatter,
            "target {target} fails on {origin}: {panic}\n\
             The input: {0}\n\
             Run it again: XWEAVE_INPUT={0} cargo test --release -p xweave-fuzzing --test mutations {target}",
            file.display()
        )
    }
}

/// Runs a target with each seed, then with as many mutations as it has, until it fails.
///
/// The current input is in a file of `folder`, which is left there if the target fails, hangs or aborts the process.
pub fn find_failure(target: &Target, seeds: &[Seed], words: &[Vec<u8>], folder: &Path) -> Option<Failure> {
    let mut runner = Runner::new(target, folder);
    for seed in seeds {
        let origin = || format!("the seed {}", seed.name);
        if let Some(failure) = runner.run_input(&seed.content, origin) {
            return Some(failure);
        }
    }
    let mutator = Mutator::new(seeds.iter().map(|seed| &seed.content[..]).collect(), words);
    for number in 0..target.mutations {
        let origin = || format!("mutation {number}, of the seed {}", seeds[mutator.choose_seed(number)].name);
        if let Some(failure) = runner.run_input(&mutator.make_input(number), origin) {
            return Some(failure);
        }
    }
    runner.remove_file();
    None
}

thread_local! {
    /// The last panic of this thread; `None` while no input runs, whose panics are printed as usual.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has panics of inputs noted, not printed: a target may catch thousands.
fn install_panic_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let noted = LAST_PANIC.with_borrow_mut(|last| {
                // Empty unless RUST_BACKTRACE is set.
                let backtrace = std::backtrace::Backtrace::capture();
                let frames = match backtrace.status() {
                    std::backtrace::BacktraceStatus::Captured => format!("\n{backtrace}"),
                    _ => String::new(),
                };
                last.as_mut().map(|text| *text = format!("{panic}{frames}")).is_some()
            });
            if !noted {
                default(panic);
            }
        }));
    });
}

/// Runs inputs in sequence.
struct Runner<'a> {
    target: &'a Target,
    path: PathBuf,
    file: File,
    /// Number of inputs so far, for the thread that looks for endless ones.
    started: Arc<AtomicU64>,
    /// Ends that thread on drop.
    _watch: Sender<()>,
}

impl<'a> Runner<'a> {
    fn new(target: &'a Target, folder: &Path) -> Self {
        install_panic_hook();
        let path = folder.join(format!("{}-input", target.name));
        let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let started = Arc::new(AtomicU64::new(0));
        let watch = start_watch(target.name, path.clone(), started.clone());
        Self { target, path, file, started, _watch: watch }
    }

    fn run_input(&mut self, input: &[u8], origin: impl FnOnce() -> String) -> Option<Failure> {
        self.started.fetch_add(1, Ordering::Relaxed);
        let written = self.file.write_all_at(input, 0).and_then(|()| self.file.set_len(input.len() as u64));
        written.unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        LAST_PANIC.set(Some(String::new()));
        let result = catch_unwind(AssertUnwindSafe(|| (self.target.run)(input)));
        let panic = LAST_PANIC.take().unwrap_or_default();
        let payload = result.err()?;
        // The panic of another thread is printed there; its message comes with the payload.
        let panic = if panic.is_empty() { describe_payload(&*payload) } else { panic };
        Some(Failure { target: self.target.name, origin: origin(), panic, file: self.path.clone() })
    }

    fn remove_file(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn describe_payload(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}

/// Starts a thread that aborts the process when an input does not end.
fn start_watch(target: &'static str, path: PathBuf, started: Arc<AtomicU64>) -> Sender<()> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut last = 0;
        while receiver.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            let now = started.load(Ordering::Relaxed);
            if now == last {
                // Not with eprintln!, whose output a test captures.
                let _ = writeln!(
                    std::io::stderr(),
                    "target {target} does not end within {} s\nThe input: {}",
                    TIMEOUT.as_secs(),
                    path.display()
                );
                std::process::abort();
            }
            last = now;
        }
    });
    sender
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_target(run: fn(&[u8])) -> Target {
        Target { name: "example", run, make_seeds: Vec::new, mutations: 2000 }
    }

    fn create_seeds() -> [Seed; 2] {
        let create = |name: &str, content: &[u8]| Seed { name: name.into(), content: content.into() };
        [create("one", b"a valid input"), create("two", b"one more of them")]
    }

    #[test]
    fn finds_a_byte_that_a_target_fails_on() {
        let target = create_target(|input| assert!(!input.contains(&0x9c), "an invalid byte"));
        let folder = tempfile::tempdir().unwrap();
        let failure = find_failure(&target, &create_seeds(), &[], folder.path()).unwrap();
        assert!(std::fs::read(&failure.file).unwrap().contains(&0x9c));
        let text = failure.to_string();
        assert!(text.contains("target example fails on mutation "), "{text}");
        assert!(text.contains("an invalid byte") && text.contains("check.rs:"), "{text}");
        assert!(text.contains(&format!("XWEAVE_INPUT={}", failure.file.display())), "{text}");
        // The same mutation each time.
        let again = find_failure(&target, &create_seeds(), &[], folder.path()).unwrap();
        assert_eq!(again.origin, failure.origin);
    }

    #[test]
    fn finds_a_seed_that_a_target_fails_on() {
        let target = create_target(|input| assert_ne!(input, b"one more of them"));
        let folder = tempfile::tempdir().unwrap();
        let failure = find_failure(&target, &create_seeds(), &[], folder.path()).unwrap();
        assert_eq!(failure.origin, "the seed two");
    }

    #[test]
    fn reports_the_panic_of_another_thread() {
        let target = create_target(|_| {
            let panicked = std::thread::spawn(|| panic!("in a thread")).join();
            std::panic::resume_unwind(panicked.unwrap_err());
        });
        let folder = tempfile::tempdir().unwrap();
        let failure = find_failure(&target, &create_seeds(), &[], folder.path()).unwrap();
        assert_eq!(failure.panic, "in a thread");
    }

    #[test]
    fn accepts_a_target_that_catches_its_panics() {
        let target = create_target(|_| assert!(catch_unwind(|| panic!("caught")).is_err()));
        let folder = tempfile::tempdir().unwrap();
        assert!(find_failure(&target, &create_seeds(), &[], folder.path()).is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the input is left");
    }
}
