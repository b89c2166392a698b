//! How long a recording waits for its agents, and how often it asks them.

use std::time::Duration;

/// How soon an interruption is seen.
pub(crate) const SOON: Duration = Duration::from_millis(50);

/// What a recording allows. Tests of thousands of recordings allow less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long an agent may take to say hello.
    pub(crate) hello: Duration,
    /// How long an agent may take to answer. Loading under emulation takes seconds.
    pub(crate) answer: Duration,
    /// How long all its answers may take together, before it is asked to weave: a kernel has hundreds of modules, of which each
    /// is asked for.
    pub(crate) answers: Duration,
    /// What attaching or detaching a hook may take besides: it takes some tenths of a second, one after the other, in
    /// an emulated machine that has other work.
    pub(crate) hook: Duration,
    /// How often clock readings are exchanged and segments of the trace are closed, while recording.
    pub(crate) round: Duration,
    /// How long flows under way may go on after no new ones begin.
    pub(crate) grace: Duration,
    /// How long it may take, at the end, to find out which domains guests of Xen are now.
    pub(crate) identity: Duration,
    /// How long agents may take to go after they were told to: one may have a thousand hooks to take away, and settings
    /// of the kernel to put back then.
    pub(crate) farewell: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(20),
            answer: Duration::from_secs(120),
            answers: Duration::from_secs(600),
            hook: Duration::from_secs(1),
            round: Duration::from_secs(1),
            grace: Duration::from_millis(300),
            identity: Duration::from_secs(5),
            farewell: Duration::from_secs(20),
        }
    }
}
