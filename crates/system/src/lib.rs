//! This machine, as its kernel lets programs read and set it. Knows nothing of BPF, sessions or transports.
//!
//! Reading: [`facts`] describes the domain, with its settings from `settings_snapshot`; [`kvm`] lists virtual machines, with
//! what serves their devices (`back_ends`) and what their processes' [`command_line`]s contain; [`clock`] reads the TSC and
//! the kernel's clocks, [`pagemap`] where pages are in memory, [`kallsyms`] where functions are, [`xenstore`] which domain of
//! Xen is which.
//!
//! Setting: every change is first written to the `settings_journal`, so that the previous value is restored even after
//! SIGKILL. [`fast_attach`] makes attaching probes fast, [`knobs`] are the settings of experiments (CPU `affinity` among
//! them), [`ksm`] directs KSM; the last two are `exclusive` to one process. [`restore`] restores what killed processes have
//! left. [`background`] lowers the scheduling class of this process itself.

mod affinity;
mod back_ends;
pub mod background;
pub mod clock;
pub mod command_line;
mod exclusive;
pub mod facts;
pub mod fast_attach;
pub mod kallsyms;
pub mod knobs;
pub mod ksm;
pub mod kvm;
pub mod pagemap;
pub mod restore;
mod settings_journal;
mod settings_snapshot;
pub mod xenstore;

pub use background::Background;
pub use facts::read_facts;
pub use restore::restore_settings;
pub use settings_journal::StaleSetting;
