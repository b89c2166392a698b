//! What each instruction, exit and hypercall costs under a hypervisor.
mod assembly;
pub mod table;
/// The process.
pub const PROCESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/process"));
