/// The series of kernels that the library is compiled for, the oldest first. What the others of `bpf/kernels` do not share
/// with them is seen in the table of `docs/kernels.md`.
pub const COMPILED_FOR: [&str; 3] = ["6.1", "6.12", "7.3"];
