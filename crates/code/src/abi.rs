//! What a function's code takes from its caller, by the System V ABI.
//!
//! Type information may be of another function than the code: of several static functions with one name, compilers
//! may leave one, and `pahole` before 1.25 describes whichever it meets first. Linux 6.1 of Debian says so of `mm_init`,
//! which is `void mm_init(void)` of init/main.c by its type and takes three arguments by its code (kernel/fork.c). What
//! saves as many arguments as the type has, as the kernel's trampolines do, then loses the others.

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};

/// The registers for arguments, in their order.
const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// No more instructions are followed: what a function does with an argument it mostly does soon.
const INSTRUCTIONS: usize = 4096;

/// How many registers for arguments a function takes at least: up to the last that some path from its entry reads before
/// it is written. `code` are its bytes from its entry on, and may end before it does. What it merely hands on to functions
/// that it calls is not seen.
pub fn arguments_read(code: &[u8]) -> usize {
    let mut info = InstructionInfoFactory::new();
    let mut read = 0u8;
    // By address: the registers that were as the caller left them, on the paths that were followed from there.
    let mut followed: HashMap<u64, u8> = HashMap::new();
    let mut paths = vec![(body(code), 0b11_1111u8)];
    let mut left = INSTRUCTIONS;
    while let Some((start, mut whole)) = paths.pop() {
        let Some(bytes) = usize::try_from(start).ok().and_then(|start| code.get(start..)) else { continue };
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        while whole != 0 && left > 0 && decoder.can_decode() {
            let at = decoder.ip();
            let known = followed.entry(at).or_default();
            if whole & !*known == 0 {
                break;
            }
            *known |= whole;
            left -= 1;
            let instruction = decoder.decode();
            // A call ends what is known: the registers are the callee's.
            let flow = instruction.flow_control();
            if instruction.is_invalid() || matches!(flow, FlowControl::Call | FlowControl::IndirectCall) {
                break;
            }
            // `sbb edx, edx` reads the carry alone; what `xor` and `sub` of one register clear, iced knows.
            let clears = instruction.mnemonic() == Mnemonic::Sbb
                && instruction.op0_register() != Register::None
                && instruction.op0_register() == instruction.op1_register();
            for used in info.info(&instruction).used_registers() {
                let Some(nth) = ARGUMENTS.iter().position(|of| *of == used.register().full_register()) else {
                    continue;
                };
                let bit = 1 << nth;
                let reads =
                    !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite | OpAccess::NoMemAccess);
                if reads && !clears {
                    read |= whole & bit;
                }
                if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) {
                    whole &= !bit;
                }
            }
            let target = || instruction.near_branch_target();
            match flow {
                FlowControl::Next => {}
                FlowControl::ConditionalBranch => paths.push((target(), whole)),
                FlowControl::UnconditionalBranch => {
                    paths.push((target(), whole));
                    break;
                }
                _ => break,
            }
        }
    }
    (u8::BITS - read.leading_zeros()) as usize
}

/// Where a function's own code begins: behind `endbr64` and the call, or the room for one, that its tracer has there.
fn body(code: &[u8]) -> u64 {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const NOP: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00];
    const CALL: &[u8] = &[0xe8];
    let marked = if code.starts_with(ENDBR64) { ENDBR64.len() } else { 0 };
    let rest = code.get(marked..).unwrap_or_default();
    let traced = if rest.starts_with(NOP) || rest.starts_with(CALL) { NOP.len() } else { 0 };
    (marked + traced) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_before_it_is_written_is_an_argument() {
        let cases: [(&[u8], usize, &str); 10] = [
            (&[0xc3], 0, "ret"),
            (&[0x48, 0x89, 0xf8, 0xc3], 1, "mov rax, rdi; ret"),
            (&[0x31, 0xf6, 0x89, 0xf0, 0xc3], 0, "xor esi, esi; mov eax, esi; ret"),
            (&[0x29, 0xd2, 0x89, 0xd0, 0xc3], 0, "sub edx, edx; mov eax, edx; ret"),
            (&[0x19, 0xd2, 0x89, 0xd0, 0xc3], 0, "sbb edx, edx; mov eax, edx; ret"),
            (
                &[0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0, 0, 0x8b, 0x02, 0xc3],
                3,
                "endbr64; nop; mov eax, [rdx]",
            ),
            (&[0xe8, 1, 2, 3, 4, 0x89, 0xf0, 0xc3], 2, "call tracer; mov eax, esi; ret"),
            (&[0x90, 0xe8, 1, 2, 3, 4, 0x89, 0xf0, 0xc3], 0, "nop; call other; mov eax, esi; ret"),
            (
                &[0x74, 0x03, 0x31, 0xc9, 0xc3, 0x89, 0xc8, 0xc3],
                4,
                "je 1f; xor ecx, ecx; ret; 1: mov eax, ecx; ret",
            ),
            (&[0xba, 1, 0, 0, 0, 0x89, 0xd0, 0xeb, 0xf7], 0, "1: mov edx, 1; mov eax, edx; jmp 1b"),
        ];
        for (code, expected, text) in cases {
            assert_eq!(arguments_read(code), expected, "{text}");
        }
    }

    #[test]
    fn any_bytes_come_to_an_end() {
        for seed in 0..2_000u32 {
            let mut state = seed.wrapping_mul(2_654_435_761) | 1;
            let code: Vec<u8> = (0..300)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    state.to_le_bytes()[0]
                })
                .collect();
            assert!(arguments_read(&code) <= ARGUMENTS.len());
        }
    }
}
