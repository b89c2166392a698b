/// The series of kernels that the library is compiled for, the oldest first. What the others of `bpf/kernels` do not share
/// with them is seen in the table of `docs/kernels.md`.
pub const COMPILED_FOR: [&str; 3] = ["6.1", "6.12", "7.3"];

/// The C programs in `bpf` that are compiled with the library and are no aspects: [`page_cache()`] and [`kvm_slots()`].
pub const FILES: [&str; 2] = ["page-cache.c", "kvm-slots.c"];
