//! Memory that guests hold twice: pages of the same files in their page caches.
//!
//! The idea is that of Kubota, Zheng, Shiba, Takimoto, Saito and Mouri (Memory Deduplication by Identifying File Caches of
//! Guest OSes): pages at the same place of files with the same path are likely equal, so what guests say of their files
//! tells where to look first. Unlike there, no guest, QEMU or host is changed: a guest's agent asks its kernel.
//!
//! Modules: [`tree`] has the files of all guests, each where the others' same ones are; [`estimate`] says what it would give
//! back to hold each of their pages once, and, where guests say what pages hold, whether they are equal; [`host`] says which
//! memory KSM may merge at all. To merge, [`slots`] say where in a process a guest's pages are, [`plan`] which of these to look
//! at, where KSM merges within NUMA nodes only by the [`nodes`] on which they are, and [`ways`] are those by which they are
//! marked: [`mark`] has the process do it, [`qmp`] asks QEMU. [`direct`] has KSM look, [`merged`] says what it has put together,
//! and [`outcome`] what came of it all; [`merging`] does these in turn, [`status`] says what is merged at any time, and
//! [`reserve`] holds memory for what guests write to of it.
//!
//! [`run`] does all that as often as it is scheduled, with the answers that [`page_cache_query`] collects from the guests;
//! [`release`] undoes it.

pub mod direct;
pub mod estimate;
pub mod host;
mod maps;
pub mod mark;
pub mod merged;
pub mod merging;
pub mod nodes;
pub mod outcome;
pub mod page_cache_query;
pub mod plan;
pub mod qmp;
pub mod release;
pub mod reserve;
pub mod run;
pub mod slots;
pub mod status;
pub mod tree;
pub mod ways;

pub use estimate::Estimate;
pub use host::Host;
pub use merged::Merged;
pub use outcome::Outcome;
pub use plan::Plan;
pub use reserve::Reserve;
pub use slots::Slots;
pub use status::Status;
pub use tree::{SameBy, Tree};
pub use ways::Allowed;
