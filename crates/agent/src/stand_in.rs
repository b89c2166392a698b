//! A spare without code of its own: a few instructions that jump into its program.
//!
//! The kernel leaves a program out by who is called from the trampoline, and not by whose code runs: so the spare may
//! run the very code of the program that was left out. Its cookie is the spare's all the same, which the kernel finds by
//! who was called. The verifier then goes through each program once, and not twice.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use libbpf_sys::bpf_insn;

/// Where a spare finds its program. When the last descriptor of it is closed, the kernel empties it.
pub(crate) struct Target(MapHandle);

impl Target {
    /// One for each program: kernels since 6.12 let an array have programs of one function only.
    pub(crate) fn new(program: BorrowedFd<'_>) -> Result<Self, libbpf_rs::Error> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let array = MapHandle::create(MapType::ProgArray, Some("xw_stand_in"), 4, 4, 1, &options)?;
        array.update(&0u32.to_le_bytes(), &program.as_raw_fd().to_le_bytes(), MapFlags::ANY)?;
        Ok(Self(array))
    }

    /// The spare's instructions.
    pub(crate) fn instructions(&self) -> Vec<bpf_insn> {
        jump(self.0.as_fd().as_raw_fd())
    }
}

/// `bpf_tail_call(ctx, array, 0); return 0;` (include/uapi/linux/bpf.h). The context is in register 1 already; that the
/// number is a constant lets the kernel make a direct jump of the call.
fn jump(array: i32) -> Vec<bpf_insn> {
    const WIDE_LOAD: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const TAIL_CALL: i32 = 12;
    let instruction = |code, register, imm| {
        let mut instruction = bpf_insn { code, imm, ..Default::default() };
        instruction.set_dst_reg(register);
        instruction
    };
    let mut load = instruction(WIDE_LOAD, 2, array);
    load.set_src_reg(1); // BPF_PSEUDO_MAP_FD
    vec![
        load,
        bpf_insn::default(),
        instruction(MOVE, 3, 0),
        instruction(CALL, 0, TAIL_CALL),
        instruction(MOVE, 0, 0),
        instruction(EXIT, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_is_six_instructions_that_refer_to_its_array() {
        let spare = jump(7);
        let mut words = spare.iter().map(|one| (one.code, one.dst_reg(), one.src_reg(), one.imm));
        let expected = [(0x18, 2, 1, 7), (0, 0, 0, 0), (0xb7, 3, 0, 0), (0x85, 0, 0, 12), (0xb7, 0, 0, 0)];
        assert_eq!(words.by_ref().take(5).collect::<Vec<_>>(), expected);
        assert_eq!(words.collect::<Vec<_>>(), [(0x95, 0, 0, 0)]);
    }
}
