//! The main job, on real kernels: needs a world that is up. `make lab-test` boots one per kernel, and one
//! with Xen for the tests of [`xen`], [`xen_blk`], [`xen_net`] and [`xen_trace`], and names it in `XWEAVE_WORLD`; without it,
//! each test says that it was skipped.

#![allow(clippy::unwrap_used, reason = "in a test, that is the message")]

mod agent_lifetime;
mod agent_trust;
mod back_ends;
mod built_in;
mod capture;
mod clean;
mod clocks;
mod compiled;
mod confined;
mod cost;
mod crossing;
mod disks;
mod events;
mod experiments;
mod frames;
mod held;
mod hostile_guest;
mod instructions;
mod interrupted;
mod interrupts;
mod kernel_safety;
mod keys;
mod latency;
mod library;
mod loss;
mod merge;
mod misuse;
mod page_cache;
mod places;
mod processor_time;
mod programs;
mod questions;
mod rebuilt;
mod recorded;
mod reserve;
mod selected;
mod taken_over;
mod told;
mod topology;
mod under_fire;
mod variation;
mod world;
mod xen;
mod xen_blk;
mod xen_net;
mod xen_trace;
