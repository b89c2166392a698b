//! Whether a seccomp filter lets a system call through: what the kernel would ask it, asked before.

use super::ptrace::{Instruction, LONGEST_FILTER};

/// include/uapi/linux/seccomp.h, `SECCOMP_RET_ALLOW`.
const ALLOW: u32 = 0x7fff_0000;

/// include/uapi/linux/audit.h, `AUDIT_ARCH_X86_64`.
const X86_64: u32 = 0xc000_003e;

/// A filter's memory, in words (BPF_MEMWORDS).
const MEMORY: usize = 16;

/// What a filter is asked about: `struct seccomp_data`, in words.
pub(super) struct Question([u32; 16]);

impl Question {
    /// A system call, after the instruction there.
    pub(super) fn new(number: u64, instruction: u64, arguments: [u64; 6]) -> Self {
        let mut words = [0; 16];
        words[0] = halves(number)[0];
        words[1] = X86_64;
        words[2..4].copy_from_slice(&halves(instruction));
        for (place, argument) in words[4..].chunks_exact_mut(2).zip(arguments) {
            place.copy_from_slice(&halves(argument));
        }
        Self(words)
    }
}

fn halves(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Whether a filter allows it, and does nothing more about it.
pub(super) fn allows(filter: &[Instruction], question: &Question) -> bool {
    run(filter, question) == Some(ALLOW)
}

/// What a filter answers; none if the kernel would not have taken it (net/core/filter.c, `bpf_check_classic`, and
/// kernel/seccomp.c, `seccomp_check_filter`). It ends: jumps go forwards only.
fn run(filter: &[Instruction], question: &Question) -> Option<u32> {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; MEMORY], 0usize);
    for _ in 0..LONGEST_FILTER {
        let Instruction { code, jt, jf, k } = *filter.get(at)?;
        at += 1;
        let slot = usize::try_from(k).ok();
        let jump = |taken: bool| usize::from(if taken { jt } else { jf });
        match code {
            // ld [k], ld len, ldx len, ld #k, ldx #k, ld M[k], ldx M[k], st M[k], stx M[k]
            0x20 if k % 4 == 0 => a = *question.0.get(slot? / 4)?,
            0x80 => a = 64,
            0x81 => x = 64,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = *memory.get(slot?)?,
            0x61 => x = *memory.get(slot?)?,
            0x02 => *memory.get_mut(slot?)? = a,
            0x03 => *memory.get_mut(slot?)? = x,
            // ret #k, ret a
            0x06 => return Some(k),
            0x16 => return Some(a),
            // tax, txa
            0x07 => x = a,
            0x87 => a = x,
            // ja; jeq, jgt, jge and jset, with k and with x
            0x05 => at = at.checked_add(slot?)?,
            0x15 => at += jump(a == k),
            0x1d => at += jump(a == x),
            0x25 => at += jump(a > k),
            0x2d => at += jump(a > x),
            0x35 => at += jump(a >= k),
            0x3d => at += jump(a >= x),
            0x45 => at += jump(a & k != 0),
            0x4d => at += jump(a & x != 0),
            _ => a = calculate(code, a, if code & 8 == 0 { k } else { x })?,
        }
    }
    None
}

/// add, sub, mul, div, or, and, lsh, rsh, neg, xor, with k and with x. A division by zero ends a filter with 0, which is
/// not to allow.
fn calculate(code: u16, a: u32, operand: u32) -> Option<u32> {
    match code & !8 {
        0x04 => Some(a.wrapping_add(operand)),
        0x14 => Some(a.wrapping_sub(operand)),
        0x24 => Some(a.wrapping_mul(operand)),
        0x34 => a.checked_div(operand),
        0x44 => Some(a | operand),
        0x54 => Some(a & operand),
        0x64 => a.checked_shl(operand),
        0x74 => a.checked_shr(operand),
        0x84 => Some(a.wrapping_neg()),
        0xa4 => Some(a ^ operand),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(instructions: &[(u16, u8, u8, u32)]) -> Vec<Instruction> {
        instructions.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect()
    }

    const DENY: u32 = 0x0005_0001;

    #[test]
    fn a_filter_is_asked_as_the_kernel_would_ask_it() {
        // As libseccomp makes them: the architecture, x32's numbers, then the denied ones.
        let blacklist = filter(&[
            (0x20, 0, 0, 4),
            (0x15, 0, 5, X86_64),
            (0x20, 0, 0, 0),
            (0x35, 0, 1, 0x4000_0000),
            (0x15, 0, 2, u32::MAX),
            (0x15, 1, 0, 425),
            (0x06, 0, 0, ALLOW),
            (0x06, 0, 0, DENY),
        ]);
        let ask = |number| allows(&blacklist, &Question::new(number, 0x1000, [1, 2, 3, 4, 5, 6]));
        assert!(ask(3) && ask(15) && !ask(425) && !ask(0x4000_0003));
    }

    #[test]
    fn arguments_are_seen_in_halves_and_numbers_are_calculated_with() {
        let question = Question::new(425, 0x7f00_0000_1234, [32 | 5 << 32, 7, 0, 0, 0, 9 << 32]);
        let loads = |offset| run(&filter(&[(0x20, 0, 0, offset), (0x16, 0, 0, 0)]), &question);
        assert_eq!((loads(0), loads(8), loads(12)), (Some(425), Some(0x1234), Some(0x7f00)));
        assert_eq!((loads(16), loads(20), loads(24)), (Some(32), Some(5), Some(7)));
        assert_eq!((loads(60), loads(64), loads(2)), (Some(9), None, None));
        // 6 in memory; 7 less of it; masked, and more.
        let calculation = filter(&[
            (0x00, 0, 0, 6),
            (0x02, 0, 0, 3),
            (0x61, 0, 0, 3),
            (0x00, 0, 0, 7),
            (0x1c, 0, 0, 0),
            (0x64, 0, 0, 4),
            (0x44, 0, 0, 3),
            (0x16, 0, 0, 0),
        ]);
        assert_eq!(run(&calculation, &question), Some(19));
    }

    #[test]
    fn what_is_no_filter_allows_nothing() {
        let question = Question::new(425, 0, [0; 6]);
        let broken: [&[(u16, u8, u8, u32)]; 7] = [
            &[],
            &[(0x05, 0, 0, u32::MAX)],
            &[(0x05, 0, 0, 9)],
            &[(0x34, 0, 0, 0), (0x06, 0, 0, ALLOW)],
            &[(0x60, 0, 0, 16), (0x06, 0, 0, ALLOW)],
            &[(0xffff, 0, 0, 0), (0x06, 0, 0, ALLOW)],
            &[(0x06, 0, 0, ALLOW | 1)],
        ];
        for instructions in broken {
            assert!(!allows(&filter(instructions), &question), "{instructions:?}");
        }
        assert!(!allows(&vec![Instruction::default(); 2 * LONGEST_FILTER], &question));
    }
}
