//! The ports at which connections are accepted.

use rustc_hash::FxHashSet;

/// They are no more, in all domains and their network namespaces.
const MOST: usize = 1 << 16;

/// Ports, by domain and network namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    ports: FxHashSet<(u8, u32, u16)>,
    /// Where such are known.
    known: FxHashSet<(u8, u32)>,
}

impl Listeners {
    /// Somebody listens.
    pub(crate) fn listen(&mut self, domain: u8, netns: u32, port: u16) {
        if self.ports.len() < MOST {
            self.ports.insert((domain, netns, port));
            self.known.insert((domain, netns));
        }
    }

    /// Nobody does any more.
    pub(crate) fn close(&mut self, domain: u8, netns: u32, port: u16) {
        self.ports.remove(&(domain, netns, port));
    }

    /// Whether somebody listens.
    pub(crate) fn has(&self, domain: u8, netns: u32, port: u16) -> bool {
        self.ports.contains(&(domain, netns, port))
    }

    /// Whether it is known who listens there: then others do not.
    pub(crate) fn knows(&self, domain: u8, netns: u32) -> bool {
        self.known.contains(&(domain, netns))
    }

    /// How many ports there are.
    pub(crate) fn len(&self) -> usize {
        self.ports.len()
    }
}
