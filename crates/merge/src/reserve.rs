//! Memory that is held for the day on which guests write to what is merged: each page that they write to, they need again.
//!
//! What is given back is used meanwhile: without a reserve, a host of which all guests update themselves runs short at once.
//! `policy` says how much is held when, `held` holds it, `shortage` tells when memory gets short, by a thread of its own:
//! KSM may be at work for minutes.

mod held;
mod policy;
mod shortage;

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::Instant,
};

use held::{Held, Part};
use policy::Policy;
pub use policy::{HowMuch, HowMuchError, State};
use shortage::Shortage;

use crate::host;

/// Bytes that are taken at once. Between two, it is looked what is available.
const STEP: u64 = 16 << 20;

/// Of this host's memory: what stays available where some is taken.
const MARGIN: u64 = 16;

/// And what is too little: half of that, so that what was just taken is not what makes it short.
const SHORT: u64 = 32;

/// What happens to the reserve between two times that it is told how much is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many bytes were let go, as memory is short.
    LetGo(u64),
    /// The kernel does not tell that memory gets short, and why: it is only looked each second what is available.
    Untold(String),
}

/// Why not as much is held as may be.
#[derive(Debug, thiserror::Error)]
#[error(
    "no more than {held} bytes are held in reserve: memory of {bytes} bytes is not locked: {error}: run it as root, and \
     without limits of its own (ulimit -l, memory.max of its cgroup)"
)]
pub struct TakeError {
    held: u64,
    bytes: u64,
    #[source]
    error: io::Error,
}

/// The reserve: nothing is left of it when this is dropped, or the process ends in whatever way.
pub struct Reserve {
    shared: Arc<Mutex<Both>>,
    begun: Instant,
}

struct Both {
    policy: Policy,
    held: Held,
}

impl Reserve {
    /// Begins with none. What happens is told by another thread.
    pub fn begin(how_much: HowMuch, told: impl Fn(Event) + Send + 'static) -> Self {
        let memory = host::memory();
        let both = Both { policy: Policy::new(how_much, memory / MARGIN), held: Held::default() };
        let reserve = Self { shared: Arc::new(Mutex::new(both)), begun: Instant::now() };
        let (shared, begun) = (Arc::downgrade(&reserve.shared), reserve.begun);
        thread::spawn(move || watch(&shared, begun, memory / SHORT, told));
        reserve
    }

    /// So many bytes are given back now: what is too much is let go, and what is too little taken, as long as there is memory
    /// for it and `ended` says nothing else.
    ///
    /// # Errors
    /// The kernel does not give it.
    pub fn follow(&self, given_back: u64, ended: impl Fn() -> bool) -> Result<State, TakeError> {
        let mut lacks = {
            let mut both = lock(&self.shared);
            let most = both.policy.follow(given_back, self.begun.elapsed());
            both.held.keep(most);
            both.policy.lacks()
        };
        while lacks > 0 && !ended() {
            let bytes = lacks.min(STEP);
            if !lock(&self.shared).policy.may_take(bytes, host::available(), self.begun.elapsed()) {
                break;
            }
            // Meanwhile all else may be let go.
            let part =
                Part::take(bytes).map_err(|error| TakeError { held: self.state().held, bytes, error })?;
            let mut both = lock(&self.shared);
            if !both.policy.took(bytes, self.begun.elapsed()) {
                break;
            }
            both.held.add(part);
            lacks -= bytes;
        }
        Ok(self.state())
    }

    /// How it stands.
    pub fn state(&self) -> State {
        lock(&self.shared).policy.state()
    }
}

/// Whoever has panicked with it has left it whole.
fn lock(shared: &Mutex<Both>) -> MutexGuard<'_, Both> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets all go as soon as memory gets short, for as long as there is a reserve.
fn watch(shared: &Weak<Mutex<Both>>, begun: Instant, least: u64, told: impl Fn(Event)) {
    let mut shortage = Shortage::new(least);
    let mut is_told = false;
    loop {
        if let Some(why) = shortage.untold().filter(|_| !is_told) {
            told(Event::Untold(why));
            is_told = true;
        }
        let is_short = shortage.wait();
        let Some(shared) = shared.upgrade() else { break };
        if is_short {
            let let_go = {
                let mut both = lock(&shared);
                let let_go = both.policy.short(begun.elapsed());
                both.held.keep(0);
                let_go
            };
            if let_go > 0 {
                told(Event::LetGo(let_go));
            }
        }
    }
}
